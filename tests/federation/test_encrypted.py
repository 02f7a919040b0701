"""Runs with encrypted sums, without an engine: the model of the plain run, and a server that cannot read anything."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hospitals import CENTERS, as_one_study, make_hospitals
from participation import same_prior, with_participation
from vedute.data.study import Study
from vedute.errors import UserError
from vedute.federation import encrypted_known, store
from vedute.federation.conductor import Job, SilentCenters, TooFewCenters, conduct
from vedute.federation.encrypted_conductor import EncryptedListener, conduct_encrypted
from vedute.federation.encrypted_site import EncryptedSite
from vedute.federation.encryption import Cipher, make_keys
from vedute.federation.nvflare.authority import make_authority
from vedute.federation.nvflare.encrypted_lead import take_ended
from vedute.federation.private import described
from vedute.federation.protocol import Refused
from vedute.federation.resumable import Request, Watch, fit_study
from vedute.federation.settings import Settings
from vedute.federation.site import Site
from vedute.federation.store import load_run
from vedute.federation.wire import decode_question, encode_answer, encode_question, is_answer
from vedute.privacy.policies import SubjectPrivacy
from vedute.privacy.release import Release

RUN = "fedcba9876543210" * 2
SETTINGS = Settings(3, rounds=5, tol=None, iterations=3, first_iterations=5)
SILENT = Watch(lambda settings, done: None, lambda progress: None)
AUTHORITY = make_authority("vedute", 1)
LEAD = AUTHORITY.issue("lead", role="lead")
CLOSE = 1e-9


class Encrypted:
    """Hospitals in this process. ``carry`` may change a question on its way to a center, ``reply`` what it says."""

    def __init__(self, folder: Path, federation: str = "") -> None:
        self.folder = folder
        self.shared, self.nodes = make_hospitals(folder, federation=f'aggregation = "encrypted"\n{federation}')
        self.study = Study.load_shared(self.shared)
        self.secret, self.parameters = make_keys()
        self.messages: list[bytes] = []
        self.said: list[str] = []
        self.refused: list[str] = []
        self.absent: set[tuple[str, int]] = set()
        self.carry = lambda center, question: question
        self.reply = lambda center, data: data
        self.start()

    def start(self) -> None:
        self.sites = {
            center: EncryptedSite(
                Study.load_node(self.shared, node), self.home(center), Cipher(self.secret), LEAD.certificate
            )
            for center, node in self.nodes.items()
        }

    def home(self, center: str) -> Path:
        return self.folder / "home" / center

    def ask(self, data, centers):
        question = decode_question(data, self.study_layout())
        found = {}
        for center in centers:
            if question.step == "encrypted share" and (center, question.round) in self.absent:
                continue
            carried = self.carry(center, question)
            try:
                reply = self.sites[center].respond(data if carried is question else encode_question(carried))
            except Refused as reason:
                self.refused.append(f"{center}: {reason}")
                continue
            found[center] = self.reply(center, reply)
            self.messages += [data, reply]
        return found

    def study_layout(self):
        return Job(self.study, SETTINGS, RUN, self.folder, CENTERS).layout

    def job(self, settings=SETTINGS, centers=CENTERS) -> Job:
        return Job(self.study, settings, RUN, self.folder / "run", centers)

    def run(self, settings=SETTINGS, on_round=lambda progress: None, centers=CENTERS):
        keys = Cipher(self.parameters)
        return conduct_encrypted(self.job(settings, centers), keys, self.ask, self.said.append, on_round)

    def at_home(self, center="nice"):
        return load_run(self.home(center) / "runs" / RUN / "model")


@pytest.fixture
def hospitals(tmp_path):
    return Encrypted(tmp_path)


def in_one_process(hospitals, settings=SETTINGS):
    whole = Study.load(as_one_study(hospitals.shared, hospitals.nodes))
    given = {name: getattr(settings, name) for name in vars(settings)}
    return fit_study(whole, hospitals.folder / "one", Request(given), SILENT)


def apart(found, expected) -> float:
    """The largest difference between two priors, each part relative to its largest number."""
    worst = [abs(found.tau2 - expected.tau2) / max(expected.tau2, 1e-300) if expected.tau2 else found.tau2]
    for view in expected.views:
        for part in vars(expected.views[view]):
            mine, theirs = (np.asarray(getattr(prior.views[view], part)) for prior in (found, expected))
            if np.isfinite(theirs).all():
                worst.append(float(np.abs(mine - theirs).max() / np.abs(theirs).max()))
            else:
                np.testing.assert_array_equal(mine, theirs)
    return max(worst)


@pytest.mark.parametrize(
    ("scaling", "change"),
    [
        ("shared-standard", {"rounds": 24, "iterations": 15}),
        ("shared-view", {}), ("center-minmax", {}), ("declared", {"rounds": 3}), (None, {"rounds": 3}),
        ("shared-standard", {"preset": "paper"}),
    ],
)  # fmt: skip
def test_the_model_of_the_plain_run_with_missing_views(tmp_path, scaling, change):
    hospitals = Encrypted(tmp_path, f'scaling = "{scaling or "none"}"\nlargest_sd = 1e6')
    settings = replace(SETTINGS, scaling=scaling, **change)
    ended, expected = hospitals.run(settings), in_one_process(hospitals, settings)
    assert len(ended.history) == settings.rounds
    assert {record.centers for record in ended.history} == {CENTERS}
    for center in CENTERS:
        model = hospitals.at_home(center).model
        same_prior(model.prior, hospitals.at_home("nice").model.prior)
        assert apart(model.prior, expected.model.prior) < CLOSE
        mine, theirs = model.centers[center], expected.model.centers[center]
        for view in theirs.views:
            np.testing.assert_allclose(mine.views[view].W, theirs.views[view].W, rtol=0, atol=1e-8)


def test_rounds_that_settle_end_as_early_as_in_the_plain_run(hospitals):
    settings = replace(SETTINGS, rounds=30, tol=0.2)
    ended, expected = hospitals.run(settings), in_one_process(hospitals, settings)
    assert ended.converged
    assert expected.converged
    assert len(ended.history) == len(expected.history) < 30
    assert apart(hospitals.at_home().model.prior, expected.model.prior) < CLOSE


def test_nothing_that_is_sent_or_kept_by_the_server_shows_a_number(hospitals, monkeypatch):
    """Every summand of every center, and every number of the prior, sought by its eight bytes."""
    secret: list[np.ndarray] = []
    share, prior_bytes = EncryptedSite._share, encrypted_known.prior_bytes

    def watched_share(self, *given):
        secret.append(share(self, *given))
        return secret[-1]

    def watched_prior(*given):
        data = prior_bytes(*given)
        secret.append(np.frombuffer(data))
        return data

    monkeypatch.setattr(EncryptedSite, "_share", watched_share)
    monkeypatch.setattr("vedute.federation.encrypted_site.prior_bytes", watched_prior)
    kept: list[bytes] = []

    def look(progress):
        kept.extend(path.read_bytes() for path in (hospitals.folder / "run").rglob("*") if path.is_file())

    hospitals.run(on_round=look)
    look(None)
    numbers = np.unique(np.concatenate(secret))
    wanted = numbers[numbers != np.rint(numbers)]
    assert len(wanted) > 2000
    assert not any(found_in(message, wanted) for message in {*kept, *hospitals.messages})
    assert found_in(b"abc" + wanted[5:6].tobytes() + b"de", wanted)  # the search does find them
    assert {path.name for path in (hospitals.folder / "run").iterdir()} == {
        "checksums.json", "ended.json", "history.jsonl", "run.json", "study.toml"
    }  # fmt: skip


def found_in(message: bytes, wanted: np.ndarray) -> bool:
    """Whether any of the numbers begins at any byte."""
    for offset in range(min(8, max(len(message) - 7, 0))):
        words = np.frombuffer(message, dtype="<f8", offset=offset, count=(len(message) - offset) // 8)
        at = np.minimum(np.searchsorted(wanted, words), len(wanted) - 1)
        if (wanted[at] == words).any():
            return True
    return False


class Died(Exception):
    pass


def dies_after(last):
    def die(progress):
        if len(progress.history) == last:
            raise Died

    return die


def test_whoever_dies_the_bits_are_the_same(hospitals, tmp_path):
    """The server dies after rounds 1 and 3, and between the sums of the scaling; sites lose their memory each time."""

    def die_at_squares(center, question):
        if question.round == 2 and center == "paris":  # nice has taken in the first sum, and must forget it
            raise Died
        return question

    hospitals.carry = die_at_squares
    with pytest.raises(Died):
        hospitals.run()
    hospitals.carry = lambda center, question: question
    for last in (1, 3):
        hospitals.start()
        with pytest.raises(Died):
            hospitals.run(on_round=dies_after(last))
    hospitals.start()
    ended = hospitals.run()
    assert [record.round for record in ended.history] == [1, 2, 3, 4, 5]
    undisturbed = Encrypted(tmp_path / "undisturbed")  # with another key, and other noise in every ciphertext
    undisturbed.run()
    same_prior(hospitals.at_home().model.prior, undisturbed.at_home().model.prior)
    asked = len(hospitals.messages)
    assert hospitals.run() == ended
    assert len(hospitals.messages) == asked


def test_a_question_that_is_asked_twice_changes_nothing(hospitals, tmp_path):
    ask = hospitals.ask

    def twice(data, centers):
        ask(data, centers)
        hospitals.start()
        return ask(data, centers)

    hospitals.ask = twice
    hospitals.run()
    hospitals.ask = ask
    undisturbed = Encrypted(tmp_path / "undisturbed")
    undisturbed.run()
    same_prior(hospitals.at_home().model.prior, undisturbed.at_home().model.prior)


def test_a_center_that_was_away_is_told_what_it_missed(hospitals):
    """Zurich falls silent in round 2, is left out of the next job and comes back for round 4."""
    hospitals.absent = {("zurich", 4)}  # the fourth sum is that of the second round
    with pytest.raises(SilentCenters, match="zurich"):
        hospitals.run()
    with pytest.raises(Died):
        hospitals.run(centers=("nice", "paris"), on_round=dies_after(3))
    hospitals.absent = set()
    ended = hospitals.run()
    present = [record.centers for record in ended.history]
    assert [len(names) for names in present] == [3, 2, 2, 3, 3]
    expected = with_participation(hospitals.shared, hospitals.nodes, SETTINGS, present)
    for center in CENTERS:
        assert apart(hospitals.at_home(center).model.prior, expected.prior) < CLOSE


def test_a_center_that_lost_its_folder_learns_all_sums_again(hospitals, tmp_path):
    with pytest.raises(Died):
        hospitals.run(on_round=dies_after(3))
    shutil.rmtree(hospitals.home("paris"))
    hospitals.start()
    ended = hospitals.run()
    assert all(record.centers == CENTERS for record in ended.history)
    plain = Plain(tmp_path / "plain")
    with pytest.raises(Died):
        plain.run(dies_after(3))
    shutil.rmtree(plain.folder / "home" / "paris")
    plain.start()
    assert apart(hospitals.at_home("paris").model.prior, plain.run(lambda progress: None).model.prior) < CLOSE


class Plain:
    """The same hospitals without encryption."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shared, self.nodes = make_hospitals(folder)
        self.start()

    def start(self):
        self.sites = {
            center: Site(Study.load_node(self.shared, node), self.folder / "home" / center)
            for center, node in self.nodes.items()
        }

    def ask(self, data, centers):
        return {center: self.sites[center].respond(data) for center in centers}

    def run(self, on_round):
        job = Job(Study.load_shared(self.shared), SETTINGS, RUN, self.folder / "run", CENTERS)
        return conduct(job, self.ask, lambda said: None, on_round)


