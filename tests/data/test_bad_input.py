"""The list of things that go wrong with exported files: each gives one message with file, place and remedy."""

import gzip
import io
import os

import numpy as np
import pandas as pd
import pytest

from vedute.data import table
from vedute.data.study import Study
from vedute.errors import UserError

GOOD = "id,age,sbp\na,40,120\nb,50,130.5\nc,60,\n"
SUBJECTS = "id,site\na,nice\nb,paris\nc,nice\n"
POOLED = "[subjects]\nfile='subjects.csv'\ncenter='site'\n[files]\nA='a.csv'\n"
TWO_VIEWS = POOLED + "B='b.csv'\n"


class Ignore:
    def add(self, views):
        pass


def fold(path):
    return Study.load(path).fold(lambda center: Ignore())


def refused(path) -> str:
    with pytest.raises(UserError) as error:
        fold(path)
    return str(error.value)


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("id;age;sbp\na;40;120\n", ["a.csv: line 1: no id column 'id' among 'id;age;sbp'", "separated by ';'"]),
        ("id,age,sbp\na,40,120,7\nb,50,1\nc,6\n", ["line 2: 4 cells where the header has 3", "line 4: 2 cells"]),
        ("id,age,sbp\na,40,120\nb,50", ["line 3: 2 cells", "export the file again"]),
        ('id,age,sbp\na,40.5,120\nb,"1,5",1\n', ["line 3, column 'age': '1,5' has a decimal comma", 'decimal = ","']),
        ("id,age,sbp\na,40.5,12 kg\nb,50,130\n", ["line 2, column 'sbp': '12 kg'", "'kg'", "keep the number alone"]),
        ("id,age,sbp\na,old,120\nb,50,130\n", ["line 2, column 'age': 'old' is not a number", "columns = [...]"]),
        ("id,age,sbp\na,40,120\nb,inf,130\n", ["line 3, column 'age': 'inf' is infinite"]),
        ("id,age,sbp\na,40,120\nb,1e999,130\n", ["line 3, column 'age': 'inf' is infinite"]),
        ("id,age,sbp\na,40,120\na,50,130\n", ["column 'id': ids occur more than once: 'a' (lines 2 and 3)"]),
        ("id,age,sbp\na,40,120\n,50,130\n", ["line 3, column 'id': the id is empty"]),
        ("id,age,sbp\na,40,120\nz,50,130\ny,1,2\n", ["subjects.csv does not list: 'z' (line 3), 'y' (line 4)"]),
        ("", ["a.csv: the file is empty"]),
        ("\n \n", ["a.csv: the file holds no rows"]),
        (b"\xff\xfei\x00d\x00,\x00x\x00\n\x00", ["UTF-16", "save the file again in UTF-8"]),
        (b"id,age,sbp\n\xe9,40,120\n", ["line 2 is not UTF-8"]),
        (b"PK\x03\x04rubbish", ["workbook", "export the sheet as CSV"]),
        (b"PAR1rubbish", ["suffix .parquet"]),
        (b"\x1f\x8brubbish", ["cannot be read", "copy it again"]),
        (gzip.compress(GOOD.encode() * 9, mtime=0)[:-20], ["truncated", "copy it again"]),
        ('id,age,sbp\na,40,120\n"b,50,130\nc,60,1\n', ["line 3: 1 cells", "quotation marks"]),
        ("id,age,age\na,40,120\n", ["column 'age' occurs twice"]),
        ("age,sbp\n40,120\n", ["no id column 'id' among 'age', 'sbp'", "correct id ="]),
        ("id,age,sbp\n", ["center 'nice' has no rows"]),
    ],
)  # fmt: skip
def test_a_bad_table_is_refused_with_place_and_remedy(write, content, parts):
    write("subjects.csv", SUBJECTS)
    write("a.csv", content)
    declared = isinstance(content, str) and content.startswith("id;")
    form = POOLED.replace("A='a.csv'", "A={file='a.csv', delimiter=','}") if declared else POOLED
    message = refused(write("s.toml", form))
    assert all(part in message for part in parts), message
    assert "a.csv" in message or "center 'nice'" in message


