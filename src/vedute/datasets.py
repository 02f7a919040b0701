"""Example data: studies drawn from the model, and a real one that comes with scikit-learn."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from vedute.data.synthetic import HierarchicalTruth, SDTruth, make_hierarchical, make_sd

__all__ = ["HierarchicalTruth", "SDTruth", "load_breast_cancer_views", "make_hierarchical", "make_sd"]


def load_breast_cancer_views() -> tuple[dict[str, pd.DataFrame], NDArray[np.str_]]:
    """The Wisconsin breast-cancer study: three views of ten features, and the diagnosis of each of 569 rows.

    The views are the "mean", the standard "error" and the "worst" value of the same ten measurements over the
    cell nuclei of an image; the groups are "malignant" and "benign".
    """
    from sklearn.datasets import load_breast_cancer

    study = load_breast_cancer(as_frame=True)
    table: pd.DataFrame = study.data
    views = {
        kind: table.loc[:, [column for column in table.columns if kind in column.split()]]
        for kind in ("mean", "error", "worst")
    }
    return views, np.asarray(study.target_names, dtype=np.str_)[study.target.to_numpy()]
