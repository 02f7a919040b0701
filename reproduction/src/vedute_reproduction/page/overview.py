"""The beginning of the page on reproduction: what came out, and where each of the paper's tables and figures is."""

from __future__ import annotations

import pandas as pd

from vedute_reproduction import missing, privacy
from vedute_reproduction.collapse import lost
from vedute_reproduction.comparison import gaps, printed, summary
from vedute_reproduction.contenders import DEFAULT, PAPER, SUMS, VAE, YARDSTICK
from vedute_reproduction.corrections import CORRECTED
from vedute_reproduction.missing import CHOSEN_HOLDERS, OURS
from vedute_reproduction.page.hidden import RIDGE
from vedute_reproduction.page.parts import Results, against, at_most, at_sites, bullets, means, ratios, span
from vedute_reproduction.page.privacy import point
from vedute_reproduction.page.rivals import startings
from vedute_reproduction.page.selection import TRUTH, recovered
from vedute_reproduction.page.synthetic import inside
from vedute_reproduction.private import MAIN
from vedute_reproduction.writing import rows

FLOATS = (
    ("tab:scenarios", "Data, scenarios, presets", ""),
    ("SD_2", "Synthetic data; Auto-encoders", "`sd`"),
    ("ADNI_2", "cnp in place of ADNI; Auto-encoders", "`adni`"),
    ("Latent_space, Fig_WAIC_cen, WAIC_std_diff, fig_waic_q_15", "The number of components", "`selection`"),
    ("ADNI_fedprox, fig_adni_fedprox", "FedProx", "`fedprox`"),
    ("Variability, Prediction_ADNI_supp", "Variability of centers, and missing views imputed", "`variability`"),
    ("eps_clip, sigma_tilde_theta, Convergence_global_supp", "Differential privacy", "`privacy`"),
    ("Tab_data1, Tab_data2", "not run: ADNI is open to registered researchers; see `adni.md`", ""),
    ("not in the paper", "heart4; Variances that collapse; A view hidden in a third of the centers",
     "`heart4`, `collapse`, `corrections`, `missing`"),
)  # fmt: skip


def files() -> list[str]:
    """The results that the section needs, without their endings."""
    names = ["sd", "sd-data", "adni-cnp", "adni-cnp-data", "heart4", "collapse", "corrections"]
    return [*names, "selection", "selection-cnp", "privacy", "privacy-cnp", "missing-cnp"]


def section(results: Results) -> str:
    """What came out, in a few lines, and the way to each table."""
    told = [
        *_synthetic(results["sd"]),
        _uneven(results["sd"], results["corrections"]),
        _collapsed(results["collapse"]),
        _real(results["adni-cnp"], results["heart4"]),
        _trained(results["sd"]),
        *_private(results),
        _chosen(results["selection"], results["selection-cnp"]),
        _hidden(results["missing-cnp"]),
    ]
    return f"""## In short

{bullets(told)}

Where the paper's tables and figures are, by their labels in its source:

{rows(["label", "section of this page", "command"], FLOATS)}"""


def _synthetic(sd: pd.DataFrame) -> list[str]:
    """Agreement with the paper's table, and what makes it."""
    table = summary(sd, "SD_2")
    apart = gaps(table[table["method"] == PAPER])[["train_mae", "test_mae"]].abs().to_numpy().max()
    found, cells = inside(sd, PAPER)
    own, shared = (means(sd, "train_mae", scaling)[PAPER] for scaling in ("per center", "shared"))
    grown, level = (", ".join(f"{one['IID', n]:.4f}" for n in (1, 3, 6)) for one in (own, shared))
    told, alike = (means(sd, "accuracy", how)[PAPER] for how in ("per center", "per center, test as one"))
    theirs = printed("SD_2", "accuracy")["Fed-mv-PPCA"]["G/K"]
    return [
        f"""**The errors of Fed-mv-PPCA on synthetic data are found again** if each center is scaled by itself: within
        {at_most(apart)} in all {cells} cells, and in the range of our draws in {found}. The data, and how test rows are
        dealt in G/K, were chosen to fit: a calibration, not a confirmation.""",
        f"""**In our runs, train errors that grow with the number of centers are an effect of that scaling**: {grown}
        for 1, 3 and 6 centers, and {level} with one scaling for all. So is most of what test errors grow in K.""",
        f"""**The accuracy of {span(theirs, ".2f")} on SD in G/K** comes out as {span(told["G/K"], ".2f")} if test rows
        are parted by groups and each part is scaled by itself, and as {span(alike["G/K"], ".2f")} if all parts are
        scaled by common values: a possible explanation.""",
    ]


def _uneven(sd: pd.DataFrame, corrections: pd.DataFrame) -> str:
    """Where the paper's algorithm fails."""
    ratio, mended = ratios(sd, YARDSTICK), ratios(corrections, YARDSTICK).max()
    _, variances, mix, *_ = CORRECTED
    return f"""**With one scaling for all the paper's algorithm fails where groups are unevenly dealt**: up to
    {ratio[PAPER].max():.2f} times the error of pooled PCA on SD. The default preset has {span(ratio[DEFAULT], ".3f")}
    times. It is the case mix that mends this (alone at worst {mended[mix]:.2f} times; posterior variances alone
    {mended[variances]:.2f})."""


def _collapsed(draws: pd.DataFrame) -> str:
    """Spreads that are lost."""
    ends = draws[(draws["round"] == draws["round"].max()) & (draws["parameter"] == "W")]
    gone = lost(draws)
    kept = ends[ends["method"] == DEFAULT].groupby(["centers", "case_mix"])["ratio"].median()
    return f"""**Its variances between centers collapse**: where the truth is known, that of W is lost in
    {gone[PAPER]:.0%} of the cases, with the default preset in {gone[DEFAULT]:.0%}, which finds {span(kept, ".2f")} of
    the truth in the median."""


