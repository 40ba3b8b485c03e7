"""Non-negative least squares: `bench_nnls.py` on a few of its shapes."""

from __future__ import annotations

import numpy as np
from bench_nnls import ratio

from conecollapse import nnls

PROBLEMS = {  # rows, columns, right-hand sides
    "10 x 5, 1": (10, 5, 1),
    "200 x 20, 1": (200, 20, 1),
    "200 x 20, 1000": (200, 20, 1000),
    "60 x 60, 100": (60, 60, 100),
    "50 x 500, 10": (50, 500, 10),
    "tiny": (40, 10, 50),
}


class LeastSquares:
    """`nnls` on uniform random data."""

    params = (list(PROBLEMS)[:-1],)
    param_names = ("problem",)
    timeout = 600

    def setup(self, problem: str) -> None:
        m, n, k = PROBLEMS[problem]
        rng = np.random.default_rng([m, n, k])
        self.A, self.B = rng.random((m, n)), rng.random((m, k))
        nnls(self.A, self.B)  # compiles the kernels

    def time_nnls(self, _problem: str) -> None:
        nnls(self.A, self.B)

    def track_nnls_over_scipy(self, _problem: str) -> float:
        """The peer is ``scipy.optimize.nnls`` in a loop."""
        return 1 / ratio(self.A, self.B)

    track_nnls_over_scipy.unit = "ratio"
