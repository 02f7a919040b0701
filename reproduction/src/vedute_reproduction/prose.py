"""Markdown: tables, what the templates may do with values, and how the text that they give is wrapped."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

WIDTH = 120
ITEM = textwrap.TextWrapper(WIDTH, "* ", "  ", break_on_hyphens=False)


@cache
def environment() -> Environment:
    """Where templates are found, and the filters that they use."""
    found = Environment(
        loader=PackageLoader("vedute_reproduction"), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        autoescape=False,
    )  # fmt: skip
    for used in (f, each, span, at_most, listed, placed, times):
        found.filters[used.__name__] = used
    return found


def rows(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    listed = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in listed)


def told(value: float, form: str) -> str:
    """A number, or nothing where there is none."""
    return "" if value != value else format(value, form)


def about(name: str, *values: Any) -> str:
    """What a reader of the tables of an experiment has to know."""
    module: Any = environment().get_template("about.md").module
    return str(getattr(module, name)(*values)).strip()


def f(value: Any, form: str) -> str:
    """A value in a format."""
    return format(value, form)


def span(values: Iterable[float], form: str) -> str:
    """The smallest and the largest of some values."""
    found = [float(value) for value in values if value == value]
    low, high = format(min(found), form), format(max(found), form)
    return low if low == high else f"{low} to {high}"


def each(values: Iterable[float], form: str, joint: str = ", ") -> str:
    """Values one after the other."""
    return joint.join(format(value, form) for value in values)


def at_most(share: float, digits: int = 0) -> str:
    """A bound in per cent, rounded up, or the sentence that states it would be false."""
    step = 10.0 ** (digits + 2)
    return f"{math.ceil(share * step - 1e-9) / step:.{digits}%}"


def listed(values: pd.Series[float], form: str) -> str:
    """Values with their scenarios and numbers of centers, for a sentence."""
    cells = zip(values.index.to_list(), values.to_list(), strict=True)
    return ", ".join(f"{format(value, form)} ({scenario}, {n} center{'s'[: n > 1]})" for (scenario, n), value in cells)


def placed(values: pd.DataFrame, form: str = ".3f") -> str:
    """A table with a line for each scenario and number of centers."""
    body = [
        [str(scenario), str(n), *(told(value, form) for value in row)]
        for (scenario, n), row in zip(values.index.to_list(), values.to_numpy().tolist(), strict=True)
    ]
    return rows(["scenario", "centers", *map(str, values.columns)], body)


def times(lines: pd.DataFrame) -> str:
    """How often an experiment was repeated."""
    return f"{lines['repeat'].nunique()} x {lines['fold'].nunique()}-fold"


def filled(text: str) -> str:
    """Paragraphs and lists wrapped again, which computed numbers have made uneven; all else as it is."""
    return "\n\n".join(_filled(block) for block in re.split(r"\n{2,}", text.strip("\n")))


def _filled(block: str) -> str:
    if block.startswith("* "):
        return "\n".join(ITEM.fill(" ".join(item.split())) for item in re.split(r"^\* ", block, flags=re.M)[1:])
    if block.startswith(("|", "#", "!", "    ")):
        return block
    return textwrap.fill(" ".join(block.split()), WIDTH, break_on_hyphens=False)
