"""What was paid in privacy: policy, promise, and what the ledgers say was spent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vedute.privacy.accounting import paper_claim, spent_epsilon
from vedute.privacy.hash_chain import Record
from vedute.privacy.policies import POLICIES
from vedute.privacy.release import CENTER, SUBJECT, Event, Gaussian, Laplace, NonPrivate, event_from_json, leaves
from vedute.report.charts import Axis, Lines, Series, array, colour
from vedute.report.content import Figure, Option, Section, Table, count, num
from vedute.report.reading import Folder

LINES = 12  # centers whose spending is drawn
DELTA = 1e-5  # where nothing was promised
MEANING = {
    SUBJECT: "neighbouring data sets differ by replacing one subject: the promise protects each patient",
    CENTER: "neighbouring data sets differ by replacing one whole center: the promise protects each center",
}


@dataclass(frozen=True)
class Spent:
    """What one center's ledger comes to."""

    center: str
    policy: str
    relation: str
    delta: float
    promised: float  # infinite where nothing was
    epsilon: float
    releases: int
    seeded: bool


def spent(center: str, records: Sequence[Record]) -> Spent:
    """The composed cost of all releases of a center, under the relation of the latest one."""
    last = records[-1]
    budget = last["budget"]
    delta = budget["delta"] if budget else DELTA
    found = events(records)
    return Spent(
        center, last["release"]["policy"], last["relation"], delta, budget["epsilon"] if budget else math.inf,
        spent_epsilon(found, delta, last["relation"]), len(records),
        any(getattr(event, "seeded", False) for event, _ in leaves(found)),
    )  # fmt: skip


def events(records: Sequence[Record]) -> tuple[Event, ...]:
    """All that some lines of a ledger paid for."""
    return tuple(event_from_json(event) for record in records for event in record["release"]["events"])


@dataclass(frozen=True)
class Paid:
    """What a run paid in all, and the banner that is due."""

    policy: str
    found: tuple[Spent, ...]
    without: tuple[str, ...]  # centers whose ledger is not there
    epsilon: float
    banner: str


def paid_in_all(folder: Folder) -> Paid:
    """The largest total of any center; infinite where one cannot be told."""
    found = tuple(spent(center, records) for center, records in folder.ledgers.items() if records)
    policy = str(folder.asked.get("policy", found[0].policy if found else "none"))
    known = {s.center for s in found}
    without = tuple(name for name in folder.centers if name not in known)
    total = math.inf if without else max((s.epsilon for s in found), default=math.inf)
    return Paid(policy, found, without, total, _banner(policy, found, total))


def privacy(folder: Folder) -> Section:
    """The chapter on privacy."""
    paid = paid_in_all(folder)
    found, policy, without, total = paid.found, paid.policy, paid.without, paid.epsilon
    relation = found[0].relation if found else (POLICIES[policy].relation if policy in POLICIES else SUBJECT)
    meaning = MEANING[relation] if policy != "none" else "no promise is made"
    sentences = [f"Policy: {policy}; {meaning}."]
    delta = max((s.delta for s in found), default=DELTA)
    at = f" at delta = {delta:g}" if math.isfinite(total) else ""
    sentences.append(f"Composed over everything that left the centers: epsilon = {num(total)}{at}.")
    sentences += _claim(folder, policy)
    if policy == "subject":
        sentences.append("Everything after that one release, all rounds and the choice of components, is free.")
    missing = [
        f"{s.center} in the model: it released and paid, but nothing of use was left under the noise"
        for s in found
        if s.center not in folder.centers
    ]
    if policy == "none" and not found:
        sentences.append("No ledger is in the folder, and none is needed: exact values were exchanged.")
    elif without:
        missing.append(
            f"the ledgers of {count(len(without), 'center')}: no copy is in this folder, so what they spent cannot be "
            "told here and counts as infinite; ask the centers for theirs"
        )
    figures = (_figure(folder),) if any(len(line) > 1 for line in running(folder).values()) else ()
    tables = _claim_table(folder, paid) + _tables(folder, found)
    return Section("privacy", "Privacy", tuple(sentences), figures, tables, tuple(missing), paid.banner)


def running(folder: Folder) -> dict[str, list[float]]:
    """What each center had spent after each release, by its ledger; absent where that was ever infinite."""
    found = {c: [_epsilon(record) for record in records] for c, records in folder.ledgers.items()}
    return {center: line for center, line in found.items() if line and all(map(math.isfinite, line))}


