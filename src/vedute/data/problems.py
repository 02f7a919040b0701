"""Complaints are gathered and told together, so that a file is mended in one go; names that no folder could have."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field

from vedute.errors import UserError

SHOWN = 20  # complaints told in full; a file that is wrong throughout should not fill the screen
MAX_CHARACTERS = 100
MAX_BYTES = 200  # a file name may have 255 bytes, and we add prefixes and suffixes
FORBIDDEN = set('/\\:*?"<>|')
RESERVED = {"con", "prn", "aux", "nul", *(f"com{i}" for i in range(10)), *(f"lpt{i}" for i in range(10))}
JOINERS = "\u200c\u200d"  # invisible, but spelling in Persian and several Indic scripts needs them


@dataclass
class Problems:
    """A list of complaints about one study; raises them all at once."""

    messages: list[str] = field(default_factory=list)

    def add(self, *messages: str) -> None:
        """Note complaints, each once."""
        self.messages += [message for message in dict.fromkeys(messages) if message not in self.messages]

    def catch(self, error: UserError) -> None:
        """Note what another check has refused."""
        self.add(*(line.removeprefix("  - ") for line in str(error).split("\n")))

    def raise_if_any(self, subject: str, shown: int = SHOWN) -> None:
        """Raise one :class:`UserError` about ``subject`` that lists every complaint."""
        if self.messages:
            raise UserError(listed(subject, self.messages, shown))


def listed(subject: str, messages: list[str], shown: int = SHOWN) -> str:
    """One message that tells all complaints."""
    if len(messages) == 1:
        return messages[0]
    lines = [f"{subject}: {len(messages)} problems", *(f"  - {message}" for message in messages[:shown])]
    if len(messages) > shown:
        lines.append(f"  - ... and {len(messages) - shown} more")
    return "\n".join(lines)


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint at a probable misspelling, `` (did you mean 'age'?)``, or nothing."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def some(names: Iterable[str], shown: int = 8) -> str:
    """A list of names short enough for a message."""
    listed_names = [repr(name) for name in names]
    more = f", ... ({len(listed_names)} in all)" if len(listed_names) > shown else ""
    return ", ".join(listed_names[:shown]) + more


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
