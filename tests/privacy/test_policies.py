"""Policies for parameters: what leaves in a round, its sensitivity, and the numbers known before a run."""

import math
from dataclasses import replace

import numpy as np
import pytest

from vedute.errors import UserError
from vedute.model.parameters import CenterParams, GlobalPrior, ViewParams, ViewPrior
from vedute.privacy import policies as pol
from vedute.privacy.accounting import spent_epsilon, zhao_multiplier
from vedute.privacy.ledger import Ledger
from vedute.privacy.mechanisms import SecretNoise, SeededNoise, norm
from vedute.privacy.policies import center as center_level
from vedute.privacy.policies import paper
from vedute.privacy.release import CENTER, Gaussian, Laplace, NonPrivate
from vedute.privacy.update import Update, plug_in_step, public_prior

Q = 2
PRIOR = GlobalPrior(
    {
        "A": ViewPrior(np.full(4, 0.5), np.full((4, Q), 0.1), 0.04, 0.01, 5.0, 0.05, 3),
        "B": ViewPrior(np.zeros(3), np.ones((3, Q)), 1e-6, 0.25, 1.5, 0.3, 3),
    }
)


class Silent:
    """A source of no noise, to see what was clipped."""

    seeded = True

    def at(self, key: str) -> "Silent":
        return self

    def gaussian(self, values: np.ndarray, std: float, grid: int) -> np.ndarray:
        return values

    def laplace(self, values: np.ndarray, scale: float, grid: int) -> np.ndarray:
        return values


def params(seed: int, spread: float = 1.0) -> CenterParams:
    rng = np.random.default_rng(seed)
    views = {
        name: ViewParams(
            view.mu + spread * rng.normal(size=view.mu.shape),
            view.W + spread * rng.normal(size=view.W.shape),
            view.sigma2 * math.exp(spread * rng.normal()),
        )
        for name, view in PRIOR.views.items()
    }
    return CenterParams(views, np.zeros(Q))


def update(seed: int, spread: float = 1.0, round_: int = 2, rounds: int = 10) -> Update:
    return Update(params(seed, spread), PRIOR, round_, rounds)


# --- the paper's Algorithm 2


def test_algorithm_2_clips_each_difference_at_const_times_the_prior_sd() -> None:
    release = paper.paper_release(update(0, 100.0), 10.0, 0.01, 0.5, Silent())
    for name, prior in PRIOR.views.items():
        sizes = [norm(release.values[f"{what}.{name}"] - getattr(prior, what)) for what in ("mu", "W")]
        assert sizes == pytest.approx([0.5 * math.sqrt(prior.sigma2_mu), 0.5 * math.sqrt(prior.sigma2_W)])
    A, B = PRIOR.views["A"], PRIOR.views["B"]
    assert paper.noise_sd(A) == pytest.approx(0.05 / (4 * math.sqrt(3)))
    assert paper.noise_sd(B) == pytest.approx(0.2)  # alpha <= 2: no sd exists, the centre itself stands in
    small = paper.paper_release(update(0, 1e-9), 10.0, 0.01, 0.5, Silent())
    assert small.values["mu.A"] == pytest.approx(params(0, 1e-9).views["A"].mu, abs=1e-15)


def test_algorithm_2_noise_is_that_of_theorems_1_and_3_with_sensitivity_2_g() -> None:
    release = paper.paper_release(update(0), 10.0, 0.01, 0.5, SecretNoise())
    z = zhao_multiplier(10.0, 0.01)
    expected = []
    for prior in PRIOR.views.values():
        g_mu, g_W, g_sigma2 = paper.clip_bounds(prior, 0.5)
        expected += [(2 * g_mu, 2 * g_mu * z), (2 * g_W, 2 * g_W * z), (2 * g_sigma2, 2 * g_sigma2 / 10.0)]
    found = [(e.sensitivity, e.std if isinstance(e, Gaussian) else e.scale) for e in release.events]
    assert np.array(found) == pytest.approx(np.array(expected), rel=1e-6)
    assert [type(e) for e in release.events] == [Gaussian, Gaussian, Laplace] * 2
    assert {e.relation for e in release.events} == {CENTER}


