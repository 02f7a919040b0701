"""A small study on disk that has the traits of real ones: views missing by hospital, empty cells, any order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

SHARED = Path(__file__).parents[3] / "shared" / "data"


@dataclass(frozen=True)
class Hospitals:
    """The files of a study with the tables that they were written from."""

    folder: Path
    subjects: pd.DataFrame
    views: dict[str, pd.DataFrame]

    @property
    def toml(self) -> Path:
        return self.folder / "study.toml"


@pytest.fixture
def hospitals(tmp_path: Path) -> Hospitals:
    """Four hospitals, 60 subjects, three views; like heart4, with one view at a single hospital only."""
    rng = np.random.default_rng(4)
    site = np.repeat(["bern", "nice", "paris", "zürich"], 15)
    ids = np.array([f"{s[0]}-{i:02d}" for i, s in enumerate(site)])
    subjects = pd.DataFrame({"id": ids, "group": rng.choice(["yes", "no"], 60), "site": site})
    views = {}
    for name, d, sites in (("CLINIC", 4, None), ("RISK", 3, ["bern", "paris"]), ("IMAGING", 2, ["nice"])):
        table = pd.DataFrame(np.round(rng.normal(50, 10, (60, d)), 4), columns=[f"{name.lower()}{j}" for j in range(d)])
        table = table.mask(rng.random(table.shape) < 0.1)
        table.insert(0, "id", ids)
        held = np.ones(60, dtype=bool) if sites is None else np.isin(site, sites)
        views[name] = table[held & (rng.random(60) < 0.9)].sample(frac=1, random_state=len(name))
    subjects = subjects.sample(frac=1, random_state=1)
    subjects.to_csv(tmp_path / "subjects.csv", index=False)
    for name, table in views.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "study.toml").write_text(
        "[study]\nname = 'four hospitals'\ncomponents = 2\n"
        "[views.CLINIC]\n[views.RISK]\n[views.IMAGING]\n"
        "[subjects]\nfile = 'subjects.csv'\nid = 'id'\ncenter = 'site'\ngroup = 'group'\n"
        "[files]\nCLINIC = 'CLINIC.csv'\nRISK = 'RISK.csv'\nIMAGING = 'IMAGING.csv'\n",
        encoding="utf-8",
    )
    return Hospitals(tmp_path, subjects, views)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches and chunks of a few rows, so that small tables cross many borders."""
    from vedute.data import csv_reader, parquet_reader, stream

    monkeypatch.setattr(csv_reader, "BLOCK_BYTES", 1)
    monkeypatch.setattr(parquet_reader, "CELLS", 1)
    monkeypatch.setattr(stream, "STEP_CELLS", 1)
    monkeypatch.setattr(stream, "SPILL_CELLS", 40)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    """Write a file of the study."""

    def put(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return put