def _banner(policy: str, found: Sequence[Spent], total: float) -> str:
    if any(s.seeded for s in found):
        return "NOT PRIVATE: the noise was drawn from a known seed, so anyone who knows it can take it away."
    if policy == "none":
        return "NOT PRIVATE: exact values left the centers (sums and parameters, never rows)."
    return "NOT PRIVATE: something left without protection, or cannot be accounted for." if math.isinf(total) else ""


def _claimed(folder: Folder, policy: str) -> tuple[float, float] | None:
    """Epsilon and delta as the paper would state them."""
    asked = folder.asked
    if policy != "paper" or "epsilon" not in asked or "delta" not in asked:
        return None
    return paper_claim(float(asked["epsilon"]), float(asked["delta"]), len(folder.run.model.layout.names))


def _claim(folder: Folder, policy: str) -> list[str]:
    if (claimed := _claimed(folder, policy)) is None:
        return []
    claim = f"The paper's own claim (Theorem 4) would be epsilon = {num(claimed[0])}, delta = {num(claimed[1])}"
    raw = ", and leaves out that the first has no noise" if folder.asked.get("first_round", "raw") == "raw" else ""
    return [f"{claim}: it counts one round{raw}. The total above counts all."]


def _claim_table(folder: Folder, paid: Paid) -> tuple[Table, ...]:
    if (claimed := _claimed(folder, paid.policy)) is None:
        return ()
    delta = max((s.delta for s in paid.found), default=DELTA)
    rows = (
        ("the paper's claim", "one round", num(claimed[0]), f"{claimed[1]:g}"),
        ("the honest total", "every release", num(paid.epsilon), f"{delta:g}"),
    )
    return (Table("Claimed and counted", ("total", "counts", "epsilon", "delta"), rows, labels=2),)


def spent_lines(found: Mapping[str, Sequence[float]]) -> Lines:
    """What centers had spent after each of their releases."""
    lines = [
        Series(center, array(range(1, len(line) + 1)), array(line), colour=colour(k))
        for k, (center, line) in enumerate(found.items())
    ]
    hover = "{text}, release {x}: {y:.2f}"
    return Lines(lines, Axis("release"), Axis("epsilon so far", from_zero=True), hover)


def _figure(folder: Folder) -> Figure:
    found = sorted(running(folder).items(), key=lambda item: -item[1][-1])
    alt = "What each center had spent after each release, composed."
    if len(found) > LINES:
        alt += f" The {LINES} that spent most."
    return Figure("spent", alt, (Option("", spent_lines(dict(found[:LINES])), 320),))


def _tables(folder: Folder, found: Sequence[Spent]) -> tuple[Table, ...]:
    if not found:
        return ()
    totals = tuple(
        (s.center, s.policy, s.relation, f"{s.releases:,}", num(s.promised), num(s.epsilon), f"{s.delta:g}")
        for s in found
    )
    head = ("center", "policy", "neighbours", "releases", "promised epsilon", "spent epsilon", "delta")
    lines = tuple(
        (center, str(record["key"]), str(record["when"]), _noise(events([record])), num(_epsilon(record)))
        for center, records in folder.ledgers.items()
        for record in records
    )
    return (
        Table("Spent by each center", head, totals, labels=3),
        Table(
            "Ledger: every release, noise in multiples of its sensitivity",
            ("center", "release", "when", "noise", "epsilon so far"),
            lines,
            labels=4,
        ),
    )


def _epsilon(record: Record) -> float:
    """The total in a line of a ledger; JSON knows no infinity, so that is a word there."""
    value = record["spent_epsilon"]
    return math.nan if value is None else math.inf if isinstance(value, str) else float(value)


def _noise(found: Sequence[Event]) -> str:
    """The noise of a release, in multiples of what one neighbour can change."""
    words = []
    for event, times in leaves(found):
        often = "" if times == 1 else f"{times} times "
        if isinstance(event, NonPrivate):
            words.append(f"none ({event.reason})")
        elif isinstance(event, Gaussian):
            words.append(f"{often}Gaussian, sd {event.std / event.sensitivity:.3g}")
        elif isinstance(event, Laplace):
            words.append(f"{often}Laplace, scale {event.scale / event.sensitivity:.3g}")
    return "; ".join(dict.fromkeys(words))
