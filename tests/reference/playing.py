"""Plays a page of the documentation: what it tells the reader to do is done, block by block, in the working folder.

A fenced block of ``python`` is executed, all of a page in one namespace; a block of ``sh`` goes to a shell; any block
with ``title="NAME"`` is a file of that name. A block of ``text`` right behind one that was executed is
what that printed: numbers may differ in the last digit, and a line ``...`` stands for any lines. A block of ``console``
is what a reader does before: install and choose a folder; tests/docs/test_pages.py looks at each of its lines.

As a program: ``playing.py PAGE`` plays it and fails at the first difference; with ``--write`` it puts what was really
printed into the page instead, and the pictures that were made beside it into the page's folder ``figures/``.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import textwrap
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FENCE = re.compile(r"^( *)```(\S*)(?: +([^\n]*))?\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
TITLE = re.compile(r'title="([^"]+)"')
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.]*\w)", re.IGNORECASE)
PICTURE = re.compile(r"!\[[^\]]*\]\(\S*figures/([\w.-]+)\)")
SHOWN = {"python", "sh", "toml", "csv", "text", "console"}  # any other language could hide something that is never run


@dataclass(frozen=True)
class Block:
    """A fenced block; ``start`` and ``end`` are where its text stands in the page."""

    language: str
    title: str | None
    text: str
    line: int
    start: int
    end: int
    follows: bool  # right behind the block before it


def blocks(page: str) -> list[Block]:
    """All fenced blocks of a page."""
    found: list[Block] = []
    last = -1
    for match in FENCE.finditer(page):
        title = TITLE.search(match[3] or "")
        found.append(
            Block(
                match[2],
                title[1] if title else None,
                textwrap.dedent(match[4]),
                page.count("\n", 0, match.start()) + 1,
                match.start(4),
                match.end(4),
                last >= 0 and not page[last : match.start()].strip(),
            )
        )
        last = match.end()
    return found


def play(name: str, page: str) -> dict[int, str]:
    """Do what the page says in the working folder; what was printed, by the number of the block."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed: dict[int, str] = {}
    for i, block in enumerate(blocks(page)):
        where = f"{name}:{block.line}"
        if block.language not in SHOWN:
            raise SystemExit(f"{where}: a block of {block.language!r} is not run; use one of {sorted(SHOWN)}")
        if block.title is not None:
            Path(block.title).write_text(block.text)
        elif block.language == "python":
            printed[i] = _python(block, where, namespace)
        elif block.language == "sh":
            printed[i] = _shell(block, where)
        elif block.language == "toml":
            tomllib.loads(block.text)
    return printed


def _python(block: Block, where: str, namespace: dict[str, Any]) -> str:
    out = io.StringIO()
    code = compile("\n" * block.line + block.text, where.split(":")[0], "exec")  # so that a traceback tells the line
    with contextlib.redirect_stdout(out):
        exec(code, namespace)
    return out.getvalue()


def _shell(block: Block, where: str) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", block.text], capture_output=True, text=True, env={**os.environ, "PATH": path}
    )
    if done.returncode:
        raise SystemExit(f"{where}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def difference(told: str, printed: str) -> str | None:
    """What a page says was printed against what was: the first line that differs, or None."""
    lines = [line for line in printed.splitlines() if line.strip()]
    place, skipping = 0, False
    for line in (line for line in told.splitlines() if line.strip()):
        if line == "...":
            skipping = True
            continue
        while place < len(lines) and skipping and not alike(line, lines[place]):
            place += 1
        if place == len(lines):
            return f"not printed: {line}"
        if not alike(line, lines[place]):
            return f"printed: {lines[place]}\n   told: {line}"
        place, skipping = place + 1, False
    return None if skipping or place == len(lines) else f"printed, not told: {lines[place]}"


def alike(told: str, printed: str) -> bool:
    """The same but for blanks and rounding: fractions within 2 % or one and a half of the last digit; counts exactly.

    Percentages may differ by one, and the number of rounds until a fit has settled by a tenth, between processors.
    """
    told, printed = (" ".join(line.split()) for line in (told, printed))
    if NUMBER.sub("#", told) != NUMBER.sub("#", printed):
        return False
    for a, b in zip(NUMBER.finditer(told), NUMBER.finditer(printed), strict=True):
        whole = not re.search(r"[.e]", a[0], re.IGNORECASE)
        mantissa, _, exponent = a[0].lower().partition("e")
        last = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
        slack = 0.0 if whole else max(0.02 * abs(float(a[0])), 1.5 * last)
        if whole and told[a.end() :].startswith("%"):
            slack = 1.5
        if whole and told[a.end() :].startswith(" rounds"):
            slack = 1 + 0.1 * float(a[0])
        if abs(float(a[0]) - float(b[0])) > slack * (1 + 1e-9):
            return False
    return True


def mistakes(name: str, page: str, printed: dict[int, str]) -> list[str]:
    """Where the page tells another output than there was."""
    found = blocks(page)
    return [
        f"{name}:{block.line}: {told}"
        for i, block in enumerate(found)
        if block.language == "text" and block.follows and i - 1 in printed
        and (told := difference(block.text, printed[i - 1])) is not None
    ]  # fmt: skip


def rewritten(page: str, printed: dict[int, str]) -> str:
    """The page with what was really printed; a text with ``...`` is left to its author."""
    found = blocks(page)
    for i, block in reversed(list(enumerate(found))):
        if block.language != "text" or not block.follows or i - 1 not in printed:
            continue
        if difference(block.text, printed[i - 1]) is not None and "\n..." not in f"\n{block.text}":
            new = "\n".join(line.rstrip() for line in printed[i - 1].strip("\n").splitlines()) + "\n"
            page = page[: block.start] + new + page[block.end :]
    return page


def main(path: Path, write: bool) -> int:
    """Play a page in the working folder."""
    page = path.read_text()
    printed = play(path.name, page)
    if write:
        path.write_text(rewritten(page, printed))
        for picture in PICTURE.findall(page):
            if Path(picture).exists():
                for folder in path.parents:
                    if (folder / "figures").is_dir():
                        shutil.copy(picture, folder / "figures" / picture)
                        break
        return 0
    wrong = mistakes(path.name, page, printed)
    sys.stderr.write("\n".join(wrong) + "\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), "--write" in sys.argv))
