"""What the commands that use a model share: read the run and the study, compute, write, tell."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from vedute.cli.applying import Application, Part, apply, counted
from vedute.cli.options import refuse_existing
from vedute.cli.results import FolderWriter, Sheet, is_table, side_by_side, whole_folder, write_study
from vedute.data.study import Study
from vedute.data.writers import table_suffix, table_writer
from vedute.errors import UserError
from vedute.model.parameters import Array
from vedute.run.run_folder import STUDY, load_run

OPEN_FILES = 256  # at once: systems allow a process about a thousand
Columns = Mapping[str, tuple[str, ...]]
Compute = Callable[[Part], Mapping[Sheet, Array]]


def ready(run: Path, study: Path, out: Path, using: str, force: bool) -> Application:
    """The model and the study, after a look at where the results shall go."""
    refuse_existing(out, force)
    model = load_run(run).model
    loaded = Study.load_for(study, run / STUDY)  # a hospital has a node file instead of a study of its own
    inputs = [loaded.path, *(table.path for pool in loaded.pools for table in pool.tables)]
    if out.exists() and any(path.exists() and path.samefile(out) for path in (*inputs, run)):
        raise UserError(f"{out}: is what the command reads from; choose another --out")
    return apply(model, loaded, using)


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