def test_machines_that_round_differently_stay_together(hospitals, monkeypatch):
    """At each center the master's step is off in the last bits, as on another processor."""
    advance, rng = encrypted_known.advance, np.random.default_rng(7)

    def blurred(*given):
        progress = advance(*given)
        views = {
            name: replace(view, mu=view.mu * (1 + 1e-15 * rng.standard_normal(view.mu.shape)),
                          W=view.W * (1 + 1e-15 * rng.standard_normal(view.W.shape)))
            for name, view in progress.prior.views.items()
        }  # fmt: skip
        return replace(progress, prior=progress.prior.with_views(views))

    monkeypatch.setattr(encrypted_known, "advance", blurred)
    hospitals.run(replace(SETTINGS, rounds=12))
    priors = [hospitals.at_home(center).model.prior for center in CENTERS]
    assert 0 < max(apart(prior, priors[0]) for prior in priors[1:]) < 1e-12


@pytest.mark.parametrize("number", [1, 2, 3, 5])
def test_a_sum_that_the_server_altered_is_refused(hospitals, number):
    def alter(center, question):
        if question.step != "encrypted share" or question.round != number + 1:
            return question
        first, *rest = question.ciphertexts
        return replace(question, ciphertexts=(first[:50_000] + bytes(1000) + first[51_000:], *rest))

    hospitals.carry = alter
    with pytest.raises(SilentCenters):
        hospitals.run()
    assert "altered" in hospitals.refused[0]


