"""Orthogonal NMF: ``min |X - A S|^2`` over non-negative A and S with orthonormal columns of A. Six
solvers, one table."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from conecollapse._types import AnyArray
from conecollapse.factorization.orthogonal.em import Clusters, em
from conecollapse.factorization.orthogonal.multiplicative import RULES, multiplicative
from conecollapse.factorization.orthogonal.onp import onp_mf
from conecollapse.factorization.result import Factorization
from conecollapse.tables import Table

SOLVERS: dict[str, Callable[..., Factorization]] = {
    **{rule: partial(multiplicative, rule=rule) for rule in RULES},
    "em": em,
    "onp-mf": onp_mf,
}


def prepared(
    solver: str, X: Table, **options: Any
) -> Callable[[Table, AnyArray, AnyArray], Factorization]:
    """The solver with its options, and with what several starts on the same X can share."""
    return Clusters(X, **options) if solver == "em" else partial(SOLVERS[solver], **options)


def orthogonality(A: AnyArray) -> float:
    """``max |A'A - I|``: zero for orthonormal columns."""
    A = np.asarray(A, np.float64)
    return float(np.abs(A.T @ A - np.eye(A.shape[1])).max())
