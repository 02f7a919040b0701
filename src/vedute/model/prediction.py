"""What a fitted model says of new rows: latent positions, missing values, densities, samples.

Two models answer: that of a known center (its own mu, W, sigma2, and prior mean m of its patients' x), and the global
one, for a subject of a center nobody has seen. The global one integrates what is not known: x ~ N(0, (1 + tau2) I), and
the variances between centers add to the noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vedute.model.parameters import Array, CenterParams, GlobalPrior, Layout, ViewPrior


@dataclass(frozen=True)
class Emission:
    """A Gaussian latent model of a row: ``t = W x + mu + e``, ``x ~ N(m, latent I)``, ``e_j ~ N(0, noise_j)``."""

    layout: Layout
    mu: Array
    W: Array
    noise: Array
    m: Array
    latent: float
    sigma2_W: Array | None = None  # variance of the loadings of an unknown center, (D,): the noise counts it times ...
    typical: float = 0.0  # ... the |x|^2 of a typical subject

    @property
    def q(self) -> int:
        """Number of latent components."""
        return int(self.W.shape[1])


@dataclass(frozen=True)
class Latent:
    """Posterior of x for each row: means (n, q), and covariances (patterns, q, q) with the pattern of each row."""

    mean: Array
    covs: Array
    pattern: NDArray[np.intp]

    def cov(self) -> Array:
        """(n, q, q)."""
        return np.asarray(self.covs[self.pattern])


def between_centers(view: ViewPrior) -> tuple[float, float]:
    """Variances of the mean and of the loadings of an unknown center.

    A view of a single center has no estimate of them (its prior variances are infinite) and adds nothing.
    """
    return (0.0, 0.0) if np.isinf(view.sigma2_mu) else (view.sigma2_mu, view.sigma2_W)


def global_emission(prior: GlobalPrior, layout: Layout, *, typical: bool = False) -> Emission:
    """The model of a subject from a center that is not known; or, if ``typical``, of a center without deviations."""
    latent = 1.0 if typical else 1.0 + prior.tau2
    views = [prior.views[name] for name in layout.names]
    spreads = [(0.0, 0.0) if typical else between_centers(view) for view in views]
    noise = [v.sigma2 + s2_mu + s2_W * prior.q * latent for v, (s2_mu, s2_W) in zip(views, spreads, strict=True)]
    return Emission(
        layout,
        np.concatenate([view.mu for view in views]),
        np.concatenate([view.W for view in views]),
        np.repeat(noise, layout.sizes),
        np.zeros(prior.q),
        latent,
        np.repeat([s2_W for _, s2_W in spreads], layout.sizes),
        prior.q * latent,
    )


def center_emission(prior: GlobalPrior, center: CenterParams, layout: Layout) -> Emission:
    """The model of a subject of a known center; views that it does not hold come from the global distribution."""
    whole = global_emission(prior, layout)
    mu, W, noise = whole.mu.copy(), whole.W.copy(), whole.noise.copy()
    sigma2_W = np.zeros(layout.total) if whole.sigma2_W is None else whole.sigma2_W.copy()
    for name, view in center.views.items():
        if name in layout.slices:
            columns = layout.slices[name]
            mu[columns], W[columns], noise[columns], sigma2_W[columns] = view.mu, view.W, view.sigma2, 0.0
    return Emission(layout, mu, W, noise, center.m, 1.0, sigma2_W, whole.typical)


def posterior(model: Emission, rows: Array) -> Latent:
    """Posterior of x given the observed cells of each row (NaN: missing); a row with none has the prior."""
    observed = ~np.isnan(rows)
    masks, pattern = patterns(observed)
    BW = model.W / model.noise[:, None]
    outer = (model.W[:, :, None] * BW[:, None, :]).reshape(len(BW), -1)
    P = (masks @ outer).reshape(len(masks), model.q, model.q) + np.eye(model.q) / model.latent
    covs = np.linalg.inv(P)
    pulled = np.where(observed, rows - model.mu, 0.0) @ BW + model.m / model.latent
    mean = (pulled[:, None, :] @ covs[pattern])[:, 0] if len(masks) > 1 else pulled @ covs[0]
    return Latent(mean, covs, pattern)


def patterns(observed: NDArray[np.bool_]) -> tuple[Array, NDArray[np.intp]]:
    """The different patterns of observed cells (P, D) as 0/1, and which one each row has."""
    if observed.all():
        return np.ones((1, observed.shape[1])), np.zeros(len(observed), dtype=np.intp)
    keys = np.ascontiguousarray(np.packbits(observed, axis=1))
    packed = keys.view(np.dtype((np.void, keys.shape[1]))).ravel()
    _, first, pattern = np.unique(packed, return_index=True, return_inverse=True)
    return observed[first].astype(float), pattern.ravel()


def predicted(model: Emission, latent: Latent) -> Array:
    """Expected values of all features."""
    return latent.mean @ model.W.T + model.mu


def predictive_sd(model: Emission, latent: Latent) -> Array:
    """Standard deviation of a new measurement of each feature, (n, D).

    ``noise`` counts the loadings of an unknown center with a typical |x|^2; here that of the subject is put in.
    """
    by_pattern = np.stack([((model.W @ cov) * model.W).sum(axis=1) for cov in latent.covs]) + model.noise
    variance = by_pattern[latent.pattern]
    if model.sigma2_W is not None:
        length = (latent.mean**2).sum(axis=1) + np.trace(latent.covs, axis1=1, axis2=2)[latent.pattern]
        variance = variance + np.outer(length - model.typical, model.sigma2_W)
    return np.asarray(np.sqrt(variance))


def log_density(model: Emission, rows: Array) -> Array:
    """Log density of the observed cells of each row, the latent x integrated out."""
    observed = ~np.isnan(rows)
    latent = posterior(model, rows)
    centred = np.where(observed, rows - model.mu - model.m @ model.W.T, 0.0)
    offset = latent.mean - model.m
    _, logdet_cov = np.linalg.slogdet(latent.covs / model.latent)
    explained = ((centred / model.noise) @ model.W * offset).sum(axis=1)
    quad = (centred**2 / model.noise).sum(axis=1) - explained
    logdet = observed @ np.log(2.0 * np.pi * model.noise) - logdet_cov[latent.pattern]
    return np.asarray(-0.5 * (logdet + quad))


def sample_global(prior: GlobalPrior, layout: Layout, n: int, rng: np.random.Generator) -> Array:
    """Rows of n subjects, each from a center of its own drawn from the global distribution."""
    x = rng.standard_normal((n, prior.q)) * np.sqrt(1.0 + prior.tau2)
    length = np.linalg.norm(x, axis=1, keepdims=True)
    parts = []
    for name in layout.names:
        view = prior.views[name]
        d = len(view.mu)
        known = np.isfinite(view.sigma2_mu)
        # (W_c - W~) x ~ N(0, s2_W |x|^2 I): the deviation of W need not be drawn whole
        spread = np.sqrt(view.sigma2_mu + view.sigma2_W * length**2) if known else np.zeros((n, 1))
        sigma2 = view.beta / rng.standard_gamma(view.alpha, (n, 1)) if known else view.sigma2
        noise = np.sqrt(spread**2 + sigma2) * rng.standard_normal((n, d))
        parts.append(x @ view.W.T + view.mu + noise)
    return np.concatenate(parts, axis=1)


def sample_center(model: Emission, n: int, rng: np.random.Generator) -> Array:
    """Rows of n subjects of one known center."""
    x = model.m + np.sqrt(model.latent) * rng.standard_normal((n, model.q))
    return np.asarray(x @ model.W.T + model.mu + np.sqrt(model.noise) * rng.standard_normal((n, len(model.mu))))


SAME = 1e-8  # sine of an angle below which two directions are one


def harmonised(own: Emission, target: Emission, rows: Array) -> Array:
    """Rows of a center as the target's instruments would have measured them; missing cells stay missing.

    A linear transport between two models of a row. In units of the noise, u = Psi^-1/2 (t - mu - W m) has covariance I
    + V V' with V = Psi^-1/2 W = U S R'. Across the span of U there is noise alone. Along it, y = R (I + S^2)^-1/2 U'u
    is the posterior mean of x, standardised: N(0, I) whatever the instruments. So y is kept and unfolds into the
    target's span, and the noise across turns with the span, by the least rotation that takes one to the other. The
    result has exactly the target's distribution, with the center's own case mix m. Putting the target's W in place of
    W_c and keeping the posterior mean of x would not do: it is shrunken more where the instruments are poor, and a
    quadratic classifier sees the centers by that.

    What the center's instruments did (mu_c, W_c, sigma2_c) is taken out and the target's are put in; who the patients
    are, and with it the center's case mix, is kept, and so is what no latent component explains.
    """
    masks, pattern = patterns(~np.isnan(rows))
    out = np.full_like(rows, np.nan)
    for p, mask in enumerate(masks):
        seen = np.flatnonzero(mask)
        if len(seen):
            where = np.ix_(pattern == p, seen)
            out[where] = _transported(own, target, rows[where], seen)
    return out


def _transported(own: Emission, target: Emission, rows: Array, seen: NDArray[np.intp]) -> Array:
    """Rows that observe the features ``seen``, and no others."""
    before, after = np.sqrt(own.noise[seen]), np.sqrt(target.noise[seen])
    u = (rows - own.mu[seen] - own.W[seen] @ own.m) / before
    U, S, R = np.linalg.svd(own.W[seen] / before[:, None], full_matrices=False)
    U2, S2, R2 = np.linalg.svd(target.W[seen] / after[:, None], full_matrices=False)
    along = u @ U
    y = along / np.sqrt(1.0 + S**2) @ _nearest_orthogonal(R @ R2.T)
    turned = _turn(u - along @ U.T, U, U2) + y * np.sqrt(1.0 + S2**2) @ U2.T
    return np.asarray(turned * after + target.mu[seen] + target.W[seen] @ own.m)


def _nearest_orthogonal(matrix: Array) -> Array:
    """Orthogonal already, unless a row observes fewer features than there are components."""
    A, _, B = np.linalg.svd(matrix)
    return np.asarray(A @ B)


def _turn(across: Array, U: Array, U2: Array) -> Array:
    """Rows orthogonal to the span of U, turned by the least rotation that brings it onto the span of U2."""
    A, cosine, B = np.linalg.svd(U.T @ U2)
    X, Y = U @ A, U2 @ B.T  # principal vectors of the two spans
    gap = Y - X * cosine
    sine = np.linalg.norm(gap, axis=0)
    N = np.where(sine > SAME, gap / np.where(sine > SAME, sine, 1.0), 0.0)  # N goes where X leaves: N cos - X sin
    part = across @ N
    return np.asarray(across + part @ (N * (cosine - 1.0) - X * sine).T)
