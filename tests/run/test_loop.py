"""Whole fits through the round loop: the paper's algorithm, invariances, and centers that come and go."""

from dataclasses import fields, replace
from functools import reduce
from operator import add

import numpy as np
import pytest

import appendix_a as ref
from core_cases import statistics_of, with_holes
from local_rounds import rounds
from vedute.datasets import make_hierarchical
from vedute.model.local_step import LocalRule
from vedute.model.master import MasterRule, change, inverse_gamma_shape
from vedute.model.parameters import GlobalPrior, Layout, flat_view_prior
from vedute.model.seeds import RoundStream, stream
from vedute.model.stacked import find_rotation
from vedute.model.statistics import from_rows
from vedute.run import exchange
from vedute.run.center import Center, make_center, run_round
from vedute.run.exchange import nbytes
from vedute.run.settings import Plan

Q = 2
PAPER = Plan(
    Q,
    6,
    10,
    LocalRule("marginal", False, False, True),
    align=False,
    posterior=False,
    redraw=True,
    own_start=True,
    seed=3,
)

ALGORITHM_1 = MasterRule(posterior=False, case_mix=False, expand=False, accelerate=False, narrow=True)


def start_for(sizes, q=Q, *, shared=True, **changes):
    return GlobalPrior({
        name: replace(flat_view_prior(d, q, stream(0, name).normal(size=(d, q)) * 0.5 if shared else None), **changes)
        for name, d in sizes.items()
    })  # fmt: skip


def sizes_of(data):
    return {k: T.shape[1] for views in data.values() for k, T in views.items()}


def centers_of(data, q=Q):
    return [make_center(name, statistics_of(views), q) for name, views in data.items()]


def fitted(data, *, n_rounds=6, tol=None, plan=None, rule=None, q=Q, start=None, **kwargs):
    """The last prior of a fit, its progress and its centers."""
    centers = centers_of(data, q)
    start = start or start_for(sizes_of(data), q)
    progress = rounds(centers, start, plan or Plan(q), rule or MasterRule(), n_rounds=n_rounds, tol=tol, **kwargs)
    return progress, {center.name: center for center in centers}


def study(n_centers=4, n=30, holes=False, sizes=(5, 4, 3), seed=0):
    """Centers that share a truth, one of them without the last view."""
    data, _ = make_hierarchical(
        n_centers, n, sizes=sizes, n_components=Q, tau=1.0, sd_W=0.3, noise_shape=4.0, random_state=seed
    )
    data = {name: with_holes(views, seed=s) if holes else dict(views) for s, (name, views) in enumerate(data.items())}
    del data["center2"]["view3"]
    return data


def assert_close(one, two, tol=1e-10):
    assert one.tau2 == pytest.approx(two.tau2, rel=tol, abs=tol)
    for name, view in one.views.items():
        for field in fields(view):
            a, b = getattr(view, field.name), getattr(two.views[name], field.name)
            assert np.allclose(a, b, rtol=tol, atol=tol), (name, field.name)


# --- the paper's algorithm


def the_papers_starts(seed):
    def start(center, view, d, q):
        rng = stream(seed, "start", center, view)
        W = rng.uniform(-2, 2, (d, q))
        W[:, ref.free_columns(d, q) :] = 0
        return W, rng.uniform(0.1, 0.5)

    def redraw(round_, center, view, prior):
        rng = RoundStream(seed, "redraw", center, view).at(round_)
        W = prior.W + np.sqrt(prior.sigma2_W) * rng.standard_normal(prior.W.shape)
        W[:, ref.free_columns(*prior.W.shape) :] = 0
        return W, prior.beta / rng.standard_gamma(prior.alpha)

    return start, redraw


