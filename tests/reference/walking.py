"""Plays docs/federation.md on five hosts of their own: the lead, the server and three hospitals.

A block of ``sh`` is run at the host in its title, ``title="at nice"``; a block whose title begins with a file name
is that file there. A block of ``text`` behind it is what was said: see ``playing.difference``. ``join`` and ``serve``
go on while the page does, and what they say later is in blocks titled ``title="at nice, meanwhile"``. An archive that
is packed at the lead for another host is carried there, as a person would.

As a program: ``walking.py [--write] PAGE``, as root; with ``--write`` it puts what was really said into the page.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd

from hosts import Hosts, Running
from playing import Block, blocks, difference

NAMES = {"lead": "lead.example.org", "server": "fl.example.org"} | {
    name: f"{name}.example.org" for name in ("nice", "paris", "zurich")
}
TITLE = re.compile(r"(?:(?P<file>[\w.-]+), )?at (?:the )?(?P<host>\w+)(?P<later>, meanwhile)?")
STAYS = re.compile(r"vedute federation (?:serve|join) (?!.*--print-unit)")
RUN = re.compile(r"\b[0-9a-f]{32}\b")
COLUMNS = {
    "clinical": ["age", "mmse", "faq"],
    "mri": ["hippocampus", "entorhinal", "fusiform", "ventricles"],
    "pet": ["suvr_frontal", "suvr_parietal", "suvr_temporal"],
}
HELD = {"nice": ("clinical", "mri", "pet"), "paris": ("clinical", "mri"), "zurich": ("clinical", "pet")}


def write_tables(hosts: Hosts) -> None:
    """Sixty patients at each hospital, some without a view, in the units of no real instrument."""
    rng = np.random.default_rng(5)
    loadings = {view: rng.normal(size=(2, len(names))) for view, names in COLUMNS.items()}
    for host, held in HELD.items():
        latent = rng.normal(size=(60, 2))
        ids = pd.Index([f"{host}-{i:03d}" for i in range(60)], name="id")
        for view in held:
            values = 50 + 8 * latent @ loadings[view] + rng.normal(scale=3, size=(60, len(COLUMNS[view])))
            frame = pd.DataFrame(values.round(2), index=ids, columns=COLUMNS[view])
            rows = rng.permutation(60)[:54] if view != "clinical" else np.arange(60)
            frame.iloc[np.sort(rows)].to_csv(hosts.home(host) / f"{view}.csv")


class Walk:
    """The page, being played."""

    def __init__(self, hosts: Hosts) -> None:
        self.hosts = hosts
        self.stays: dict[str, Running] = {}
        self.heard: dict[str, int] = {}

    def play(self, name: str, page: str) -> dict[int, str]:
        """All blocks in order; what was said, by the number of the block."""
        printed: dict[int, str] = {}
        found = blocks(page)
        for i, block in enumerate(found):
            title = TITLE.fullmatch(block.title or "")
            if block.language == "toml":
                tomllib.loads(block.text)
            if block.language in ("console", "text", "toml") and title is None:
                continue
            if title is None or title["host"] not in NAMES:
                raise SystemExit(f"{name}:{block.line}: no host is named in the title of this block")
            host = title["host"]
            told = found[i + 1] if i + 1 < len(found) and found[i + 1].follows else None
            if title["file"]:
                (self.hosts.home(host) / title["file"]).write_text(block.text)
            elif title["later"]:
                printed[i] = self._later(host, block)
            else:
                printed[i] = self._do(f"{name}:{block.line}", host, block.text.strip(), told)
        return printed

    def _do(self, where: str, host: str, script: str, told: Block | None) -> str:
        if script == "Ctrl-C":
            said = self.stays.pop(host).stop()
            return self._plain(host, said[self.heard[host] :])
        if STAYS.match(script):
            running = self.hosts.start(host, script, None if "--yes" in script or "serve" in script else b"y")
            self.stays[host] = running
            self.heard[host] = running.wait_for(told.text.splitlines()[-1]) if told else 0
            return self._plain(host, running.said()[: self.heard[host]])
        done = self.hosts.run(host, script)
        expected = 2 if "vedute: error" in done.stdout or "Error:" in done.stdout else 0
        if done.returncode != expected:
            raise SystemExit(f"{where}: exit status {done.returncode}\n{done.stdout}")
        for archive in self.hosts.home("lead").glob("*.tar.gz"):
            shutil.move(archive, self.hosts.home(archive.name.split(".")[0]) / archive.name)
        return self._plain(host, done.stdout)

    def _later(self, host: str, block: Block) -> str:
        running, since = self.stays[host], self.heard[host]
        self.heard[host] = running.wait_for(block.text.splitlines()[-1], since)
        return self._plain(host, running.said()[since : self.heard[host]])

    def _plain(self, host: str, said: str) -> str:
        """Without what is of this machine alone."""
        said = said.replace(str(Path(sys.executable).parent), "/opt/vedute/bin")
        said = said.replace(str(self.hosts.home(host)), "/srv/vedute")
        return RUN.sub("RUN", said)


def told(found: list[Block], printed: dict[int, str]) -> dict[int, str]:
    """What was said, by the number of the block of text that tells it."""
    places = {i if found[i].language == "text" else i + 1: said for i, said in printed.items()}
    return {i: said for i, said in places.items() if i < len(found) and found[i].language == "text"}


def rewritten(page: str, said: dict[int, str]) -> str:
    """The page with what was really said; a text with ``...`` is left to its author."""
    for i, block in reversed(list(enumerate(blocks(page)))):
        if i in said and "\n..." not in f"\n{block.text}" and difference(block.text, said[i]) is not None:
            new = "\n".join(line.rstrip() for line in said[i].strip("\n").splitlines()) + "\n"
            page = page[: block.start] + new + page[block.end :]
    return page


def main(path: Path, write: bool) -> int:
    """Play the page in a temporary folder."""
    page = path.read_text()
    found = blocks(page)
    with tempfile.TemporaryDirectory() as folder, Hosts(Path(folder), NAMES) as hosts:
        write_tables(hosts)
        said = told(found, Walk(hosts).play(path.name, page))
    if write:
        path.write_text(rewritten(page, said))
        return 0
    wrong = [(found[i].line, difference(found[i].text, text)) for i, text in said.items()]
    sys.stderr.write("".join(f"{path.name}:{line}: {what}\n" for line, what in wrong if what is not None))
    return int(any(what is not None for _, what in wrong))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[-1]).resolve(), "--write" in sys.argv))
