"""Centers that are elsewhere: an exchange of bytes, and of answers that are looked at before anyone computes with them.

What carries the bytes is not known here. Every complete round is on disk before the next is asked, so a run whose
server, lead or centers died goes on from the last complete round, with the centers that are there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import numpy as np

from vedute.data.files import sha256
from vedute.data.scaling import Scaler, Sums
from vedute.data.study import Study
from vedute.errors import Refused, UserError
from vedute.federation.encoding import build_content, question_arrays
from vedute.federation.messages import Request, decode_reply, encode_request
from vedute.federation.plausible import check_contribution, check_parameters, check_prior, check_sums
from vedute.model.contribution import Contribution
from vedute.model.parameters import Array, CenterParams
from vedute.privacy.ledger import Ledger
from vedute.privacy.release import Release
from vedute.run import run_folder
from vedute.run.center import inspect_sums
from vedute.run.checkpoint import Checkpoints
from vedute.run.exchange import RUN, ranges_for
from vedute.run.protocol import Answer, Answers, Job, Progress, Question
from vedute.run.run_folder import Run
from vedute.run.server import OnRound, fit
from vedute.run.settings import Settings

Send = Callable[[bytes, Sequence[str]], Mapping[str, bytes]]  # request, centers -> what each said; silence is absence
SPOILED = (Refused, ArithmeticError, ValueError, np.linalg.LinAlgError)


class TooFewCenters(UserError):
    """Fewer centers are there than the study needs; the run can go on from its last complete round."""


class SilentCenters(UserError):
    """Centers gave no answer; the run can go on from its last complete round, with them or without."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        super().__init__(f"no answer from {', '.join(map(repr, names))}")


@dataclass(frozen=True)
class RemoteRun:
    """A run across machines: the shared study, how, under which name, where to write it down, and who is there."""

    study: Study
    settings: Settings
    name: str
    folder: Path
    centers: tuple[str, ...]

    @property
    def job(self) -> Job:
        """What is to be fitted."""
        schema = self.study.schema
        return Job(schema, self.settings, ranges_for(self.study.ranges, schema, self.settings))


