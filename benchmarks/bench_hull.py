"""`conecollapse.Hull` against Qhull (``scipy.spatial.ConvexHull``) and against one linear program
for each point (HiGHS).

    python benchmarks/bench_hull.py [--clouds N] [--qhull-dim D] [--limit SECONDS]

First the vertices of N small clouds in 2 to 7 dimensions (lattices, repeated points, far and
stretched clouds among them) are compared with Qhull's. Then times: Qhull on 2000 points in D
dimensions, in a process of its own that is given up after the limit; HiGHS on 20 of the points,
scaled to all (is the point a convex combination of the others?). Times include the certificate;
`verify` is timed by itself. Times of ours are the best of three, kernels compiled.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

import numpy as np
from common import best_of, machine
from scipy.optimize import linprog
from scipy.spatial import ConvexHull

from conecollapse import Hull

LP_POINTS = 20
KINDS = ("normal", "ball", "cube", "lattice", "repeated", "far away", "stretched", "one simplex")


def small_cloud(kind: str, dim: int, rng: np.random.Generator) -> np.ndarray:
    n = int(rng.integers(dim + 2, 80))
    normal = rng.standard_normal((n, dim))
    corners = rng.standard_normal((dim + 1, dim))
    return {
        "normal": normal,
        "ball": (
            normal / np.linalg.norm(normal, axis=1, keepdims=True) * rng.random((n, 1)) ** (1 / dim)
        ),
        "cube": rng.random((n, dim)),
        "lattice": rng.integers(-2, 3, (n, dim)).astype(float),
        "repeated": np.vstack([normal, normal[:5]]),
        "far away": 1e3 + 1e-3 * normal,
        "stretched": normal * 10.0 ** -np.arange(dim),
        "one simplex": np.vstack([corners, rng.dirichlet(np.ones(dim + 1), n) @ corners]),
    }[kind]


def compare_with_qhull(count: int) -> None:
    rng = np.random.default_rng(0)
    same = 0
    for i in range(count):
        X = small_cloud(KINDS[i % len(KINDS)], 2 + i // len(KINDS) % 6, rng)
        hull = Hull.from_points(X)
        hull.verify(X)
        same += {tuple(x) for x in hull.vertices} == {tuple(x) for x in X[ConvexHull(X).vertices]}
    print(
        f"same vertices as Qhull, and verified: {same} of {count} clouds in 2 to 7 dimensions",
        flush=True,
    )


def qhull_seconds(points: int, dim: int, limit: float) -> str | float:
    """Seconds of Qhull on `large_cloud("normal", ...)`, or a text if it was given up."""
    code = (
        "import time, numpy as np; from scipy.spatial import ConvexHull; X ="
        f" np.random.default_rng(0).standard_normal(({points}, {dim})); t = time.perf_counter();"
        " ConvexHull(X); print(time.perf_counter() - t)"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        return f"more than {limit:.0f} s"
    return (
        float(done.stdout)
        if done.returncode == 0
        else f"failed ({done.stderr.strip().splitlines()[-1] if done.stderr else 'killed'})"
    )


def lp_seconds(X: np.ndarray, rng: np.random.Generator) -> float:
    """Seconds of one linear program for each point, from a few of them."""
    start = time.perf_counter()
    for i in rng.choice(len(X), LP_POINTS, replace=False):
        others = np.delete(X, i, axis=0)
        linprog(
            np.zeros(len(others)),
            A_eq=np.vstack([others.T, np.ones(len(others))]),
            b_eq=np.append(X[i], 1.0),
            method="highs",
        )
    return (time.perf_counter() - start) * len(X) / LP_POINTS


def ours(X: np.ndarray) -> tuple[Hull, float, float]:
    hull = Hull.from_points(X)
    return hull, best_of(lambda: Hull.from_points(X), 3), best_of(lambda: hull.verify(X), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clouds", type=int, default=200)
    parser.add_argument("--qhull-dim", type=int, default=8)
    parser.add_argument("--limit", type=float, default=600.0)
    options = parser.parse_args()
    print(machine())
    compare_with_qhull(options.clouds)
    X = np.random.default_rng(0).standard_normal((2000, options.qhull_dim))
    hull, seconds, check = ours(X)
    peer = qhull_seconds(*X.shape, options.limit)
    ratio = (
        f"{peer:.1f} s: {peer / seconds:.0f}x"
        if isinstance(peer, float)
        else f"{peer}: more than {options.limit / seconds:.0f}x"
    )
    print(
        f"2000 x {options.qhull_dim} normal: {hull.n_vertices} vertices in {seconds:.3f} s (verify"
        f" {check:.2f} s), Qhull {ratio}",
        flush=True,
    )
    rng = np.random.default_rng(1)
    for n, dim, kind in (
        (2000, 8, "normal"),
        (2000, 8, "cube"),
        (5000, 20, "normal"),
        (5000, 50, "normal"),
        (5000, 50, "mixtures"),
    ):
        draw = {
            "normal": lambda shape: rng.standard_normal(shape),
            "cube": lambda shape: rng.random(shape),
            "mixtures": lambda shape: (
                rng.dirichlet(np.full(200, 0.05), shape[0]) @ rng.standard_normal((200, shape[1]))
            ),
        }[kind]
        X = draw((n, dim))
        hull, seconds, check = ours(X)
        peer = lp_seconds(X, rng)
        print(
            f"{n} x {dim} {kind}: {hull.n_vertices} vertices in {seconds:.3f} s (verify {check:.2f}"
            f" s), HiGHS per point {peer:.1f} s: {peer / seconds:.0f}x",
            flush=True,
        )


if __name__ == "__main__":
    main()