def test_a_bad_cell_far_down_a_semicolon_file_is_found(write):
    rows = "".join(f"s{i};{i};{i}\n" for i in range(60_000))
    write("a.csv", "id;age;sbp\n" + rows + "last;1,5;2\n")
    message = refused(write("s.toml", "[centers.nice.files]\nA='a.csv'\n"))
    assert "a.csv: line 60002, column 'age': '1,5' has a decimal comma in a file with '.'" in message


def test_a_bad_cell_late_in_a_compressed_file_is_found(write):
    rows = "".join(f"s{i},{i},{i}\n" for i in range(60_000))
    write("a.csv.gz", gzip.compress(f"id,age,sbp\n{rows}last,x,2\n".encode()))
    message = refused(write("s.toml", "[centers.nice.files]\nA='a.csv.gz'\n"))
    assert "a.csv.gz: line 60002, column 'age': 'x' is not a number" in message
    whole = gzip.compress(f"id,age,sbp\n{rows}".encode())
    write("a.csv.gz", whole[: len(whole) // 2])
    message = refused(write("s.toml", "[centers.nice.files]\nA='a.csv.gz'\n"))
    assert "a.csv.gz: the compressed file is damaged or truncated" in message


def test_a_text_that_is_not_utf8_far_down_is_found(write):
    rows = "".join(f"s{i},{i},{i}\n" for i in range(60_000)).encode()
    write("a.csv", b"id,age,sbp\n" + rows + b"\xe9,1,2\n")
    message = refused(write("s.toml", "[centers.nice.files]\nA='a.csv'\n"))
    assert "a.csv: line 60002, column 'id': not UTF-8 text" in message


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize(
    ("row", "part"), [(",1,2\n", "'id': the id is empty"), ("x,1,-inf\n", "'sbp': '-inf' is infinite")]
)
def test_the_line_is_right_also_in_a_later_chunk_and_behind_empty_lines(write, row, part):
    rows = "".join(f"s{i},{i},{i}\n" for i in range(100))
    write("a.csv", "id,age,sbp\n" + rows + "\n\n" + row)
    assert f"a.csv: line 104, column {part}" in refused(write("s.toml", "[centers.nice.files]\nA='a.csv'\n"))


def test_a_missing_file_and_a_directory(write, tmp_path):
    write("subjects.csv", SUBJECTS)
    (tmp_path / "b.csv").mkdir()
    message = refused(write("s.toml", TWO_VIEWS))
    assert "a.csv: there is no such file" in message
    assert "b.csv: is a directory; name the file inside it" in message


def test_a_file_without_permission(write, monkeypatch):
    write("subjects.csv", SUBJECTS)
    path = write("a.csv", GOOD)
    real = table.Path.open

    def forbidden(self, *args, **kwargs):  # permissions do not bind the super-user, under whom tests may run
        if self == path:
            raise PermissionError(13, "Permission denied")
        return real(self, *args, **kwargs)

    monkeypatch.setattr(table.Path, "open", forbidden)
    assert "a.csv: no permission to read the file; ask for read access" in refused(write("s.toml", POOLED))


def test_something_that_is_no_regular_file(write, tmp_path):
    write("subjects.csv", SUBJECTS)
    os.mkfifo(tmp_path / "a.csv")
    assert "a.csv: is not a regular file" in refused(write("s.toml", POOLED))


def test_an_id_that_only_one_of_several_views_knows(write):
    write("subjects.csv", SUBJECTS)
    write("a.csv", GOOD)
    write("b.csv", "id,x\nc,1\nq,2\n")
    assert "b.csv: column 'id': ids that subjects.csv does not list: 'q' (line 3)" in refused(
        write("s.toml", TWO_VIEWS)
    )


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("id,site\na,nice\nb,\nc,nice\n", "subjects.csv: line 3, column 'site': the subject has no center"),
        ("id,site\na,\nb,nice\nc,nice\n", "subjects.csv: line 2, column 'site': the subject has no center"),
        ("id,site\na,nice\na,nice\n", "subjects.csv: column 'id': ids occur more than once: 'a' (lines 2 and 3)"),
        ("id,site\n", "subjects.csv: lists no subject"),
        ("id,site\na,nice,x\n", "subjects.csv: line 2: 3 cells where the header has 2"),
    ],
)
def test_a_bad_table_of_subjects(write, content, part):
    write("subjects.csv", content)
    write("a.csv", GOOD)
    assert part in refused(write("s.toml", POOLED))


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("change", ["append", "truncate", "replace", "remove"])
@pytest.mark.parametrize("views", [1, 2])
def test_a_file_that_changes_while_it_is_read(write, change, views):
    rows = "".join(f"s{i},{i},{i}\n" for i in range(5000))
    path = write("a.csv", "id,age,sbp\n" + rows)
    write("b.csv", "id,x\ns7,1\n")
    form = "[centers.nice.files]\nA='a.csv'\n" + ("B='b.csv'\n" if views == 2 else "")
    chunks = Study.load(write("s.toml", form)).chunks("nice")
    assert len(next(chunks)) > 0
    if change == "append":
        with path.open("a") as file:
            file.write("late,1,2\n")
    elif change == "truncate":
        os.truncate(path, 30_000)
    elif change == "replace":
        write("new.csv", "id,age,sbp\n" + rows)
        os.replace(path.parent / "new.csv", path)
    else:
        path.unlink()
    with pytest.raises(UserError, match=r"a\.csv: the file changed while it was read; wait .* or work on a copy"):
        list(chunks)


