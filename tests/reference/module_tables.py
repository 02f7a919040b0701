"""Renews what docs/architecture.md tells of the code: ``python tests/reference/module_tables.py --write``.

The direction of imports comes from the contract in pyproject.toml, and the tables of modules from the first line of
each docstring, room by room. Both stand between two marks on the page, and nothing in between is written by hand.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
PACKAGES = ("src/vedute", "reproduction/src/vedute_reproduction")


def first_line(module: Path) -> str:
    """The first line of a module's docstring, as Markdown in a cell of a table."""
    told = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
    return told.partition("\n")[0].replace("``", "`").replace("|", "\\|")


def rooms(package: Path) -> Iterator[Path]:
    """The folders of a package that hold modules, the package itself first."""
    return iter(sorted({path.parent for path in package.rglob("*.py")}))


def table(room: Path, package: Path) -> str:
    """A heading with what the room is, and a row for each of its files."""
    place = package.name if room == package else room.relative_to(package).as_posix()
    files = [path for path in sorted(room.glob("*.py")) if path.name != "__init__.py"]
    lines = [f"### `{place}/`", "", first_line(room / "__init__.py"), ""]
    if files:
        lines += ["| file | what it is |", "|---|---|"]
        lines += [*(f"| `{path.name}` | {first_line(path)} |" for path in files), ""]
    return "\n".join(lines)


def tables(root: Path) -> str:
    """The tables of all rooms of all packages."""
    return "\n".join(table(room, root / package) for package in PACKAGES for room in rooms(root / package))


def direction(root: Path) -> str:
    """The layers of the import contract, from top to bottom."""
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    named = (re.sub(r"[()]|vedute[._]", "", layer) for layer in layers)
    return "    " + " > ".join(f"({name})" if "|" in name else name for name in named) + "\n"


def renewed(page: str, parts: Mapping[str, str]) -> str:
    """The page with each part between its marks; a mark that is not there is an error."""
    for name, text in parts.items():
        begin, end = f"<!-- {name}: generated -->\n", f"<!-- {name}: end -->\n"
        before, found, rest = page.partition(begin)
        _, ended, after = rest.partition(end)
        if not (found and ended):
            raise SystemExit(f"{PAGE.name}: has no place for {name!r} between {begin.strip()} and {end.strip()}")
        page = f"{before}{begin}\n{text}\n{end}{after}"
    return page


def current() -> str:
    """The page as it should be."""
    return renewed(PAGE.read_text(encoding="utf-8"), {"direction": direction(ROOT), "modules": tables(ROOT)})


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        raise SystemExit(f"usage: python {sys.argv[0]} --write")
    PAGE.write_text(current(), encoding="utf-8")
