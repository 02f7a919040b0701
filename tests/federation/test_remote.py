"""Runs whose centers are elsewhere, without an engine: bytes go from the server to the sites and back."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load, save

from hospitals import CENTERS, as_one_study, make_hospitals, with_other_rows
from ledgers import read_ledger
from participation import same_prior, with_participation
from vedute import FederatedPPCA
from vedute.cli.app import run
from vedute.data.study import Study
from vedute.errors import BreakdownError, Refused, UserError
from vedute.federation.messages import META, encode_request
from vedute.federation.messages import Request as Asked
from vedute.federation.remote import RemoteRun, SilentCenters, TooFewCenters, fit_remote
from vedute.federation.site import Site
from vedute.model.contribution import pack, unpack
from vedute.model.parameters import Layout
from vedute.privacy.accounting import spent_epsilon
from vedute.privacy.policies import CenterPrivacy, PaperPrivacy, SubjectPrivacy
from vedute.run.fitted_model import prior_arrays
from vedute.run.run_folder import load_run
from vedute.run.server import starting_prior
from vedute.run.settings import Settings
from vedute.run.study_fit import Request, Watch, fit_study

RUN = "0123456789abcdef" * 2
SETTINGS = Settings(3, rounds=8, tol=None, iterations=4, first_iterations=6)
SILENT = Watch(lambda settings, done: None, lambda progress: None)


class Hospitals:
    """Sites in this process; ``absent`` tells who does not answer which round, ``refusing`` who may refuse to."""

    def __init__(self, folder: Path, **study: str) -> None:
        self.folder = folder
        self.shared, self.nodes = make_hospitals(folder, **study)
        self.study = Study.load_shared(self.shared)
        self.absent: dict[str, set[int]] = {}
        self.lost: dict[str, set[int]] = {}  # rounds whose answer was given and did not arrive
        self.refusing: set[str] = set()  # as across machines, that is heard as silence
        self.messages: list[bytes] = []
        self.said: list[str] = []
        self.told: dict[str, list[str]] = {center: [] for center in CENTERS}  # at home
        self.round = 0
        self.start()

    def start(self) -> None:
        self.sites = {
            center: Site(Study.load_node(self.shared, node), self.folder / "home" / center, self.told[center].append)
            for center, node in self.nodes.items()
        }

    def ask(self, data: bytes, centers: list[str]) -> dict[str, bytes]:
        self.messages.append(data)
        self.round += b'"step": "round"' in data
        found = {}
        for center in centers:
            if self.round in self.absent.get(center, ()) and b'"step": "round"' in data:
                continue
            try:
                reply = self.sites[center].respond(data)
            except Refused:
                if center not in self.refusing:
                    raise
                continue
            if self.round in self.lost.get(center, ()) and b'"step": "round"' in data:
                continue
            found[center] = reply or b""
            self.messages.append(found[center])
        return found

    def job(self, settings: Settings = SETTINGS, centers: tuple[str, ...] = CENTERS) -> RemoteRun:
        return RemoteRun(self.study, settings, RUN, self.folder / "run", centers)

    def run(self, settings: Settings = SETTINGS, on_round=lambda progress: None, centers=CENTERS):
        return fit_remote(self.job(settings, centers), self.ask, self.said.append, on_round)


@pytest.fixture
def hospitals(tmp_path):
    return Hospitals(tmp_path)


def in_one_process(hospitals: Hospitals, settings: Settings):
    whole = Study.load(as_one_study(hospitals.shared, hospitals.nodes))
    given = {name: getattr(settings, name) for name in vars(settings)}
    return fit_study(whole, hospitals.folder / "one", Request(given), SILENT)


@pytest.mark.parametrize(
    "scaling", ["shared-standard", "shared-view", "shared-minmax", "center-minmax", "declared", None]
)
def test_same_bits_as_in_one_process(tmp_path, scaling):
    hospitals = Hospitals(tmp_path, federation=f'scaling = "{scaling or "none"}"\nlargest_sd = 1e6')
    settings = replace(SETTINGS, scaling=scaling)
    found, expected = hospitals.run(settings), in_one_process(hospitals, settings)
    same_prior(found.model.prior, expected.model.prior)
    assert set(found.model.centers) == set(CENTERS)
    for center in CENTERS:
        mine, theirs = found.model.centers[center], expected.model.centers[center]
        np.testing.assert_array_equal(mine.m, theirs.m)
        for view in theirs.views:
            np.testing.assert_array_equal(mine.views[view].W, theirs.views[view].W)
            assert mine.views[view].sigma2 == theirs.views[view].sigma2
    at_home = load_run(tmp_path / "home" / "nice" / "runs" / RUN / "model").model
    same_prior(at_home.prior, expected.model.prior)
    at_the_server = FederatedPPCA.load(tmp_path / "run")
    assert bool(at_the_server.scaler_) == (scaling != "center-minmax")  # hospitals keep scalings of their own
    latent = (tmp_path / "home" / "nice" / "runs" / RUN / "model" / "local" / "nice" / "latent.csv").read_text()
    assert latent == (tmp_path / "one" / "local" / "nice" / "latent.csv").read_text()


def test_a_hospital_uses_its_model_with_its_node_file(hospitals, tmp_path):
    hospitals.run()
    model = tmp_path / "home" / "nice" / "runs" / RUN / "model"
    node = hospitals.nodes["nice"]
    for command in ("project", "impute", "harmonise", "score"):
        assert run([command, str(model), str(node), "--out", str(tmp_path / f"{command}.csv")]) == 0
    projected = pd.read_csv(tmp_path / "project.csv")
    kept = pd.read_csv(model / "local" / "nice" / "latent.csv")
    np.testing.assert_array_equal(projected["component1"], kept["component1"])
    assert run(["report", str(model), "--out", str(tmp_path / "report.html")]) == 0
    assert run(["report", str(tmp_path / "run"), "--out", str(tmp_path / "server.html")]) == 0


def test_the_paper_preset_too(hospitals):
    settings = replace(SETTINGS, preset="paper")
    same_prior(hospitals.run(settings).model.prior, in_one_process(hospitals, settings).model.prior)


class Died(Exception):
    pass


@pytest.mark.parametrize("last", [1, 2, 5, 7])
def test_a_server_that_died_goes_on_with_the_same_bits(hospitals, tmp_path, last):
    def die(progress):
        if len(progress.history) == last:
            raise Died

    with pytest.raises(Died):
        hospitals.run(on_round=die)
    hospitals.start()  # the sites lose their memory too
    found = hospitals.run()
    same_prior(found.model.prior, in_one_process(hospitals, SETTINGS).model.prior)
    assert [record.round for record in found.history] == list(range(1, 9))


def test_a_round_that_is_asked_twice_gets_the_same_answer(hospitals):
    ask = hospitals.ask

    def twice(data, centers):
        first = ask(data, centers)
        hospitals.start()
        assert first == ask(data, centers)
        return first

    hospitals.ask = twice
    same_prior(hospitals.run().model.prior, in_one_process(hospitals, SETTINGS).model.prior)


def test_an_answer_that_was_lost_does_not_count(hospitals):
    """Zurich answers round 3, in vain; the others complete it, and zurich is back for round 4."""
    hospitals.lost = {"zurich": {3}}
    with pytest.raises(SilentCenters, match="zurich"):
        hospitals.run()

    def die(progress):
        if len(progress.history) == 3:
            raise Died

    with pytest.raises(Died):
        hospitals.run(on_round=die, centers=("nice", "paris"))
    found = hospitals.run()
    present = [record.centers for record in found.history]
    assert [len(names) for names in present] == [3, 3, 2, 3, 3, 3, 3, 3]
    expected = with_participation(hospitals.shared, hospitals.nodes, SETTINGS, present)
    same_prior(found.model.prior, expected.prior)


@pytest.mark.parametrize("fault", ["absent", "lost"])
def test_participation_decides_the_model_whatever_the_reason(hospitals, fault):
    """Zurich falls silent in round 3 and is asked again in a new job from round 6 on: it then begins at the prior."""
    setattr(hospitals, fault, {"zurich": {3}})
    with pytest.raises(SilentCenters, match="zurich"):
        hospitals.run()

    def die(progress):
        if len(progress.history) == 5:
            raise Died

    with pytest.raises(Died):
        hospitals.run(on_round=die, centers=("nice", "paris"))
    found = hospitals.run()
    assert [len(record.centers) for record in found.history] == [3, 3, 2, 2, 2, 3, 3, 3]
    present = [record.centers for record in found.history]
    expected = with_participation(hospitals.shared, hospitals.nodes, SETTINGS, present)
    same_prior(found.model.prior, expected.prior)


def test_too_few_centers_stop_the_run_and_more_let_it_go_on(hospitals):
    with pytest.raises(TooFewCenters, match="needs 2"):
        hospitals.run(centers=("zurich",))
    found = hospitals.run()
    same_prior(found.model.prior, in_one_process(hospitals, SETTINGS).model.prior)


@pytest.mark.parametrize("scaling", ["shared-standard", "shared-minmax", "declared", None])
def test_a_view_that_no_center_holds_stops_the_run_before_it_begins(tmp_path, scaling):
    hospitals = Hospitals(tmp_path, federation=f'scaling = "{scaling or "none"}"\nlargest_sd = 1e6')
    ghost = '[views.GHOST]\ncolumns = ["a", "b"]\nranges = { a = [0, 1], b = [0, 1] }\n[federation]'
    hospitals.shared.write_text(hospitals.shared.read_text().replace("[federation]", ghost))
    hospitals.study = Study.load_shared(hospitals.shared)
    hospitals.start()
    with pytest.raises(UserError, match="view 'GHOST': none of the centers 'nice', 'paris', 'zurich' holds it"):
        hospitals.run(replace(SETTINGS, scaling=scaling))
    assert len(hospitals.messages) == 4  # one question, three answers


def test_a_finished_run_is_only_looked_at(hospitals):
    first = hospitals.run()
    asked = len(hospitals.messages)
    same_prior(hospitals.run().model.prior, first.model.prior)
    assert len(hospitals.messages) == asked


PRIVATE = {
    "subject": (SubjectPrivacy(50.0, 1e-5), 'policy = "subject"\nepsilon = 50.0\ndelta = 1e-5', "shared-standard"),
    "center": (CenterPrivacy(80.0, 1e-5), 'policy = "center"\nepsilon = 80.0\ndelta = 1e-5', "declared"),
    "paper": (PaperPrivacy(20.0, 0.01, first_round="public"),
              'policy = "paper"\nepsilon = 20.0\ndelta = 0.01\nfirst_round = "public"', "declared"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", PRIVATE)
def test_private_runs_spend_once_whoever_dies(tmp_path, kind):
    policy, table, scaling = PRIVATE[kind]
    hospitals = Hospitals(tmp_path, federation=f'scaling = "{scaling}"', privacy=table, n=600)
    preset = "paper" if kind == "paper" else "default"
    settings = replace(SETTINGS, scaling=scaling, preset=preset, privacy=policy.table())

    def die(progress):
        if len(progress.history) == 3:
            raise Died

    with pytest.raises(Died):
        hospitals.run(settings, on_round=die)
    hospitals.start()
    found = hospitals.run(settings)
    assert np.isfinite(found.model.prior.views["view1"].W).all()
    assert len(found.history) == settings.rounds
    for center in CENTERS:
        (home,) = (tmp_path / "home" / center / "ledgers" / center).glob("ledger-*.jsonl")
        entries = read_ledger(home)
        expected = 1 if kind == "subject" else settings.rounds
        assert len(entries) == expected  # each release once, though it was asked for again
        copy = read_ledger(tmp_path / "run" / f"ledger-{center}.jsonl")
        assert [e.release.events for e in copy] == [e.release.events for e in entries]
        if kind != "paper":
            events = [event for entry in entries for event in entry.release.events]
            assert spent_epsilon(events, policy.delta, policy.relation) <= policy.epsilon * (1 + 1e-9)
    assert not found.model.centers or kind == "subject"


EVERY_POLICY = ("none", *PRIVATE)
OTHER_ROWS = f"the rows of center 'nice' are not those that run {RUN} began with"


def under(kind: str, folder: Path) -> tuple[Hospitals, Settings]:
    """Hospitals under a policy, of which nice may refuse, and the settings of a run."""
    if kind == "none":
        hospitals, settings = Hospitals(folder), SETTINGS
    else:
        policy, table, scaling = PRIVATE[kind]
        hospitals = Hospitals(folder, federation=f'scaling = "{scaling}"', privacy=table)
        preset = "paper" if kind == "paper" else "default"
        settings = replace(SETTINGS, scaling=scaling, preset=preset, privacy=policy.table())
    hospitals.refusing = {"nice"}
    return hospitals, settings


def kept(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("restarted", [False, True], ids=["awake", "restarted"])
@pytest.mark.parametrize("kind", EVERY_POLICY)
def test_rows_that_changed_before_the_end_leave_their_center_without_a_model(tmp_path, kind, restarted):
    hospitals, settings = under(kind, tmp_path)
    expected = in_one_process(hospitals, SETTINGS) if kind == "none" else None
    home, before = tmp_path / "home" / "nice", dict[str, bytes]()

    def change(progress):
        if len(progress.history) == settings.rounds:
            before.update(kept(home))
            with_other_rows(hospitals.nodes["nice"])
            if restarted:
                hospitals.start()

    found = hospitals.run(settings, on_round=change)
    assert [record.centers for record in found.history] == [CENTERS] * settings.rounds
    assert all(message.startswith(OTHER_ROWS) for message in hospitals.told["nice"])
    assert hospitals.told["nice"]
    assert kept(home) == before  # no model, nothing half-written, no ledger of other rows
    assert not (home / "runs" / RUN / "model").exists()
    for center in ("paris", "zurich"):
        assert not hospitals.told[center]
        load_run(tmp_path / "home" / center / "runs" / RUN / "model")
    if expected is None:  # where rows are hidden, their change is too
        assert hospitals.said == []
        assert kind == "subject" or not found.model.centers  # there the server computes them from what was released
    else:
        assert hospitals.said == ["center 'nice' did not hear the last prior; it has no model of this run at home"]
        assert set(found.model.centers) == {"paris", "zurich"}
        same_prior(found.model.prior, expected.model.prior)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", EVERY_POLICY)
def test_a_center_that_is_restarted_with_other_rows_is_left_behind(tmp_path, kind):
    """In round 3, or under a policy with one release, when that is asked for again."""
    hospitals, settings = under(kind, tmp_path)
    home = tmp_path / "home" / "nice"

    def die(progress):
        if len(progress.history) == 3:
            raise Died

    with pytest.raises(Died):
        hospitals.run(settings, on_round=die)
    before, rows = kept(home), kept(hospitals.nodes["nice"].parent)
    with_other_rows(hospitals.nodes["nice"])
    hospitals.start()
    asked = len(hospitals.messages)
    with pytest.raises(SilentCenters, match=r"^no answer from 'nice'$"):
        hospitals.run(settings)
    assert len(hospitals.messages) == asked + 3  # the question, and the answers of the two others
    (told,) = hospitals.told["nice"]
    assert told.startswith(OTHER_ROWS)
    assert kept(home) == before  # no state of the round, and no ledger with a fresh budget
    found = hospitals.run(settings, centers=("paris", "zurich"))
    for name, content in rows.items():
        (hospitals.nodes["nice"].parent / name).write_bytes(content)
    present = [record.centers for record in found.history]
    assert present == [("paris", "zurich") if kind == "subject" or r > 3 else CENTERS for r in range(1, 9)]
    assert "nice" not in found.model.centers
    if kind == "none":
        expected = with_participation(hospitals.shared, hospitals.nodes, settings, present)
        same_prior(found.model.prior, expected.prior)


def test_a_center_whose_rows_are_brought_back_goes_on(hospitals):
    node = hospitals.nodes["nice"]

    def die(progress):
        if len(progress.history) == 3:
            raise Died

    with pytest.raises(Died):
        hospitals.run(on_round=die)
    rows = kept(node.parent)
    with_other_rows(node)
    hospitals.start()
    hospitals.refusing = {"nice"}
    with pytest.raises(SilentCenters, match="nice"):
        hospitals.run()
    for name, content in rows.items():
        (node.parent / name).write_bytes(content)
    found = hospitals.run()
    same_prior(found.model.prior, in_one_process(hospitals, SETTINGS).model.prior)
    assert set(found.model.centers) == set(CENTERS)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"rounds": 101}, "allows 100"),
        ({"scaling": "shared-minmax"}, "scaling"),
        ({"iterations": 20_000}, "iterations"),
        ({"n_components": 33}, "n_components"),
        ({"privacy": {"policy": "subject", "epsilon": 1.0, "delta": 1e-5}}, "refuses"),
    ],
)  # fmt: skip
def test_a_center_refuses_what_it_did_not_agree_to(hospitals, change, why):
    asked = RemoteRun(hospitals.study, replace(SETTINGS, **change), RUN, hospitals.folder / "run", CENTERS)
    with pytest.raises(Refused, match=why):
        fit_remote(asked, hospitals.ask, hospitals.said.append, lambda progress: None)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_center_refuses_a_weaker_policy_and_more_rounds_than_its_budget_pays(tmp_path):
    _, table, scaling = PRIVATE["center"]
    hospitals = Hospitals(tmp_path, federation=f'scaling = "{scaling}"', privacy=table)
    settings = replace(SETTINGS, scaling=scaling)
    for weaker in (None, CenterPrivacy(81.0, 1e-5).table(), CenterPrivacy(80.0, 1e-4).table()):
        with pytest.raises(Refused, match="refuses"):
            hospitals.run(replace(settings, privacy=weaker))
    hospitals.run(replace(settings, privacy=CenterPrivacy(80.0, 1e-5).table()))
    other = replace(settings, seed=1, privacy=CenterPrivacy(80.0, 1e-5).table())
    with pytest.raises(UserError, match="exceed the promise"):
        fit_remote(replace(hospitals.job(other), name="f" * 32, folder=tmp_path / "again"), hospitals.ask, print, print)


def test_a_center_refuses_another_study(hospitals, tmp_path):
    other = Hospitals(tmp_path / "other", federation="rounds = 99")
    with pytest.raises(Refused, match="another study"):
        fit_remote(replace(hospitals.job(), study=other.study), hospitals.ask, print, lambda progress: None)


def test_a_run_keeps_its_settings(hospitals):
    hospitals.run()
    with pytest.raises(Refused, match="differ"):
        fit_remote(
            replace(hospitals.job(), settings=replace(SETTINGS, seed=5), folder=hospitals.folder / "b"),
            hospitals.ask, print, lambda progress: None,
        )  # fmt: skip


def test_nothing_of_the_rows_is_in_any_message_or_in_the_server_folder(tmp_path):
    """Canary numbers in the middle of their columns, and a canary string as an id."""
    hospitals = Hospitals(tmp_path)
    rng = np.random.default_rng(5)
    canaries = []
    for path in sorted((tmp_path / "nice").glob("*.csv")):
        lines = path.read_text().splitlines()
        cells = lines[3].split(",")
        for column in range(1, len(cells)):
            values = sorted(float(line.split(",")[column]) for line in lines[1:])
            canary = float(rng.uniform(values[len(values) // 3], values[2 * len(values) // 3]))
            cells[column] = repr(canary)
            canaries.append(canary)
        lines[3] = ",".join(["CANARY-7f3a", *cells[1:]])
        path.write_text("\n".join(lines) + "\n")
    hospitals.start()
    hospitals.run()
    kept = [path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()]
    everything = [*hospitals.messages, *kept]
    for canary in canaries:
        shapes = (np.float64(canary).tobytes(), np.float32(canary).tobytes(), repr(canary)[:12].encode())
        assert not any(shape in message for shape in shapes for message in everything)
    assert not any(b"CANARY" in message for message in everything)
    at_home = (tmp_path / "home" / "nice" / "runs" / RUN / "model" / "local" / "nice" / "latent.csv").read_bytes()
    assert b"CANARY-7f3a" in at_home  # the search does find what is there
    assert json.loads((tmp_path / "run" / "run.json").read_text())["settings"]["n_components"] == 3


def _not_a_number(reply: bytes, earlier: bytes | None) -> bytes:
    arrays = load(reply)
    (name,) = set(arrays) - {META}
    arrays[name] = np.where(np.arange(arrays[name].size) == 9, np.nan, arrays[name])
    return bytes(save(arrays))


def _lie(reply: bytes, earlier: bytes | None) -> bytes:
    arrays = load(reply)
    arrays["contribution"] = arrays["contribution"] * 1.5
    return bytes(save(arrays))


def _replay(reply: bytes, earlier: bytes | None) -> bytes:
    return reply if earlier is None else earlier


@pytest.mark.parametrize("attack", [_not_a_number, _lie, _replay, lambda reply, earlier: reply + b"\0" * (1 << 22)])
def test_a_malicious_center_is_barred_and_the_others_go_on(hospitals, attack):
    ask, earlier = hospitals.ask, {}

    def tampered(data, centers):
        replies = ask(data, centers)
        if hospitals.round >= 2 and "paris" in replies and b'"step": "round"' in data:
            replies["paris"] = attack(replies["paris"], earlier.get("paris"))
        earlier.update(replies)
        return replies

    hospitals.ask = tampered
    found = hospitals.run()
    assert "paris" in found.history[0].centers
    assert "paris" not in found.history[-1].centers
    assert any("'paris'" in message and "refused" in message for message in hospitals.said)
    expected = with_participation(
        hospitals.shared, hospitals.nodes, SETTINGS, [record.centers for record in found.history]
    )
    same_prior(found.model.prior, expected.prior)


def asked(hospitals, step="round", round_=1, run=RUN, settings=SETTINGS, **values):
    """A question as a server of our own would ask it, with some values changed."""
    start = starting_prior(Layout(*zip(*_sizes(hospitals), strict=True)), settings)
    layout = Layout(*zip(*_sizes(hospitals), strict=True))
    scaler = {"shift": np.zeros(layout.total), "scale": np.full(layout.total, 10.0)}
    told = {**prior_arrays(start, layout), **(scaler if settings.scaling == "shared-standard" else {}), **values}
    agreed = hospitals.sites["nice"].agreed
    return encode_request(Asked(step, run, agreed, settings, round_, told))


def _sizes(hospitals):
    return [(view, len(columns)) for view, columns in sorted(hospitals.study.columns.items())]


def test_a_round_is_answered_for_one_prior_and_one_scaling(hospitals):
    nice = hospitals.sites["nice"]
    first = nice.respond(asked(hospitals))
    assert nice.respond(asked(hospitals)) == first
    with pytest.raises(Refused, match="another prior"):
        nice.respond(asked(hospitals, **{"prior.mu": np.full(33, 0.1)}))
    with pytest.raises(Refused, match="another scaling"):
        nice.respond(asked(hospitals, scale=np.full(33, 11.0)))
    for scale in (1e-12, 1e12):
        with pytest.raises(Refused, match="common units"):
            nice.respond(asked(hospitals, run="a" * 32, scale=np.full(33, scale)))


def test_a_center_counts_its_runs(tmp_path):
    hospitals = Hospitals(tmp_path, federation="runs = 2")
    nice = hospitals.sites["nice"]
    for run_ in ("1" * 32, "2" * 32):
        nice.respond(asked(hospitals, run=run_))
    with pytest.raises(Refused, match="one more run"):
        nice.respond(asked(hospitals, run="3" * 32))
    nice.respond(asked(hospitals, run="2" * 32))


def test_two_processes_of_a_center_do_not_answer_one_run(hospitals):
    nice = hospitals.sites["nice"]
    nice.respond(asked(hospitals))
    twin = Site(nice.study, nice.home)
    with pytest.raises(Refused, match="another process"):
        twin.respond(asked(hospitals))


PRIVATE_SETTINGS = replace(SETTINGS, scaling="declared", privacy=CenterPrivacy(80.0, 1e-5).table())


def private_hospitals(tmp_path, kind):
    _, table, scaling = PRIVATE[kind]
    return Hospitals(tmp_path, federation=f'scaling = "{scaling}"', privacy=table)


@pytest.mark.parametrize("kind", ["subject", "center"])
def test_the_end_of_a_private_run_tells_nothing_even_if_it_fails(tmp_path, kind):
    """A prior that breaks the arithmetic of some patterns of missing cells must not be told from one that does not."""
    policy, _, scaling = PRIVATE[kind]
    hospitals = private_hospitals(tmp_path, kind)
    noted: list[str] = []
    hospitals.sites["nice"].note = noted.append
    settings = replace(SETTINGS, scaling=scaling, privacy=policy.table())
    for worst in ({"prior.W": np.full((33, 3), 1e300)}, {"prior.sigma2_W": np.full(3, 1e-300)}, {}):
        question = asked(hospitals, "finish", 8, settings=settings, **worst)
        assert hospitals.sites["nice"].respond(question) is None
    assert noted


def test_a_private_center_answers_also_where_its_step_breaks_down(tmp_path, monkeypatch):
    hospitals = private_hospitals(tmp_path, "center")

    def broken(*arguments):
        raise BreakdownError("too few subjects")

    monkeypatch.setattr("vedute.federation.site.run_round", broken)
    with pytest.warns(UserWarning, match="3 centers"):
        found = hospitals.run(replace(PRIVATE_SETTINGS, rounds=3))
    assert all(set(record.centers) == set(CENTERS) for record in found.history)


LIES = {
    "center": [{"std": None}, {"std": 1e200}, {"std": 0.1}, {"extra": float("nan")}],
    "subject": [{"subjects": 0}, {"subjects": "many"}, {"length": 1}, {"std": 1e-9}],
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("kind", "lie"), [(kind, lie) for kind, lies in LIES.items() for lie in lies], ids=str)
def test_a_center_that_lies_about_its_noise_is_barred(tmp_path, kind, lie):
    policy, _, scaling = PRIVATE[kind]
    hospitals = private_hospitals(tmp_path, kind)
    ask = hospitals.ask

    def tampered(data, centers):
        replies = ask(data, centers)
        if replies.get("paris"):
            arrays = load(replies["paris"])
            about = json.loads(arrays[META].tobytes())
            about["public"] = {k: v for k, v in {**about["public"], **lie}.items() if v is not None}
            arrays[META] = np.frombuffer(json.dumps(about).encode(), np.uint8)
            replies["paris"] = bytes(save(arrays))
        return replies

    hospitals.ask = tampered
    settings = replace(SETTINGS, scaling=scaling, rounds=2, privacy=policy.table())
    hospitals.run(settings)
    assert any("'paris'" in message and "refused" in message for message in hospitals.said)


def test_numbers_that_are_possible_and_spoil_the_prior_bar_their_center(hospitals):
    """d_mu = 1e12 with the squares that belong to it: all honest centers would refuse the next prior."""
    ask = hospitals.ask

    def tampered(data, centers):
        replies = ask(data, centers)
        if hospitals.round == 2 and "paris" in replies and b'"step": "round"' in data:
            arrays = load(replies["paris"])
            held = Layout(*zip(*_sizes(hospitals), strict=True)).restrict(hospitals.sites["paris"].study.pools[0].files)
            contribution = unpack(arrays["contribution"], held, 3)
            name = held.names[0]
            view = contribution.views[name]
            far = replace(view, d_mu=view.d_mu + 1e12, sq_mu=float(np.sum((view.d_mu + 1e12) ** 2)))
            spoilt = replace(contribution, views={**contribution.views, name: far})
            replies["paris"] = bytes(save({**arrays, "contribution": pack(spoilt, held)}))
        return replies

    hospitals.ask = tampered
    found = hospitals.run()
    assert "paris" not in found.history[1].centers
    assert any("'paris'" in message for message in hospitals.said)


def test_a_center_that_misses_the_end_is_named(hospitals):
    ask = hospitals.ask

    def cut(data, centers):
        replies = ask(data, centers)
        if b'"step": "finish"' in data:
            replies.pop("paris", None)
        return replies

    hospitals.ask = cut
    found = hospitals.run()
    assert any("'paris'" in message and "last prior" in message for message in hospitals.said)
    assert set(found.model.centers) == {"nice", "zurich"}


def without_one_range(hospitals: Hospitals) -> None:
    """The study again, the last column of every view without a range, for the server and every hospital."""
    text = re.sub(r", view\d_\d+ = \[[^]]*\] }", " }", hospitals.shared.read_text())
    assert text != hospitals.shared.read_text()
    hospitals.shared.write_text(text)
    hospitals.study = Study.load_shared(hospitals.shared)
    hospitals.start()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_range_that_is_missing_is_refused_only_where_the_scaling_needs_it(tmp_path):
    table = 'policy = "center"\nepsilon = 80.0\ndelta = 1e-5'
    needed = Hospitals(tmp_path / "a", federation='scaling = "declared"', privacy=table)
    without_one_range(needed)
    with pytest.raises(UserError, match="columns without one: view1_14"):
        needed.run(PRIVATE_SETTINGS)
    assert not list((tmp_path / "a").glob("home/*/ledgers/*/ledger-*.jsonl"))  # nothing was released
    unused = Hospitals(tmp_path / "b")
    without_one_range(unused)
    assert len(unused.run(replace(SETTINGS, rounds=2)).history) == 2
