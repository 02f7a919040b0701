"""A contribution as one vector of numbers, and back: what is where follows from the study, so no name need travel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from vedute.model.contribution import Contribution, ViewContribution
from vedute.model.parameters import Array
from vedute.model.schema import Layout

Shapes = Mapping[str, tuple[int, ...]]


def view_shapes(d: int, q: int) -> Shapes:
    """The parts of a view's contribution, in order."""
    return {
        "centers": (), "count": (d,), "d_mu": (d,), "d_W": (d, q), "sq_mu": (), "sq_W": (q, q), "var_mu": (),
        "var_W": (q, q), "turn": (q, q), "mu_gain": (), "precision": (), "log_sigma2": (), "noise_gain": (),
    }  # fmt: skip


def common_shapes(q: int) -> Shapes:
    """The parts that all views share, in order."""
    return {"centers": (), "m": (q,), "sq_m": (q, q), "var_m": (q, q), "subjects": (), "sq_x": (q, q)}


def packed_size(layout: Layout, q: int) -> int:
    """How many numbers a contribution has."""
    return _size(common_shapes(q)) + sum(_size(view_shapes(d, q)) for d in layout.sizes)


def pack(contribution: Contribution, layout: Layout) -> Array:
    """All numbers of a contribution; zeros for views of the layout that it lacks."""
    q = len(contribution.m)
    parts = [_flat(contribution, common_shapes(q))]
    for name, d in zip(layout.names, layout.sizes, strict=True):
        shapes = view_shapes(d, q)
        held = contribution.views.get(name)
        parts.append(np.zeros(_size(shapes)) if held is None else _flat(held, shapes))
    return np.concatenate(parts)


def unpack(vector: Array, layout: Layout, q: int) -> Contribution:
    """The contribution again; views that no center held are left out."""
    common, at = _cut(vector, 0, common_shapes(q))
    views = {}
    for name, d in zip(layout.names, layout.sizes, strict=True):
        parts, at = _cut(vector, at, view_shapes(d, q))
        if round(float(parts["centers"])) > 0:
            views[name] = ViewContribution(**parts)
    return Contribution(views, **common)


def _size(shapes: Shapes) -> int:
    return sum(math.prod(shape) for shape in shapes.values())


def _flat(value: object, shapes: Shapes) -> Array:
    return np.concatenate([np.ravel(getattr(value, name)) for name in shapes])


def _cut(vector: Array, at: int, shapes: Shapes) -> tuple[dict[str, Any], int]:
    found: dict[str, Any] = {}
    for name, shape in shapes.items():
        size = math.prod(shape)
        part = np.asarray(vector[at : at + size]).reshape(shape)
        found[name] = part if shape else part[()]
        at += size
    return found, at
