"""A center of an encrypted run: it takes the master's step itself, from sums that only centers can read.

Nothing is encrypted before it was checked, and nothing that was decrypted is believed before it was checked. What the
center knows of the run (the scaling, the prior, the chain of sums) is on its own disk before an answer leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from vedute.core.params import Array
from vedute.data.scaling import squares_of, sums_of
from vedute.data.study import Study
from vedute.errors import UserError
from vedute.federation import store
from vedute.federation.bounds import check_contribution, check_sums
from vedute.federation.encrypted import (
    brought,
    check_encryptable,
    next_link,
    round_of,
    share_of,
    split,
    sums_before_rounds,
)
from vedute.federation.encrypted_known import Known, load_known, nothing_known, prior_bytes, save_known, take_in
from vedute.federation.encryption import Cipher
from vedute.federation.fitting import Folded
from vedute.federation.model_file import own_scaling, prior_arrays
from vedute.federation.packing import pack, unpack
from vedute.federation.protocol import Answer, Question, Refused, Step
from vedute.federation.sealing import seal
from vedute.federation.settings import Settings
from vedute.federation.site import Site
from vedute.federation.wire import encode_question
from vedute.privacy.events import NonPrivate
from vedute.privacy.gate import open_gate
from vedute.privacy.ledger import Ledger
from vedute.privacy.policies import AnyPolicy, NoPrivacy
from vedute.privacy.release import Public, Release

HIDDEN = NonPrivate("policy none: exact values, which the server sees encrypted")
TO_THE_LEAD = NonPrivate("final global prior for the lead, as the study agreed")


class EncryptedSite(Site):
    """One center; ``cipher`` has the key that all centers share, ``lead`` is the lead's certificate."""

    def __init__(
        self, study: Study, home: Path, cipher: Cipher, lead: bytes, note: Callable[[str], None] = lambda message: None
    ) -> None:
        super().__init__(study, home, note)
        self.cipher, self.lead = cipher, lead
        self._known: tuple[str, Known] | None = None  # of the run that goes on

    def answer(self, question: Question) -> Answer:
        """What leaves the center."""
        policy = self._judge(question)
        assert isinstance(policy, NoPrivacy)
        settings = question.settings
        with threadpool_limits(1, user_api="blas"):
            read, ledger = self._read(settings)
            open_gate(policy, ledger, f"run {question.run}")
            known = self._take(question)
            leaves: tuple[bytes, ...] = ()
            events: tuple[NonPrivate, ...] = (HIDDEN,)
            if question.step == "encrypted share" and not known.progress.converged:
                vector = self._share(question, known, read, ledger)
                leaves = self.cipher.encrypt(vector, share_of(question.round, self.layout, settings)[1])
                if self._round_of(question) >= 1:
                    prior = prior_bytes(known.progress.prior, self.layout)
                    leaves = (*leaves, self.cipher.wrap(prior, _about(question.run, question.round)))
            elif question.step == "encrypted finish":
                self._finish(self._plainly("finish", question, known), policy)
                if self.study.federation.model_to == self.name:
                    leaves, events = (self._for_the_lead(question),), (HIDDEN, TO_THE_LEAD)
        facts: dict[str, Public] = {"taken": known.taken, "chain": known.chain, "converged": known.progress.converged}
        release = Release({}, events, policy.name, facts)
        return Answer(question.step, question.run, question.round, read.statistics.layout.names, release, leaves)

    def _steps(self, policy: AnyPolicy, settings: Settings) -> tuple[str, ...]:
        try:
            check_encryptable(policy.name, settings.scaling)
        except UserError as error:
            raise Refused(str(error)) from None
        return "encrypted where", "encrypted past", "encrypted share", "encrypted finish"

    def _round_of(self, question: Question) -> int:
        return round_of(question.round, question.settings)

    def _take(self, question: Question) -> Known:
        """Take in the sum that the question brings, unless that was done before; a sum is never replaced by another.

        But for the very first: if a center falls silent between the two sums of the scaling, both are made anew.
        """
        folder = self._folder(question) / store.CHECKPOINT
        if self._known is None or self._known[0] != question.run:
            self._known = question.run, load_known(folder, question, self.layout)
        known, number = self._known[1], brought(question)
        if number <= 1 and known.taken < sums_before_rounds(question.settings):
            known = nothing_known(question, self.layout)
        if number == 0:
            return known
        if number == known.taken:
            if next_link(known.before, question.among, question.ciphertexts) != known.chain:
                raise Refused(f"another sum {number} than the one that was taken in before")
            return known
        if number != known.taken + 1:
            raise Refused(f"sum {number}, but {known.taken} were taken in")
        size, grid = share_of(number, self.layout, question.settings)
        ciphertexts, along = split(question.ciphertexts, number, question.settings)
        vector = self.cipher.decrypt(ciphertexts, grid, size, len(question.among))
        prior = b"".join(self.cipher.unwrap(wrapped, _about(question.run, number)) for wrapped in along)
        found = take_in(known, vector, prior, question.among, question.settings, self.columns, self.study.federation)
        chain = next_link(known.chain, question.among, question.ciphertexts)
        found = replace(found, chain=chain, before=known.chain)
        save_known(folder, found, self.layout)
        self._known = question.run, found
        return found

    def _share(self, question: Question, known: Known, read: Folded, ledger: Ledger) -> Array:
        """This center's summand, checked as a server that saw it would."""
        settings, statistics, one = question.settings, read.statistics, np.ones(1)
        held = statistics.layout
        if self._round_of(question) >= 1:
            release = self._round(self._plainly("round", question, known), NoPrivacy(), read, ledger)
            contribution = unpack(release.values["contribution"], held, settings.n_components)
            check_contribution(contribution, held)
            return np.concatenate([one, pack(contribution, self.layout)])
        if question.round == 1:
            sums = sums_of(self.layout, statistics)
            values = {"counts": sums.counts, "sums": sums.sums}
        else:
            assert known.sums is not None
            values = {"squares": squares_of(self.layout, statistics, known.sums.mean)}
        check_sums(values, held, self.layout)
        return np.concatenate([one, *values.values()])

    def _plainly(self, step: Step, question: Question, known: Known) -> Question:
        """The question that a server would ask which knew the prior."""
        values: dict[str, Array] = dict(prior_arrays(known.progress.prior, self.layout))
        if known.progress.basis is not None:
            values["basis"] = known.progress.basis
        if known.scaler is not None and (self._center is None or self._center[0] != question.run):
            values["shift"], values["scale"] = known.scaler.vectors(self.layout)
        among = question.among
        round_ = self._round_of(question)
        return Question(step, question.run, question.study, question.settings, round_, values, among=among)

    def _for_the_lead(self, question: Question) -> bytes:
        model = store.load_run(self._folder(question) / "model").model
        values: dict[str, Array] = dict(prior_arrays(model.prior, self.layout))
        if not own_scaling(model.settings):
            values["shift"], values["scale"] = model.scalers[self.name].vectors(self.layout)
        told = Question("finish", question.run, question.study, model.settings, self._round_of(question), values)
        return seal(encode_question(told), self.lead, question.run.encode())


def _about(run: str, number: int) -> str:
    return f"prior with sum {number} of run {run}"
