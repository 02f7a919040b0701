"""Questions and answers as named arrays, and back: what is where follows from the study that all agreed to."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vedute.data.scaling import Extremes, Sums, from_vectors
from vedute.model.contribution import Contribution, pack, unpack
from vedute.model.parameters import Array, CenterParams, Layout, ViewParams
from vedute.privacy.release import Release
from vedute.run.fitted_model import build_prior, prior_arrays
from vedute.run.protocol import Content, Question, Step


def question_arrays(question: Question, layout: Layout) -> dict[str, Array]:
    """What a question tells besides its step and round."""
    values: dict[str, Array] = {} if question.prior is None else dict(prior_arrays(question.prior, layout))
    if question.mean is not None:
        values["mean"] = question.mean
    if question.basis is not None:
        values["basis"] = question.basis
    if question.scaler is not None:
        values["shift"], values["scale"] = question.scaler.vectors(layout)
    return values


def build_question(
    step: Step, round_: int, values: Mapping[str, Array], among: tuple[str, ...], layout: Layout
) -> Question:
    """The question again; that its arrays are the right ones was checked when they were decoded."""
    return Question(
        step, round_, values.get("mean"), build_prior(values, layout) if "prior.mu" in values else None,
        values.get("basis"), from_vectors(layout, values["shift"], values["scale"]) if "shift" in values else None,
        among,
    )  # fmt: skip


def content_arrays(content: Content, held: Layout) -> dict[str, Array]:
    """What an answer tells."""
    if isinstance(content, Contribution):
        return {"contribution": pack(content, held)}
    if isinstance(content, CenterParams):
        views = [content.views[name] for name in held.names]
        return {
            "mu": np.concatenate([view.mu for view in views]),
            "W": np.concatenate([view.W for view in views]),
            "sigma2": np.array([view.sigma2 for view in views]),
            "m": content.m,
        }
    if isinstance(content, np.ndarray):
        return {"squares": content}
    if isinstance(content, Release):
        return dict(content.values)
    return dict(vars(content))


def build_content(step: Step, release: Release, held: Layout, q: int) -> Content:
    """What was told, of a policy that lets exact values out."""
    values = release.values
    if step == "sums":
        return Sums(values["counts"], values["sums"])
    if step == "squares":
        return values["squares"]
    if step == "extremes":
        return Extremes(values["seen"], values["low"], values["high"])
    if step == "round":
        return unpack(values["contribution"], held, q)
    views = {
        name: ViewParams(values["mu"][columns], values["W"][columns], float(values["sigma2"][k]))
        for k, (name, columns) in enumerate(held.slices.items())
    }
    return CenterParams(views, values["m"])
