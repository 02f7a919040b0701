"""Where the rows of an experiment come from: the synthetic study, any study file, or an open data set in a folder."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from vedute import Study
from vedute.datasets import make_sd
from vedute.errors import UserError
from vedute.model.seeds import stream
from vedute_reproduction.folds import Dataset
from vedute_reproduction.keeping import Source

NOT_ADNI = (
    "This is not ADNI: the rows are those of {name}. The paper's values beside them are those of ADNI, for "
    "orientation; agreement is neither expected nor claimed."
)
KEPT = "Of {all} subjects the {kept} with every cell observed are used; K takes views away again."
PAPERS_ADNI = "The paper has 311 (AD 207, NL 104), and 7, 41, 41 and 41 features."
GROUP_NEEDS, SITE_NEEDS = 18, 6  # subjects: for six centers in three folds; for one center in three folds
VARYING = 6  # subjects at least who differ from the most frequent value of a column, or folds may not see it vary


@dataclass(frozen=True)
class SyntheticStudy:
    """SD, drawn anew in each repetition: the paper's own draw is not known, so the mean over draws stands for it."""

    def draw(self, repeat: int) -> Dataset:
        """One draw."""
        views, groups = make_sd(random_state=stream(repeat, "sd"))
        return Dataset(views, groups)


@dataclass(frozen=True)
class FixedStudy:
    """A study whose rows are given; only the folds differ between repetitions."""

    data: Dataset

    def draw(self, repeat: int) -> Dataset:
        """The rows."""
        return self.data


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

    def named(self, experiment: str) -> str:
        """What the files of an experiment on these rows are called."""
        return f"{experiment}{self.suffix}"


SYNTHETIC = Given(SyntheticStudy(), "SD", 5, "SD", "shared-view")


def from_folder(folder: Path) -> Given:
    """The open study that stands in for ADNI."""
    return _in_place_of_adni(read_folder(folder, CNP), CNP.name, CNP.n_components, f"-{CNP.name}", folder)


def from_study(path: Path) -> Given:
    """A study file with four views; scenario K takes away its second or its third."""
    loaded = Study.load(path)
    if len(loaded.views) != 4:
        raise UserError(
            f"{path}: has {len(loaded.views)} views; the experiment needs four, in the order CLINIC, MRI, FDG, AV45"
        )
    return _in_place_of_adni(read_study(loaded), loaded.name, loaded.components or CNP.n_components, "-study", path)


def _in_place_of_adni(whole: Dataset, name: str, q: int, suffix: str, path: Path) -> Given:
    """Complete rows, and unless the study calls itself ADNI a remark that they are not."""
    data = complete_rows(whole)
    _check_size(data, q, path)
    kept = KEPT.format(all=len(whole), kept=len(data))
    if re.match(r"adni\b", name, re.IGNORECASE):
        return Given(FixedStudy(data), name, q, "ADNI", suffix=suffix, remarks=(kept,))
    remarks = (NOT_ADNI.format(name=name), kept)
    return Given(FixedStudy(data), f"{name} (not ADNI)", q, "ADNI", suffix=suffix, remarks=remarks)


def _check_size(data: Dataset, q: int, path: Path) -> None:
    """Refuse beforehand what would fail after hours: the scenarios deal two groups to six centers, in three folds."""
    check_groups(data, path, " with every cell")
    if len(data) < 9 * (q + 1):  # six even centers of two thirds of the rows, each with more rows than components
        raise UserError(
            f"{path}: {len(data)} subjects with every cell are too few for {q} components in six centers; "
            f"{9 * (q + 1)} are needed, or fewer components"
        )
    sites, counts = np.unique(data.sites if data.sites is not None else [], return_counts=True)
    for site, n in zip(sites, counts, strict=True):
        if n < SITE_NEEDS:
            raise UserError(
                f"{path}: center {str(site)!r} has {n} of the subjects with every cell; {SITE_NEEDS} are needed for "
                "three folds. Merge small centers, or give all subjects the same one"
            )
    check_columns(data, path)


def check_groups(data: Dataset, path: Path, which: str = "") -> None:
    """Two groups, each large enough to be dealt."""
    names, counts = np.unique(data.groups, return_counts=True)
    told = ", ".join(f"{name} {n}" for name, n in zip(names, counts, strict=True))
    if len(names) != 2:
        raise UserError(
            f"{path}: the subjects{which} are of {len(names)} groups ({told}); the scenarios need two. Leave out the "
            "subjects of others, or give these two a group each"
        )
    if counts.min() < GROUP_NEEDS:
        raise UserError(f"{path}: a group needs {GROUP_NEEDS} subjects{which}; there are {told}")


def check_columns(data: Dataset, path: Path) -> None:
    """Every column must vary in each fold too: a value that all but a few share may be all that one holds."""
    for view, rows in data.views.items():
        for name, values in zip(data.features(view), rows.T, strict=True):
            _, counts = np.unique(values[~np.isnan(values)], return_counts=True)
            other = int(counts.sum() - counts.max(initial=0))
            if other < VARYING:
                raise UserError(
                    f"{path}: view {view!r}, column {name!r}: all but {other} of the subjects have the same value, so "
                    "that it may be constant in a fold; leave the column out"
                )