@pytest.mark.parametrize("sizes", [(5, 4, 3), (5, 2, 3)])
def test_the_paper_preset_is_algorithm_1_row_by_row(sizes):
    """Same starts, same redraws, 4 rounds; one center lacks a view, and with d = 2 a view is narrow."""
    data = study(sizes=sizes)
    begin, redraw = the_papers_starts(3)
    no_prior = (-1.0, 0.0)
    slow = ref.run(
        data, Q, rounds=4, first_iterations=10, iterations=6, start=begin, redraw=redraw, first_noise=no_prior
    )
    flat = start_for(sizes_of(data), shared=False)
    progress, centers = fitted(data, n_rounds=4, plan=PAPER, rule=ALGORITHM_1, start=flat)
    for name, expected in slow.prior.items():
        found = progress.prior.views[name]
        for field in ("mu", "W", "sigma2_mu", "sigma2_W", "alpha", "beta"):
            assert np.allclose(getattr(found, field), getattr(expected, field), rtol=1e-7, atol=1e-8), (name, field)
    for name, views in slow.centers.items():
        for view, expected in views.items():
            found = centers[name].parameters().views[view]
            assert np.allclose(found.W, expected.W, rtol=1e-7, atol=1e-8)
            assert found.sigma2 == pytest.approx(expected.sigma2, rel=1e-7)


# --- the default


def em_step(prior, total):
    """The master's step of plain EM: means of the estimates, their posterior variances added to the squares."""
    views = {}
    for name, part in total.views.items():
        old, n = prior.views[name], part.centers
        cells = n * len(old.mu)
        alpha = inverse_gamma_shape(part.precision / n, part.log_sigma2 / n)
        views[name] = replace(
            old,
            mu=old.mu + part.d_mu / n,
            W=old.W + part.d_W / n,
            sigma2_mu=(part.sq_mu - (part.d_mu**2).sum() / n + part.var_mu) / cells,
            sigma2_W=(np.trace(part.sq_W + part.var_W) - (part.d_W**2).sum() / n) / (cells * Q),
            alpha=alpha,
            beta=n * alpha / part.precision,
        )
    return GlobalPrior(views, np.trace(total.sq_m + total.var_m) / (total.centers * Q) if prior.tau2 else 0.0)


def settled(tau, **changes):
    """A converged fit with variances far above the floor, and a finite alpha because the noise really varies."""
    data, _ = make_hierarchical(6, 60, sizes=(6, 5), n_components=Q, noise_shape=4.0, sd_W=0.3, tau=tau, random_state=0)
    rule = replace(MasterRule(case_mix=tau > 0, accelerate=False), **changes)
    progress, centers = fitted(data, n_rounds=300, tol=1e-10, rule=rule)
    assert progress.converged
    total = reduce(add, (run_round([c], progress.prior, Plan(Q), 999)[0] for c in centers.values()))
    return progress, total


@pytest.mark.parametrize("tau", [0.0, 1.0])
def test_no_shortcut_moves_the_end(tau):
    """Neither the change of basis nor the extrapolation changes where the rounds end, only how soon."""
    plain, _ = settled(tau, expand=False)
    expanded, _ = settled(tau)
    extrapolated, _ = settled(tau, expand=False, accelerate=True)
    for shortcut in (expanded, extrapolated):
        assert change(plain.prior, shortcut.prior) < 1e-7  # W~ may have turned
        assert len(shortcut.history) < len(plain.history) or tau == 0.0
    assert np.allclose(expanded.basis, np.eye(Q), atol=1e-7)


def test_the_stretched_rounds_end_where_em_ends():
    progress, total = settled(0.0)
    assert_close(em_step(progress.prior, total), progress.prior, tol=1e-6)


