"""What support for missing entries costs a table that has none.

python benchmarks/no_mask.py

Three ways to factorize the same complete table from the same start, with the same number of
iterations:

bare      the method itself on the stored array: no estimator, nothing that knows of masks
fit       the estimator, which looks for NaN and weights, finds none, and calls that method; then it
encodes and labels the samples masked    the method on a table in which every entry has the weight
one, so that it takes the way of tables with gaps

`fit / bare` is what a user without missing entries pays for the estimator as a whole, checks and
encodings included. `masked / bare` is what the weighted way would cost if such tables took it.
Times of earlier versions are not compared here. The times are the smallest of several runs, in
seconds of processor time.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from common import machine

from conecollapse import AlternatingNMF, HierarchicalNMF, MultiplicativeNMF
from conecollapse.factorization import anls, hals, mu
from conecollapse.factorization.nmf.kl import kl
from conecollapse.tables import DenseTable, MaskedTable

RANK, STEPS, REPEATS = 10, 30, 5
METHODS = {
    "HierarchicalNMF": (hals, HierarchicalNMF),
    "AlternatingNMF": (anls, AlternatingNMF),
    "MultiplicativeNMF": (mu, MultiplicativeNMF),
    "MultiplicativeNMF, divergence": (
        kl,
        lambda *a, **k: MultiplicativeNMF(*a, loss="kullback-leibler", **k),
    ),
}


def least(work):
    times = []
    for _ in range(REPEATS + 1):  # the first compiles
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times[1:])


def compare(name, method, estimator, X, W, H):
    plain, masked, stopping = (
        DenseTable(X),
        MaskedTable.of(X, np.ones_like(X)),
        {"tol": 0.0, "max_iter": STEPS},
    )
    bare = least(lambda: method(plain, W, H, **stopping))
    fit = least(lambda: estimator(RANK, init=(W, H), **stopping).fit(X))
    slow = least(lambda: method(masked, W, H, **stopping))
    times = f"bare {bare:.3f}  fit {fit:.3f}  masked {slow:.3f}"
    print(
        f"{name:30s} {times}   fit / bare {fit / bare:.2f}  masked / bare {slow / bare:.1f}",
        flush=True,
    )


def main():
    print(machine())
    rng = np.random.default_rng(0)
    X = rng.random((1000, RANK)) @ rng.random((RANK, 400)) + 0.1 * rng.random((1000, 400))
    W, H = rng.random((1000, RANK)), rng.random((RANK, 400))
    print(f"{X.shape[0]} x {X.shape[1]}, rank {RANK}, {STEPS} iterations")
    for name, (method, estimator) in METHODS.items():
        compare(name, method, estimator, X, W, H)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
