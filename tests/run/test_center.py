"""Where centers begin, what they keep, and that computing them together changes no bit."""

from dataclasses import replace

import numpy as np
import pytest

import appendix_a as ref
from core_cases import draw, statistics_of, with_holes
from vedute.model.local_step import LocalRule
from vedute.model.parameters import GlobalPrior, ViewPrior, flat_view_prior
from vedute.model.seeds import stream
from vedute.run.center import _start, groups, make_center, run_round, stack_prior
from vedute.run.settings import Plan

Q = 2
PAPER = Plan(
    Q, rule=LocalRule("marginal", False, False, True), align=False, posterior=False, redraw=True, own_start=True, seed=3
)


def center(name, seed=0, n=30, sizes=(5, 4, 3), **kwargs):
    return make_center(name, statistics_of(draw(sizes, n=n, seed=seed)), Q, **kwargs)


def prior_for(statistics, *, tau2=0.5, seed=0, **changes):
    rng = np.random.default_rng(seed)
    layout = statistics.layout
    return GlobalPrior(
        {
            name: replace(ViewPrior(rng.normal(size=d), rng.normal(size=(d, Q)), 0.3, 0.2, 4.0, 1.5, 3), **changes)
            for name, d in zip(layout.names, layout.sizes, strict=True)
        },
        tau2,
    )


def flat_for(statistics, start=True):
    layout = statistics.layout
    rng = np.random.default_rng(0)
    return GlobalPrior(
        {
            name: flat_view_prior(d, Q, rng.normal(size=(d, Q)) if start else None)
            for name, d in zip(layout.names, layout.sizes, strict=True)
        }
    )


def assert_same_bits(one, two):
    for name in ("mu", "W", "sigma2", "m", "cov"):
        assert (getattr(one, name) == getattr(two, name)).all(), name


@pytest.mark.parametrize("holes", [False, True])
def test_together_and_alone_give_the_same_bits(holes):
    def make(name, seed):
        views = draw(n=30, seed=seed)
        return make_center(name, statistics_of(with_holes(views) if holes else views), Q)

    prior = prior_for(make("a", 0).statistics)
    plan = Plan(Q, iterations=3)
    together, alone = [[make(n, s) for s, n in enumerate("abc")] for _ in range(2)]
    for round_ in (1, 2):
        shared = [s for group in groups(together, plan) for s in run_round(group, prior, plan, round_)]
        single = [run_round([c], prior, plan, round_)[0] for c in alone]
        for a, b in zip(shared, single, strict=True):
            assert (a.var_m == b.var_m).all()
            assert (a.sq_x == b.sq_x).all()
            assert (a.views["v1"].d_W == b.views["v1"].d_W).all()
            assert a.views["v1"].var_mu == b.views["v1"].var_mu
    for a, b in zip(together, alone, strict=True):
        assert_same_bits(a.state, b.state)


def test_a_newcomer_changes_no_bit_of_the_others():
    """It has no covariance of its rows yet; the others keep theirs."""
    prior = prior_for(center("a").statistics)
    plan = Plan(Q, iterations=2)
    with_newcomer, without = center("a"), center("a")
    for one in (with_newcomer, without):
        run_round([one], prior, plan, 1)
    for group in groups([with_newcomer, center("b", seed=1)], plan):
        run_round(group, prior, plan, 2)
    run_round([without], prior, plan, 2)
    assert_same_bits(with_newcomer.state, without.state)


def test_centers_of_another_shape_or_pace_are_computed_apart():
    plan = Plan(Q)
    centers = [center("a"), center("b", 1), center("c", 2, iterations=3)]
    centers += [center("d", 3, sizes=(5, 4)), center("e", 4, n=7)]
    assert [[c.name for c in group] for group in groups(centers, plan)] == [["a", "b"], ["c"], ["d"], ["e"]]


def test_a_center_may_have_its_own_number_of_iterations():
    prior, plan = prior_for(center("a").statistics), Plan(Q, iterations=5)
    slow, usual, few = center("a", iterations=2), center("a"), center("a")
    run_round([slow], prior, plan, 2)
    run_round([usual], prior, plan, 2)
    run_round([few], prior, replace(plan, iterations=2), 2)
    assert_same_bits(slow.state, few.state)
    assert not np.allclose(slow.state.W, usual.state.W)
    first = center("a")
    run_round([first], prior, replace(plan, first_iterations=2), 1)
    assert_same_bits(first.state, few.state)