def test_no_two_centers_are_further_apart_than_the_event_says() -> None:
    worst = np.zeros(6)
    sensitivities = None
    for seed in range(150):
        pair = [
            paper.paper_release(update(s, 10.0 ** (seed % 5 - 2)), 1.0, 0.01, 0.3, Silent())
            for s in (seed, seed + 1000)
        ]
        names = [f"{what}.{view}" for view in ("A", "B") for what in ("mu", "W", "sigma2")]
        gaps = [norm(np.atleast_1d(pair[0].values[n] - pair[1].values[n])) for n in names]
        worst = np.maximum(worst, gaps)
        sensitivities = np.array([e.sensitivity for e in pair[0].events])
    # In two directions that random centers seldom oppose exactly: opposite ones are built by hand.
    shift = {n: ViewParams(v.mu + 1e3, v.W - 1e3, 1e6) for n, v in PRIOR.views.items()}
    opposite = {n: ViewParams(v.mu - 1e3, v.W + 1e3, 1e-12) for n, v in PRIOR.views.items()}
    two = [
        paper.paper_release(Update(CenterParams(v, np.zeros(Q)), PRIOR, 2, 10), 1.0, 0.01, 0.3, Silent())
        for v in (shift, opposite)
    ]
    hand = np.array([norm(np.atleast_1d(two[0].values[n] - two[1].values[n])) for n in names])
    assert np.all(np.maximum(worst, hand) <= sensitivities * (1 + 1e-9))
    assert np.all(hand >= 0.999 * sensitivities)


def test_the_clip_on_W_is_frobenius_not_spectral() -> None:
    W = PRIOR.views["A"].W + np.eye(4)[:, :Q] * 50.0  # two equal singular values: Frobenius is sqrt 2 times spectral
    views = dict(params(0).views) | {"A": ViewParams(PRIOR.views["A"].mu, W, 0.01)}
    release = paper.paper_release(Update(CenterParams(views, np.zeros(Q)), PRIOR, 2, 9), 1.0, 0.01, 1.0, Silent())
    moved = release.values["W.A"] - PRIOR.views["A"].W
    assert np.sqrt(np.sum(moved**2)) == pytest.approx(0.1)


def test_raw_first_round_leaves_as_it_is_and_is_said_to() -> None:
    policy = pol.PaperPrivacy(seed=1)
    raw = policy.noised(update(0, round_=1), SeededNoise(1, "nice"))
    assert np.array_equal(raw.values["W.A"], params(0).views["A"].W)
    assert isinstance(raw.events[0], NonPrivate)
    noised = pol.PaperPrivacy(first_round="public").noised(update(0, round_=1), SecretNoise())
    assert len(noised.events) == 6
    assert not np.any(noised.values["W.A"] == raw.values["W.A"])


def test_a_flat_prior_cannot_bound_anything() -> None:
    flat = GlobalPrior({n: ViewPrior(v.mu, v.W, np.inf, np.inf, -1.0, 0.0) for n, v in PRIOR.views.items()})
    with pytest.raises(UserError, match="prior is flat"):
        paper.paper_release(Update(params(0), flat, 2, 9), 1.0, 0.01, 1.0, SecretNoise())
    with pytest.raises(UserError, match="public prior"):
        pol.CenterPrivacy(1.0, 1e-5).noised(Update(params(0), flat, 1, 9), SecretNoise())


def test_noised_variances_stay_positive() -> None:
    found = [
        float(paper.paper_release(update(0), 0.01, 0.01, 1.0, SeededNoise(s, "nice")).values["sigma2.B"])
        for s in range(40)
    ]
    assert min(found) == paper.SIGMA2_FLOOR
    assert max(found) > 1.0


def test_rho_is_the_papers_own_story() -> None:
    assert paper.ratio(1.0, 10.0, 0.01, 3) == pytest.approx(0.629, abs=1e-3)  # "drops to 0 after about 20 rounds"
    with pytest.raises(UserError, match=r"clip < 0\.224"):  # "at most 0.2 at eps = 1"
        pol.PaperPrivacy(epsilon=1.0).check_rho(3)
    assert pol.PaperPrivacy(epsilon=1.0, clip=0.2).check_rho(3) < 1
    assert pol.PaperPrivacy(epsilon=1.0, allow_divergence=True).check_rho(3) > 4


