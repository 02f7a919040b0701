"""Checkpoints: snapshots and statistics come back bit by bit, and writing them is paced."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vedute import UserError
from vedute.datasets import make_sd
from vedute.model.schema import Layout
from vedute.run import checkpoint
from vedute.run.checkpoint import Checkpoints, Snapshot, latest, load_read, load_snapshot, save_read
from vedute.run.fitting import Folded, Ready, conclude, fold, prepare, run
from vedute.run.loop import Progress
from vedute.run.model_file import model_arrays
from vedute.run.settings import Settings
from vedute.scenarios import split


def centers(settings: Settings, wide: bool = False, holes: bool = True) -> tuple[Layout, dict[str, Folded]]:
    views, groups = make_sd(90, 40, sizes=(300 if wide else 6, 4, 3), n_components=2, random_state=0)
    if holes:
        rng = np.random.default_rng(0)
        views = {name: np.where(rng.random(rows.shape) < 0.05, np.nan, rows) for name, rows in views.items()}
    dealt, _ = split(views, groups, 3, "K", random_state=0)
    layout = Layout(tuple(views), tuple(rows.shape[1] for rows in views.values()))
    return layout, fold(layout, dealt, settings)


def snapshot(ready: Ready, progress: Progress) -> Snapshot:
    return Snapshot(progress, {c.name: c.state for c in ready.centers if c.state is not None})


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
    layout, read = centers(settings, **data)
    columns = {n: tuple(f"{n}{j}" for j in range(d)) for n, d in zip(layout.names, layout.sizes, strict=True)}
    save_read(tmp_path, columns, read, ["origin", 1])
    ready = prepare(layout, read, settings)
    checkpoints = Checkpoints(tmp_path, layout)

    def stop_after_5(progress: Progress) -> None:
        if len(progress.history) <= 5:
            checkpoints.note(snapshot(ready, progress))

    whole = conclude(ready, run(ready, settings, on_round=stop_after_5), settings, columns)
    checkpoints.close()

    loaded = load_read(tmp_path)
    assert loaded is not None
    assert loaded[0] == columns
    assert loaded[2] == ["origin", 1]
    again = prepare(layout, loaded[1], settings)
    found = load_snapshot(tmp_path, layout)
    assert found is not None
    assert len(found.progress.history) == 5
    assert found.progress.history[-1].spreads == found.progress.prior.spreads
    for center in again.centers:
        center.state = found.states[center.name]
    resumed = conclude(again, run(again, settings, resume=found.progress), settings, columns)
    one, other = model_arrays(whole), model_arrays(resumed)
    assert all(np.array_equal(one[name], other[name], equal_nan=True) for name in one)


def test_without_the_states_of_the_centers_the_bits_would_differ(tmp_path: Path) -> None:
    """The comparison above can fail: a run that forgets what the centers keep at home ends elsewhere."""
    settings = Settings(2, rounds=9, tol=None, seed=4)
    layout, read = centers(settings)
    columns = {n: tuple(f"{n}{j}" for j in range(d)) for n, d in zip(layout.names, layout.sizes, strict=True)}
    kept: list[Progress] = []
    ready = prepare(layout, read, settings)
    whole = conclude(ready, run(ready, settings, on_round=kept.append), settings, columns)
    again = prepare(layout, read, settings)
    forgetful = conclude(again, run(again, settings, resume=kept[4]), settings, columns)
    assert not np.array_equal(model_arrays(whole)["prior.W"], model_arrays(forgetful)["prior.W"])


def test_only_the_latest_checkpoint_stays_and_damage_is_named(tmp_path: Path) -> None:
    settings = Settings(2, rounds=3, tol=None)
    layout, read = centers(settings)
    ready = prepare(layout, read, settings)

    def write_each(progress: Progress) -> None:
        checkpoints = Checkpoints(tmp_path, layout)
        checkpoints.note(snapshot(ready, progress))
        checkpoints.close()

    run(ready, settings, on_round=write_each)
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
    layout, read = centers(settings)
    ready = prepare(layout, read, settings)
    progress = run(ready, settings)
    for cost, most, least in ((0.0, 20, 15), (0.2, 3, 2)):
        clock[0] = 0.0
        written: list[float] = []

        def write(_: Snapshot, cost: float = cost, written: list[float] = written) -> float:
            written.append(clock[0])
            return cost

        checkpoints = Checkpoints(tmp_path, layout)
        monkeypatch.setattr(checkpoints, "_write", write)
        for _ in range(100):
            clock[0] += 0.1
            checkpoints.note(snapshot(ready, progress))
            if checkpoints._pending is not None:
                checkpoints._pending.result()
        assert least <= len(written) <= most, written
        monkeypatch.setattr(checkpoints, "_last", None)
        checkpoints.close()
