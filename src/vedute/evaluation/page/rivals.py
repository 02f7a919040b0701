"""The part of the page on reproduction about auto-encoders: who is ahead, why, and what FedProx changes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from vedute.evaluation.experiments import (
    CORRECTED,
    DEFAULT,
    LAMBDAS,
    LONGER,
    MCVAE,
    PAPER,
    PRIVATE,
    SCHEDULE,
    TWO_LAYERS,
    UNTUNED,
    VAE,
)  # fmt: skip
from vedute.evaluation.page.parts import at_most, listed, means, placed, rows, times, value
from vedute.evaluation.tables.comparison import markdown, paper_table, summary

DATA = {"sd": ("SD", "SD_2"), "adni-cnp": ("cnp", "ADNI_2")}
SWEEPS = {"fedprox-cnp": "cnp", "fedprox": "SD"}


def files() -> list[str]:
    """The results that the section needs, without their endings."""
    return [*DATA, *SWEEPS, "corrections"]


def section(folder: Path) -> str:
    """Tables of errors with the scaling of the paper and with one for all, then the sweep of lambda."""
    lines = {name: pd.read_csv(folder / f"{name}.csv") for name in (*DATA, *SWEEPS)}
    return "\n\n".join(
        [
            f"""## Auto-encoders: the order of the methods

In the paper Fed-mv-PPCA reconstructs better than a linear VAE in IID and G, and that better than a linear multi-channel
VAE; in K and G/K it runs neither. Here the multi-channel VAE runs there, by the encoders of the views that a row has.
And the order depends on how the auto-encoders are trained, so both are shown.
"Untuned" learns the noise of each view by Adam from a start of 1, in one step for each epoch; the plain names have the
noise at its optimum for the errors of the moment and batches of {SCHEDULE.batch}. Learning rate ({SCHEDULE.rate:g}),
epochs ({SCHEDULE.epochs} in each of {SCHEDULE.rounds} rounds) and FedAvg are the paper's; it names no optimiser and no
batch, Adam is our reading. "Ahead" below means by more than two standard errors over repetitions, which one
repetition cannot tell. Those of SD are
independent draws; those of cnp deal the same subjects anew, and tell of the dealing, not of other subjects.

{_arrival(lines["sd"])}""",
            _data("sd", lines["sd"], pd.read_csv(folder / "corrections.csv")),
            _data("adni-cnp", lines["adni-cnp"]),
            *(_sweep(name, lines[name]) for name in SWEEPS),
        ]
    )


def _arrival(sd: pd.DataFrame) -> str:
    """Whether the rounds are enough, and how far the untuned ones are from what the paper prints."""
    shared, own = means(sd, "test_mae"), means(sd, "test_mae", "per center")
    best = value(shared, "IID", 1, DEFAULT)
    linear = (shared[VAE] / best).dropna()
    crossed = [value(shared, "IID", 6, name) / best for name in (MCVAE, MCVAE + LONGER)]
    slow = [value(own, "IID", 3, name + UNTUNED + more) for name in (VAE, MCVAE) for more in ("", LONGER)]
    paper = _printed("SD_2")
    apart = {name: (own[name + UNTUNED] / paper[name].reindex(own.index) - 1.0).dropna() for name in (VAE, MCVAE)}
    vae, crossing = (f"{gap.min():+.0%} to {gap.max():+.0%}" for gap in apart.values())
    return f"""A linear VAE with a noise for each view has the same best fit as our model of one center. With one
scaling for all it comes to {linear.min():.3f} to {linear.max():.3f} times the error of that on SD. Where six centers
share the rows evenly each has few, and an epoch few steps; there the multi-channel VAE has not arrived after the
paper's rounds: in IID its error is {crossed[0]:.3f} times that of our one center after them, and {crossed[1]:.3f} times
after four times as many. A possible reason for what is left is that it draws each view also from the encoders of the
others, which are asked for more than they know. The untuned ones have not arrived either: in IID with 3 centers, each
scaled by itself, the error of the VAE is {slow[0]:.4f} after the paper's rounds and {slow[1]:.4f} after four times as
many, that of the mc-VAE {slow[2]:.4f} and {slow[3]:.4f}.

