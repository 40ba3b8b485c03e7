"""Exact cones against the obvious alternatives, each dataset in a process of its own.

    python benchmarks/bench_cone.py [NAME ...] [--full] [--repeats N]

Peers, timed in the same run: one ``scipy.optimize.nnls`` for each point over the rays found (low
dimension; on a random sample of 400 points unless --full); one float64 product of the points with
their transpose, in blocks of 1024 rows (high dimension); one sparse product of the points with
their transpose (text). Ratios above 1 mean that we are faster for NNLS, slower for products.
Kernels are compiled before the clock starts. Certificates are part of the time of a cone.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

import numpy as np
import scipy.sparse as sp
from common import best_of, load_points, machine, peak_gib
from scipy.optimize import nnls

from conecollapse import Cone

NNLS_PEER = ["AMLALL", "DUKE", "KHAN", "INTERIOR-ALL", "INTERIOR-80", "INTERIOR-10"]
DENSE_PEER = ["ORL", "UMIST", "COIL-20", "YALEB"]
SPARSE_PEER = ["MED", "CITESEER", "WEBKB4", "7SECTORS", "REUTERS"]


def interior(terms: int | None) -> np.ndarray:
    """4000 points in R^80: 500 random rays, the rest combinations of ``terms`` of them (all of them
    for None)."""
    rng = np.random.default_rng(0)
    rays = rng.gamma(1.0, size=(500, 80))
    weights = np.zeros((3500, 500))
    for row in weights:
        chosen = np.arange(500) if terms is None else rng.choice(500, terms, replace=False)
        row[chosen] = rng.exponential(size=len(chosen))
    return np.vstack([rays, weights @ rays])[rng.permutation(4000)]


def points_of(name: str):
    if name.startswith("INTERIOR-"):
        return interior(None if name.endswith("ALL") else int(name.split("-")[1]))
    return load_points(name)


def warm_up() -> None:
    """Compile every kernel on small data."""
    rng = np.random.default_rng(0)
    P = rng.random((300, 20))
    Cone.from_points(np.vstack([P, P[:50] + P[50:100]])).verify(np.vstack([P, P[:50] + P[50:100]]))
    S = sp.random_array((200, 100), density=0.03, rng=rng).tocsr()
    S = sp.csr_array(sp.vstack([S, S[:50] + S[50:100]]))
    Cone.from_points(S).verify(S)


def scipy_per_point(P: np.ndarray, cone: Cone, full: bool) -> tuple[float, str]:
    rows = (
        np.arange(len(P)) if full else np.random.default_rng(0).choice(len(P), 400, replace=False)
    )
    A = np.ascontiguousarray(cone.rays.T)
    start = time.perf_counter()
    for i in rows:
        nnls(A, P[i])
    return (time.perf_counter() - start) * len(P) / len(rows), "scipy nnls per point" + (
        "" if full else " (400 timed)"
    )


def dense_product(P: np.ndarray, repeats: int) -> tuple[float, str]:
    out = np.empty((1024, len(P)))

    def work() -> None:
        for a in range(0, len(P), 1024):
            block = P[a : a + 1024]
            np.matmul(block, P.T, out=out[: len(block)])

    return best_of(work, min(repeats, 2)), "float64 product"


def run(name: str, full: bool, repeats: int) -> None:
    P = points_of(name)
    if P is None:
        print(f"{name:13s} skipped: no such file; set CONECOLLAPSE_DATA")
        return
    warm_up()
    if name in NNLS_PEER:
        cone = Cone.from_points(P)
        peer, what = scipy_per_point(P, cone, full)
    elif name in DENSE_PEER:
        peer, what = dense_product(P, repeats)
    else:
        peer, what = best_of(lambda: P @ P.T, repeats), "sparse product"
    before = peak_gib()
    made: list[Cone] = []
    one = best_of(lambda: made.append(Cone.from_points(P, n_jobs=1)) or made.clear(), repeats)
    all_threads = best_of(
        lambda: made.append(Cone.from_points(P)) or made.__delitem__(slice(0, -1)), repeats
    )
    memory = peak_gib()
    cone = made[0]
    verify = best_of(lambda: cone.verify(P), min(repeats, 2))
    ratio = (
        f"{peer / all_threads:7.1f}x faster"
        if name in NNLS_PEER
        else f"{all_threads / peer:7.2f} of it"
    )
    print(
        f"{name:13s} {P.shape[0]:6d} x {P.shape[1]:<5d} rays {cone.n_rays:6d} verified | cone"
        f" {all_threads:7.2f} s (1 thread {one:6.2f} s) | {what} {peer:7.2f} s: {ratio} | verify"
        f" {verify:6.2f} s = {verify / peer:5.2f} of it | peak {memory:.2f} GiB (data and peer"
        f" {before:.2f})",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*")
    parser.add_argument("--full", action="store_true", help="time SciPy on every point")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    names = args.names or NNLS_PEER + DENSE_PEER + SPARSE_PEER
    if len(names) == 1:
        run(names[0], args.full, args.repeats)
        return
    print(machine())
    for name in names:
        command = [sys.executable, __file__, name, "--repeats", str(args.repeats)] + [
            "--full"
        ] * args.full
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
