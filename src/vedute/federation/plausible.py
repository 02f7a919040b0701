"""What well-formed messages may say: bounds on the priors that a center accepts, and sums that cannot be lies.

A server might send a prior that is built to draw out one subject: so sharp that the parameters of a center move only
for that one, or so wide that nothing is shrunk. A center might send sums that no data have, to break or bend the model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from vedute.errors import Refused
from vedute.model.contribution import Contribution
from vedute.model.master import ALPHA_CEILING
from vedute.model.parameters import Array, CenterParams, GlobalPrior, Layout, ViewPrior
from vedute.model.statistics import Statistics
from vedute.privacy.policies.base import LARGEST, MOST_SUBJECTS

STRETCH = (0.4, 2.5)  # a change of basis rescales no direction by more: the master's own limits are 1/2 and 2
UNITS = 1e-4  # least standard deviation of a view in common units; the largest is its inverse
SAME = 1e-6  # relative: how well numbers that follow from each other must agree


def check_prior(prior: GlobalPrior, smallest_sd: float, largest_sd: float) -> None:
    """A prior that the server sends, against the bounds that the study announced."""
    if not (prior.tau2 == 0.0 or smallest_sd**2 <= prior.tau2 <= largest_sd**2):
        raise Refused(f"the prior's tau lies outside {smallest_sd:g} to {largest_sd:g}")
    for name, view in prior.views.items():
        if max(np.abs(view.mu).max(), np.abs(view.W).max()) > LARGEST:
            raise Refused(f"view {name!r}: the prior's mean or loadings are beyond {LARGEST:g}")
        if not 0 <= view.n_centers <= 1_000_000:
            raise Refused(f"view {name!r}: the prior's number of centers is none")
        for what, variance in (("mu", view.sigma2_mu), ("W", view.sigma2_W)):
            # a flat prior is what round 1 has, and every view of a single center
            if math.isinf(variance) and variance > 0 and view.n_centers <= 1:
                continue
            if not smallest_sd**2 <= variance <= largest_sd**2:
                raise Refused(f"view {name!r}: the prior's sd of {what} lies outside {smallest_sd:g} to {largest_sd:g}")
        _check_noise(name, view, smallest_sd, largest_sd)


def _check_noise(name: str, view: ViewPrior, smallest_sd: float, largest_sd: float) -> None:
    if (view.alpha, view.beta) == (-1.0, 0.0) and view.n_centers == 0:
        return
    if not (0.0 < view.alpha <= ALPHA_CEILING and smallest_sd**2 <= view.sigma2 <= largest_sd**2):
        raise Refused(f"view {name!r}: the prior's noise lies outside {smallest_sd:g} to {largest_sd:g}")


def check_basis(basis: Array) -> None:
    """A change of basis of the latent space: symmetric, and no direction is stretched much."""
    values = np.linalg.eigvalsh(basis) if np.allclose(basis, basis.T, rtol=SAME, atol=SAME) else np.zeros(1)
    if not (STRETCH[0] <= values.min() and values.max() <= STRETCH[1]):
        raise Refused("the change of basis is none that a master makes")


def check_scaler(shift: Array, scale: Array) -> None:
    """The agreed scaling: positive units."""
    if np.abs(shift).max() > LARGEST or scale.min() <= 0.0 or scale.max() > LARGEST:
        raise Refused("the scaling has units that are not positive, or beyond all measure")


def check_scaled(statistics: Statistics) -> None:
    """A center's own columns in the units that the server told: in odd ones no bound on a prior means a thing."""
    counts = np.maximum(statistics.counts(), 1.0)
    mean = statistics.sums() / counts
    squares = statistics.squares_about(mean)
    for name, columns in statistics.layout.slices.items():
        sd = math.sqrt(float(np.sum(squares[columns]) / np.sum(counts[columns])))
        if np.abs(mean[columns]).max() > 1.0 / UNITS or (sd > 0 and not UNITS <= sd <= 1.0 / UNITS):
            raise Refused(f"view {name!r}: after the scaling its columns are far from common units")