Untuned, test errors of the mc-VAE on SD in IID and G lie {crossing} from the paper's, those of the VAE {vae}: the order
of Fed-mv-PPCA and these two is the paper's, the distance between the two is not. What the training of its authors
differed in is not known."""


def _printed(table: str) -> pd.DataFrame:
    """The paper's test errors, a column for each method."""
    return paper_table(table).set_index(["scenario", "centers", "method"])["test_mae"].unstack("method")


def _ahead(lines: pd.DataFrame, scaling: str, ours: str, rivals: Sequence[str]) -> pd.Series[float]:
    """By how much our error exceeds that of the best rival, where by more than two standard errors over repetitions."""
    by = _by_repetition(lines, "test_mae", scaling, [ours, *rivals])
    found = {}
    for place, errors in by.dropna(subset=rivals, how="all").groupby(["scenario", "centers"]):
        best = errors[errors[list(rivals)].mean().idxmin()]
        if _beyond_chance(errors[ours] - best):
            found[place] = float(errors[ours].mean() / best.mean() - 1.0)
    return pd.Series(found, dtype=float)


def _by_repetition(lines: pd.DataFrame, metric: str, scaling: str, methods: Sequence[str]) -> pd.DataFrame:
    """Means over folds: scenarios, centers and repetitions by methods."""
    own = lines[(lines["scaling"] == scaling) & lines["method"].isin(methods)]
    return own.groupby(["scenario", "centers", "repeat", "method"])[metric].mean().unstack("method")


def _beyond_chance(gaps: pd.Series[float]) -> bool:
    """Whether a mean is above 0 by more than two standard errors; one repetition cannot tell."""
    return len(gaps) > 1 and bool(gaps.mean() > 2.0 * gaps.std() / np.sqrt(len(gaps)))


def _caught(errors: pd.DataFrame, ahead: pd.Series[float], still: pd.Series[float]) -> str:
    """How much of a rival's lead is that of the corrections: the default preset with the same scaling."""
    if ahead.empty:
        return ""
    rows_ = errors.loc[list(ahead.index)]
    left = rows_[DEFAULT] / rows_[[VAE, MCVAE]].min(axis=1) - 1.0
    behind = f"{len(still)} row{'s'[: len(still) != 1]}{_where(still)}"
    return f"""Where an auto-encoder is ahead of the paper preset, the default preset, scaled likewise, makes up more
than half of it. From the better of them it lies by {listed(left, "+.1%")}; an auto-encoder is still ahead of it in
{behind}."""


def _which(corrected: pd.DataFrame, ahead: pd.Series[float]) -> str:
    """Which correction makes up for it: each added to the paper preset, each center scaled by itself."""
    error = means(corrected, "test_mae", "per center")
    behind = [place for place in error.index if place in ahead.index]
    if not behind:
        return ""
    found = error.loc[behind]
    _, variances, mix, *_ = CORRECTED
    gain = found[PAPER] - found[DEFAULT]
    alone, mixed = ((found[PAPER] - found[name]) / gain for name in (variances, mix))
    head = [str(name).removeprefix(f"{PAPER}, ") for name in found.columns]
    return f"""Of what the default preset gains there, the posterior variances alone make up {_span(alone)} and the case
mix alone {_span(mixed)}; together and with the third correction (`vedute paper corrections`):

{placed(found.set_axis(head, axis=1), ".4f")}"""


def _span(shares: pd.Series[float]) -> str:
    return f"{shares.min():.0%} to {shares.max():.0%}"


