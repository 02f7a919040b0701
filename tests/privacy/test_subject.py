"""Subject level: the matrix, its sensitivity (by proof, by search and when attained), ranges, and what EM gets."""

import math

import numpy as np
import pytest

from vedute.errors import UserError
from vedute.model.parameters import Layout
from vedute.model.statistics import from_rows
from vedute.privacy import second_moments as subject
from vedute.privacy.accounting import spent_epsilon
from vedute.privacy.mechanisms import SecretNoise, SeededNoise
from vedute.privacy.policies import subject as recovery
from vedute.privacy.release import SUBJECT, NonPrivate, Release

LAYOUT = Layout(("A", "B"), (3, 2))
RANGES = subject.Ranges(LAYOUT, np.array([0.0, -5, 10, 0, 100]), np.array([1.0, 5, 30, 2, 300]))


def rows(n: int, seed: int, layout: Layout = LAYOUT, ranges: subject.Ranges = RANGES) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(layout.total, 2))
    z = 0.03 * rng.normal(size=(n, 2)) @ mix.T + 0.03 * rng.normal(size=(n, layout.total)) + 0.1
    t = ranges.middle + ranges.width * z
    return {name: t[:, columns] for name, columns in layout.slices.items()}


def moments(views: dict[str, np.ndarray], bound: subject.Bound, ranges: subject.Ranges = RANGES) -> np.ndarray:
    found = subject.SecondMoments(ranges, bound)
    found.add(views)
    return found.matrix()


def test_the_matrix_is_the_sum_over_rows_done_slowly() -> None:
    views = rows(40, 0)
    views["A"][3] = np.nan
    views["B"][5, 1] = np.nan
    views["A"][7, 0] = 50.0  # far outside its range
    bound = subject.make_bound(LAYOUT, 0.4)
    expected = np.zeros((7, 7))
    shrunk = 0
    for n in range(40):
        t = np.concatenate([views["A"][n], views["B"][n]])
        z = np.clip(np.nan_to_num((t - RANGES.middle) / RANGES.width), -0.5, 0.5)
        shrunk += np.linalg.norm(z) > 0.4
        z = z * min(1.0, 0.4 / np.linalg.norm(z))
        held = [not np.isnan(views[name][n]).all() for name in "AB"]
        u = np.concatenate([z, 0.4 / (2 * math.sqrt(2)) * np.array(held)])
        expected += np.outer(u, u)
    found = subject.SecondMoments(RANGES, bound)
    found.add({name: view[:11] for name, view in views.items()})
    found.add({name: view[11:] for name, view in views.items()})
    assert found.matrix() == pytest.approx(expected, abs=40 * 2e-3 * 0.5)
    assert found.rows == 40
    assert found.told().outside == {"A": 1, "B": 0}
    assert found.told().missing == {"A": 0, "B": 1}
    assert abs(found.told().shrunk - shrunk) <= 1
    assert found.told().shrunk > 0


def test_a_value_outside_its_range_counts_as_the_end_of_it() -> None:
    bound = subject.make_bound(LAYOUT, 2.0)  # nobody is shrunk, so that the cells alone are seen
    outside = {"A": np.array([[50.0, -7.0, 20.0]]), "B": np.array([[np.inf, 150.0]])}
    at_the_end = {"A": np.array([[1.0, -5.0, 20.0]]), "B": np.array([[2.0, 150.0]])}
    assert np.array_equal(moments(outside, bound), moments(at_the_end, bound))


def test_sums_are_exact_whatever_order_and_chunks() -> None:
    views = rows(500, 1)
    bound = subject.make_bound(LAYOUT, None)
    order = np.random.default_rng(0).permutation(500)
    chunked = subject.SecondMoments(RANGES, bound)
    for start in range(0, 500, 37):
        chunked.add({name: view[order][start : start + 37] for name, view in views.items()})
    assert np.array_equal(moments(views, bound), chunked.matrix())


def worst_change(bound: subject.Bound, draws: int, seed: int) -> float:
    """The largest move of the matrix over random pairs of subjects, then over small steps from the best pair."""
    rng = np.random.default_rng(seed)

    def draw() -> np.ndarray:
        row = RANGES.middle + RANGES.width * rng.normal(size=5) * rng.choice([0.2, 1, 5])
        for columns in LAYOUT.slices.values():
            if rng.random() < 0.2:
                row[columns] = np.nan
        return row

    def change(a: np.ndarray, b: np.ndarray) -> float:
        one, two = ({name: row[None, c] for name, c in LAYOUT.slices.items()} for row in (a, b))
        return float(np.linalg.norm(moments(one, bound) - moments(two, bound)))

    best = max(((draw(), draw()) for _ in range(draws)), key=lambda pair: change(*pair))
    for _ in range(2 * draws):
        near = tuple(row + RANGES.width * 0.05 * rng.normal(size=5) for row in best)
        best = max(best, near, key=lambda pair: change(*pair))
    return change(*best)


