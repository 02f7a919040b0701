"""Kits: what is in them, what makes one unusable, and that a failure leaves nothing behind."""

from __future__ import annotations

import json
import re
import shutil
import socket
import stat
import tomllib
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path

import pytest

from flare_lab import STUDY, lab_kits
from vedute.data.files import sha256
from vedute.data.study import Study
from vedute.errors import UserError
from vedute.federation.nvflare import kits as kits_module
from vedute.federation.nvflare.authority import Authority
from vedute.federation.nvflare.kits import add_kit, check_port, held, make_kits, open_kit
from vedute.federation.nvflare.processes import unit
from vedute.federation.shared_study import shared_text


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return lab_kits(tmp_path_factory.mktemp("made"))


@pytest.fixture
def fresh(made: dict[str, Path], tmp_path: Path) -> dict[str, Path]:
    """Kits that a test may spoil."""
    shutil.copytree(made["nice"].parent.parent, tmp_path, dirs_exist_ok=True)
    return {name: tmp_path / "kits" / name for name in made}


def study_of(folder: Path, text: str = STUDY) -> Study:
    (folder / "study.toml").write_text(text)
    return Study.load_shared(folder / "study.toml")


def test_each_has_a_kit_that_only_its_owner_reads(made):
    assert set(made) == {"server", "lead", "nice", "paris"}
    for name, path in made.items():
        role = name if name in ("server", "lead") else "center"
        kit = open_kit(path, role, path.parent.parent / "study.toml")
        assert kit.file.centers == ("nice", "paris")
        assert Study.load_shared(kit.study).federation.heartbeat == 8
        for found in [path, *path.rglob("*")]:
            if found.is_dir() or found.suffix == ".key":
                assert stat.S_IMODE(found.stat().st_mode) & 0o077 == 0, found
        assert not [found.name for found in path.rglob("*") if found.suffix in (".default", ".sample", ".sh")]
    authority = made["server"].parent / "authority"
    assert stat.S_IMODE(authority.stat().st_mode) == 0o700
    assert stat.S_IMODE((authority / "authority.key").stat().st_mode) == 0o600
    root = (authority / "authority.key").read_bytes()
    assert not [
        found for path in made.values() for found in path.rglob("*") if found.is_file() and root in found.read_bytes()
    ]


def test_the_shared_study_names_no_files_and_needs_none(tmp_path):
    (tmp_path / "ranges.csv").write_text("column,low,high\nage,18,100\nsbp,60,260.5\n")
    text = (
        '[study]\nname = "a \\"b\\" \\u007f é"\n[views."VIEW A"]\ncolumns=["age","sbp"]\nranges="ranges.csv"\n'
        'decimal=","\n'
        '[centers.nice.files]\n"VIEW A" = "/secret/place.csv"\n[privacy]\npolicy="center"\nepsilon=3\ndelta=1e-6\n'
        "scales={mu=1.0}\n"
    )
    (tmp_path / "study.toml").write_text(text)
    shared = shared_text(tmp_path / "study.toml")
    assert "secret" not in shared
    expected = tomllib.loads(text)
    del expected["centers"]
    expected["views"]["VIEW A"]["ranges"] = {"age": [18, 100], "sbp": [60, 260.5]}
    assert tomllib.loads(shared) == expected
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/study.toml").write_text(shared)
    assert shared_text(tmp_path / "elsewhere/study.toml") == shared


