"""The study file (TOML) as it is written: keys and types, not yet compared with the data."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from vedute.data.problems import Problems, name_problems, nearest, some
from vedute.data.scaling import SCALINGS
from vedute.data.table import TableFile
from vedute.errors import UserError

Raw = Mapping[str, Any]
POLICIES = ("none", "subject", "center", "paper")
TOP_KEYS = ("study", "views", "subjects", "files", "centers", "privacy", "federation")
NODE_KEYS = ("center", "id", "files", "subjects", "privacy")
FILE_KEYS = ("file", "id", "delimiter", "decimal", "modality")
WITHDRAWN = (
    "sums were encrypted by one key that every center held, so a center and the server together could read all; "
    'write aggregation = "plain", or ask for a policy under [privacy]'
)


@dataclass(frozen=True)
class ViewText:
    """[views.NAME]: None where the study file is silent."""

    columns: tuple[str, ...] | None = None
    ranges: Raw | str | None = None
    delimiter: str | None = None
    decimal: str | None = None


@dataclass(frozen=True)
class SubjectsText:
    """[subjects], or [centers.NAME.subjects], which has no column of centers."""

    table: TableFile
    center: str | None
    group: str | None


@dataclass(frozen=True)
class PoolText:
    """Files that are read together: pooled (``center`` is None) or those of one center."""

    center: str | None
    files: Mapping[str, TableFile]
    subjects: SubjectsText | None = None


@dataclass(frozen=True)
class PrivacySettings:
    """[privacy]: the policy asked for; ``options`` holds further keys, which the policy itself judges."""

    policy: str = "none"
    epsilon: float | None = None
    delta: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class FederationSettings:
    """[federation]: how the centers work together across machines.

    A run goes on while ``minimum_centers`` answer within ``timeout`` seconds; a machine that says nothing for
    ``heartbeat`` seconds counts as gone. The rest bounds what a center lets itself be asked, whatever the server says:
    at most ``runs`` runs of at most ``rounds`` rounds, under this ``scaling``, from a prior whose standard deviations
    lie between ``smallest_sd`` and ``largest_sd`` (one far outside could be built to draw out a subject).
    """

    minimum_centers: int = 2
    timeout: float = 60.0
    heartbeat: float = 20.0
    rounds: int = 100
    runs: int = 50
    scaling: str | None = "shared-standard"
    smallest_sd: float = 1e-6
    largest_sd: float = 1e3


@dataclass(frozen=True)
class StudyText:
    """The whole study file."""

    path: Path
    text: str
    name: str
    components: int | None
    views: Mapping[str, ViewText]
    pools: tuple[PoolText, ...] = ()
    privacy: PrivacySettings = field(default_factory=PrivacySettings)
    federation: FederationSettings = field(default_factory=FederationSettings)


def read_toml(path: Path) -> tuple[str, dict[str, Any]]:
    """The text of a TOML file and its content."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
        return text, tomllib.loads(text)
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file; give the path of the study file") from None
    except IsADirectoryError:
        raise UserError(f"{path}: is a directory; give the path of the study file inside it") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not UTF-8 text; save the study file again in UTF-8") from None
    except (OSError, ValueError, RecursionError) as error:
        kind = "is not valid TOML" if isinstance(error, tomllib.TOMLDecodeError) else "cannot be read"
        raise UserError(f"{path}: {kind} ({str(error) or type(error).__name__}); correct it there") from None


def parse_study(path: Path, text: str, raw: Raw, problems: Problems) -> StudyText:
    """The content of a study file, with every complaint about its keys and values noted."""
    top = _Table(raw, path, "the study file", problems)
    top.only(TOP_KEYS)
    study = top.table("study", "[study]")
    study.only(("name", "components", "id"))
    name, id_name = study.text("name") or path.stem, study.text("id") or "id"
    views = {view: _view(body) for view, body in top.tables("views").items()}
    pools = _pools(top, id_name, views)
    views = views or {view: ViewText() for pool in pools for view in pool.files}
    problems.add(*name_problems(views, "view", path.name))
    return StudyText(
        path, text, name, study.count("components"), views, pools,
        _privacy(top.table("privacy", "[privacy]")), _federation(top.table("federation", "[federation]")),
    )  # fmt: skip


def parse_node(path: Path, shared: StudyText, problems: Problems) -> StudyText:
    """The shared part of a study with the files of one center, as its node file tells; its [privacy] wins."""
    _, raw = read_toml(path)
    top = _Table(raw, path, "the node file", problems)
    top.only(NODE_KEYS)
    center = top.text("center")
    if center is None:
        top.say('center is missing; write center = "nice"')
        center = "center"
    problems.add(*name_problems([center], "center", path.name))
    pool = _pool_of(center, top, "", top.text("id") or "id", shared.views)
    privacy = _privacy(top.table("privacy", "[privacy]")) if "privacy" in raw else shared.privacy
    return replace(shared, pools=(pool,), privacy=privacy)


