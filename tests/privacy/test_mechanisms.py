"""Noise of the right size and shape, clips that hold, and events that say what was done.

The scale tests accept the true scale and reject it at +-30 %: with n draws, n s^2 / sigma^2 is chi-square
with n degrees of freedom, so [chi2.ppf(a/2), chi2.ppf(1-a/2)] has false-alarm rate a; here a = 1e-6 per test.
The numbers of draws put a scale that is 30 % off beyond the limits by 7 standard deviations or more.
"""

import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import chi2, kstest, laplace, norm

from vedute.errors import UserError
from vedute.privacy import mechanisms as mech
from vedute.privacy.release import CENTER, SUBJECT

ALARM = 1e-6
SOURCES = [mech.SecretNoise(), mech.SeededNoise(3, "nice")]


def scale_is(draws: np.ndarray, std: float) -> bool:
    n = draws.size
    return chi2.ppf(ALARM / 2, n) < np.sum((draws / std) ** 2) < chi2.ppf(1 - ALARM / 2, n)


@pytest.mark.parametrize("noise", SOURCES)
@pytest.mark.parametrize("sensitivity", [1.0, 1e-25, 1e6])
def test_gaussian_scale_and_shape(noise: mech.Noise, sensitivity: float) -> None:
    values = np.full((20, 50), 3.0 * sensitivity)
    noised, event = mech.add_gaussian(values, sensitivity, 0.7, SUBJECT, noise)
    draws = noised - values
    true = 0.7 * sensitivity
    assert scale_is(draws, true)
    assert not scale_is(draws, 0.7 * true)
    assert not scale_is(draws, 1.3 * true)
    assert kstest(draws.ravel() / true, norm.cdf).pvalue > ALARM
    assert (event.std, event.sensitivity) == pytest.approx((true, sensitivity), rel=1e-8)
    assert event.sensitivity / event.std <= 1 / 0.7
    assert event.seeded == noise.seeded


@pytest.mark.parametrize("noise", SOURCES)
@pytest.mark.parametrize("sensitivity", [2.0, 1e-25])
def test_laplace_scale_and_shape(noise: mech.Noise, sensitivity: float) -> None:
    noised, event = mech.add_laplace(np.zeros(4000), sensitivity, 4.0, CENTER, noise)
    scale = sensitivity / 4
    # |Laplace| is exponential, so the sum of 2 |x| / scale is chi-square with 2 n degrees of freedom.
    low, high = chi2.ppf([ALARM / 2, 1 - ALARM / 2], 8000)
    total = 2 * np.abs(noised).sum() / scale
    assert low < total < high
    assert not low < total / 0.7 < high
    assert not low < total / 1.3 < high
    assert kstest(noised / scale, laplace.cdf).pvalue > ALARM
    assert event.sensitivity / event.scale <= 4.0
    assert (event.scale, event.relation) == (pytest.approx(scale, rel=1e-8), CENTER)


@pytest.mark.parametrize("noise", SOURCES)
def test_symmetric_noise_is_isotropic_in_the_frobenius_norm(noise: mech.Noise) -> None:
    matrix = np.arange(1600.0).reshape(40, 40)
    matrix = matrix + matrix.T
    diagonals, off = [], []
    for repeat in range(20):
        noised, event = mech.add_gaussian_symmetric(matrix, 2.0, 1.5, SUBJECT, noise.at(str(repeat)))
        assert np.array_equal(noised, noised.T)
        diagonals.append(np.diag(noised - matrix))
        off.append((noised - matrix)[np.triu_indices(40, 1)])
    assert len(np.unique(diagonals)) == 800
    assert scale_is(np.array(diagonals), 3.0)
    assert scale_is(np.array(off), 3.0 / math.sqrt(2))
    assert not scale_is(np.array(off), 3.0)
    assert event.std == pytest.approx(3.0)
    assert event.sensitivity / event.std <= 1 / 1.5


def test_values_lie_on_a_grid_finer_than_the_noise_even_after_it_has_collapsed() -> None:
    for sensitivity in (1.0, 1e-20):
        noised, event = mech.add_gaussian(np.zeros(64), sensitivity, 1.0, CENTER, mech.SecretNoise())
        grid = math.floor(math.log2(sensitivity)) - mech.GRID_BITS - 3
        assert all((value * 2.0**-grid).is_integer() for value in noised)
        assert 2.0**grid * 8 <= 2.0**-40 * sensitivity
        assert event.sensitivity == sensitivity + 8 * 2.0**grid


def test_the_rounding_in_the_event_is_what_opendp_counts_itself() -> None:
    dp = mech._opendp()
    space = mech._vectors(dp, 64), dp.l2_distance(T=float)
    _, event = mech.add_gaussian(np.zeros(64), 1.0, 1.0, CENTER, mech.SecretNoise())
    rho = dp.m.make_gaussian(*space, scale=event.std, k=-43).map(1.0)
    assert rho == pytest.approx((event.sensitivity / event.std) ** 2 / 2, rel=1e-12)


finite = st.floats(-1e150, 1e150)


@settings(max_examples=200, deadline=None)
@given(arrays(np.float64, st.integers(1, 30), elements=finite), st.floats(1e-20, 1e20))
def test_a_clip_holds_in_exact_arithmetic(values: np.ndarray, bound: float) -> None:
    from fractions import Fraction

    clipped = mech.clip(values, bound)
    assert sum(Fraction(x) ** 2 for x in clipped.tolist()) <= Fraction(bound) ** 2
    if mech.norm(values) < 0.999 * bound:
        assert np.array_equal(clipped, values)
    else:
        assert mech.norm(clipped) >= 0.99 * bound


def test_the_norm_of_a_matrix_is_frobenius() -> None:
    W = np.eye(9)
    assert mech.norm(W) == pytest.approx(3.0)
    assert mech.norm(mech.clip(W, 1.0)) == pytest.approx(1.0)
    assert mech.norm(np.zeros((2, 2))) == 0.0


def test_seeded_noise_differs_by_round_center_seed_and_kind_and_repeats_by_name() -> None:
    zero = np.zeros(50)
    base = mech.SeededNoise(1, "nice")
    draws = [
        source.gaussian(zero, 1.0, -60)
        for source in (base.at("round 1"), base.at("round 2"), mech.SeededNoise(1, "paris").at("round 1"))
    ] + [mech.SeededNoise(2, "nice").at("round 1").gaussian(zero, 1.0, -60)]
    for i, one in enumerate(draws):
        for other in draws[i + 1 :]:
            assert abs(np.corrcoef(one, other)[0, 1]) < 0.8
            assert not np.any(one == other)
    assert np.array_equal(draws[0], base.at("round 1").gaussian(zero, 1.0, -60))


def test_secret_noise_never_repeats() -> None:
    source = mech.noise_source(None, "nice").at("round 1")
    assert not source.seeded
    draws = {float(source.gaussian(np.zeros(1), 1.0, -60)[0]) for _ in range(50)}
    assert len(draws) == 50


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_never_noised(bad: float) -> None:
    values = np.array([0.0, bad])
    with pytest.raises(ValueError, match="finite"):
        mech.clip(values, 1.0)
    with pytest.raises(ValueError, match="finite"):
        mech.add_gaussian(values, 1.0, 1.0, CENTER, mech.SecretNoise())
    with pytest.raises(ValueError, match="finite"):
        mech.add_laplace(values, 1.0, 1.0, CENTER, mech.SecretNoise())


def test_without_opendp_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(UserError, match=r"vedute\[privacy\]"):
        mech.noise_source(None, "nice")
    assert mech.noise_source(5, "nice").seeded
