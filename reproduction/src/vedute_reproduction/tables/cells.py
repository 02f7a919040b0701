"""Markdown tables, and numbers in them."""

from __future__ import annotations

from collections.abc import Sequence


def rows(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    listed = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in listed)


def told(value: float, form: str) -> str:
    """A number, or nothing where there is none."""
    return "" if value != value else format(value, form)
