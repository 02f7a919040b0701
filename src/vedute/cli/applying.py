"""A fitted model applied to the rows of a study: read part by part in bounded memory, computed, written and told."""

from __future__ import annotations

import json
import secrets
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from vedute.cli.options import refuse_existing
from vedute.data.files import ASIDE, said_plainly, write_whole
from vedute.data.problems import some, why_unsafe
from vedute.data.scaling import scaling_of
from vedute.data.stream import Chunk, stream
from vedute.data.study import Study
from vedute.data.writers import SUFFIXES, TableWriter, table_suffix, table_writer
from vedute.errors import UserError
from vedute.model.parameters import Array, CenterParams
from vedute.progress import progress_bar
from vedute.run import run_folder
from vedute.run.fitted_model import Model
from vedute.run.latent import chunk_views

STUDY, SUBJECTS = "study.toml", "subjects.csv"
OPEN_FILES = 256  # at once: systems allow a process about a thousand
Labels = NDArray[np.object_]
Columns = Mapping[str, tuple[str, ...]]
Who = str | CenterParams | None


@dataclass(frozen=True)
class Part:
    """Some subjects of one center, columns in the order of the model, and whose parameters they go by."""

    center: str
    ids: NDArray[np.object_]
    groups: NDArray[np.object_] | None
    views: Mapping[str, Array]
    who: Who


@dataclass(frozen=True)
class Application:
    """A model, a study that fits it, and the parameters to use for each center."""

    model: Model
    study: Study
    who: Mapping[str, Who]
    order: Mapping[str, list[int]]  # of the study's columns, as the model has them

    @property
    def grouped(self) -> bool:
        """Whether the study tells groups."""
        return any(pool.subjects is not None and pool.subjects.group is not None for pool in self.study.pools)

    def parts(self, centers: Collection[str] | None = None) -> Iterator[Part]:
        """All rows of some centers, or of all."""
        wanted = set(self.study.centers if centers is None else centers)
        if not scaling_of(self.model.settings.scaling).common:  # a table scaled by its own extremes must be there whole
            for center in sorted(wanted):
                table = self.study.read(center)
                yield Part(center, table.ids, table.groups, self._ordered(table.views), self.who[center])
            return
        clipped = self.model.settings.policy.once  # the fit took such values, too
        declared = {} if clipped else self.study.views
        bounds = {name: b for name, view in declared.items() if (b := view.bounds) is not None}
        for pool in self.study.pools:
            if wanted & set(pool.centers):
                for chunk in stream(pool, bounds):
                    if chunk.center in wanted:
                        yield self._part(chunk)

    def _part(self, chunk: Chunk) -> Part:
        views = self._ordered(chunk_views(chunk, self.model)) if chunk.views else chunk_views(chunk, self.model)
        return Part(chunk.center, chunk.ids, chunk.groups, views, self.who[chunk.center])

    def _ordered(self, views: Mapping[str, Array]) -> dict[str, Array]:
        return {name: block[:, self.order[name]] if self.order[name] else block for name, block in views.items()}


def apply(model: Model, study: Study, using: str) -> Application:
    """Compare a study with a model; ``using`` says whose parameters count: own, adapt or global."""
    order = {view: _order(view, names, model) for view, names in study.columns.items()}
    application = Application(model, study, dict.fromkeys(study.centers), order)
    if using == "global":
        return application
    new = [center for center in study.centers if center not in model.centers]
    if new and using == "own":
        raise UserError(
            f"center {new[0]!r} is not in the model, which knows {some(model.centers) or 'none'}; use --using adapt "
            "to let it fit itself under the global distribution, or --using global where that is offered"
        )
    who: dict[str, Who] = {center: center for center in study.centers}
    for center in new:
        who[center] = model.adapt(application._ordered(study.read(center).views))
    return Application(model, study, who, order)


def _order(view: str, names: tuple[str, ...], model: Model) -> list[int]:
    """Where the model's columns stand in the study; empty if they stand alike."""
    if view not in model.columns:
        raise UserError(
            f"view {view!r} is not in the model, which has {some(model.columns)}; take it out of the study file"
        )
    wanted = model.columns[view]
    if names == wanted:
        return []
    lacking = [name for name in wanted if name not in names]
    extra = [name for name in names if name not in wanted]
    if lacking or extra:
        what = f"lacks {some(lacking)}" if lacking else f"has {some(extra)}, which the model does not know"
        raise UserError(f"view {view!r} {what}; name the columns of the model: [views.{view}] columns = [...]")
    return [names.index(name) for name in wanted]


