"""Auto-encoders by FedAvg and FedProx, with one layer or two: the paper's table ADNI_fedprox."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd

from vedute_reproduction.arms import SCALINGS, Arm
from vedute_reproduction.canvas import COLOURS, canvas, finished, tidy
from vedute_reproduction.comparison import NAMES, RING, printed, reach, summary
from vedute_reproduction.contenders import DEFAULT, MCVAE, PAPER, TWO_LAYERS, VAE, tuned
from vedute_reproduction.methods import FedMvPPCA
from vedute_reproduction.prose import rows
from vedute_reproduction.reading import Facts, Results, means, value
from vedute_reproduction.runner import Experiment, Setting
from vedute_reproduction.studies import Given

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HIDDEN = 32  # units of a hidden layer


LAMBDAS = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
SWEPT_CENTERS = (3, 6)
SWEEPS = {"fedprox-cnp": "cnp", "fedprox": "SD"}  # results -> their data
LAYERED, MINE = len(LAMBDAS), len(LAMBDAS) + 1  # places on the axis after those of lambda


def experiment(given: Given) -> Experiment:
    """Auto-encoders in scenario G, pulled to the common weights ever harder."""
    q, blocks = given.n_components, []
    for n in SWEPT_CENTERS:
        arms = [Arm(PAPER, FedMvPPCA(q, "paper"), scaling) for scaling in SCALINGS]
        blocks.append(Setting("G", n, (*arms, Arm(DEFAULT, FedMvPPCA(q), "shared"))))
        for encoder in (VAE, MCVAE):
            plain = tuned(q, encoder)
            swept = [
                Arm(f"{encoder}, lambda {value:g}", replace(plain, proximal=value), scaling)
                for scaling in SCALINGS
                for value in LAMBDAS
            ]
            deep = [Arm(encoder + TWO_LAYERS, replace(plain, hidden=HIDDEN), scaling) for scaling in SCALINGS]
            blocks.append(Setting("G", n, (*swept, *deep), encoder, stacked=True))
    beside = "ADNI_fedprox" if given.printed == "ADNI" else None
    about = f"{given.about}, scenario G"
    return Experiment(given.named("fedprox"), about, given.source, tuple(blocks), beside, given.remarks)


def figure(table: pd.DataFrame, title: str) -> dict[str, bytes]:
    """PNG and SVG: a column for each auto-encoder, a row for each metric and number of centers."""
    counts = list(dict.fromkeys(table["centers"]))
    lines = [(n, metric) for n in counts for metric in NAMES]
    with canvas(1.0 + 2.3 * len(lines)) as drawn:
        panels = drawn.subplots(len(lines), 2, squeeze=False, sharex=True, sharey="row")
        for name, own in zip((VAE, MCVAE), panels.T, strict=True):
            own[0].set_title(name)
            for axes, (n, metric) in zip(own, lines, strict=True):
                _panel(axes, table[table["centers"] == n], name, metric)
            own[-1].set_xlabel("lambda of FedProx")
        for axes, (n, metric) in zip(panels[:, 0], lines, strict=True):
            axes.set_ylabel(f"{NAMES[metric]}, {n} centers")
        return finished(drawn, title, panels[0, 0].get_legend_handles_labels(), 3)


def _panel(axes: Axes, table: pd.DataFrame, name: str, metric: str) -> None:
    methods = {f"{name}, lambda {value:g}": i for i, value in enumerate(LAMBDAS)}
    methods |= {name + TWO_LAYERS: LAYERED, PAPER: MINE, DEFAULT: MINE}
    for scaling, colour in (("per center", COLOURS[2]), ("shared", COLOURS[0])):
        rows = table[(table["scaling"] == scaling) & table["method"].isin(methods)]
        if scaling == "shared":
            rows = rows[rows["method"] != PAPER]  # ours as it is meant to be used with each scaling
        x = rows["method"].map(methods) + (0.12 if scaling == "shared" else -0.12)
        label = (
            "each center scaled by itself (ours: paper preset)"
            if scaling == "per center"
            else "one scaling for all (ours: default preset)"
        )
        axes.errorbar(x, rows[metric], yerr=reach(rows, metric), color=colour, marker="o", linestyle="none", capsize=2,
                      label=label)  # fmt: skip
        if f"{metric}_paper" in rows and scaling == "per center":
            rings = [*zip(x, rows[f"{metric}_paper"], strict=True), (MINE - 0.12, _printed(table, metric))]
            axes.plot(*zip(*rings, strict=True), color=colour, label="the paper's own, on ADNI", **RING)
    ticks = [*(f"{value:g}" for value in LAMBDAS), "two\nlayers", "ours"]
    axes.set_xticks(range(len(ticks)), ticks)
    tidy(axes)


def _printed(table: pd.DataFrame, metric: str) -> float:
    """What the paper prints of its own method, with as many centers."""
    return float(printed("ADNI_2", metric)["Fed-mv-PPCA"]["G", int(table["centers"].iloc[0])])


def facts(results: Results) -> list[Facts]:
    """Both sweeps of lambda, that of cnp with what the paper should have printed."""
    return [_swept(name, results[name]) for name in SWEEPS]


def _swept(name: str, lines: pd.DataFrame) -> Facts:
    found = []
    for encoder in (VAE, MCVAE):
        for scaling, called in (("per center", "each center by itself"), ("shared", "one for all")):
            error, right = (means(lines, metric, scaling) for metric in ("test_mae", "accuracy"))
            for n in dict.fromkeys(lines["centers"]):
                cells = [encoder, str(n), called]
                for table, form in ((error, ".4f"), (right, ".3f")):
                    plain, deep = (value(table, "G", n, one) for one in (f"{encoder}, lambda 0", encoder + TWO_LAYERS))
                    pulled = [value(table, "G", n, f"{encoder}, lambda {each:g}") for each in LAMBDAS[1:]]
                    cells += [f"{plain:{form}}", f"{min(pulled):{form}} to {max(pulled):{form}}", f"{deep:{form}}"]
                found.append(cells)
    ways = ["FedAvg", "FedProx", "two layers"]
    head = ["", "centers", "scaling", *(f"{metric}, {way}" for metric in ("test MAE", "accuracy") for way in ways)]
    return {
        "name": name,
        "about": SWEEPS[name],
        "lines": lines,
        "lambdas": LAMBDAS,
        "hidden": HIDDEN,
        "pulled": _pulled(lines),
        "deeper": [
            {encoder: deeper(lines, metric, scaling, encoder) for encoder in (VAE, MCVAE)}
            for scaling in SCALINGS
            for metric in ("test_mae", "train_mae")
        ],
        "table": rows(head, found),
        "slip": _slip(lines) if name.endswith("cnp") else [],
    }


def deeper(lines: pd.DataFrame, metric: str, scaling: str, encoder: str) -> pd.Series[float]:
    """Error with two layers over that with one, less 1."""
    error = means(lines, metric, scaling)
    return error[encoder + TWO_LAYERS] / error[f"{encoder}, lambda 0"] - 1.0


def _pulled(lines: pd.DataFrame) -> float:
    """The largest relative change of a test error from lambda = 0 to any other."""
    moved = []
    for scaling in SCALINGS:
        error = means(lines, "test_mae", scaling)
        for name in (VAE, MCVAE):
            swept = error[[f"{name}, lambda {each:g}" for each in LAMBDAS]]
            moved.append(swept.div(swept[f"{name}, lambda 0"], axis=0).sub(1.0).abs().to_numpy().max())
    return float(max(moved))


def _slip(lines: pd.DataFrame) -> list[Facts]:
    """What the rows with lambda = 0 should have said: accuracy with lambda 0 and 0.01, ours and as printed."""
    table, adni = summary(lines, "ADNI_fedprox"), printed("ADNI_2", "accuracy")
    own, found = table[table["scaling"] == "per center"], []
    for n in SWEPT_CENTERS:
        at = own[own["centers"] == n].set_index("method").loc[[f"{VAE}, lambda 0", f"{VAE}, lambda 0.01"]]
        about = {"centers": n, "fair": value(adni, "G", n, VAE)}
        found.append(about | {"ours": at["accuracy"].to_list(), "printed": at["accuracy_paper"].to_list()})
    return found
