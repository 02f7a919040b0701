"""Questions and answers as bytes, and their strict decoding: whoever sent them is not trusted.

The container is safetensors: names, shapes and raw numbers, and nothing in it can be code. Which arrays a message must
have, and their shapes, follow from the study that both sides agreed to, never from the message; any other name, type,
shape or size is refused, and so is every number that is not finite where it has to be. Values that are well formed but
cannot be true are the business of :mod:`vedute.federation.plausible`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vedute.errors import Refused, UserError
from vedute.model.contribution import packed_size
from vedute.model.parameters import Array, Layout
from vedute.privacy.policies import policy_of
from vedute.privacy.release import Release, event_from_json, event_to_json
from vedute.run.fitted_model import SCALARS, build_settings, describe_settings
from vedute.run.protocol import STEPS, Step
from vedute.run.settings import Settings

META = "vedute"  # the entry that holds everything but the arrays, as JSON
MOST_TEXT = 1 << 20  # bytes of that JSON: thousands of events and centers fit
MOST_NUMBERS = 1 << 27  # of any message: a gigabyte
ASKED = ("step", "run", "study", "round", "settings", "among")
ANSWERED = ("step", "run", "round", "views", "policy", "public", "events")
RUN_NAME = re.compile(r"[0-9a-f]{32}")
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Request:
    """A question as it travels: with the run, the study and all settings, so that a center can judge it alone.

    A center that was restarted thereby knows where it is.
    """

    step: Step
    run: str  # names the run across restarts
    study: str  # the checksum of the study that all agreed to
    settings: Settings
    round: int = 0
    values: Mapping[str, Array] = field(default_factory=dict)
    among: tuple[str, ...] = ()  # the centers whose answers made the prior that is told


@dataclass(frozen=True)
class Reply:
    """An answer as it travels: which request it belongs to, the views that the center holds, and a release."""

    step: Step
    run: str
    round: int
    views: tuple[str, ...]
    release: Release


def encode_request(question: Request) -> bytes:
    """A request as bytes."""
    about = {
        "step": question.step, "run": question.run, "study": question.study, "round": question.round,
        "settings": describe_settings(question.settings), "among": list(question.among),
    }  # fmt: skip
    return _encode(about, question.values)


def encode_reply(answer: Reply) -> bytes:
    """A reply as bytes; besides the release it only repeats what was public before."""
    release = answer.release
    about = {
        "step": answer.step, "run": answer.run, "round": answer.round, "views": list(answer.views),
        "policy": release.policy, "public": dict(release.public),
        "events": [event_to_json(event) for event in release.events],
    }  # fmt: skip
    return _encode(about, release.values)


def decode_request(data: bytes, layout: Layout) -> Request:
    """A request of the server, whose arrays fit the layout of the study; whether to answer it is not decided here."""
    about, arrays = _decode(data, most_numbers(layout, None))
    _same_keys(about, ASKED)
    step = _step(about["step"])
    try:
        settings = build_settings(about["settings"])
        settings.policy  # noqa: B018 - refused here if there is no such policy
    except (UserError, TypeError, ValueError, AttributeError) as error:
        raise Refused(f"settings: {error}") from None
    question = Request(
        step, _run(about["run"]), _text(about["study"], 64), settings, _count(about["round"]), arrays,
        _names(about["among"]),
    )  # fmt: skip
    _check_arrays(arrays, request_shapes(question, layout), may_be_infinite=("prior.sigma2_mu", "prior.sigma2_W"))
    return question


def decode_reply(data: bytes, question: Request, layout: Layout, policy: str) -> Reply:
    """A reply to a request; one to any other, an earlier round say, is refused."""
    about, arrays = _decode(data, most_numbers(layout, question.settings.n_components))
    _same_keys(about, ANSWERED)
    if (about["step"], about["run"], about["round"]) != (question.step, question.run, question.round):
        raise Refused("it answers another question")
    if about["policy"] != policy:
        raise Refused(f"it was released under the policy {about['policy']!r}, not {policy!r}")
    views = _views(about["views"], layout)
    _check_arrays(arrays, reply_shapes(question, layout.restrict(views), layout))
    release = _release(about, arrays)
    return Reply(question.step, question.run, question.round, views, release)


def is_reply(data: bytes) -> None:
    """Refuse what is not an encoded release, whatever the question was: the last look before it leaves."""
    about, arrays = _decode(data, MOST_NUMBERS)
    _same_keys(about, ANSWERED)
    _release(about, arrays)


def _release(about: Mapping[str, Any], arrays: Mapping[str, Array]) -> Release:
    try:
        events = tuple(event_from_json(event) for event in about["events"])
        return Release(arrays, events, _text(about["policy"], 16), _public(about["public"]))
    except (UserError, TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:
        raise Refused(f"events: {error}") from None


def request_shapes(question: Request, layout: Layout) -> dict[str, Shape]:
    """The arrays that a question has."""
    q, d, k = question.settings.n_components, layout.total, len(layout.names)
    if question.step == "squares":
        return {"mean": (d,)}
    if question.step not in ("round", "finish"):
        return {}
    found: dict[str, Shape] = {"prior.mu": (d,), "prior.W": (d, q), "prior.tau2": ()}
    found |= {f"prior.{name}": (k,) for name in SCALARS}
    if "basis" in question.values:
        found["basis"] = (q, q)
    if "shift" in question.values or "scale" in question.values:
        found |= {"shift": (d,), "scale": (d,)}
    return found


def reply_shapes(question: Request, held: Layout, layout: Layout) -> dict[str, Shape]:
    """The arrays that an answer has, of a center that holds some of the views."""
    q, d = question.settings.n_components, layout.total
    if question.step == "sums":
        return {"counts": (d,), "sums": (d,)}
    if question.step == "squares":
        return {"squares": (d,)}
    if question.step == "extremes":
        return {"seen": (d,), "low": (d,), "high": (d,)}
    if question.step == "finish":
        return {"mu": (held.total,), "W": (held.total, q), "sigma2": (len(held.names),), "m": (q,)}
    return policy_of(question.settings.privacy).shapes(held, q)


def most_numbers(layout: Layout, q: int | None) -> int:
    """No message of a study has more numbers than this; q is not known before a question is decoded."""
    components = layout.total if q is None else q
    width = layout.total + len(layout.names)
    return max(packed_size(layout, components), width * width, 4 * layout.total)


def _encode(about: Mapping[str, Any], values: Mapping[str, Array]) -> bytes:
    from safetensors.numpy import save

    text = json.dumps(about, allow_nan=False, sort_keys=True).encode()
    arrays: dict[str, NDArray[Any]] = {name: np.ascontiguousarray(value, "<f8") for name, value in values.items()}
    shaped = {name: array.reshape(np.shape(values[name])) for name, array in arrays.items()}
    return bytes(save({META: np.frombuffer(text, dtype=np.uint8), **shaped}))


def _decode(data: object, most: int) -> tuple[dict[str, Any], dict[str, Array]]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    if not isinstance(data, bytes):
        raise Refused("it is not bytes")
    if len(data) > 8 * most + 2 * MOST_TEXT:
        raise Refused(f"it has {len(data)} bytes, more than any message of this study")
    try:
        arrays = load(data)
        text = arrays.pop(META)
        if text.dtype != np.uint8 or text.size > MOST_TEXT:
            raise Refused("its description is no text")
        about = json.loads(text.tobytes().decode(), parse_constant=_no_number)
    except (SafetensorError, KeyError, ValueError, TypeError, RecursionError) as error:
        raise Refused(f"it cannot be read ({type(error).__name__})") from None
    if not isinstance(about, dict):
        raise Refused("its description is no table")
    if wrong := [name for name, array in arrays.items() if array.dtype != np.float64]:
        raise Refused(f"{wrong[0]!r} are not numbers of double precision")
    return about, arrays


def _check_arrays(
    arrays: Mapping[str, Array], shapes: Mapping[str, Shape], may_be_infinite: tuple[str, ...] = ()
) -> None:
    if set(arrays) != set(shapes):
        odd = sorted(set(arrays) ^ set(shapes))[0]
        raise Refused(f"{odd!r} is {'not asked for' if odd in arrays else 'missing'}")
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            raise Refused(f"{name!r} has shape {arrays[name].shape} instead of {shape}")
        bad = np.isnan(arrays[name]) if name in may_be_infinite else ~np.isfinite(arrays[name])
        if bad.any():
            raise Refused(f"{name!r} is not finite")


def _no_number(word: str) -> None:
    raise Refused(f"its description has {word} where a number should be")


def _same_keys(about: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    if set(about) != set(keys):
        raise Refused(f"{sorted(set(about) ^ set(keys))[0]!r} is unknown or missing")


def _step(value: object) -> Step:
    for step in STEPS:
        if step == value:
            return step
    raise Refused("its step is unknown")


def _run(value: object) -> str:
    if not isinstance(value, str) or not RUN_NAME.fullmatch(value):
        raise Refused("its run has no proper name")
    return value


def _text(value: object, most: int) -> str:
    if not isinstance(value, str) or len(value) > most:
        raise Refused("a text is too long, or none")
    return value


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > 1_000_000:
        raise Refused("its centers are no list")
    return tuple(_text(name, 200) for name in value)


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 1_000_000:
        raise Refused("its round is no number")
    return value


def _views(value: object, layout: Layout) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or len(set(map(str, value))) != len(value):
        raise Refused("its views are no list of names")
    if any(name not in layout.names for name in value):
        raise Refused("it names a view that is not in the study")
    return layout.restrict(value).names


def _public(value: object) -> dict[str, str | int | float | bool]:
    if not isinstance(value, dict) or any(
        not isinstance(key, str) or not isinstance(item, str | int | float | bool) for key, item in value.items()
    ):
        raise Refused("its public facts are no table")
    return value
