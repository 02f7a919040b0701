"""The screen that tables are printed to."""

from __future__ import annotations

import sys

from rich.console import Console

WIDE = 160  # characters of a table in a file or pipe, which has no width of its own


class Screen(Console):
    """Standard output; a reader who goes away is left to the command line, which knows the exit status."""

    def on_broken_pipe(self) -> None:
        """Do not leave from here."""
        raise BrokenPipeError


def screen() -> Screen:
    """As wide as the terminal, or wide."""
    return Screen(width=None if sys.stdout.isatty() else WIDE)
