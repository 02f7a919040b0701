"""Formulas as MathML, made when the site is built: browsers draw it themselves, so no script and no font is needed."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)
ROLE = re.compile(r":(?:class|meth|func|mod):<code>~?([^<]*)</code>")  # how docstrings name other objects


def on_page_content(text: str, **_: Any) -> str:
    """Replace every formula that the extension arithmatex has marked."""
    return ROLE.sub(r"<code>\1</code>", FORMULA.sub(_formula, text))


def _formula(match: re.Match[str]) -> str:
    display = "block" if match[2] == "[" else "inline"
    made = convert(html.unescape(match[3]).strip(), display=display)
    if "\\" in made or "<mi>&</mi>" in made:
        raise ValueError(f"cannot be made MathML: {match[3]}")
    return f'<div class="formula">{made}</div>' if display == "block" else made
