"""The part of the page on reproduction about auto-encoders: who is ahead, why, and what FedProx changes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from vedute_reproduction.comparison import printed, summary
from vedute_reproduction.contenders import (
    DEFAULT,
    ENCODERS,
    LONGER,
    MCVAE,
    PAPER,
    PRIVATE,
    SCHEDULE,
    STARTED,
    STARTS,
    TWO_LAYERS,
    UNTUNED,
    VAE,
    YARDSTICK,
)
from vedute_reproduction.corrections import CORRECTED
from vedute_reproduction.fedprox import HIDDEN, LAMBDAS
from vedute_reproduction.page.parts import Results, at_most, listed, means, placed, span, times, value
from vedute_reproduction.writing import rows

DATA = {"sd": ("SD", "SD_2"), "adni-cnp": ("cnp", "ADNI_2")}
SWEEPS = {"fedprox-cnp": "cnp", "fedprox": "SD"}
CODES = (VAE, MCVAE, VAE + UNTUNED, MCVAE + UNTUNED)


def files() -> list[str]:
    """The results that the section needs, without their endings."""
    return [*DATA, *SWEEPS, "corrections"]


def section(results: Results) -> str:
    """Tables of errors with the scaling of the paper and with one for all, then the sweep of lambda."""
    return "\n\n".join(
        [
            f"""## Auto-encoders: the order of the methods

In the paper Fed-mv-PPCA reconstructs better than a linear VAE in IID and G, and that better than a linear multi-channel
VAE; in K and G/K it runs neither, and says that they cannot handle missing views. The multi-channel VAE can, by the
encoders of the views that a row has, and runs there here.

The order depends on how the auto-encoders are trained, so two ways are shown. Learning rate ({SCHEDULE.rate:g}), epochs
({SCHEDULE.epochs} in each of {SCHEDULE.rounds} rounds) and FedAvg are the paper's; it names no optimiser and no batch,
Adam is our reading. "Untuned" has one step in an epoch and leaves the noise of each view to Adam, from a variance of
{_start(0)}: so begins the public package of the mc-VAE. The plain names have
the noise at its optimum for the errors of the moment, and batches of {SCHEDULE.batch}. "Ahead" below means by more than
two standard errors over repetitions, without a correction for how many rows are looked at. Repetitions of SD are
independent draws; those of cnp deal the same subjects anew, and tell of the dealing, not of other subjects.

### What their training decides

{_arrival(results["sd"])}

{_longer(results)}""",
            _data("sd", results["sd"], results["corrections"]),
            _data("adni-cnp", results["adni-cnp"]),
            *(_sweep(name, results[name]) for name in SWEEPS),
        ]
    )


def _start(i: int) -> str:
    """A variance from which noise is learnt."""
    return f"{np.exp(STARTS[i]):.2g}"


def startings() -> list[str]:
    """What an untuned auto-encoder is called, by where its noise begins."""
    return [UNTUNED, *(f"{UNTUNED}{STARTED}{_start(i)}" for i in range(1, len(STARTS)))]


def _arrival(sd: pd.DataFrame) -> str:
    """What comes of other starts of the noise, beside what the paper prints."""
    own, paper = means(sd, "test_mae", "per center"), printed("SD_2", "test_mae")
    body, inside = [], 0
    for name in ENCODERS:
        for n in (1, 3, 6):
            found = [value(own, "IID", n, name + how) for how in startings()]
            theirs = value(paper, "IID", n, name)
            inside += min(found) <= theirs <= max(found)
            cells = [value(own, "IID", n, name), *found, theirs, value(own, "IID", n, PAPER)]
            body.append([name, str(n), *(f"{cell:.4f}" for cell in cells)])
    head = ["", "centers", "noise at its optimum", *(f"untuned, from {_start(i)}" for i in range(len(STARTS)))]
    ratio = (paper[VAE] / paper["Fed-mv-PPCA"]).dropna()
    here = {how: own[VAE + how] / own[PAPER] for how in ("", *startings())}
    return f"""Test errors on SD in IID, each center scaled by itself, by where the variance of the noise begins:

{rows([*head, "the paper", "Fed-mv-PPCA, paper preset"], body)}

While the noise is larger than what components explain, these are lost, and Adam needs thousands of steps to carry it
down. So the start decides the error: {inside} of the {len(body)} errors that the paper prints lie between those of the
largest and the smallest start. Where its authors began, and in how many steps, is not known.

In the paper the VAE has {span(ratio, ".2f")} times the test error of Fed-mv-PPCA on SD (IID and G). Here it has
{span(here[""], ".2f")} times with its noise at the optimum; untuned {span(here[UNTUNED], ".2f")} times, and in IID from
the larger starts {span(here[startings()[1]], ".2f")} and {span(here[startings()[2]], ".2f")} times. The lead over the
VAE is one of training."""


def _longer(results: Results) -> str:
    """Whether the rounds are enough."""
    sd, cnp = results["sd"], results["adni-cnp"]
    shared, own, real = means(sd, "test_mae"), means(sd, "test_mae", "per center"), means(cnp, "test_mae")
    best = value(shared, "IID", 1, DEFAULT)
    linear = (shared[VAE] / best).dropna()
    crossed = [value(shared, "IID", 6, name) / best for name in (MCVAE, MCVAE + LONGER)]
    late = [value(real, "IID", 3, name) / value(real, "IID", 3, YARDSTICK) for name in (MCVAE, MCVAE + LONGER)]
    slow = [value(own, "IID", 3, name + UNTUNED + more) for name in (VAE, MCVAE) for more in ("", LONGER)]
    return f"""A linear VAE with a noise for each view has the same best fit as our model of one center. With one
