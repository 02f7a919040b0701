"""The part of the page on reproduction that tells what privacy costs; computed from privacy.csv and its companions."""

from __future__ import annotations

import pandas as pd

from vedute_reproduction.contenders import DEFAULT, PAPER
from vedute_reproduction.folds import N_FOLDS
from vedute_reproduction.methods import LONGEST
from vedute_reproduction.page.parts import Results, means, span, value
from vedute_reproduction.privacy import RANGES, READING, after_all, collapse, floored, markdown, summary
from vedute_reproduction.private import MAIN
from vedute_reproduction.significance import TEST

NAMES = {"privacy": ("SD_2", "SD"), "privacy-cnp": ("ADNI_2", "cnp, which is not ADNI")}
COMPARED = {"privacy": "sd", "privacy-cnp": "adni-cnp"}  # where methods without privacy are compared on the same folds


def files() -> list[str]:
    """The results that the section needs, without their endings."""
    return [f"{name}{part}" for name in NAMES for part in ("", "-rounds")] + list(COMPARED.values())


def section(results: Results) -> str:
    """Both data sets: what the figures show, in numbers, and the full tables."""
    head = f"""## Differential privacy (the paper's section 4.3.3)

Written by `vedute paper privacy` and, with `--data cnp`, on cnp. {READING} {RANGES}

{TEST}

Algorithm 2 as printed clips and noises every round against the prior of the round before. But the paper's experiments
begin without a prior, so round 1 has nothing to be clipped at, and its rows of DP-Fed-mv-PPCA on SD are found again if
round 1 leaves raw; that in IID with 3 centers is not, if it begins from a public prior. So we take round 1 to be raw,
and show both."""
    return "\n\n".join([head, *(_data(results, name) for name in NAMES)])


def _data(results: Results, name: str) -> str:
    paper, about = NAMES[name]
    lines, rounds, compared = results[name], results[f"{name}-rounds"], results[COMPARED[name]]
    rounds = rounds.fillna({"view": ""})
    views = rounds.loc[rounds["view"] != "", "view"].nunique()
    table = summary(lines, paper)
    raw, public = (point(table, sweep="eps", first_round=first, epsilon=MAIN.epsilon) for first in ("raw", "public"))
    plain, mean = (point(table, sweep=sweep, scaling="per center") for sweep in ("none", "mean"))
    ended = {run: collapse(rounds, run, 1e-3) for run in ("none", "raw", "public")}
    on = " for ADNI" if paper.startswith("ADNI") else ""
    return f"""### {about}, {lines["repeat"].nunique()} x 3-fold

![Accuracy and test error against eps and the clip constant]({name}.png)

At the paper's eps = 10 and clip constant 1 the test error is {raw["test_mae"]:.4f} with a raw first round (the paper
prints {raw["test_mae_paper"]:.4f}{on}) against {plain["test_mae"]:.4f} without privacy. From a public prior, the only
way in which anything is hidden at all, it is {public["test_mae"]:.4f}; the mean alone, without any component, has
{mean["test_mae"]:.4f}{_against(public["test_mae"], mean["test_mae"])}. Where rho >= 1 the error leaves every scale
(numbers in the figure are medians). Accuracy alone does not tell: runs that diverged still have
{_diverged(table)}, because a discriminant may separate what can no longer be reconstructed.

By its Theorem 4 the paper claims a total of eps = {MAIN.claim(views)[0]:.0f} for such a run. It counts the mechanisms
of one round. Over all rounds, at delta = 1e-5, a run from a public prior comes to {public["total"]:,.0f}, and one that
begins raw hides nothing.

{_first_round(rounds)}

{_clipped(table, plain)}

![Test error and accuracy against the true total]({name}-total.png)

{_same_totals(table, lines, compared)}

![Standard deviation of the global parameters by round]({name}-spread.png)

In scenario G/K, as in the paper's figure, the standard deviations of W of all views fall to a thousandth of their first
value by round {_latest(ended["raw"])} (raw first round) and {_latest(ended["public"])} (public prior), as
rho = {raw["rho"]:.2f} foretells for views that all centers hold; the paper says "after approximately 20
communication rounds". By round
{floored(rounds, "raw"):.0f} and {floored(rounds, "public"):.0f} they stand on the floor of the master, and updates are
clipped to nothing. Without privacy, says the paper, they converge. {_without(ended["none"], ended["raw"])}

![Accuracy, test error and noise variance by round]({name}-rounds.png)

{_noise(rounds)}

{markdown(table, f"the paper, on {paper.split('_')[0]}")}"""


def point(table: pd.DataFrame, **asked: object) -> dict[str, float]:
    """The one row with these values."""
    for column, wanted in asked.items():
        table = table[table[column] == wanted]
    return {str(key): value for key, value in table.iloc[0].items()}


def _clipped(table: pd.DataFrame, plain: dict[str, float]) -> str:
    """The paper's advice on the clip constant."""
    raw = table[(table["sweep"] == "clip") & (table["first_round"] == "raw")]
    largest = raw.loc[raw["rho"] < 1.0, "clip"].max()
    tried = point(raw, clip=largest)
    return f"""At eps = 1 the paper advises a clip constant of at most 0.2 and finds the utility reasonable. The largest
that was tried with rho < 1 is {largest:g}. With it, from a raw first round, accuracy is {tried["accuracy"]:.3f} against
{plain["accuracy"]:.3f} without privacy (worse in {tried["accuracy_worse"]:.0f} of {int(tried["folds"]) // N_FOLDS}
repetitions), and the test error {tried["test_mae"]:.4f} against {plain["test_mae"]:.4f}."""


def _diverged(table: pd.DataFrame) -> str:
    """Accuracies of runs whose error is beyond all scales."""
    gone = table[table["sweep"].isin(["eps", "clip"]) & (table["rho"] >= 1.0)]
    return f"an accuracy of {span(gone['accuracy'], '.2f')}"


