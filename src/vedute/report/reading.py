"""All that a run folder holds for a report, read once; what is not there is None or empty."""

from __future__ import annotations

import csv
import io
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from vedute.data.files import from_json, read_whole
from vedute.errors import UserError
from vedute.estimator import FederatedPPCA
from vedute.model.parameters import Array
from vedute.privacy import hash_chain
from vedute.run.latent import DATA, LATENT
from vedute.run.model_choice import Choice
from vedute.run.protocol import Record
from vedute.run.run_folder import LOCAL, RUN, STUDY, Run, load_run

SELECTION = "selection.csv"


@dataclass(frozen=True)
class LatentMeans:
    """The latent means of a center's subjects, which never left home."""

    ids: tuple[str, ...]
    groups: tuple[str, ...] | None
    x: Array


@dataclass(frozen=True)
class Seen:
    """How many subjects of a center have a view, and how many cells of their rows are empty."""

    subjects: int
    empty: int


@dataclass(frozen=True)
class Folder:
    """A run and what lies beside it."""

    name: str
    run: Run
    counts: Mapping[str, int] = field(default_factory=dict)  # subjects of each center
    seen: Mapping[str, Mapping[str, Seen]] = field(default_factory=dict)  # center -> view
    subjects: Mapping[str, LatentMeans] = field(default_factory=dict)
    ledgers: Mapping[str, tuple[hash_chain.Record, ...]] = field(default_factory=dict)  # without their first line
    asked: Mapping[str, Any] = field(default_factory=dict)  # the privacy that the fit was asked for
    choices: tuple[Choice, ...] = ()  # numbers of components that were compared
    recommended: int | None = None  # which of them
    misfits: Mapping[int, float] = field(default_factory=dict)  # of released moments, where a policy keeps rows away
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def centers(self) -> tuple[str, ...]:
        """All centers that took part, whether or not their parameters and their own scaling are known."""
        return tuple(self.run.model.scalers) or (self.run.history[-1].centers if self.run.history else ())


def read_folder(path: Path) -> Folder:
    """The run folder, its files compared with their checksums."""
    run = load_run(path)
    described = from_json(read_whole(path / RUN), path / RUN)
    local = {center: path / LOCAL / center for center in run.model.scalers}
    held = {center: folder for center, folder in local.items() if _inside(folder, path / LOCAL)}
    data = {name: from_json(read_whole(f / DATA), f / DATA) for name, f in held.items() if _has(f, DATA)}
    return Folder(
        title_of(path),
        run,
        {name: int(told["subjects"]) for name, told in data.items()},
        {name: read_seen(told["views"]) for name, told in data.items() if "views" in told},
        {name: _subjects(f / LATENT, run.model.prior.q) for name, f in held.items() if _has(f, LATENT)},
        dict(_ledger(file) for file in sorted(path.glob("ledger-*.jsonl"))),
        described["settings"].get("privacy") or {},
        versions=described["versions"],
        **_selection(path / SELECTION),
    )


def from_estimator(estimator: FederatedPPCA, name: str = "") -> Folder:
    """A model in memory as a folder that holds no rows."""
    history = tuple(Record(**record) for record in estimator.history_)
    return Folder(name, Run(estimator.model_, history, estimator.converged_))


def _inside(folder: Path, root: Path) -> bool:
    """A center's name comes from a file, so it may not lead out of the folder."""
    return folder.resolve().parent == root.resolve()


def read_seen(views: Mapping[str, Mapping[str, int]]) -> dict[str, Seen]:
    """What ``data.json`` tells of the views of a center."""
    return {view: Seen(int(told["subjects"]), int(told["empty"])) for view, told in views.items()}


def _has(folder: Path, name: str) -> bool:
    return (folder / name).is_file()


def title_of(path: Path) -> str:
    """The name that the study gives itself, or else that of the folder."""
    text = read_whole(path / STUDY).decode() if (path / STUDY).exists() else ""
    name = tomllib.loads(text).get("study", {}).get("name", "")
    return name if name and isinstance(name, str) else path.resolve().name


def _subjects(path: Path, q: int) -> LatentMeans:
    head, *rows = csv.reader(io.StringIO(read_whole(path).decode(), newline=""))
    numbers = [[float(cell) for cell in row[-q:]] for row in rows]
    groups = tuple(row[head.index("group")] for row in rows) if "group" in head[:-q] else None
    return LatentMeans(tuple(row[0] for row in rows), groups, np.array(numbers).reshape(len(rows), q))


def _ledger(path: Path) -> tuple[str, tuple[hash_chain.Record, ...]]:
    head, *records = hash_chain.read(path, copy=True).records or ({},)
    if "center" not in head:
        raise UserError(f"{path}: is empty or not a ledger; copy it again from the center, or remove it")
    return str(head["center"]), tuple(records)


def _selection(path: Path) -> dict[str, Any]:
    """What ``vedute select`` compared: by WAIC, or under a policy by how well the released moments are met."""
    if not path.is_file():
        return {}
    rows = list(csv.DictReader(io.StringIO(read_whole(path).decode(), newline="")))
    try:
        if rows and "misfit" in rows[0]:
            return {"misfits": {int(row["components"]): float(row["misfit"]) for row in rows}}
        marks = [row["recommended"] == "True" for row in rows]
        found = marks.index(True) if True in marks else None
        return {"choices": tuple(_choice(row) for row in rows), "recommended": found}
    except (KeyError, ValueError, TypeError):
        raise UserError(
            f"{SELECTION}: is not what vedute writes there; run 'vedute select' again, or remove the file"
        ) from None


def _choice(row: Mapping[str, str]) -> Choice:
    numbers = {name: float(row[name]) for name in ("waic", "se", "difference", "difference_se", "p_waic", "mae")}
    return Choice(
        int(row["components"]), row["scaling"] or None, **numbers, rounds=int(row["rounds"]),
        converged=row["converged"] == "True",
    )  # fmt: skip
