import pytest

from vedute.data.study import Study
from vedute.data.study_file import FederationSettings, PrivacySettings
from vedute.errors import UserError


def problems_of(path) -> list[str]:
    with pytest.raises(UserError) as refused:
        Study.load(path)
    return str(refused.value).split("\n")


def test_the_study_of_the_documentation(write):
    write("CLINIC.csv", "id,age,sbp,note\na,40,120,7\nb,50,,8\n")
    write("subjects.csv", "id,site,group\na,nice,x\nb,paris,y\n")
    path = write(
        "study.toml",
        """
        [study]
        name = "two hospitals"
        components = 3
        [views.CLINIC]
        columns = ["age", "sbp"]
        ranges = { age = [18, 100], sbp = [60, 260] }
        [subjects]
        file = "subjects.csv"
        id = "id"
        center = "site"
        group = "group"
        [files]
        CLINIC = "CLINIC.csv"
        [privacy]
        policy = "subject"
        epsilon = 3.0
        delta = 1e-5
        clip = 2
        [federation]
        minimum_centers = 2
        aggregation = "plain"
        timeout = 30
        heartbeat = 2.5
        rounds = 12
        scaling = "none"
        smallest_sd = 1e-3
        largest_sd = 50
        """,
    )
    study = Study.load(path)
    assert (study.name, study.components, study.centers) == ("two hospitals", 3, ("nice", "paris"))
    assert study.columns == {"CLINIC": ("age", "sbp")}
    assert study.ranges == {"CLINIC": {"age": (18.0, 100.0), "sbp": (60.0, 260.0)}}
    assert study.privacy == PrivacySettings("subject", 3.0, 1e-5, {"clip": 2})
    assert study.federation == FederationSettings(2, 30.0, 2.5, 12, 50, None, 1e-3, 50.0)
    assert study.text == path.read_text()


def test_defaults_and_ranges_from_a_file(write):
    write("a.csv", "subject;x;y\n1;0,5;2\n")
    write("ranges.csv", "column,low,high\ny,0,10\nx,-1,1\n")
    path = write("s.toml", "[study]\nid='subject'\n[views.A]\nranges='ranges.csv'\n[centers.nice.files]\nA='a.csv'\n")
    study = Study.load(path)
    assert study.name == "s"
    assert study.components is None
    assert study.privacy == PrivacySettings()
    assert study.federation == FederationSettings()
    assert study.ranges["A"] == {"x": (-1.0, 1.0), "y": (0.0, 10.0)}
    assert study.read("nice").views["A"].tolist() == [[0.5, 2.0]]


def test_dialects_are_declared_for_a_view_or_a_file(write):
    write("a.csv", "id#x\n1#1,500\n")
    write("b.txt", "id x\n1 2.5\n")
    path = write(
        "s.toml",
        "[views.A]\ndelimiter='#'\ndecimal=','\n[centers.n.files]\nA='a.csv'\n[centers.p.files]\n"
        "A={file='b.txt', delimiter=' ', decimal='.'}\n",
    )
    study = Study.load(path)
    assert study.read("n").views["A"].tolist() == [[1.5]]
    assert study.read("p").views["A"].tolist() == [[2.5]]


def test_columns_are_matched_by_name_not_by_place(write):
    write("n.csv", "id,x,y\n1,10,20\n")
    write("p.csv", "y,id,x\n20,1,10\n")
    path = write("s.toml", "[centers.n.files]\nA='n.csv'\n[centers.p.files]\nA='p.csv'\n")
    study = Study.load(path)
    assert study.read("n").views["A"].tolist() == study.read("p").views["A"].tolist() == [[10, 20]]


