"""Ledgers and their copies in run folders, read as whoever checks them would."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from vedute.privacy import hash_chain
from vedute.privacy.release import Release, from_json


class Entry(NamedTuple):
    """One release of a ledger."""

    key: str
    release: Release


def read_ledger(path: Path) -> tuple[Entry, ...]:
    """The entries of a ledger or of its copy, verified."""
    records = hash_chain.read(path, copy=True).records[1:]
    return tuple(Entry(record["key"], from_json(record["release"])) for record in records)
