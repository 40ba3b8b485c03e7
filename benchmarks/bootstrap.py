"""How often the intervals of `bootstrap` contain the truth, on planted factors.

    python benchmarks/bootstrap.py
    python benchmarks/bootstrap.py --draws 100 --tables 2

Each row is a family of tables: ``X = W H`` with noise, where 40 % of the entries of H are zero and
samples use few components, so that the factorization is unique. The columns are the share of the
entries of H and of W that lie in their 95 % intervals (in brackets: of those that are zero in
truth, of the others), and the share of the samples whose true label has at least 5 % of the draws
or is the label found. The last two families break what is assumed: noise cut off at zero does not
have mean zero, and dense factors are not unique.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from common import machine

from conecollapse import HierarchicalNMF, MultiplicativeNMF, bootstrap
from conecollapse.factorization.resampling.matching import matched

# name, samples, features, components, noise, its size, loss
FAMILIES = [
    ("Poisson, 5 counts an entry, divergence", 150, 40, 3, "poisson", 5.0, "kullback-leibler"),
    ("Poisson, 1 count an entry, divergence", 300, 60, 4, "poisson", 1.0, "kullback-leibler"),
    (
        "Poisson, 50 counts, five components, divergence",
        100,
        60,
        5,
        "poisson",
        50.0,
        "kullback-leibler",
    ),
    ("Poisson, 5 counts an entry, squared error", 150, 40, 3, "poisson", 5.0, "frobenius"),
    ("multiplicative noise, 20 %, squared error", 150, 40, 3, "multiplicative", 0.2, "frobenius"),
    (
        "multiplicative noise, 5 %, five components, squared error",
        200,
        80,
        5,
        "multiplicative",
        0.05,
        "frobenius",
    ),
    (
        "gamma noise, variance of counts of 10, squared error",
        150,
        40,
        3,
        "gamma",
        10.0,
        "frobenius",
    ),
    (
        "normal noise, 2 % of the mean, cut off at zero, squared error",
        150,
        40,
        3,
        "cut",
        0.02,
        "frobenius",
    ),
    ("dense factors, normal noise, squared error", 150, 40, 3, "dense", 0.02, "frobenius"),
]


def planted(
    n: int, m: int, r: int, noise: str, size: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A table and its factors; the components sum to one, and the mean entry of W H is one, times
    the counts."""
    H = (
        rng.gamma(1.0, 1.0, (r, m)) * (rng.random((r, m)) < 0.6)
        if noise != "dense"
        else 0.2 + rng.random((r, m))
    )
    H /= H.sum(axis=1, keepdims=True)
    W = rng.dirichlet(np.full(r, 0.3 if noise != "dense" else 3.0), n)
    if noise != "dense":
        W[W < 0.02] = 0.0
    W *= m
    F = W @ H
    if noise == "poisson":
        return rng.poisson(size * F).astype(np.float64), size * W, H
    if noise == "multiplicative":
        return F * np.maximum(1 + size * rng.standard_normal(F.shape), 0), W, H
    if noise == "gamma":
        return np.where(F > 0, rng.gamma(np.maximum(size * F, 1e-12), 1 / size), 0.0), W, H
    return np.maximum(F + size * rng.standard_normal(F.shape), 0), W, H


def covered(low: np.ndarray, high: np.ndarray, truth: np.ndarray) -> tuple[float, float, float]:
    inside = (low <= truth + 1e-12) & (truth <= high + 1e-12)
    zero = truth == 0
    return (
        float(inside.mean()),
        float(inside[zero].mean()) if zero.any() else np.nan,
        float(inside[~zero].mean()),
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--tables", type=int, default=4)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(machine())
    for place, (name, n, m, r, noise, size, loss) in enumerate(FAMILIES):
        rows, start = [], time.process_time()
        for table in range(options.tables):
            X, W, H = planted(n, m, r, noise, size, np.random.default_rng([place, table]))
            used = X.any(axis=0)
            X, H = X[:, used], H[:, used]
            kind = MultiplicativeNMF if loss != "frobenius" else HierarchicalNMF
            model = kind(
                r, n_init=1, max_iter=2000, **({"loss": loss} if loss != "frobenius" else {})
            ).fit(X)
            found = bootstrap(model, X, options.draws)
            order, _ = matched(found.components, H)
            sums, wanted = found.components[order].sum(axis=1), H.sum(axis=1)
            low, high = (
                part[order] * (wanted / sums)[:, None]
                for part in (found.components_low, found.components_high)
            )
            first, last = (
                part[:, order] * (sums / wanted)
                for part in (found.encodings_low, found.encodings_high)
            )
            label = np.argsort(order)[found.labels]
            true = (W * np.linalg.norm(H, axis=1)).argmax(axis=1)
            likely = found.label_shares[:, order][np.arange(n), true] >= 0.05
            rows.append(
                [
                    *covered(low, high, H),
                    *covered(first, last, W),
                    float((likely | (label == true)).mean()),
                ]
            )
        h, h0, h1, w, w0, w1, labels = np.nanmean(rows, axis=0)
        seconds = (time.process_time() - start) / options.tables
        print(
            f"{name}: components {h:.3f} ({h0:.2f}, {h1:.2f}), encodings {w:.3f} ({w0:.2f},"
            f" {w1:.2f}), labels {labels:.3f}; {seconds:.1f} s of processors a table",
            flush=True,
        )


if __name__ == "__main__":
    main()