def _real(cnp: pd.DataFrame, hearts: pd.DataFrame) -> str:
    """Beside PCA and the paper preset on real data."""
    pooled, sums, preset = (
        against(cnp, DEFAULT, other).drop("known sites", level="scenario", errors="ignore")
        for other in (YARDSTICK, SUMS, PAPER)
    )
    ratio, lacking = ratios(hearts, YARDSTICK)[DEFAULT], sums.loc[["K", "G/K"]]
    return f"""**On real data** the default preset has on average {pooled["error"].mean():.3f} times the error of pooled
    PCA on cnp and {pooled["points"].mean():+.1f} points of accuracy; where all views are there, most of this is its
    noise for each view. On heart4 it has {ratio["IID", 1]:.2f} times the error as one center and {at_sites(ratio):.2f}
    times with the true hospitals. Beside the paper preset it gains little on cnp: {preset["error"].mean() - 1.0:+.1%}
    of error and {preset["points"].mean():+z.1f} points, on average. PCA from sums, which can be federated as well, is
    better where all centers have all views; where they lack some, ours has {span(lacking["error"], ".3f")} times its
    error on cnp, and {span(lacking["points"], "+.1f")} points."""


def _trained(sd: pd.DataFrame) -> str:
    """The lead over the VAE."""
    own, paper = means(sd, "test_mae", "per center"), printed("SD_2", "test_mae")
    here = [span(own[VAE + how] / own[PAPER], ".2f") for how in ("", *startings())]
    return f"""**The lead over the VAE is one of training**: in the paper its test error on SD is
    {span(paper[VAE] / paper["Fed-mv-PPCA"], ".2f")} times that of Fed-mv-PPCA. Here, each center scaled by itself, it
    is {here[0]} times; with a noise that has to be learnt {here[1]}, {here[2]} or {here[3]} times, by where that
    begins. FedProx changes little, as in the paper."""


def _private(results: Results) -> list[str]:
    """What the paper's privacy costs and is."""
    sd, cnp = privacy.summary(results["privacy"], "SD_2"), privacy.summary(results["privacy-cnp"], "ADNI_2")
    views = [int((results[f"{name}-data"]["what"] == "view").sum()) for name in ("sd", "adni-cnp")]
    raw, public, real = (
        point(table, sweep="eps", epsilon=MAIN.epsilon, first_round=way)
        for table, way in ((sd, "raw"), (sd, "public"), (cnp, "public"))
    )
    alone, shared, flat = (
        point(table, sweep="mean", scaling=scaling)["test_mae"]
        for table, scaling in ((sd, "per center"), (sd, "shared"), (cnp, "shared"))
    )
    plain = point(sd, sweep="none", scaling="shared")["test_mae"]
    ours, theirs = (table[table["policy"] == "subject"] for table in (sd, cnp))
    ten = ours.iloc[(ours["total"] - 10.0).abs().argmin()]
    useless = [f"{total:,.0f}" for total in sorted(theirs.loc[theirs["test_mae"] > flat, "total"])]
    return [
        f"""**The rows of DP-Fed-mv-PPCA are found again only if round 1 leaves without noise**: on SD in IID with 3
        centers, each scaled by itself, the test error is {raw["test_mae"]:.4f} (printed {raw["test_mae_paper"]:.4f});
        from a public prior it is {public["test_mae"]:.4f}, where the mean alone has {alone:.4f}.""",
        f"""**Their total is not eps = {MAIN.claim(views[0])[0]:.0f} or {MAIN.claim(views[1])[0]:.0f}, as Theorem 4
        would have it, but {public["total"]:,.0f} or {real["total"]:,.0f}** ({views[0]} or {views[1]} views, public
        prior), and infinite with a raw first round. Our policy, which hides subjects and not centers, has with one
        scaling for all {ten["test_mae"]:.4f} on SD at a total of {ten["total"]:.0f}, where the mean alone has
        {shared:.4f} and a run without privacy {plain:.4f}; on cnp it is worse than the mean alone at totals of
        {" and ".join(useless) or "nothing"}.""",
    ]


def _chosen(lines: pd.DataFrame, cnp: pd.DataFrame) -> str:
    """WAIC."""
    right, folds = recovered(lines)
    asked = cnp[cnp["recommended"]].groupby("preset")["components"].median()
    return f"""**WAIC finds the {TRUTH} components of SD** in {right.get("default", 0)} of {folds} folds with the
    default preset and one scale for each view, and in {right.get("paper", 0)} with the paper preset and each center
    scaled by itself. On cnp, of up to {cnp["components"].max()}, it asks for {asked["default"]:.0f} and
    {asked["paper"]:.0f} in the median fold."""


def _hidden(lines: pd.DataFrame) -> str:
    """Views that are not there."""
    table = missing.summary(lines)
    explained, covered = (
        table.pivot(index="method", columns="view", values=what).mean(axis=1).to_dict()
        for what in ("explained", "coverage")
    )
    most = f"{OURS}, q = {lines.loc[lines['method'] == OURS, 'q'].max():.0f}"
    return f"""**A view that is hidden in a third of the centers of cnp** is predicted best, of what moves no rows, by
    a ridge in each center ({explained[RIDGE]:+.1%} of its variance explained). Ours has {explained[most]:+.1%} with
    the components of the tables and {explained[CHOSEN_HOLDERS]:+.1%} at its best, where 90 % intervals cover
    {covered[CHOSEN_HOLDERS]:.1%}."""
