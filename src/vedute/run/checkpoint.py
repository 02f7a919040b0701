"""Checkpoints: where the rounds stand, on disk, so that a kill at any moment costs about a second.

A checkpoint is one file whose name tells its round and its checksum: it appears in one step, and a damaged one is
noticed. What the centers read is written once, as soon as it is read; it holds values of patients and stays at home.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vedute.data.files import ASIDE, from_json, from_npz, put_in_place, read_whole, said_plainly, sha256_of
from vedute.data.scaling import Scaler, from_vectors
from vedute.errors import UserError
from vedute.model.master import Memory
from vedute.model.parameters import Array, Layout, Schema
from vedute.model.stacked import State
from vedute.model.statistics import Statistics
from vedute.run.center import CenterData
from vedute.run.fitted_model import build_prior, prior_arrays
from vedute.run.protocol import Progress, Record

SECONDS = 0.5  # between checkpoints: half of what a kill may cost, the other half is for the write and the round
PATIENCE = 20  # a checkpoint that takes long is written more rarely: at most one part in this of the time
NAME = re.compile(r"(\w+)-(\d{6})-([0-9a-f]{16})\.npz")
META = "description.json"  # the entry that tells the names
STATE = ("mu", "W", "sigma2", "m", "cov")
STATISTICS = ("mask", "n", "mean", "factor", "owner")


@dataclass(frozen=True)
class Snapshot:
    """All that a run needs to go on: the prior and history, and the state that each center keeps at home."""

    progress: Progress
    states: Mapping[str, State]


States = Callable[[], Mapping[str, State]]


class Checkpoints:
    """The folder ``checkpoint`` of a run: its scaling and its rounds.

    Centers in this process (``states``) are written down with the rounds, about every half second and beside them. A
    server whose centers are elsewhere writes each round down before it asks for the next, which cannot be asked twice.
    """

    def __init__(self, folder: Path, layout: Layout, states: States | None = None) -> None:
        self.folder, self.layout = folder, layout
        self.begun = load_snapshot(folder, layout)  # from where a resumed run goes on
        self._states = states
        self._writer = ThreadPoolExecutor(1)
        self._pending: Future[float] | None = None
        self._last: Snapshot | None = None
        self._written = 0
        self._next = perf_counter() + SECONDS

    def scaler(self) -> Scaler | None:
        """The scaling that was agreed on, if it was."""
        if (kept := latest(self.folder, "scaling")) is None:
            return None
        arrays, _ = read_named(kept)
        return from_vectors(self.layout, arrays["shift"], arrays["scale"])

    def note_scaler(self, scaler: Scaler) -> None:
        """A scaling was agreed on."""
        shift, scale = scaler.vectors(self.layout)
        write_named(self.folder, "scaling", 0, {"shift": shift, "scale": scale}, {})

    def progress(self) -> Progress | None:
        """Where the rounds stand, if there were any."""
        return None if self.begun is None else self.begun.progress

    def note(self, progress: Progress) -> None:
        """A round has ended; write it down if it is time to."""
        if self._states is None:
            self._write(Snapshot(progress, {}))
            return
        self._last = Snapshot(progress, self._states())
        if self._pending is not None and self._pending.done():
            self._settle()
        if self._pending is None and perf_counter() >= self._next:
            self._next = perf_counter() + SECONDS
            self._pending = self._writer.submit(self._write, self._last)

    def close(self) -> None:
        """Write the last round down, whatever ended the run."""
        with self._writer:
            self._settle()
            if self._last is not None and self._written < len(self._last.progress.history):
                self._write(self._last)

    def _settle(self) -> None:
        if self._pending is not None:
            pending, self._pending = self._pending, None
            self._next = max(self._next, perf_counter() + PATIENCE * pending.result())

    def _write(self, snapshot: Snapshot) -> float:
        began = perf_counter()
        arrays, names = snapshot_arrays(snapshot, self.layout)
        write_named(self.folder, "round", len(snapshot.progress.history), arrays, names)
        self._written = len(snapshot.progress.history)
        return perf_counter() - began


def snapshot_arrays(snapshot: Snapshot, layout: Layout) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """A snapshot as named arrays and a description."""
    memory, basis = snapshot.progress.memory, snapshot.progress.basis
    arrays = prior_arrays(snapshot.progress.prior, layout)
    if basis is not None:
        arrays["basis"] = basis
    if memory.inputs:
        arrays |= {"memory.inputs": np.stack(memory.inputs), "memory.outputs": np.stack(memory.outputs)}
    for c, state in enumerate(snapshot.states.values()):
        arrays |= {f"state{c}.{part}": value for part, value in state_arrays(state).items()}
    names = {
        "centers": list(snapshot.states),
        "converged": snapshot.progress.converged,
        "history": [asdict(record) for record in snapshot.progress.history],
    }
    return arrays, names


def load_snapshot(folder: Path, layout: Layout) -> Snapshot | None:
    """The latest checkpoint, or None if there is none yet."""
    found = latest(folder, "round")
    return None if found is None else build_snapshot(*read_named(found), layout)


def build_snapshot(arrays: Mapping[str, NDArray[Any]], names: Mapping[str, Any], layout: Layout) -> Snapshot:
    """The snapshot again."""
    history = tuple(_record(line) for line in names["history"])
    memory = Memory(tuple(arrays.get("memory.inputs", ())), tuple(arrays.get("memory.outputs", ())))
    progress = Progress(build_prior(arrays, layout), history, names["converged"], memory, arrays.get("basis"))
    states = (build_state(_part(arrays, f"state{c}.")) for c in range(len(names["centers"])))
    return Snapshot(progress, dict(zip(names["centers"], states, strict=True)))


def _record(line: dict[str, Any]) -> Record:
    spreads = {view: tuple(found) for view, found in line["spreads"].items()}
    return Record(**{**line, "centers": tuple(line["centers"]), "spreads": spreads})


def _part(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def state_arrays(state: State) -> dict[str, Array]:
    """The state of a center as named arrays."""
    return {part: value for part in STATE if (value := getattr(state, part)) is not None}


def build_state(arrays: Mapping[str, NDArray[Any]]) -> State:
    """The state again."""
    return State(*(arrays.get(part) for part in STATE))  # type: ignore[arg-type]


def save_data(folder: Path, schema: Schema, data: Mapping[str, CenterData], origin: Any) -> None:
    """Keep what the centers read, and where from (``origin``), so that a resumed run need not read it again."""
    arrays: dict[str, NDArray[Any]] = {}
    for c, part in enumerate(data.values()):
        s = part.statistics
        arrays |= {f"center{c}.{name}": getattr(s, name) for name in STATISTICS}
        arrays |= {f"center{c}.low": part.low, f"center{c}.high": part.high}
    names = {
        "views": {view: list(listed) for view, listed in schema.columns.items()},
        "centers": {name: list(part.statistics.layout.names) for name, part in data.items()},
        "fingerprints": {name: part.digest for name, part in data.items()},
        "origin": origin,
    }
    write_named(folder, "data", 0, arrays, names)


def load_data(folder: Path) -> tuple[Schema, dict[str, CenterData], Any] | None:
    """Views and columns, what the centers read, and its origin; None if they had not finished."""
    found = latest(folder, "data")
    if found is None:
        return None
    arrays, names = read_named(found)
    schema, data = Schema(names["views"]), {}
    for c, (center, held) in enumerate(names["centers"].items()):
        parts = [arrays[f"center{c}.{name}"] for name in STATISTICS]
        statistics = Statistics(schema.layout.restrict(held), *parts)
        ends = arrays[f"center{c}.low"], arrays[f"center{c}.high"]
        data[center] = CenterData(statistics, *ends, names["fingerprints"][center])
    return schema, data, names["origin"]


def write_named(folder: Path, kind: str, number: int, arrays: Mapping[str, NDArray[Any]], names: object) -> None:
    """A file ``kind-number-checksum.npz``; older ones of its kind go when it is there."""
    aside = folder / f"{ASIDE}{kind}-{secrets.token_hex(4)}.npz"
    older = [path for path, earlier in _all(folder, kind) if earlier <= number]
    try:
        with said_plainly(folder):
            folder.mkdir(parents=True, exist_ok=True)
            described = np.frombuffer(json.dumps(names).encode(), dtype=np.uint8)
            np.savez(aside, allow_pickle=False, **arrays, **{META: described})
            path = folder / f"{kind}-{number:06d}-{sha256_of(aside)[:16]}.npz"
            put_in_place(aside, path)
    finally:
        aside.unlink(missing_ok=True)
    for old in older:
        if old != path:
            old.unlink(missing_ok=True)


def read_named(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Arrays and names of a file whose name tells its checksum."""
    matched = NAME.fullmatch(path.name)
    if matched is None or sha256_of(path)[:16] != matched[3]:
        raise UserError(
            f"{path}: its checksum is wrong, so the file was damaged after it was written; "
            "restore it from a copy, or begin again with --force"
        )
    arrays = from_npz(read_whole(path), path)
    return arrays, from_json(arrays.pop(META).tobytes(), path)


def latest(folder: Path, kind: str) -> Path | None:
    """The file of a kind with the highest number."""
    found = _all(folder, kind)
    return max(found, key=lambda pair: pair[1])[0] if found else None


def _all(folder: Path, kind: str) -> list[tuple[Path, int]]:
    matches = [(path, NAME.fullmatch(path.name)) for path in folder.glob(f"{kind}-*.npz")]
    return [(path, int(m[2])) for path, m in matches if m is not None and m[1] == kind]
