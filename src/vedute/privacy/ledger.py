"""The ledger: every release of a data set, written down before it leaves, never more than was promised.

A ledger belongs to a center and to its data, not to a run: a second run on the same data continues it. It
keeps the released values as well, so that a run that was killed sends the same release again instead of a new
one, which would have to be paid for.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from vedute.errors import DataWarning, UserError
from vedute.privacy import hash_chain
from vedute.privacy.accounting import Budget, cost, protected, spent_epsilon
from vedute.privacy.release import Event, NonPrivate, Release, from_json, leaves, to_json

VERSION = 1


@dataclass(frozen=True)
class Entry:
    """One release as the ledger keeps it: its name, the question it answered, and what left."""

    key: str
    question: str
    when: str
    release: Release


class Ledger:
    """All releases of one data set; in memory only where no path is given."""

    def __init__(self, center: str, data: str, path: Path | None = None) -> None:
        self.center, self.data, self.path = center, data, path
        self._chain = hash_chain.Chain()
        self._known: tuple[str, tuple[Entry, ...]] = ("", ())  # decoded before, and the hash of the last: it fixes all
        self._refresh()  # a damaged ledger is met at once, not after the training

    def entries(self) -> tuple[Entry, ...]:
        """Every release so far, oldest first."""
        self._refresh()
        records = self._chain.records[1:]
        last, known = self._known
        if known and (len(records) < len(known) or records[len(known) - 1]["hash"] != last):
            raise UserError(
                f"{self._name()} was put back to an earlier state while it was in use: it lacks releases that left. "
                "Nothing is released: bring the newer file and its .head back (run folders hold copies of the file)"
            )
        entries = (*known, *map(_entry, records[len(known) :]))
        self._known = (self._chain.last, entries)
        return entries

    def events(self) -> tuple[Event, ...]:
        """What was ever released, as events."""
        return tuple(_events(self.entries()))

    def spent(self, delta: float, relation: str, nominal: bool = False) -> float:
        """The total eps at ``delta``; infinite where something left unprotected or with seeded noise."""
        return spent_epsilon(self.events(), delta, relation, nominal)

    def release(
        self, key: str, question: str, make: Callable[[], Release], budget: Budget | None, relation: str
    ) -> Release:
        """The release named ``key`` for ``question``: the one on file, or else a new one, paid for first.

        ``make`` is called only when there is none yet; what it returns goes nowhere before it is on disk.
        Without a budget (the policies ``none`` and ``paper``) all is written down and nothing is refused.
        """
        with self._exclusive():
            entries = self.entries()
            for entry in entries:
                if (entry.key, entry.question) == (key, question):
                    return entry.release
            fresh = make()
            entry = Entry(key, question, datetime.now(UTC).isoformat(timespec="seconds"), fresh)
            after = (*entries, entry)
            spent: float | None
            if budget is None:
                spent = None if protected(_events(after), relation) else math.inf
            else:
                self._refuse_overspending(tuple(_events(entries)), fresh, budget, relation)
                spent = spent_epsilon(_events(after), budget.delta, relation)
            self._append(_line(entry, budget, relation, spent))
            # what a repeat will be answered is what was written, whatever becomes of the values that leave now
            self._known = (self._chain.last, (*entries, _entry(self._chain.records[-1])))
            return fresh

    def copy_to(self, path: Path) -> None:
        """A copy for a run folder: what it holds has left the center already."""
        self._refresh()
        fresh = path.with_name(path.name + ".new")
        fresh.write_bytes(b"".join(hash_chain.line(record) for record in self._chain.records))
        os.replace(fresh, path)

    def _refuse_overspending(self, before: tuple[Event, ...], fresh: Release, budget: Budget, relation: str) -> None:
        total = cost((*before, *fresh.events), relation, nominal=fresh.seeded)
        if total is not None and total.delta(budget.epsilon) <= budget.delta:
            return
        spent = spent_epsilon(before, budget.delta, relation, nominal=fresh.seeded)
        reason = f"eps = {spent:.4g} is already spent"
        if math.isinf(spent):
            reason = f"earlier releases were not private ({_unprotected(before)})"
        raise UserError(
            f"center {self.center!r}: this release would exceed the promise eps = {budget.epsilon:g}, "
            f"delta = {budget.delta:g} ({relation}): {reason} on these data. Ask for what the ledger "
            f"({self._name()}) still allows, repeat the earlier request (it is answered from the ledger at "
            "no cost), or let the center raise its own budget"
        )

    def _refresh(self) -> None:
        if self.path is not None:
            self._chain = hash_chain.read(self.path)
        first = self._chain.records[0] if self._chain.records else {"center": self.center, "data": self.data}
        if (first.get("center"), first.get("data")) != (self.center, self.data):
            raise UserError(f"{self._name()} is the ledger of another center or of other data: name its own")

    def _append(self, record: hash_chain.Record) -> None:
        header = {"ledger": "vedute", "version": VERSION, "center": self.center, "data": self.data}
        for new in [header] * (not self._chain.records) + [record]:
            if self.path is not None:
                self._chain = hash_chain.append(self.path, self._chain, new)
            else:
                self._chain = hash_chain.Chain((*self._chain.records, self._chain.sealed(new)))

    def _exclusive(self) -> AbstractContextManager[None]:
        return nullcontext() if self.path is None else hash_chain.exclusive(self.path)

    def _name(self) -> str:
        return "in memory" if self.path is None else str(self.path)


def open_ledger(home: Path, center: str, data: str) -> Ledger:
    """The ledger of a data set, named by its fingerprint, in the folder of all ledgers of the center."""
    folder = home / quote(center, safe="")
    path = folder / f"ledger-{data[:16]}.jsonl"
    others = [other for other in folder.glob("ledger-*.jsonl") if other != path]
    if others and not path.exists():
        warnings.warn(
            f"center {center!r} has {len(others)} ledger(s) of other data in {folder}: a subject who is in "
            "both tables is exposed to both, and no ledger adds them up",
            DataWarning,
            stacklevel=2,
        )
    return Ledger(center, data, path)


def _line(entry: Entry, budget: Budget | None, relation: str, spent: float | None) -> hash_chain.Record:
    record: dict[str, Any] = {
        "when": entry.when,
        "key": entry.key,
        "question": entry.question,
        "relation": relation,
        "budget": None if budget is None else {"epsilon": budget.epsilon, "delta": budget.delta},
        "spent_epsilon": "infinity" if spent == math.inf else spent,
    }
    if entry.release.seeded:
        record["warning"] = "NOT PRIVATE: seeded noise"
    return {**record, "release": to_json(entry.release)}


def _entry(record: hash_chain.Record) -> Entry:
    return Entry(record["key"], record["question"], record["when"], from_json(record["release"]))


def _events(entries: Iterable[Entry]) -> Iterator[Event]:
    return (event for entry in entries for event in entry.release.events)


def _unprotected(events: tuple[Event, ...]) -> str:
    reasons = [event.reason for event, _ in leaves(events) if isinstance(event, NonPrivate)]
    return reasons[0] if reasons else "seeded noise, or noise that protects less than this policy promises"
