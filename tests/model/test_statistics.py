"""Statistics = rows, to 1e-12, whatever the chunks, the holes and the units."""

import numpy as np
import pytest

from core_cases import draw, layout_of, side_by_side, statistics_of, with_holes
from vedute.model import statistics
from vedute.model.statistics import Accumulator, from_rows, scatter_factor

TIGHT = {"rtol": 1e-12, "atol": 1e-12}


def by_pattern(views):
    """(mask, number, mean, centred scatter) of each pattern of observed features, from the rows."""
    rows = side_by_side(views)
    observed = ~np.isnan(rows)
    found = []
    for mask in np.unique(observed[observed.any(axis=1)], axis=0)[::-1]:
        mine = rows[(observed == mask).all(axis=1)]
        part = np.where(mask, mine, 0.0)
        mean = part.mean(axis=0)
        found.append((mask, len(part), mean, (part - mean).T @ (part - mean)))
    return found


def assert_same(statistics, views, **tolerance):
    expected = by_pattern(views)
    assert len(statistics.n) == len(expected)
    for p, (mask, n, mean, scatter) in enumerate(expected):
        found_n, found_mean, factor = statistics.pattern(p)
        assert (statistics.mask[p] == mask).all()
        assert found_n == n
        assert np.allclose(found_mean, mean, **tolerance)
        assert np.allclose(factor.T @ factor, scatter, **tolerance)
    assert statistics.n_rows == (~np.isnan(side_by_side(views))).any(axis=1).sum()