def _noises(totals: pd.DataFrame, plain: dict[str, float]) -> str:
    """What release noise does to the noise that the model finds, and to accuracy."""
    ours = totals[totals["policy"] == "subject"].sort_values("total")
    told = [f"{row.accuracy:.3f} and {row.noise_ratio:.1f} at eps {row.total:,.0f}" for row in ours.itertuples()]
    above = ours[ours["accuracy"] > plain["accuracy"]]
    text = f"""Under the policy subject, accuracy, and the largest noise variance of a view over the smallest, by
the true total: {"; ".join(told)}; without privacy {plain["accuracy"]:.3f} and {plain["noise_ratio"]:.1f}."""
    if above.empty:
        return text
    return f"""{text} Where privacy seems to gain accuracy, a possible reason is this: the noise of a release is alike
in all views and brings what the model takes for their noise nearer to each other, and that a noise for each view costs
accuracy here is shown above."""


def _same_totals(table: pd.DataFrame, points: pd.DataFrame, compared: pd.DataFrame) -> str:
    totals = table[table["sweep"] == "total"]
    pairs = []
    for total in totals.loc[totals["policy"] == "paper", "total"]:
        theirs, ours = (point(totals, policy=policy, total=total)["test_mae"] for policy in ("paper", "subject"))
        pairs.append(f"{theirs:.4f} against {ours:.4f} at {total:,.0f}")
    alone = point(table, sweep="mean", scaling="shared")["test_mae"]
    none = [value(means(compared, "test_mae"), "IID", 3, method) for method in (DEFAULT, PAPER)]
    return f"""{_noises(totals, point(table, sweep="none", scaling="shared"))}

With one scaling for all and the same true total, test error of the paper's policy from a public
prior (its clip constant chosen so that rho is that of eps = 10) against ours: {"; ".join(pairs)}. The paper's policy
runs the paper preset and ours the default one; without privacy they have {none[1]:.4f} and {none[0]:.4f}. The two
do not promise the same: the paper's policy hides a whole center, ours each subject, which is less.
{_useless(totals, alone)} {_limited(points)}"""


def _useless(totals: pd.DataFrame, alone: float) -> str:
    """Budgets at which a run says less than the mean alone."""
    worse = totals[totals["test_mae"] > alone]
    told = []
    for policy, name in (("paper", "the paper's policy"), ("subject", "ours")):
        at = [f"{total:,.0f}" for total in sorted(worse.loc[worse["policy"] == policy, "total"])]
        if at:
            told.append(f"{name} at totals of {' and '.join(at)}")
    return f"The mean alone has {alone:.4f}. Worse than that: {'; '.join(told) or 'none'}."


def _noise(rounds: pd.DataFrame) -> str:
    plain, raw, public = (after_all(rounds, "noise variance", run) for run in ("none", "raw", "public"))
    ratios = [f"{view} {raw[view] / plain[view]:.2f} and {public[view] / plain[view]:.2f}" for view in plain]
    larger = [sum(run[view] > plain[view] for view in plain) for run in (raw, public)]
    return f"""The paper finds the global noise variance sigma~2 larger with privacy in every view. Here it is so in
{larger[0]} of {len(plain)} views with a raw first round and in {larger[1]} with a public prior;
after the last round and over that without privacy: {"; ".join(ratios)}. The noised sigma2 of a center is cut off at a
floor near 0, and sigma~2 is the inverse of a mean precision, so a center near the floor can pull it down: that may be
why."""


def _first_round(rounds: pd.DataFrame) -> str:
    """What a raw first round is worth, and what the rounds after it add."""
    asked = rounds[(rounds["scenario"] == "IID") & (rounds["quantity"] == "test_mae")]
    error = asked.pivot(index="round", columns="run", values="mean")
    first, last = error.iloc[0], error.iloc[-1]
    return f"""What the raw runs are worth comes from their first round, which is not noised. After it the test error is
{first["raw"]:.4f} with the policy and {first["none"]:.4f} without; {error.index[-1] - 1} noised rounds later it is
{last["raw"]:.4f} with the policy, {"less" if last["raw"] < first["raw"] else "more"} than before them, and
{last["none"]:.4f} without."""


def _latest(ended: dict[str, float]) -> str:
    """The round by which all views are below; none if one stays above."""
    return f"{max(ended.values()):.0f}" if all(value == value for value in ended.values()) else "none"


def _without(ended: dict[str, float], private: dict[str, float]) -> str:
    """The same without any policy, view by view, and whether the policy can be its cause."""
    fallen = {view: value for view, value in ended.items() if value == value}
    if not fallen:
        return "So they do here."
    told = ", ".join(f"{view} by round {value:.0f}" for view, value in fallen.items())
    text = f"Here they fall as far without it in {len(fallen)} of {len(ended)} views ({told})"
    sooner = all(value < private[view] for view, value in ended.items())
    text += (
        ", and sooner: the policy is not needed for the fall; where it is on, its clipping sets the pace."
        if sooner
        else "."
    )
    return f"{text} The section on variances that collapse tells why."


def _against(error: float, mean: float) -> str:
    return ", which is nearer to the truth" if mean < error else ""


def _limited(points: pd.DataFrame) -> str:
    """Runs that did not converge."""
    ours = points[(points["sweep"] == "total") & (points["policy"] == "subject")]
    share = (ours["rounds"] >= LONGEST).groupby(ours["total"]).mean()
    told = [f"{part:.0%} of its runs at {total:,.0f}" for total, part in share.items() if part > 0]
    return f"Of the policy subject, {' and '.join(told)} ended at the limit of {LONGEST} rounds." if told else ""
