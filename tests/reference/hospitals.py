"""A small federation in a folder: a shared study, and for each center a node file with CSV files of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from vedute.datasets import make_sd
from vedute.scenarios import split

CENTERS = ("nice", "paris", "zurich")


def make_hospitals(
    folder: Path, *, federation: str = "", privacy: str = "", n: int = 120, components: int = 3
) -> tuple[Path, dict[str, Path]]:
    """The shared study and the node file of each center; views are missing by center as in scenario G/K."""
    views, groups = make_sd(n_subjects=n, n_shifted=n // 2, random_state=3)
    dealt, _ = split(views, groups, n_centers=3, scenario="G/K", random_state=3)
    columns = {name: [f"{name}_{j}" for j in range(rows.shape[1])] for name, rows in views.items()}
    text = f'[study]\nname = "hospitals"\ncomponents = {components}\n'
    for name, listed in columns.items():
        low, high = float(np.floor(views[name].min())) - 1, float(np.ceil(views[name].max())) + 1
        ranges = ", ".join(f"{column} = [{low}, {high}]" for column in listed)
        text += f"[views.{name}]\ncolumns = {listed!r}\nranges = {{ {ranges} }}\n".replace("'", '"')
    text += f"[federation]\n{federation}\n" + (f"[privacy]\n{privacy}\n" if privacy else "")
    shared = folder / "study.toml"
    shared.parent.mkdir(parents=True, exist_ok=True)
    shared.write_text(text)
    nodes = {
        center: _node(folder / center, center, tables, columns)
        for center, tables in zip(CENTERS, dealt.values(), strict=True)
    }
    return shared, nodes


def _node(folder: Path, center: str, tables: Mapping[str, np.ndarray], columns: Mapping[str, list[str]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    text = f'center = "{center}"\n[files]\n'
    for name, rows in tables.items():
        ids = [f"{center}{i}" for i in range(len(rows))]
        pd.DataFrame(rows, columns=columns[name], index=pd.Index(ids, name="id")).to_csv(folder / f"{name}.csv")
        text += f'{name} = "{name}.csv"\n'
    node = folder / "node.toml"
    node.write_text(text)
    return node


def with_other_rows(node: Path) -> None:
    """Rewrite the files of a center: ten rows fewer, and all values halved."""
    for path in node.parent.glob("*.csv"):
        (pd.read_csv(path, index_col="id").iloc[:-10] / 2).to_csv(path)


def as_one_study(shared: Path, nodes: Mapping[str, Path]) -> Path:
    """The same rows as an ordinary study for one process."""
    text = shared.read_text()
    for center, node in nodes.items():
        text += f"[centers.{center}.files]\n"
        for path in sorted(node.parent.glob("*.csv")):
            text += f'{path.stem} = "{path.relative_to(shared.parent)}"\n'
    whole = shared.parent / "whole.toml"
    whole.write_text(text)
    return whole
