"""What a center of an encrypted run knows: the sums that it has taken in, and what the master makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

import numpy as np

from vedute.core.layout import Layout
from vedute.core.params import Array, GlobalPrior
from vedute.data.scaling import Scaler, Sums, from_vectors, standard_scaler, view_scaler
from vedute.data.settings import FederationSettings
from vedute.federation.bounds import check_prior, check_scaler, check_sums, check_total
from vedute.federation.checkpoint import Snapshot, build_snapshot, latest, read_named, snapshot_arrays, write_named
from vedute.federation.encrypted import first_link, prior_size, round_of, sums_before_rounds
from vedute.federation.fitting import starting_prior
from vedute.federation.inspection import inspect_sums
from vedute.federation.loop import Progress, advance
from vedute.federation.model_file import build_prior, prior_arrays
from vedute.federation.packing import unpack
from vedute.federation.protocol import Question, Refused
from vedute.federation.settings import Settings

AGREE = 1e-6  # relative: how well the priors of all centers must agree; machines round differently in the 16th digit


@dataclass(frozen=True)
class Known:
    """Where a center stands after it has taken in ``taken`` sums; ``before`` is the chain without the last of them."""

    progress: Progress
    chain: str
    before: str = ""
    taken: int = 0
    sums: Sums | None = None
    scaler: Scaler | None = None


def nothing_known(question: Question, layout: Layout) -> Known:
    """Before the first sum."""
    return Known(Progress(starting_prior(layout, question.settings)), first_link(question.run, question.study))


def take_in(
    known: Known,
    vector: Array,
    prior: bytes,
    among: tuple[str, ...],
    settings: Settings,
    columns: Mapping[str, tuple[str, ...]],
    limits: FederationSettings,
) -> Known:
    """The master's step of the next sum, once that is found to be one.

    ``vector`` is what was decrypted, ``prior`` (in a round) the prior that one of its centers held.
    """
    layout, number = _layout(columns), known.taken + 1
    if vector[0] != len(among) or len(set(among)) != len(among):
        raise Refused("the encrypted sum adds other centers than were named")
    if len(among) < limits.minimum_centers:
        raise Refused(f"the encrypted sum adds {len(among)} centers; the study needs {limits.minimum_centers}")
    if round_of(number, settings) >= 1:
        common = common_prior(prior, known.progress.prior, layout, settings.n_components)
        progress = _round(replace(known.progress, prior=common), vector[1:], among, settings, layout, limits)
        return replace(known, taken=number, progress=progress)
    d = layout.total
    if number < sums_before_rounds(settings):
        sums = Sums(vector[1 : 1 + d], vector[1 + d :])
        check_sums({"counts": sums.counts, "sums": sums.sums}, layout, layout)
        return replace(known, taken=number, sums=sums)
    assert known.sums is not None
    check_sums({"squares": vector[1:]}, layout, layout)
    inspect_sums([f"{view}.{name}" for view in layout.names for name in columns[view]], known.sums.counts, vector[1:])
    make = view_scaler if settings.scaling == "shared-view" else standard_scaler
    scaler = make(layout, known.sums, vector[1:])
    check_scaler(*scaler.vectors(layout))
    return replace(known, taken=number, scaler=scaler)


def _round(
    old: Progress, vector: Array, among: tuple[str, ...], settings: Settings, layout: Layout, limits: FederationSettings
) -> Progress:
    if old.converged:
        raise Refused("the rounds had settled; there is no further sum")
    total = unpack(vector, layout, settings.n_components)
    check_total(total, len(among))
    try:
        progress = advance(old, {"all": total}, settings.master_rule(), settings.tol, perf_counter(), (0, 0))
    except (np.linalg.LinAlgError, ArithmeticError, ValueError) as error:
        raise Refused(f"the encrypted sum leads to no prior ({error})") from None
    check_prior(progress.prior, limits.smallest_sd, limits.largest_sd)
    record = replace(progress.history[-1], centers=among)
    return replace(progress, history=(*old.history, record))


def prior_bytes(prior: GlobalPrior, layout: Layout) -> bytes:
    """A prior, for the other centers."""
    return np.concatenate([part.ravel() for part in prior_arrays(prior, layout).values()]).astype("<f8").tobytes()


def common_prior(data: bytes, own: GlobalPrior, layout: Layout, q: int) -> GlobalPrior:
    """The prior of another center to go on from; it must be this center's own but for rounding."""
    mine = prior_arrays(own, layout)
    if len(data) != 8 * prior_size(layout, q):
        raise Refused("another center's prior has another size")
    theirs, at, numbers = {}, 0, np.frombuffer(data, dtype="<f8")
    for name, part in mine.items():
        theirs[name] = numbers[at : at + part.size].reshape(part.shape)
        at += part.size
    for name, part in mine.items():
        size = float(np.abs(part[np.isfinite(part)]).max(initial=0.0))
        if not np.allclose(theirs[name], part, rtol=AGREE, atol=AGREE * size):
            raise Refused("the centers do not hold the same prior: one of them was told other sums than this one")
    return build_prior(theirs, layout)


def load_known(folder: Path, question: Question, layout: Layout) -> Known:
    """What the center wrote down, or nothing."""
    found = latest(folder, "round")
    if found is None:
        return nothing_known(question, layout)
    arrays, names = read_named(found)
    sums = Sums(arrays["counts"], arrays["sums"]) if "sums" in arrays else None
    scaler = from_vectors(layout, arrays["shift"], arrays["scale"]) if "shift" in arrays else None
    progress = build_snapshot(arrays, names, layout).progress
    return Known(progress, names["chain"], names["before"], names["taken"], sums, scaler)


def save_known(folder: Path, known: Known, layout: Layout) -> None:
    """One file, in one step; the one before goes."""
    arrays, names = snapshot_arrays(Snapshot(known.progress, {}), layout)
    if known.sums is not None:
        arrays |= {"counts": known.sums.counts, "sums": known.sums.sums}
    if known.scaler is not None:
        arrays |= dict(zip(("shift", "scale"), known.scaler.vectors(layout), strict=True))
    names |= {"chain": known.chain, "before": known.before, "taken": known.taken}
    write_named(folder, "round", known.taken, arrays, names)


def _layout(columns: Mapping[str, tuple[str, ...]]) -> Layout:
    return Layout(tuple(columns), tuple(len(names) for names in columns.values()))
