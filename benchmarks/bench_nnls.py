"""`conecollapse.nnls` against ``scipy.optimize.nnls`` in a loop, over shapes, numbers of right-hand
sides and kinds of data.

    python benchmarks/bench_nnls.py                # uniform and normal random data
    python benchmarks/bench_nnls.py --structured   # data with columns that depend on each other,
    zeros, smooth curves and the like

Each ratio is SciPy's time over ours, both the best of several runs in this process. For structured
data all ratios below one are listed at the end, and a table has the smallest, largest and median
ratio of each kind.
"""

from __future__ import annotations

import argparse

import numpy as np
from common import best_of, machine
from scipy.optimize import nnls as scipy_nnls

from conecollapse import nnls

SHAPES = [
    (2, 1),
    (3, 2),
    (10, 5),
    (30, 30),
    (50, 10),
    (60, 60),
    (100, 100),
    (200, 20),
    (300, 200),
    (300, 300),
    (1000, 500),
    (2000, 50),
    (5000, 20),
    (10000, 10),
    (20000, 4),
    (20, 1000),
    (50, 500),
    (50, 5000),
    (500, 1000),
]
STRUCTURED_SHAPES = [
    (3, 3),
    (10, 5),
    (30, 30),
    (60, 60),
    (100, 40),
    (500, 30),
    (200, 20),
    (400, 4),
    (2000, 10),
    (5000, 4),
    (5000, 50),
    (30, 100),
    (300, 300),
]


def smooth(_, m, n):
    """Curves that overlap: hardly any two columns are independent in float64 where there are
    many."""
    return np.exp(-(((np.linspace(0, 1, m)[:, None] - np.linspace(0, 1, n)) / 0.15) ** 2))


def dependent(rng, m, n):
    """Signed columns, a third of them sums and differences of others."""
    A = rng.standard_normal((m, n))
    for j in range(n - n // 3, n):
        A[:, j] = A[:, j - n // 2] + rng.choice([-1.0, 1.0]) * A[:, 0]
    return A


def apart(size):
    """A third of the columns are others, moved by noise of this size."""

    def make(rng, m, n):
        A = rng.random((m, n))
        k = n // 3
        A[:, n - k :] = A[:, :k] + size * rng.standard_normal((m, k))
        return A

    return make


def copied(rng, m, n):
    A = rng.random((m, n))
    A[:, n - n // 3 :] = A[:, : n // 3]
    return A


def zero(rng, m, n):
    return np.where(np.arange(n) % 3 == 2, 0.0, rng.random((m, n)))


def negated(rng, m, n):
    A = rng.random((m, n)) - 0.5
    A[:, n - n // 3 :] = -A[:, : n // 3]
    return A


MATRICES = {
    "copied": copied,
    "zero columns": zero,
    "negated": negated,
    "dependent": dependent,
    "1e-5 apart": apart(1e-5),
    "1e-9 apart": apart(1e-9),
    "low rank": lambda rng, m, n: rng.random((m, max(2, n // 3))) @ rng.random((max(2, n // 3), n)),
    "smooth": smooth,
    "mostly zeros": lambda rng, m, n: rng.random((m, n)) * (rng.random((m, n)) < 0.1) + 0.0,
    "zeros and ones": lambda rng, m, n: (rng.random((m, n)) < 0.5).astype(float),
    "scales": lambda rng, m, n: rng.random((m, n)) * 10.0 ** rng.uniform(-6, 6, n),
}
SIDES = {
    "random": lambda rng, A, k: rng.random((len(A), k)),
    "centred": lambda rng, A, k: rng.standard_normal((len(A), k)),
    "in the cone": lambda rng, A, k: (
        A @ (rng.random((A.shape[1], k)) * (rng.random((A.shape[1], k)) < 0.5))
    ),
    "near the cone": lambda rng, A, k: (
        A @ rng.random((A.shape[1], k)) + 1e-3 * np.abs(A).mean() * rng.standard_normal((len(A), k))
    ),
}


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
        theirs = min(
            theirs, best_of(lambda: [scipy_nnls(A, c) for _ in range(often) for c in columns], 1)
        )
    return theirs / mine


def random_shapes() -> None:
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


def structured(kinds: list[str]) -> None:
    slower, count, table = [], 0, []
    for kind in kinds:
        ratios: dict[str, list[float]] = {side: [] for side in SIDES}
        for m, n in STRUCTURED_SHAPES:
            cells = []
            for side, draw in SIDES.items():
                for k in (1, 10):
                    rng = np.random.default_rng([m, n, k])
                    A = MATRICES[kind](rng, m, n)
                    try:
                        value = ratio(A, draw(rng, A, k))
                    except RuntimeError:  # SciPy reaches its limit
                        cells.append(f"{side} {k}     -")
                        continue
                    cells.append(f"{side} {k} {value:5.1f}")
                    ratios[side].append(value)
                    if value < 1:
                        slower.append(f"{kind} {m} x {n}, {side}, {k}: {value:.2f}")
            print(f"{kind:14s} {m:5d} x {n:<4d} " + " | ".join(cells), flush=True)
        count += sum(map(len, ratios.values()))
        cells = [
            f"{min(some):.1f} to {max(some):.0f}, median {np.median(some):.1f}"
            for some in ratios.values()
        ]
        table.append(f"| {kind} | " + " | ".join(cells) + " |")
    print(f"slower than SciPy: {len(slower)} of {count}", *slower, sep="\n  ")
    print("| columns |", " | ".join(SIDES), "|")
    print(*table, sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--structured", action="store_true", help="columns that depend on each other and the like"
    )
    parser.add_argument("--only", choices=MATRICES, help="one kind of these")
    options = parser.parse_args()
    print(machine())
    if options.structured:
        structured([options.only] if options.only else list(MATRICES))
    else:
        random_shapes()


if __name__ == "__main__":
    main()
