"""From WAIC and errors of each fold to the paper's table Latent_space."""

from __future__ import annotations

from importlib.resources import files

import numpy as np
import pandas as pd

from vedute_reproduction.tables.cells import rows, told


def summary(lines: pd.DataFrame, paper: str = "SD") -> pd.DataFrame:
    """Means over folds, how often each number was recommended, and the standardised difference to one fewer.

    That difference is told twice: as the paper means it, with the sum of both variances under its root (it prints their
    difference), and paired by folds, which both share. ``paper`` names the half of its table to stand beside.
    """
    grouped = lines.groupby(["preset", "components"], sort=False)
    found = grouped[["waic", "train_mae", "test_mae"]].mean().join(grouped["recommended"].sum())
    found["folds"] = grouped.size()
    spread = grouped["waic"].var() / grouped.size()
    own = found.index.to_frame()
    fewer = pd.MultiIndex.from_arrays([own["preset"], own["components"] - 1])
    step = found["waic"].to_numpy() - found["waic"].reindex(fewer).to_numpy()
    found["waic_step"] = step / np.sqrt(spread.to_numpy() + spread.reindex(fewer).to_numpy())
    paired = _paired(lines)
    found["waic_paired"] = [paired.at[preset, q] for preset, q in found.index]
    with files("vedute_reproduction.tables").joinpath("paper_latent_space.csv").open(encoding="utf-8") as file:
        whole = pd.read_csv(file).assign(preset="paper")
    printed = whole[whole["data"] == paper].drop(columns="data")
    return found.reset_index().merge(printed, on=["preset", "components"], how="left", suffixes=("", "_paper"))


def _paired(lines: pd.DataFrame) -> pd.DataFrame:
    """Mean step of WAIC, from one component fewer on the same fold, over its standard error: presets by numbers."""
    wide = lines.pivot(index=["preset", "repeat", "fold"], columns="components", values="waic")
    tried = [int(q) for q in lines["components"].unique()]
    steps = pd.DataFrame({q: wide[q] - wide[q - 1] if q - 1 in wide else np.nan for q in tried}, wide.index)
    grouped = steps.groupby("preset")
    return grouped.mean() / grouped.sem()


def markdown(table: pd.DataFrame, paper: str = "paper") -> str:
    """The summary as Markdown; ``paper`` heads its values.

    WAIC is in the units of the data here and in scaled units in the paper.
    """
    head = ["preset", "components", "WAIC", paper, "step", "paired", "recommended"]
    head += ["MAE train", paper, "MAE test", paper]
    body = []
    for row in table.to_dict("records"):
        cells = [str(row["preset"]), str(row["components"]), f"{row['waic']:.0f}", told(row["waic_paper"], ".0f")]
        cells += [told(row["waic_step"], "+.1f"), told(row["waic_paired"], "+.1f")]
        cells.append(f"{row['recommended']} of {row['folds']}")
        for metric in ("train_mae", "test_mae"):
            cells += [f"{row[metric]:.4f}", told(row[f"{metric}_paper"], ".4f")]
        body.append(cells)
    return rows(head, body)
