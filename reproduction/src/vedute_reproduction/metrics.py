"""How the paper measures: error of reconstruction, and groups told apart in the latent space."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vedute.core.params import Array
from vedute_reproduction.methods import ByCenter, Centers, Fitted, Views

Labels = NDArray[Any]


def mean_absolute_error(fitted: Fitted, views: Views) -> float:
    """Mean distance of observed entries to their reconstruction, over all views together, in the units given.

    A reconstruction that is no number makes it NaN: what a method cannot tell must not count as a missing cell.
    """
    known = {name: rows for name, rows in views.items() if name in fitted.views}
    seen = fitted.reconstruct(known)
    gaps = np.concatenate([np.abs(rows - seen[name])[~np.isnan(rows)] for name, rows in known.items()])
    return float(gaps.mean())


def mean_error(fitted: Fitted, tables: Centers) -> float:
    """The unweighted mean over centers, or over parts of the test rows, as the paper has it."""
    return float(np.mean([mean_absolute_error(at(fitted, name), views) for name, views in tables.items()]))


def at(fitted: Fitted, center: str) -> Fitted:
    """What is to place the rows of a center."""
    return fitted.of(center) if isinstance(fitted, ByCenter) else fitted


def latent_accuracy(train: Array, train_groups: Labels, test: Array, test_groups: Labels) -> float:
    """Share of test subjects whose group linear discriminant analysis tells from the latent means.

    The discriminant is fitted on train latent means. NaN where these are of one group, all alike, or no numbers: a run
    that diverged must not end the experiment.
    """
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    told = np.isfinite(train).all() and np.isfinite(test).all() and np.ptp(train, axis=0).any()
    if len(np.unique(train_groups)) < 2 or not told:
        return float("nan")
    return float(LinearDiscriminantAnalysis().fit(train, train_groups).score(test, test_groups))
