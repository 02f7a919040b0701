"""A fitted model applied to the rows of a study, part by part, in bounded memory."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vedute.data.problems import some
from vedute.data.scaling import scaling_of
from vedute.data.stream import Chunk, stream
from vedute.data.study import Study
from vedute.errors import UserError
from vedute.model.parameters import Array, CenterParams
from vedute.progress import progress_bar
from vedute.run.fitted_model import Model
from vedute.run.latent import chunk_views

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
        clipped = (self.model.settings.privacy or {}).get("policy") == "subject"  # the fit took such values, too
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


def counted(parts: Iterator[Part]) -> Iterator[Part]:
    """The same parts, with a count of subjects on a terminal."""
    n = 0
    with progress_bar("0 subjects", shown=sys.stderr.isatty(), ends=False) as tell:
        for part in parts:
            yield part
            n += len(part.ids)
            if tell is not None:
                tell(f"{n} subjects", n)
