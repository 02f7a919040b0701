"""The choice of the number of components, for data in memory and for studies on disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any

import pandas as pd

from vedute.data.study import Study
from vedute.data.study_views import named_ranges
from vedute.errors import UserError
from vedute.run.model_choice import SCALINGS_TRIED, Candidates, Selection, select
from vedute.run.scoring import DRAWS
from vedute.run.settings import Settings
from vedute.run.sources import open_source


def select_components(
    centers: Mapping[str, Any] | Study,
    components: Iterable[int],
    *,
    scalings: Iterable[str | None] = SCALINGS_TRIED,
    starts: int = 1,
    ranges: Any = None,
    draws: int = DRAWS,
    jobs: int | None = None,
    seed: int = 0,
    on_fit: Callable[[int, int], None] | None = None,
    **settings: Any,
) -> Selection:
    """Fit the model with each number of components and compare by WAIC.

    ``centers`` and ``ranges`` are as in :meth:`FederatedPPCA.fit`; ``settings`` are the estimator's other parameters
    (``rounds``, ``preset``, ...). Each scaling named is tried with each number, from ``starts`` seeded starting values,
    of which the best WAIC is kept. ``jobs`` processes work at once (default: one for each core); the result does not
    depend on them.
    """
    asked = settings.get("privacy") or (isinstance(centers, Study) and centers.privacy.policy != "none")
    if asked:
        raise UserError(
            "WAIC looks at the rows, which no privacy policy covers; see vedute.run.private.choose_privately"
        )
    chosen = Candidates(tuple(components), tuple(scalings), starts)
    extremes = next((name for name in chosen.scalings if name is not None and name.endswith("minmax")), None)
    first = Settings(1, seed=seed, **{"scaling": extremes, **settings})
    source = open_source(centers, first, ranges)
    return select(
        source.layout, source.columns, source.read, source.again, first, chosen,
        ranges=named_ranges(source.ranges, source.layout, source.columns), draws=draws,
        jobs=jobs or os.cpu_count() or 1, on_fit=on_fit,
    )  # fmt: skip


def table(selection: Selection) -> pd.DataFrame:
    """All choices as a table; the recommended one is marked."""
    frame = pd.DataFrame([asdict(choice) for choice in selection.choices])
    frame["recommended"] = [i == selection.recommended for i in range(len(frame))]
    return frame
