"""Messages of liars: whatever bytes arrive, they are either what was agreed or refused."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load, save

from vedute.errors import Refused
from vedute.federation.messages import (
    META,
    Reply,
    Request,
    decode_reply,
    decode_request,
    encode_reply,
    encode_request,
    is_reply,
)
from vedute.federation.plausible import check_basis, check_contribution, check_prior, check_scaler, check_sums
from vedute.model.contribution import (
    Contribution,
    ViewContribution,
    common_shapes,
    pack,
    packed_size,
    unpack,
    view_shapes,
)
from vedute.model.parameters import GlobalPrior, Layout, ViewPrior
from vedute.privacy.release import NonPrivate, Release
from vedute.run.fitted_model import build_prior, prior_arrays
from vedute.run.settings import Settings

LAYOUT = Layout(("a", "b", "c"), (4, 3, 2))
HELD = ("a", "c")
OWN = LAYOUT.restrict(HELD)
Q = 2
RUN = "0" * 32
RNG = np.random.default_rng(9)
PRIOR = GlobalPrior(
    {
        name: ViewPrior(RNG.standard_normal(d), RNG.standard_normal((d, Q)), 0.1, 0.2, 3.0, 1.5, 3)
        for name, d in zip(LAYOUT.names, LAYOUT.sizes, strict=True)
    },
    0.5,
)
QUESTION = Request("round", RUN, "5" * 64, Settings(Q), 3, {**prior_arrays(PRIOR, LAYOUT), "basis": np.eye(Q)})


def a_contribution(rng=None, views=HELD) -> Contribution:
    rng = rng or np.random.default_rng(0)
    square = np.diag(rng.uniform(0.1, 1.0, Q))
    parts = {}
    for name in views:
        d = LAYOUT.sizes[LAYOUT.names.index(name)]
        d_mu, d_W = rng.standard_normal(d), rng.standard_normal((d, Q))
        parts[name] = ViewContribution(
            1.0, np.ones(d), d_mu, d_W, float(d_mu @ d_mu), d_W.T @ d_W, 0.3, square, 0.1 * square, 0.9, 2.0, -0.7, 0.8
        )
    m = rng.standard_normal(Q)
    return Contribution(parts, 1.0, m, np.outer(m, m), square, 40.0, 40.0 * np.eye(Q))


def an_answer(contribution=None, **change) -> Reply:
    vector = pack(contribution or a_contribution(), OWN)
    release = Release({"contribution": vector}, (NonPrivate("exact"),), "none")
    return replace(Reply("round", RUN, 3, HELD, release), **change)


def decoded(data: bytes) -> Reply:
    return decode_reply(data, QUESTION, LAYOUT, "none")


def test_what_is_sent_arrives_bit_by_bit():
    question = decode_request(encode_request(QUESTION), LAYOUT)
    assert question.settings == QUESTION.settings
    assert (question.step, question.run, question.study, question.round) == ("round", RUN, "5" * 64, 3)
    for name, value in QUESTION.values.items():
        np.testing.assert_array_equal(question.values[name], value)
    answer = decoded(encode_reply(an_answer()))
    assert answer.views == HELD
    np.testing.assert_array_equal(answer.release.values["contribution"], pack(a_contribution(), OWN))


def test_packed_contributions_add_like_contributions():
    one, two = a_contribution(np.random.default_rng(1)), a_contribution(np.random.default_rng(2), ("b", "c"))
    added = unpack(pack(one, LAYOUT) + pack(two, LAYOUT), LAYOUT, Q)
    whole = one + two
    np.testing.assert_array_equal(pack(added, LAYOUT), pack(whole, LAYOUT))
    assert set(added.views) == {"a", "b", "c"}
    assert len(pack(one, LAYOUT)) == packed_size(LAYOUT, Q)


def test_every_part_of_a_contribution_has_its_place():
    assert list(view_shapes(3, 2)) == [part.name for part in fields(ViewContribution)]
    assert list(common_shapes(2)) == [part.name for part in fields(Contribution) if part.name != "views"]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none_are_refused(value):
    vector = pack(a_contribution(), OWN)
    vector[7] = value
    release = Release({"contribution": vector}, (NonPrivate("exact"),), "none")
    with pytest.raises(Refused, match="not finite"):
        decoded(encode_reply(an_answer(release=release)))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"round": 2}, "another question"),
        ({"run": "1" * 32}, "another question"),
        ({"step": "sums"}, "another question"),
        ({"views": ("a", "b", "c")}, "shape"),
        ({"views": ("a", "secret")}, "not in the study"),
        ({"views": ()}, "views"),
        ({"release": Release({"contribution": np.zeros(5)}, (NonPrivate("x"),), "none")}, "shape"),
        ({"release": Release({"rows": np.zeros(5)}, (NonPrivate("x"),), "none")}, "missing|not asked"),
        ({"release": Release({"contribution": pack(a_contribution(), OWN)}, (NonPrivate("x"),), "paper")}, "policy"),
    ],
)  # fmt: skip
def test_answers_to_something_else_are_refused(change, why):
    with pytest.raises(Refused, match=why):
        decoded(encode_reply(an_answer(**change)))


def test_an_oversized_message_is_refused_before_it_is_read():
    with pytest.raises(Refused, match="bytes"):
        decoded(encode_reply(an_answer()) + b"\0" * (1 << 22))


def test_other_types_and_further_arrays_are_refused():
    arrays = load(encode_reply(an_answer()))
    for extra, why in (
        (np.zeros(3), "not asked for"),
        (np.zeros(3, np.float32), "double"),
        (np.zeros(3, int), "double"),
    ):
        with pytest.raises(Refused, match=why):
            decoded(bytes(save({**arrays, "extra": extra})))
    about = json.loads(arrays[META].tobytes())
    for change in (
        {"events": []},
        {"events": [{"kind": "Exec"}]},
        {"public": {"x": [1]}},
        {"extra": 1},
        {"views": "a"},
    ):
        text = np.frombuffer(json.dumps({**about, **change}).encode(), np.uint8)
        with pytest.raises(Refused):
            decoded(bytes(save({**arrays, META: text})))


LIES = {
    "two centers": lambda c: replace(c, centers=2.0),
    "no subject": lambda c: replace(c, subjects=0.0),
    "half a subject": lambda c: replace(c, subjects=3.5),
    "case mix": lambda c: replace(c, sq_m=c.sq_m + 1.0),
    "negative variance": lambda c: replace(c, var_m=-c.var_m),
    "latent scatter": lambda c: replace(c, sq_x=np.array([[1.0, 5.0], [0.0, 1.0]])),
    "1e308": lambda c: _view(c, d_mu=c.views["a"].d_mu * 0 + 1e308),
    "squares of mu": lambda c: _view(c, sq_mu=c.views["a"].sq_mu * 1.01),
    "squares of W": lambda c: _view(c, sq_W=c.views["a"].sq_W * 0.5),
    "count": lambda c: _view(c, count=c.views["a"].count * 2),
    "weight": lambda c: _view(c, mu_gain=1.5),
    "precision": lambda c: _view(c, precision=-1.0),
    "turn": lambda c: _view(c, turn=np.full((Q, Q), 9.0)),
    "var_mu": lambda c: _view(c, var_mu=-1.0),
    "var_W": lambda c: _view(c, var_W=-np.eye(Q)),
    "log": lambda c: _view(c, log_sigma2=1e5),
    "a view less": lambda c: replace(c, views={"a": c.views["a"]}),
}


def _view(contribution: Contribution, **change) -> Contribution:
    views = {**contribution.views, "a": replace(contribution.views["a"], **change)}
    return replace(contribution, views=views)


def test_an_honest_contribution_passes():
    check_contribution(a_contribution(), OWN)


@pytest.mark.parametrize("lie", LIES)
def test_contributions_that_cannot_be_true_are_refused(lie):
    with pytest.raises(Refused), np.errstate(all="ignore"):
        check_contribution(LIES[lie](a_contribution()), OWN)


def test_sums_of_views_that_a_center_lacks_are_refused():
    good = np.where(np.isin(LAYOUT.view_of, (0, 2)), 5.0, 0.0)
    check_sums({"counts": good, "sums": good}, OWN, LAYOUT)
    for bad in (
        {"counts": good + 1},
        {"counts": good * 0.3},
        {"squares": -good},
        {"counts": good, "sums": good * 1e300},
        {"seen": good},
    ):
        with pytest.raises(Refused):
            check_sums(bad, OWN, LAYOUT)


def prior_with(**change):
    return PRIOR.with_views({"b": replace(PRIOR.views["b"], **change)})


@pytest.mark.parametrize(
    "change",
    [
        {"sigma2_mu": 1e24}, {"sigma2_W": 1e24}, {"sigma2_mu": 1e-300}, {"sigma2_W": 1e-300}, {"sigma2_W": 0.0},
        {"sigma2_W": -1.0}, {"sigma2_mu": np.inf, "n_centers": 3}, {"alpha": 1e12, "beta": 1e12}, {"alpha": -2.0},
        {"beta": 1e30}, {"beta": 1e-300}, {"mu": np.full(3, 1e300)}, {"W": np.full((3, Q), -1e300)},
        {"n_centers": -1},
    ],
)  # fmt: skip
def test_priors_built_to_draw_out_a_subject_are_refused(change):
    """A prior sd of 1e12 or of 1e-300, and everything of the kind."""
    check_prior(PRIOR, 1e-6, 1e3)
    with pytest.raises(Refused):
        check_prior(prior_with(**change), 1e-6, 1e3)


def test_a_flat_prior_is_for_round_one_and_lone_views():
    check_prior(prior_with(sigma2_mu=np.inf, sigma2_W=np.inf, alpha=-1.0, beta=0.0, n_centers=0), 1e-6, 1e3)
    check_prior(prior_with(sigma2_mu=np.inf, sigma2_W=np.inf, alpha=1.0, beta=1.0, n_centers=1), 1e-6, 1e3)


def test_bases_and_scalings_that_no_master_makes_are_refused():
    check_basis(np.diag([0.5, 2.0]))
    check_scaler(np.zeros(3), np.ones(3))
    for basis in (np.diag([1e-3, 1.0]), np.diag([1e6, 1.0]), np.array([[1.0, 0.9], [0.0, 1.0]]), -np.eye(2)):
        with pytest.raises(Refused):
            check_basis(basis)
    for shift, scale in ((np.zeros(2), np.zeros(2)), (np.zeros(2), -np.ones(2)), (np.full(2, 1e300), np.ones(2))):
        with pytest.raises(Refused):
            check_scaler(shift, scale)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=400))
def test_noise_is_refused(data):
    for decode in (decoded, is_reply, lambda noise: decode_request(noise, LAYOUT)):
        with pytest.raises(Refused):
            decode(data)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_messages_are_refused_or_sound(data):
    """Flip a byte anywhere: whatever is accepted has the shapes that were agreed, and finite numbers."""
    for message, decode in ((encode_reply(an_answer()), decoded),
                            (encode_request(QUESTION), lambda noise: decode_request(noise, LAYOUT))):  # fmt: skip
        at = data.draw(st.integers(0, len(message) - 1))
        damaged = message[:at] + bytes([message[at] ^ data.draw(st.integers(1, 255))]) + message[at + 1 :]
        try:
            found = decode(damaged)
        except Refused:
            continue
        if isinstance(found, Reply):
            assert np.isfinite(found.release.values["contribution"]).all()
            assert len(found.release.values["contribution"]) == packed_size(OWN, Q)
        else:
            build_prior(found.values, LAYOUT)


def test_half_a_scaling_is_none():
    with_shift = replace(QUESTION, values={**QUESTION.values, "shift": np.zeros(9)})
    with pytest.raises(Refused, match="'scale' is missing"):
        decode_request(encode_request(with_shift), LAYOUT)


@pytest.mark.parametrize("table", ["x", [], {"policy": []}, {"policy": "nun"}, {"policy": "center", "scales": 3}])
def test_a_policy_that_is_none_is_refused(table):
    odd = replace(QUESTION, settings=replace(QUESTION.settings, privacy=table))
    with pytest.raises(Refused, match="settings"):
        decode_request(encode_request(odd), LAYOUT)