def _view(body: _Table) -> ViewText:
    """[views.NAME]."""
    body.only(("columns", "ranges", "delimiter", "decimal"))
    columns = body.raw.get("columns")
    if columns is not None:
        if not isinstance(columns, list) or not columns or not all(isinstance(c, str) and c for c in columns):
            body.complain('columns: give a list of column names, such as ["age", "sbp"]')
            columns = None
        elif len(set(columns)) < len(columns):
            twice = next(c for c in columns if columns.count(c) > 1)
            body.complain(f"columns: {twice!r} is named twice; name it once")
            columns = list(dict.fromkeys(columns))
    ranges = body.raw.get("ranges")
    if ranges is not None and not isinstance(ranges, dict | str):
        body.complain("ranges: write { age = [18, 100] } or the name of a CSV file")
        ranges = None
    return ViewText(tuple(columns) if columns else None, ranges, *_dialect(body))


def _pools(top: _Table, id_name: str, views: Mapping[str, ViewText]) -> tuple[PoolText, ...]:
    """The files, in one of the two forms."""
    pooled = "subjects" in top.raw or "files" in top.raw
    if pooled and "centers" in top.raw:
        top.say("holds both [files] with [subjects] and [centers.NAME.files]; keep one of the two forms")
        return ()
    if "centers" in top.raw:
        bodies = top.tables("centers")
        found = [_pool_of(center, body, f"centers.{center}.", id_name, views) for center, body in bodies.items()]
        top.problems.add(*name_problems(bodies, "center", top.path.name))
        return tuple(found)
    if not pooled:
        return ()
    for key in ("subjects", "files"):
        if key not in top.raw:
            top.say(f"[{key}] is missing; pooled files need [subjects] and [files], else use [centers.NAME.files]")
    subjects = _subjects(top.table("subjects", "[subjects]"), id_name, pooled=True)
    files = _files(top.table("files", "[files]"), subjects.table.id if subjects else id_name, views)
    return (PoolText(None, files, subjects),)


def _pool_of(center: str, body: _Table, prefix: str, id_name: str, views: Mapping[str, ViewText]) -> PoolText:
    """[centers.NAME], or the file of a node, which has its tables at the top: ``prefix`` is empty."""
    if prefix:
        body.only(("files", "subjects"))
    listed = body.table("files", f"[{prefix}files]")
    files = _files(listed, id_name, views)
    if not files:
        listed.complain("names no file; name the file of a view, or remove the center")
    return PoolText(center, files, _subjects(body.table("subjects", f"[{prefix}subjects]"), id_name, pooled=False))


def _subjects(body: _Table, id_name: str, *, pooled: bool) -> SubjectsText | None:
    """[subjects]."""
    if not body.raw:
        return None
    body.only((*FILE_KEYS[:-1], *(("center",) if pooled else ()), "group"))
    table = _file(replace(body, raw={key: body.raw[key] for key in body.raw if key in FILE_KEYS}), id_name)
    center = body.text("center")
    if pooled and center is None:
        body.complain('center is missing; name the column that tells the center: center = "site"')
    group = body.text("group")
    return SubjectsText(table, center, group) if table is not None else None


def _files(body: _Table, id_name: str, views: Mapping[str, ViewText]) -> dict[str, TableFile]:
    """[files]: view -> file, a text or a table with its dialect, which the view may tell for all its files."""
    found: dict[str, TableFile] = {}
    for view, entry in body.raw.items():
        where = f"{body.where} {view}"
        if views and view not in views:
            body.say(f"{where}: there is no [views.{view}]{nearest(view, views)}; add it or remove the file")
            continue
        raw = entry if isinstance(entry, dict) else {"file": entry}
        table = _file(replace(body, raw=raw, where=where), id_name)
        if table is not None:
            said = views.get(view, ViewText())
            found[view] = replace(
                table,
                delimiter=table.delimiter or said.delimiter,
                decimal=table.decimal or said.decimal,
                modality=table.modality or (view if table.path.suffix.lower() == ".h5mu" else None),
            )
    return found


def _file(body: _Table, id_name: str) -> TableFile | None:
    """A file with its dialect."""
    name = body.raw.get("file")
    if not isinstance(name, str) or not name:
        body.say(f'{body.where}: names no file; write "NAME.csv" or {{ file = "NAME.csv", delimiter = ";" }}')
        return None
    body.only(FILE_KEYS)
    dialect = _dialect(body)
    table = TableFile(body.path.parent / name, name, body.text("id") or id_name, *dialect, body.text("modality"))
    try:
        _ = table.kind
    except UserError as error:
        body.problems.catch(error)
        return None
    return table


