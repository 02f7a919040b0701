"""The local step on statistics = Appendix A row by row; and its limits, where the answer is known."""

from dataclasses import replace

import numpy as np
import pytest

import appendix_a as ref
from core_cases import bunch_of, draw, flat_prior, side_by_side, some_prior, some_state, with_holes
from vedute.model.local_step import LocalRule, e_step, fit, free_columns, iterate, relative_spread
from vedute.model.means import joint_means, precisions
from vedute.model.stacked import StackedPrior, State

PAPER = LocalRule(mean="marginal", spread=False, expand=False, narrow=True)
Q = 2


def as_reference(prior, layout):
    """The package's stacked prior as the reference's, view by view."""
    return {
        name: ref.Prior(
            prior.mu[0, cols], prior.W[0, cols], 1 / prior.precision_mu[k] if prior.precision_mu[k] else np.inf,
            1 / prior.precision_W[k] if prior.precision_W[k] else np.inf, prior.alpha[k], prior.beta[k],
        )
        for k, (name, cols) in enumerate(layout.slices.items())
    }  # fmt: skip


def started(layout, q, B=1, seed=4):
    """A random start whose unfree columns of narrow views are zero, as the paper has it."""
    state = some_state(layout, q, B, seed)
    columns = free_columns(layout.sizes, q, narrow=True)[layout.view_of]
    return replace(state, W=state.W * (np.arange(q) < columns[:, None]))


def assert_equal(state, c, layout, local, tol=1e-12):
    for k, (name, cols) in enumerate(layout.slices.items()):
        assert np.allclose(state.mu[c, cols], local[name].mu, rtol=tol, atol=tol)
        assert np.allclose(state.W[c, cols], local[name].W, rtol=tol, atol=tol)
        assert state.sigma2[c, k] == pytest.approx(local[name].sigma2, rel=tol)


@pytest.mark.parametrize("q", [1, 2, 4])
@pytest.mark.parametrize("sizes", [(5,), (5, 4, 3), (6, 2, 1)])
@pytest.mark.parametrize("prior_of", [flat_prior, some_prior])
def test_iterations_are_those_of_appendix_a(q, sizes, prior_of):
    """Narrow views (d <= q) among them: q = 4 with d = 3, q = 2 with d = 2 and 1."""
    centers = [draw(sizes, n=30, seed=s) for s in (0, 1)]
    stacked = bunch_of(*centers)
    layout = stacked.layout
    prior, start = prior_of(layout, q), started(layout, q, B=2)
    state = fit(stacked, prior, start, PAPER, 3)
    for c, views in enumerate(centers):
        local = {
            name: ref.Local(start.mu[c, cols], start.W[c, cols], start.sigma2[c, k])
            for k, (name, cols) in enumerate(layout.slices.items())
        }
        for _ in range(3):
            local = ref.local_iteration(views, local, as_reference(prior, layout))
        assert_equal(state, c, layout, local, tol=1e-11)
    assert not state.m.any()


def test_a_long_local_fit_stays_with_appendix_a():
    views = draw(n=50)
    stacked = bunch_of(views)
    prior, start = some_prior(stacked.layout, Q), started(stacked.layout, Q)
    begin = {n: (start.W[0, cols], start.sigma2[0, k]) for k, (n, cols) in enumerate(stacked.layout.slices.items())}
    local = ref.local_fit(views, begin, as_reference(prior, stacked.layout), 45)
    assert_equal(fit(stacked, prior, start, PAPER, 45), 0, stacked.layout, local, tol=1e-10)


def tipping_bishop(T, q):
    """W W' and sigma2 in closed form (Tipping & Bishop 1999, eqs. 7 and 8)."""
    values, vectors = np.linalg.eigh(np.cov(T.T, bias=True))
    noise = values[:-q].mean()
    return (vectors[:, -q:] * (values[-q:] - noise)) @ vectors[:, -q:].T, noise


@pytest.mark.parametrize("rule", [PAPER, LocalRule(), LocalRule(expand=False)])
def test_one_view_without_priors_is_closed_form_ppca(rule):
    T = draw((7,), n=200, seed=2)["v0"]
    stacked = bunch_of({"v0": T})
    state = fit(stacked, flat_prior(stacked.layout, Q), some_state(stacked.layout, Q), rule, 1000)
    WW, noise = tipping_bishop(T, Q)
    assert np.allclose(state.mu[0], T.mean(axis=0), atol=1e-12)
    assert np.allclose(state.W[0] @ state.W[0].T, WW, atol=1e-8)
    assert state.sigma2[0, 0] == pytest.approx(noise, rel=1e-9)


