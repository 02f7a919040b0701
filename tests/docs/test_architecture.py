"""What docs/architecture.md tells of the code is so: tables, direction of imports, files that pages name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import module_tables
from module_tables import PACKAGES, PAGE, ROOT, current, direction, renewed, rooms, tables

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PLACES = (ROOT, *(ROOT / package for package in PACKAGES))
FILE = re.compile(r"`([\w./-]+/[\w-]+\.py)`")


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == current(), "run: python tests/reference/module_tables.py --write"


def test_every_module_says_in_one_line_what_it_is() -> None:
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            assert re.fullmatch(r"\S.*[.!?]", module_tables.first_line(path)), path


def test_a_changed_docstring_changes_the_table(tmp_path: Path) -> None:
    for package in PACKAGES:
        room = tmp_path / package / "room"
        room.mkdir(parents=True)
        for folder in (room.parent, room):
            (folder / "__init__.py").write_text('"""A place."""\n')
    (room / "step.py").write_text('"""One ``step`` | two.\n\nMore."""\n')
    found = tables(tmp_path)
    assert "### `room/`" in found
    assert "| `step.py` | One `step` \\| two. |" in found
    assert "More" not in found
    assert [path.name for path in rooms(room.parent)] == [room.parent.name, "room"]
    (room / "step.py").write_text('"""Another step."""\n')
    assert tables(tmp_path) != found


def test_imports_point_from_left_to_right(tmp_path: Path) -> None:
    contract = '[[tool.importlinter.contracts]]\ntype = "layers"\n'
    (tmp_path / "pyproject.toml").write_text(contract + 'layers = ["(vedute.cli)", "(vedute.a) | (vedute.b)"]\n')
    assert direction(tmp_path) == "    cli > (a | b)\n"


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(SystemExit, match="no place for 'modules'"):
        renewed("no marks\n", {"modules": "table"})


@pytest.mark.parametrize("page", [pytest.param(page, id=page.stem) for page in PAGES])
def test_files_that_a_page_names_are_there(page: Path) -> None:
    for name in FILE.findall(page.read_text()):
        assert any((place / name).is_file() for place in PLACES), f"{name} is named, and there is no such file"
