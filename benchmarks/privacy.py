"""What privacy costs in accuracy, and the paper's run reproduced; written to benchmarks/PRIVACY.md.

    python benchmarks/privacy.py [--repeats 10]

Medians over the repeats. Part 1: the policy ``subject`` on SD-like data with declared ranges, test MAE of the global
model in units of the ranges, relative to the same fit without privacy. Part 2: the policy ``paper`` as published (raw
round 1, per-center min-max scaling, test set scaled by itself). Part 3: how the clip bound of the paper moves.
"""

from __future__ import annotations

import argparse
import math
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from spreads import plot_spreads

from vedute import FederatedPPCA
from vedute.data.rows import open_rows
from vedute.datasets import make_sd
from vedute.model.parameters import Array, GlobalPrior, Layout
from vedute.privacy.policies import PaperPrivacy, SubjectPrivacy
from vedute.privacy.policies.paper import clip_bounds
from vedute.privacy.second_moments import Ranges
from vedute.run.exchange import Ledgers, make_job, read_inspected
from vedute.run.server import fit_participants
from vedute.run.settings import Settings

Views = dict[str, Array]
TEST = 1000
DELTA = 1e-5
EPSILONS = (1.0, 3.0, 10.0)
LIMITS = {1000: (1.35, 1.10, 1.03), 10_000: (1.03, 1.03, 1.03)}
PAPER = {3: 0.0848, 6: 0.0738}


def layout_of(views: Views) -> Layout:
    """The views and their sizes."""
    return Layout(tuple(views), tuple(view.shape[1] for view in views.values()))


def part(views: Views, rows: slice) -> Views:
    """Some rows of all views."""
    return {name: view[rows] for name, view in views.items()}


def mae(found: Views, true: Views, width: Array) -> float:
    """Mean absolute error in units of the ranges."""
    gaps = np.hstack([np.abs(found[name] - true[name]) for name in true])
    return float(np.mean(gaps / width))


def declared_by_sd(views: Views, sds: float) -> Ranges:
    """Ranges as one would declare them from the literature: so many standard deviations about the mean."""
    whole = np.hstack(list(views.values()))
    middle, half = whole.mean(axis=0), sds * whole.std(axis=0)
    return Ranges(layout_of(views), middle - half, middle + half)


def subject_mae(subjects: int, epsilon: float | None, seed: int, sds: float, bound: float | None) -> float:
    """Test MAE of the global model of three centers; without a policy where ``epsilon`` is None."""
    n = 3 * subjects + TEST
    views, _ = make_sd(n, round(n * 5 / 8), weights=2.0, means=2.0, noise=0.3, shift=3.0, random_state=seed)
    ranges = declared_by_sd(views, sds)
    centers = {f"center{c}": part(views, slice(c * subjects, (c + 1) * subjects)) for c in range(3)}
    pairs = np.stack([ranges.low, ranges.high], axis=1)
    policy = None if epsilon is None else SubjectPrivacy(epsilon, DELTA, bound=bound, seed=seed)
    model = FederatedPPCA(5, scaling="declared", rounds=50, random_state=seed, privacy=policy)
    model.fit(centers, ranges={n: pairs[c] for n, c in ranges.layout.slices.items()})
    test = part(views, slice(3 * subjects, None))
    return mae(model.reconstruct(test), test, ranges.width)