def test_all_problems_are_told_at_once(write):
    write("CLINIC.csv", "id,age,sbp\na,40,120\n")
    write("subjects.csv", "id,site\na,nice\n")
    path = write(
        "study.toml",
        """
        [study]
        components = 0
        nmae = "x"
        [views.CLINIC]
        columns = ["age", "sbpp"]
        ranges = { age = [100, 18], bmi = [1, 2] }
        [views.RISK]
        [views.MRI]
        decimal = "'"
        [subjects]
        file = "subjects.csv"
        center = "hospital"
        [files]
        CLINIC = "CLINIC.csv"
        RSIK = "risk.csv"
        MRI = "mri.csv"
        [privacy]
        policy = "sbuject"
        epsilon = -1
        delta = 1
        [federation]
        minimum_centers = 0
        aggregation = 5
        timeout = "long"
        """,
    )
    first, *told = problems_of(path)
    assert first == f"{path}: {len(told)} problems"
    expected = [
        "[study] components: 0",
        "[study]: unknown key 'nmae' (did you mean 'name'?)",
        "CLINIC.csv: no column 'sbpp', which study.toml has for view CLINIC (did you mean 'sbp'?)",
        "column 'age': [100, 18] is not a range",
        "view CLINIC has no column 'bmi'",
        "[files] RSIK: there is no [views.RSIK] (did you mean 'RISK'?)",
        "view RISK has no file",
        "mri.csv: there is no such file",
        "[views.MRI] decimal",
        "subjects.csv: no column 'hospital' among 'id', 'site'",
        "policy: 'sbuject' is not one of none, subject, center, paper (did you mean 'subject'?)",
        "epsilon: -1",
        "delta: 1",
        "minimum_centers: 0",
        "aggregation: 5",
        "timeout: 'long'",
    ]
    missing = [part for part in expected if not any(part in line for line in told)]
    assert not missing
    assert len(told) == len(expected)


