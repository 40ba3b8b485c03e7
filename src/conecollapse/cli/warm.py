"""Compile the kernels before anything is timed."""

from __future__ import annotations

import numpy as np


def warm_up() -> None:
    """Run what will be timed on tiny tables."""
    from conecollapse import nnls
    from conecollapse.estimators import GraphCCNMF, HierarchicalNMF, MultiplicativeNMF

    X = np.random.default_rng(0).random((40, 12))
    nnls(X, X[:, :2])
    HierarchicalNMF(2, random_state=0).fit(X)
    MultiplicativeNMF(2, random_state=0).fit(X)
    GraphCCNMF(2, random_state=0).fit(X)
