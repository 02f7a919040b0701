"""The figure of the collapse: the spread between centers that each variant finds, round by round."""

from __future__ import annotations

import pandas as pd

from vedute_reproduction.collapse import LOST, SD
from vedute_reproduction.figures.canvas import canvas, files, tidy
from vedute_reproduction.figures.comparison import styles

SIGNS = {"mu": r"$\tilde\sigma_\mu$", "W": r"$\tilde\sigma_W$"}


def figure(lines: pd.DataFrame, title: str) -> dict[str, bytes]:
    """PNG and SVG: a row for each parameter, a column for each number of centers and case mix."""
    from matplotlib.ticker import LogLocator, NullFormatter

    columns = list(dict.fromkeys(zip(lines["centers"], lines["case_mix"], strict=True)))
    looks = styles(lines["method"])
    with canvas(5.6) as drawn:
        panels = drawn.subplots(len(SD), len(columns), squeeze=False, sharex=True, sharey="row")
        for own, (n, tau) in zip(panels.T, columns, strict=True):
            own[0].set_title(
                f"{n} centers,\n" + (f"case mix of sd {tau:g}" if tau else "the same patients"), fontsize=9
            )
            for axes, parameter in zip(own, SD, strict=True):
                part = lines[(lines["centers"] == n) & (lines["case_mix"] == tau) & (lines["parameter"] == parameter)]
                for method, (colour, _) in looks.items():
                    middle = part[part["method"] == method].groupby("round")["ratio"].median()
                    axes.loglog(middle.index, middle, color=colour, marker="o", markersize=3, label=method)
                axes.axhline(1.0, color="0.3", linestyle=":", linewidth=1.0)
                if parameter == "W" and part["ratio"].min() < LOST:
                    axes.axhspan(0.0, LOST, color="#f5e6d3", zorder=0, label="lost: on its floor")
                tidy(axes)
            own[-1].set_xlabel("round")
        medians = (
            lines[lines["parameter"] == "mu"].groupby(["method", "centers", "case_mix", "round"])["ratio"].median()
        )
        panels[0, 0].yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0)))
        panels[0, 0].yaxis.set_major_formatter("{x:g}")
        panels[0, 0].yaxis.set_minor_formatter(NullFormatter())
        panels[0, 0].set_ylim(0.8 * medians.min(), 1.25 * medians.max())
        for axes, sign in zip(panels[:, 0], SIGNS.values(), strict=True):
            axes.set_ylabel(f"{sign}, found / true")
        drawn.suptitle(title, parse_math=False)
        drawn.legend(*panels[1, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
        return files(drawn)