def test_nothing_is_left_half_made(tmp_path, monkeypatch):
    def fail(self, name, **options):
        if name == "paris":
            raise OSError("disk full")
        return issue(self, name, **options)

    issue = Authority.issue
    monkeypatch.setattr(Authority, "issue", fail)
    with pytest.raises(OSError, match="disk full"):
        lab_kits(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["study.toml"]


@pytest.mark.parametrize(
    ("centers", "server", "options", "said"),
    [
        (["nice", "zürich"], "localhost", {}, "'zürich' cannot travel between machines; use at most 60 of the letters"),
        (["nice", "são paulo"], "localhost", {}, "'são paulo' cannot travel"),
        (["nice", "x" * 61], "localhost", {}, "cannot travel"),
        (["nice", "../paris"], "localhost", {}, "'../paris' cannot travel"),
        (["nice", "Lead"], "localhost", {}, "a center cannot be called 'Lead'"),
        (["nice", "NICE"], "localhost", {}, "'nice' is named twice"),
        ([], "localhost", {}, "0 centers, but [federation] minimum_centers = 1"),
        (["nice"], "http://fl.example.org", {}, "is not the name or address of a server"),
        (["nice"], "fl.example.org:8002", {}, "is not the name or address of a server"),
        (["nice"], "localhost", {"port": 0}, "the port 0 is not between 1 and 65535"),
        (["nice"], "localhost", {"days": 0}, "cannot be valid for 0 days"),
    ],
)
def test_names_that_cannot_be(tmp_path, centers, server, options, said):
    with pytest.raises(UserError) as caught:
        make_kits(study_of(tmp_path), centers, server, out=tmp_path / "kits", **{"port": 8002, "days": 2, **options})
    assert said in str(caught.value)
    assert not (tmp_path / "kits").exists()


def test_kits_are_not_overwritten(fresh):
    before = (fresh["nice"] / "startup/client.key").read_bytes()
    with pytest.raises(UserError, match="exists already; choose another folder, or add one center to it with --add"):
        lab_kits(fresh["nice"].parent.parent)
    assert (fresh["nice"] / "startup/client.key").read_bytes() == before


def test_a_center_can_be_added(fresh):
    out = fresh["nice"].parent
    study = Study.load_shared(out.parent / "study.toml")
    kit = open_kit(add_kit(study, "lyon", out), "center")
    assert (kit.file.name, kit.file.centers) == ("lyon", ("nice", "paris", "lyon"))
    assert kit.ends == open_kit(fresh["nice"], "center").ends
    assert open_kit(fresh["lead"], "lead").file.centers == ("nice", "paris", "lyon")
    root = [(path / "startup/rootCA.pem").read_bytes() for path in (kit.path, fresh["server"])]
    assert root[0] == root[1]
    with pytest.raises(UserError, match="'nice' is named twice"):
        add_kit(study, "nice", out)
    other = study_of(out.parent, STUDY.replace("timeout = 20", "timeout = 21"))
    with pytest.raises(UserError, match="for another study"):
        add_kit(other, "rome", out)
    assert not [path.name for path in out.iterdir() if path.name.startswith(".")]


def test_without_the_extra_the_remedy_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(kits_module, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r'pip install "vedute\[nvflare\]"'):
        lab_kits(tmp_path)


def spoil_missing(kit: Path) -> None:
    (kit / "startup/rootCA.pem").unlink()


def spoil_json(kit: Path) -> None:
    (kit / "kit.json").write_text("{")


def spoil_version(kit: Path, version: int = 9) -> None:
    told = json.loads((kit / "kit.json").read_text())
    (kit / "kit.json").write_text(json.dumps({**told, "vedute": version}))


def spoil_role(kit: Path) -> None:
    told = json.loads((kit / "kit.json").read_text())
    (kit / "kit.json").write_text(json.dumps({**told, "role": "boss"}))


def spoil_study(kit: Path) -> None:
    (kit / "study.toml").write_text(STUDY + "rounds = 1000\n")


def spoil_certificate(kit: Path) -> None:
    (kit / "startup/client.crt").write_text("no certificate")


def spoil_key(kit: Path) -> None:
    (kit / "startup/client.key").chmod(0o640)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (spoil_missing, "is damaged (startup/rootCA.pem is missing)"),
        (spoil_json, "kit.json: is damaged"),
        (spoil_version, "version 9 of kits"),
        (spoil_role, "is damaged (role 'boss')"),
        (spoil_study, "is not the study that this kit was made for"),
        (spoil_certificate, "is not a certificate"),
        (spoil_key, "others may read this private key; close it with: chmod 600"),
    ],
)
def test_a_kit_that_is_not_whole(fresh, spoil, said):
    spoil(fresh["nice"])
    with pytest.raises(UserError) as caught:
        open_kit(fresh["nice"], "center")
    assert said in str(caught.value)


