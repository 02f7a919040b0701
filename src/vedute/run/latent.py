"""What a center keeps at home after a fit: where its subjects lie in the latent space, and their groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from vedute.data.files import said_plainly, to_json, write_whole
from vedute.data.rows import StudyRows
from vedute.data.stream import Chunk, Pool
from vedute.data.writers import TableWriter, table_writer
from vedute.model.parameters import Array
from vedute.run.fitted_model import Model

LATENT, DATA = "latent.csv", "data.json"
OPEN_FILES = 256  # at once: systems allow a process about a thousand


def components(q: int) -> list[str]:
    """Names of the latent components."""
    return [f"component{k + 1}" for k in range(q)]


def chunk_views(chunk: Chunk, model: Model) -> Mapping[str, Array]:
    """The views that the subjects of a chunk have; one of empty cells if none, since rows must come from somewhere."""
    held = {name: block for name, block in chunk.views.items() if not np.isnan(block).all()}
    if held:
        return held
    name, d = model.layout.names[0], model.layout.sizes[0]
    return {name: np.full((len(chunk), d), np.nan)}


def write_latent(rows: StudyRows, model: Model, folder: Path) -> None:
    """``local/<center>/``: latent means by the center's own parameters, groups, what is missing, and their identity.

    The rows are read once more; others than the model was fitted to are refused.
    """
    for pool in rows.study.pools:
        for start in range(0, len(pool.centers), OPEN_FILES):
            block = pool.centers[start : start + OPEN_FILES]
            for center, tally in _write_centers(rows, pool, model, folder, block).items():
                told = {"subjects": tally.rows, "fingerprint": rows.digests[center], "views": tally.told()}
                write_whole(folder / center / DATA, to_json(told))


class Tally:
    """Counts who of a center has which view, and how many of their cells are empty."""

    def __init__(self) -> None:
        self.rows = 0
        self._subjects: Counter[str] = Counter()
        self._empty: Counter[str] = Counter()

    def add(self, views: Mapping[str, Array]) -> None:
        """Count some rows."""
        for name, block in views.items():
            empty = np.isnan(block).sum(axis=1)
            has = empty < block.shape[1]
            self._subjects[name] += int(has.sum())
            self._empty[name] += int(empty[has].sum())

    def told(self) -> dict[str, dict[str, int]]:
        """For each view that somebody has: its subjects, and the empty cells in their rows."""
        return {view: {"subjects": n, "empty": self._empty[view]} for view, n in self._subjects.items() if n}


def _write_centers(rows: StudyRows, pool: Pool, model: Model, folder: Path, centers: Sequence[str]) -> dict[str, Tally]:
    grouped = pool.subjects is not None and pool.subjects.group is not None
    labels = ["id", "group"] if grouped else ["id"]
    tallies = {center: Tally() for center in centers}
    with ExitStack() as stack:
        writers: dict[str, TableWriter] = {}
        for center in centers:
            with said_plainly(folder / center):
                (folder / center).mkdir(parents=True, exist_ok=True)
            path = folder / center / LATENT
            writers[center] = stack.enter_context(table_writer(path, labels, components(model.prior.q)))
        for chunk in rows.stream(pool, centers):
            tallies[chunk.center].add(chunk.views)
            tallies[chunk.center].rows += len(chunk)
            # a center whose scaling its policy hides is placed by the global model
            known = chunk.center if chunk.center in model.scalers else None
            x = model.project(chunk_views(chunk, model), known).mean
            told = [chunk.ids, chunk.groups] if chunk.groups is not None else [chunk.ids]
            writers[chunk.center].write(told, x)
    return tallies
