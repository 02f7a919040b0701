"""A small study on disk: three centers, a missing view, empty cells."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from vedute.datasets import make_sd

SITES = ("nice", "paris", "lyon")


def write_study(folder: Path, n: int = 90, seed: int = 1, empty: float = 0.05) -> Path:
    """Three centers in pooled files: lyon lacks view3, some cells are empty, one subject has no view at all."""
    folder.mkdir(parents=True, exist_ok=True)
    views, groups = make_sd(n, n // 2, sizes=(5, 4, 3), n_components=2, random_state=seed)
    rng = np.random.default_rng(seed)
    ids = [f"s{i:03d}" for i in range(n)]
    site = np.array(SITES)[np.arange(n) % 3]
    subjects = pd.DataFrame({"id": ids, "site": site, "group": np.where(groups == 1, "case", "control")})
    subjects.to_csv(folder / "subjects.csv", index=False)
    text = ['[study]\nname = "toy"\ncomponents = 2\n']
    text.append('[subjects]\nfile = "subjects.csv"\nid = "id"\ncenter = "site"\ngroup = "group"\n\n[files]')
    for name, rows in views.items():
        rows = np.where(rng.random(rows.shape) < empty, np.nan, rows)
        frame = pd.DataFrame(rows, columns=[f"{name}_{j}" for j in range(rows.shape[1])]).assign(id=ids)
        frame = frame[site != "lyon"] if name == "view3" else frame
        frame[["id", *frame.columns[:-1]]].iloc[1:].to_csv(folder / f"{name}.csv", index=False)
        text.append(f'{name} = "{name}.csv"')
    (folder / "study.toml").write_text("\n".join(text) + "\n")
    return folder / "study.toml"
