r"""Orthogonal NMF by multiplicative updates: :math:`\min \|X - A S\|^2` over :math:`A, S \ge 0`
with :math:`A^T A = I`.

All share :math:`S \leftarrow S \odot (A^T X) / (A^T A S)` and differ in A, where :math:`Y = X S^T`:

=========== =============================================================== ====================
``mu``      :math:`A \odot Y / (A A^T Y)`                                   the paper's rule
``ding``    :math:`A \odot (Y / (A A^T Y))^{1/2}`                           Ding et al. 2006
``choi``    :math:`A \odot Y / (A Y^T A)`                                   Choi 2008
``stiefel`` :math:`A \odot (Y + A S S^T A^T A) / (A S S^T + A Y^T A)`       Yoo & Choi 2008
=========== =============================================================== ====================

The last two come from the gradient on the Stiefel manifold, :math:`\nabla - A \nabla^T A` with
:math:`\nabla = A S S^T - Y`, split into its negative and positive part. On the manifold the terms
in :math:`S S^T` cancel, and what is left is ``choi``. The iterates are on it only in the limit, and
``stiefel`` keeps these terms.

The columns of A are scaled to unit length after each of its updates, and S is left alone: it has an
update of its own next. That is a choice, and it matters. Without any scaling ``mu`` and ``choi``
run into cycles of two very different matrices; if S takes up the factors, so that A S stays as it
was, the rows of S grow apart and ``choi`` ends with equal columns (a test keeps both). None of the
four is monotone, and all reach orthogonality only approximately: read it off `orthogonality`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Unpack

import numpy as np

from conecollapse._iterate import Stopping, iterate
from conecollapse._linalg import ratio, unit_columns
from conecollapse._types import AnyArray
from conecollapse.factorization.result import Factorization, rounding_of, squared_error_from
from conecollapse.tables import Table


@dataclass(frozen=True)
class _State:
    A: AnyArray
    S: AnyArray
    objective: float


Rule = Callable[[AnyArray, AnyArray, AnyArray], AnyArray]  # (A, S, Y) -> A


def _paper(A: AnyArray, S: AnyArray, Y: AnyArray) -> AnyArray:  # noqa: ARG001
    return A * ratio(Y, A @ (A.T @ Y))


def _ding(A: AnyArray, S: AnyArray, Y: AnyArray) -> AnyArray:  # noqa: ARG001
    return A * np.sqrt(ratio(Y, A @ (A.T @ Y)))


def _choi(A: AnyArray, S: AnyArray, Y: AnyArray) -> AnyArray:  # noqa: ARG001
    return A * ratio(Y, A @ (Y.T @ A))


def _stiefel(A: AnyArray, S: AnyArray, Y: AnyArray) -> AnyArray:
    ASSt = A @ (S @ S.T)
    return A * ratio(Y + ASSt @ (A.T @ A), ASSt + A @ (Y.T @ A))


RULES: dict[str, Rule] = {"mu": _paper, "ding": _ding, "choi": _choi, "stiefel": _stiefel}


def multiplicative(
    X: Table,
    W: AnyArray,
    H: AnyArray,
    *,
    rule: str = "mu",
    **stopping: Unpack[Stopping],
) -> Factorization:
    """``X ~ A S`` from the start A = W, S = H, by the ``rule`` named in the table above."""
    norm2 = X.squared_norm
    update = RULES[rule]

    def settle_S(A: AnyArray, S: AnyArray) -> _State:
        AtX, AtA = (X.T @ A).T, A.T @ A
        S = S * ratio(AtX, AtA @ S)
        return _State(A, S, squared_error_from(norm2, AtX, S, AtA, S @ S.T))

    trace = iterate(
        lambda s: settle_S(unit_columns(update(s.A, s.S, X @ s.S.T)), s.S),
        settle_S(unit_columns(W), H),
        rounding=rounding_of(X, norm2),
        stage=f"ONMF ({rule})",
        **stopping,
    )
    return Factorization.of(trace.state.A, trace.state.S, trace.state.objective, trace, norm2)