def paper_run(centers: int, policy: PaperPrivacy, seed: int, rounds: int = 100) -> tuple[float, list[GlobalPrior]]:
    """Test MAE of the paper's run on SD, and the prior after every round."""
    views, _ = make_sd(random_state=seed)
    table = replace(policy, seed=seed).table()
    settings = Settings(5, preset="paper", scaling="center-minmax", rounds=rounds, seed=seed, privacy=table)
    n = len(next(iter(views.values())))
    order = np.random.default_rng(seed).permutation(n)
    test, train = order[: n // 3], np.array_split(order[n // 3 :], centers)
    rows = open_rows({f"center{c}": {k: v[chosen] for k, v in views.items()} for c, chosen in enumerate(train)})
    job, priors = make_job(rows, settings), []
    fit_participants(job, read_inspected(rows, job, Ledgers()), on_round=lambda progress: priors.append(progress.prior))
    held_out = {name: view[test] for name, view in views.items()}
    return scaled_mae(priors[-1], held_out, job.schema.layout), priors


def scaled_mae(prior: GlobalPrior, views: Views, layout: Layout) -> float:
    """MAE of the global model on a table scaled by its own minimum and maximum, as the paper does."""
    rows = np.hstack(list(views.values()))
    low, high = rows.min(axis=0), rows.max(axis=0)
    scaled = (rows - low) / (high - low)
    W = np.vstack([prior.views[name].W for name in layout.names])
    mu = np.concatenate([prior.views[name].mu for name in layout.names])
    inv = 1.0 / np.concatenate(
        [np.full(d, prior.views[n].sigma2) for n, d in zip(layout.names, layout.sizes, strict=True)]
    )
    x = np.linalg.solve(np.eye(W.shape[1]) + (W.T * inv) @ W, (W.T * inv) @ (scaled - mu).T)
    return float(np.mean(np.abs(scaled - mu - (W @ x).T)))


def subject_table(repeats: int) -> list[str]:
    """Part 1."""
    lines = [
        "| subjects per center | ranges | bound B | no privacy | eps 1 | eps 3 | eps 10 | within the limits |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for subjects, sds, share in [
        (1000, 2.0, None),
        (1000, 3.0, None),
        (1000, 3.0, 0.15),
        (10_000, 2.0, None),
        (10_000, 3.0, None),
    ]:
        bound = None if share is None else share * math.sqrt(33)
        base = np.array([subject_mae(subjects, None, s, sds, bound) for s in range(repeats)])
        ratios = [
            float(np.median(np.array([subject_mae(subjects, e, s, sds, bound) for s in range(repeats)]) / base))
            for e in EPSILONS
        ]
        fine = all(r <= limit for r, limit in zip(ratios, LIMITS[subjects], strict=True))
        cells = " | ".join(f"{r:.3f}x" for r in ratios)
        size = "1/4 sqrt(d) (default)" if share is None else f"{share} sqrt(d)"
        lines.append(
            f"| {subjects:,} | mean +- {sds:g} sd | {size} | {np.median(base):.4f} | {cells} "
            f"| {'yes' if fine else 'no'} |"
        )
    return lines


def paper_table(repeats: int) -> list[str]:
    """Part 2."""
    lines = ["| centers (IID) | test MAE | least and largest | the paper's | difference |", "|---|---|---|---|---|"]
    for centers, published in PAPER.items():
        runs = [paper_run(centers, PaperPrivacy(), s)[0] for s in range(repeats)]
        found, spread = float(np.median(runs)), f"{min(runs):.4f} to {max(runs):.4f}"
        lines.append(f"| {centers} | {found:.4f} | {spread} | {published} | {100 * (found / published - 1):+.0f} % |")
    return lines


def bound_table() -> list[str]:
    """Part 3, with a figure like the paper's of one run that collapses and one that explodes."""
    runs = {}
    lines = [
        "| eps | clip | rho | bound of W, round 2 | round 10 | round 20 | round 40 |",
        "|---|---|---|---|---|---|---|",
    ]
    for epsilon, clip in [(10.0, 1.0), (10.0, 1.5), (10.0, 2.0), (1.0, 0.2), (1.0, 0.3)]:
        policy = PaperPrivacy(epsilon, clip=clip, allow_divergence=True)
        _, priors = paper_run(3, policy, 0, rounds=40)
        runs[f"eps {epsilon:g}, clip {clip:g}: rho = {policy.check_rho(3):.2f}"] = priors
        view = [clip_bounds(priors[r - 1].views["view1"], clip)[1] for r in (2, 10, 20, 40)]
        cells = " | ".join(f"{g:.1e}" for g in view)
        lines.append(f"| {epsilon:g} | {clip:g} | {policy.check_rho(3):.3f} | {cells} |")
    shown = dict(list(runs.items())[:3:2])
    plot_spreads(shown, str(Path(__file__).with_name("privacy-spreads.png")))
    return [*lines, "", "![Spread between centers, round by round](privacy-spreads.png)"]


def main() -> None:
    """Measure all and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=10)
    repeats = parser.parse_args().repeats
    warnings.simplefilter("ignore")
    text = [
        "# What privacy costs",
        "",
        f"Written by `python benchmarks/privacy.py --repeats {repeats}`; medians over seeds, delta = 1e-5.",
        "",
        "## `subject`: test MAE of the global model relative to no privacy",
        "",
        "SD-like data (W and mu in +-2, noise variance 0.3, shift +-3, d = 33, q = 5), 3 centers.",
        "Limits: 1,000 subjects per center 1.35 / 1.10 / 1.03, 10,000 subjects 1.03.",
        "",
        "How wide the ranges are declared decides: noise is measured in ranges. Ranges of 2, 2.5, 3 and 4 sd with",
        "B = 0.15, 0.20 and 0.25 sqrt(d) were tried first (4 seeds); 2 sd is the one whose error without privacy",
        "(.034) is near that of the table the limits were drawn from (.035), and the default B keeps the limits",
        "there. With ranges of 3 sd the default B does not keep them at eps = 1; a smaller B does.",
        "",
        *subject_table(repeats),
        "",
        "## `paper`: eps = 10, delta = 0.01 per mechanism, raw round 1, per-center min-max scaling, 100 rounds",
        "",
        *paper_table(repeats),
        "",
        "## `paper`: the clip bound follows rho",
        "",
        "Where lines end flat they stand on the floors of the master: sd 1e-5, sd of sigma2 a thousandth of sigma2.",
        "",
        *bound_table(),
        "",
    ]
    Path(__file__).with_name("PRIVACY.md").write_text("\n".join(text), encoding="utf-8")
    print("\n".join(text))


if __name__ == "__main__":
    main()