def test_federation_settings_are_known_and_sensible(write):
    write("a.csv", "id,x\n1,1\n")
    path = write(
        "s.toml",
        """
        [views.A]
        columns = ["x"]
        [federation]
        heartbeet = 3
        heartbeat = 0
        rounds = true
        scaling = "shared-minmx"
        smallest_sd = 2
        largest_sd = 1
        aggregation = "encrypted"
        """,
    )
    with pytest.raises(UserError) as caught:
        Study.load_shared(path)
    told = str(caught.value)
    for part in (
        "[federation]: unknown key 'heartbeet' (did you mean 'heartbeat'?); known are 'minimum_centers'",
        "heartbeat: 0 is not a number above 0",
        "rounds: True is not a whole number",
        "scaling: 'shared-minmx' is not one of shared-standard",
        "smallest_sd must be below largest_sd",
        'aggregation = "encrypted" is no longer offered: sums were encrypted by one key that every center held',
    ):
        assert part in told
    assert f"{path}: 6 problems" in told


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "names no files"),
        ("[study", "not valid TOML"),
        ("a = 1", "unknown key 'a'"),
        ("study = 3", "[study] must be a table"),
        ("[views]\nA = 3\n[centers.n.files]\nA='a.csv'", "[views] A must be a table"),
        ("[centers]\nn = 3", "[centers] n must be a table"),
        ("[centers.n]", "[centers.n.files] names no file"),
        ("[centers.n.files]\nA = 7", "names no file; write"),
        ("[centers.n.files]\nA = { fiel = 'a.csv' }", "names no file; write"),
        ("[centers.n.files]\nA = { file = 'a.csv', sep = ';' }", "unknown key 'sep'"),
        ("[centers.n.files]\nA = 'a.xlsx'", "a.xlsx: cannot tell the kind of file"),
        ("[centers.n.files]\nA = { file = 'a.csv', delimiter = ';;' }", "not one character"),
        ("[subjects]\nfile='a.csv'\ncenter='x'", "[files] is missing"),
        ("[files]\nA='a.csv'", "[subjects] is missing"),
        ("[subjects]\nfile='a.csv'\n[files]\nA='a.csv'", "center is missing"),
        ("[files]\nA='a.csv'\n[centers.n.files]\nA='a.csv'", "keep one of the two forms"),
        ("[views.A]\ncolumns = 'x'\n[centers.n.files]\nA='a.csv'", "give a list of column names"),
        ("[views.A]\ncolumns = ['x', 'x']\n[centers.n.files]\nA='a.csv'", "'x' is named twice"),
        ("[views.A]\nranges = 3\n[centers.n.files]\nA='a.csv'", "ranges: write"),
        ("[views.A]\nranges = 'r.csv'\n[centers.n.files]\nA='a.csv'", "r.csv: there is no such file"),
        ("[views.A]\nranges = 'a.csv'\n[centers.n.files]\nA='a.csv'", "no id column 'column'"),
        ("[views.A]\nranges = {x = [1, inf]}\n[centers.n.files]\nA='a.csv'", "not a range"),
        ("[views.A]\nranges = {x = ['a', true]}\n[centers.n.files]\nA='a.csv'", "not a range"),
        ("[centers.n.files]\nA='a.csv'\nB='b.csv'", "b.csv: column 'y' occurs twice"),
        ("[centers.n.files]\nA='a.csv'\n[centers.p.files]\nA='c.csv'", "c.csv: column 'y' is not in a.csv"),
        ("[centers.n.files]\nA='c.csv'\n[centers.p.files]\nA='a.csv'", "a.csv: no column 'y', which c.csv has"),
        ("[centers.n.files]\nA='d.csv'", "d.csv: line 1: a column has no name"),
        ("[centers.n.files]\nA='e.csv'", "the header holds the id 'id' alone"),
        ('[centers."a/b".files]\nA=\'a.csv\'', "'a/b' contains '/'"),
        ('[centers."..".files]\nA=\'a.csv\'', "begins or ends with a dot"),
        (f"[centers.{'x' * 300}.files]\nA='a.csv'", "is longer than 100 characters"),
        ('[views."A/B"]\n[centers.n.files]\n"A/B"=\'a.csv\'', "the view name 'A/B' contains '/'"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_study_file_is_named(write, text, part):
    write("a.csv", "id,x\n1,2\n")
    write("b.csv", "id,y,y\n1,2,3\n")
    write("c.csv", "id,x,y\n1,2,3\n")
    write("d.csv", "id,,x\n1,2,3\n")
    write("e.csv", "id\n1\n")
    told = problems_of(write("s.toml", text))
    assert any(part in line for line in told), told


def test_a_center_may_have_an_arabic_name_also_in_a_table(write):
    write("a.csv", "id,x\n1,2\n2,3\n")
    write("who.csv", "id,site\n1,مستشفى\n2,パリ\n")
    path = write("s.toml", '[centers."القاهرة".files]\nA="a.csv"\n')
    assert Study.load(path).centers == ("القاهرة",)
    path = write("t.toml", "[subjects]\nfile='who.csv'\ncenter='site'\n[files]\nA='a.csv'\n")
    assert Study.load(path).centers == ("مستشفى", "パリ")


@pytest.mark.parametrize("name", ["a/b", "..", "x" * 300, "NUL"])
def test_unsafe_names_in_the_table_of_subjects_are_refused(write, name):
    write("a.csv", "id,x\n1,2\n")
    write("who.csv", f"id,site\n1,{name}\n")
    told = problems_of(write("t.toml", "[subjects]\nfile='who.csv'\ncenter='site'\n[files]\nA='a.csv'\n"))
    assert "who.csv: column 'site': the center name" in told[0]


def test_a_node_adds_its_files_to_the_shared_study(write):
    write("home/a.csv", "patient,x,y,extra\n1,2,3,4\n")
    shared = write(
        "study.toml",
        "[study]\nname='s'\n[views.A]\ncolumns=['y','x']\n[views.B]\ncolumns=['z']\n[privacy]\nepsilon=5.0\n",
    )
    node = write(
        "home/node.toml", "center='nice'\nid='patient'\n[files]\nA='a.csv'\n[privacy]\npolicy='subject'\nepsilon=1.0\n"
    )
    study = Study.load_node(shared, node)
    assert study.centers == ("nice",)
    assert study.columns == {"A": ("y", "x"), "B": ("z",)}
    assert study.read("nice").views["A"].tolist() == [[3, 2]]
    assert study.privacy == PrivacySettings("subject", 1.0)
    assert Study.load_shared(shared).centers == ()
    assert Study.load_shared(shared).privacy.epsilon == 5.0
    with pytest.raises(UserError) as refused:
        Study.load_node(shared, write("home/bad.toml", "[files]\nC='a.csv'\n[privacy]\nepsilon='x'\n"))
    told = str(refused.value)
    assert "bad.toml: center is missing" in told
    assert "bad.toml: [files] C: there is no [views.C]" in told
    assert "bad.toml: [files] names no file" in told
    assert "bad.toml: [privacy] epsilon: 'x' is not a number above 0" in told
    with pytest.raises(UserError, match="names no columns"):
        Study.load_shared(write("open.toml", "[views.A]\n"))


def test_paths_that_are_no_study_file(tmp_path):
    for path, part in ((tmp_path / "none.toml", "no such file"), (tmp_path, "is a directory")):
        assert part in problems_of(path)[0]
    (tmp_path / "latin.toml").write_bytes(b"[study]\nname = '\xe9'\n")
    assert "UTF-8" in problems_of(tmp_path / "latin.toml")[0]
