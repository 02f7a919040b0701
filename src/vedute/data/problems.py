"""Complaints are gathered and told together, so that a file is mended in one go."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from vedute.errors import UserError

SHOWN = 20  # complaints told in full; a file that is wrong throughout should not fill the screen


class Problems:
    """A list of complaints about one study; raises them all at once."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def add(self, message: str) -> None:
        """Note one complaint, once."""
        if message not in self.messages:
            self.messages.append(message)

    def catch(self, error: UserError) -> None:
        """Note what another check has refused."""
        for line in str(error).split("\n"):
            self.add(line.removeprefix("  - "))

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