scaling for all it comes to {span(linear, ".3f")} times the error of that on SD. Where six centers share the rows evenly
each has few, and an epoch few steps; there the multi-channel VAE has not arrived after the paper's rounds: in IID its
error is {crossed[0]:.3f} times that of our one center after them, and {crossed[1]:.3f} times after four times as many.
On cnp, in IID with 3 centers, it has {late[0]:.3f} times the error of PCA, and {late[1]:.3f} times after four times as
many rounds. A possible reason for what is left is that it draws each view also from the encoders of the others, which
are asked for more than they know. The untuned ones have not arrived either: in IID with 3 centers, each scaled by
itself, the error of the VAE is {slow[0]:.4f} after the paper's rounds and {slow[1]:.4f} after four times as many, that
of the mc-VAE {slow[2]:.4f} and {slow[3]:.4f}."""


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
    own = errors.loc[list(ahead.index)]
    best = own[list(CODES)].min(axis=1)
    caught = (own[PAPER] - own[DEFAULT]) / (own[PAPER] - best)
    behind = f"{len(still)} row{'s'[: len(still) != 1]}{_where(still)}"
    return f"""Where one of them is ahead of the paper preset, the default preset, scaled likewise, makes up this much
of the best one's lead: {listed(caught, ".0%")}. One is still ahead of it in {behind}."""


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
    return f"""Of what the default preset gains there, the posterior variances alone make up {span(alone, ".0%")} and
the case mix alone {span(mixed, ".0%")}; together and with the third correction (`vedute paper corrections`):

{placed(found.set_axis(head, axis=1), ".4f")}"""


def _told(name: str, lines: pd.DataFrame) -> str:
    """Accuracy beside the paper's, and whether its two findings hold here."""
    table = DATA[name][1]
    paper = printed(table, "accuracy")
    found = means(lines, "accuracy", "per center")[[PAPER, DEFAULT, PRIVATE, *CODES]]
    by = _by_repetition(lines, "accuracy", "per center", [PAPER, *CODES])
    gaps = by[list(CODES)].sub(by[PAPER], axis=0) * 100
    ahead = [
        f"{method} {own.mean():+.1f} points with {n} centers"
        for n in (3, 6)
        for method, own in gaps.xs(("G", n), level=("scenario", "centers")).items()
        if _beyond_chance(own)
    ]
    theirs = (paper[MCVAE] - paper["Fed-mv-PPCA"]).loc["IID"] * 100
    even = gaps.xs("IID", level="scenario").groupby("centers").mean()
    apart = [span(even[name], "+z.1f") for name in (MCVAE, MCVAE + UNTUNED)]
    for method in ("Fed-mv-PPCA", "DP-Fed-mv-PPCA", VAE, MCVAE):
        found[f"{method}, the paper on {table.split('_')[0]}"] = paper[method].reindex(found.index)
    return f"""In accuracy the paper finds its method ahead of both auto-encoders in G, and the mc-VAE slightly ahead
in IID. Here, in G, ahead of the paper preset by more than two standard errors: {"; ".join(ahead) or "no auto-encoder"}.
In IID the mc-VAE lies {apart[0]} points from the paper preset, untuned {apart[1]}; the paper has it
{span(theirs, "+z.1f")} points from its method. {_why(ahead)} Accuracy, each center scaled by itself:

{placed(found)}"""


def _why(ahead: Sequence[str]) -> str:
    """What may put an auto-encoder ahead."""
    if not any(UNTUNED in told for told in ahead):
        return "We did not look for the reason."
    return """A possible reason for the lead of untuned ones: a noise that has not arrived is still alike in all views,
and that a noise for each view costs accuracy on these data is shown above."""


def _noised(name: str, lines: pd.DataFrame) -> str:
    """Where the paper's private runs stand among the auto-encoders, there and here."""
    own, paper = means(lines, "test_mae", "per center"), printed(DATA[name][1], "test_mae")
    rows_ = [place for place in own.index if place in paper[VAE].dropna().index and own[PRIVATE].notna()[place]]
    theirs = [int((paper["DP-Fed-mv-PPCA"] > paper[rival]).loc[rows_].sum()) for rival in (VAE, MCVAE)]
    ours = [
        [int((own[PRIVATE] > own[rival + how]).loc[rows_].sum()) for rival in (VAE, MCVAE)] for how in ("", UNTUNED)
    ]
    return f"""DP-Fed-mv-PPCA, in the paper, has a larger test error than the VAE in {theirs[0]} of {len(rows_)} rows
and than the mc-VAE in {theirs[1]}. Here, round 1 raw, it has a larger one than the VAE in {ours[0][0]} and than the
mc-VAE in {ours[0][1]}; untuned, in {ours[1][0]} and {ours[1][1]}."""