@pytest.mark.parametrize("length", [0.3, 0.7, None])
def test_no_pair_of_subjects_moves_the_matrix_further_and_some_pair_nearly_does(length: float | None) -> None:
    bound = subject.make_bound(LAYOUT, length)
    B = 0.25 * math.sqrt(5) if length is None else length
    assert bound.sensitivity == pytest.approx(math.sqrt(2) * 1.25 * B**2, rel=2e-3)
    found = worst_change(bound, 400, 3)
    assert found <= bound.sensitivity
    assert found > 0.97 * bound.sensitivity


def test_the_sensitivity_is_attained() -> None:
    bound = subject.make_bound(LAYOUT, 0.4)
    cosine = -0.25  # z'y = -B^2 / 4 makes u'v = 0, the worst case of the proof
    one = np.array([0.4, 0, 0, 0, 0])
    two = 0.4 * np.array([cosine, math.sqrt(1 - cosine**2), 0, 0, 0])
    pair = [RANGES.middle + RANGES.width * z for z in (one, two)]
    a, b = (moments({"A": row[None, :3], "B": row[None, 3:]}, bound) for row in pair)
    assert np.linalg.norm(a - b) == pytest.approx(bound.sensitivity, rel=2e-3)
    assert np.linalg.norm(a - b) <= bound.sensitivity


def test_no_row_is_longer_than_the_bound_in_whole_numbers() -> None:
    rng = np.random.default_rng(5)
    for length in (7, 100, 4095):
        steps, shrunk = subject.shrink(np.rint(rng.normal(size=(300, 6)) * length), length)
        assert ((steps.astype(int) ** 2).sum(axis=1) <= length**2).all()
        assert shrunk > 100
        assert np.linalg.norm(steps, axis=1).max() > length - 3


def test_the_release_spends_what_it_was_asked_to() -> None:
    found = subject.SecondMoments(RANGES, subject.make_bound(LAYOUT, None))
    found.add(rows(100, 2))
    release = recovery.SubjectPrivacy(3.0, 1e-5).noised(found, SecretNoise())
    assert spent_epsilon(release.events, 1e-5, SUBJECT) == pytest.approx(3.0, rel=1e-6)
    assert spent_epsilon(release.events, 1e-5, SUBJECT) <= 3.0
    assert release.public["subjects"] == 100
    assert set(release.values) == {"moments"}
    assert set(release.public) == {"subjects", "length", "weight", "std"}


@pytest.mark.parametrize("n", [500, 20_000])
def test_statistics_of_complete_rows_come_back_within_the_noise(n: int) -> None:
    views = rows(n, 3)
    found = subject.SecondMoments(RANGES, subject.make_bound(LAYOUT, 1.0))  # nobody is shrunk
    found.add(views)
    release = recovery.SubjectPrivacy(3.0, 1e-5).noised(found, SeededNoise(1, "nice"))
    got, exact = recovery.to_statistics(release, RANGES), from_rows(LAYOUT, views)
    std = release.public["std"]
    # The mean of a feature is an average of 2 noised sums, each std / sqrt 2, over w n; allow 5 sd.
    weight = release.public["weight"] / subject.UNIT
    allowed = 5 * std / 2 / (weight * n) + 1e-3
    assert np.abs((got.mean - exact.mean) / RANGES.width).max() < allowed
    scaled = [s.rescaled(RANGES.middle, RANGES.width) for s in (got, exact)]
    cov = [s.factor.T @ s.factor / n for s in scaled]
    assert np.linalg.norm(cov[0] - cov[1]) < 8 * std / n + 1e-3
    assert got.n == pytest.approx([n])
    assert got.mask.all()


def noiseless(views: dict[str, np.ndarray], std: float = 1e-9) -> Release:
    bound = subject.make_bound(LAYOUT, 2.0)  # nobody is shrunk
    found = subject.SecondMoments(RANGES, bound)
    found.add(views)
    public = {"subjects": found.rows, "length": bound.length, "weight": bound.weight, "std": std}
    return Release({"moments": found.matrix()}, (NonPrivate("a test"),), "subject", public)


def test_without_noise_the_statistics_are_those_of_the_rows() -> None:
    views = rows(3000, 4)
    got, exact = recovery.to_statistics(noiseless(views), RANGES), from_rows(LAYOUT, views)
    a, b = (s.rescaled(RANGES.middle, RANGES.width) for s in (got, exact))
    assert np.abs(a.mean - b.mean).max() < 1e-4
    assert np.abs(a.factor.T @ a.factor - b.factor.T @ b.factor).max() / 3000 < 1e-4