@pytest.mark.parametrize("n", [1, 2, 5, 40, 500])
@pytest.mark.parametrize("holes", [False, True])
def test_statistics_are_those_of_the_rows(n, holes):
    views = draw(n=n)
    views = with_holes(views) if holes and n > 2 else views
    assert_same(statistics_of(views), views, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("step", [1, 7, 100])
def test_chunks_and_sums_give_the_same(holes, step):
    views = draw(n=300)
    views = with_holes(views) if holes else views
    layout = layout_of((5, 4, 3))
    chunks = [{k: T[s : s + step] for k, T in views.items()} for s in range(0, 300, step)]
    folded = Accumulator(layout)
    for chunk in chunks:
        folded.add(chunk)
    assert_same(folded.finish(), views, rtol=1e-12, atol=1e-11)
    added = from_rows(layout, chunks[0])
    for chunk in chunks[1:]:
        added = added + from_rows(layout, chunk)
    assert_same(added, views, rtol=1e-12, atol=1e-11)
    assert len(added.factor) <= sum(min(n, mask.sum()) for mask, n, _, _ in by_pattern(views))


@pytest.mark.parametrize("together", [True, False])
def test_a_mean_of_a_million_costs_no_digits(together):
    """Mean 1e6, sd 1: sums of squares would keep four digits. Integers make the exact answer known."""
    rng = np.random.default_rng(0)
    small = np.round(rng.standard_normal((4000, 6)) * 2**20) / 2**20
    views = {"v0": small + 1e6}
    layout = layout_of((6,))
    found = from_rows(layout, views)
    if not together:
        found = from_rows(layout, {"v0": views["v0"][:1000]}) + from_rows(layout, {"v0": views["v0"][1000:]})
    centred = small - small.mean(axis=0)
    _, mean, factor = found.pattern(0)
    assert np.allclose(mean - 1e6, small.mean(axis=0), atol=1e-9)
    assert np.allclose(factor.T @ factor, centred.T @ centred, rtol=1e-12, atol=1e-8)
    assert np.allclose(found.squares_about(found.mean[0]), (centred**2).sum(axis=0), rtol=1e-12)


def test_a_constant_column_does_not_blur_columns_in_small_units():
    """Raw tables mix units: a scatter that is not of full rank must keep every digit of the small columns."""
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((500, 4)) * np.array([1e9, 1.0, 1e-3, 0.0]) + 7.0
    _, _, factor = from_rows(layout_of((4,)), {"v0": rows}).pattern(0)
    scatter = factor.T @ factor
    centred = rows - rows.mean(axis=0)
    expected = centred.T @ centred
    scale = np.sqrt(np.maximum(np.outer(np.diag(expected), np.diag(expected)), 1e-30))
    assert np.abs((scatter - expected) / scale)[:3, :3].max() < 1e-9


def test_scatter_factors_of_any_rank():
    rng = np.random.default_rng(2)
    for rank in (0, 1, 3, 5):
        half = rng.standard_normal((rank, 5))
        factor = scatter_factor(half.T @ half)
        assert len(factor) <= 5
        assert np.allclose(factor.T @ factor, half.T @ half, atol=1e-12)


def test_a_view_absent_from_a_chunk_is_missing_for_its_rows():
    views = draw(n=20)
    folded = Accumulator(layout_of((5, 4, 3)))
    folded.add(views)
    folded.add({"v1": views["v1"]})
    absent = {k: np.vstack([T, T if k == "v1" else np.full_like(T, np.nan)]) for k, T in views.items()}
    assert_same(folded.finish(), absent, **TIGHT)


def test_rows_with_nothing_observed_tell_nothing():
    empty = statistics_of({"v0": np.full((3, 2), np.nan)})
    some = statistics_of({"v0": np.arange(6.0).reshape(3, 2)})
    assert empty.n_rows == 0
    assert (empty + some).n.tolist() == [3.0]
    assert (empty + empty).factor.shape == (0, 2)


def test_loose_rows_are_folded_when_they_take_too_much_memory(monkeypatch):
    monkeypatch.setattr(statistics, "LOOSE_BYTES", 1 << 10)
    views = with_holes(draw(n=200), cells=0.02)
    folded = Accumulator(layout_of((5, 4, 3)))
    for start in range(0, 200, 5):
        folded.add({k: T[start : start + 5] for k, T in views.items()})
    assert_same(folded.finish(), views, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("few_first", [True, False])
def test_a_few_rows_before_or_after_many_are_not_forgotten(few_first):
    views = draw(n=200)
    cut = 3 if few_first else 197
    folded = Accumulator(layout_of((5, 4, 3)))
    folded.add({k: T[:cut] for k, T in views.items()})
    folded.add({k: T[cut:] for k, T in views.items()})
    assert_same(folded.finish(), views, rtol=1e-12, atol=1e-11)


def test_sums_counts_and_squares_about_a_point():
    views = with_holes(draw(n=100))
    rows, found = side_by_side(views), statistics_of(views)
    about = np.arange(12.0)
    assert np.allclose(found.counts(), (~np.isnan(rows)).sum(axis=0))
    assert np.allclose(found.sums(), np.nansum(rows, axis=0), **TIGHT)
    assert np.allclose(found.squares_about(about), np.nansum((rows - about) ** 2, axis=0), **TIGHT)


def test_rescaled_statistics_are_those_of_the_rescaled_rows():
    views = with_holes(draw(n=100))
    shift, scale = np.arange(12.0), np.linspace(0.5, 9.0, 12)
    rescaled, start = {}, 0
    for name, T in views.items():
        cols = slice(start, start + T.shape[1])
        rescaled[name], start = (T - shift[cols]) / scale[cols], cols.stop
    assert_same(statistics_of(views).rescaled(shift, scale), rescaled, **TIGHT)


def test_the_order_of_the_rows_does_not_matter():
    views = with_holes(draw(n=100))
    order = np.random.default_rng(3).permutation(100)
    one, two = statistics_of(views), statistics_of({k: T[order] for k, T in views.items()})
    assert (one.mask == two.mask).all()
    assert (one.n == two.n).all()
    assert np.allclose(one.mean, two.mean, **TIGHT)


def test_extremes_are_noted_only_on_request():
    views = with_holes(draw(n=100))
    noted = Accumulator(layout_of((5, 4, 3)), extremes=True)
    noted.add(views)
    assert (noted.low == np.nanmin(side_by_side(views), axis=0)).all()
    assert (noted.high == np.nanmax(side_by_side(views), axis=0)).all()
    assert np.isnan(Accumulator(layout_of((5, 4, 3))).low).all()
