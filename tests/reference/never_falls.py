"""The promise of EM as an assertion. ``np.all(np.diff(x)) > 0`` is true of falling sequences: this is not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def assert_never_falls(values: Sequence[float], *, rounding: float = 1e-11) -> None:
    """Each value is at least the one before it, but for rounding errors relative to their size."""
    path = np.asarray(values, dtype=float)
    assert path.ndim == 1
    assert len(path) > 2
    assert np.isfinite(path).all()
    worst = np.diff(path).min()
    assert worst >= -rounding * np.abs(path).max(), f"fell by {-worst:.3g} at step {int(np.diff(path).argmin())}"
    assert path[-1] > path[0], "nothing moved: such a path proves nothing"