def test_a_table_of_subjects_that_changed_since_the_study_was_loaded(write):
    write("a.csv", GOOD)
    path = write("subjects.csv", SUBJECTS)
    study = Study.load(write("s.toml", POOLED))
    path.write_text(SUBJECTS + "d,paris\n")
    with pytest.raises(UserError, match=r"subjects\.csv: the file changed"):
        study.fold(lambda center: Ignore())


def test_a_truncated_parquet_file(write, tmp_path):
    frame = pd.DataFrame({"id": [f"s{i}" for i in range(50_000)], "x": np.random.default_rng(0).normal(size=50_000)})
    buffer = io.BytesIO()
    frame.to_parquet(buffer)
    write("a.parquet", buffer.getvalue()[:-100])
    assert "a.parquet: not a Parquet file, or truncated" in refused(
        write("s.toml", "[centers.n.files]\nA='a.parquet'\n")
    )
    damaged = bytearray(buffer.getvalue())
    damaged[4000:9000] = bytes(5000)
    write("a.parquet", bytes(damaged))
    assert "a.parquet: damaged" in refused(write("s.toml", "[centers.n.files]\nA='a.parquet'\n"))


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("id;x\na;1,234\nb;2,500\n", "cannot tell whether '1,234' has a decimal comma or separates thousands"),
        ("id;a,id\n1;2,3\n", "cannot tell which of"),
    ],
)
def test_what_cannot_be_guessed_safely_must_be_declared(write, content, part):
    write("a.csv", content)
    message = refused(write("s.toml", "[centers.n.files]\nA='a.csv'\n"))
    assert part in message
    assert "declare" in message


def test_many_faults_are_told_by_their_first_few(write):
    write("a.csv", "id,x\n" + "".join(f"s{i},bad\n" for i in range(1000)))
    message = refused(write("s.toml", "[centers.n.files]\nA='a.csv'\n"))
    assert message.count("'bad' is not a number") == 5
    assert "line 6, column 'x'" in message
