"""Factorizations: `bench_nmf.py` on smaller problems."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from bench_nmf import RANKS, against_coordinate_descent, against_multiplicative, end_to_end
from common import load_points
from sklearn.exceptions import ConvergenceWarning

from conecollapse import CCNMF, HierarchicalNMF, OrthogonalNMF


def planted(n_samples: int, n_features: int, rank: int) -> tuple[np.ndarray, int]:
    """A table of ``rank`` planted components with a little noise."""
    rng = np.random.default_rng(0)
    X = rng.gamma(0.5, size=(n_samples, rank)) @ rng.gamma(0.5, size=(rank, n_features))
    return X + 0.01 * rng.random(X.shape), rank


def samples_of(name: str) -> tuple[Any, int] | None:
    points = load_points(name)
    if points is None:
        return None
    return (
        sp.csr_array(points.T) if sp.issparse(points) else np.ascontiguousarray(points.T)
    ), RANKS[name]


PROBLEMS: dict[str, Callable[[], tuple[Any, int] | None]] = {
    "planted": lambda: planted(400, 300, 10),
    "AMLALL": lambda: samples_of("AMLALL"),
    "tiny": lambda: planted(20, 12, 2),
}


class Factorizations:
    """Seconds of a whole fit, and our time over that of the peer that reaches the same error."""

    params = (list(PROBLEMS)[:-1],)
    param_names = ("problem",)
    timeout = 600

    def setup(self, problem: str) -> None:
        # of the peers, whose number of iterations is fixed
        warnings.simplefilter("ignore", ConvergenceWarning)
        made = PROBLEMS[problem]()
        if made is None:
            raise NotImplementedError(f"{problem} is not on this machine; set CONECOLLAPSE_DATA")
        self.X, self.rank = made
        for fit in (self.time_ccnmf, self.time_hierarchical, self.time_orthogonal):
            fit(problem)  # compiles the kernels

    def time_ccnmf(self, _problem: str) -> None:
        CCNMF(self.rank, random_state=0).fit(self.X)

    def time_hierarchical(self, _problem: str) -> None:
        HierarchicalNMF(self.rank, init="random", tol=0, max_iter=20, random_state=0).fit(self.X)

    def time_orthogonal(self, _problem: str) -> None:
        OrthogonalNMF(self.rank, init="random", random_state=0).fit(self.X)

    def track_hierarchical_over_coordinate_descent(self, _problem: str) -> float:
        """The peer is scikit-learn's NMF."""
        return 1 / against_coordinate_descent(self.X, self.rank, 1)

    def track_orthogonal_over_multiplicative(self, _problem: str) -> float:
        """The peer is the paper's rule for orthogonal NMF."""
        return 1 / against_multiplicative(self.X, self.rank, 1)

    def track_ccnmf_over_scikit_learn(self, _problem: str) -> float:
        return 1 / end_to_end(self.X, self.rank, 1)

    track_hierarchical_over_coordinate_descent.unit = "ratio"
    track_orthogonal_over_multiplicative.unit = "ratio"
    track_ccnmf_over_scikit_learn.unit = "ratio"