def ready(run: Path, study: Path, out: Path, using: str, force: bool) -> Application:
    """The model and the study, after a look at where the results shall go."""
    refuse_existing(out, force)
    model = run_folder.load_run(run).model
    loaded = Study.load_for(study, run / run_folder.STUDY)  # a hospital has a node file instead of a study of its own
    inputs = [loaded.path, *(table.path for pool in loaded.pools for table in pool.tables)]
    if out.exists() and any(path.exists() and path.samefile(out) for path in (*inputs, run)):
        raise UserError(f"{out}: is what the command reads from; choose another --out")
    return apply(model, loaded, using)


def counted(parts: Iterator[Part]) -> Iterator[Part]:
    """The same parts, with a count of subjects on a terminal."""
    n = 0
    with progress_bar("0 subjects", shown=sys.stderr.isatty(), ends=False) as tell:
        for part in parts:
            yield part
            n += len(part.ids)
            if tell is not None:
                tell(f"{n} subjects", n)


@dataclass(frozen=True)
class Sheet:
    """The columns of one view: its values or, if ``sd``, their standard deviations."""

    view: str
    columns: tuple[str, ...]
    sd: bool = False

    @property
    def file(self) -> str:
        """Its name inside the folder of a center."""
        return f"sd/{self.view}.csv" if self.sd else f"{self.view}.csv"

    @property
    def wide(self) -> list[str]:
        """Names of its columns beside those of other sheets."""
        return [f"{self.view}.{name}{'.sd' if self.sd else ''}" for name in self.columns]


def is_table(out: Path) -> bool:
    """Whether ``--out`` names a table; a folder has no suffix."""
    if out.suffix.lower() in SUFFIXES:
        return True
    if out.suffix and not out.is_dir():
        raise UserError(f"{out}: end the name in {', '.join(SUFFIXES)} for one table, or in nothing for a folder")
    return False


def side_by_side(sheets: Sequence[Sheet], values: Mapping[Sheet, Array], n: int) -> Array:
    """All sheets in a row, NaN where one is absent."""
    blocks = [values[sheet] if sheet in values else np.full((n, len(sheet.columns)), np.nan) for sheet in sheets]
    return np.concatenate(blocks, axis=1)


