"""The server's way through an encrypted run: it adds ciphertexts, keeps the sums, and can read none of them.

Every sum is on disk before it is told, so a run whose server, lead or centers died goes on after the last one, and a
center that lost its own folder, or was away, is told what it missed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

import numpy as np

from vedute.errors import UserError
from vedute.federation import store
from vedute.federation.checkpoint import latest, read_named, write_named
from vedute.federation.conductor import Ask, Job, Listener, TooFewCenters
from vedute.federation.encrypted import (
    brought,
    check_encryptable,
    first_link,
    next_link,
    round_of,
    split,
    sums_before_rounds,
)
from vedute.federation.encryption import MOST_CENTERS, Cipher
from vedute.federation.fitting import starting_prior
from vedute.federation.loop import Progress, Record
from vedute.federation.private import policy_of
from vedute.federation.protocol import Answer, Question, Refused, Step
from vedute.federation.store import Ended

FACTS = {"taken": int, "chain": str, "converged": bool}
ANOTHER = "it knows other sums than this run's; with its own folder of the run deleted it would be told all of them"


@dataclass(frozen=True)
class Total:
    """One encrypted sum: what it consists of, who is in it, and the server's record of it."""

    ciphertexts: tuple[bytes, ...]
    record: Record


class Totals:
    """All sums so far, each in a file of its own: ``records`` and ``chains`` (one more) are in memory, nothing else."""

    def __init__(self, job: Job) -> None:
        self.folder: Path = job.folder / store.CHECKPOINT
        self.records: list[Record] = []
        self.chains = [first_link(job.run, job.agreed)]
        while latest(self.folder, f"sum{len(self.chains)}") is not None:
            found = self.read(len(self.chains))
            self.chains.append(next_link(self.chains[-1], found.record.centers, found.ciphertexts))
            self.records.append(found.record)

    def read(self, number: int) -> Total:
        """A sum that was written."""
        path = latest(self.folder, f"sum{number}")
        assert path is not None
        arrays, names = read_named(path)
        record = Record(**{**names, "centers": tuple(names["centers"])})
        return Total(tuple(arrays[f"part{k}"].tobytes() for k in range(len(arrays))), record)

    def write(self, total: Total) -> None:
        """One more."""
        number = len(self.chains)
        arrays = {f"part{k}": np.frombuffer(one, dtype=np.uint8) for k, one in enumerate(total.ciphertexts)}
        write_named(self.folder, f"sum{number}", number, arrays, asdict(total.record))
        self.chains.append(next_link(self.chains[-1], total.record.centers, total.ciphertexts))
        self.records.append(total.record)

    def __len__(self) -> int:
        return len(self.records)


class EncryptedListener(Listener):
    """Asks for shares and for what centers know; the sums made so far are in ``totals``."""

    def __init__(self, job: Job, ask: Ask, tell: Callable[[str], None], cipher: Cipher) -> None:
        super().__init__(job, ask, tell)
        self.cipher, self.totals = cipher, Totals(job)

    def question(self, step: Step, number: int, total: Total | None) -> Question:
        """A question, with the sum that it brings."""
        told = (total.ciphertexts, total.record.centers) if total is not None else ((), ())
        return Question(step, self.job.run, self.job.agreed, self.job.settings, number, {}, *told)

    def judge(self, question: Question, answer: Answer) -> None:
        """Refuse ciphertexts that are none, and centers that went another way."""
        facts = answer.release.public
        if {name: type(value) for name, value in facts.items()} != FACTS:
            raise Refused("its public facts are not those of an encrypted run")
        if question.step == "encrypted where":
            taken = int(facts["taken"])
            if not 0 <= taken <= len(self.totals) or facts["chain"] != self.totals.chains[taken]:
                raise Refused(ANOTHER)
        if question.step == "encrypted share":
            self.cipher.check(split(answer.ciphertexts, question.round, question.settings)[0])
        if number := brought(question):
            before = self.totals.chains[number - 1]
            if facts["chain"] != next_link(before, question.among, question.ciphertexts):
                raise Refused(ANOTHER)


