"""Rows as other instruments would have measured the same patients: a linear transport between two models of a row.

In units of the noise, u = Psi^-1/2 (t - mu - W m) has covariance I + V V' with V = Psi^-1/2 W = U S R'. Across the span
of U there is noise alone. Along it, y = R (I + S^2)^-1/2 U'u is the posterior mean of x, standardised: N(0, I) whatever
the instruments. So y is kept and unfolds into the target's span, and the noise across turns with the span, by the
least rotation that takes one to the other. The result has exactly the target's distribution, with the center's own
case mix m. Putting the target's W in place of W_c and keeping the posterior mean of x would not do: it is shrunken more
where the instruments are poor, and a quadratic classifier sees the centers by that.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vedute.model.parameters import Array
from vedute.model.prediction import Emission, patterns

SAME = 1e-8  # sine of an angle below which two directions are one


def harmonised(own: Emission, target: Emission, rows: Array) -> Array:
    """Rows of a center as the target's instruments would have measured them; missing cells stay missing.

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
