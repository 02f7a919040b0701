"""Auto-encoders: the loss against torch's own distributions, stacks against single models, and that they learn."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.distributions import Normal, kl_divergence

from vedute.data.synthetic import make_sd
from vedute.errors import UserError
from vedute.evaluation.baselines import MOFA, PCA, Autoencoder
from vedute.evaluation.baselines.autoencoders import Encoded, fit_together
from vedute.evaluation.baselines.shapes import Schedule, Shape
from vedute.evaluation.baselines.stacked import _Batch, _loss
from vedute.evaluation.metrics import mean_absolute_error
from vedute.scenarios import split

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


@pytest.mark.parametrize("method", [VAE, MCVAE, replace(MCVAE, hidden=7), replace(VAE, noise="learned")])
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
    for name in ("torch", "mofapy2.run.entry_point"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "vedute.evaluation.baselines.stacked")
    with pytest.raises(UserError, match=r"vedute\[baselines\]"):
        VAE.fit(centers, 0)
    with pytest.raises(UserError, match=r"vedute\[peers\]"):
        MOFA(2).fit(centers, 0)