def test_with_case_mix_the_centers_mean_is_the_origin_and_the_variances_are_those_of_em():
    """The model leaves the origin of the latent space to the prior of m alone. EM would settle it where the deviations
    of mu vanish on average; the master puts it where those of mu and of m balance, W~ m + D_mu / gain = 0. Measured:
    one step of EM from there changes no variance by more than 1 %, and the mean of m is a small part of tau."""
    progress, total = settled(1.0)
    prior, em = progress.prior, em_step(progress.prior, total)
    assert em.tau2 == pytest.approx(prior.tau2, rel=0.01)
    for name, view in prior.views.items():
        assert em.views[name].sigma2_mu == pytest.approx(view.sigma2_mu, rel=0.01)
        assert em.views[name].sigma2_W == pytest.approx(view.sigma2_W, rel=1e-5)
        assert em.views[name].alpha == pytest.approx(view.alpha, rel=1e-5)
        part = total.views[name]
        assert np.allclose(view.W @ total.m / 6 + part.d_mu / part.mu_gain, 0.0, atol=1e-7)
    assert np.linalg.norm(total.m / 6) < 0.1 * np.sqrt(prior.tau2 * Q)


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("paper", [False, True])
def test_the_order_of_centers_views_and_subjects_does_not_matter(holes, paper):
    plan, rule = (PAPER, ALGORITHM_1) if paper else (Plan(Q), MasterRule())
    data = study(holes=holes)
    expected, _ = fitted(data, plan=plan, rule=rule)
    rng = np.random.default_rng(0)
    backwards = dict(reversed(data.items()))
    views = {c: dict(reversed(v.items())) for c, v in data.items()}
    order = rng.permutation(30)
    rows = {c: {k: T[order] for k, T in v.items()} for c, v in data.items()}
    for shuffled in (backwards, views, rows):
        assert_close(expected.prior, fitted(shuffled, plan=plan, rule=rule)[0].prior)
    other, _ = fitted(study(seed=1, holes=holes), plan=plan, rule=rule)
    assert change(other.prior, expected.prior) > 0.1  # other rows do matter


def test_threads_change_no_bit(monkeypatch):
    data = study(holes=True)
    alone, _ = fitted(data)
    monkeypatch.setattr(exchange, "WORTH_A_THREAD", 0)
    several, _ = fitted(data, threads=4)
    assert change(alone.prior, several.prior) == 0.0
    for name, view in alone.prior.views.items():
        assert (view.W == several.prior.views[name].W).all()


@pytest.mark.parametrize("missing", [False, True])
def test_a_fit_of_wide_views_is_the_fit_of_the_same_views_unrotated(missing):
    data = study(sizes=(80, 4, 60), n=10)
    if missing:
        for views in data.values():
            views["view1"][:3] = np.nan
    progress, centers = fitted(data, n_rounds=4)
    assert centers["center1"].rotation is not None
    plain = [Center(name, statistics_of(views)) for name, views in data.items()]
    expected = rounds(plain, start_for(sizes_of(data)), Plan(Q), MasterRule(), n_rounds=4, tol=None)
    assert find_rotation(plain[0].statistics, Q) is not None
    assert_close(progress.prior, expected.prior, tol=1e-8)


def test_a_center_without_a_view_is_one_whose_rows_of_it_are_empty():
    data = study()
    width = data["center1"]["view3"].shape[1]
    expected, centers = fitted(data)
    layout = Layout(("view1", "view2", "view3"), (5, 4, width))
    whole = [
        make_center(name, from_rows(layout, views).held() if name == "center2" else statistics_of(views), Q)
        for name, views in data.items()
    ]
    assert whole[1].statistics.layout.names == ("view1", "view2")
    found = rounds(whole, start_for(sizes_of(data)), Plan(Q), MasterRule(), n_rounds=6, tol=None)
    assert_close(expected.prior, found.prior, tol=1e-12)
    assert "view3" not in centers["center2"].parameters().views


def test_a_view_of_one_center_has_no_variability_and_the_fit_goes_on():
    data = study()
    for name in ("center3", "center4"):
        del data[name]["view3"]
    progress, centers = fitted(data, n_rounds=300, tol=1e-8, rule=MasterRule(accelerate=False))
    assert progress.converged
    view = progress.prior.views["view3"]
    assert view.n_centers == 1
    assert view.sigma2_W == view.sigma2_mu == np.inf
    own = centers["center1"].parameters().views["view3"]
    assert np.allclose(view.W @ view.W.T, own.W @ own.W.T, rtol=1e-3)
    assert np.isfinite(progress.prior.tau2)
    assert all(np.isfinite(v.sigma2_W) for n, v in progress.prior.views.items() if n != "view3")


