"""The part of a study that all centers of a federation share, as one TOML text with nothing else in it.

What a coordinator hands out must not tell where its own files are, and must not need a second file: tables that name
files are left out, and ranges kept in a CSV file are written out. Comments and order of spelling do not survive, so
two study files that mean the same give the same text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from vedute.data.study import Study
from vedute.data.study_file import read_toml

SHARED_TABLES = ("study", "views", "privacy", "federation")


def shared_text(path: str | PathLike[str]) -> str:
    """The shared part of the study file at ``path``."""
    study = Study.load_shared(path)
    _, raw = read_toml(Path(path))
    kept = {key: raw[key] for key in SHARED_TABLES if key in raw}
    for name, view in kept["views"].items():
        if "ranges" in view:
            kept["views"][name] = {**view, "ranges": {c: list(ends) for c, ends in study.views[name].ranges.items()}}
    return "\n".join(_table(key, kept[key]) for key in SHARED_TABLES if key in kept)


def _table(heading: str, body: Mapping[str, Any]) -> str:
    """[heading] with its keys sorted; the views below [views] are tables of their own."""
    if heading == "views":
        return "\n".join(_table(f"views.{_key(name)}", view) for name, view in body.items())
    return "".join([f"[{heading}]\n", *(f"{_key(key)} = {_value(body[key])}\n" for key in sorted(body))])


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_value(value[key])}" for key in sorted(value)) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return repr(value)


def _key(key: str) -> str:
    return key if re.fullmatch("[A-Za-z0-9_-]+", key) else _text(key)


def _text(text: str) -> str:
    """A basic string of TOML; JSON writes the same, but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
