"""The figure of the demonstration: subjects in the latent space, with how surely they are placed there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vedute.cli.demonstration import Outcome
from vedute.model.parameters import Array

COLOURS = ("#0072b2", "#d55e00", "#009e73")  # Okabe and Ito: told apart by everybody
MARKERS = ("o", "s", "^")
INK = "#333333"


def draw(outcomes: Sequence[Outcome], path: Path) -> None:
    """One panel for each study; colour tells the group, the marker the center, an ellipse one posterior sd."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.2 * len(outcomes), 6.0), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    for axes, outcome in zip(np.atleast_1d(figure.subplots(1, len(outcomes))), outcomes, strict=True):
        _panel(axes, outcome)
    figure.suptitle("One latent space from three centers that never showed their rows", color=INK, fontsize=13)
    figure.savefig(path, format="png")


def _panel(axes: Any, outcome: Outcome) -> None:
    groups = sorted(set(outcome.test_groups))
    colour = dict(zip(groups, COLOURS, strict=False))
    for (name, center), marker in zip(outcome.centers.items(), MARKERS, strict=False):
        shades = [colour[group] for group in center.groups]
        _ellipses(axes, center.latent, center.cov, shades)
        axes.scatter(*center.latent[:, :2].T, c=shades, marker=marker, s=20, alpha=0.8, lw=0.4, edgecolors="white")
        axes.scatter([], [], c="#888888", marker=marker, s=28, label=f"{name} ({len(center.latent)})")
    shades = [colour[group] for group in outcome.test_groups]
    axes.scatter(*outcome.test_latent[:, :2].T, c=shades, marker="+", s=22, lw=0.7, alpha=0.7)
    axes.scatter([], [], c="#888888", marker="+", s=28, lw=0.9, label=f"unseen ({len(shades)})")
    for group in groups:
        axes.scatter([], [], c=colour[group], marker="o", s=45, label=str(group))
    axes.set_title(
        f"{outcome.title}\nLDA on unseen subjects: {outcome.test_accuracy:.0%}", fontsize=10.5, color=INK, loc="left"
    )
    axes.set_xlabel("component 1", color=INK)
    axes.set_ylabel("component 2", color=INK)
    axes.set_aspect("equal", adjustable="datalim")
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#bbbbbb")
    axes.tick_params(colors="#777777", labelsize=8)
    axes.grid(color="#eeeeee", lw=0.8)
    axes.set_axisbelow(True)
    axes.legend(frameon=False, fontsize=8.5, loc="best", labelcolor=INK, ncols=2)


def _ellipses(axes: Any, x: Array, cov: Array, shades: list[str]) -> None:
    from matplotlib.collections import EllipseCollection

    values, vectors = np.linalg.eigh(cov[:, :2, :2])
    axis = 2.0 * np.sqrt(values)
    angle = np.degrees(np.arctan2(vectors[:, 1, 1], vectors[:, 0, 1]))
    ellipses = EllipseCollection(
        axis[:, 1], axis[:, 0], angle, units="xy", offsets=x[:, :2], offset_transform=axes.transData,
        facecolors=shades, edgecolors="none", alpha=0.12,
    )  # fmt: skip
    axes.add_collection(ellipses)