def test_a_kit_of_an_earlier_version_names_classes_that_are_gone(fresh):
    spoil_version(fresh["nice"], 1)
    with pytest.raises(UserError) as caught:
        open_kit(fresh["nice"], "center")
    assert str(caught.value) == (
        f"{fresh['nice'] / 'kit.json'}: version 1 of kits, but this vedute knows 2; ask the coordinator for new kits, "
        "or install the vedute that they were made with"
    )


def test_every_class_that_a_kit_names_is_there(made):
    named = set()
    for path in (path for kit in made.values() for path in (kit / "local").glob("*.json")):
        named |= set(re.findall(r'"path": "(vedute[^"]+)"', path.read_text()))
    assert len(named) == 5
    for found in named:
        module, name = found.rsplit(".", 1)
        assert isinstance(getattr(import_module(module), name), type)


def test_no_kit_at_all(tmp_path):
    with pytest.raises(UserError, match="is not a kit"):
        open_kit(tmp_path, "center")
    with pytest.raises(UserError, match="is not a kit"):
        open_kit(tmp_path / "nowhere", "center")


@pytest.mark.parametrize(
    ("name", "role", "said"),
    [
        ("lead", "server", "is the kit of the lead; it is for 'vedute federation run'"),
        ("nice", "server", "is the kit of center 'nice'; it is for 'vedute federation join'"),
        ("server", "center", "is the kit of the server; it is for 'vedute federation serve'"),
    ],
)
def test_a_kit_of_another_role(made, name, role, said):
    with pytest.raises(UserError, match=said):
        open_kit(made[name], role)


def test_a_kit_for_another_study(made, tmp_path):
    study_of(tmp_path, STUDY.replace('"left"', '"right_"'))
    with pytest.raises(UserError, match="is a kit for another study than"):
        open_kit(made["lead"], "lead", tmp_path / "study.toml")
    same = "# a comment\n" + STUDY.replace('name = "lab"\ncomponents = 1', 'components = 1\nname = "lab"')
    study_of(tmp_path, same)
    assert open_kit(made["lead"], "lead", tmp_path / "study.toml").file.study == sha256(
        shared_text(made["lead"] / "study.toml").encode()
    )


def test_a_kit_that_has_expired(tmp_path):
    kits = lab_kits(tmp_path, start=datetime.now(UTC) - timedelta(days=3))
    with pytest.raises(UserError, match=r"expired on \d{4}-\d\d-\d\d .* this machine's clock says .*; set the clock"):
        open_kit(kits["nice"], "center")


def test_a_clock_that_is_off_by_a_day(tmp_path):
    kits = lab_kits(tmp_path, start=datetime.now(UTC) + timedelta(days=1))
    for name, role in (("nice", "center"), ("server", "server"), ("lead", "lead")):
        with pytest.raises(
            UserError, match=r"is valid from .* UTC on, and this machine's clock says .*; set the clock"
        ):
            open_kit(kits[name], role)


def test_a_clock_that_is_a_little_behind_is_forgiven(tmp_path):
    kits = lab_kits(tmp_path, start=datetime.now(UTC) + timedelta(minutes=50))
    assert open_kit(kits["nice"], "center").file.role == "center"


def test_a_kit_is_used_once_at_a_time(made):
    kit = open_kit(made["nice"], "center")
    with held(kit), pytest.raises(UserError, match="another process is using this kit"), held(kit):
        pass
    with held(kit):
        pass


def test_a_port_that_is_taken(made):
    kit = open_kit(made["server"], "server")
    check_port(kit)
    with socket.socket() as other:
        other.bind(("127.0.0.1", kit.file.port))
        other.listen()
        with pytest.raises(UserError, match=f"the port {kit.file.port} cannot be used"):
            check_port(kit)


def test_units_quote_what_systemd_would_read_otherwise(made):
    text = unit(open_kit(made["nice"], "center"), Path("/data/50% $x/node.toml"), Path("/home/a b"))
    assert '--data "/data/50%% $$x/node.toml" --home "/home/a b" --yes\n' in text
    assert "Restart=always\n" in text
    assert "serve " in unit(open_kit(made["server"], "server"))
