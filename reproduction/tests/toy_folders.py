"""Small studies in the layouts that the paper's experiments read: folders of the open data, files with four views."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from vedute.datasets import make_sd


def write_folder(folder: Path, names: tuple[str, ...], n: int = 90) -> Path:
    """A folder in the layout of the open data sets: the first subject lacks the last view, the second one cell."""
    folder.mkdir()
    sizes = (8,) * len(names)
    views, groups = make_sd(n, n // 2, sizes=sizes, n_components=7, weights=5.0, means=5.0, noise=1.0, random_state=2)
    ids = [f"{i:03d}" for i in range(n)]
    site = np.array(["north", "south"])[np.arange(n) % 2]
    label = np.where(groups == 1, "PATIENT", "CONTROL")
    subjects = pd.DataFrame({"id": ids, "group": label, "group2": label, "site": site})
    subjects.to_csv(folder / "subjects.csv", index=False)
    for i, (name, rows) in enumerate(zip(names, views.values(), strict=True)):
        frame = pd.DataFrame(rows, index=pd.Index(ids, name="id")).add_prefix("f")
        if i == 0:
            frame.iloc[1, 2] = np.nan
        (frame.iloc[1:] if i == len(names) - 1 else frame)[::-1].to_csv(folder / f"{name}.csv")  # in another order
    return folder


def four_views(folder: Path, name: str = "toy") -> Path:
    """A study file with four views, no empty cell and two centers."""
    folder.mkdir()
    views, groups = make_sd(
        60, 30, sizes=(6, 5, 4, 4), n_components=2, weights=5.0, means=5.0, noise=1.0, random_state=3
    )
    ids = pd.Index([f"s{i}" for i in range(60)], name="id")
    site = np.array(["nice", "paris"])[np.arange(60) % 2]
    pd.DataFrame({"site": site, "group": groups}, index=ids).to_csv(folder / "subjects.csv")
    text = f'[study]\nname = "{name}"\ncomponents = 2\n'
    text += '[subjects]\nfile = "subjects.csv"\ncenter = "site"\ngroup = "group"\n[files]\n'
    for view, rows in views.items():
        pd.DataFrame(rows, index=ids).add_prefix(view).to_csv(folder / f"{view}.csv")
        text += f'{view} = "{view}.csv"\n'
    (folder / "study.toml").write_text(text)
    return folder / "study.toml"
