"""The run folder: the same bits back, damage noticed, later formats refused, old ones read for ever."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from vedute import FederatedPPCA, UserError
from vedute.datasets import make_sd
from vedute.run import run_folder
from vedute.run.run_folder import CHECKSUMS, Stage, load_run, read_checksums, stage, write_checksums
from vedute.run.settings import Settings
from vedute.scenarios import split

ARCHIVE = Path(__file__).parents[1] / "archive"


def fitted(scaling: str | None = "shared-standard", preset: str = "default") -> FederatedPPCA:
    views, groups = make_sd(60, 30, sizes=(4, 3, 3), n_components=2, random_state=0)
    centers, _ = split(views, groups, 3, "K", random_state=0)
    return FederatedPPCA(2, rounds=4, tol=None, scaling=scaling, preset=preset, random_state=3).fit(centers)


@pytest.mark.parametrize(
    ("scaling", "preset"), [("shared-standard", "default"), ("center-minmax", "paper"), (None, "default")]
)
def test_a_saved_model_comes_back_bit_by_bit(tmp_path: Path, scaling: str | None, preset: str) -> None:
    before = fitted(scaling, preset)
    before.save(tmp_path / "run")
    after = FederatedPPCA.load(tmp_path / "run")
    assert after.get_params() == before.get_params()
    assert after.history_ == before.history_
    if preset == "paper":  # which takes no last correction: the last round made the prior
        assert after.history_[-1]["spreads"] == after.prior_.spreads
    assert after.converged_ == before.converged_
    assert after.prior_.tau2 == before.prior_.tau2
    for name, view in before.prior_.views.items():
        other = after.prior_.views[name]
        assert all(np.array_equal(getattr(view, part), getattr(other, part)) for part in vars(view))
    assert list(after.centers_) == list(before.centers_)
    for name, center in before.centers_.items():
        assert list(after.centers_[name].views) == list(center.views)
        assert np.array_equal(after.centers_[name].m, center.m)
        for view, params in center.views.items():
            other = after.centers_[name].views[view]
            assert all(np.array_equal(getattr(params, part), getattr(other, part)) for part in vars(params))
        rows = {view: np.linspace(0, 1, 2 * len(p.mu)).reshape(2, -1) for view, p in center.views.items()}
        assert np.array_equal(before.transform(rows, center=name), after.transform(rows, center=name))


def test_saving_twice_gives_the_same_files(tmp_path: Path) -> None:
    model = fitted()
    model.save(tmp_path / "a")
    FederatedPPCA.load(tmp_path / "a").save(tmp_path / "b")
    assert read_checksums(tmp_path / "a") == read_checksums(tmp_path / "b")


def test_nothing_is_overwritten_unasked(tmp_path: Path) -> None:
    model = fitted()
    model.save(tmp_path / "run")
    with pytest.raises(UserError, match="overwrite=True"):
        model.save(tmp_path / "run")
    model.save(tmp_path / "run", overwrite=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.doc").write_text("years of work")
    with pytest.raises(UserError, match="not a run folder"):
        model.save(tmp_path / "other", overwrite=True)
    assert (tmp_path / "other" / "thesis.doc").read_text() == "years of work"


def test_a_flipped_byte_anywhere_is_told_with_the_name_of_its_file(tmp_path: Path) -> None:
    fitted().save(tmp_path / "run")
    rng = np.random.default_rng(0)
    for path in sorted((tmp_path / "run").iterdir()):
        whole = path.read_bytes()
        for position in rng.integers(len(whole), size=15):
            damaged = bytearray(whole)
            damaged[position] ^= 1 << rng.integers(8)
            path.write_bytes(damaged)
            with pytest.raises(UserError, match=f"{path.name}: (its checksum is wrong|was written by a newer)"):
                load_run(tmp_path / "run")
        path.write_bytes(whole)
    assert load_run(tmp_path / "run").converged is False


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    fitted().save(tmp_path / "run")
    (tmp_path / "run" / "history.jsonl").unlink()
    with pytest.raises(UserError, match=r"history\.jsonl: the file is missing"):
        load_run(tmp_path / "run")


@pytest.mark.parametrize("name", ["run.json", "model.json", CHECKSUMS])
def test_a_later_format_is_refused(tmp_path: Path, name: str) -> None:
    fitted().save(tmp_path / "run")
    path = tmp_path / "run" / name
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "format": run_folder.FORMAT + 1}))
    if name != CHECKSUMS:
        sums = read_checksums(tmp_path / "run") | {name: run_folder.sha256_of(path)}
        write_checksums(tmp_path / "run", sums)
    with pytest.raises(UserError, match=r"newer vedute.*upgrade"):
        FederatedPPCA.load(tmp_path / "run")


def test_format_1_stays_readable() -> None:
    model = FederatedPPCA.load(ARCHIVE / "run-format-1")
    told = json.loads((ARCHIVE / "run-format-1.expected.json").read_text())
    assert set(model.centers_) == set(told["centers"])
    latent = model.transform({view: np.array(rows) for view, rows in told["rows"].items()}, center=told["center"])
    np.testing.assert_allclose(latent, told["latent"], rtol=1e-10)


def test_stages_of_a_folder(tmp_path: Path) -> None:
    run = tmp_path / "run"
    model = fitted()
    assert stage(run) is Stage.NEW
    run.mkdir()
    assert stage(run) is Stage.NEW
    run_folder.begin(run, "[study]", model.model_.settings)
    assert stage(run) is Stage.INTERRUPTED
    with pytest.raises(UserError, match=r"has not ended.*--resume"):
        load_run(run)
    run_folder.finish(run, run_folder.Run(model.model_, (), True))
    assert stage(run) is Stage.FINISHED


def test_two_processes_do_not_write_to_one_folder(tmp_path: Path) -> None:
    with run_folder.opened(tmp_path / "run"):
        with pytest.raises(UserError, match="another process"), run_folder.opened(tmp_path / "run"):
            pass
        assert (tmp_path / "run").exists()
    assert not (tmp_path / "run").exists()  # nothing was written, nothing stays


def test_nothing_tells_of_the_machine(tmp_path: Path) -> None:
    import getpass
    import socket

    fitted().save(tmp_path / "run")
    for path in (tmp_path / "run").glob("*.json*"):
        text = path.read_text()
        assert str(tmp_path) not in text
        assert socket.gethostname() not in text
        assert f'"{getpass.getuser()}"' not in text


def test_what_commands_added_goes_with_the_run_that_it_describes(tmp_path):
    """A refit with --force must not leave the ledger or the report of another model behind."""
    for name in ("ledger-nice.jsonl", "report.html", "selection.csv", "selection.png"):
        (tmp_path / name).write_text("of an earlier run")
    assert run_folder.stage(tmp_path) is run_folder.Stage.NEW
    run_folder.clear(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_begun_is_left_as_if_nothing_had_been_asked(tmp_path, monkeypatch):
    def full(folder, sums):
        raise UserError("the disk is full")

    monkeypatch.setattr(run_folder, "write_checksums", full)
    with pytest.raises(UserError, match="full"), run_folder.opened(tmp_path / "run"):
        run_folder.begin(tmp_path / "run", "[study]\n", Settings(2))
    assert list(tmp_path.iterdir()) == []
