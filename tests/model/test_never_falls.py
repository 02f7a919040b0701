"""The helper that asserts a promise must itself be able to fail."""

import numpy as np
import pytest

from never_falls import assert_never_falls


def test_a_rising_path_passes():
    values = [-5.0, -3.0, -3.0, -2.999, -2.999 - 1e-13]
    assert np.diff(values).min() < 0  # rounding is forgiven
    assert_never_falls(values)


@pytest.mark.parametrize(
    "values",
    [
        [1.0, 2.0, 1.9, 3.0],
        [3.0, 2.0, 1.0],
        [1.0, 2.0, 2.0 - 1e-9, 3.0],
        [1.0, np.nan, 3.0],
        [1.0, 1.0, 1.0],
        [1.0, 2.0],
    ],
)
def test_a_falling_or_empty_path_fails(values):
    with pytest.raises(AssertionError):
        assert_never_falls(values)