def test_with_missing_views_each_mean_and_moment_is_over_those_who_have_them() -> None:
    views = rows(6000, 5)
    views["B"][:4500] = np.nan
    views["A"][4000:5500] = np.nan
    got = recovery.to_statistics(noiseless(views), RANGES).rescaled(RANGES.middle, RANGES.width)
    z = (np.hstack([views["A"], views["B"]]) - RANGES.middle) / RANGES.width
    assert got.mean[0] == pytest.approx(np.nanmean(z, axis=0), abs=1e-3)
    assert got.n[0] == pytest.approx((3 * 4500 + 2 * 1500) / 5)
    own = got.factor.T @ got.factor / got.n[0]
    a = z[:4000, :3]
    assert own[:3, :3] == pytest.approx(np.cov(np.vstack([a, z[5500:, :3]]).T, bias=True), abs=2e-4)
    both = z[5500:]
    means = np.nanmean(z, axis=0)
    cross = (both[:, :3].T @ both[:, 3:]) / 500 - np.outer(means[:3], means[3:])
    assert own[:3, 3:] == pytest.approx(cross, abs=2e-3)


def test_a_view_that_nobody_has_is_absent_not_zero() -> None:
    views = rows(2000, 6)
    views["B"][:] = np.nan
    found = subject.SecondMoments(RANGES, subject.make_bound(LAYOUT, None))
    found.add({"A": views["A"]})
    release = recovery.SubjectPrivacy(3.0, 1e-5).noised(found, SeededNoise(2, "nice"))
    got = recovery.to_statistics(release, RANGES)
    assert got.mask[0].tolist() == [True, True, True, False, False]
    assert got.factor[:, 3:].tolist() == np.zeros((3, 2)).tolist()


def test_missing_cells_pull_toward_the_public_middle_by_their_share() -> None:
    views = rows(5000, 7)
    views["A"][:1250, 0] = np.nan
    got = recovery.to_statistics(noiseless(views), RANGES).rescaled(RANGES.middle, RANGES.width)
    observed = (np.nanmean(views["A"][:, 0]) - RANGES.middle[0]) / RANGES.width[0]
    assert got.mean[0, 0] == pytest.approx(0.75 * observed, abs=1e-3)


def test_the_nearest_spectrum_keeps_the_sum_and_the_floor() -> None:
    rng = np.random.default_rng(8)
    for _ in range(50):
        values = rng.normal(0.3, 1.0, 12)
        near = recovery.nearest_spectrum(values)
        assert near.min() >= recovery.FLOOR * 0.999
        if values.sum() > 1:
            assert near.sum() == pytest.approx(values.sum())
            # A projection: no other feasible spectrum is nearer (compare with random feasible ones).
            for _ in range(20):
                other = np.abs(rng.normal(size=12))
                other *= values.sum() / other.sum()
                assert np.sum((near - values) ** 2) <= np.sum((other - values) ** 2) + 1e-4
    assert np.array_equal(recovery.nearest_spectrum(np.array([-1.0, 0.5])), [recovery.FLOOR] * 2)
    assert recovery.nearest_spectrum(np.array([1.0, 2.0])) == pytest.approx([1.0, 2.0])


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        ({"A": [[0, 1], [0, 1], [0, 1]]}, r"B\.u lacks a range; B\.v lacks a range"),
        ({"A": [[0, 1], [1, 0], [0, 1]], "B": [[0, 1], [0, 1]]}, r"A\.y has low >= high"),
        ({"A": [[0, 1], [1, 1], [0, 1]], "B": [[0, 1], [0, 1]]}, r"A\.y has low >= high"),
        ({"A": [[0, 1], [0, np.inf], [0, 1]], "B": [[0, 1], [0, 1]]}, "infinite"),
        ({"A": [[0, 1]], "B": [[0, 1], [0, 1]]}, "expected 3 pairs"),
    ],
)
def test_bad_ranges_name_their_columns(ranges: dict[str, list[list[float]]], message: str) -> None:
    columns = {"A": ("x", "y", "z"), "B": ("u", "v")}
    with pytest.raises(UserError, match=message):
        subject.checked_ranges(LAYOUT, columns, {name: np.array(r) for name, r in ranges.items()})


def test_good_ranges_pass_and_bounds_that_are_too_small_do_not() -> None:
    columns = {"A": ("x", "y", "z"), "B": ("u", "v")}
    pairs = {"A": np.array([[0, 1], [0, 2], [0, 3]]), "B": np.array([[1, 5], [-1, 0]])}
    ranges = subject.checked_ranges(LAYOUT, columns, pairs)
    assert ranges.width.tolist() == [1, 2, 3, 4, 1]
    with pytest.raises(UserError, match="too small"):
        subject.make_bound(LAYOUT, 1e-5)


def test_more_subjects_than_sums_can_hold_exactly_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "EXACT", 2.0**25)
    found = subject.SecondMoments(RANGES, subject.make_bound(LAYOUT, None))
    found.add(rows(100, 9))
    with pytest.raises(UserError, match="at most 8 subjects"):
        found.matrix()