def check_contribution(contribution: Contribution, layout: Layout) -> None:
    """One center's contribution: what follows from each other must agree, and nothing may be negative that is not."""
    q = len(contribution.m)
    _require(contribution.centers == 1.0, "it counts other than one center")
    _require(_whole(contribution.subjects) and 1 <= contribution.subjects <= MOST_SUBJECTS, "its subjects are no count")
    _require(np.abs(contribution.m).max() <= LARGEST, "its case mix is beyond all measure")
    _agree(contribution.sq_m, np.outer(contribution.m, contribution.m), "case mix")
    for what in ("var_m", "sq_x"):
        _semidefinite(getattr(contribution, what), what)
    _require(set(contribution.views) == set(layout.names), "a view counts other than one center")
    for name in layout.names:
        part = contribution.views[name]
        where = f"view {name!r}: "
        _require(part.centers == 1.0 and bool(np.isin(part.count, (0.0, 1.0)).all()), where + "its counts are none")
        _require(max(np.abs(part.d_mu).max(), np.abs(part.d_W).max()) <= LARGEST, where + "beyond all measure")
        _agree(part.sq_mu, float(np.sum(part.d_mu**2)), where + "squares of mu")
        _agree(part.sq_W, part.d_W.T @ part.d_W, where + "squares of W")
        _require(0.0 <= part.var_mu <= LARGEST, where + "its variance of mu")
        _semidefinite(part.var_W, where + "var_W")
        _require(bool((np.abs(part.turn) <= 2.0 + SAME).all()), where + "its turn is no rotation")
        _require(1.0 / LARGEST <= part.precision <= LARGEST, where + "its precision")
        _require(abs(part.log_sigma2) <= math.log(LARGEST), where + "its ln sigma2")
        for gain in (part.mu_gain, part.noise_gain):
            _require(-SAME <= gain <= 1.0 + SAME, where + "a weight is not between 0 and 1")
    _require(q == len(contribution.sq_x), "its latent scatter has another size")


def check_sums(values: Mapping[str, Array], held: Layout, layout: Layout) -> None:
    """Sums for the scaling: counts are counts, and nothing is told of views that the center lacks."""
    lacking = np.ones(layout.total, dtype=bool)
    for name in held.names:
        lacking[layout.slices[name]] = False
    for name, value in values.items():
        _require(not value[lacking].any(), f"{name}: told of a view that it does not hold")
        most = LARGEST**2 * MOST_SUBJECTS if name == "squares" else LARGEST
        if name == "sums":
            _require(not value[values["counts"] == 0.0].any(), "sums: told of columns without a cell")
            value = value / np.maximum(values["counts"], 1.0)
        _require(np.abs(value).max() <= most, f"{name}: beyond all measure")
        if name in ("counts", "squares", "seen"):
            _require(value.min() >= 0.0, f"{name}: negative")
        if name == "counts":
            _require(_whole(value) and value.max() <= MOST_SUBJECTS, "counts: are no counts")
        if name == "high":
            _require(bool((values["low"] <= value).all()), "high: is below low")
        if name == "seen":
            _require(bool(np.isin(value, (0.0, 1.0)).all()), "seen: is neither yes nor no")


def check_parameters(params: CenterParams) -> None:
    """A center's own parameters at the end."""
    for name, view in params.views.items():
        _require(max(np.abs(view.mu).max(), np.abs(view.W).max()) <= LARGEST, f"view {name!r}: beyond all measure")
        _require(1.0 / LARGEST <= view.sigma2 <= LARGEST, f"view {name!r}: its noise")
    _require(np.abs(params.m).max() <= LARGEST, "its case mix is beyond all measure")


def _agree(told: Array | float, follows: Array | float, what: str) -> None:
    scale = float(np.abs(follows).max()) + 1e-30
    _require(float(np.abs(np.asarray(told) - follows).max()) <= SAME * scale + 1e-12, f"{what} do not agree")


def _semidefinite(matrix: Array, what: str) -> None:
    size = float(np.abs(matrix).max())
    _require(size <= LARGEST, f"{what} is beyond all measure")
    _require(np.allclose(matrix, matrix.T, rtol=SAME, atol=SAME * size + 1e-12), f"{what} is not symmetric")
    _require(float(np.linalg.eigvalsh(matrix).min()) >= -SAME * size - 1e-9, f"{what} has a negative direction")


def _whole(value: Array | float) -> bool:
    return bool(np.all(np.asarray(value) == np.rint(value)))


def _require(true: bool | np.bool_, what: str) -> None:
    if not true:
        raise Refused(what)