@pytest.mark.parametrize(("among", "why"), [(("paris",), "adds 1 centers"), (CENTERS, "other centers than were named")])
def test_a_sum_of_too_few_or_other_centers_is_refused(hospitals, among, why):
    """A center's lone share, told as the sum, would let the others read it."""
    shares = {}

    def keep(center, data):
        shares[center] = data
        return data

    def lone(center, question):
        if question.round != 4 or question.step != "encrypted share":
            return question
        return replace(question, ciphertexts=_ciphertexts(shares["paris"]), among=among)

    hospitals.reply, hospitals.carry = keep, lone
    with pytest.raises(SilentCenters):
        hospitals.run()
    assert all(why in reason for reason in hospitals.refused)


def _ciphertexts(reply: bytes) -> tuple[bytes, ...]:
    from safetensors.numpy import load

    found = load(reply)
    return tuple(found[name].tobytes() for name in sorted(found) if name.startswith("ciphertext."))


def test_a_server_that_tells_centers_different_sums_is_found_out(hospitals, monkeypatch):
    """Nice is told the sum of two centers where the others are told that of three: its prior then differs."""
    shares, keys = {}, Cipher(hospitals.parameters)

    def keep(center, data):
        shares[center] = data
        return data

    def differ(center, question):
        if center != "nice" or question.round != 4 or question.step != "encrypted share":
            return question
        parts = [_ciphertexts(shares[name]) for name in ("nice", "paris")]
        told = (*keys.add([part[:-1] for part in parts]), parts[0][-1])
        return replace(question, ciphertexts=told, among=("nice", "paris"))

    hospitals.reply, hospitals.carry = keep, differ
    monkeypatch.setattr(EncryptedListener, "judge", lambda *given: None)  # a server that lies does not mind the chain
    with pytest.raises(SilentCenters):
        hospitals.run()
    assert any("do not hold the same prior" in reason for reason in hospitals.refused)


