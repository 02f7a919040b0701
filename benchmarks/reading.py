"""How fast and in how much memory a large study is folded into statistics, against the reader's own scan of the file.

    python benchmarks/reading.py [--rows 5000000] [--columns 40] [--repeats 3]

Writes the files into a temporary folder (1.5 GB for the default) and removes them. Every measurement runs in a process
of its own, because memory once used is not always given back; the best of the repeats counts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

CENTERS = 5
LIMIT_RATIO, LIMIT_MB = 1.5, 400


def write_files(folder: Path, rows: int, columns: int) -> None:
    """One large file, its table of subjects, the same numbers as two files with gaps, and the studies about them."""
    import pyarrow as pa
    from pyarrow import csv

    rng = np.random.default_rng(0)
    half = columns // 2
    names = [f"f{j}" for j in range(columns)]
    files = {name: (folder / f"{name}.csv").open("wb") for name in ("all", "left", "right", "subjects")}
    for start in range(0, rows, 100_000):
        n = min(100_000, rows - start)
        numbers = np.round(rng.normal(50, 15, (n, columns)), 3)
        ids = pa.array([f"s{i:07d}" for i in range(start, start + n)])
        table = pa.table([ids, *numbers.T], ["id", *names])
        sites = pa.array([f"c{i % CENTERS}" for i in range(start, start + n)])
        parts = {
            "all": table,
            "left": table.select(["id", *names[:half]]),
            "right": table.select(["id", *names[half:]]).filter(pa.array(rng.random(n) < 0.9)),
            "subjects": pa.table([ids, sites], ["id", "site"]),
        }
        for name, part in parts.items():
            options = csv.WriteOptions(include_header=start == 0, quoting_style="none")
            csv.write_csv(part, files[name], options)
    for file in files.values():
        file.close()
    pooled = "[subjects]\nfile='subjects.csv'\ncenter='site'\n[files]\n"
    (folder / "one file per center.toml").write_text("[centers.nice.files]\nA='all.csv'\n")
    (folder / "pooled file and subjects.toml").write_text(pooled + "A='all.csv'\n")
    (folder / "two files with gaps.toml").write_text("[centers.nice.files]\nA='left.csv'\nB='right.csv'\n")


def scan(paths: list[Path]) -> int:
    """The reader alone: pyarrow's streaming reader and its conversion to a matrix of doubles."""
    import pyarrow as pa
    from pyarrow import csv

    rows = 0
    for path in paths:
        names = path.open().readline().strip().replace('"', "").split(",")
        types = {name: pa.float64() for name in names[1:]} | {"id": pa.string()}
        with csv.open_csv(path, convert_options=csv.ConvertOptions(column_types=types)) as reader:
            for batch in reader:
                rows += len(batch.select(range(1, len(names))).to_tensor(null_to_nan=True).to_numpy())
    return rows


def fold(path: Path) -> int:
    """Load a study and fold its rows into statistics."""
    from vedute.data.study import Study
    from vedute.model.parameters import Layout
    from vedute.model.statistics import Accumulator

    study = Study.load(path)
    layout = Layout(tuple(study.columns), tuple(map(len, study.columns.values())))
    folded = study.fold(lambda center: Accumulator(layout))
    return sum(center.result.finish().n_rows for center in folded.values())


def measure(kind: str, paths: list[Path]) -> None:
    """In a process of its own: print seconds and the memory used beyond the interpreter with its libraries."""
    import pandas  # noqa: F401 - part of the interpreter with its libraries
    import pyarrow.compute
    import pyarrow.csv  # noqa: F401

    before = resident("VmRSS")
    start = time.perf_counter()
    rows = scan(paths) if kind == "scan" else fold(paths[0])
    seconds = time.perf_counter() - start
    print(json.dumps({"rows": rows, "seconds": seconds, "megabytes": resident("VmHWM") - before}))


def resident(field: str) -> float:
    """Memory of this process in MB: now (VmRSS) or at its largest (VmHWM), as Linux tells."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1024


def best(kind: str, paths: list[Path], repeats: int) -> dict[str, float]:
    """The quickest of some runs, with the largest memory of all."""
    command = [sys.executable, __file__, "--measure", kind, *map(str, paths)]
    runs = [json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(repeats)]
    quickest: dict[str, float] = min(runs, key=lambda run: run["seconds"])
    return quickest | {"megabytes": max(run["megabytes"] for run in runs)}


def main() -> None:
    """Print one line for each way of writing the study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--columns", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measure", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        measure(given.measure[0], [Path(path) for path in given.measure[1:]])
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, given.rows, given.columns)
        print(f"{given.rows:,} rows x {given.columns} columns; limits: {LIMIT_RATIO} x the scan, {LIMIT_MB} MB")
        print(f"{'':30}{'scan s':>8}{'fold s':>8}{'ratio':>7}{'fold MB':>9}")
        for study, scanned in (
            ("one file per center", ["all.csv"]),
            ("pooled file and subjects", ["all.csv"]),
            ("two files with gaps", ["left.csv", "right.csv"]),
        ):
            alone = best("scan", [folder / file for file in scanned], given.repeats)
            whole = best("fold", [folder / f"{study}.toml"], given.repeats)
            ratio = whole["seconds"] / alone["seconds"]
            print(f"{study:30}{alone['seconds']:8.2f}{whole['seconds']:8.2f}{ratio:7.2f}{whole['megabytes']:9.0f}")


if __name__ == "__main__":
    main()
