"""How often the rows of a file are read: the numbers that docs/architecture.md tells."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from hospitals import CENTERS, make_hospitals
from toy_study import write_study
from vedute import FederatedPPCA, Study, select_components
from vedute.cli.app import run
from vedute.data import csv_reader
from vedute.federation.remote import RemoteRun, fit_remote
from vedute.federation.site import Site
from vedute.run.protocol import Progress
from vedute.run.settings import Settings
from vedute.run.study_fit import Request, Watch, fit_study

GIVEN: dict[str, Any] = {"rounds": 4, "tol": None}
RUN = "0123456789abcdef" * 2
SILENT = Watch(lambda settings, done: None, lambda progress: None)
SUBJECT = 'policy = "subject"\nepsilon = 50.0\ndelta = 1e-5\n'
PRIVATE = {**GIVEN, "scaling": "declared", "privacy": {"policy": "subject", "epsilon": 50.0, "delta": 1e-5}}
DECLARED = 'scaling = "declared"'
TABLES = ("view1.csv", "view2.csv", "view3.csv")


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Scans of a file for its numbers; those for ids alone, which bring several files in one order, do not count."""
    counted: Counter[str] = Counter()
    real = csv_reader.read

    def read(table: Any, numbers: Sequence[str], text: Sequence[str]) -> Iterator[Any]:
        if numbers:
            counted[table.path.parent.name + "/" + table.path.name] += 1
        return real(table, numbers, text)

    monkeypatch.setattr(csv_reader, "read", read)
    return counted


def times(n: int, folder: str = "study") -> dict[str, int]:
    return {f"{folder}/{name}": n for name in TABLES}


def ranged(folder: Path) -> Path:
    """The toy study with public ranges, under the policy ``subject``."""
    study = write_study(folder)
    text = study.read_text()
    for name, columns in Study.load(study).columns.items():
        ranges = ", ".join(f"{column} = [-60.0, 60.0]" for column in columns)
        text += f"[views.{name}]\nranges = {{ {ranges} }}\n"
    study.write_text(f"{text}[privacy]\n{SUBJECT}")
    return study


def stop(progress: Progress) -> None:
    raise KeyboardInterrupt


def test_a_fit_reads_rows_for_the_statistics_and_for_the_latent_table(tmp_path: Path, scans: Counter[str]) -> None:
    fit_study(Study.load(write_study(tmp_path / "study")), tmp_path / "run", Request(GIVEN), SILENT)
    assert scans == times(2)


@pytest.mark.parametrize(("touched", "again"), [(False, 1), (True, 2)])
def test_a_resumed_fit_reads_for_the_latent_table_and_compares_files_that_were_touched(
    tmp_path: Path, scans: Counter[str], touched: bool, again: int
) -> None:
    study = write_study(tmp_path / "study")
    with pytest.raises(KeyboardInterrupt):
        fit_study(Study.load(study), tmp_path / "run", Request(GIVEN), Watch(SILENT.begun, stop))
    assert scans == times(1)
    scans.clear()
    if touched:
        for name in TABLES:
            os.utime(study.parent / name, (1e9, 1e9))
    fit_study(Study.load(study), tmp_path / "run", Request({}, resume=True), SILENT)
    assert scans == times(again)
    scans.clear()
    fit_study(Study.load(study), tmp_path / "run", Request({}, resume=True), SILENT)
    assert scans == times(1)  # a finished run is compared with the files, and that is all


def test_a_private_fit_reads_as_often_as_a_plain_one(tmp_path: Path, scans: Counter[str]) -> None:
    study = ranged(tmp_path / "study")
    fit_study(Study.load(study), tmp_path / "run", Request(PRIVATE), SILENT)
    assert scans == times(2)


def test_a_choice_reads_for_all_fits_at_once_and_to_judge_them(tmp_path: Path, scans: Counter[str]) -> None:
    study = Study.load(write_study(tmp_path / "study"))
    select_components(study, [1, 2], scalings=["shared-standard"], draws=10, jobs=1, **GIVEN)
    assert scans == times(2)


def test_waic_of_a_model_reads_for_the_statistics_and_to_judge_them(tmp_path: Path, scans: Counter[str]) -> None:
    study = Study.load(write_study(tmp_path / "study"))
    model = FederatedPPCA(2, **GIVEN).fit(study)
    assert scans == times(1)  # in memory nothing but the model is kept
    scans.clear()
    model.waic(study, draws=10)
    assert scans == times(2)


def test_a_choice_under_a_policy_reads_once(tmp_path: Path, scans: Counter[str]) -> None:
    study = ranged(tmp_path / "study")
    assert run(["select", str(study), "--components", "1-2", "--out", str(tmp_path / "choice")]) == 0
    assert scans == times(1)


def test_commands_with_a_model_read_once_and_once_more_for_a_new_center(tmp_path: Path, scans: Counter[str]) -> None:
    study = write_study(tmp_path / "study")
    fit_study(Study.load(study), tmp_path / "run", Request(GIVEN), SILENT)
    for command in ("project", "impute", "harmonise", "score"):
        scans.clear()
        assert run([command, str(tmp_path / "run"), str(study), "--out", str(tmp_path / f"{command}.csv")]) == 0
        assert scans == times(1), command
    scans.clear()
    assert run(["check", str(study)]) == 0
    assert scans == times(2)
    subjects = study.parent / "subjects.csv"
    subjects.write_text(subjects.read_text().replace("paris", "oslo"))
    scans.clear()
    adapted = ["--using", "adapt", "--out", str(tmp_path / "adapted.csv")]
    assert run(["project", str(tmp_path / "run"), str(study), *adapted]) == 0
    assert scans == times(2)


class Federation:
    """Centers in this process, each with files of its own; ``start`` begins their processes anew."""

    def __init__(self, folder: Path, privacy: str = "") -> None:
        self.folder = folder
        self.shared, self.nodes = make_hospitals(folder, privacy=privacy, federation=DECLARED if privacy else "")
        self.start()

    def start(self) -> None:
        self.sites = {
            center: Site(Study.load_node(self.shared, node), self.folder / "home" / center)
            for center, node in self.nodes.items()
        }

    def send(self, data: bytes, centers: Sequence[str]) -> Mapping[str, bytes]:
        return {center: self.sites[center].respond(data) or b"" for center in centers}

    def fit(self, settings: Settings, on_round: Callable[[Progress], None] = lambda progress: None) -> None:
        job = RemoteRun(Study.load_shared(self.shared), settings, RUN, self.folder / "run", CENTERS)
        fit_remote(job, self.send, lambda message: None, on_round)

    def times(self, n: int) -> dict[str, int]:
        return {
            f"{node.parent.name}/{path.name}": n for node in self.nodes.values() for path in node.parent.glob("*.csv")
        }


@pytest.mark.parametrize("private", [False, True])
def test_a_center_of_a_federation_reads_as_often_as_a_fit(tmp_path: Path, scans: Counter[str], private: bool) -> None:
    hospitals = Federation(tmp_path, SUBJECT if private else "")
    hospitals.fit(Settings(3, **(PRIVATE if private else GIVEN)))
    assert len(scans) > len(CENTERS)
    assert scans == hospitals.times(2)


def test_a_center_whose_process_began_anew_reads_once_more(tmp_path: Path, scans: Counter[str]) -> None:
    hospitals = Federation(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        hospitals.fit(Settings(3, **GIVEN), stop)
    assert scans == hospitals.times(1)
    hospitals.start()
    hospitals.fit(Settings(3, **GIVEN))
    assert scans == hospitals.times(3)