def test_a_sum_cannot_be_replaced_by_another(hospitals):
    with pytest.raises(Died):
        hospitals.run(on_round=dies_after(2))
    before = [data for data in hospitals.messages if b'"step": "encrypted share"' in data and b'"settings"' in data][-1]
    question = decode_question(before, hospitals.study_layout())
    assert hospitals.sites["nice"].respond(before)
    other = replace(question, among=(*question.among[:-1], "milan"))
    with pytest.raises(Refused, match="another sum"):
        hospitals.sites["nice"].answer(other)
    with pytest.raises(Refused, match="were taken in"):
        hospitals.sites["nice"].answer(replace(question, round=question.round + 2))


def test_a_center_that_knows_other_sums_is_left_out_and_told_why(hospitals):
    with pytest.raises(Died):
        hospitals.run(on_round=dies_after(3))
    folder = hospitals.folder / "run" / "checkpoint"
    for path in (*folder.glob("sum4-*.npz"), *folder.glob("sum5-*.npz")):
        path.unlink()  # a server restored from an older copy
    with pytest.raises(TooFewCenters):
        hospitals.run()
    assert any("it knows other sums" in said for said in hospitals.said)


@pytest.mark.parametrize("what", ["nan", "huge", "negative"])
def test_a_share_that_cannot_be_true_is_not_encrypted(hospitals, monkeypatch, what):
    from vedute.federation import site

    run_round = site.run_round

    def lying(centers, *given):
        (shared,) = run_round(centers, *given)
        if centers[0].name != "paris":
            return (shared,)
        wrong = {"nan": {"m": shared.m * np.nan}, "huge": {"subjects": 1e13}, "negative": {"sq_x": -shared.sq_x}}
        return (replace(shared, **wrong[what]),)

    monkeypatch.setattr(site, "run_round", lying)
    with pytest.raises(SilentCenters, match="paris"):
        hospitals.run()
    assert [reason.split(":")[0] for reason in hospitals.refused] == ["paris"]


@pytest.mark.parametrize(
    ("kind", "why"),
    [("junk", "not a ciphertext"), ("chain", "other sums"), ("settled", "most do not"), ("facts", "facts")],
)
def test_a_center_that_answers_otherwise_than_agreed_is_left_out(hospitals, kind, why):
    def lie(center, data):
        if center != "zurich" or hospitals.question.step != "encrypted share" or hospitals.question.round != 3:
            return data
        answer = hospitals.sites["zurich"].answer(hospitals.question)
        release = answer.release
        facts = {"chain": {"chain": "0" * 64}, "settled": {"converged": True}, "facts": {"sigma": 0.5}}.get(kind, {})
        parts = {"junk": (b"junk", *answer.ciphertexts[1:]), "settled": ()}.get(kind, answer.ciphertexts)
        told = replace(release, public={**release.public, **facts})
        return encode_answer(replace(answer, ciphertexts=parts, release=told))

    def remember(center, question):
        hospitals.question = question
        return question

    hospitals.carry, hospitals.reply = remember, lie
    with pytest.raises(Died):
        hospitals.run(on_round=dies_after(1))
    assert len(hospitals.said) == 1
    assert "'zurich'" in hospitals.said[0]
    assert why in hospitals.said[0]


