"""Which names a center or a view may have: they become names of folders and files."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

MAX_CHARACTERS = 100
MAX_BYTES = 200  # a file name may have 255 bytes, and we add prefixes and suffixes
FORBIDDEN = set('/\\:*?"<>|')
RESERVED = {"con", "prn", "aux", "nul", *(f"com{i}" for i in range(10)), *(f"lpt{i}" for i in range(10))}
JOINERS = "\u200c\u200d"  # invisible, but spelling in Persian and several Indic scripts needs them


def why_unsafe(name: str) -> str | None:
    """Why ``name`` cannot be the name of a folder everywhere, or None. Any script is welcome."""
    if not name.strip():
        return "is empty"
    if len(name) > MAX_CHARACTERS or len(name.encode("utf-8", "replace")) > MAX_BYTES:
        return f"is longer than {MAX_CHARACTERS} characters ({MAX_BYTES} bytes)"
    bad = next((c for c in name if c in FORBIDDEN), None)
    if bad is not None:
        return f"contains {bad!r}"
    if any(unicodedata.category(c) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"} and c not in JOINERS for c in name):
        return "contains an invisible or invalid character"
    if name != name.strip() or name[0] == "." or name[-1] == ".":
        return "begins or ends with a dot or a space"
    if name.split(".")[0].casefold() in RESERVED:
        return "is reserved by Windows"
    return None


def name_problems(names: Iterable[str], kind: str, where: str) -> list[str]:
    """Complaints about names of centers or views, also about two that one folder could not tell apart."""
    problems = []
    seen: dict[str, str] = {}
    for name in names:
        reason = why_unsafe(name)
        if reason is not None:
            shown = name if len(name) <= 40 else name[:40] + "..."
            problems.append(f"{where}: the {kind} name {shown!r} {reason}; it will name a folder, choose another")
            continue
        folded = unicodedata.normalize("NFC", name).casefold()
        if folded in seen:
            both = f"{seen[folded]!r} and {name!r}"
            problems.append(f"{where}: the {kind} names {both} differ only in spelling; rename one")
        seen.setdefault(folded, name)
    return problems
