"""A kept result belongs to the code that computes it: all of that, and nothing that only shows it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from vedute.model.master import rescaling
from vedute_reproduction import closure, keeping, runner
from vedute_reproduction.adni import study
from vedute_reproduction.closure import code_of, places_of
from vedute_reproduction.collapse import ModelDraw, compute
from vedute_reproduction.corrections import experiment as corrections
from vedute_reproduction.fedprox import experiment as fedprox
from vedute_reproduction.folds import Dataset
from vedute_reproduction.keeping import fold_key
from vedute_reproduction.methods import quietly
from vedute_reproduction.missing import Hiding
from vedute_reproduction.privacy import Sweep, Walk
from vedute_reproduction.runner import Experiment
from vedute_reproduction.sd import experiment as sd
from vedute_reproduction.selection import Trial
from vedute_reproduction.studies import SYNTHETIC
from vedute_reproduction.variability import Imputing

FILES = {
    "__init__.py": "",
    "work.py": '''"""Fits and shows."""
from __future__ import annotations
from dataclasses import dataclass
from toy.tools import unused, doubled as twice
import toy.other as other

START: int = 1

@dataclass
class Fit:
    """A fit."""
    method: object = None

    def compute(self, rows: list) -> int:
        """Its result."""
        from toy.late import end  # loaded when it is needed
        unused = twice(rows)  # no function here
        return end(unused) + START + other.value(rows)

def figure(rows):
    return unused(rows)
''',
    "tools.py": "def doubled(rows):\n    return len(rows) * FACTOR\nFACTOR = 2\ndef unused(rows):\n    return rows\n",
    "late.py": "from toy.tools import FACTOR\ndef end(n):\n    return n - 1\n",
    "other.py": "def value(rows):\n    return 0\ndef nobody():\n    return 1\n",
    "methods.py": """from dataclasses import dataclass
@dataclass
class Ours:
    n: int = 2
    def fit(self):
        return self.n
""",
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "toy"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(closure, "OURS", ("toy",))
    yield folder
    for name in [name for name in sys.modules if name.split(".")[0] == "toy"]:
        del sys.modules[name]
    _forget()


def _forget() -> None:
    for one in (closure._text, closure._named, closure._file, closure._module):
        one.cache_clear()


def _code(package: Path) -> bytes:
    from toy.methods import Ours  # type: ignore[import-not-found]
    from toy.work import Fit  # type: ignore[import-not-found]

    _forget()
    return code_of(Fit(Ours()))


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("work.py", "+ START", "- START"),  # the computing itself
        ("work.py", "START: int = 1", "START: int = 3"),  # a value that it names
        ("tools.py", "len(rows)", "len(rows) + 1"),  # what it calls under another name
        ("tools.py", "FACTOR = 2", "FACTOR = 4"),  # what that names
        ("late.py", "n - 1", "n - 2"),  # what it imports when it runs
        ("other.py", "return 0", "return 5"),  # what it calls through a module
        ("methods.py", "return self.n", "return -self.n"),  # a method that it is given as a value
    ],
)
def test_whatever_computes_is_in_the_code(package: Path, file: str, old: str, new: str) -> None:
    before = _code(package)
    text = (package / file).read_text()
    assert old in text
    (package / file).write_text(text.replace(old, new))
    assert _code(package) != before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("work.py", "return unused(rows)", "return 17"),  # a figure in the same file
        ("work.py", "A fit.", "Another word for it."),
        ("work.py", "rows: list) -> int", "rows: tuple) -> float"),
        ("work.py", "  # loaded when it is needed", ""),
        ("tools.py", "return rows", "return None"),
        ("other.py", "return 1", "return 2"),
    ],
)
def test_what_only_shows_or_tells_is_not(package: Path, file: str, old: str, new: str) -> None:
    before = _code(package)
    text = (package / file).read_text()
    assert old in text
    (package / file).write_text(text.replace(old, new))
    assert _code(package) == before


def test_a_module_may_be_renamed(package: Path) -> None:
    before = _code(package)
    (package / "late.py").rename(package / "end.py")
    text = (package / "work.py").read_text()
    (package / "work.py").write_text(text.replace("toy.late", "toy.end"))
    assert _code(package) == before


def _tasks() -> dict[str, tuple[object, ...]]:
    """A task of each experiment, with the functions that it is given to."""
    data = SYNTHETIC.source.draw(0)

    def compared(experiment: Experiment) -> tuple[object, ...]:
        return (*(runner.Task("", setting, 0, 0) for setting in experiment.settings), runner.compute)

    return {
        "sd": compared(sd()),
        "adni": compared(study("", "", data, 5)),
        "corrections": compared(corrections()),
        "fedprox": compared(fedprox(SYNTHETIC)),
        "collapse": (ModelDraw(5, 0.0, 0), compute),
        "selection": (Trial("", (2,), "shared-view", 0, 0),),
        "privacy": (Sweep("", 5, 3, 100, 0, 0), Walk("", 5, "IID", 100, 0, 0)),
        "variability": (Imputing("", 5, 0, 0),),
        "missing": (Hiding("", 5, "view1", 0, 0),),
    }


@pytest.mark.parametrize("name", list(_tasks()))
def test_every_experiment_reaches_the_fit_and_nothing_that_shows(name: str) -> None:
    found = closure.closure(place for root in _tasks()[name] for place in places_of(root))
    assert {*places_of(rescaling), *places_of(quietly)} <= set(found)
    parts = {part for module, _ in found for part in module.split(".")}
    assert not parts & {"cli", "report", "plots", "nvflare", "canvas", "writing", "comparison", "page", "command"}
    own = {definition for module, definition in found if module.startswith("vedute_reproduction")}
    assert not own & {"write", "figure", "markdown", "summary", "run"}
    if name in ("sd", "adni", "fedprox"):
        assert ("vedute_reproduction.baselines.stacked", "train") in found
    if name in ("sd", "adni"):
        assert ("vedute_reproduction.private", "Variant") in found


def test_other_versions_and_other_code_have_other_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    data = SYNTHETIC.source.draw(0)
    part = Imputing("", 5, 0, 0)

    def key() -> str:
        keeping._versions.cache_clear()
        return fold_key(part, Dataset(data.views, data.groups))

    first = key()
    assert key() == first
    monkeypatch.setattr(keeping, "version", lambda name: "0")
    second = key()
    monkeypatch.setattr(keeping, "code_of", lambda *roots: b"another")
    assert len({first, second, key()}) == 3
    monkeypatch.undo()
    assert key() == first
