"""Checkpoints: snapshots and statistics come back bit by bit, and writing them is paced."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from vedute import UserError
from vedute.data.rows import open_rows
from vedute.datasets import make_sd
from vedute.model.stacked import State
from vedute.run import checkpoint
from vedute.run.center import CenterData
from vedute.run.checkpoint import Checkpoints, Snapshot, latest, load_data, load_snapshot, save_data
from vedute.run.exchange import Participant, make_job, read_inspected
from vedute.run.fitted_model import model_arrays
from vedute.run.protocol import Job, Progress
from vedute.run.server import Nowhere, fit_participants
from vedute.run.settings import Settings
from vedute.scenarios import split


def centers(settings: Settings, wide: bool = False, holes: bool = True) -> tuple[Job, dict[str, CenterData]]:
    views, groups = make_sd(90, 40, sizes=(300 if wide else 6, 4, 3), n_components=2, random_state=0)
    if holes:
        rng = np.random.default_rng(0)
        views = {name: np.where(rng.random(rows.shape) < 0.05, np.nan, rows) for name, rows in views.items()}
    dealt, _ = split(views, groups, 3, "K", random_state=0)
    rows = open_rows(dealt)
    job = make_job(rows, settings)
    return job, {one.name: one.data for one in read_inspected(rows, job)}


def participants(data: dict[str, CenterData]) -> list[Participant]:
    return [Participant(name, part) for name, part in data.items()]


def states(those: list[Participant]) -> dict[str, State]:
    return {one.name: one.center.state for one in those if one.center is not None and one.center.state is not None}


@dataclass
class From(Nowhere):
    """Resume at some progress."""

    at: Progress

    def progress(self) -> Progress:
        return self.at


CASES = [
    ({}, {}),
    ({"preset": "paper"}, {}),
    ({"scaling": "shared-minmax"}, {}),
    ({}, {"wide": True, "holes": False}),
    ({"case_mix": False, "spread": False}, {}),
]


@pytest.mark.parametrize(("options", "data"), CASES)
def test_a_run_from_a_checkpoint_ends_with_the_same_bits(tmp_path: Path, options: dict, data: dict) -> None:
    settings = Settings(2, rounds=9, tol=None, seed=4, **options)
    job, read = centers(settings, **data)
    save_data(tmp_path, job.schema, read, ["origin", 1])
    those, layout = participants(read), job.schema.layout
    checkpoints = Checkpoints(tmp_path, layout, lambda: states(those))

    def stop_after_5(progress: Progress) -> None:
        if len(progress.history) <= 5:
            checkpoints.note(progress)

    whole = fit_participants(job, those, on_round=stop_after_5).model
    checkpoints.close()

    loaded = load_data(tmp_path)
    assert loaded is not None
    assert loaded[0] == job.schema
    assert loaded[2] == ["origin", 1]
    again = participants(loaded[1])
    found = load_snapshot(tmp_path, layout)
    assert found is not None
    assert len(found.progress.history) == 5
    assert found.progress.history[-1].spreads == found.progress.prior.spreads
    for one in again:
        one.state = found.states[one.name]
    resumed = fit_participants(job, again, keeper=From(found.progress)).model
    one, other = model_arrays(whole), model_arrays(resumed)
    assert all(np.array_equal(one[name], other[name], equal_nan=True) for name in one)


def test_without_the_states_of_the_centers_the_bits_would_differ(tmp_path: Path) -> None:
    """The comparison above can fail: a run that forgets what the centers keep at home ends elsewhere."""
    settings = Settings(2, rounds=9, tol=None, seed=4)
    job, read = centers(settings)
    kept: list[Progress] = []
    whole = fit_participants(job, participants(read), on_round=kept.append).model
    forgetful = fit_participants(job, participants(read), keeper=From(kept[4])).model
    assert not np.array_equal(model_arrays(whole)["prior.W"], model_arrays(forgetful)["prior.W"])


def test_only_the_latest_checkpoint_stays_and_damage_is_named(tmp_path: Path) -> None:
    settings = Settings(2, rounds=3, tol=None)
    job, read = centers(settings)
    layout, those = job.schema.layout, participants(read)

    def write_each(progress: Progress) -> None:
        checkpoints = Checkpoints(tmp_path, layout, lambda: states(those))
        checkpoints.note(progress)
        checkpoints.close()

    fit_participants(job, those, on_round=write_each)
    path = latest(tmp_path, "round")
    assert path is not None
    assert [found.name for found in tmp_path.iterdir()] == [path.name]
    assert path.name.startswith("round-000003-")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(UserError, match=f"{path.name}: its checksum is wrong"):
        load_snapshot(tmp_path, layout)


def test_checkpoints_are_written_about_twice_a_second_unless_they_are_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a clock of our own: rounds of 0.1 s; a write that takes 0.2 s may come every 4 s and no sooner."""
    clock = [0.0]
    monkeypatch.setattr(checkpoint, "perf_counter", lambda: clock[0])
    settings = Settings(2, rounds=1, tol=None)
    job, read = centers(settings)
    those = participants(read)
    progress = fit_participants(job, those).progress
    for cost, most, least in ((0.0, 20, 15), (0.2, 3, 2)):
        clock[0] = 0.0
        written: list[float] = []

        def write(_: Snapshot, cost: float = cost, written: list[float] = written) -> float:
            written.append(clock[0])
            return cost

        checkpoints = Checkpoints(tmp_path, job.schema.layout, lambda: states(those))
        monkeypatch.setattr(checkpoints, "_write", write)
        for _ in range(100):
            clock[0] += 0.1
            checkpoints.note(progress)
            if checkpoints._pending is not None:
                checkpoints._pending.result()
        assert least <= len(written) <= most, written
        monkeypatch.setattr(checkpoints, "_last", None)
        checkpoints.close()
