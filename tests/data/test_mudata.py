import builtins
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from vedute.data.study import Study
from vedute.errors import UserError


@pytest.fixture
def h5mu(tmp_path):
    """Two modalities, one sparse, about different subjects."""
    import anndata
    import mudata

    rng = np.random.default_rng(0)
    dense = anndata.AnnData(rng.normal(size=(5, 3)), pd.DataFrame(index=list("abcde")), pd.DataFrame(index=list("xyz")))
    sparse = anndata.AnnData(
        sp.csr_matrix(np.eye(4)[:, :2]), pd.DataFrame(index=list("fdcb")), pd.DataFrame(index=list("uv"))
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = mudata.MuData({"A": dense, "B": sparse})
        whole.obs["site"] = ["n", "n", "p", "p", "p", "n"]
        whole.obs["kind"] = ["g", None, "h", "h", "g", "g"]
        whole.write(tmp_path / "all.h5mu")
    return tmp_path, np.asarray(dense.X)


def test_modalities_are_views_and_obs_is_the_table_of_subjects(h5mu, monkeypatch):
    folder, dense = h5mu
    from vedute.data import mudata_reader

    monkeypatch.setattr(mudata_reader, "CELLS", 1)
    (folder / "s.toml").write_text(
        "[views.A]\ncolumns = ['z', 'x']\n[views.B]\n"
        "[subjects]\nfile = 'all.h5mu'\ncenter = 'site'\ngroup = 'kind'\n"
        "[files]\nA = 'all.h5mu'\nB = 'all.h5mu'\n"
    )
    study = Study.load(folder / "s.toml")
    assert study.columns == {"A": ("z", "x"), "B": ("u", "v")}
    assert study.centers == ("n", "p")
    nice = study.read("n")
    rows = {label: row for row, label in enumerate(nice.ids)}
    assert sorted(rows) == ["a", "b", "f"]
    np.testing.assert_array_equal(nice.views["A"][rows["b"]], dense[1, [2, 0]])
    np.testing.assert_array_equal(nice.views["A"][rows["f"]], [np.nan, np.nan])
    np.testing.assert_array_equal(nice.views["B"][[rows["a"], rows["f"], rows["b"]]], [[np.nan] * 2, [1, 0], [0, 0]])
    assert nice.groups[rows["b"]] == ""


def test_a_modality_may_have_another_name(h5mu):
    folder, dense = h5mu
    (folder / "s.toml").write_text("[centers.nice.files]\nMRI = { file = 'all.h5mu', modality = 'A' }\n")
    np.testing.assert_array_equal(Study.load(folder / "s.toml").read("nice").views["MRI"], dense)


def test_an_unknown_modality_a_damaged_file_and_a_missing_extra_are_told(h5mu, monkeypatch):
    folder, _ = h5mu
    (folder / "bad.h5mu").write_bytes(b"not hdf5 at all")
    (folder / "s.toml").write_text("[centers.nice.files]\nC = 'all.h5mu'\nD = 'bad.h5mu'\n")
    with pytest.raises(UserError) as refused:
        Study.load(folder / "s.toml")
    assert "all.h5mu: no modality 'C' among 'A', 'B'" in str(refused.value)
    assert "bad.h5mu: not a MuData file" in str(refused.value)
    real = builtins.__import__

    def without_mudata(name, *args, **kwargs):
        if name == "mudata":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_mudata)
    with pytest.raises(UserError, match=r"pip install 'vedute\[mudata\]'"):
        Study.load(folder / "s.toml")
