"""Hidden cells: the model fills them better than a column's mean and than one hospital can alone."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from vedute import FederatedPPCA
from vedute.datasets import load_breast_cancer_views, make_hierarchical
from vedute.scenarios import split

PATH = Path(__file__).parents[1] / "benchmarks" / "imputation.py"


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("imputation_benchmark", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def frames(centers):
    return {
        c: {v: pd.DataFrame(np.asarray(T), columns=[f"{v}{j}" for j in range(T.shape[1])]) for v, T in views.items()}
        for c, views in centers.items()
    }


def errors(benchmark, study, q, scaling="shared-standard"):
    """Of the column mean, of IterativeImputer in each center alone, and of the model."""
    given = benchmark.hide(study, 0)
    fitted = FederatedPPCA(q, scaling=scaling, random_state=0, rounds=30, tol=1e-3).fit(given)
    ours = {c: {v: T for v, T in fitted.impute(views, center=c).items() if v in views} for c, views in given.items()}
    fills = (benchmark.by_column_mean(given), benchmark.by_iterative_imputer(given), ours)
    return [benchmark.error(study, given, filled) for filled in fills]


def test_small_centers_gain_from_each_other(benchmark):
    """40 subjects a center and 12 features, whole views missing by center: the truth is in reach only together."""
    centers, _ = make_hierarchical(
        5, 40, sizes=(5, 4, 3), n_components=2, weights=1.0, noise=0.5, sd_W=0.15, random_state=0
    )
    del centers["center2"]["view3"], centers["center4"]["view2"]
    mean, alone, ours = errors(benchmark, frames(centers), 2)
    assert ours < 0.97 * alone
    assert ours < 0.9 * mean


def test_the_breast_cancer_study_in_three_small_centers(benchmark):
    views, groups = load_breast_cancer_views()
    centers, _ = split({v: T.iloc[:120] for v, T in views.items()}, groups[:120], 3, "K", random_state=0)
    mean, alone, ours = errors(benchmark, frames(centers), 6)
    assert ours < alone < mean


def test_errors_are_of_hidden_cells_alone(benchmark):
    study = frames({"a": {"v": np.array([[0.0, 1.0], [2.0, np.nan], [4.0, 5.0]])}})
    given = {"a": {"v": study["a"]["v"].mask(np.array([[True, False], [False, False], [False, False]]))}}
    filled = {"a": {"v": given["a"]["v"].fillna(3.0)}}
    assert benchmark.error(study, given, filled) == pytest.approx(3.0 / 2.0)
    assert benchmark.by_column_mean(given)["a"]["v"].iloc[0, 0] == 3.0


def test_the_benchmark_runs_from_a_folder(benchmark, tmp_path, monkeypatch, capsys):
    centers, _ = make_hierarchical(3, 30, sizes=(4, 3), n_components=1, random_state=0)
    for view in ("view1", "view2"):
        parts = [
            pd.DataFrame(T[view]).add_prefix(view).set_axis([f"{c}{i}" for i in range(30)]) for c, T in centers.items()
        ]
        pd.concat(parts).to_csv(tmp_path / f"{view}.csv", index_label="id")
    ids = [f"{c}{i}" for c in centers for i in range(30)]
    pd.DataFrame({"site": np.repeat(list(centers), 30)}, index=ids).to_csv(tmp_path / "subjects.csv", index_label="id")
    monkeypatch.setattr(sys, "argv", ["imputation.py", str(tmp_path), "--seeds", "1", "--components", "1"])
    benchmark.main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert float(lines[2].split()[3]) < float(lines[2].split()[1])