def conduct_encrypted(
    job: Job, cipher: Cipher, ask: Ask, tell: Callable[[str], None], on_round: Callable[[Progress], None]
) -> Ended:
    """The whole run, from wherever it stands; ``job.folder`` then holds its history, and no model that can be read."""
    check_encryptable(policy_of(job.settings).name, job.settings.scaling)
    if len(job.centers) > MOST_CENTERS:
        raise UserError(f"{len(job.centers)} centers, but encrypted sums can add {MOST_CENTERS} at most")
    with store.opened(job.folder):
        if (ended := store.load_ended(job.folder)) is not None:
            return ended
        if store.stage(job.folder) is store.Stage.NEW:
            store.begin(job.folder, job.study.text, job.settings)
        listener = EncryptedListener(job, ask, tell, cipher)
        _catch_up(listener)
        if len(listener.totals) < sums_before_rounds(job.settings):
            _agree_on_scaling(listener)
        _rounds(listener, on_round)
        return _conclude(listener)


def _catch_up(listener: EncryptedListener) -> None:
    """Tell each center the sums that it missed, but for the last, which the next question brings."""
    totals = listener.totals
    answers = listener.put(listener.question("encrypted where", 0, None))
    for number in range(1, len(totals)):
        behind = [name for name in listener.present if int(answers[name].release.public["taken"]) < number]
        if behind:
            listener.put(listener.question("encrypted past", number, totals.read(number)), behind)


def _agree_on_scaling(listener: EncryptedListener) -> None:
    """Both sums of the scaling; a center whose answer is refused in between must be in neither."""
    first, second = None, None
    while first is None or second is None or first.record.centers != second.record.centers:
        first = _share(listener, 1, None)
        second = _share(listener, 2, first)
    listener.totals.write(first)
    listener.totals.write(second)


def _rounds(listener: EncryptedListener, on_round: Callable[[Progress], None]) -> None:
    """All rounds, or until the centers say that they have settled."""
    job, totals = listener.job, listener.totals
    start = starting_prior(job.layout, job.settings)
    while round_of(number := len(totals) + 1, job.settings) <= job.settings.rounds:
        total = _share(listener, number, totals.read(number - 1) if totals else None)
        if total is None:
            return
        totals.write(total)
        on_round(Progress(start, _history(totals)))


def _share(listener: EncryptedListener, number: int, last: Total | None) -> Total | None:
    """The sum of all shares, and with it the prior of the first center; None if the centers have settled.

    What the server records of a round is not how far the prior moved: it cannot know.
    """
    began, settings = perf_counter(), listener.job.settings
    answers = listener.put(listener.question("encrypted share", number, last))
    if round_of(number, settings) <= 1:
        listener.every_view_held(answers)
    if _settled(answers):
        return None
    for center in [center for center, answer in answers.items() if answer.release.public["converged"]]:
        listener.bar(center, "it says that the rounds have settled, and most do not")
        del answers[center]
    listener.enough(answers)
    parts = [split(answers[center].ciphertexts, number, settings) for center in sorted(answers)]
    ciphertexts = (*listener.cipher.add([shares for shares, _ in parts]), *parts[0][1])
    seconds = perf_counter() - began
    round_ = max(round_of(number, settings), 0)
    return Total(ciphertexts, Record(round_, math.inf, seconds, *listener.travelled, tuple(sorted(answers))))


def _settled(answers: Mapping[str, Answer]) -> bool:
    """What most centers say."""
    return 2 * sum(answer.release.public["converged"] is True for answer in answers.values()) > len(answers)


def _history(totals: Totals) -> tuple[Record, ...]:
    return tuple(record for record in totals.records if record.round)


def _conclude(listener: EncryptedListener) -> Ended:
    """All centers write their models; the one that the study names seals its own for the lead."""
    federation, totals = listener.job.study.federation, listener.totals
    answers = listener.put(listener.question("encrypted finish", len(totals), totals.read(len(totals))))
    sealed = None
    if (named := federation.model_to) is not None:
        if named not in answers or not answers[named].ciphertexts:
            raise TooFewCenters(f"center {named!r}, which is to hand the model to the lead, is not there")
        (sealed,) = answers[named].ciphertexts
    ended = Ended(_history(totals), _settled(answers), sealed)
    store.finish_unread(listener.job.folder, ended)
    return ended