def _dialect(body: _Table) -> tuple[str | None, str | None]:
    """``delimiter`` and ``decimal``."""
    delimiter, decimal = body.raw.get("delimiter"), body.raw.get("decimal")
    if delimiter is not None and not (
        isinstance(delimiter, str) and len(delimiter) == 1 and delimiter.isascii() and delimiter not in '"\r\n\0'
    ):
        body.complain(f'delimiter: {delimiter!r} is not one character such as ",", ";" or "\\t"; correct it')
        delimiter = None
    if decimal is not None and decimal not in (".", ","):
        body.complain(f'decimal: {decimal!r} is neither "." nor ","; correct it')
        decimal = None
    return delimiter, decimal


def _privacy(body: _Table) -> PrivacySettings:
    """[privacy]."""
    options = {key: value for key, value in body.raw.items() if key not in {"policy", "epsilon", "delta"}}
    policy = body.choice("policy", POLICIES, "none")
    return PrivacySettings(policy, body.number("epsilon"), body.number("delta", below=1.0), options)


def _federation(body: _Table) -> FederationSettings:
    """[federation]."""
    default = FederationSettings()
    body.only((*(setting.name for setting in fields(FederationSettings)), "aggregation"))
    if body.raw.get("aggregation") == "encrypted":
        body.complain(f'aggregation = "encrypted" is no longer offered: {WITHDRAWN}')
    else:
        body.choice("aggregation", ("plain",), "plain")
    decimals = ("timeout", "heartbeat", "smallest_sd", "largest_sd")
    numbers = {key: body.number(key) or getattr(default, key) for key in decimals}
    if numbers["smallest_sd"] >= numbers["largest_sd"]:
        body.complain("smallest_sd must be below largest_sd; correct one of them")
    scaling = body.choice("scaling", (*SCALINGS, "none"), str(default.scaling))
    return FederationSettings(
        body.count("minimum_centers") or default.minimum_centers,
        rounds=body.count("rounds") or default.rounds,
        runs=body.count("runs") or default.runs,
        scaling=None if scaling == "none" else scaling,
        **numbers,
    )


@dataclass(frozen=True)
class _Table:
    """A table of a TOML file; a value that cannot be is noted among the problems and read as if it were absent."""

    raw: Raw
    path: Path
    where: str  # as messages call it: [study]
    problems: Problems

    def say(self, message: str) -> None:
        """Note a complaint about the file."""
        self.problems.add(f"{self.path.name}: {message}")

    def complain(self, message: str) -> None:
        """Note a complaint about this table."""
        self.say(f"{self.where} {message}")

    def only(self, known: tuple[str, ...]) -> None:
        """Complain about keys that mean nothing, which are mostly misspelt."""
        for key in self.raw:
            if key not in known:
                hint = nearest(key, known)
                self.say(f"{self.where}: unknown key {key!r}{hint}; known are {some(known, len(known))}")

    def table(self, key: str, where: str) -> _Table:
        """A table below this one, empty if absent."""
        value = self.raw.get(key, {})
        if not isinstance(value, dict):
            self.say(f"{where} must be a table, not {value!r}; write a line {where}")
            value = {}
        return replace(self, raw=value, where=where)

    def tables(self, key: str) -> dict[str, _Table]:
        """The tables [KEY.NAME], by name."""
        found: dict[str, _Table] = {}
        for name, body in self.table(key, f"[{key}.NAME]").raw.items():
            if isinstance(body, dict):
                found[name] = replace(self, raw=body, where=f"[{key}.{name}]")
            else:
                self.say(f"[{key}] {name} must be a table; write a line [{key}.{name}]")
        return found

    def text(self, key: str) -> str | None:
        """A text that is not empty."""
        value = self.raw.get(key)
        if value is not None and (not isinstance(value, str) or not value.strip()):
            self.complain(f"{key}: {value!r} is not a text; put a name between quotation marks")
            return None
        return value

    def choice(self, key: str, allowed: tuple[str, ...], default: str) -> str:
        """One of several words."""
        value = self.raw.get(key, default)
        if value not in allowed:
            hint = nearest(value, allowed) if isinstance(value, str) else ""
            self.complain(f"{key}: {value!r} is not one of {', '.join(allowed)}{hint}")
            return default
        return str(value)

    def count(self, key: str) -> int | None:
        """A whole number from 1 on."""
        value = self.raw.get(key)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            self.complain(f"{key}: {value!r} is not a whole number from 1 on; correct it")
            return None
        return value

    def number(self, key: str, below: float = math.inf) -> float | None:
        """A finite number above 0."""
        value = self.raw.get(key)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < below:
            limit = f"between 0 and {below:g}" if math.isfinite(below) else "above 0"
            self.complain(f"{key}: {value!r} is not a number {limit}; correct it")
            return None
        return float(value)