def test_the_lead_gets_the_model_sealed_and_nobody_else_can_open_it(tmp_path):
    hospitals = Encrypted(tmp_path, 'model_to = "paris"')
    ended = hospitals.run()
    assert ended == store.load_ended(tmp_path / "run")
    kit, folder = tmp_path / "lead-kit", tmp_path / "lead"
    (kit / "startup").mkdir(parents=True)
    (kit / "startup/client.key").write_bytes(LEAD.key)
    folder.mkdir()
    store.begin(folder, hospitals.study.text, SETTINGS)
    take_ended(ended, folder, kit, hospitals.study, SETTINGS, RUN)
    found = load_run(folder)
    same_prior(found.model.prior, hospitals.at_home("paris").model.prior)
    assert not found.model.centers
    assert set(found.model.scalers) == set(CENTERS)
    assert found.history == ended.history
    assert apart(found.model.prior, in_one_process(hospitals).model.prior) < CLOSE
    with pytest.raises(UserError, match="other settings"):
        take_ended(ended, folder, kit, hospitals.study, replace(SETTINGS, seed=1), RUN)
    (kit / "startup/client.key").write_bytes(AUTHORITY.issue("vedute-server", host="localhost").key)
    with pytest.raises(UserError, match="sealed"):
        take_ended(ended, folder, kit, hospitals.study, SETTINGS, RUN)


def test_without_model_to_the_run_ends_without_a_model(hospitals, tmp_path):
    ended = hospitals.run()
    (tmp_path / "lead").mkdir()
    store.begin(tmp_path / "lead", hospitals.study.text, SETTINGS)
    assert take_ended(ended, tmp_path / "lead", tmp_path, hospitals.study, SETTINGS, RUN) is ended
    assert store.stage(tmp_path / "lead") is store.Stage.FINISHED
    assert store.load_ended(tmp_path / "lead") == ended
    with pytest.raises(UserError, match="with each center, in its own folder"):
        load_run(tmp_path / "lead")


def test_the_center_that_hands_over_must_be_there_at_the_end(tmp_path):
    hospitals = Encrypted(tmp_path, 'model_to = "paris"')
    with pytest.raises(TooFewCenters, match="'paris', which is to hand the model"):
        hospitals.run(centers=("nice", "zurich"))
    assert hospitals.run().sealed is not None


def test_only_exact_values_that_add_can_be_encrypted(hospitals, tmp_path):
    private = replace(SETTINGS, privacy=described(SubjectPrivacy(5.0, 1e-5)))
    with pytest.raises(UserError, match="needs no encryption"):
        hospitals.run(private)
    with pytest.raises(UserError, match="no sum"):
        hospitals.run(replace(SETTINGS, scaling="shared-minmax"))
    minmax = Encrypted(tmp_path / "minmax", 'scaling = "shared-minmax"')
    question = decode_question(_first_question(hospitals), hospitals.study_layout())
    with pytest.raises(Refused, match="no sum"):
        minmax.sites["nice"].answer(
            replace(question, study=minmax.job().agreed, settings=replace(SETTINGS, scaling="shared-minmax"))
        )


def _first_question(hospitals) -> bytes:
    with pytest.raises(Died):
        hospitals.run(on_round=dies_after(1))
    return hospitals.messages[0]


def test_a_center_that_agreed_to_encryption_tells_nothing_in_plain(hospitals):
    with pytest.raises(Refused, match="the step 'sums'"):
        conduct(hospitals.job(), lambda data, centers: {"nice": hospitals.sites["nice"].respond(data)}, print, print)
    plain = Site(Study.load_node(hospitals.shared, hospitals.nodes["nice"]), hospitals.home("nice"))
    with pytest.raises(Refused, match="the step 'sums'"):
        conduct(hospitals.job(), lambda data, centers: {"nice": plain.respond(data)}, print, print)


def test_the_last_look_lets_no_plain_number_out_of_an_encrypted_answer(hospitals):
    question = decode_question(_first_question(hospitals), hospitals.study_layout())
    answer = hospitals.sites["nice"].answer(question)
    is_answer(encode_answer(answer))
    release = Release({"m": np.ones(3)}, answer.release.events, "none", answer.release.public)
    with pytest.raises(Refused, match="plain numbers"):
        is_answer(encode_answer(replace(answer, release=release)))
