"""Whatever bytes stand in a study file or a table: only UserError may come out."""

import io
import json
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from vedute.data.study import Study
from vedute.data.table import TableFile, header, read
from vedute.errors import UserError

VALID = """
[study]
name = "fuzz"
components = 2
[views.A]
columns = ["x", "y"]
ranges = { x = [0, 10] }
delimiter = ","
[subjects]
file = "who.csv"
id = "id"
center = "site"
group = "kind"
[files]
A = "a.csv"
[privacy]
policy = "subject"
epsilon = 3.0
[federation]
timeout = 60
"""
KEYS = [
    "study", "name", "components", "id", "views", "A", "columns", "ranges", "x", "delimiter", "decimal", "subjects",
    "file", "center", "group", "files", "centers", "nice", "privacy", "policy", "epsilon", "federation", "timeout",
]  # fmt: skip
SCALARS = st.one_of(
    st.integers(-3, 2**70),
    st.floats(),
    st.booleans(),
    st.text(max_size=5),
    st.sampled_from(
        ["a.csv", "who.csv", "id", "x", "site", "", ".", "..", "/", "\0.csv", "a.parquet", "a.h5mu", "x" * 300]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=8,
)


class Ignore:
    def add(self, views):
        pass


def toml(value) -> str:
    """A value in TOML: inline tables all the way."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, str) else repr(value)


def try_study(text: str | bytes) -> bool:
    """Load, check and fold a study; whether it was accepted."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "a.csv").write_text("id,x,y\n1,2,3\n2,4,\n")
        (home / "who.csv").write_text("id,site,kind\n2,nice,g\n1,paris,h\n")
        (home / "s.toml").write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
        try:
            study = Study.load(home / "s.toml")
            study.check()
            study.fold(lambda center: Ignore())
        except UserError:
            return False
        return True


def test_the_study_that_is_varied_below_is_valid():
    assert try_study(VALID)


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")))
@settings(max_examples=150)
def test_any_bytes_as_study_file(content):
    assert try_study(content) in (True, False)


@given(st.data())
@settings(max_examples=250)
def test_a_valid_study_file_with_a_piece_replaced(data):
    start = data.draw(st.integers(0, len(VALID)))
    length = data.draw(st.integers(0, 25))
    piece = data.draw(st.text(alphabet='abx"=[]{}.,\n#1-/é', max_size=8))
    assert try_study(VALID[:start] + piece + VALID[start + length :]) in (True, False)


@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6))
@settings(max_examples=250)
def test_a_study_file_with_values_of_any_type_in_any_place(content):
    assert try_study("\n".join(f"{key} = {toml(value)}" for key, value in content.items())) in (True, False)


def try_table(content: bytes, name: str, **how) -> bool:
    """Read a table; what is accepted must be a table of numbers."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        table = TableFile(path, name, **how)
        try:
            columns = [column for column in header(table) if column != "id"]
            for batch in read(table, columns):
                assert batch.block.shape == (len(batch.labels), len(columns))
                assert not np.isinf(batch.block).any()
                assert all(batch.labels.to_pylist())
        except UserError:
            return False
        return True


CELLS = st.text(alphabet=',;\t|"\n\r 0123456789.eE-+aNinf\0é\ufeff', max_size=40)


@given(st.sampled_from(["", "id,x\n", "id;x;y\n", '"id"\t"x"\n', "id,x\n1,2\n"]), CELLS)
@settings(max_examples=400)
def test_any_text_as_table(start, rest):
    assert try_table((start + rest).encode(), "t.csv") in (True, False)


@given(CELLS, st.characters(max_codepoint=127, exclude_characters='"\r\n\0'), st.sampled_from([".", ","]))
@settings(max_examples=200)
def test_any_text_under_any_declared_dialect(rest, delimiter, decimal):
    content = f"id{delimiter}x\n{rest}".encode()
    assert try_table(content, "t.csv", delimiter=delimiter, decimal=decimal) in (True, False)


@given(st.binary(max_size=80), st.sampled_from(["t.csv", "t.csv.gz", "t.parquet"]))
@settings(max_examples=200)
def test_any_bytes_as_table(content, name):
    assert try_table(content, name) in (True, False)


def small_parquet() -> bytes:
    buffer = io.BytesIO()
    parquet.write_table(pa.table({"id": list("abc"), "x": [1.0, None, 3.0]}), buffer)
    return buffer.getvalue()


PARQUET = small_parquet()


@given(st.integers(0, len(PARQUET) - 1), st.binary(min_size=1, max_size=4))
@settings(max_examples=1500)
def test_a_parquet_file_with_some_bytes_replaced(start, piece):
    assert try_table(PARQUET[:start] + piece + PARQUET[start + len(piece) :], "t.parquet") in (True, False)
