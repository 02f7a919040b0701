"""The figure of the choice of components: box plots of WAIC, its standardised steps, and the errors."""

from __future__ import annotations

import pandas as pd

from vedute_reproduction.figures.canvas import COLOURS, canvas, files, tidy


def figure(lines: pd.DataFrame, table: pd.DataFrame, title: str) -> dict[str, bytes]:
    """PNG and SVG: a row of three panels for each preset."""
    presets = list(dict.fromkeys(lines["preset"]))
    with canvas(2.9 * len(presets) + 0.4) as drawn:
        panels = drawn.subplots(len(presets), 3, squeeze=False)
        for (boxes, steps, errors), preset in zip(panels, presets, strict=True):
            own, mean = lines[lines["preset"] == preset], table[table["preset"] == preset]
            q = mean["components"].to_numpy()
            boxes.boxplot(
                [own.loc[own["components"] == n, "waic"] for n in q], positions=q, medianprops={"color": "0.3"}
            )
            boxes.set_ylabel(f"WAIC over folds, {preset} preset")
            steps.plot(q, mean["waic_step"], color=COLOURS[0], marker="o")
            steps.axhline(0.0, color="0.7", linewidth=1.0)
            steps.set_ylabel("standardised step of WAIC\n(with a plus under the root)")
            for colour, metric in zip((COLOURS[0], COLOURS[2]), ("train_mae", "test_mae"), strict=True):
                errors.plot(q, mean[metric], color=colour, marker="o", label=metric.replace("_mae", ""))
                errors.plot(q, mean[f"{metric}_paper"], color=colour, marker="o", fillstyle="none", markersize=9,
                            linestyle="none")  # fmt: skip
            errors.set_ylabel("MAE")
            errors.legend(frameon=False)
            for axes in (boxes, steps, errors):
                axes.set_xlabel("components")
                axes.set_xticks(q)
                axes.tick_params(axis="x", labelsize=6.5)
                tidy(axes)
        drawn.suptitle(title, parse_math=False)
        return files(drawn)