@pytest.mark.parametrize(("const", "direction"), [(0.5, -1), (2.0, 1)])
def test_bounds_collapse_or_explode_as_rho_says(const: float, direction: int) -> None:
    C, rounds = 4, 8
    rho = paper.ratio(const, 10.0, 0.01, C)
    prior = GlobalPrior({"A": ViewPrior(np.zeros(200), np.zeros((200, Q)), 1.0, 1.0, 5.0, 0.05, C)})
    still = CenterParams({"A": ViewParams(np.zeros(200), np.zeros((200, Q)), 0.01)}, np.zeros(Q))
    for r in range(2, 2 + rounds):
        total = None
        for c in range(C):
            current = CenterParams(
                {"A": ViewParams(prior.views["A"].mu, prior.views["A"].W, prior.views["A"].sigma2)}, still.m
            )
            release = paper.paper_release(Update(current, prior, r, 99), 10.0, 0.01, const, SeededNoise(0, str(c)))
            part = pol.PaperPrivacy().share(release, prior, ("A",), {"A": C})
            total = part if total is None else total + part
        assert total is not None
        prior = plug_in_step(prior, total)
    growth = (0.5 * math.log(prior.views["A"].sigma2_mu)) / rounds
    assert math.copysign(1, growth) == direction
    assert growth == pytest.approx(math.log(rho), abs=0.05)


def test_the_papers_claim_and_the_truth() -> None:
    policy = pol.PaperPrivacy(first_round="public")
    assert policy.claim(4) == pytest.approx((120.0, 0.08))
    assert policy.honest(4, 100) == pytest.approx(6642, rel=0.01)
    assert policy.honest(4, 1) == pytest.approx(95.4, rel=0.01)
    assert pol.PaperPrivacy(epsilon=1.0, first_round="public").honest(4, 100) == pytest.approx(280, rel=0.01)
    assert pol.PaperPrivacy().honest(4, 100) == math.inf


# --- center level


def test_a_round_of_center_privacy_costs_its_share_and_all_rounds_the_whole() -> None:
    policy = pol.CenterPrivacy(3.0, 1e-5)
    one = policy.noised(update(0, rounds=25), SecretNoise())
    assert spent_epsilon(one.events * 25, 1e-5, CENTER) == pytest.approx(3.0, rel=1e-6)
    assert spent_epsilon(one.events * 25, 1e-5, CENTER) <= 3.0
    assert set(one.values) == {"update"}
    assert set(one.public) == {"round", "std"}


def test_the_joint_clip_bounds_all_blocks_together() -> None:
    policy = pol.CenterPrivacy(1.0, 1e-5, clip=0.7)
    for spread in (1e-3, 0.1, 10.0, 100.0):
        a, b = (policy.noised(update(s, spread), Silent()) for s in (1, 2))
        gap = norm(a.values["update"] - b.values["update"])
        assert norm(a.values["update"]) <= 0.7
        assert gap <= a.events[0].sensitivity
    far = CenterParams({n: ViewParams(v.mu + 1e3, v.W, v.sigma2) for n, v in PRIOR.views.items()}, np.zeros(Q))
    back = CenterParams({n: ViewParams(v.mu - 1e3, v.W, v.sigma2) for n, v in PRIOR.views.items()}, np.zeros(Q))
    pair = [policy.noised(Update(p, PRIOR, 2, 9), Silent()) for p in (far, back)]
    assert norm(pair[0].values["update"] - pair[1].values["update"]) == pytest.approx(1.4)
    assert pair[0].events[0].sensitivity == pytest.approx(1.4)


def test_entries_one_scale_away_make_a_vector_of_length_one() -> None:
    scales = center_level.Scales(mu=0.2, W=0.3, log_sigma2=0.5)
    off = {n: ViewParams(v.mu + 0.2, v.W - 0.3, v.sigma2 * math.exp(0.5)) for n, v in PRIOR.views.items()}
    vector = center_level.encode(Update(CenterParams(off, np.zeros(Q)), PRIOR, 2, 9), ("A", "B"), scales)
    assert norm(vector) == pytest.approx(1.0)


