"""The figure of missing-view prediction: variance explained and coverage, view by view."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from vedute_reproduction.figures.canvas import canvas, files, tidy
from vedute_reproduction.missing import LEVEL, MEAN, OURS

BLUES = ("#56b4e9", "#3a9bd9", "#0072b2", "#004d80")  # ours with q fixed, the largest last
OTHERS = (
    "#cc79a7", "#999999", "#000000", "#882255", "#e69f00", "#d55e00", "#009e73", "#66c2a5", "#999933",
)  # in the order of the table, which MOFA ends  # fmt: skip


def figure(table: pd.DataFrame, title: str) -> dict[str, bytes]:
    """One group of bars for each hidden view: above what is explained, below how often the intervals hold."""
    views = list(dict.fromkeys(table["view"]))
    methods = [name for name in dict.fromkeys(table["method"]) if name != MEAN]
    step = 0.84 / len(methods)
    with canvas(7.0) as drawn:
        explained, covered = drawn.subplots(2, 1, sharex=True, height_ratios=(1.5, 1.0))
        for i, (method, colour) in enumerate(zip(methods, _colours(methods), strict=True)):
            own = table[table["method"] == method].set_index("view").loc[views]
            x = [k - 0.42 + step * (i + 0.5) for k in range(len(views))]
            explained.bar(x, own["explained"], step * 0.92, yerr=own["explained_sd"], color=colour, label=method,
                          error_kw={"linewidth": 0.8})  # fmt: skip
            for place, share in zip(x, own["explained"], strict=True):
                if share < -1.0:  # a bar that is cut off
                    explained.annotate(f"{share:.0%}", (place + step, -0.98), ha="center", fontsize=7, rotation=90)
            if own["coverage"].notna().any():
                covered.errorbar(x, own["coverage"], own["coverage_sd"], color=colour, fmt="o", capsize=2)
        explained.axhline(0.0, color="0.3", linewidth=1.0)
        low, high = explained.get_ylim()
        explained.set_ylim(max(-1.0, low), min(1.0, high))  # whiskers are cut off, lest one method hide all others
        explained.set_ylabel("share of the variance explained\n(0: the mean of the others)")
        covered.axhline(LEVEL, color="0.3", linewidth=1.0, linestyle=":")
        covered.set_ylabel(f"{LEVEL:.0%} intervals cover")
        covered.set_xticks(range(len(views)), views)
        covered.set_xlabel("hidden view")
        for axes in (explained, covered):
            tidy(axes)
        drawn.suptitle(title, parse_math=False)
        drawn.legend(*explained.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
        return files(drawn)


def _colours(methods: Sequence[str]) -> list[str]:
    """A method keeps its colour whichever others are there."""
    fixed = sum(method.startswith(f"{OURS}, q =") for method in methods)
    return [*BLUES[len(BLUES) - fixed :], *OTHERS[: len(methods) - fixed]]