def _told(name: str, lines: pd.DataFrame) -> str:
    """Accuracy beside the paper's, and whether its two findings hold here."""
    printed = DATA[name][1]
    codes = [VAE, MCVAE, VAE + UNTUNED, MCVAE + UNTUNED]
    found = means(lines, "accuracy", "per center")[[PAPER, DEFAULT, PRIVATE, *codes]]
    by = _by_repetition(lines, "accuracy", "per center", [PAPER, *codes])
    gaps = by[codes].sub(by[PAPER], axis=0) * 100
    ahead = [
        f"{method} by {own.mean():.1f} points ({n} centers)"
        for n in (3, 6)
        for method, own in gaps.xs(("G", n), level=("scenario", "centers")).items()
        if _beyond_chance(own)
    ]
    even = gaps.xs("IID", level="scenario").groupby("centers").mean()
    apart = [f"{even[name].min():+.1f} to {even[name].max():+.1f}" for name in (MCVAE, MCVAE + UNTUNED)]
    paper = paper_table(printed).set_index(["scenario", "centers", "method"])["accuracy"].unstack("method")
    for method in ("Fed-mv-PPCA", "DP-Fed-mv-PPCA", VAE, MCVAE):
        found[f"{method}, the paper on {printed.split('_')[0]}"] = paper[method].reindex(found.index)
    return f"""In accuracy the paper finds its method ahead of both auto-encoders in G, and the mc-VAE slightly ahead
in IID. Here, by more than two standard errors, ahead of the paper preset in G: {", ".join(ahead) or "no auto-encoder"}.
In IID the mc-VAE lies {apart[0]} points from the paper preset, untuned {apart[1]}. We did not look for the reason.
Accuracy, each center scaled by itself:

{placed(found)}"""


def _noised(name: str, lines: pd.DataFrame) -> str:
    """Where the paper's private runs stand among the auto-encoders, there and here."""
    own, printed = means(lines, "test_mae", "per center"), _printed(DATA[name][1])
    rows_ = [place for place in own.index if place in printed[VAE].dropna().index and own[PRIVATE].notna()[place]]
    theirs = [int((printed["DP-Fed-mv-PPCA"] > printed[rival]).loc[rows_].sum()) for rival in (VAE, MCVAE)]
    ours = [
        " and ".join(str(int((own[PRIVATE] > own[rival + how]).loc[rows_].sum())) for rival in (VAE, MCVAE))
        for how in ("", UNTUNED)
    ]
    return f"""DP-Fed-mv-PPCA, in the paper, has a larger test error than the VAE in {theirs[0]} of {len(rows_)} rows
and than the mc-VAE in {theirs[1]}. Here, round 1 raw, it is so in {ours[0]} of them, and beside the untuned ones in
{ours[1]}."""


def _where(ahead: pd.Series[float]) -> str:
    """By how much, and where."""
    return "" if ahead.empty else f", by {listed(ahead, '.1%')}"


def _data(name: str, lines: pd.DataFrame, corrected: pd.DataFrame | None = None) -> str:
    """``corrected``: the lines of the experiment on corrections, where it was made with these data."""
    about, printed = DATA[name]
    untuned = [VAE + UNTUNED, MCVAE + UNTUNED]
    found = means(lines, "test_mae", "per center")[[PAPER, DEFAULT, VAE, MCVAE, *untuned]]
    tuned_ahead, still = (_ahead(lines, "per center", ours, [VAE, MCVAE]) for ours in (PAPER, DEFAULT))
    caught = _caught(found, tuned_ahead, still)
    which = "" if corrected is None else _which(corrected, tuned_ahead)
    paper = _printed(printed)
    for method in ("Fed-mv-PPCA", VAE, MCVAE):
        found[f"{method}, the paper on {printed.split('_')[0]}"] = paper[method].reindex(found.index)
    shared = means(lines, "test_mae")[[DEFAULT, VAE, MCVAE]].dropna(subset=[MCVAE])
    untuned_ahead = _ahead(lines, "per center", PAPER, untuned)
    better = _ahead(lines, "shared", DEFAULT, [VAE, MCVAE])
    return f"""### {about}, {times(lines)}

Test error, each center scaled by itself. An auto-encoder is ahead of the paper preset in {len(tuned_ahead)} of
{len(found)} rows with the training described above{_where(tuned_ahead)}, and in {len(untuned_ahead)}
untuned{_where(untuned_ahead)}:

{placed(found, ".4f")}

{caught}

{which}

{_noised(name, lines)}

{_told(name, lines)}

Test error with one scaling for all, beside the default preset. An auto-encoder is ahead of it, so judged, in
{len(better)} of {len(shared)} rows{_where(better)}:

{placed(shared, ".4f")}"""


