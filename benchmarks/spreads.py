"""A picture of how far apart a model believes its centers to be, round by round (the paper's figure 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vedute.model.parameters import GlobalPrior
from vedute_reproduction.privacy import spreads

STYLES = {"mu": "-", "W": "--", "sigma2": ":"}


def plot_spreads(runs: Mapping[str, Sequence[GlobalPrior]], path: str) -> None:
    """One panel a run, titled by its name: sd of every parameter of every view against the round, on a log scale."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * len(runs), 3.4), layout="constrained")
    panels = figure.subplots(1, len(runs), squeeze=False)[0]
    for panel, (title, priors) in zip(panels, runs.items(), strict=True):
        for k, view in enumerate(priors[0].views):
            for what, values in spreads(priors, view).items():
                panel.semilogy(values, STYLES[what], color=f"C{k}", linewidth=1.2, label=f"{what}, {view}")
        panel.set_title(title, fontsize="medium")
        panel.set_xlabel("round")
    panels[0].set_ylabel("standard deviation between centers")
    panels[-1].legend(fontsize="x-small")
    figure.savefig(path, dpi=110)