def counted(given: Given) -> str:
    """Who and what is in the rows of an experiment; of ADNI also whom the paper had."""
    data = given.source.draw(0)
    groups = ", ".join(f"{name} {n}" for name, n in zip(*np.unique(data.groups, return_counts=True), strict=True))
    views = ", ".join(f"{name} {rows.shape[1]}" for name, rows in data.views.items())
    told = f"{given.about}: {len(data)} subjects ({groups}); features: {views}."
    return told if "not ADNI" in given.about else f"{told} {PAPERS_ADNI}"


def read_folder(folder: Path, about: OpenData) -> Dataset:
    """All subjects with at least one observed cell; a subject who is not in a view's file lacks the view."""
    if not folder.is_dir():
        raise UserError(f"{folder}: is no folder; give the folder of the data set {about.name} with --data")
    subjects = _csv(folder / "subjects.csv", about)
    for column in (about.group, about.site):
        _check_labels(folder / "subjects.csv", column, subjects, about)
    views = {}
    for name in about.views:
        table = _numbers(folder / f"{name}.csv", about)
        if not table.index.isin(subjects.index).any():
            raise UserError(
                f"{folder / f'{name}.csv'}: none of its subjects, such as {table.index[0]!r}, is in subjects.csv, "
                f"where ids are like {subjects.index[0]!r}; write ids alike in both"
            )
        views[name] = table.reindex(subjects.index)
    seen = pd.concat(list(views.values()), axis=1).notna().any(axis=1).to_numpy()
    return Dataset(
        {name: table.to_numpy(dtype=float)[seen] for name, table in views.items()},
        subjects[about.group].to_numpy(dtype=str)[seen],
        subjects[about.site].to_numpy(dtype=str)[seen],
        {name: [str(column) for column in table] for name, table in views.items()},
    )


def _csv(path: Path, about: OpenData) -> pd.DataFrame:
    """A table by ids, of which each stands once."""
    mend = f"give the folder of the data set {about.name} with --data"
    try:
        table = pd.read_csv(path, dtype={"id": str})
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file; {mend}") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read as CSV ({error}); restore it") from None
    if "id" not in table:
        raise UserError(f"{path}: has no column 'id'; {mend}")
    if table["id"].isna().any():
        raise UserError(f"{path}: line {int(table['id'].isna().argmax()) + 2} has no id; restore the file")
    twice = table["id"].duplicated()
    if twice.any():
        raise UserError(f"{path}: subject {table.loc[twice, 'id'].iloc[0]!r} stands there twice; keep one line of each")
    return table.set_index("id")


def _check_labels(path: Path, column: str, table: pd.DataFrame, about: OpenData) -> None:
    if column not in table:
        raise UserError(f"{path}: has no column {column!r}; give the folder of the data set {about.name} with --data")
    empty = table[column].isna()
    if empty.any():
        raise UserError(f"{path}: subject {table.index[empty][0]!r} has no {column!r}; fill it in, or drop the line")


def _numbers(path: Path, about: OpenData) -> pd.DataFrame:
    """The features of a view."""
    table = _csv(path, about)
    if table.shape[1] == 0:
        raise UserError(f"{path}: has no column but the id; restore the file")
    found: pd.DataFrame = table.apply(pd.to_numeric, errors="coerce")
    wrong = (found.isna() & table.notna()) | np.isinf(found)
    for column in wrong.columns[wrong.any()]:
        subject = wrong.index[wrong[column]][0]
        value = table.loc[subject, column]
        raise UserError(f"{path}: subject {subject!r}, column {column!r}: {value!r} is no finite number; mend the cell")
    return found


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
    labels = pd.Series(np.concatenate([np.asarray(part.groups, dtype=object) for part in parts.values()]))
    empty = labels.isna() | (labels.astype(str) == "")
    if empty.any():
        raise UserError(
            f"{loaded.path}: {int(empty.sum())} subjects have no group; fill in the column, or leave their lines out"
        )
    groups = labels.to_numpy(dtype=str)
    sites = np.repeat(list(parts), [len(part) for part in parts.values()])
    return Dataset(views, groups, sites if len(parts) > 1 else None, loaded.columns)


def complete_rows(data: Dataset) -> Dataset:
    """Only subjects of whom every cell is observed."""
    whole = data.complete
    if not whole.any():
        raise UserError("no subject has every cell observed; leave out the columns that are seldom observed")
    views = {name: rows[whole] for name, rows in data.views.items()}
    sites = None if data.sites is None else data.sites[whole]
    if sites is not None and len(np.unique(sites)) < 2:  # one center has no others to compare with
        sites = None
    return replace(data, views=views, groups=data.groups[whole], sites=sites, left_out=int((~whole).sum()))