def test_one_center_alone_can_be_fitted():
    progress, _ = fitted({"center1": study()["center1"]}, n_rounds=5)
    for view in progress.prior.views.values():
        assert np.isfinite(view.mu).all()
        assert np.isfinite(view.W).all()
        assert view.sigma2 > 0


@pytest.mark.parametrize("paper", [False, True])
def test_centers_may_join_and_leave_between_rounds(paper):
    plan, rule = (PAPER, ALGORITHM_1) if paper else (Plan(Q), MasterRule())
    data = study(6)
    all_of_them = centers_of(data)
    start = start_for(sizes_of(data))

    def go(present, until, progress=None):
        return rounds(present, start, plan, rule, n_rounds=until, tol=None, resume=progress)

    progress = go(all_of_them[:4], 3)
    progress = go(all_of_them, 8, progress)
    progress = go(all_of_them[1:], 80, progress)
    assert [len(r.centers) for r in progress.history[:9]] == [4] * 3 + [6] * 5 + [5]
    assert progress.prior.views["view1"].n_centers == 5
    assert progress.prior.views["view3"].n_centers == 4
    if not paper:  # what was there before is forgotten: the end is that of the five alone
        alone = rounds(centers_of(data)[1:], start, plan, rule, n_rounds=80, tol=None)
        for name, view in alone.prior.views.items():
            found = progress.prior.views[name]
            assert np.allclose(found.W @ found.W.T, view.W @ view.W.T, rtol=1e-3, atol=1e-3)
            assert found.sigma2_W == pytest.approx(view.sigma2_W, rel=1e-3)


def test_rounds_go_on_where_they_stopped():
    data = study()
    whole, _ = fitted(data, n_rounds=6)
    centers = centers_of(data)
    half = rounds(centers, start_for(sizes_of(data)), Plan(Q), MasterRule(), n_rounds=3, tol=None)
    rest = rounds(centers, half.prior, Plan(Q), MasterRule(), n_rounds=6, tol=None, resume=half)
    assert change(whole.prior, rest.prior) == 0.0
    assert [r.round for r in rest.history] == [1, 2, 3, 4, 5, 6]


def test_rounds_end_when_the_prior_has_settled():
    seen = []
    progress, _ = fitted(study(), n_rounds=200, tol=1e-4, on_round=seen.append)
    assert progress.converged
    assert progress.history[-1].change < 1e-4 <= progress.history[-2].change
    assert len(progress.history) == len(seen) < 200
    again, _ = fitted(study(), n_rounds=3, tol=1e-12)
    assert not again.converged
    assert len(again.history) == 3
    resumed = rounds([], again.prior, Plan(Q), MasterRule(), n_rounds=9, tol=1.0, resume=replace(again, converged=True))
    assert len(resumed.history) == 3


def test_history_counts_what_travels():
    progress, _ = fitted(study(), n_rounds=1)
    record = progress.history[0]
    assert record.centers == ("center1", "center2", "center3", "center4")
    # a view of d features: 7 numbers, counts and d_mu, d_W, 3 matrices q x q; a center: 2 numbers, m and 3 matrices
    of_view = {d: 8 * (7 + d + d + d * Q + 3 * Q * Q) for d in (5, 4, 3)}
    assert record.bytes_up == 4 * (of_view[5] + of_view[4]) + 3 * of_view[3] + 4 * 8 * (2 + Q + 3 * Q * Q)
    assert record.bytes_down == 4 * nbytes(start_for({"view1": 5, "view2": 4, "view3": 3}))
    assert nbytes({"a": np.zeros(3), "b": 1.0}) == 32
