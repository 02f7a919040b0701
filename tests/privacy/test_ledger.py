"""The ledger: paid before sent, never overspent, never forgotten."""

import json
import math
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ledgers import read_ledger
from vedute.errors import DataWarning, UserError
from vedute.privacy import hash_chain
from vedute.privacy.accounting import Budget, noise_multiplier
from vedute.privacy.ledger import Ledger, open_ledger
from vedute.privacy.release import CENTER, SUBJECT, Event, Gaussian, NonPrivate, Release, digest

BUDGET = Budget(3.0, 1e-5)
HALF = Gaussian(1.0, noise_multiplier(3.0, 1e-5, 2), SUBJECT)


def making(*events: Event, value: float = 1.0) -> Callable[[], Release]:
    return lambda: Release({"x": np.array([value, math.pi])}, events or (HALF,), "subject", {"n": 7})


def forbidden() -> Release:
    raise AssertionError("the ledger holds this release already")


def two_entries(path: Path) -> Ledger:
    ledger = Ledger("nice", "data", path)
    ledger.release("a", "q", making(value=1.0), BUDGET, SUBJECT)
    ledger.release("b", "q", making(value=2.0), BUDGET, SUBJECT)
    return ledger


@pytest.mark.parametrize("on_disk", [True, False])
def test_a_budget_is_spent_to_the_end_and_not_further(tmp_path: Path, on_disk: bool) -> None:
    ledger = two_entries(tmp_path / "l.jsonl") if on_disk else Ledger("nice", "data")
    if not on_disk:
        ledger.release("a", "q", making(value=1.0), BUDGET, SUBJECT)
        ledger.release("b", "q", making(value=2.0), BUDGET, SUBJECT)
    assert ledger.spent(1e-5, SUBJECT) == pytest.approx(3.0, rel=1e-6)
    with pytest.raises(UserError, match=r"would exceed the promise eps = 3.*eps = 3 is already spent"):
        ledger.release("c", "q", making(), BUDGET, SUBJECT)
    assert [entry.key for entry in ledger.entries()] == ["a", "b"]


