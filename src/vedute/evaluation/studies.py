"""Real studies to evaluate on: any study file, or one of the open data sets as folders of CSV files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from vedute.data.study import Study
from vedute.errors import UserError
from vedute.evaluation.experiments import FixedStudy, SyntheticStudy, study
from vedute.evaluation.folds import Dataset
from vedute.evaluation.keeping import Source
from vedute.evaluation.runner import Experiment

NOT_ADNI = (
    "This is not ADNI: the rows are those of {name}, which stand in for it because ADNI is open to registered "
    "researchers only. The paper's values beside them are for orientation; agreement is neither expected nor claimed."
)
COMPLETE = "Of {all} subjects the {kept} with every cell observed are used, as in the paper; K takes views away again."
OBSERVED = (
    "All {all} subjects are used with the cells they have; errors are over observed cells. Rivals that need complete "
    "rows learn from those; no center alone is fitted, because some have none."
)


@dataclass(frozen=True)
class OpenData:
    """A folder with one CSV file for each view and a subjects.csv; all of them have a column ``id``."""

    name: str
    views: tuple[str, ...]
    group: str
    site: str
    n_components: int
    complete: bool  # only rows without an empty cell, as the paper's scenarios have them


CNP = OpenData("cnp", ("COGN", "QUEST", "T1W", "REST"), "group2", "site", 6, complete=True)
HEART4 = OpenData("heart4", ("CLINIC", "EXERCISE"), "group", "site", 6, complete=False)


@dataclass(frozen=True)
class Given:
    """The rows of an experiment, and what has to be said with them."""

    source: Source
    about: str  # in titles
    n_components: int
    printed: Literal["SD", "ADNI"]  # the data of the paper whose values stand beside
    scaling: str = "shared-standard"  # to choose the number of components in: that in which noise is equal in a view
    suffix: str = ""  # of the experiment's name
    remarks: tuple[str, ...] = ()


SYNTHETIC = Given(SyntheticStudy(), "SD", 5, "SD", "shared-view")


def from_folder(folder: Path) -> Given:
    """The open study that stands in for ADNI."""
    return _in_place_of_adni(read_folder(folder, CNP), CNP.name, CNP.n_components, f"-{CNP.name}")


def from_study(path: Path) -> Given:
    """A study file with four views; scenario K takes away its second or its third."""
    loaded = Study.load(path)
    if len(loaded.views) != 4:
        raise UserError(
            f"{path}: has {len(loaded.views)} views; the experiment needs four, in the order CLINIC, MRI, FDG, AV45"
        )
    return _in_place_of_adni(read_study(loaded), loaded.name, loaded.components or CNP.n_components, "-study")


def _in_place_of_adni(whole: Dataset, name: str, q: int, suffix: str) -> Given:
    """Complete rows, and unless the study calls itself ADNI a remark that they are not."""
    data = complete_rows(whole)
    kept = COMPLETE.format(all=len(whole), kept=len(data))
    if re.match(r"adni\b", name, re.IGNORECASE):
        return Given(FixedStudy(data), name, q, "ADNI", suffix=suffix, remarks=(kept,))
    remarks = (NOT_ADNI.format(name=name), kept)
    return Given(FixedStudy(data), f"{name} (not ADNI)", q, "ADNI", suffix=suffix, remarks=remarks)


def adni(given: Given, *, rivals: bool = True) -> Experiment:
    """The experiment of table ADNI_2."""
    data = given.source.draw(0)
    name = f"adni{given.suffix}"
    q, remarks = given.n_components, given.remarks
    return study(name, given.about, data, q, rivals=rivals, paper_table="ADNI_2", remarks=remarks)


def heart4(folder: Path, *, rivals: bool = True) -> Experiment:
    """Random centers and the four true hospitals, whose patients and missing cells differ widely."""
    data = read_folder(folder, HEART4)
    remarks = (OBSERVED.format(all=len(data)),)
    return study(HEART4.name, HEART4.name, data, HEART4.n_components, rivals=rivals, remarks=remarks)


def read_folder(folder: Path, about: OpenData) -> Dataset:
    """All subjects with at least one observed cell; a subject who is not in a view's file lacks the view."""
    subjects = _csv(folder / "subjects.csv", (about.group, about.site))
    views = {name: _csv(folder / f"{name}.csv").reindex(subjects.index) for name in about.views}
    seen = pd.concat(list(views.values()), axis=1).notna().any(axis=1).to_numpy()
    return Dataset(
        {name: table.to_numpy(dtype=float)[seen] for name, table in views.items()},
        subjects[about.group].to_numpy(dtype=str)[seen],
        subjects[about.site].to_numpy(dtype=str)[seen],
        {name: [str(column) for column in table] for name, table in views.items()},
    )


def _csv(path: Path, needed: Sequence[str] = ()) -> pd.DataFrame:
    try:
        table = pd.read_csv(path, dtype={"id": str})
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file; give the folder of the data set with --data") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read as CSV ({error}); restore it") from None
    lacking = [name for name in ("id", *needed) if name not in table]
    if lacking:
        raise UserError(f"{path}: has no column {lacking[0]!r}; give the folder of the data set with --data")
    return table.set_index("id")


def read_study(loaded: Study) -> Dataset:
    """The rows of all centers of a study, which must name a group for each subject; its centers are the sites."""
    parts = {center: loaded.read(center) for center in loaded.centers}
    if any(part.groups is None for part in parts.values()):
        raise UserError(f'{loaded.path}: names no groups; add group = "COLUMN" to [subjects]')
    views = {}
    for name, view in loaded.views.items():
        d = len(view.columns)
        rows = [part.views.get(name, np.full((len(part), d), np.nan)) for part in parts.values()]
        views[name] = np.concatenate(rows)
    groups = np.concatenate([np.asarray(part.groups, dtype=str) for part in parts.values()])
    sites = np.repeat(list(parts), [len(part) for part in parts.values()])
    return Dataset(views, groups, sites if len(parts) > 1 else None, loaded.columns)


def complete_rows(data: Dataset) -> Dataset:
    """Only subjects of whom every cell is observed."""
    whole = ~np.concatenate([np.isnan(rows) for rows in data.views.values()], axis=1).any(axis=1)
    if not whole.any():
        raise UserError("no subject has every cell observed; leave out the columns that are seldom observed")
    views = {name: rows[whole] for name, rows in data.views.items()}
    sites = None if data.sites is None else data.sites[whole]
    return replace(data, views=views, groups=data.groups[whole], sites=sites, left_out=int((~whole).sum()))
