"""`nnls(simplex=True)`, shares that sum to one, against SciPy's NNLS with a heavy row, FCLS as
pysptools calls it, and quadprog.

    python benchmarks/bench_simplex.py [--pixels N] [--pysptools FOLDER]

Pixels are mixtures of 30 smooth spectra in 285 bands, with Dirichlet(0.3) shares and 1 % noise. The
peers are timed on fewer pixels and scaled. *SciPy* is ``scipy.optimize.nnls`` in a loop with a row
of 1000 times the largest entry, which only approximates the sum. *FCLS* is what pysptools does for
each pixel: one quadratic program by cvxopt, with the options that pysptools sets (pip install
cvxopt); with ``--pysptools`` its own code is imported from that folder. It runs on the SAMSON
scene, with the true spectra if the data are there. *quadprog* (pip install quadprog) checks the
values.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np
from common import DATA, best_of, machine
from scipy.optimize import nnls as scipy_nnls

from conecollapse import nnls

HEAVY = 1e3


def scene(pixels: int, bands: int = 285, parts: int = 30) -> tuple[np.ndarray, np.ndarray]:
    """Spectra as columns, and pixels as columns."""
    rng = np.random.default_rng(0)
    spectra = np.abs(rng.standard_normal((bands, parts)).cumsum(axis=0)) / bands**0.5 + rng.random(
        (bands, parts)
    )
    shares = rng.dirichlet(np.full(parts, 0.3), pixels).T
    mixed = spectra @ shares
    return spectra, mixed + 0.01 * np.sqrt(np.mean(mixed**2)) * rng.standard_normal(mixed.shape)


def samson() -> tuple[np.ndarray, np.ndarray] | None:
    """The true spectra of the scene, and its pixels."""
    file = DATA / "SAMSON.npz"
    if not file.is_file():
        return None
    with np.load(file, allow_pickle=False) as z:
        return z["M"].astype(np.float64), z["Y"].astype(np.float64)


def scipy_loop(A: np.ndarray, B: np.ndarray) -> None:
    weight = HEAVY * np.abs(A).max()
    M = np.vstack([A, np.full((1, A.shape[1]), weight)])
    for b in np.ascontiguousarray(B.T):
        scipy_nnls(M, np.append(b, weight), maxiter=100 * A.shape[1])


def fcls(folder: str | None) -> tuple[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] | None:
    """pysptools' FCLS: its own function, or the same calls of cvxopt."""
    if folder is not None:
        sys.path.insert(0, folder)
        # names that NumPy dropped in 1.24
        for name, kind in (("int", int), ("float", float), ("bool", bool)):
            if not hasattr(np, name):
                setattr(np, name, kind)
        from pysptools.abundance_maps.amaps import FCLS

        return "pysptools' FCLS", lambda A, B: FCLS(
            np.ascontiguousarray(B.T), np.ascontiguousarray(A.T)
        )
    try:
        from cvxopt import matrix, solvers
    except ImportError:
        return None

    def each(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        n = A.shape[1]
        solvers.options["show_progress"] = False
        Q, lower, zero = matrix(A.T @ A), matrix(-np.eye(n)), matrix(np.zeros(n))
        ones, one = matrix(np.ones((1, n))), matrix(1.0)
        return np.array(
            [
                np.asarray(solvers.qp(Q, matrix(-(A.T @ b)), lower, zero, ones, one)["x"]).ravel()
                for b in B.T
            ]
        )

    return "FCLS by cvxopt", each


def largest_difference(A: np.ndarray, B: np.ndarray, X: np.ndarray) -> float | None:
    """From quadprog's solutions, over the first pixels."""
    try:
        from quadprog import solve_qp
    except ImportError:
        return None
    n = A.shape[1]
    G, C, d = A.T @ A, np.column_stack([np.ones(n), np.eye(n)]), np.append(1.0, np.zeros(n))
    return max(
        float(np.abs(solve_qp(G, A.T @ B[:, j], C, d, 1)[0] - X[:, j]).max())
        for j in range(min(200, B.shape[1]))
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pixels", type=int, default=100_000)
    parser.add_argument("--pysptools")
    options = parser.parse_args()
    print(machine())
    A, B = scene(options.pixels)
    nnls(A, B[:, :50], simplex=True)
    few = min(2000, options.pixels)
    mine = theirs = np.inf
    for _ in range(3):  # in turns, so that a busy machine hits both
        mine = min(mine, best_of(lambda: nnls(A, B, simplex=True), 1))
        theirs = min(theirs, best_of(lambda: scipy_loop(A, B[:, :few]), 1) * options.pixels / few)
    X, _, info = nnls(A, B, simplex=True, full_output=True)
    print(
        f"285 x 30, {options.pixels} pixels: {mine:.2f} s, SciPy with a heavy row {theirs:.1f} s:"
        f" {theirs / mine:.1f}x; proven optimal {info.converged.mean():.4f}, largest KKT residual"
        f" {info.kkt_residual.max():.1e}",
        flush=True,
    )
    difference = largest_difference(A, B, X)
    if difference is not None:
        print(f"largest difference from quadprog over 200 pixels: {difference:.1e}", flush=True)
    peer, real = fcls(options.pysptools), samson()
    if peer is not None and real is not None:
        A, B = real
        rows = slice(0, 1000)
        nnls(A, B[:, :50], simplex=True)
        mine = best_of(lambda: nnls(A, B, simplex=True), 3)
        start = time.perf_counter()
        shares = peer[1](A, B[:, rows])
        theirs = (time.perf_counter() - start) * B.shape[1] / 1000
        gap = np.abs(np.asarray(shares, np.float64) - nnls(A, B, simplex=True)[0].T[rows]).max()
        print(
            f"SAMSON {A.shape[0]} x {A.shape[1]}, {B.shape[1]} pixels: {mine:.3f} s, {peer[0]}"
            f" {theirs:.1f} s: {theirs / mine:.0f}x; shares differ by {gap:.1e}"
        )


if __name__ == "__main__":
    main()