def test_expansion_gives_x_the_covariance_that_the_e_step_found():
    """W W' becomes W Cov(x) W': the same model of the rows, with x of variance one again."""
    views = with_holes(draw(n=80))
    stacked = bunch_of(views)
    prior, start = flat_prior(stacked.layout, Q), some_state(stacked.layout, Q)
    kept, expanded = (iterate(stacked, prior, start, LocalRule(spread=False, expand=e)) for e in (False, True))
    inv = 1.0 / start.sigma2[:, stacked.layout.view_of]
    P, h = precisions(stacked, start.W, start.W * inv[..., None], None)
    means = joint_means(stacked, prior, start.W, inv, P, h)
    moments = e_step(stacked, start.W, inv, P, h, prior.mu + means.delta, means.m)
    covariance = moments.XX[0].sum(axis=0) / stacked.n.sum()
    assert np.abs(np.einsum("p,pa->a", stacked.n[0], moments.x[0])).max() < 1e-10  # the mean step left x no mean
    assert np.allclose(expanded.W[0] @ expanded.W[0].T, kept.W[0] @ covariance @ kept.W[0].T, atol=1e-10)


def test_expansion_changes_the_path_but_not_the_end():
    stacked = bunch_of(draw(n=80))
    prior, start = flat_prior(stacked.layout, Q), some_state(stacked.layout, Q)
    ends = [fit(stacked, prior, start, LocalRule(spread=False, expand=e), 4000) for e in (False, True)]
    assert np.allclose(ends[0].W[0] @ ends[0].W[0].T, ends[1].W[0] @ ends[1].W[0].T, atol=1e-8)
    assert np.allclose(ends[0].sigma2, ends[1].sigma2, rtol=1e-8)


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("rule", [PAPER, LocalRule(expand=False)])
def test_a_vague_prior_is_em(rule, holes):
    views = draw(n=60)
    views = with_holes(views) if holes else views
    stacked = bunch_of(views)
    layout, start = stacked.layout, some_state(stacked.layout, Q)
    vague = some_prior(layout, Q, tau2=1e-12)
    vague = replace(
        vague, precision_mu=np.full(3, 1e-13), precision_W=np.full(3, 1e-13), alpha=-np.ones(3), beta=np.zeros(3)
    )
    rule = replace(rule, spread=False)
    found, em = (fit(stacked, prior, start, rule, 20) for prior in (vague, flat_prior(layout, Q)))
    for name in ("mu", "W", "sigma2"):
        assert np.allclose(getattr(found, name), getattr(em, name), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("rule", [PAPER, LocalRule()])
def test_a_sharp_prior_is_obeyed(rule, holes):
    views = draw(n=60)
    views = with_holes(views) if holes else views
    stacked = bunch_of(views)
    sharp = some_prior(stacked.layout, Q)
    sharp = replace(sharp, precision_mu=np.full(3, 1e12), precision_W=np.full(3, 1e12), alpha=np.full(3, 1e12),
                    beta=np.array([0.3, 0.5, 0.7]) * 1e12)  # fmt: skip
    state = fit(stacked, sharp, some_state(stacked.layout, Q), rule, 5)
    assert np.allclose(state.mu, sharp.mu, atol=1e-6)
    assert np.allclose(state.W, sharp.W, atol=1e-6)
    assert np.allclose(state.sigma2, [0.3, 0.5, 0.7], rtol=1e-6)


@pytest.mark.parametrize("rule", [PAPER, LocalRule(), LocalRule(spread=False)])
def test_an_absent_view_is_dropped_rows_of_w(rule):
    """A view that nobody observed leaves the others as if it had never been there, and stays at its prior."""
    views = draw(n=40)
    without = bunch_of({k: T for k, T in views.items() if k != "v2"})
    empty = bunch_of({**views, "v2": np.full_like(views["v2"], np.nan)})
    prior, start = some_prior(empty.layout, Q, tau2=0.0 if rule is PAPER else 1.0), some_state(empty.layout, Q)
    less = StackedPrior(prior.mu[:, :9], prior.W[:, :9], prior.precision_mu[:2], prior.precision_W[:2],
                        prior.alpha[:2], prior.beta[:2], prior.tau2)  # fmt: skip
    small = State(start.mu[:, :9], start.W[:, :9], start.sigma2[:, :2], start.m)
    one, two = fit(without, less, small, rule, 10), fit(empty, prior, start, rule, 10)
    for name, cut in (("mu", 9), ("W", 9), ("sigma2", 2), ("m", None)):
        assert np.allclose(getattr(one, name), getattr(two, name)[:, :cut], rtol=1e-10, atol=1e-10)
    assert np.allclose(two.mu[0, 9:], prior.mu[0, 9:], atol=1e-12)
    assert np.allclose(two.W[0, 9:], prior.W[0, 9:], atol=1e-12)


def test_a_bunch_gives_each_center_the_bits_it_has_alone():
    centers = [draw(n=40, seed=s) for s in range(4)]
    stacked = bunch_of(*centers)
    prior, start = some_prior(stacked.layout, Q, tau2=1.0), some_state(stacked.layout, Q, B=4)
    together = fit(stacked, prior, start, LocalRule(), 7)
    for c, views in enumerate(centers):
        alone = State(start.mu[c : c + 1], start.W[c : c + 1], start.sigma2[c : c + 1], start.m[c : c + 1])
        alone = fit(bunch_of(views), prior, alone, LocalRule(), 7)
        for name in ("mu", "W", "sigma2", "m", "cov"):
            assert (getattr(together, name)[c] == getattr(alone, name)[0]).all()


def row_iteration(views, layout, prior, state):
    """The default iteration with its sums taken row by row, missing cells left out; mu and m given (no case mix)."""
    q = state.W.shape[-1]
    W, mu, cov = state.W[0], state.mu[0], state.cov
    sigma2 = state.sigma2[0][layout.view_of]
    d = layout.total
    X, T, SS, cells = np.zeros((d, q + 1, q + 1)), np.zeros((d, q + 1)), np.zeros(d), np.zeros(d)
    for row in side_by_side(views):
        seen = np.flatnonzero(~np.isnan(row))
        P, pull = np.eye(q), np.zeros(q)
        for j in seen:
            P = P + (np.outer(W[j], W[j]) + cov[j][:q, :q]) / sigma2[j]
            pull = pull + (W[j] * (row[j] - mu[j]) - cov[j][:q, q]) / sigma2[j]
        V = np.linalg.inv(P)
        x = np.append(V @ pull, 1.0)
        for j in seen:
            off = row[j] - prior.mu[0, j]
            X[j] += np.outer(x, x) + np.pad(V, (0, 1))
            T[j] += off * x
            SS[j] += off**2
            cells[j] += 1
    k = layout.view_of
    rows, new_cov, residual = np.zeros((d, q + 1)), np.zeros_like(X), np.zeros(len(layout.names))
    for j in range(d):
        ridge = np.append(np.full(q, prior.precision_W[k[j]]), prior.precision_mu[k[j]]) * sigma2[j]
        H = np.linalg.inv(X[j] + np.diag(ridge))
        rows[j] = H @ (T[j] + ridge * np.append(prior.W[0, j], 0.0))
        new_cov[j] = sigma2[j] * H
        residual[k[j]] += SS[j] - 2 * rows[j] @ T[j] + rows[j] @ X[j] @ rows[j] + np.trace(new_cov[j] @ X[j])
    total = np.array([cells[k == v].sum() for v in range(len(layout.names))])
    noise = (residual + 2 * prior.beta) / (total + 2 * (prior.alpha + 1))
    return prior.mu[0] + rows[:, q], rows[:, :q], noise, new_cov


@pytest.mark.parametrize("holes", [False, True])
def test_the_default_iteration_is_the_one_written_out_by_rows(holes):
    """The means that the iteration begins with are checked by themselves in test_means."""
    views = draw(n=25)
    views = with_holes(views) if holes else views
    stacked = bunch_of(views)
    layout = stacked.layout
    prior = some_prior(layout, Q)
    state = iterate(stacked, prior, some_state(layout, Q), LocalRule())
    inv = 1.0 / state.sigma2[:, layout.view_of]
    P, h = precisions(stacked, state.W, state.W * inv[..., None], relative_spread(stacked, prior, state))
    mu = prior.mu + joint_means(stacked, prior, state.W, inv, P, h).delta
    per_feature = state.cov[0][stacked.class_of]
    expected = row_iteration(views, layout, prior, State(mu, state.W, state.sigma2, state.m, per_feature))
    found = iterate(stacked, prior, state, LocalRule())
    assert np.allclose(found.mu[0], expected[0], rtol=1e-11, atol=1e-11)
    assert np.allclose(found.W[0], expected[1], rtol=1e-11, atol=1e-11)
    assert np.allclose(found.sigma2[0], expected[2], rtol=1e-11)
    assert np.allclose(found.cov[0][stacked.class_of], expected[3], rtol=1e-11, atol=1e-13)


def test_narrow_columns_have_no_spread():
    """In a narrow view the pinned columns of W are known: they add nothing to the noise."""
    stacked = bunch_of(draw((5, 2), n=30))
    prior, start = some_prior(stacked.layout, Q), started(stacked.layout, Q)
    state = iterate(stacked, prior, start, LocalRule(narrow=True))
    assert not state.W[0, 5:, 1].any()
    assert not state.cov[0, stacked.class_of[5:], 1].any()
    inv = 1.0 / start.sigma2[:, stacked.layout.view_of]
    P, h = precisions(stacked, start.W, start.W * inv[..., None], None)
    means = joint_means(stacked, prior, start.W, inv, P, h)
    moments = e_step(stacked, start.W, inv, P, h, prior.mu + means.delta, means.m)
    N, x, gap = stacked.n[0, 0], moments.x[0, 0, 0], (stacked.mean[0, 0] - prior.mu[0])[5:]
    X = np.array([[moments.XX[0, 0, 0, 0], N * x], [N * x, N]])
    T = np.column_stack([moments.TX[0, 5:, 0] + N * gap * x, N * gap])
    ridge = start.sigma2[0, 1] * np.array([prior.precision_W[1], prior.precision_mu[1]])
    H = np.linalg.inv(X + np.diag(ridge))
    rows = (T + np.column_stack([ridge[0] * prior.W[0, 5:, 0], np.zeros(2)])) @ H
    assert np.allclose(state.W[0, 5:, 0], rows[:, 0], atol=1e-12)
    assert np.allclose(state.mu[0, 5:] - prior.mu[0, 5:], rows[:, 1], atol=1e-12)
    H = H * start.sigma2[0, 1]
    assert np.allclose(state.cov[0, stacked.class_of[5]][np.ix_([0, 2], [0, 2])], H, atol=1e-12)
    squares = stacked.squares[0, 5:].sum() + N * (gap**2).sum() - 2 * np.sum(rows * T) + np.sum((rows @ X) * rows)
    expected = (squares + 2 * np.trace(H @ X) + 2 * prior.beta[1]) / (2 * N + 2 * (prior.alpha[1] + 1))
    assert state.sigma2[0, 1] == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("spread", [False, True])
def test_a_feature_that_nobody_saw_changes_nothing_even_without_a_prior_of_its_mean(spread):
    views = draw((5, 4), n=30)
    prior, start = some_prior(bunch_of(views).layout, Q, tau2=0.5), some_state(bunch_of(views).layout, Q)
    prior = replace(prior, precision_mu=np.zeros(2))
    rule = LocalRule(spread=spread)
    expected = fit(bunch_of(views), prior, start, rule, 5)
    blank = bunch_of({"v0": views["v0"], "v1": np.column_stack([views["v1"], np.full(30, np.nan)])})
    more = replace(prior, mu=np.append(prior.mu, [[7.0]], axis=1), W=np.append(prior.W, np.ones((1, 1, Q)), axis=1))
    begin = replace(start, mu=np.append(start.mu, [[7.0]], axis=1), W=np.append(start.W, np.ones((1, 1, Q)), axis=1))
    found = fit(blank, more, begin, rule, 5)
    assert np.allclose(found.sigma2, expected.sigma2, rtol=1e-10)
    assert np.allclose(found.W[:, :9], expected.W, rtol=1e-10, atol=1e-10)
    assert np.allclose(found.m, expected.m, atol=1e-10)


@pytest.mark.parametrize("prior_of", [flat_prior, some_prior])
def test_the_short_form_for_complete_data_is_the_general_iteration(prior_of):
    """`fit` takes core/complete.py for the paper's rule on complete rows; `iterate` is the form for all patterns."""
    stacked = bunch_of(*(draw((5, 4, 3), n=30, seed=s) for s in (0, 1, 2)))
    prior, start = prior_of(stacked.layout, Q), started(stacked.layout, Q, B=3)
    short = fit(stacked, prior, start, PAPER, 4)
    general = start
    for _ in range(4):
        general = iterate(stacked, prior, general, PAPER)
    for part in ("mu", "W", "sigma2", "m", "cov"):
        assert np.allclose(getattr(short, part), getattr(general, part), rtol=1e-12, atol=1e-13), part
