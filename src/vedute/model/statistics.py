"""Rows of a center fold into statistics: all that EM needs of the data, read once and in chunks.

Rows are grouped by their pattern of observed features. A pattern keeps its number of rows, their mean, and their
centred scatter ``S`` as a factor ``F`` with ``F'F = S``: the centred rows themselves where they are few, a
triangular factor where they are many. Complete data is the case of one pattern.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vedute.model.parameters import Array, Layout

BLOCK_BYTES = 1 << 20  # a block of rows that stays in the cache while it is centred and multiplied
LOOSE_BYTES = 64 << 20  # rows of rare patterns are regrouped when they take more memory than this


@dataclass(frozen=True)
class Statistics:
    """Sufficient statistics of a center; ``mean`` and ``factor`` are zero where a pattern does not observe."""

    layout: Layout
    mask: NDArray[np.bool_]  # (patterns, features): what each pattern observes
    n: Array  # (patterns,): its number of rows
    mean: Array  # (patterns, features): the mean of its rows
    factor: Array  # (rows of all factors, features): F, with F'F the centred scatter
    owner: NDArray[np.intp]  # (rows of all factors,): the pattern of each factor row, ascending

    @property
    def n_rows(self) -> int:
        """Number of subjects."""
        return round(float(self.n.sum()))

    def counts(self) -> Array:
        """Number of observed cells of each feature."""
        return self.n @ self.mask

    def sums(self) -> Array:
        """Sum of the observed cells of each feature."""
        return self.n @ self.mean

    def squares_about(self, center: Array) -> Array:
        """Sum of squares of each feature about ``center``, without cancellation."""
        gap = np.where(self.mask, self.mean - center, 0.0)
        return np.asarray((self.factor**2).sum(axis=0) + self.n @ gap**2)

    def rescaled(self, shift: Array, scale: Array) -> Statistics:
        """Statistics of ``(t - shift) / scale`` without reading the rows again."""
        mean = np.where(self.mask, (self.mean - shift) / scale, 0.0)
        return Statistics(self.layout, self.mask, self.n, mean, self.factor / scale, self.owner)

    def held(self) -> Statistics:
        """The same statistics without the views of which nothing was observed."""
        names = [name for name, columns in self.layout.slices.items() if self.mask[:, columns].any()]
        if len(names) == len(self.layout.names):
            return self
        keep = np.concatenate([np.arange(self.layout.total)[self.layout.slices[name]] for name in names])
        return Statistics(
            self.layout.restrict(names),
            self.mask.take(keep, axis=1),  # in C order, as if the other views had never been there
            self.n,
            self.mean.take(keep, axis=1),
            self.factor.take(keep, axis=1),
            self.owner,
        )

    def pattern(self, p: int) -> tuple[float, Array, Array]:
        """Number, mean and factor of one pattern."""
        low, high = np.searchsorted(self.owner, [p, p + 1])
        return float(self.n[p]), self.mean[p], self.factor[low:high]

    def __add__(self, other: Statistics) -> Statistics:
        """Statistics of both sets of rows together (Chan's merge, on factors instead of scatters)."""
        mine, theirs = ({m.tobytes(): (m, *s.pattern(p)) for p, m in enumerate(s.mask)} for s in (self, other))
        parts = [
            (mine[key] if key not in theirs else theirs[key] if key not in mine else _merged(mine[key], theirs[key]))
            for key in sorted(mine | theirs, reverse=True)
        ]
        return _assemble(self.layout, parts)


Part = tuple[NDArray[np.bool_], float, Array, Array]  # mask, number of rows, mean, factor of one pattern


def _merged(a: Part, b: Part) -> Part:
    mask, n_a, mean_a, factor_a = a
    _, n_b, mean_b, factor_b = b
    n = n_a + n_b
    factor = np.vstack([factor_a, factor_b, np.sqrt(n_a * n_b / n) * (mean_a - mean_b)])
    if len(factor) > mask.sum():
        factor = _spread_out(np.asarray(np.linalg.qr(factor[:, mask], mode="r")), mask)
    return mask, n, mean_a + (n_b / n) * (mean_b - mean_a), factor


def _assemble(layout: Layout, parts: list[Part]) -> Statistics:
    d = layout.total
    return Statistics(
        layout,
        np.array([mask for mask, _, _, _ in parts], dtype=bool).reshape(len(parts), d),
        np.array([n for _, n, _, _ in parts], dtype=float),
        np.array([mean for _, _, mean, _ in parts]).reshape(len(parts), d),
        np.concatenate([np.zeros((0, d)), *(factor for _, _, _, factor in parts)]),
        np.repeat(np.arange(len(parts)), [len(factor) for _, _, _, factor in parts]),
    )


class _Moments:
    """Running moments of one pattern about the mean of its first rows, so that nothing cancels."""

    def __init__(self, rows: Array) -> None:
        self.shift = rows.mean(axis=0)
        self.n = 0
        self.sum = np.zeros(rows.shape[1])
        self.scatter = np.zeros((rows.shape[1], rows.shape[1]))

    def add(self, rows: Array) -> None:
        """Fold rows in; ``rows`` is overwritten."""
        np.subtract(rows, self.shift, out=rows)
        self.add_products(len(rows), rows.sum(axis=0), rows.T @ rows)

    def add_products(self, n: int, sums: Array, products: Array) -> None:
        """Fold in rows less the shift, by their sums and products."""
        self.n += n
        self.sum += sums
        self.scatter += products

    def absorb(self, other: _Moments) -> None:
        """Fold in the moments of other rows, brought about this shift."""
        gap = other.shift - self.shift
        cross = np.outer(gap, other.sum)
        products = other.scatter + cross + cross.T + other.n * np.outer(gap, gap)
        self.add_products(other.n, other.sum + other.n * gap, products)

    def finish(self) -> tuple[int, Array, Array]:
        """Number, mean and factor of the centred scatter."""
        scatter = self.scatter - np.outer(self.sum, self.sum) / self.n
        return self.n, self.shift + self.sum / self.n, scatter_factor(scatter)


def scatter_factor(scatter: Array) -> Array:
    """``F`` with ``F'F = scatter``, at most as many rows as its rank."""
    try:
        return np.linalg.cholesky(scatter).T
    except np.linalg.LinAlgError:
        size = np.sqrt(np.maximum(np.diag(scatter), 0.0))
        size[size == 0] = 1.0
        values, vectors = np.linalg.eigh(scatter / np.outer(size, size))  # as correlations: units may differ widely
        keep = values > values[-1] * len(values) * np.finfo(float).eps
        return np.asarray((vectors[:, keep] * np.sqrt(values[keep])).T * size)


class Accumulator:
    """Folds chunks of row-aligned views into :class:`Statistics`; the rows are then forgotten.

    With ``extremes`` it also notes the smallest and largest value of each feature, which are values of real subjects.
    """

    def __init__(self, layout: Layout, *, extremes: bool = False) -> None:
        self.layout = layout
        self.low = np.full(layout.total, np.inf if extremes else np.nan)
        self.high = -self.low
        self._extremes = extremes
        self._block_rows = max(64, BLOCK_BYTES // (8 * layout.total))
        self._moments: dict[bytes, _Moments] = {}
        self._masks: dict[bytes, NDArray[np.bool_]] = {}
        self._loose: dict[bytes, list[Array]] = {}
        self._loose_bytes = 0
        self._everything = np.packbits(np.ones(layout.total, dtype=bool)).tobytes()

    def add(self, views: Mapping[str, Array]) -> None:
        """Fold in a chunk of rows; NaN is a missing cell, an absent view is missing for all these rows."""
        n = len(next(iter(views.values())))
        block = np.ones((min(n, self._block_rows), self.layout.total + 1))  # the last column stays one
        for start in range(0, n, self._block_rows):
            self._take(block, *self._fill(block, views, start))

    def absorb(self, other: Accumulator) -> None:
        """Fold in the rows that another accumulator of the same layout has read; that one is then used up."""
        np.fmin(self.low, other.low, out=self.low)
        np.fmax(self.high, other.high, out=self.high)
        self._masks = other._masks | self._masks
        for key, moments in other._moments.items():
            if key in self._moments:
                self._moments[key].absorb(moments)
            else:
                self._moments[key] = moments
        for key, parts in other._loose.items():
            self._loose.setdefault(key, []).extend(parts)
        self._loose_bytes += other._loose_bytes
        if self._loose_bytes > LOOSE_BYTES:
            self._tidy()

    def _fill(self, block: Array, views: Mapping[str, Array], start: int) -> tuple[int, Array | None]:
        """Copy rows into a block, less the shift of complete rows where it is known already."""
        known = None if self._extremes else self._moments.get(self._everything)
        size = min(self._block_rows, len(next(iter(views.values()))) - start)
        for name, columns in self.layout.slices.items():
            part = block[:size, :-1][:, columns]
            if name not in views:
                part[:] = np.nan
            elif known is None:
                part[:] = views[name][start : start + size]
            else:
                np.subtract(views[name][start : start + size], known.shift[columns], out=part)
        return size, None if known is None else known.shift

    def _take(self, block: Array, size: int, shift: Array | None) -> None:
        rows = block[:size, :-1]
        if shift is None:
            self._fold(rows)
            return
        gram = block[:size].T @ block[:size]  # the column of ones adds the sums, which also show a missing cell
        if np.isfinite(gram[-1]).all():
            self._moments[self._everything].add_products(size, gram[-1, :-1], gram[:-1, :-1])
        else:
            rows += shift
            self._fold(rows)

    def _fold(self, rows: Array) -> None:
        if self._extremes:
            np.fmin(self.low, np.fmin.reduce(rows, axis=0), out=self.low)
            np.fmax(self.high, np.fmax.reduce(rows, axis=0), out=self.high)
        if np.isfinite(rows.sum(axis=0)).all():  # a sum shows a missing cell at the price of one pass
            self._fold_pattern(self._everything, np.ones(self.layout.total, dtype=bool), rows)
            return
        observed = ~np.isnan(rows)
        keys = np.packbits(observed, axis=1)
        packed = np.ascontiguousarray(keys).view(np.dtype((np.void, keys.shape[1]))).ravel()
        _, first, group = np.unique(packed, return_index=True, return_inverse=True)
        order = np.argsort(group, kind="stable")
        bounds = np.searchsorted(group[order], np.arange(len(first) + 1))
        for p, row in enumerate(first):
            mine = order[bounds[p] : bounds[p + 1]]
            mask = observed[row]
            self._fold_pattern(keys[row].tobytes(), mask, rows[np.ix_(mine, mask)])

    def _fold_pattern(self, key: bytes, mask: NDArray[np.bool_], rows: Array) -> None:
        self._masks.setdefault(key, mask)
        if key not in self._moments and len(rows) <= 2 * rows.shape[1]:
            self._loose.setdefault(key, []).append(rows.copy())
            self._loose_bytes += rows.nbytes
            if self._loose_bytes > LOOSE_BYTES:
                self._tidy()
            return
        self._moments_of(key, rows).add(rows)

    def _moments_of(self, key: bytes, rows: Array) -> _Moments:
        if key not in self._moments:
            self._moments[key] = _Moments(rows)
        return self._moments[key]

    def _tidy(self) -> None:
        """Turn the loose rows of a pattern into a scatter wherever that is the smaller of the two."""
        for key in list(self._loose):
            rows = np.concatenate(self._loose[key])
            if key in self._moments or len(rows) > rows.shape[1]:
                self._moments_of(key, rows).add(rows)
                del self._loose[key]
        self._loose_bytes = sum(part.nbytes for parts in self._loose.values() for part in parts)

    def finish(self) -> Statistics:
        """The statistics of all rows added so far; rows with nothing observed tell nothing and are left out."""
        self._tidy()
        told = (key for key, mask in self._masks.items() if mask.any())
        keys = sorted(told, reverse=True)  # an order that the order of the rows does not change
        parts = []
        for key in keys:
            mask = self._masks[key]
            n, mean, factor = self._finish_pattern(key)
            parts.append((mask, float(n), _spread_out(mean[None], mask)[0], _spread_out(factor, mask)))
        return _assemble(self.layout, parts)

    def _finish_pattern(self, key: bytes) -> tuple[int, Array, Array]:
        if key in self._moments:
            return self._moments[key].finish()
        rows = np.concatenate(self._loose[key])
        mean = rows.mean(axis=0)
        return len(rows), mean, (rows - mean if len(rows) > 1 else rows[:0])


def _spread_out(part: Array, mask: NDArray[np.bool_]) -> Array:
    if mask.all():
        return part
    whole = np.zeros((len(part), len(mask)))
    whole[:, mask] = part
    return whole


def from_rows(layout: Layout, views: Mapping[str, Array]) -> Statistics:
    """Statistics of rows that are all in memory."""
    accumulator = Accumulator(layout)
    accumulator.add(views)
    return accumulator.finish()
