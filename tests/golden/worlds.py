"""Small data of several hospitals: in memory, and the same numbers as studies in files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Table = Mapping[str, Array]  # views of one center, NaN where something is missing


@dataclass(frozen=True)
class World:
    """The rows of all centers, and public ranges of the features."""

    centers: Mapping[str, Table]
    ranges: Mapping[str, Array]


@dataclass(frozen=True)
class Files:
    """A world on disk: what all sites share, what each keeps, and one study of everything; pooled tables too."""

    shared: Path
    nodes: Mapping[str, Path]
    whole: Path
    pooled: Path


def make_world(
    rows: Mapping[str, int],
    sizes: Mapping[str, int],
    *,
    lacking: Mapping[str, Sequence[str]] | None = None,
    empty: float = 0.0,
    absent: float = 0.0,
    seed: int = 0,
) -> World:
    """Three latent directions, centers that differ, noise; ``empty`` cells and ``absent`` views of subjects.

    Numbers have three decimals, so that they are the same on every machine and in every text file.
    """
    rng = np.random.default_rng(seed)
    loadings = {view: rng.normal(size=(d, 3)) * (2.0, 1.5, 1.0) for view, d in sizes.items()}
    offsets = {view: rng.normal(size=d) * 4 for view, d in sizes.items()}
    centers: dict[str, dict[str, Array]] = {}
    for center, n in rows.items():
        x = rng.normal(size=(n, 3)) + rng.normal(size=3) * 0.3
        found = {}
        for view, d in sizes.items():
            W = loadings[view] + rng.normal(size=(d, 3)) * 0.1
            mean = offsets[view] + rng.normal(size=d) * 0.3
            found[view] = np.round(x @ W.T + mean + rng.normal(size=(n, d)) * 0.5, 3)
        held = [view for view in sizes if view not in (lacking or {}).get(center, ())]
        for k, view in enumerate(held):
            found[view][rng.random(found[view].shape) < empty] = np.nan
            if len(held) > 1:  # everybody keeps a view
                found[view][(rng.random(n) < absent) & (np.arange(n) % len(held) == k)] = np.nan
        centers[center] = {view: found[view] for view in held}
    return World(centers, {view: _range(centers, view) for view in sizes})


def _range(centers: Mapping[str, Table], view: str) -> Array:
    every = np.concatenate([table[view] for table in centers.values() if view in table])
    return np.stack([np.floor(np.nanmin(every, axis=0)) - 1, np.ceil(np.nanmax(every, axis=0)) + 1], axis=1)


def write_world(
    world: World, folder: Path, *, components: int, scaling: str | None, privacy: str = "", short: bool = False
) -> Files:
    """Study files of a world; a subject without a view has a line of empty cells in its table, or (``short``) none."""
    folder.mkdir(parents=True)
    views, agreed = "", f'[federation]\nscaling = "{scaling or "none"}"\nlargest_sd = 1e6\nrounds = 500\n'
    for view, ends in world.ranges.items():
        told = ", ".join(f"{_column(view, j)} = [{low}, {high}]" for j, (low, high) in enumerate(ends.tolist()))
        names = ", ".join(f'"{_column(view, j)}"' for j in range(len(ends)))
        views += f"[views.{view}]\ncolumns = [{names}]\nranges = {{ {told} }}\n"
    head = f'[study]\nname = "golden"\ncomponents = {components}\n{views}'
    shared = _write(folder / "study.toml", head + agreed + privacy)
    nodes, whole, site = {}, head + agreed + privacy, "id,site\n"
    for center, table in world.centers.items():
        files = "".join(f'{view} = "{view}.csv"\n' for view in table)
        nodes[center] = _write(folder / center / "node.toml", f'center = "{center}"\n[files]\n{files}')
        whole += f"[centers.{center}.files]\n" + files.replace(' = "', f' = "{center}/')
        for view, rows in table.items():
            _write(folder / center / f"{view}.csv", _csv(view, {center: rows}, short))
        site += "".join(f"{center}{i},{center}\n" for i in range(len(next(iter(table.values())))))
    _write(folder / "subjects.csv", site)
    for view in world.ranges:
        holders = {center: table[view] for center, table in world.centers.items() if view in table}
        _write(folder / f"{view}.csv", _csv(view, holders, short))
    pooled = '[subjects]\nfile = "subjects.csv"\nid = "id"\ncenter = "site"\n[files]\n'
    pooled += "".join(f'{view} = "{view}.csv"\n' for view in world.ranges)
    return Files(
        shared, nodes, _write(folder / "whole.toml", whole), _write(folder / "pooled.toml", head + privacy + pooled)
    )


def _column(view: str, j: int) -> str:
    return f"{view}_{j}"


def _csv(view: str, centers: Mapping[str, Array], short: bool) -> str:
    width = len(next(iter(centers.values()))[0])
    lines = [",".join(["id", *(_column(view, j) for j in range(width))])]
    for center, rows in centers.items():
        for i, row in enumerate(rows.tolist()):
            cells = ["" if np.isnan(value) else repr(value) for value in row]
            if any(cells) or not short:
                lines.append(",".join([f"{center}{i}", *cells]))
    return "\n".join(lines) + "\n"


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path