def test_the_papers_start_is_random_and_keyed_by_center_and_view():
    one = center("a")
    flat = flat_for(one.statistics, start=False)
    stacked = stack_prior(flat, one.statistics.layout)
    state = _start(one, stacked, PAPER, 1)
    assert (np.abs(state.W) <= 2).all()
    assert np.abs(state.W).max() > 1.5
    assert ((state.sigma2 >= 0.1) & (state.sigma2 <= 0.5)).all()
    again = _start(center("a", seed=5), stacked, PAPER, 1)
    assert (again.W == state.W).all()
    for other in (_start(center("b"), stacked, PAPER, 1), _start(one, stacked, replace(PAPER, seed=4), 1)):
        assert not np.isclose(other.W, state.W).any()
    less = center("a", sizes=(5, 4))
    fewer = _start(less, stack_prior(flat, less.statistics.layout), PAPER, 1)
    assert (state.W[:, :9] == fewer.W).all()


def test_a_parameter_with_a_given_prior_starts_there():
    """The paper's second initialisation: the master gives priors for some or all parameters."""
    one = center("a")
    given = prior_for(one.statistics)
    state = _start(one, stack_prior(given, one.statistics.layout), PAPER, 1)
    assert np.allclose(state.W[0], np.vstack([v.W for v in given.views.values()]))
    assert np.allclose(state.sigma2, 1.5 / 4.0)


def test_later_rounds_of_the_paper_draw_from_the_prior():
    """400 draws of one entry of W and of sigma2: means within 4.5 standard errors (false alarms below 1e-5 each)."""
    one = center("a")
    prior = prior_for(one.statistics, alpha=6.0, beta=3.0)
    stacked = stack_prior(prior, one.statistics.layout)
    draws = [_start(one, stacked, PAPER, r) for r in range(2, 402)]
    W, sigma2 = np.stack([s.W[0] for s in draws]), np.stack([s.sigma2[0] for s in draws])
    expected = np.vstack([v.W for v in prior.views.values()])
    assert np.abs(W.mean(axis=0) - expected).max() < 4.5 * np.sqrt(0.2 / 400)
    assert W.std(axis=0).mean() == pytest.approx(np.sqrt(0.2), rel=0.03)
    assert np.allclose((1 / sigma2).mean(axis=0), 2.0, atol=4.5 * np.sqrt(6 / 9 / 400))
    assert (draws[0].mu == stacked.mu).all()


@pytest.mark.parametrize("round_", [1, 2])
def test_the_papers_starts_keep_the_pinned_columns_of_narrow_views_at_zero(round_):
    """Views with d_k <= q have d_k - 1 free columns (section 4.3.1), in the start as in every iteration."""
    one = center("a", sizes=(5, 2, 1))
    state = _start(one, stack_prior(prior_for(one.statistics), one.statistics.layout), PAPER, round_)
    if round_ == 1:
        state = _start(one, stack_prior(flat_for(one.statistics, False), one.statistics.layout), PAPER, 1)
    assert state.W[0, :5].all()
    assert state.W[0, 5:7, 0].all()
    assert not state.W[0, 5:7, 1].any()
    assert not state.W[0, 7].any()


def test_the_shared_start_is_the_priors_with_half_of_the_variance_as_noise():
    views = draw(n=30)
    one = make_center("a", statistics_of(views), Q)
    flat = flat_for(one.statistics)
    state = _start(one, stack_prior(flat, one.statistics.layout), Plan(Q), 1)
    assert np.allclose(state.W[0], np.vstack([v.W for v in flat.views.values()]))
    assert np.allclose(state.mu[0], np.hstack(list(views.values())).mean(axis=0))
    assert np.allclose(state.sigma2[0], [T.var(axis=0).mean() / 2 for T in views.values()])


def test_a_center_goes_on_from_its_state():
    prior, plan = prior_for(center("a").statistics), Plan(Q, iterations=4, align=False)
    one, whole = center("a"), center("a")
    run_round([one], prior, plan, 2)
    run_round([one], prior, plan, 3)
    run_round([whole], prior, replace(plan, iterations=8), 2)
    assert_same_bits(one.state, whole.state)


def test_parameters_are_those_of_the_state():
    one = center("a")
    run_round([one], prior_for(one.statistics), Plan(Q), 1)
    params = one.parameters()
    assert (params.views["v1"].mu == one.state.mu[0, 5:9]).all()
    assert (one.state.W[0, 5:9] == params.views["v1"].W).all()
    assert params.views["v1"].sigma2 == one.state.sigma2[0, 1]
    assert (params.m == one.state.m[0]).all()


def test_streams_depend_on_their_key_alone():
    def first(*key):
        return stream(*key).random()

    assert first(0, "start", "a", "v") == first(0, "start", "a", "v")
    keys = [(0, "start", "a", "v"), (1, "start", "a", "v"), (0, "start", "b", "v"), (0, "start", "a", "w"),
            (0, "redraw", "a", "v"), (0, "start", "av"), (0, "start", "a", "v", 1)]  # fmt: skip
    assert len({first(*key) for key in keys}) == len(keys)


def test_the_reference_zeroes_the_same_columns():
    W, _ = ref.random_start(np.random.default_rng(0))("a", "v", 2, 3)
    assert not W[:, 1:].any()