def test_a_resumed_run_sends_the_same_release_and_pays_nothing(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    two_entries(path)
    again = Ledger("nice", "data", path).release("a", "q", forbidden, BUDGET, SUBJECT)
    assert np.array_equal(again.values["x"], [1.0, math.pi])
    assert (again.events, again.public, again.policy) == ((HALF,), {"n": 7}, "subject")


def test_another_question_under_the_same_name_is_a_new_release(tmp_path: Path) -> None:
    ledger = Ledger("nice", "data", tmp_path / "l.jsonl")
    first = ledger.release("a", digest({"B": 1.0}), making(value=1.0), BUDGET, SUBJECT)
    other = ledger.release("a", digest({"B": 2.0}), making(value=2.0), BUDGET, SUBJECT)
    assert first.values["x"][0] != other.values["x"][0]
    assert len(ledger.entries()) == 2


def test_a_second_run_on_the_same_data_continues_the_ledger(tmp_path: Path) -> None:
    first = open_ledger(tmp_path, "a/b: ../c", "f" * 64)
    first.release("run 1", "q", making(), BUDGET, SUBJECT)
    second = open_ledger(tmp_path, "a/b: ../c", "f" * 64)
    assert second.spent(1e-5, SUBJECT) > 1
    assert second.path is not None
    assert second.path.parent.parent == tmp_path
    with pytest.warns(DataWarning, match="other data"):
        open_ledger(tmp_path, "a/b: ../c", "e" * 64)


def test_two_open_ledgers_on_one_file_see_each_other(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    one, two = Ledger("nice", "data", path), Ledger("nice", "data", path)
    one.release("a", "q", making(), BUDGET, SUBJECT)
    two.release("b", "q", making(), BUDGET, SUBJECT)
    with pytest.raises(UserError, match="exceed"):
        one.release("c", "q", making(), BUDGET, SUBJECT)


@pytest.mark.parametrize("kept", [0, 1])
def test_a_ledger_put_back_while_in_use_releases_nothing_more(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "l.jsonl"
    ledger = Ledger("nice", "data", path)
    saved = {}
    for key in ("a", "b")[: kept + 1]:
        saved = {file: file.read_bytes() for file in (path, path.with_suffix(".head")) if file.exists()}
        ledger.release(key, "q", making(), BUDGET, SUBJECT)
    for file in (path, path.with_suffix(".head")):
        file.write_bytes(saved[file]) if file in saved else file.unlink()
    for ask in (lambda: ledger.release("c", "q", making(), BUDGET, SUBJECT), lambda: ledger.spent(1e-5, SUBJECT)):
        with pytest.raises(UserError, match="put back to an earlier state while it was in use"):
            ask()


def test_a_forged_ledger_of_the_same_length_is_met_while_in_use(tmp_path: Path) -> None:
    ledger, other = two_entries(tmp_path / "l.jsonl"), Ledger("nice", "data", tmp_path / "other.jsonl")
    for key in ("a", "x"):
        other.release(key, "q", making(), BUDGET, SUBJECT)
    for suffix in (".jsonl", ".head"):
        os.replace(tmp_path / f"other{suffix}", tmp_path / f"l{suffix}")
    with pytest.raises(UserError, match="put back to an earlier state while it was in use"):
        ledger.entries()


@pytest.mark.parametrize("on_disk", [True, False])
def test_a_repeat_is_answered_from_what_was_written(tmp_path: Path, on_disk: bool) -> None:
    ledger = Ledger("nice", "data", tmp_path / "l.jsonl" if on_disk else None)
    left = ledger.release("a", "q", making(value=5.0), BUDGET, SUBJECT)
    left.values["x"] = np.array([99.0, 0.0])
    assert ledger.release("a", "q", forbidden, BUDGET, SUBJECT).values["x"].tolist() == [5.0, math.pi]


def test_lines_are_readable_json_and_show_what_matters(tmp_path: Path) -> None:
    two_entries(tmp_path / "l.jsonl")
    header, first, second = [json.loads(text) for text in (tmp_path / "l.jsonl").read_text().splitlines()]
    assert header["center"] == "nice"
    assert first["release"]["events"][0]["kind"] == "Gaussian"
    assert first["budget"] == {"epsilon": 3.0, "delta": 1e-5}
    assert second["spent_epsilon"] == pytest.approx(3.0)


def test_after_a_raw_release_no_promise_can_be_kept(tmp_path: Path) -> None:
    ledger = Ledger("nice", "data", tmp_path / "l.jsonl")
    ledger.release("raw", "q", making(NonPrivate("round 1 as published")), None, CENTER)
    assert json.loads((tmp_path / "l.jsonl").read_text().splitlines()[1])["spent_epsilon"] == "infinity"
    assert ledger.spent(1e-5, CENTER) == math.inf
    with pytest.raises(UserError, match=r"not private \(round 1 as published\)"):
        ledger.release("a", "q", making(), BUDGET, SUBJECT)


def test_seeded_noise_is_labelled_counts_nominally_and_spoils_the_ledger(tmp_path: Path) -> None:
    seeded = Gaussian(HALF.sensitivity, HALF.std, SUBJECT, seeded=True)
    ledger = Ledger("nice", "data", tmp_path / "l.jsonl")
    ledger.release("a", "q", making(seeded), BUDGET, SUBJECT)
    assert "NOT PRIVATE" in (tmp_path / "l.jsonl").read_text()
    ledger.release("b", "q", making(seeded), BUDGET, SUBJECT)
    with pytest.raises(UserError, match="exceed"):
        ledger.release("c", "q", making(seeded), BUDGET, SUBJECT)
    with pytest.raises(UserError, match="seeded noise"):
        ledger.release("d", "q", making(), Budget(100.0, 1e-5), SUBJECT)


def test_a_copy_reads_as_the_original(tmp_path: Path) -> None:
    ledger = two_entries(tmp_path / "l.jsonl")
    ledger.copy_to(tmp_path / "copy.jsonl")
    assert (tmp_path / "copy.jsonl").read_bytes() == (tmp_path / "l.jsonl").read_bytes()
    assert [entry.key for entry in read_ledger(tmp_path / "copy.jsonl")] == ["a", "b"]
    memory = Ledger("nice", "data")
    memory.release("a", "q", making(), BUDGET, SUBJECT)
    memory.copy_to(tmp_path / "memory.jsonl")
    assert [entry.key for entry in read_ledger(tmp_path / "memory.jsonl")] == ["a"]


def test_every_cut_is_an_error_unless_the_value_never_left(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    ledger = Ledger("nice", "data", path)
    ledger.release("a", "q", making(), BUDGET, SUBJECT)
    after_one = path.read_bytes(), path.with_suffix(".head").read_bytes()
    ledger.release("b", "q", making(), BUDGET, SUBJECT)
    whole = path.read_bytes()
    between_lines = [at + 1 for at, byte in enumerate(whole[:-1]) if byte == ord("\n")]
    for cut in [0, *between_lines, *range(1, len(whole), 7)]:
        path.write_bytes(whole[:cut])
        with pytest.raises(UserError, match=r"cut|edited|damaged"):
            Ledger("nice", "data", path)
    # Killed while the second line was being written: the head does not know it, so it never left.
    path.with_suffix(".head").write_bytes(after_one[1])
    for cut in range(len(after_one[0]), len(whole), 7):
        path.write_bytes(whole[:cut])
        reopened = Ledger("nice", "data", path)
        assert [entry.key for entry in reopened.entries()] == ["a"]
        reopened.release("b2", "q", making(value=3.0), BUDGET, SUBJECT)
        assert [entry.key for entry in Ledger("nice", "data", path).entries()] == ["a", "b2"]
        path.with_suffix(".head").write_bytes(after_one[1])
    # Killed between the line and the head: the line stands and is spent.
    path.write_bytes(whole)
    assert [entry.key for entry in Ledger("nice", "data", path).entries()] == ["a", "b"]


def test_every_edit_is_found(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    two_entries(path)
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    edits = [whole.replace(b'"std": ', b'"std": 1', 1), b"".join([lines[0], lines[2]]), lines[1] + lines[2]]
    edits += [
        whole.replace(b'"nice"', b'"nine"'),
        b"not json\n" + whole,
        b"".join([lines[0], lines[2], lines[1]]),
    ]
    edits += [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(0, len(whole), 11)]
    for edited in edits:
        path.write_bytes(edited)
        with pytest.raises(UserError, match=r"l\.jsonl"):
            Ledger("nice", "data", path)


def test_a_rewritten_chain_does_not_fit_its_head(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    two_entries(path)
    records = [json.loads(text) for text in path.read_text().splitlines()]
    forged = hash_chain.Chain()
    for record in records:
        record = {name: value for name, value in record.items() if name not in ("hash", "previous")}
        record["forged"] = True
        forged = hash_chain.Chain((*forged.records, forged.sealed(record)))
    path.write_bytes(b"".join(hash_chain.line(record) for record in forged.records))
    with pytest.raises(UserError, match="head knows"):
        Ledger("nice", "data", path)


@pytest.mark.parametrize("head", [None, b"", b"[]", b'{"lines": 1}'])
def test_a_lost_or_damaged_head_is_an_error(tmp_path: Path, head: bytes | None) -> None:
    path = tmp_path / "l.jsonl"
    two_entries(path)
    path.with_suffix(".head").unlink()
    if head is not None:
        path.with_suffix(".head").write_bytes(head)
    with pytest.raises(UserError, match="cannot be checked"):
        Ledger("nice", "data", path)


def test_a_ledger_of_other_data_is_refused(tmp_path: Path) -> None:
    two_entries(tmp_path / "l.jsonl")
    with pytest.raises(UserError, match="another center"):
        Ledger("paris", "data", tmp_path / "l.jsonl")
    with pytest.raises(UserError, match="other data"):
        Ledger("nice", "other", tmp_path / "l.jsonl")


def test_all_is_on_disk_before_the_value_is_handed_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, synced = tmp_path / "l.jsonl", []
    real = os.fsync

    def spy(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}") if sys.platform == "linux" else str(path))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    ledger = Ledger("nice", "data", path)
    release = ledger.release("a", "q", making(), BUDGET, SUBJECT)
    # What a reader finds on the disk now is all there is: the line with these very values, and its head.
    assert np.array_equal(Ledger("nice", "data", path).entries()[0].release.values["x"], release.values["x"])
    assert json.loads(path.with_suffix(".head").read_text())["lines"] == 2
    assert synced.count(str(path)) >= 2


def test_a_failing_disk_hands_out_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger("nice", "data", tmp_path / "l.jsonl")

    def broken(descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="disk full"):
        ledger.release("a", "q", making(), BUDGET, SUBJECT)


def test_a_run_killed_while_the_line_is_written_can_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "l.jsonl"
    ledger = Ledger("nice", "data", path)
    ledger.release("a", "q", making(), BUDGET, SUBJECT)
    real = os.fsync

    def dies_on_the_ledger(descriptor: int) -> None:
        if os.fstat(descriptor).st_ino == path.stat().st_ino:
            path.write_bytes(path.read_bytes()[:-20])  # half a line is all that reached the disk
            raise OSError("killed")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", dies_on_the_ledger)
    with pytest.raises(OSError, match="killed"):
        ledger.release("b", "q", making(), BUDGET, SUBJECT)
    monkeypatch.undo()
    reopened = Ledger("nice", "data", path)
    assert [entry.key for entry in reopened.entries()] == ["a"]
    reopened.release("b", "q", making(), BUDGET, SUBJECT)
    assert [entry.key for entry in Ledger("nice", "data", path).entries()] == ["a", "b"]


SENDER = """
    import sys
    from pathlib import Path
    import numpy as np
    from vedute.privacy.accounting import Budget
    from vedute.privacy.release import SUBJECT, Gaussian
    from vedute.privacy.ledger import Ledger
    from vedute.privacy.release import Release
    ledger = Ledger("nice", "data", Path(sys.argv[1]))
    for i in range(10_000):
        make = lambda: Release({"x": np.full(200, float(i))}, (Gaussian(1.0, 1e4, SUBJECT),), "subject")
        ledger.release(f"round {i}", "q", make, Budget(3.0, 1e-5), SUBJECT)
        print(f"round {i}", flush=True)
"""


WRITER = SENDER.replace("range(10_000)", "range(25)").replace('f"round {i}"', 'f"{sys.argv[2]} {i}"')


def test_two_processes_share_a_ledger_without_losing_a_line(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    commands = [[sys.executable, "-c", textwrap.dedent(WRITER), str(path), name] for name in ("one", "two")]
    writers = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for command in commands]
    for writer in writers:
        _, complaints = writer.communicate()
        assert (writer.returncode, complaints) == (0, b"")
    kept = [entry.key for entry in Ledger("nice", "data", path).entries()]
    assert sorted(kept) == sorted(f"{name} {i}" for name in ("one", "two") for i in range(25))


@pytest.mark.parametrize("kill_after", [1, 6])
def test_what_was_sent_before_kill_9_is_in_the_ledger(tmp_path: Path, kill_after: int) -> None:
    path = tmp_path / "l.jsonl"
    command = [sys.executable, "-c", textwrap.dedent(SENDER), str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        sent = [process.stdout.readline().strip() for _ in range(kill_after)]
        process.send_signal(signal.SIGKILL)
        sent += [text.strip() for text in process.stdout.readlines() if text.endswith("\n")]
    kept = [entry.key for entry in Ledger("nice", "data", path).entries()]
    assert len(sent) >= kill_after
    assert kept[: len(sent)] == sent
    assert len(kept) <= len(sent) + 1