def _sweep(name: str, lines: pd.DataFrame) -> str:
    beside = "ADNI_fedprox" if name.endswith("cnp") else None
    found = []
    for encoder in (VAE, MCVAE):
        for scaling, called in (("per center", "each center by itself"), ("shared", "one for all")):
            error, told = (means(lines, metric, scaling) for metric in ("test_mae", "accuracy"))
            names = f"{encoder}, lambda 0", encoder + TWO_LAYERS
            swept = [f"{encoder}, lambda {each:g}" for each in LAMBDAS[1:]]
            for n in dict.fromkeys(lines["centers"]):
                cells = [encoder, str(n), called]
                for table, form in ((error, ".4f"), (told, ".3f")):
                    plain, deep = (format(value(table, "G", n, name), form) for name in names)
                    pulled = [value(table, "G", n, name) for name in swept]
                    cells += [plain, f"{min(pulled):{form}} to {max(pulled):{form}}", deep]
                found.append(cells)
    head = ["", "centers", "scaling", "test MAE, FedAvg", "FedProx", "two layers", "accuracy, FedAvg", "FedProx"]
    deeper, deeper_shared = (
        [f"{_ends(_deeper(lines, 'test_mae', scaling, name))} ({name})" for name in (VAE, MCVAE)]
        for scaling in ("per center", "shared")
    )
    return f"""### FedProx on {SWEEPS[name]}, scenario G, {times(lines)}

![Errors and accuracy against lambda](reproduction/{name}.png)

Smallest and largest mean over lambda = {LAMBDAS[1]:g} to {LAMBDAS[-1]:g}. As in the paper the pull changes little: over
all lambdas the test error moves by at most {at_most(_pulled(lines), 1)}. Two layers are federated by FedAvg. The paper
finds them negligibly better in testing. Here, each center scaled by itself, their test errors are
{" and ".join(deeper)} from those of one layer, and with one scaling for all {" and ".join(deeper_shared)}. In every
line they compare better on the rows that they learnt from than on those of the test.

{rows([*head, "two layers"], found)}

{_slip(summary(lines, beside)) if beside else ""}"""


def _deeper(lines: pd.DataFrame, metric: str, scaling: str, encoder: str) -> pd.Series[float]:
    """Error with two layers over that with one, less 1."""
    error = means(lines, metric, scaling)
    return error[encoder + TWO_LAYERS] / error[f"{encoder}, lambda 0"] - 1.0


def _ends(gaps: pd.Series[float]) -> str:
    return f"{gaps.min():+.1%} to {gaps.max():+.1%}"


def _slip(table: pd.DataFrame) -> str:
    """What the rows with lambda = 0 should have said."""
    adni = paper_table("ADNI_2").set_index(["scenario", "centers", "method"])["accuracy"]
    own = table[table["scaling"] == "per center"]
    pairs = []
    for n in (3, 6):
        at = own[own["centers"] == n].set_index("method")[["accuracy", "accuracy_paper"]]
        listed = at.loc[[f"{VAE}, lambda 0", f"{VAE}, lambda 0.01"]]
        (ours, theirs), (pulled, printed) = listed.to_numpy().tolist()
        fair = value(adni.unstack("method"), "G", n, VAE)
        pairs.append(
            f"{ours:.3f} and {pulled:.3f} with {n} centers (printed: {theirs:.3f} and {printed:.3f}; the paper's own "
            f"table of ADNI has {fair:.3f} for lambda 0 in G)"
        )
    return f"""The step that the paper's table has between lambda = 0 and 0.01 is the slip named below: its rows with
lambda = 0 are those of IID. In G itself, accuracy of the VAE with lambda 0 and 0.01 is {" and ".join(pairs)}.

{markdown(table, "the paper, on ADNI")}"""


def _pulled(lines: pd.DataFrame) -> float:
    """The largest relative change of a test error from lambda = 0 to any other."""
    moved = []
    for scaling in ("per center", "shared"):
        error = means(lines, "test_mae", scaling)
        for name in (VAE, MCVAE):
            swept = error[[f"{name}, lambda {each:g}" for each in LAMBDAS]]
            moved.append(swept.div(swept[f"{name}, lambda 0"], axis=0).sub(1.0).abs().to_numpy().max())
    return float(max(moved))
