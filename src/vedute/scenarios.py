"""Deal one study out to centers in the four ways of the paper's table of scenarios (section 4.3)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from vedute.datasets import center_names
from vedute.errors import UserError
from vedute.model.seeds import RandomState, generator

__all__ = ["Scenario", "split"]
Scenario = Literal["IID", "G", "K", "G/K"]
Rows = NDArray[np.intp]


def split(
    views: Mapping[str, Any],
    groups: ArrayLike | None,
    n_centers: int,
    scenario: Scenario,
    random_state: RandomState = None,
) -> tuple[dict[str, dict[str, Any]], dict[str, Rows]]:
    """Deal the rows of ``views`` to ``n_centers`` centers at random.

    * "IID": every center gets an equal share of every group and all views.
    * "G": the first third of the centers takes both groups, the second third only the first group (in
      sorted order), the last third only the second; a group is dealt evenly to the centers that take it.
    * "K": as "IID", but the second third of the centers lacks the second view, the last third the third view.
    * "G/K": both at once.

    ``views`` maps names to arrays or DataFrames with the same rows; ``groups`` may be None where it does not
    matter ("IID" and "K"). ``n_centers`` is a multiple of 3; "IID" also takes 1.

    Returns the centers (name -> view -> rows of that center) and, for each center, the indices of its rows in
    the order in which they stand there, so that ids and groups can follow: ``groups[rows["center1"]]``.
    """
    if scenario not in get_args(Scenario):
        raise UserError(f"scenario={scenario!r}: choose one of {', '.join(get_args(Scenario))}")
    _check_centers(n_centers, scenario)
    n_rows = _count_rows(views)
    members = _members(groups, n_rows)
    takers = _takers(list(members), n_centers, by_group=scenario.startswith("G"))
    rows = _deal(members, takers, n_centers, generator(random_state))
    kept = _kept_views(list(views), n_centers, drop=scenario.endswith("K"))
    names = center_names(n_centers)
    centers = {
        name: {view: _take(views[view], mine) for view in keep}
        for name, mine, keep in zip(names, rows, kept, strict=True)
    }
    return centers, dict(zip(names, rows, strict=True))


def _check_centers(n_centers: int, scenario: str) -> None:
    if isinstance(n_centers, bool) or not isinstance(n_centers, int | np.integer):
        raise UserError(f"n_centers={n_centers!r}: give a whole number")
    if n_centers >= 3 and n_centers % 3 == 0:
        return
    if n_centers == 1 and scenario == "IID":
        return
    raise UserError(
        f"n_centers={n_centers}: the scenarios deal to three equal parts of the centers; "
        'give a multiple of 3 (or 1 with scenario "IID")'
    )


def _count_rows(views: Mapping[str, Any]) -> int:
    lengths = {name: len(table) for name, table in views.items()}
    if not lengths:
        raise UserError("views: there are none; give a mapping from view name to array or DataFrame")
    if len(set(lengths.values())) > 1:
        raise UserError(f"views: the numbers of rows differ ({lengths}); give the same subjects in every view")
    return next(iter(lengths.values()))


def _members(groups: ArrayLike | None, n_rows: int) -> dict[Hashable, Rows]:
    """The rows of each group, groups in sorted order; without groups all rows form one."""
    if groups is None:
        return {None: np.arange(n_rows)}
    labels = np.asarray(groups)
    if labels.shape != (n_rows,):
        raise UserError(f"groups: shape {labels.shape}, but the views have {n_rows} rows; give one label for each row")
    if pd.isna(labels).any():
        raise UserError("groups: some labels are missing; leave those rows out or give them a label of their own")
    return {label: np.flatnonzero(labels == label) for label in np.unique(labels).tolist()}


def _takers(groups: Sequence[Hashable], n_centers: int, *, by_group: bool) -> list[list[int]]:
    """For each group the centers that take its members."""
    everyone = list(range(n_centers))
    if not by_group:
        return [everyone for _ in groups]
    if len(groups) != 2:
        raise UserError(f"groups: scenario G needs exactly two groups, found {len(groups)}: {list(groups)[:5]}")
    third = n_centers // 3
    return [everyone[: 2 * third], everyone[:third] + everyone[2 * third :]]


def _deal(
    members: Mapping[Hashable, Rows],
    takers: Sequence[Sequence[int]],
    n_centers: int,
    rng: np.random.Generator,
) -> list[Rows]:
    """The rows of each center, in ascending order."""
    hands: list[list[Rows]] = [[] for _ in range(n_centers)]
    for rows, centers in zip(members.values(), takers, strict=True):
        if len(rows) < len(centers):
            raise UserError(
                f"groups: one has {len(rows)} rows for {len(centers)} centers; give more rows or fewer centers"
            )
        # The remainder goes to centers in random order, or the first ones would grow with each group.
        for center, share in zip(
            rng.permutation(centers), np.array_split(rng.permutation(rows), len(centers)), strict=True
        ):
            hands[center].append(share)
    return [np.sort(np.concatenate(hand)) for hand in hands]


def _kept_views(names: Sequence[str], n_centers: int, *, drop: bool) -> list[list[str]]:
    """For each center the views it keeps."""
    if not drop:
        return [list(names)] * n_centers
    if len(names) < 3:
        raise UserError(f"views: scenario K drops the second or the third of at least 3 views, found {len(names)}")
    third = n_centers // 3
    without = [[name for name in names if name != lost] for lost in (None, names[1], names[2])]
    return [without[center // third] for center in range(n_centers)]


def _take(table: Any, rows: Rows) -> Any:
    """Some rows of a DataFrame or of an array."""
    return table.iloc[rows] if isinstance(table, pd.DataFrame) else np.asarray(table)[rows]
