"""Exact cones with certificates: `bench_cone.py` on smaller problems."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from bench_cone import dense_product, interior, scipy_per_point
from common import best_of, load_points

from conecollapse import Cone


def words() -> sp.csr_array:
    """2000 sparse points in R^600, 400 of them sums of two others."""
    P = sp.random_array((1600, 600), density=0.02, rng=np.random.default_rng(0), format="csr")
    return sp.csr_array(sp.vstack([P, P[:400] + P[400:800]]))


PROBLEMS = {
    "interior": lambda: interior(10)[:2000],
    "high dimension": lambda: np.random.default_rng(0).gamma(1.0, size=(1500, 300)),
    "words": words,
    "AMLALL": lambda: load_points("AMLALL"),
    "MED": lambda: load_points("MED"),
    "tiny": lambda: np.random.default_rng(0).random((12, 3)),
}


class Exact:
    """`Cone.from_points` and `Cone.verify`."""

    params = (list(PROBLEMS)[:-1],)
    param_names = ("problem",)
    timeout = 600

    def setup(self, problem: str) -> None:
        self.P = PROBLEMS[problem]()
        if self.P is None:
            raise NotImplementedError(f"{problem} is not on this machine; set CONECOLLAPSE_DATA")
        self.cone = Cone.from_points(self.P)  # compiles the kernels too

    def time_from_points(self, _problem: str) -> None:
        Cone.from_points(self.P)

    def time_verify(self, _problem: str) -> None:
        self.cone.verify(self.P)

    def track_from_points_over_product(self, _problem: str) -> float:
        """The peer is one product of the points with their transpose, sparse if they are."""
        peer = (
            best_of(lambda: self.P @ self.P.T, 3)
            if sp.issparse(self.P)
            else dense_product(self.P, 2)[0]
        )
        return best_of(lambda: Cone.from_points(self.P), 2) / peer

    def track_rays(self, _problem: str) -> int:
        return self.cone.n_rays

    track_from_points_over_product.unit = "ratio"
    track_rays.unit = "rays"


class LowDimension:
    """Where the peer is one ``scipy.optimize.nnls`` for each point."""

    params = (["interior", "AMLALL"],)
    param_names = ("problem",)
    timeout = 600
    setup = Exact.setup

    def track_from_points_over_scipy(self, _problem: str) -> float:
        peer, _ = scipy_per_point(self.P, self.cone, full=len(self.P) < 400)
        return best_of(lambda: Cone.from_points(self.P), 2) / peer

    track_from_points_over_scipy.unit = "ratio"
