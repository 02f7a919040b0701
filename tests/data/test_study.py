import shutil

import numpy as np
import pandas as pd
import pytest

from vedute.data import csv_reader
from vedute.data.identity import RowIdentity
from vedute.data.rows import Nothing
from vedute.data.study import Study
from vedute.errors import UserError
from vedute.model.parameters import Layout
from vedute.model.statistics import Accumulator, from_rows


def digest_of(study: Study, center: str) -> str:
    return study.fold(lambda _: Nothing())[center].digest


def expected_center(hospitals, center) -> dict[str, pd.DataFrame]:
    """What a center must hold, by pandas: the subjects of the center who have a row in some view."""
    ids = set(hospitals.subjects.loc[hospitals.subjects["site"] == center, "id"])
    return {name: table[table["id"].isin(ids)].set_index("id") for name, table in hospitals.views.items()}


def assert_same_rows(center, expected):
    assert set(center.ids) == set().union(*(table.index for table in expected.values()))
    assert len(set(center.ids)) == len(center)
    for name, table in expected.items():
        if table.empty:
            assert name not in center.views
        else:
            np.testing.assert_array_equal(center.views[name], table.reindex(center.ids))


@pytest.mark.usefixtures("small_chunks")
def test_pooled_files_are_dealt_to_their_centers(hospitals):
    study = Study.load(hospitals.toml)
    assert study.name == "four hospitals"
    assert study.components == 2
    assert study.centers == ("bern", "nice", "paris", "zürich")
    groups = hospitals.subjects.set_index("id")["group"]
    for center in study.centers:
        rows = study.read(center)
        assert_same_rows(rows, expected_center(hospitals, center))
        assert list(rows.groups) == list(groups.loc[rows.ids])


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("form", ["csv", "parquet", "mixed"])
def test_files_per_center_give_the_same_rows_and_the_same_identity(hospitals, form):
    pooled = Study.load(hospitals.toml)
    text = ""
    for number, center in enumerate(pooled.centers):
        text += f'[centers."{center}".files]\n'
        for name, table in expected_center(hospitals, center).items():
            if table.empty:
                continue
            suffix = form if form != "mixed" else ("csv" if number % 2 else "parquet")
            file = hospitals.folder / f"{center}-{name}.{suffix}"
            table = table.sample(frac=1, random_state=number).reset_index()
            table.to_csv(file, index=False, sep=";", decimal=",") if suffix == "csv" else table.to_parquet(file)
            text += f"{name} = '{file.name}'\n"
    path = hospitals.folder / "centers.toml"
    path.write_text("[views.CLINIC]\n[views.RISK]\n[views.IMAGING]\n" + text, encoding="utf-8")
    study = Study.load(path)
    assert study.centers == pooled.centers
    for center in study.centers:
        assert_same_rows(study.read(center), expected_center(hospitals, center))
        assert digest_of(study, center) == digest_of(pooled, center)


@pytest.mark.usefixtures("small_chunks")
def test_a_fold_equals_the_statistics_of_all_rows_and_reads_each_file_once(hospitals, monkeypatch):
    study = Study.load(hospitals.toml)
    scans = []
    real = csv_reader.read
    monkeypatch.setattr(csv_reader, "read", lambda t, n, x: (scans.append(t.label) if n else None, real(t, n, x))[1])
    layout = Layout(tuple(study.columns), tuple(map(len, study.columns.values())))
    folded = study.fold(lambda center: Accumulator(layout))
    assert sorted(scans) == ["CLINIC.csv", "IMAGING.csv", "RISK.csv"]
    for center in study.centers:
        rows = study.read(center)
        whole = from_rows(layout, rows.views)
        parts = folded[center].result.finish()
        assert folded[center].subjects == len(rows)
        assert folded[center].digest == digest_of(study, center)
        np.testing.assert_array_equal(parts.mask, whole.mask)
        np.testing.assert_array_equal(parts.n, whole.n)
        np.testing.assert_allclose(parts.mean, whole.mean, rtol=1e-12)
        scatter = [s.factor.T @ s.factor for s in (parts, whole)]
        np.testing.assert_allclose(*scatter, rtol=1e-10, atol=1e-9)


def test_the_table_of_subjects_may_hold_a_view_itself(write):
    write("all.csv", "id,site,x,group,y\na,n,1,g,2\nb,p,3,h,4\nc,n,5,g,6\n")
    path = write("s.toml", "[subjects]\nfile='all.csv'\ncenter='site'\ngroup='group'\n[files]\nA='all.csv'\n")
    study = Study.load(path)
    assert study.columns == {"A": ("x", "y")}
    np.testing.assert_array_equal(study.read("n").views["A"], [[1, 2], [5, 6]])


def test_a_center_may_have_its_own_table_of_subjects(write):
    write("a.csv", "id,x\n1,5\n2,6\n")
    write("who.csv", "code,arm\n2,old\n1,new\n3,new\n")
    path = write(
        "s.toml",
        "[centers.nice.files]\nA='a.csv'\n[centers.nice.subjects]\nfile='who.csv'\nid='code'\ngroup='arm'\n",
    )
    rows = Study.load(path).read("nice")
    assert list(rows.ids) == ["1", "2"]
    assert list(rows.groups) == ["new", "old"]


