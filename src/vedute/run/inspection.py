"""A look at all centers' statistics before the rounds: refuse what no fit survives, warn of what is odd."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from vedute.errors import DataWarning, UserError
from vedute.model.parameters import Array
from vedute.model.schema import Schema
from vedute.model.statistics import Statistics


def inspect_centers(schema: Schema, centers: Mapping[str, Statistics]) -> None:
    """Complain about features that tell nothing and about centers that nothing ties together."""
    layout, names = schema.layout, named_features(schema)
    seen, varies = np.zeros(layout.total, dtype=bool), np.zeros(layout.total, dtype=bool)
    low, high = np.full(layout.total, np.inf), np.full(layout.total, -np.inf)
    for center, statistics in centers.items():
        require_subjects(center, statistics)
        own = np.concatenate([np.arange(layout.total)[layout.slices[view]] for view in statistics.layout.names])
        counts = statistics.counts()
        mean = statistics.sums() / np.maximum(counts, 1.0)
        moving = statistics.squares_about(mean) > 1e-20 * np.maximum(counts * mean**2, 1e-300)
        here = counts > 0
        _warn_of_columns(center, names, own, here, moving)
        seen[own] |= here
        varies[own] |= moving
        low[own] = np.where(here, np.minimum(low[own], mean), low[own])
        high[own] = np.where(here, np.maximum(high[own], mean), high[own])
    _refuse(names, ~seen, "missing for all subjects of all centers")
    _refuse(names, ~(varies | (high > low)), "constant over all centers")
    _warn_untied(centers)


def named_features(schema: Schema) -> list[str]:
    """All columns, each with its view."""
    return [f"{view}.{column}" for view, columns in schema.columns.items() for column in columns]


def require_subjects(center: str, statistics: Statistics) -> None:
    """At least two subjects, of whom something was observed."""
    if statistics.n_rows == 0:
        raise UserError(f"center {center!r}: nothing was observed for any subject; leave the center out")
    if statistics.n_rows == 1:
        raise UserError(f"center {center!r} has one subject, which tells nothing of variation; leave it out")


def inspect_sums(schema: Schema, counts: Array, squares: Array) -> None:
    """The same complaints about features from sums over centers elsewhere."""
    names = named_features(schema)
    _refuse(names, counts == 0, "missing for all subjects of all centers")
    _refuse(names, (counts > 0) & (squares <= 0), "constant over all centers")


def _warn_of_columns(
    center: str, names: list[str], own: NDArray[np.intp], here: NDArray[np.bool_], moving: NDArray[np.bool_]
) -> None:
    for bad, what in ((~here, "missing for all subjects"), (here & ~moving, "constant")):
        if bad.any():
            listed = _listed([names[j] for j in own[bad]])
            _warn(f"center {center!r}: {listed} {_is(bad)} {what}; the fit goes on, other centers inform it")


def _refuse(names: list[str], bad: NDArray[np.bool_], what: str) -> None:
    if bad.any():
        listed = _listed([names[j] for j in np.flatnonzero(bad)])
        raise UserError(f"{listed} {_is(bad)} {what}: it tells nothing; leave it out of its view")


def _is(bad: NDArray[np.bool_]) -> str:
    return "is" if bad.sum() == 1 else "are"


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return ("column " if len(names) == 1 else "columns ") + shown


def _warn_untied(centers: Mapping[str, Statistics]) -> None:
    held = {name: set(statistics.layout.names) for name, statistics in centers.items()}
    first, *rest = held
    tied = set(held[first])
    while joining := [name for name in rest if held[name] & tied]:
        for name in joining:
            tied |= held[name]
            rest.remove(name)
    if rest:
        _warn(
            f"center {rest[0]!r} has no view in common with {first!r}, not even through other centers: "
            "their latent spaces are not tied, so compare each only with itself"
        )


def _warn(message: str) -> None:
    warnings.warn(message, DataWarning, stacklevel=4)