class FolderWriter:
    """Tables of some centers inside a folder; a subject without any value in a view has no row in its table."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.held: dict[str, dict[Sheet, None]] = {}  # what each center has, in order
        self._folder = folder
        self._stack = stack
        self._open: dict[Path, TableWriter] = {}

    def write(self, center: str, ids: Labels, groups: Labels | None, values: Mapping[Sheet, Array]) -> None:
        """Some subjects of a center."""
        if groups is not None:
            subjects = self._writer(self._folder / center / SUBJECTS, ("id", "group"), ())
            subjects.write([ids, groups], np.empty((len(ids), 0)))
        held = self.held.setdefault(center, {})
        for sheet, block in values.items():
            rows = ~np.isnan(block).all(axis=1)
            if rows.any():
                held[sheet] = None
                path = self._folder / center / sheet.file
                self._writer(path, ("id",), sheet.columns).write([ids[rows]], block[rows])

    def _writer(self, path: Path, labels: Sequence[str], numbers: Sequence[str]) -> TableWriter:
        if path not in self._open:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._open[path] = self._stack.enter_context(table_writer(path, labels, numbers))
        return self._open[path]


@contextmanager
def whole_folder(out: Path, sheets: Iterable[Sheet]) -> Iterator[Path]:
    """A folder to fill, which appears at ``out`` when all of it is written; an earlier result is then replaced."""
    for sheet in sheets:
        if (reason := why_unsafe(sheet.view)) is not None:
            raise UserError(f"view {sheet.view!r} cannot name a file ({reason}); write one table with --out NAME.csv")
    if out.exists() and not (out.is_dir() and ((out / STUDY).exists() or not any(out.iterdir()))):
        raise UserError(f"{out}: was not written by this command, so it is not replaced; choose another --out")
    aside, old = (out.with_name(f"{ASIDE}{secrets.token_hex(6)}") for _ in range(2))
    try:
        with said_plainly(out):
            aside.mkdir()
            yield aside
            if out.exists():
                out.rename(old)
            aside.rename(out)
    except UserError as error:
        raise UserError(str(error).replace(str(aside), str(out))) from None  # the name that the user gave
    finally:
        for left in (aside, old):
            shutil.rmtree(left, ignore_errors=True)


def write_study(folder: Path, name: str, held: Mapping[str, Iterable[Sheet]]) -> None:
    """A study file for the tables of a folder, so that they can be checked, fitted and projected in turn."""
    centers = {center: [sheet for sheet in sheets if not sheet.sd] for center, sheets in held.items()}
    lines = ["[study]", f"name = {_quoted(name)}", ""]
    for sheet in dict.fromkeys(sheet for sheets in centers.values() for sheet in sheets):
        lines += [f"[views.{_quoted(sheet.view)}]", f"columns = [{', '.join(map(_quoted, sheet.columns))}]", ""]
    for center, sheets in centers.items():
        if (folder / center / SUBJECTS).exists():
            lines += [f"[centers.{_quoted(center)}.subjects]", f"file = {_quoted(f'{center}/{SUBJECTS}')}"]
            lines += ['group = "group"', ""]
        lines += [f"[centers.{_quoted(center)}.files]"]
        lines += [f"{_quoted(sheet.view)} = {_quoted(f'{center}/{sheet.file}')}" for sheet in sheets] + [""]
    write_whole(folder / STUDY, "\n".join(lines).encode())


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


Compute = Callable[[Part], Mapping[Sheet, Array]]


def write_subjects(
    application: Application, out: Path, numbers: Sequence[str], compute: Callable[[Part], Array], as_json: bool
) -> None:
    """One table with a row of numbers for each subject."""
    table_suffix(out)
    n = 0
    with table_writer(out, _labels(application), numbers) as writer:
        for part in counted(application.parts()):
            writer.write(_told(application, part), compute(part))
            n += len(part.ids)
    tell(n, out, as_json)


def write_views(application: Application, out: Path, sheets: Sequence[Sheet], compute: Compute, as_json: bool) -> None:
    """Views of all subjects, as one wide table or as a folder of tables."""
    if is_table(out):
        names = [name for sheet in sheets for name in sheet.wide]
        write_subjects(
            application, out, names, lambda part: side_by_side(sheets, compute(part), len(part.ids)), as_json
        )
        return
    n = 0
    held: dict[str, dict[Sheet, None]] = {}
    with whole_folder(out, sheets) as folder:
        centers = application.study.centers
        step = max(1, OPEN_FILES // (len(sheets) + 1))
        for start in range(0, len(centers), step):
            with ExitStack() as stack:
                writer = FolderWriter(folder, stack)
                for part in counted(application.parts(centers[start : start + step])):
                    writer.write(part.center, part.ids, part.groups, compute(part))
                    n += len(part.ids)
            held |= writer.held
        write_study(folder, application.study.name, held)
    tell(n, out, as_json)


def sheets_of(columns: Columns, *, sd: bool = False) -> tuple[Sheet, ...]:
    """A sheet for each view."""
    return tuple(Sheet(view, names, sd) for view, names in columns.items())


def as_sheets(
    values: Mapping[str, Array], columns: Mapping[str, tuple[str, ...]], *, sd: bool = False
) -> dict[Sheet, Array]:
    """Views by their sheets."""
    return {Sheet(view, columns[view], sd): block for view, block in values.items()}


def _labels(application: Application) -> list[str]:
    return ["id", "center", "group"] if application.grouped else ["id", "center"]


def _told(application: Application, part: Part) -> list[NDArray[np.object_]]:
    """Id, center and group of each subject; the group is empty where a center tells none."""
    n = len(part.ids)
    labels = [part.ids, np.full(n, part.center, dtype=object)]
    if application.grouped:
        labels.append(np.full(n, "", dtype=object) if part.groups is None else part.groups)
    return labels


def tell(n: int, out: Path, as_json: bool) -> None:
    """How much was written, and where."""
    click.echo(json.dumps({"event": "done", "subjects": n, "out": str(out)}) if as_json else f"{n} subjects: {out}")


def write_drawn(out: Path, sheets: Sequence[Sheet], values: Mapping[Sheet, Array], n: int) -> None:
    """Subjects that were drawn, numbered, as one wide table or as a folder of tables."""
    ids = np.array([f"sample{i + 1}" for i in range(n)], dtype=object)
    if is_table(out):
        with table_writer(out, ["id"], [name for sheet in sheets for name in sheet.wide]) as table:
            table.write([ids], side_by_side(sheets, values, n))
        return
    with whole_folder(out, sheets) as folder:
        with ExitStack() as stack:
            writer = FolderWriter(folder, stack)
            writer.write("sample", ids, None, values)
        write_study(folder, "sample", writer.held)