class Remote:
    """Asks, decodes what comes back, and remembers whose answers were refused, of which ``tell`` hears."""

    def __init__(self, run: RemoteRun, send: Send, tell: Callable[[str], None]) -> None:
        self.run, self.send, self.tell = run, send, tell
        self.policy, self.layout = run.settings.policy, run.study.schema.layout
        self.present = sorted(run.centers)
        self.travelled = (0, 0)
        self.ledgers = _Ledgers(run)
        self._held: dict[str, tuple[str, ...]] = {}
        self._reached: set[str] = set()
        self._round = 0
        self.enough(self.present)

    def ask(self, question: Question) -> Answers:
        """The sound answers to a question, by center; a center that gives none stops the job."""
        if question.step == "finish":
            return self._tell_the_end(question)
        self._round = question.round
        found = self._put(question, self.present)
        self.enough(self.present)
        if question.round <= 1:  # later, a view may pause with the center that holds it
            self._every_view_held(found)
        if question.step == "moments":
            self.ledgers.note(found, 0)
        return found

    def _put(self, question: Question, to: Sequence[str]) -> Answers:
        request = self._request(question)
        data, asked = encode_request(request), list(to)
        replies = self.send(data, asked)
        self._reached |= set(replies)
        silent = [center for center in asked if center not in replies]
        if silent and question.step != "finish":
            raise SilentCenters(silent)
        found: Answers = {}
        for center in [center for center in asked if center in replies]:
            if question.step == "finish" and not replies[center]:
                continue  # it has heard the last prior, and its policy lets nothing more out
            try:
                found[center] = self._sound(center, request, replies[center])
            except Refused as reason:
                self.bar(center, str(reason))
            except Exception as error:  # what breaks our own arithmetic is a lie as well
                self.bar(center, type(error).__name__)
        self.travelled = sum(len(replies[center]) for center in found), len(data) * len(replies)
        return found

    def _request(self, question: Question) -> Request:
        run = self.run
        agreed = sha256(run.study.text.encode())
        values = question_arrays(question, self.layout)
        return Request(question.step, run.name, agreed, run.settings, question.round, values, question.among)

    def _sound(self, center: str, request: Request, data: bytes) -> Answer:
        """An answer that is well formed, and could be true."""
        q = request.settings.n_components
        reply = decode_reply(data, request, self.layout, self.policy.name)
        if self._held.setdefault(center, reply.views) != reply.views:
            raise Refused("it now holds other views than before")
        held, release = self.layout.restrict(reply.views), reply.release
        if request.step in ("sums", "squares", "extremes"):
            check_sums(release.values, held, self.layout)
        self.policy.of(center).check_claims(release, held, request.settings.rounds)
        if not self.policy.exact:
            return Answer(reply.views, release)
        content = build_content(request.step, release, held, q)
        if isinstance(content, Contribution):
            check_contribution(content, held)
        if isinstance(content, CenterParams):
            check_parameters(content)
        return Answer(reply.views, content)

    def enough(self, there: Sized) -> None:
        """Stop where fewer centers are there than the study needs."""
        least = self.run.study.federation.minimum_centers
        if len(there) < least:
            raise TooFewCenters(f"{len(there)} centers are there, and the study needs {least}")

    def _every_view_held(self, found: Answers) -> None:
        """A run does not begin with a view of which nobody could ever say anything."""
        held = {view for answer in found.values() for view in answer.views}
        if absent := [view for view in self.layout.names if view not in held]:
            raise UserError(
                f"view {absent[0]!r}: none of the centers {', '.join(map(repr, sorted(found)))} holds it; "
                "leave it out of the study, or wait for a center that has it"
            )

    def _tell_the_end(self, question: Question) -> Answers:
        """The last prior, told twice where it was not heard; a center that is gone has no model of this run."""
        self._reached = set()
        found = self._put(question, self.present)
        if missing := [center for center in self.present if center not in self._reached]:
            found |= self._put(question, missing)
        for center in self.present:
            if center not in self._reached:
                self.tell(f"center {center!r} did not hear the last prior; it has no model of this run at home")
        return found

    def bar(self, center: str, reason: str) -> None:
        """A center that sends what cannot be is not asked again in this job."""
        self.present.remove(center)
        self.tell(f"center {center!r} sent an answer that was refused ({reason}); the run goes on without it")

    def settle(self, step: Callable[[Answers], Progress], answers: Answers) -> Progress:
        """The next prior, if the centers will take it; else the one without the center that spoils it, which is barred.

        One center's numbers may each be possible and still make a prior that all the others refuse, for good.
        """
        limits = self.run.study.federation

        def tried(some: Answers) -> Progress:
            found = step(some)
            check_prior(found.prior, limits.smallest_sd, limits.largest_sd)
            self.ledgers.note(some, len(found.history))
            return found

        try:
            return tried(answers)
        except SPOILED as error:
            reason = str(error)
        for center in sorted(answers):
            try:
                found = tried({name: answer for name, answer in answers.items() if name != center})
            except SPOILED:
                continue
            self.bar(center, reason)
            self.enough(self.present)
            return found
        raise UserError(
            f"round {self._round} leads to a prior that no center may take ({reason}); "
            "raise largest_sd in the study's [federation], or scale the data"
        )

    def inspect(self, total: Sums, squares: Array) -> None:
        """Refuse columns of which all centers together tell nothing."""
        inspect_sums(self.run.study.schema, total.counts, squares)

    def scalers(self, common: Scaler | None, among: tuple[str, ...]) -> dict[str, Scaler]:
        """The common scaler for each center; one that a center has of its own stays there."""
        return {} if common is None else dict.fromkeys(among, common)


def fit_remote(run: RemoteRun, send: Send, tell: Callable[[str], None], on_round: OnRound) -> Run:
    """The whole run, from wherever it stands; the finished run folder is ``run.folder``."""
    run.settings.policy.check(run.settings, len(run.centers))
    exchange = Remote(run, send, tell)
    with run_folder.opened(run.folder):
        if run_folder.stage(run.folder) is run_folder.Stage.FINISHED:
            return run_folder.load_run(run.folder)
        if run_folder.stage(run.folder) is run_folder.Stage.NEW:
            run_folder.begin(run.folder, run.study.text, run.settings)
        fitted = fit(run.job, exchange, Checkpoints(run.folder / run_folder.CHECKPOINT, exchange.layout), on_round)
        finished = Run(fitted.model, fitted.progress.history, fitted.progress.converged)
        exchange.ledgers.write()
        run_folder.finish(run.folder, finished)
        return finished


class _Ledgers:
    """What the server saw leave each center, as copies beside the model; the centers' own ledgers stay at home."""

    def __init__(self, run: RemoteRun) -> None:
        self.run, self.policy = run, run.settings.policy
        self._books: dict[str, Ledger] = {}

    def note(self, answers: Answers, round_: int) -> None:
        """One release of each center."""
        for center, answer in answers.items():
            path = self.run.folder / run_folder.CHECKPOINT / f"ledger-{quote(center, safe='')}.jsonl"
            if center not in self._books:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._books[center] = Ledger(center, self.run.name, path)
            book = self._books[center]
            release = answer.content
            if isinstance(release, Release):
                key = f"{RUN}, round {round_}" if round_ else "second moments"
                book.release(key, self.run.name, _already(release), None, self.policy.relation)
            else:
                self.policy.release(book, RUN, {})

    def write(self) -> None:
        """The copies, in the run folder."""
        for path in sorted((self.run.folder / run_folder.CHECKPOINT).glob("ledger-*.jsonl")):
            (self.run.folder / path.name).write_bytes(path.read_bytes())


def _already(release: Release) -> Callable[[], Release]:
    return lambda: release
