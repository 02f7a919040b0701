"""The figures of variability: centers in latent and in original space, and the distributions of imputed features."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vedute.core.params import Array
from vedute_reproduction.figures.canvas import canvas, files, tidy
from vedute_reproduction.variability import Imputed, Scene

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072b2", "#d55e00", "#009e73")  # Okabe and Ito
BLACK, GREY = "#000000", "#bbbbbb"
TWO_SD = 2.0
LONGEST = 20  # letters over a small panel


def centers(scene: Scene, title: str) -> dict[str, bytes]:
    """Posterior samples of x by center; and for each view the first two features, observed and predicted."""
    views = list(scene.first_two)
    columns = 2 if len(views) == 3 else 3
    rows = int(np.ceil((1 + len(views)) / columns))
    with canvas(3.6 * rows + 0.5) as drawn:
        panels = drawn.subplots(rows, columns, squeeze=False)
        for axes in panels.flat[1 + len(views) :]:
            axes.set_visible(False)
        _latent(panels.flat[0], scene)
        for axes, view in zip(panels.flat[1:], views, strict=False):
            _original(axes, scene, view)
        drawn.suptitle(title, parse_math=False)
        handles, labels = panels.flat[1].get_legend_handles_labels()
        more, names = panels.flat[0].get_legend_handles_labels()
        drawn.legend(more + handles, names + labels, loc="outside lower center", ncols=3, frameon=False)
        return files(drawn)


def _latent(axes: Axes, scene: Scene) -> None:
    rng = np.random.default_rng(0)
    kinds = sorted({str(group) for groups in scene.groups.values() for group in groups})
    for colour, (center, views) in zip(COLOURS, scene.centers.items(), strict=True):
        mean, cov = scene.model.transform(views, center=center, return_cov=True)
        samples = np.stack([rng.multivariate_normal(m, c) for m, c in zip(np.asarray(mean), cov, strict=True)])
        for kind, marker in zip(kinds, ("o", "^"), strict=True):
            own = np.array([str(group) == kind for group in scene.groups[center]])
            label = f"{center}, group {kind}" if own.any() else None
            axes.plot(*samples[own, :2].T, marker, color=colour, markersize=3.5, alpha=0.7, label=label)
    axes.set_title("latent space: posterior samples")
    axes.set_xlabel("component 1 (prior sd)")
    axes.set_ylabel("component 2 (prior sd)")
    tidy(axes)


def _original(axes: Axes, scene: Scene, view: str) -> None:
    for colour, (center, views) in zip(COLOURS, scene.centers.items(), strict=True):
        held = view in views
        if held:
            axes.plot(*views[view][:, :2].T, ".", color=colour, markersize=3, alpha=0.5)  # observed
        predicted = np.asarray(scene.model.sample(2000, random_state=0, center=center)[view])
        axes.plot(*_ellipse(predicted[:, :2]), color=colour, linestyle="-" if held else "--", linewidth=1.6)
    axes.plot(*_ellipse(scene.drawn()[view][:, :2]), color=BLACK, linewidth=1.2, label="global, predicted, 2 sd")
    for style, label in (("-", "center, predicted, 2 sd"), ("--", "the same, where the center lacks the view")):
        axes.plot([], [], style, color="0.4", label=label)
    axes.plot([], [], ".", color="0.4", markersize=3, label="observed")
    axes.set_title(f"{view}, its first two features", parse_math=False)
    first, second = scene.first_two[view]
    axes.set_xlabel(f"{first} (own units)", parse_math=False)
    axes.set_ylabel(f"{second} (own units)", parse_math=False)
    tidy(axes)


def _ellipse(points: Array) -> Array:
    """(2, n) curve of two standard deviations about the mean."""
    angle = np.linspace(0.0, 2.0 * np.pi, 100)
    root = np.linalg.cholesky(np.cov(points.T))
    circle = np.stack([np.cos(angle), np.sin(angle)])
    return np.asarray(points.mean(axis=0)[:, None] + TWO_SD * root @ circle)


def features(scene: Scene, part: Imputed, title: str) -> dict[str, bytes]:
    """Every feature of a missing view: the truth as histogram, the imputed and the global distribution as curves."""
    from matplotlib.ticker import MaxNLocator
    from scipy.stats import gaussian_kde

    d = part.truth.shape[1]
    columns = 4 if d <= 12 else 7
    rows = int(np.ceil(d / columns))
    whole = scene.drawn()[part.view]
    with canvas((1.9 if columns == 4 else 1.25) * rows + 0.9) as drawn:
        panels = drawn.subplots(rows, columns, squeeze=False)
        for axes in panels.flat[d:]:
            axes.set_visible(False)
        for j, axes in enumerate(panels.flat[:d]):
            truth, mean, sd = part.truth[:, j], part.mean[:, j], part.sd[:, j]
            low, high = np.percentile(whole[:, j], [0.5, 99.5])
            x = np.linspace(min(low, truth.min()), max(high, truth.max()), 200)
            density = np.exp(-0.5 * ((x[:, None] - mean) / sd) ** 2) / (sd * np.sqrt(2.0 * np.pi))
            axes.hist(truth, bins=12, density=True, color=GREY, label="truth in the test rows")
            axes.plot(x, density.mean(axis=1), color=COLOURS[0], linewidth=1.4, label="imputed from the other views")
            axes.plot(x, gaussian_kde(whole[:, j])(x), color=COLOURS[1], linewidth=1.0, linestyle="--",
                      label="global distribution")  # fmt: skip
            axes.set_title(_short(part.names[j]), fontsize=7.0, pad=2, parse_math=False)
            axes.set_yticks([])
            axes.tick_params(labelsize=6.5)
            axes.xaxis.set_major_locator(MaxNLocator(3))
            axes.xaxis.set_major_formatter("{x:.6g}")
            axes.spines[["top", "right", "left"]].set_visible(False)
        drawn.suptitle(title, parse_math=False)
        drawn.supylabel("density (over values in the feature's own units)", fontsize=9)
        handles, labels = panels.flat[0].get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
        return files(drawn)


def _short(name: str) -> str:
    """The end of a long name: that is where names of one view differ."""
    return name if len(name) <= LONGEST else f"…{name[1 - LONGEST :]}"