def test_without_noise_the_master_reads_what_the_center_wrote() -> None:
    policy = pol.CenterPrivacy(1.0, 1e-5, clip=100.0)
    sent = policy.noised(update(3, 0.01), Silent())
    sent = replace(sent, public={**sent.public, "std": 1e-30})
    part = policy.share(sent, PRIOR, ("A", "B"), {"A": 3, "B": 2})
    for name, view in params(3, 0.01).views.items():
        assert part.views[name].d_mu == pytest.approx(view.mu - PRIOR.views[name].mu)
        assert part.views[name].d_W == pytest.approx(view.W - PRIOR.views[name].W)
        assert part.views[name].log_sigma2 == pytest.approx(math.log(view.sigma2))
        assert part.views[name].precision == pytest.approx(1 / view.sigma2)
    assert part.subjects == 0.0
    for home in (part.m, part.sq_m, part.var_m, part.sq_x):
        assert not home.any()  # case mix and latent scatter stay at home


def test_the_known_noise_is_taken_off_the_variances() -> None:
    # 400 centers that do not differ at all: what is left of the squares is noise, and must average to zero.
    policy, C = pol.CenterPrivacy(2056.0, 1e-5), 400  # noise of a twentieth of the sensitivity
    total = None
    same = Update(
        CenterParams({n: ViewParams(v.mu, v.W, v.sigma2) for n, v in PRIOR.views.items()}, np.zeros(Q)), PRIOR, 2, 9
    )
    for c in range(C):
        sent = policy.noised(same, SeededNoise(7, str(c)))
        part = policy.share(sent, PRIOR, ("A", "B"), {"A": C, "B": C})
        total = part if total is None else total + part
    assert total is not None
    for name, view in total.views.items():
        d, q = view.d_W.shape
        std = float(sent.public["std"]) * 0.1 * math.sqrt(6)
        for squares, sums, size in ((view.sq_mu, view.d_mu, d), (float(np.trace(view.sq_W)), view.d_W, d * q)):
            variance = std**2 * size
            left = (squares - float(np.sum(sums**2)) / C) / (C * size * variance)
            # chi-square with (C - 1) size degrees of freedom, scaled: sd sqrt(2 / (C size)); 5 sd: alarm 6e-7
            assert abs(left) < 5 * math.sqrt(2 / (C * size)), name
        assert view.precision / C == pytest.approx(1 / PRIOR.views[name].sigma2, rel=0.15)


def test_two_centers_and_two_rounds_never_share_noise() -> None:
    for policy in (pol.CenterPrivacy(3.0, 1e-5, seed=1), pol.PaperPrivacy(seed=1, first_round="public")):
        seen = set()
        for center in ("nice", "paris"):
            for round_ in (2, 3):
                release = policy.noised(update(0, round_=round_), SeededNoise(1, center))
                first = next(iter(release.values.values()))
                seen |= set(np.ravel(first).tolist())
        assert len(seen) == 4 * first.size
        secret = [policy.noised(update(0), SecretNoise()) for _ in range(2)]
        name = next(iter(secret[0].values))
        assert not np.any(secret[0].values[name] == secret[1].values[name])


def test_a_public_prior_owes_nothing_to_data() -> None:
    prior = public_prior([("A", 4), ("B", 3)], Q, seed=5)
    again = public_prior([("A", 4), ("B", 3)], Q, seed=5)
    assert np.array_equal(prior.views["B"].W, again.views["B"].W)
    release = pol.PaperPrivacy(first_round="public").noised(Update(params(0), prior, 1, 9), SecretNoise())
    assert len(release.events) == 6


def test_none_lets_all_out_and_says_so() -> None:
    release = pol.NoPrivacy().of("nice").release(Ledger("nice", "d"), "run", {"x": np.ones(2)})
    assert isinstance(release.events[0], NonPrivate)
    assert release.values["x"].tolist() == [1.0, 1.0]
    assert release.policy == "none"
