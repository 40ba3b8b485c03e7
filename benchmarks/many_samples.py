"""`GraphCCNMF` of many samples: approximate neighbours against exact ones in one run, recall,
purity, memory.

python benchmarks/many_samples.py [--n 100000] [--features 100] [--clusters 10] [--approximate-only
| --neighbours-only]

The table has clusters of gamma noise around gamma profiles, so that features differ in scale and
noise fills all dimensions. Recall is the share of the five nearest samples (in square roots of the
entries, the view "root") that are found, over a tenth of the samples.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from common import machine, peak_gib

from conecollapse import GraphCCNMF
from conecollapse.affinity.neighbors import exact, nearest
from conecollapse.metrics import purity_score


def table(n: int, m: int, r: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    profiles, y = rng.gamma(1.0, 1.0, (r, m)), rng.integers(0, r, n)
    return profiles[y] * rng.gamma(1 / noise, noise, (n, m)), y


def neighbours(X: np.ndarray) -> None:
    """Of one view: approximate ones of all samples, exact ones of a tenth of them."""
    roots = np.sqrt(X)
    asked = np.random.default_rng(1).choice(len(X), len(X) // 10, replace=False)
    print("\n| neighbours of one view | s | processor s |\n| --- | --- | --- |")
    found = timed(
        "approximate, all samples",
        lambda: nearest(roots, roots, 5, "euclidean", exclude_self=True, search="approximate")[0],
    )
    truth = timed("exact, a tenth of the samples", lambda: exact(roots[asked], roots, 6)[0][:, 1:])
    print(f"\nrecall {(truth[:, :, None] == found[asked][:, None]).any(axis=2).mean():.3f}")


def timed(label: str, work: Callable[[], Any]) -> Any:
    start, processor = time.perf_counter(), time.process_time()
    result = work()
    print(
        f"| {label} | {time.perf_counter() - start:.1f} | {time.process_time() - processor:.1f} |",
        flush=True,
    )
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--clusters", type=int, default=10)
    parser.add_argument(
        "--noise",
        type=float,
        default=0.5,
        help="variance of the noise, as a share of the squared entry",
    )
    parser.add_argument("--approximate-only", action="store_true")
    parser.add_argument("--neighbours-only", action="store_true")
    options = parser.parse_args()
    X, y = table(options.n, options.features, options.clusters, options.noise)
    print(machine())
    print(
        f"{options.n} x {options.features}, {options.clusters} clusters, {X.nbytes / 2**30:.2f} GiB"
    )
    if options.neighbours_only:
        neighbours(X)
        return
    print(
        "\n| neighbours | s | processor s | purity | view | peak GiB |\n| --- | --- | --- | --- |"
        " --- | --- |"
    )
    for neighbors in ("approximate",) if options.approximate_only else ("approximate", "exact"):
        start, processor = time.perf_counter(), time.process_time()
        model = GraphCCNMF(options.clusters, neighbors=neighbors, random_state=0).fit(X)
        seconds, processor = time.perf_counter() - start, time.process_time() - processor
        purity = purity_score(y, model.labels_)
        print(
            f"| {neighbors} | {seconds:.1f} | {processor:.1f} | {purity:.4f} | {model.view_} |"
            f" {peak_gib():.1f} |",
            flush=True,
        )
    if not options.approximate_only:
        neighbours(X)


if __name__ == "__main__":
    main()
