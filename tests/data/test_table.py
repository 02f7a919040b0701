import gzip
import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from vedute.data.stream import Cursor
from vedute.data.table import Batch, TableFile, header, prefetch, read
from vedute.errors import UserError

NUMBERS = ["age", "sbp"]
EXPECTED = np.array([[63.5, 145.0], [np.nan, -0.25], [41.0, np.nan]])


def read_all(path, numbers=NUMBERS, text=(), **how):
    """All rows of a file: ids, numbers, texts."""
    batches = list(read(TableFile(path, path.name, **how), numbers, text))
    labels = [label for batch in batches for label in batch.labels.to_pylist()]
    texts = {name: [t for batch in batches for t in batch.text[name].to_pylist()] for name in text}
    return labels, np.concatenate([batch.block for batch in batches]), texts


@pytest.mark.parametrize(
    "content",
    [
        "id,age,sbp\na,63.5,145\nb,,-.25\nc,41,\n",
        "id,age,sbp\r\na,63.5,145\r\nb,NA,-0.25\r\nc,41,NaN",
        "\ufeffid,age,sbp\na,63.5,145\nb,null,-2.5e-1\nc,+41,N/A\n",
        '"id","age","sbp"\n"a","63.5","145"\n"b","","-0.25"\n"c","41","."\n',
        "id;age;sbp\na;63,5;145\nb;;-0,25\nc;41;\n",
        "id\tage\tsbp\na\t63.5\t 145\nb\t?\t-0.25 \nc\t41\tnone\n",
        "id|age|sbp\na|63.5|145\n\nb| |-0.25\nc|41|#N/A\n",
        'id,age,sbp\na,"63,5",145\nb,,"-0,25"\nc,41,\n',
        "sbp,note,id,age\n145,x,a,63.5\n-0.25,y,b,nan\n,z,c,41\n",
        '"id","age","sbp"\na,63.5,145\nb,,-.25\nc,41,\n'.replace("\n", "\r"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("small_chunks")
def test_the_same_table_in_many_dialects(write, content):
    labels, block, _ = read_all(write("t.csv", content))
    assert labels == ["a", "b", "c"]
    np.testing.assert_array_equal(block, EXPECTED)


def test_a_declared_delimiter_may_be_any_character(write):
    labels, block, _ = read_all(write("t.txt", "id#age#sbp\na#63,5#1,145\nb##1,000\n"), delimiter="#", decimal=",")
    assert labels == ["a", "b"]
    np.testing.assert_array_equal(block, [[63.5, 1.145], [np.nan, 1.0]])


def test_quoted_headers_may_hold_delimiters_quotes_and_line_breaks(write):
    path = write("t.csv", 'id,"age, in years","the ""second""\nvalue"\na,1,2\nb,3,4\n')
    names = header(TableFile(path, "t.csv"))
    assert names == ("id", "age, in years", 'the "second"\nvalue')
    _, block, _ = read_all(path, names[1:])
    np.testing.assert_array_equal(block, [[1, 2], [3, 4]])


@pytest.mark.usefixtures("small_chunks")
def test_quoted_ids_may_hold_line_breaks_anywhere_in_the_file(write):
    names = [f"room {i}\nbed {i % 7}" for i in range(200)]
    path = write("t.csv", "id,age,sbp\n" + "".join(f'"{name}",{i},{-i}\n' for i, name in enumerate(names)))
    labels, block, _ = read_all(path)
    assert labels == names
    np.testing.assert_array_equal(block, [[i, -i] for i in range(200)])


@pytest.mark.usefixtures("small_chunks")
def test_compressed_text_is_read_and_several_gzip_members_are_one_file(write):
    path = write("t.csv.gz", gzip.compress(b"id,age,sbp\na,63.5,145\n") + gzip.compress(b"b,,-.25\nc,41,\n"))
    labels, block, _ = read_all(path)
    assert labels == ["a", "b", "c"]
    np.testing.assert_array_equal(block, EXPECTED)


def test_rows_longer_than_a_block_are_read(write):
    wide = pd.DataFrame(np.arange(60_000.0).reshape(3, 20_000), columns=[f"gene_number_{j}" for j in range(20_000)])
    wide.insert(0, "id", list("abc"))
    path = write("wide.csv", wide.to_csv(index=False))
    _, block, _ = read_all(path, list(wide.columns[1:]))
    np.testing.assert_array_equal(block, wide.iloc[:, 1:])


@pytest.mark.usefixtures("small_chunks")
def test_large_text_agrees_with_pandas(write):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(3000, 5)) * 10.0 ** rng.integers(-20, 20, (3000, 5)), columns=list("vwxyz"))
    frame = frame.mask(rng.random(frame.shape) < 0.05)
    frame.insert(2, "id", [f"subject {i}" for i in range(3000)])
    labels, block, _ = read_all(write("t.tsv", frame.to_csv(index=False, sep="\t")), list("zyv"))
    assert labels == list(frame["id"])
    np.testing.assert_array_equal(block, frame[["z", "y", "v"]])


@pytest.mark.usefixtures("small_chunks")
def test_parquet_gives_the_same_as_text(tmp_path):
    frame = pd.DataFrame(
        {
            "id": np.arange(700),
            "age": pd.array([None if i % 7 == 0 else i for i in range(700)], dtype="Int32"),
            "sbp": np.where(np.arange(700) % 5 == 0, np.nan, np.arange(700) / 3),
            "ill": np.arange(700) % 2 == 0,
            "site.name": pd.Categorical(["x" if i % 3 else "y" for i in range(700)]),
        }
    )
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    one = read_all(tmp_path / "t.parquet", NUMBERS, ["site.name"])
    two = read_all(tmp_path / "t.csv", NUMBERS, ["site.name"])
    assert one[0] == two[0] == [str(i) for i in range(700)]
    np.testing.assert_array_equal(one[1], two[1])
    assert one[2] == two[2]
    np.testing.assert_array_equal(read_all(tmp_path / "t.parquet", ["ill"])[1].ravel(), np.arange(700) % 2 == 0)


def test_parquet_ids_may_be_whole_floats_and_decimals_are_numbers(tmp_path):
    table = pa.table({"id": [1.0, 123456789.0], "age": pa.array([1, 2], pa.decimal128(5, 2)), "sbp": pa.nulls(2)})
    parquet.write_table(table, tmp_path / "t.parquet")
    labels, block, _ = read_all(tmp_path / "t.parquet")
    assert labels == ["1", "123456789"]
    np.testing.assert_array_equal(block, [[1, np.nan], [2, np.nan]])


def test_parquet_refuses_text_and_missing_ids(tmp_path):
    parquet.write_table(pa.table({"id": ["a", None], "age": [1, 2], "sbp": ["x", "y"]}), tmp_path / "t.parquet")
    with pytest.raises(UserError, match=r"t\.parquet: column 'sbp' holds string.*columns ="):
        read_all(tmp_path / "t.parquet")
    with pytest.raises(UserError, match=r"t\.parquet: row 2, column 'id': the id is empty"):
        read_all(tmp_path / "t.parquet", ["age"])


def test_parquet_refuses_infinite_numbers(tmp_path):
    parquet.write_table(pa.table({"id": ["a", "b"], "age": [1.0, np.inf]}), tmp_path / "t.parquet")
    with pytest.raises(UserError, match=r"t\.parquet: row 2, column 'age': 'inf' is infinite"):
        read_all(tmp_path / "t.parquet", ["age"])


def test_prefetch_keeps_order_and_hands_errors_over():
    def three_then_fail():
        yield from range(3)
        raise UserError("broken")

    seen = []
    with pytest.raises(UserError, match="broken"):
        seen.extend(prefetch(three_then_fail()))
    items = prefetch(three_then_fail())
    assert [next(items), next(items), next(items)] == [0, 1, 2]
    assert list(prefetch(iter(range(100)))) == list(range(100))


def test_prefetch_leaves_no_thread_behind_when_the_reader_stops_early():
    before = threading.active_count()
    items = prefetch(iter(range(1000)))
    assert next(items) == 0
    items.close()
    assert threading.active_count() == before


def test_rows_come_in_the_sizes_asked_for():
    blocks = np.split(np.arange(40.0).reshape(20, 2), [3, 4, 11])
    ids = iter(range(20))
    batches = [Batch(pa.array([str(next(ids)) for _ in block]), block) for block in blocks]
    rows = Cursor(TableFile(None, "t.csv"), iter(batches))
    taken = [rows.take(n) for n in (1, 5, 0, 14)]
    assert [label for labels, _ in taken for label in labels.to_pylist()] == [str(i) for i in range(20)]
    np.testing.assert_array_equal(np.concatenate([block for _, block in taken]), np.arange(40.0).reshape(20, 2))
    with pytest.raises(UserError, match="fewer rows"):
        rows.take(1)