def _where(ahead: pd.Series[float]) -> str:
    """By how much, and where."""
    return "" if ahead.empty else f", by {listed(ahead, '.1%')}"


def _data(name: str, lines: pd.DataFrame, corrected: pd.DataFrame | None = None) -> str:
    """``corrected``: the lines of the experiment on corrections, where it was made with these data."""
    about, table = DATA[name]
    untuned = [VAE + UNTUNED, MCVAE + UNTUNED]
    found = means(lines, "test_mae", "per center")[[PAPER, DEFAULT, *CODES]]
    tuned_ahead = _ahead(lines, "per center", PAPER, [VAE, MCVAE])
    any_ahead, still = (_ahead(lines, "per center", ours, CODES) for ours in (PAPER, DEFAULT))
    caught = _caught(found, any_ahead, still)
    which = "" if corrected is None else _which(corrected, any_ahead)
    paper = printed(table, "test_mae")
    for method in ("Fed-mv-PPCA", VAE, MCVAE):
        found[f"{method}, the paper on {table.split('_')[0]}"] = paper[method].reindex(found.index)
    shared = means(lines, "test_mae")[[DEFAULT, VAE, MCVAE]].dropna(subset=[MCVAE])
    untuned_ahead = _ahead(lines, "per center", PAPER, untuned)
    better = _ahead(lines, "shared", DEFAULT, [VAE, MCVAE])
    return f"""### {about}, {times(lines)}

Test error, each center scaled by itself. An auto-encoder is ahead of the paper preset in {len(tuned_ahead)} of
{len(found)} rows with its noise at the optimum{_where(tuned_ahead)}, and in {len(untuned_ahead)}
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
    ways = ["FedAvg", "FedProx", "two layers"]
    head = ["", "centers", "scaling", *(f"{metric}, {way}" for metric in ("test MAE", "accuracy") for way in ways)]
    deeper = [
        [f"{span(_deeper(lines, metric, scaling, name), '+.1%')} ({name})" for name in (VAE, MCVAE)]
        for scaling in ("per center", "shared")
        for metric in ("test_mae", "train_mae")
    ]
    return f"""### FedProx on {SWEEPS[name]}, scenario G, {times(lines)}

![Errors and accuracy against lambda]({name}.png)

Smallest and largest mean over lambda = {LAMBDAS[1]:g} to {LAMBDAS[-1]:g}. As in the paper the pull changes little: over
all lambdas the test error moves by at most {at_most(_pulled(lines), 1)}. Two layers ({HIDDEN} hidden units, tanh; the
paper names no sizes) are federated by FedAvg. The paper finds them negligibly better in testing. Here, each center
scaled by itself, their test errors are {" and ".join(deeper[0])} from those of one layer, and their train errors
{" and ".join(deeper[1])}; with one scaling for all the test errors are {" and ".join(deeper[2])}, and the train errors
{" and ".join(deeper[3])}. In every row they compare worse in testing than in training.

{rows(head, found)}

{_slip(summary(lines, beside)) if beside else ""}"""


def _deeper(lines: pd.DataFrame, metric: str, scaling: str, encoder: str) -> pd.Series[float]:
    """Error with two layers over that with one, less 1."""
    error = means(lines, metric, scaling)
    return error[encoder + TWO_LAYERS] / error[f"{encoder}, lambda 0"] - 1.0


def _slip(table: pd.DataFrame) -> str:
    """What the rows with lambda = 0 should have said."""
    adni = printed("ADNI_2", "accuracy")
    own = table[table["scaling"] == "per center"]
    pairs = []
    for n in (3, 6):
        at = own[own["centers"] == n].set_index("method")[["accuracy", "accuracy_paper"]]
        listed = at.loc[[f"{VAE}, lambda 0", f"{VAE}, lambda 0.01"]]
        (ours, theirs), (pulled, then) = listed.to_numpy().tolist()
        fair = value(adni, "G", n, VAE)
        pairs.append(
            f"{ours:.3f} and {pulled:.3f} with {n} centers (printed: {theirs:.3f} and {then:.3f}; the paper's own "
            f"table of ADNI has {fair:.3f} for lambda 0 in G)"
        )
    return f"""The step that the paper's table has between lambda = 0 and 0.01 is the slip named below: its rows with
lambda = 0 are those of IID. In G itself, accuracy of the VAE with lambda 0 and 0.01 is {" and ".join(pairs)}. The whole
table stands at the end of the page."""


def _pulled(lines: pd.DataFrame) -> float:
    """The largest relative change of a test error from lambda = 0 to any other."""
    moved = []
    for scaling in ("per center", "shared"):
        error = means(lines, "test_mae", scaling)
        for name in (VAE, MCVAE):
            swept = error[[f"{name}, lambda {each:g}" for each in LAMBDAS]]
            moved.append(swept.div(swept[f"{name}, lambda 0"], axis=0).sub(1.0).abs().to_numpy().max())
    return float(max(moved))
