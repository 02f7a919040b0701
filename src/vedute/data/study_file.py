"""The study file (TOML) as it is written: keys and types, not yet compared with the data."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from vedute.data.problems import Problems, name_problems, nearest, some
from vedute.data.study_settings import FederationSettings, PrivacySettings, parse_federation, parse_privacy
from vedute.data.table import TableFile
from vedute.errors import UserError

Raw = Mapping[str, Any]
TOP_KEYS = ("study", "views", "subjects", "files", "centers", "privacy", "federation")
FILE_KEYS = ("file", "id", "delimiter", "decimal", "modality")


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
class Source:
    """Files that belong together: pooled (``center`` is None) or those of one center."""

    center: str | None
    files: Mapping[str, TableFile]
    subjects: SubjectsText | None = None


@dataclass(frozen=True)
class StudyText:
    """The whole study file."""

    path: Path
    text: str
    name: str
    components: int | None
    views: Mapping[str, ViewText]
    sources: tuple[Source, ...] = ()
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


class StudyParser:
    """Reads the tables of a study file and notes every complaint on the way."""

    def __init__(self, path: Path, problems: Problems) -> None:
        self.path = path
        self.folder = path.parent
        self.file = path.name
        self.problems = problems

    def parse(self, raw: Raw, text: str) -> StudyText:
        """The whole file."""
        self.known_keys(raw, "the study file", TOP_KEYS)
        study = self.table(raw, "study", "[study]")
        self.known_keys(study, "[study]", ("name", "components", "id"))
        name = self.word(study, "name", "[study]") or self.path.stem
        id_name = self.word(study, "id", "[study]") or "id"
        views = {view: self.view(view, body) for view, body in self.tables(raw, "views")}
        sources = self.sources(raw, id_name, views)
        if not views:
            views = {view: ViewText() for source in sources for view in source.files}
        for message in name_problems(views, "view", self.file):
            self.problems.add(message)
        return StudyText(
            self.path, text, name, self.components(study), views, sources,
            parse_privacy(self.table(raw, "privacy", "[privacy]"), self.problems, self.file),
            parse_federation(self.table(raw, "federation", "[federation]"), self.problems, self.file),
        )  # fmt: skip

    def components(self, study: Raw) -> int | None:
        """[study] components."""
        value = study.get("components")
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            self.say(f"[study] components: {value!r} is not a whole number from 1 on; correct it")
            return None
        return value

    def view(self, name: str, body: Raw) -> ViewText:
        """[views.NAME]."""
        where = f"[views.{name}]"
        self.known_keys(body, where, ("columns", "ranges", "delimiter", "decimal"))
        columns = body.get("columns")
        if columns is not None:
            if not isinstance(columns, list) or not columns or not all(isinstance(c, str) and c for c in columns):
                self.say(f'{where} columns: give a list of column names, such as ["age", "sbp"]')
                columns = None
            elif len(set(columns)) < len(columns):
                twice = next(c for c in columns if columns.count(c) > 1)
                self.say(f"{where} columns: {twice!r} is named twice; name it once")
                columns = list(dict.fromkeys(columns))
        ranges = body.get("ranges")
        if ranges is not None and not isinstance(ranges, dict | str):
            self.say(f"{where} ranges: write {{ age = [18, 100] }} or the name of a CSV file")
            ranges = None
        delimiter, decimal = self.dialect(body, where)
        return ViewText(tuple(columns) if columns else None, ranges, delimiter, decimal)

    def sources(self, raw: Raw, id_name: str, views: Mapping[str, ViewText]) -> tuple[Source, ...]:
        """The files, in one of the two forms."""
        pooled = "subjects" in raw or "files" in raw
        if pooled and "centers" in raw:
            self.say("holds both [files] with [subjects] and [centers.NAME.files]; keep one of the two forms")
            return ()
        if "centers" in raw:
            bodies = self.tables(raw, "centers")
            found = [self.center(name, body, id_name, views, f"centers.{name}.") for name, body in bodies]
            for message in name_problems([name for name, _ in bodies], "center", self.file):
                self.problems.add(message)
            return tuple(found)
        if not pooled:
            return ()
        for key in ("subjects", "files"):
            if key not in raw:
                self.say(f"[{key}] is missing; pooled files need [subjects] and [files], else use [centers.NAME.files]")
        subjects = self.subjects(self.table(raw, "subjects", "[subjects]"), "[subjects]", id_name, True)
        id_name = subjects.table.id if subjects else id_name
        files = self.files(self.table(raw, "files", "[files]"), "[files]", id_name, views)
        return (Source(None, files, subjects),)

    def center(self, name: str, body: Raw, id_name: str, views: Mapping[str, ViewText], above: str) -> Source:
        """[centers.NAME]; ``above`` is what its tables are called in front: nothing in the file of a node."""
        self.known_keys(body, f"[{above.rstrip('.')}]", ("files", "subjects"))
        where = f"[{above}files]"
        files = self.files(self.table(body, "files", where), where, id_name, views)
        if not files:
            self.say(f"{where} names no file; name the file of a view, or remove the center")
        subjects = None
        if "subjects" in body:
            where = f"[{above}subjects]"
            subjects = self.subjects(self.table(body, "subjects", where), where, id_name, False)
        return Source(name, files, subjects)

    def subjects(self, body: Raw, where: str, id_name: str, pooled: bool) -> SubjectsText | None:
        """[subjects]."""
        if not body:
            return None
        self.known_keys(body, where, (*FILE_KEYS[:-1], *(("center",) if pooled else ()), "group"))
        entry = {key: value for key, value in body.items() if key in FILE_KEYS}
        table = self.file_entry(entry, where, id_name)
        center = self.word(body, "center", where)
        if pooled and center is None:
            self.say(f'{where} center is missing; name the column that tells the center: center = "site"')
        group = self.word(body, "group", where)
        return SubjectsText(table, center, group) if table is not None else None

    def files(self, body: Raw, where: str, id_name: str, views: Mapping[str, ViewText]) -> dict[str, TableFile]:
        """[files]: view -> file."""
        found: dict[str, TableFile] = {}
        for view, entry in body.items():
            if views and view not in views:
                self.say(f"{where} {view}: there is no [views.{view}]{nearest(view, views)}; add it or remove the file")
                continue
            table = self.file_entry(entry, f"{where} {view}", id_name)
            if table is not None:
                said = views.get(view, ViewText())
                found[view] = replace(
                    table,
                    delimiter=table.delimiter or said.delimiter,
                    decimal=table.decimal or said.decimal,
                    modality=table.modality or (view if table.path.suffix.lower() == ".h5mu" else None),
                )
        return found

    def file_entry(self, entry: Any, where: str, id_name: str) -> TableFile | None:
        """A file as text, or as a table with its dialect."""
        body = {"file": entry} if isinstance(entry, str) else entry
        if not isinstance(body, dict) or not isinstance(body.get("file"), str) or not body["file"]:
            self.say(f'{where}: names no file; write "NAME.csv" or {{ file = "NAME.csv", delimiter = ";" }}')
            return None
        self.known_keys(body, where, FILE_KEYS)
        delimiter, decimal = self.dialect(body, where)
        table = TableFile(
            self.folder / body["file"], body["file"], self.word(body, "id", where) or id_name,
            delimiter, decimal, self.word(body, "modality", where),
        )  # fmt: skip
        try:
            _ = table.kind
        except UserError as error:
            self.problems.catch(error)
            return None
        return table

    def dialect(self, body: Raw, where: str) -> tuple[str | None, str | None]:
        """``delimiter`` and ``decimal``."""
        delimiter, decimal = body.get("delimiter"), body.get("decimal")
        if delimiter is not None and not (
            isinstance(delimiter, str) and len(delimiter) == 1 and delimiter.isascii() and delimiter not in '"\r\n\0'
        ):
            self.say(f'{where} delimiter: {delimiter!r} is not one character such as ",", ";" or "\\t"; correct it')
            delimiter = None
        if decimal is not None and decimal not in (".", ","):
            self.say(f'{where} decimal: {decimal!r} is neither "." nor ","; correct it')
            decimal = None
        return delimiter, decimal

    def table(self, raw: Raw, key: str, where: str) -> Raw:
        """A table of the file, empty if absent."""
        value = raw.get(key, {})
        if not isinstance(value, dict):
            self.say(f"{where} must be a table, not {value!r}; write a line {where}")
            return {}
        return value

    def tables(self, raw: Raw, key: str) -> list[tuple[str, Raw]]:
        """The tables below a table."""
        found: list[tuple[str, Raw]] = []
        for name, body in self.table(raw, key, f"[{key}.NAME]").items():
            if isinstance(body, dict):
                found.append((name, body))
            else:
                self.say(f"[{key}] {name} must be a table; write a line [{key}.{name}]")
        return found

    def word(self, raw: Raw, key: str, where: str) -> str | None:
        """A text that is not empty."""
        value = raw.get(key)
        if value is not None and (not isinstance(value, str) or not value.strip()):
            self.say(f"{where} {key}: {value!r} is not a text; put a name between quotation marks")
            return None
        return value

    def known_keys(self, raw: Raw, where: str, known: tuple[str, ...]) -> None:
        """Complain about keys that mean nothing, which are mostly misspelt."""
        for key in raw:
            if key not in known:
                self.say(f"{where}: unknown key {key!r}{nearest(key, known)}; known are {some(known)}")

    def say(self, message: str) -> None:
        """Note a complaint."""
        self.problems.add(f"{self.file}: {message}")
