"""Auto-encoders: the loss against torch's own distributions, stacks against single models, and that they learn."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.distributions import Normal, kl_divergence

from vedute.datasets import make_sd
from vedute.errors import UserError
from vedute.scenarios import split
from vedute_reproduction.arms import mean_absolute_error
from vedute_reproduction.baselines.autoencoders import Autoencoder, Encoded, Job, Schedule, Shape, fit_together
from vedute_reproduction.baselines.linear import PCA
from vedute_reproduction.baselines.mofa import MOFA
from vedute_reproduction.baselines.stacked import _Batch, _batches, _local, _loss, _padded, _shares, train

Centers = dict[str, dict[str, np.ndarray]]
QUICK = Schedule(rounds=50, epochs=10, rate=0.005)  # fewer and longer steps than the tables have
VAE, MCVAE = Autoencoder(2, schedule=QUICK), Autoencoder(2, "one for each view", schedule=QUICK)


@pytest.fixture(scope="module")
def views() -> dict[str, np.ndarray]:
    """Three views of two components, min-max scaled."""
    found, _ = make_sd(150, 70, sizes=(6, 5, 4), n_components=2, random_state=4)
    return {name: (rows - rows.min(0)) / np.ptp(rows, axis=0) for name, rows in found.items()}


@pytest.fixture(scope="module")
def centers(views: dict[str, np.ndarray]) -> Centers:
    return split({name: rows[:120] for name, rows in views.items()}, None, 3, "IID", 0)[0]


def _test_rows(views: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: rows[120:] for name, rows in views.items()}


def _mean_error(views: dict[str, np.ndarray]) -> float:
    """The error of who says the train mean of each feature."""
    gaps = [np.abs(rows[120:] - rows[:120].mean(0)).ravel() for rows in views.values()]
    return float(np.concatenate(gaps).mean())


@pytest.mark.parametrize(
    "method", [VAE, MCVAE, replace(VAE, hidden=16), replace(MCVAE, hidden=16), replace(MCVAE, proximal=0.01), MOFA(2)]
)
def test_a_rival_has_less_than_a_third_of_the_error_of_the_mean(method, views, centers) -> None:
    assert mean_absolute_error(method.fit(centers, 0), _test_rows(views)) < _mean_error(views) / 3


@pytest.mark.parametrize("method", [MCVAE, MOFA(2)])
def test_what_can_do_without_a_view_learns_without(method, views) -> None:
    lacking = split({name: rows[:120] for name, rows in views.items()}, None, 3, "K", 0)[0]
    assert [len(held) for held in lacking.values()] == [3, 2, 2]
    fitted, seen = method.fit(lacking, 0), _test_rows(views)
    assert mean_absolute_error(fitted, seen) < _mean_error(views) / 3
    assert fitted.latent({"view1": seen["view1"]}).shape == (30, 2)


def test_a_linear_vae_comes_within_3_percent_of_pca(views, centers) -> None:
    error, pca = (mean_absolute_error(method.fit(centers, 0), _test_rows(views)) for method in (VAE, PCA(2)))
    assert error == pytest.approx(pca, rel=0.03)


def _same(a: Encoded, b: Encoded) -> bool:
    return all(np.array_equal(a.weights[key], b.weights[key]) for key in a.weights)


@pytest.mark.parametrize("method", [VAE, MCVAE])
def test_fedprox_with_lambda_0_is_fedavg_bit_for_bit(method, centers) -> None:
    """Also beside a model that is pulled, where the term is computed for both."""
    short = replace(method, schedule=Schedule(rounds=3, epochs=4))
    plain, _ = fit_together([(short, centers, 1), (short, centers, 1)])
    zero, pulled = fit_together([(short, centers, 1), (replace(short, proximal=0.5), centers, 1)])
    assert _same(plain, zero)
    assert not _same(plain, pulled)


def test_a_strong_pull_keeps_centers_near_the_common_weights(centers) -> None:
    """Lambda beyond all measure leaves the weights where they began, so that no number of rounds teaches anything."""
    rows = centers["center1"]
    free, held = fit_together([(VAE, centers, 0), (replace(VAE, proximal=1e6), centers, 0)])
    assert mean_absolute_error(held, rows) > 2 * mean_absolute_error(free, rows)


def test_the_pull_is_the_gradient_of_half_lambda_times_the_squared_way() -> None:
    """Two steps of a center, against torch's own gradient of the loss with the term written out."""
    torch.manual_seed(1)
    shape, n, rate, lambdas = Shape(((3,),), 2), 4, 0.1, torch.tensor([0.0, 0.7])[:, None, None]
    begun = {
        (0, f"{name} {part}"): torch.randn(2, *size)
        for name, (d, e) in (("code", (3, 4)), ("out", (2, 3)))
        for part, size in (("weight", (d, e)), ("bias", (1, e)))
    }
    batch = _Batch(torch.randn(2, n, 3), torch.ones(2, n, 1), torch.ones(2, 1))
    steps = [(batch, torch.randn(1, 2, n, 2)) for _ in range(2)]
    own = {key: value.clone().requires_grad_() for key, value in begun.items()}
    adam = torch.optim.Adam(list(own.values()), lr=rate)
    for rows, noise in steps:
        adam.zero_grad()
        way = sum((lambdas * (own[key] - begun[key]) ** 2).sum() for key in own)
        (_loss(shape, own, rows, noise).sum() + 0.5 * way).backward()
        adam.step()
    for key, value in _local(shape, begun, steps, lambdas, rate).items():
        torch.testing.assert_close(value, own[key].detach(), rtol=1e-4, atol=1e-5)