def test_the_identity_of_rows_notices_any_change_and_no_reordering():
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 2**63, 50).astype(np.uint64)
    views = {"A": rng.normal(size=(50, 3)), "B": rng.normal(size=(50, 2))}
    views["A"][3, 1] = np.nan

    def digest(keys, views, columns=None):
        whole = RowIdentity(columns or {"A": ("x", "y", "z"), "B": ("u", "v")})
        whole.add(views, keys)
        return whole.digest()

    reference = digest(keys, views)
    order = rng.permutation(50)
    assert digest(keys[order], {n: v[order] for n, v in views.items()}) == reference
    halves = RowIdentity({"A": ("x", "y", "z"), "B": ("u", "v")})
    for rows in (slice(0, 20), slice(20, 50)):
        halves.add({n: v[rows] for n, v in views.items()}, keys[rows])
    assert halves.digest() == reference
    only_a = digest(keys, {"A": views["A"]})
    assert digest(keys, {"A": views["A"], "B": np.full((50, 2), np.nan)}) == only_a
    swapped = {n: v.copy() for n, v in views.items()}
    swapped["A"][[0, 1]] = swapped["A"][[1, 0]]
    nudged = {n: v.copy() for n, v in views.items()}
    nudged["B"][7, 1] = np.nextafter(nudged["B"][7, 1], np.inf)
    filled = {n: v.copy() for n, v in views.items()}
    filled["A"][3, 1] = 0.0
    fewer = digest(keys[1:], {n: v[1:] for n, v in views.items()})
    renamed = digest(keys, views, {"A": ("y", "x", "z"), "B": ("u", "v")})
    others = [digest(keys, swapped), digest(keys, nudged), digest(keys, filled), only_a, fewer, renamed]
    assert len({reference, *others}) == 7


def test_chunks_can_be_left_early_and_carry_ids(hospitals):
    study = Study.load(hospitals.toml)
    chunks = study.chunks("nice")
    chunk = next(chunks)
    assert chunk.center == "nice"
    assert all(label.startswith("n-") for label in chunk.ids)
    chunks.close()
    with pytest.raises(UserError, match=r"no center 'nise' \(did you mean 'nice'\?\)"):
        next(study.chunks("nise"))


def test_check_counts_subjects_cells_and_values(hospitals):
    report = Study.load(hospitals.toml).check()
    assert report.ok
    assert report.problems == ()
    by_name = {center.name: center for center in report.centers}
    for name, center in by_name.items():
        expected = expected_center(hospitals, name)
        assert center.listed == 15
        assert set(center.views) == {view for view, table in expected.items() if len(table)}
        for view, part in center.views.items():
            table = expected[view]
            assert part.subjects == table.notna().any(axis=1).sum()
            np.testing.assert_array_equal(part.observed, table.notna().sum())
            np.testing.assert_array_equal(part.low, table.min())
            np.testing.assert_array_equal(part.high, table.max())
            assert part.missing == pytest.approx(1 - table.notna().sum().sum() / (part.subjects * table.shape[1]))
    assert report.subjects == len(set().union(*(table["id"] for table in hospitals.views.values())))


def test_check_lists_the_faults_of_all_files_at_once(hospitals):
    for name in ("CLINIC", "RISK"):
        file = hospitals.folder / f"{name}.csv"
        lines = file.read_text(encoding="utf-8").splitlines()
        lines[4] = ",".join([lines[4].split(",")[0], *["12 kg"] * (lines[4].count(","))])
        file.write_text("\n".join(lines), encoding="utf-8")
    report = Study.load(hospitals.toml).check()
    assert not report.ok
    told = "\n".join(report.problems)
    assert "CLINIC.csv: line 5, column 'clinic0': '12 kg'" in told
    assert "RISK.csv: line 5, column 'risk2': '12 kg'" in told


def test_check_counts_values_outside_their_ranges_and_a_fold_refuses_them(hospitals):
    text = hospitals.toml.read_text(encoding="utf-8")
    high = float(hospitals.views["IMAGING"]["imaging1"].max())
    hospitals.toml.write_text(
        text.replace("[views.IMAGING]", f"[views.IMAGING]\nranges = {{ imaging1 = [-1000, {high - 0.001}] }}"),
        encoding="utf-8",
    )
    study = Study.load(hospitals.toml)
    assert study.ranges == {"IMAGING": {"imaging1": (-1000.0, high - 0.001)}}
    np.testing.assert_array_equal(study.views["IMAGING"].bounds, [[-np.inf, np.inf], [-1000, high - 0.001]])
    problems = study.check().problems
    assert len(problems) == 1
    assert "center 'nice', view IMAGING, column 'imaging1': 1 values outside" in problems[0]
    row = int(hospitals.views["IMAGING"]["imaging1"].argmax())
    with pytest.raises(UserError, match=rf"IMAGING\.csv: line {row + 2}, column 'imaging1': .* outside .* widen"):
        study.fold(lambda center: Accumulator(Layout(("CLINIC", "RISK", "IMAGING"), (4, 3, 2))))
    kept = study.fold(
        lambda center: Accumulator(Layout(("CLINIC", "RISK", "IMAGING"), (4, 3, 2))), enforce_ranges=False
    )
    assert kept["nice"].subjects > 0


def test_a_center_without_rows_is_a_problem(hospitals):
    subjects = hospitals.folder / "subjects.csv"
    subjects.write_text(subjects.read_text(encoding="utf-8") + "x-99,yes,lyon\n", encoding="utf-8")
    study = Study.load(hospitals.toml)
    assert any("center 'lyon' has no data" in problem for problem in study.check().problems)
    with pytest.raises(UserError, match="center 'lyon' has no rows"):
        study.fold(lambda center: Accumulator(Layout(("CLINIC", "RISK", "IMAGING"), (4, 3, 2))))


def test_a_copy_of_the_folder_has_the_same_identity(hospitals, tmp_path_factory):
    other = tmp_path_factory.mktemp("copy") / "study"
    shutil.copytree(hospitals.folder, other)
    assert digest_of(Study.load(other / "study.toml"), "bern") == digest_of(Study.load(hospitals.toml), "bern")
