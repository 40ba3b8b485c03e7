r"""ONP-MF (Pompili, Gillis, Absil & Glineur 2014): orthogonal at every step, non-negative in the
limit.

The multiplicative methods stay non-negative and approach orthogonality; this one goes the other
way. A stays on the Stiefel manifold :math:`A^T A = I`, S is the best non-negative factor for it,
:math:`S = \max(0, A^T X)`, and negative entries of A are driven out by a penalty with multipliers
:math:`\Lambda \ge 0`:

.. math:: \tfrac12 \|X - A S\|^2 - \langle \Lambda, A \rangle + \tfrac\rho2 \|\min(A, 0)\|^2 .

On the manifold the first term is linear in A, and the penalty has a gradient with constant
:math:`\rho`; so the step of projected gradients of length :math:`1/\rho` minimises a majorant
exactly. It is a polar factor:

.. math:: A \leftarrow \operatorname{polar}\big(X S^T + \Lambda + \rho \max(A, 0)\big), \qquad
          \Lambda \leftarrow \max(0, \Lambda - \alpha_t A), \qquad \rho \leftarrow \gamma \rho .

When the negative part is negligible each sample is given to its largest entry, which makes supports
exactly disjoint. The history follows A on the manifold, where negative entries still help the fit;
the final objective is that of the rounded factors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

import numpy as np

from conecollapse._iterate import TOL, Stopping, iterate
from conecollapse._types import AnyArray
from conecollapse.factorization.orthogonal.em import disjoint_factors
from conecollapse.factorization.result import Factorization, rounding_of
from conecollapse.tables import Table

# weight of the penalty, for data of unit spectral norm, and its growth at each step
RHO, GAMMA = 0.01, 1.03
ALPHA = 0.1  # step of the multipliers, divided by the number of steps so far
# share of the largest eigenvalue of Y'Y from which its inverse root is accurate enough
SAFE_EIGENVALUE = 1e-6
POWER_STEPS = 10  # of the power method for the spectral norm


@dataclass(frozen=True)
class _State:
    A: AnyArray
    XSt: AnyArray
    multipliers: AnyArray
    rho: float
    n_steps: int
    objective: float


def onp_mf(
    X: Table,
    W: AnyArray,
    H: AnyArray | None = None,  # noqa: ARG001 - every method takes a start (W, H); here the polar factor of W is one
    **stopping: Unpack[Stopping],
) -> Factorization:
    """``X ~ A S`` with exactly disjoint supports, from the orthonormal matrix nearest to W; ``tol``
    bounds A's negative part."""
    norm2 = X.squared_norm
    unit = _spectral_norm(X)
    tol = stopping.get("tol", TOL)

    def measure(A: AnyArray, multipliers: AnyArray, rho: float, n_steps: int) -> _State:
        St = np.maximum(X.T @ A, 0)
        XSt = (X @ St) / A.dtype.type(unit**2)
        return _State(
            A,
            XSt,
            multipliers,
            rho,
            n_steps,
            max(norm2 - float(np.sum(np.square(St, dtype=np.float64))), 0.0),
        )

    def step(s: _State) -> _State:
        rho = A_type(s.rho)
        A = polar(s.XSt + s.multipliers + rho * np.maximum(s.A, 0))
        multipliers = np.maximum(s.multipliers - A_type(ALPHA / (s.n_steps + 1)) * A, 0)
        return measure(A, multipliers, s.rho * GAMMA, s.n_steps + 1)

    A = polar(W)
    A_type = A.dtype.type
    trace = iterate(
        step,
        measure(A, np.zeros_like(A), RHO, 0),
        rounding=rounding_of(X, norm2),
        settled=lambda s: bool(np.linalg.norm(np.minimum(s.A, 0)) ** 2 <= tol * s.A.shape[1]),
        stage="ONP-MF",
        **stopping,
    )
    labels = trace.state.A.argmax(axis=1)
    scores = np.where(
        X.row_lengths > 0, np.maximum(trace.state.A[np.arange(len(labels)), labels], 0), 0
    ).astype(A.dtype)
    A, S = disjoint_factors(X, labels, scores, A.shape[1])
    objective = max(norm2 - float(np.sum(np.square(S, dtype=np.float64))), 0.0)
    return Factorization.of(A, S, objective, trace, norm2)


def polar(Y: AnyArray) -> AnyArray:
    """The matrix with orthonormal columns nearest to Y: ``Y (Y'Y)^-1/2``, or from the SVD where
    that would lose digits."""
    values, Q = np.linalg.eigh((Y.T @ Y).astype(np.float64))
    if values[0] > SAFE_EIGENVALUE * values[-1]:
        return np.asarray(Y @ ((Q / np.sqrt(values)) @ Q.T), Y.dtype)
    U, _, Vt = np.linalg.svd(Y, full_matrices=False)
    return np.asarray(U @ Vt, Y.dtype)


def _spectral_norm(X: Table) -> float:
    """The largest singular value, nearly, by the power method; its vectors are positive, so any
    positive start serves."""
    x = np.ones((X.shape[1], 1), X.dtype)
    norm = 0.0
    for _ in range(POWER_STEPS):
        y = X @ (x / np.linalg.norm(x))
        norm = float(np.linalg.norm(y))
        if norm == 0:
            return 1.0
        x = X.T @ y
    return norm
