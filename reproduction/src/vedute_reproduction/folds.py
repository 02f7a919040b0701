"""Studies to evaluate on, and how a fold of one is dealt to centers: the same for every method."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from vedute.errors import UserError
from vedute.model.parameters import Array
from vedute.model.seeds import stream
from vedute.scenarios import split

Rows = NDArray[np.intp]
Labels = NDArray[Any]
# "sites": the centers that the data really come from; "known sites": those of the test rows are known as well
Dealing = Literal["IID", "G", "K", "G/K", "sites", "known sites"]
Parting = Literal["one part", "G", "K", "G/K"]  # of the test rows: not at all, or into three parts as centers are dealt
N_FOLDS = 3


@dataclass(frozen=True)
class Dataset:
    """Rows of a whole study: NaN is a missing cell."""

    views: Mapping[str, Array]  # in the order that the scenarios K refer to: they take away the second or the third
    groups: Labels
    sites: Labels | None = None
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)  # names of features, where these have any
    left_out: int = 0  # subjects that are not here, because they lack a cell

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def complete(self) -> NDArray[np.bool_]:
        """Which subjects have every cell."""
        seen: NDArray[np.bool_] = ~np.isnan(np.concatenate(list(self.views.values()), axis=1))
        return np.asarray(seen.all(axis=1))

    def features(self, view: str) -> list[str]:
        """What the features of a view are called."""
        return list(self.columns.get(view, [f"feature {j + 1}" for j in range(self.views[view].shape[1])]))


@dataclass(frozen=True)
class Fold:
    """One train and test set, dealt: rows in the units of the data."""

    centers: Mapping[str, Mapping[str, Array]]
    whole: Mapping[str, Mapping[str, Array]]  # the same rows with all views, as if none were taken away
    groups: Mapping[str, Labels]
    test: Mapping[str, Mapping[str, Array]]  # one part; three in K, which miss views as the centers do; or known sites
    test_groups: Mapping[str, Labels]


def three_folds(data: Dataset, seed: int) -> list[tuple[Rows, Rows]]:
    """Train and test rows, with the same share of each group (and site) in each fold."""
    from sklearn.model_selection import StratifiedKFold

    strata = data.groups.astype(str)
    if data.sites is not None:
        strata = np.char.add(np.char.add(strata, "|"), data.sites.astype(str))
    cut = StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)  # a group that is rare in a site
        return list(cut.split(np.zeros(len(data)), strata))


def seed_of(repeat: int, fold: int) -> int:
    """What decides all that is random on one fold, for every method."""
    return N_FOLDS * repeat + fold


def dealt(
    data: Dataset, repeat: int, fold: int, dealing: Dealing, n_centers: int, parting: Parting | None = None
) -> Fold:
    """One fold of one repetition: the same for every experiment."""
    train, test = three_folds(data, repeat)[fold]
    return deal(data, train, test, dealing, n_centers, seed_of(repeat, fold), parting)


def deal(
    data: Dataset, train: Rows, test: Rows, dealing: Dealing, n_centers: int, seed: int, parting: Parting | None = None
) -> Fold:
    """Deal the train rows to centers, and the test rows to parts.

    The paper's test rows are whole but for K and G/K, where a third lacks the second view and a third the third.
    Whether groups lie apart in these thirds, and what each was scaled by, it does not say. Dealt as the train rows are
    in K and G/K, one part otherwise, and each part scaled by itself, they give its errors and its accuracy;
    ``parting`` deals them in another way.
    """
    rng = stream(seed, "deal", dealing, n_centers)
    kept = {name: rows[train] for name, rows in data.views.items()}
    unseen = {name: rows[test] for name, rows in data.views.items()}
    if dealing == "sites" or dealing == "known sites":
        parts = dict(_by_site(data, train))
        centers = _taken(kept, parts)
    else:
        centers, parts = split(kept, data.groups[train], n_centers, dealing, rng)
    pieces, places = {"test": unseen}, {"test": np.arange(len(test))}
    if parting is None and (dealing == "K" or dealing == "G/K"):
        parting = dealing
    if parting == "K" or parting == "G/K" or parting == "G":
        pieces, places = split(unseen, data.groups[test], 3, parting, rng)
    elif dealing == "known sites":
        places = dict(_by_site(data, test))
        pieces = _taken(unseen, places)
    return Fold(
        {name: _seen(views) for name, views in centers.items()},
        _taken(kept, parts),
        {name: data.groups[train][own] for name, own in parts.items()},
        {name: _seen(views) for name, views in pieces.items()},
        {name: data.groups[test][own] for name, own in places.items()},
    )


def _taken(views: Mapping[str, Array], parts: Mapping[str, Rows]) -> dict[str, dict[str, Array]]:
    return {name: {view: rows[own] for view, rows in views.items()} for name, own in parts.items()}


def _by_site(data: Dataset, rows: Rows) -> Iterator[tuple[str, Rows]]:
    if data.sites is None:
        raise UserError("the study has no column of sites; deal its rows by IID, G, K or G/K")
    for site in np.unique(data.sites[rows]).tolist():  # a small site may have none of them
        yield str(site), np.flatnonzero(data.sites[rows] == site)


def _seen(views: Mapping[str, Any]) -> dict[str, Array]:
    """Without views of which a center has not one cell."""
    return {name: rows for name, rows in views.items() if not np.isnan(rows).all()}
