"""Rows in memory are folded in pieces on threads; neither the pieces nor the threads may show in the statistics."""

import os

import numpy as np
import pytest

from vedute.data import rows as data_rows
from vedute.data.rows import open_rows
from vedute.model import statistics
from vedute.model.parameters import Layout
from vedute.model.statistics import Accumulator, from_rows
from vedute.run.center import CenterData, known_of

LAYOUT = Layout(("A", "B"), (5, 3))


def centers(missing: float) -> dict[str, dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    found = {}
    for name, n in (("large", 700), ("small", 90)):
        rows = rng.normal(1e6, 1.0, (n, 8)) @ np.diag([1, 1, 1, 1, 1, 1e-3, 1, 1e3])
        rows[rng.random(rows.shape) < missing] = np.nan
        found[name] = {"A": rows[:, :5], "B": rows[:, 5:]}
    return found


def folded(data: dict[str, dict[str, np.ndarray]]) -> dict[str, CenterData]:
    read = open_rows(data).fold(lambda center: Accumulator(LAYOUT, extremes=True))
    return {name: known_of(part.result) for name, part in read.items()}


@pytest.mark.parametrize("missing", [0.0, 0.01, 0.3])
def test_pieces_give_the_statistics_of_all_rows(monkeypatch, missing):
    monkeypatch.setattr(data_rows, "PIECE_ROWS", 200)
    monkeypatch.setattr(statistics, "BLOCK_BYTES", 0)  # the smallest blocks: a piece has several
    data = centers(missing)
    for name, found in folded(data).items():
        whole = from_rows(LAYOUT, data[name])
        assert np.array_equal(found.statistics.mask, whole.mask)
        assert np.array_equal(found.statistics.n, whole.n)
        assert np.allclose(found.statistics.mean, whole.mean, rtol=1e-14)
        for p in range(len(whole.n)):
            (_, _, mine), (_, _, reference) = found.statistics.pattern(p), whole.pattern(p)
            scatter = reference.T @ reference
            size = np.sqrt(np.outer(np.diag(scatter), np.diag(scatter)))
            assert np.all(np.abs(mine.T @ mine - scatter) <= 1e-8 * size)  # 1e6 and sd 1: a cell has 10 digits
        rows = np.hstack(list(data[name].values()))
        assert np.array_equal(found.low, np.nanmin(rows, axis=0))
        assert np.array_equal(found.high, np.nanmax(rows, axis=0))


def test_the_number_of_threads_changes_no_bit(monkeypatch):
    monkeypatch.setattr(data_rows, "PIECE_ROWS", 64)
    results = []
    for cores in (1, 5):
        monkeypatch.setattr(os, "cpu_count", lambda cores=cores: cores)
        results.append(folded(centers(0.05)))
    for one, five in zip(*(result.values() for result in results), strict=True):
        for name in ("n", "mean", "factor"):
            assert np.array_equal(getattr(one.statistics, name), getattr(five.statistics, name))
