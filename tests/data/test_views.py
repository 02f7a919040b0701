import numpy as np
import pandas as pd
import pytest

from vedute.data.views import MultiView
from vedute.errors import UserError

X = np.arange(6.0).reshape(3, 2)


def test_float64_arrays_are_taken_without_a_copy():
    center = MultiView.from_mapping({"A": X}, center="nice")
    assert center.views["A"] is X
    assert center.columns == {"A": ("A_0", "A_1")}
    assert list(center.ids) == ["0", "1", "2"]
    assert len(center) == 3
    assert center.sizes == {"A": 2}


def test_frames_lists_integers_booleans_and_nullable_columns_become_float64():
    frame = pd.DataFrame({"age": pd.array([1, None, 3], dtype="Int64"), "sex": [True, False, True]}, index=list("abc"))
    center = MultiView.from_mapping({"A": frame, "B": [[1], [2], [3]], "C": np.ones((3, 1), dtype=np.int8)})
    np.testing.assert_array_equal(center.views["A"], [[1, 1], [np.nan, 0], [3, 1]])
    assert {view.dtype for view in center.views.values()} == {np.dtype(np.float64)}
    assert center.columns["A"] == ("age", "sex")
    assert list(center.ids) == ["a", "b", "c"]


def test_object_columns_with_none_count_as_missing():
    center = MultiView.from_mapping({"A": pd.DataFrame({"x": [1.5, None, "2"]}, dtype=object)})
    np.testing.assert_array_equal(center.views["A"].ravel(), [1.5, np.nan, 2.0])


def test_frame_and_take_give_back_rows_with_their_labels():
    center = MultiView.from_mapping({"A": X}, ids=["p", "q", "r"], groups=["g", "h", "g"])
    pd.testing.assert_frame_equal(
        center.frame("A"),
        pd.DataFrame(X, index=pd.Index(["p", "q", "r"], name="id", dtype=object), columns=["A_0", "A_1"]),
    )
    some = center.take(np.array([2, 0]))
    assert list(some.ids) == ["r", "p"]
    assert list(some.groups) == ["g", "g"]
    np.testing.assert_array_equal(some.views["A"], X[[2, 0]])


def test_a_multiview_passes_through():
    center = MultiView.from_mapping({"A": X})
    assert MultiView.from_mapping(center, center="nice") is center


@pytest.mark.parametrize(
    ("views", "parts"),
    [
        ({"A": [["x", "1"], ["2", "3"]]}, ["row 0", "column 0", "'x'", "not a number"]),
        ({"A": pd.DataFrame({"age": [1, 2], "sex": ["m", "f"]})}, ["row 0", "'sex'", "'m'", "code it as a number"]),
        ({"A": pd.DataFrame({"t": pd.to_datetime(["2020-01-01"])})}, ["'t'", "datetime64", "code it"]),
        ({"A": np.array([[1.0, np.inf]])}, ["row 0", "column 1", "infinite"]),
        ({"A": np.array([[1e308, 1e308], [np.nan, -np.inf]])}, ["row 1", "column 1", "infinite"]),
        ({"A": np.array([[1 + 2j]])}, ["not", "number"]),
        ({"A": X, "B": X[:2]}, ["different numbers of rows", "A 3, B 2", "row of NaN"]),
        ({"A": X[:, 0]}, ["two dimensions", "reshape(-1, 1)"]),
        ({"A": 5.0}, ["two dimensions"]),
        ({"A": X[:, :0]}, ["no columns"]),
        ({"A": X[:0]}, ["no rows"]),
        ({}, ["no view"]),
        ([X], ["mapping"]),
        ({1: X}, ["1", "cannot name a view"]),
        ({"": X}, ["cannot name a view"]),
        ({"A": pd.DataFrame(X, columns=["a", "a"])}, ["'a'", "twice"]),
        ({"A": pd.DataFrame(X, columns=["a", 7])}, ["7", "not text"]),
        ({"A": pd.DataFrame(X, index=list("abc")), "B": pd.DataFrame(X, index=list("acb"))}, ["'A'", "'B'", "reindex"]),
    ],
)  # fmt: skip
def test_what_cannot_be_fitted_is_refused_by_center_view_and_remedy(views, parts):
    with pytest.raises(UserError) as refused:
        MultiView.from_mapping(views, center="nice")
    message = str(refused.value)
    assert message.startswith("center 'nice'")
    assert all(part in message for part in parts), message


def test_ids_must_fit_and_be_unique():
    with pytest.raises(UserError, match="2 labels for 3 rows"):
        MultiView.from_mapping({"A": X}, ids=["a", "b"])
    with pytest.raises(UserError, match="'a' occurs twice"):
        MultiView.from_mapping({"A": X}, ids=["a", "b", "a"])
