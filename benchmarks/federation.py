"""What a round costs across machines, against the same round in one process, and write FEDERATION.md.

    python benchmarks/federation.py [--rounds 30] [--sites 3 12]

Each site is a host of its own (tests/reference/hosts.py: needs root and iproute2), so that the bytes of a host are
those that it really sent. A round is the time from one question to the next, in the server's log. To start and end a
run costs bytes and seconds, too; a short run is subtracted from a long one to have the rounds alone.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests" / "reference"))

from hosts import Hosts  # noqa: E402  (kept with the tests, which play the documentation on them)

VIEWS, Q, SUBJECTS, FEW = {"A": 500, "B": 500, "C": 500, "D": 300}, 6, 100, 5
SLOWEST, LARGEST = 1.0, 1.3  # seconds a round for 3 sites; bytes against the parameters' own
OPTIONS = "--tol none --seed 1"


@dataclass(frozen=True)
class Measured:
    """One number of sites: seconds a round, and bytes of one site a round as encoded and as sent by its host."""

    sites: int
    seconds: float
    alone: float
    answer: float
    question: float
    sent: float
    received: float
    whole: float


def write_study(hosts: Hosts, sites: list[str], rounds: int) -> None:
    """The shared study, and the rows of each site, also as one study for one process at the lead."""
    rng = np.random.default_rng(0)
    columns = {view: [f"{view}{j}" for j in range(d)] for view, d in VIEWS.items()}
    loadings = {view: rng.normal(size=(Q, d)) for view, d in VIEWS.items()}
    text = f'[study]\nname = "bench"\ncomponents = {Q}\n'
    text += "".join(f"[views.{view}]\ncolumns = {json.dumps(names)}\n" for view, names in columns.items())
    text += f"[federation]\nrounds = {rounds}\n"
    (hosts.home("lead") / "study.toml").write_text(text)
    for site in sites:
        latent = rng.normal(size=(SUBJECTS, Q))
        node = f'center = "{site}"\n[files]\n'
        text += f"[centers.{site}.files]\n"
        for view, d in VIEWS.items():
            rows = latent @ loadings[view] + rng.normal(size=(SUBJECTS, d))
            index = pd.Index([f"{site}{i}" for i in range(SUBJECTS)], name="id")
            path = hosts.home(site) / f"{view}.csv"
            pd.DataFrame(rows, index=index, columns=columns[view]).to_csv(path)
            node += f'{view} = "{view}.csv"\n'
            text += f'{view} = "{path}"\n'
        (hosts.home(site) / "node.toml").write_text(node)
    (hosts.home("lead") / "whole.toml").write_text(text)


def done(hosts: Hosts, host: str, script: str) -> None:
    """A command that has to succeed."""
    ended = hosts.run(host, script)
    if ended.returncode:
        raise SystemExit(f"{script}\n{ended.stdout}")


def travelled(hosts: Hosts, host: str) -> np.ndarray:
    """Bytes that a host received and sent until now, with all headers."""
    told = subprocess.run(
        ["ip", "-j", "-s", "-n", hosts.prefix + host, "link", "show", "wire"], capture_output=True, check=True
    )
    stats = json.loads(told.stdout)[0]["stats64"]
    return np.array([stats["rx"]["bytes"], stats["tx"]["bytes"]], dtype=float)


def cycles(server: Path) -> list[float]:
    """Seconds from each question of the last job to the next, by the server's log of it."""
    jobs = sorted((server / "storage" / "jobs").iterdir(), key=lambda path: path.stat().st_mtime)
    with zipfile.ZipFile(io.BytesIO((jobs[-1] / "workspace").read_bytes())) as archive:
        log = archive.read("log.txt").decode()
    asked = re.findall(r"^(\S+ \S+) INFO \S*WFCommServer: .*scheduled task", log, re.MULTILINE)
    times = [datetime.fromisoformat(when.replace(",", ".")) for when in asked]
    return [(b - a).total_seconds() for a, b in pairwise(times)]


