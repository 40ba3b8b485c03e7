r"""Minimum-volume NMF in its conic form, for mixtures without pure samples.

.. math:: \min_{W \ge 0,\ H \ge 0,\ H 1 = 1}\ \|X - W H\|^2 + \lambda \log\det(I + H H^T / \delta)

The rows of H, the components, sum to one; W is free, so that the brightness of a sample stays in W.
Among all factors that fit the data about as well, the penalty prefers components that span a small
volume: the tightest cone around the samples. The error is that of samples divided by the root of
their length, as noise whose variance grows with the signal asks for.

*How much volume.* Let the noise have variance :math:`\sigma^2`, and let the n samples be spread
evenly over the mixtures of the components, so that their density is one over the volume,
:math:`\det(H H^T)^{-1/2}` up to a factor. The logarithm of the likelihood is then

.. math:: -\frac{1}{2 \sigma^2} \|X - W H\|^2 - \frac{n}{2} \log\det(H H^T) ,

so that :math:`\lambda = n \sigma^2`, the squared noise in each direction of the subspace of the
components. It is estimated from what lies outside of the subspace
(`conecollapse.factorization.mixtures.compressed`); no constant is left to choose.

*Steps.* W by coordinate descent on its rows. The logarithm is concave in :math:`H H^T`, so its
tangent is an upper bound (Fu et al. 2016; Leplat, Ang & Gillis 2019); with it H is a quadratic
problem over simplices, for which a few accelerated projected gradient steps are taken. Both factors
are extrapolated, and a step that raises the objective is taken back and done again without, as in
`conecollapse.factorization.nmf.hals`; so the objective never rises. Components can be held.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np

from conecollapse._iterate import TOL, Stopping, iterate
from conecollapse._kernels import kernel
from conecollapse._types import FloatArray
from conecollapse.factorization.mixtures.compressed import Compressed
from conecollapse.factorization.nmf.hals import BETA, BETA_MOST, GROW, GROW_MOST, SHRINK
from conecollapse.factorization.nmf.row_sweeps import sweep
from conecollapse.factorization.result import ROUNDING, Factorization
from conecollapse.tables import Equations

# of the mean squared length of the first components: volumes below that are not told apart
DELTA = 0.01
INNER = 5  # sweeps over W, and gradient steps for H, in each iteration
FIRST_SWEEPS = 100  # for the first W
STILL = 3  # iterations in a row that change the objective by less than tol end the run


@dataclass(frozen=True)
class _State:
    W: FloatArray
    H: FloatArray
    ahead: FloatArray  # H moved on along its last step: where the next step begins
    beta: float
    beta_most: float
    error: float
    objective: float
    still: int


def minvolume(
    X: Compressed,
    H: FloatArray,
    lam: float,
    *,
    W: FloatArray | None = None,
    n_held: int = 0,
    delta: float | None = None,
    **stopping: Unpack[Stopping],
) -> Factorization:
    """``X ~ W H`` from the components H >= 0, of which the first ``n_held`` stay as they are; rows
    of H are scaled to sum one."""
    H = H / H.sum(axis=1, keepdims=True)
    tol = stopping.pop("tol", TOL)
    delta = volume_scale(H) if delta is None else delta
    eye = np.eye(len(H))

    def of_rows(H: FloatArray) -> Equations:
        return Equations(H @ H.T, X.Z @ (X.Vt @ H.T))

    def volume(G: FloatArray) -> float:
        return float(np.linalg.slogdet(eye + G / delta)[1])

    def attempt(s: _State, H: FloatArray, beta: float) -> _State:
        rows = of_rows(H)
        W = sweep(s.W, rows, INNER)
        if beta:
            W = np.maximum(W + beta * (W - s.W), 0.0)
        WtW, WtX = W.T @ W, (W.T @ X.Z) @ X.Vt
        new = descend(WtW + lam * np.linalg.inv(rows.G + delta * eye), WtX, H, n_held)
        G = new @ new.T
        error = max(X.norm2 - 2 * float(np.vdot(WtX, new)) + float(np.vdot(WtW, G)), 0.0)
        objective = error + lam * volume(G)
        still = s.still + 1 if s.objective - objective <= tol * s.objective else 0
        return _State(
            W, new, new + beta * (new - s.H), s.beta, s.beta_most, error, objective, still
        )

    def step(s: _State) -> _State:
        new = attempt(s, s.ahead, s.beta)
        if new.objective <= s.objective:
            most = min(1.0, GROW_MOST * s.beta_most)
            return replace(new, beta=min(most, GROW * s.beta), beta_most=most)
        plain = attempt(s, s.H, 0.0)
        if plain.objective > s.objective:  # by rounding, or by a few gradient steps that overshot
            return replace(s, ahead=s.H, beta=s.beta / SHRINK, still=s.still + 1)
        return replace(plain, beta=s.beta / SHRINK, beta_most=s.beta)

    if W is None:
        W = sweep(
            np.full((len(X.Z), len(H)), 1e-3 * np.sqrt(X.norm2 / len(X.Z))),
            of_rows(H),
            FIRST_SWEEPS,
        )
    error = of_rows(H).error(X.norm2, W)
    start = _State(W, H, H, BETA, BETA_MOST, error, error + lam * volume(H @ H.T), 0)
    rounding = ROUNDING * float(np.finfo(np.float64).eps) * X.norm2
    trace = iterate(
        step,
        start,
        rounding=rounding,
        settled=lambda s: s.still >= STILL,
        stage="minimum volume",
        **stopping,
    )
    s = trace.state
    return Factorization.of(s.W, s.H, s.objective, trace, X.norm2, s.error)


def volume_scale(H: FloatArray) -> float:
    """The number delta of components that sum to one."""
    return DELTA * float(np.square(H / H.sum(axis=1, keepdims=True)).sum(axis=1).mean())


def descend(Q: FloatArray, C: FloatArray, H: FloatArray, n_held: int) -> FloatArray:
    """`INNER` steps of FISTA on ``tr(H' Q H) / 2 - <C, H>`` over rows of H in the unit simplex; the
    first ``n_held`` rows stay."""
    largest = float(np.linalg.eigvalsh(Q)[-1])
    kept = np.eye(len(H))[n_held:] - Q[n_held:] / largest
    added = C[n_held:] / largest
    x, y, t = H[n_held:], H.copy(), 1.0
    for _ in range(INNER):
        new = kept @ y + added
        _onto_simplex(new)
        u = 0.5 * (1.0 + (1.0 + 4.0 * t * t) ** 0.5)
        y[n_held:] = new + (t - 1.0) / u * (new - x)
        x, t = new, u
    return np.concatenate([H[:n_held], x]) if n_held else x


@kernel(error_model="numpy")
def _onto_simplex(V):  # type: ignore[no-untyped-def]
    """The nearest vectors to the rows that are not negative and sum to one, in place: Michelot's
    rounds of raising the threshold."""
    for v in V:
        threshold, count = -np.inf, 0
        while True:
            total, above = -1.0, 0
            for x in v:
                if x > threshold:
                    total += x
                    above += 1
            if above == count or above == 0:
                break
            threshold, count = total / above, above
        for j in range(len(v)):
            v[j] = v[j] - threshold if v[j] > threshold else 0.0