def test_fedavg_weighs_centers_by_their_rows_among_those_that_hold_a_channel() -> None:
    real = torch.zeros(3, 4, 1)
    for center, rows in enumerate((1, 3, 4)):
        real[center, :rows] = 1.0
    held = torch.tensor([[1.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    shares = _shares(_Batch(torch.zeros(3, 4, 2), real, held), 3)
    torch.testing.assert_close(shares, torch.tensor([[1 / 8, 1 / 5], [3 / 8, 0.0], [4 / 8, 4 / 5]]))


def test_each_epoch_has_every_row_once_in_an_order_of_its_own() -> None:
    shape, schedule = Shape(((1,),), 1), Schedule(1, 3, batch=4)
    jobs = [Job([np.arange(1.0, 11.0)[:, None], np.arange(1.0, 8.0)[:, None]], 0.0, seed) for seed in (0, 1)]
    draws = [np.random.default_rng(job.seed) for job in jobs]
    taken = list(_batches(shape, jobs, draws, _padded(shape, jobs), schedule))
    steps = schedule.steps(10)[0]
    assert len(taken) == 3 * steps
    orders = []
    for epoch in range(3):
        batches = [batch for batch, _ in taken[epoch * steps : (epoch + 1) * steps]]
        rows = torch.cat([batch.rows for batch in batches], dim=1)[:, :, 0].cpu().numpy()
        for table, size in zip(rows, (10, 7, 10, 7), strict=True):
            own = table[table > 0]  # 0 is padding
            assert sorted(own) == list(range(1, size + 1))
            orders.append(tuple(own))
    assert len(set(orders)) == len(orders) == 12  # epochs, models and centers each shuffle for themselves
    assert len({float(noise.sum()) for _, noise in taken}) == len(taken)


def test_only_holders_of_a_channel_move_its_weights() -> None:
    """The first step of Adam moves each weight by the rate, up or down; the mean over centers by a share of it."""
    rows = np.random.default_rng(0).random((13, 5))
    lacking = np.where(np.arange(5) < 2, rows[3:], np.nan)
    shape, jobs, rate = Shape(((2,), (3,)), 2), [Job([rows[:3], lacking], 0.0, 5)], 0.01
    start, end = (train(shape, jobs, Schedule(1, 1, speed, 100))[0] for speed in (0.0, rate))
    moved = {key: np.abs(end[key] - start[key]) / rate for key in start}
    np.testing.assert_allclose(moved[1, "code weight"], 1.0, rtol=1e-3)
    far = moved[0, "code weight"]  # both hold it: 3 and 10 of 13 rows, together or against each other
    assert np.all(np.isclose(far, 1.0, atol=1e-3) | np.isclose(far, 7 / 13, atol=1e-3))


def test_learned_noise_is_a_log_variance_of_a_gaussian() -> None:
    torch.manual_seed(2)
    shape, n, level = Shape(((3,),), 2, noise_from=0.0), 4, 0.4
    weights = {(0, "code weight"): torch.zeros(1, 3, 4), (0, "code bias"): torch.zeros(1, 1, 4)}
    weights |= {(0, "out weight"): torch.zeros(1, 2, 3), (0, "out bias"): torch.zeros(1, 1, 3)}
    weights[0, "noise"] = torch.full((1, 1, 1), level)
    rows = torch.randn(1, n, 3)
    found = _loss(shape, weights, _Batch(rows, torch.ones(1, n, 1), torch.ones(1, 1)), torch.randn(1, 1, n, 2))
    density = Normal(0.0, np.exp(level / 2)).log_prob(rows).sum() / n + 1.5 * np.log(2 * np.pi)
    assert float(found) == pytest.approx(-float(density), rel=1e-5)  # nothing is encoded, so nothing but the misfit


def test_the_latent_mean_is_that_over_the_encoders_of_observed_views(views, centers) -> None:
    fitted = replace(MCVAE, schedule=Schedule(2, 2)).fit(centers, 0)
    rows = _test_rows(views)
    each = [fitted.latent({name: rows[name]}) for name in rows]
    np.testing.assert_allclose(fitted.latent(rows), np.mean(each, axis=0))
    assert np.abs(each[0] - each[1]).max() > 1e-3


@pytest.mark.parametrize("method", [VAE, MCVAE, replace(MCVAE, hidden=7), replace(VAE, noise_from=-3.0)])
def test_a_stack_gives_what_each_model_gives_alone(method, centers) -> None:
    """Folds of unequal size, seeds and lambdas; products of other sizes may round otherwise in the last bits."""
    uneven = {
        name: {view: rows[: 20 + 7 * i] for view, rows in views.items()}
        for i, (name, views) in enumerate(centers.items())
    }
    short = replace(method, schedule=Schedule(rounds=2, epochs=3, batch=9))
    wanted = [(short, centers, 1), (replace(short, proximal=0.3), centers, 2), (short, uneven, 1), (short, uneven, 3)]
    for one, stacked in zip(wanted, fit_together(wanted), strict=True):
        alone = one[0].fit(*one[1:])
        for key, value in alone.weights.items():
            np.testing.assert_allclose(stacked.weights[key], value, atol=2e-5)
    assert not _same(*fit_together([(short, centers, 1), (short, centers, 2)]))


def test_the_loss_is_the_evidence_bound_of_torchs_distributions() -> None:
    """Two channels of one and two views, both encoders draw both; the second center lacks the second channel."""
    torch.manual_seed(0)
    shape, q, n = Shape(((3,), (2, 2)), 2), 2, 5
    weights = {}
    for k, d in enumerate((3, 4)):
        for name, size in (("code", (d, 2 * q)), ("out", (q, d))):
            weights[k, f"{name} weight"] = 0.3 * torch.randn(2, *size)
            weights[k, f"{name} bias"] = 0.3 * torch.randn(2, 1, size[1])
    real = torch.ones(2, n, 1)
    real[1, 3:] = 0.0  # two rows of padding
    held = torch.tensor([[1.0, 1.0], [1.0, 0.0]])
    rows, noise = torch.randn(2, n, 7) * real, torch.randn(2, 2, n, q)
    found = _loss(shape, weights, _Batch(rows, real, held), noise)  # all on the CPU
    for c, (m, present) in enumerate(((n, (0, 1)), (3, (0,)))):
        parts = {0: rows[c, :m, :3], 1: rows[c, :m, 3:]}
        layer = {key: (weights[key][c], weights[key[0], key[1].replace("weight", "bias")][c]) for key in weights}
        expected, squares = 0.0, {(0, 0): 0.0, (1, 0): 0.0, (1, 1): 0.0}
        for e in present:
            w, b = layer[e, "code weight"]
            posterior = Normal(parts[e] @ w[:, :q] + b[:, :q], torch.exp(0.5 * (parts[e] @ w[:, q:] + b[:, q:])))
            expected += kl_divergence(posterior, Normal(0.0, 1.0)).sum() / m / len(present)
            z = posterior.mean + posterior.stddev * noise[e, c, :m]
            for k in present:
                w, b = layer[k, "out weight"]
                for v, gap in enumerate((z @ w + b - parts[k]).split(shape.channels[k], dim=1)):
                    squares[k, v] += (gap**2).sum() / len(present)
        for (k, v), square in squares.items():
            if k in present:
                d = shape.channels[k][v]
                sigma = torch.sqrt(square / (m * d))
                log_density = -0.5 * square / sigma**2 - m * d * torch.log(sigma)
                expected -= log_density / m
                expected -= 0.5 * d  # the constant that the optimum leaves
        assert float(found[c]) == pytest.approx(float(expected), rel=1e-4)


def test_mistakes_are_told(centers, monkeypatch) -> None:
    lacking = {**centers, "center2": {"view1": centers["center2"]["view1"]}}
    with pytest.raises(UserError, match="a VAE every view"):
        VAE.fit(lacking, 0)
    holed = {name: rows.copy() for name, rows in centers["center1"].items()}
    holed["view2"][3, 1] = np.nan
    with pytest.raises(UserError, match="needs every cell"):
        MCVAE.fit({**centers, "center1": holed}, 0)
    with pytest.raises(UserError, match="take complete rows"):
        replace(VAE, schedule=Schedule(1, 1)).fit(centers, 0).latent(holed)
    with pytest.raises(UserError, match=r"diverged at learning rate 1e\+30; take a smaller one"):
        replace(MCVAE, schedule=Schedule(2, 2, 1e30)).fit(centers, 0)
    for name in ("torch", "mofapy2.run.entry_point"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "vedute_reproduction.baselines.stacked")
    with pytest.raises(UserError, match=r"pip install torch"):
        VAE.fit(centers, 0)
    with pytest.raises(UserError, match=r"pip install mofapy2"):
        MOFA(2).fit(centers, 0)