def history(run: Path) -> list[dict[str, float]]:
    """The rounds of a run folder."""
    return [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]


def measure(n: int, rounds: int, folder: Path) -> Measured:
    """One federation of n sites."""
    sites = [f"site{i:02d}" for i in range(n)]
    with Hosts(folder, {"lead": "lead", "server": "fl.example.org"} | {site: site for site in sites}) as hosts:
        write_study(hosts, sites, rounds)
        done(hosts, "lead", f"vedute federation init study.toml --centers {','.join(sites)} --server fl.example.org")
        for name in ("server", *sites):
            shutil.copytree(hosts.home("lead") / "kits" / name, hosts.home(name) / "kit")
        hosts.start("server", "vedute federation serve kit").wait_for("listening on fl.example.org:8002")
        joined = [hosts.start(site, "vedute federation join kit --data node.toml --yes") for site in sites]
        for site, running in zip(sites, joined, strict=True):
            running.wait_for(f"connected to fl.example.org:8002 as {site!r}")
        moved = {}
        for r in (FEW, rounds):
            before, began = travelled(hosts, sites[0]), perf_counter()
            done(hosts, "lead", f"vedute federation run study.toml --out run{r} --rounds {r} {OPTIONS}")
            moved[r] = travelled(hosts, sites[0]) - before
            whole = perf_counter() - began
        received, sent = (moved[rounds] - moved[FEW]) / (rounds - FEW)
        seconds = median(cycles(hosts.home("server") / "kit")[3:-1])  # the first questions agree on the scaling
        done(hosts, "lead", f"vedute fit whole.toml --out alone --rounds {rounds} {OPTIONS}")
        last = history(hosts.home("lead") / f"run{rounds}")[-1]
        alone = median(record["seconds"] for record in history(hosts.home("lead") / "alone")[1:])
    return Measured(n, seconds, alone, last["bytes_up"] / n, last["bytes_down"] / n, sent, received, whole)


def report(found: list[Measured], rounds: int) -> str:
    """FEDERATION.md."""
    own = 8 * (sum(VIEWS.values()) * (Q + 1) + len(VIEWS))
    made = (
        f"Made by `make bench` on {os.cpu_count()} cores, all hosts on one machine: {len(VIEWS)} views, "
        f"{sum(VIEWS.values())} features, q = {Q}, {SUBJECTS} subjects a site, {rounds} rounds. The parameters of a "
        f"site (mu, W, sigma2) are {own:,} bytes; bytes are those of one site and one round, as a multiple of that.\n"
    )
    lines = [
        "# A round across machines\n",
        made,
        "| sites | seconds a round | in one process | answer | question | sent by the host | received | whole run |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {m.sites} | {m.seconds:.2f} | {m.alone:.3f} | {m.answer / own:.2f}x | {m.question / own:.2f}x | "
        f"{m.sent / own:.2f}x | {m.received / own:.2f}x | {m.whole:.0f} s |"
        for m in found
    ]
    three = [m for m in found if m.sites == 3]
    reached = all(m.seconds <= SLOWEST and max(m.answer, m.question) <= LARGEST * own for m in three)
    lines.append(f"\nWanted for 3 sites: at most {SLOWEST:g} s a round, messages of at most {LARGEST:g}x. ")
    lines[-1] += "Reached." if reached else "Not reached."
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, and write it down when it is whole."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--sites", type=int, nargs="+", default=[3, 12])
    given = parser.parse_args()
    found = []
    for n in given.sites:
        with tempfile.TemporaryDirectory() as folder:
            found.append(measure(n, given.rounds, Path(folder)))
    text = report(found, given.rounds)
    print(text)
    if given.sites == [3, 12]:
        (HERE / "FEDERATION.md").write_text(text)


if __name__ == "__main__":
    main()
