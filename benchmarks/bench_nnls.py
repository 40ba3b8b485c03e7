"""`conecollapse.nnls` against ``scipy.optimize.nnls`` in a loop, over shapes and numbers of right-hand sides.

    python benchmarks/bench_nnls.py

Each ratio is SciPy's time over ours, both the best of several runs in this process, on uniform and on normal random data.
"""

from __future__ import annotations

import numpy as np
from common import best_of, machine
from scipy.optimize import nnls as scipy_nnls

from conecollapse import nnls

SHAPES = [
    (2, 1), (3, 2), (10, 5), (30, 30), (50, 10), (60, 60), (100, 100), (200, 20), (300, 200), (300, 300), (1000, 500), (2000, 50),
    (5000, 20), (10000, 10), (20000, 4), (20, 1000), (50, 500), (50, 5000), (500, 1000),
]  # fmt: skip


def ratio(A: np.ndarray, B: np.ndarray) -> float:
    k = B.shape[1]
    often = max(1, 20_000 // (A.size * k))
    ours = (lambda: nnls(A, b)) if k == 1 else (lambda: nnls(A, B))
    b = np.ascontiguousarray(B[:, 0])
    columns = [np.ascontiguousarray(B[:, j]) for j in range(k)]
    ours()
    mine = theirs = np.inf
    # in turns, so that a busy machine hits both
    for _ in range(25 if A.size * k < 10**5 else 9 if A.size * k < 10**6 or k == 10**4 else 2):
        mine = min(mine, best_of(lambda: [ours() for _ in range(often)], 1))
        theirs = min(theirs, best_of(lambda: [scipy_nnls(A, c) for _ in range(often) for c in columns], 1))
    return theirs / mine


def main() -> None:
    print(machine())
    worst = np.inf
    for m, n in SHAPES:
        cells = []
        for k in (1, 10, 1000):
            if m * n * k > 6 * 10**7:
                continue
            for kind in ("uniform", "normal"):
                rng = np.random.default_rng([m, n, k])
                draw = rng.random if kind == "uniform" else rng.standard_normal
                value = ratio(draw((m, n)), draw((m, k)))
                worst = min(worst, value)
                cells.append(f"{k} {kind} {value:5.1f}x")
        print(f"{m:6d} x {n:<5d} " + " | ".join(cells), flush=True)
    rng = np.random.default_rng(0)
    A, B = rng.random((200, 20)), rng.random((200, 10_000))
    print(f"200 x 20, 10000 right-hand sides: {ratio(A, B):.1f}x")
    print(f"smallest ratio over all shapes: {worst:.2f}x")


if __name__ == "__main__":
    main()
