"""Approximate nearest neighbours, ours and of other libraries, against exact ones: time, recall,
first call, repeatability.

python benchmarks/neighbours.py [--n 10000] [--family clusters latent text] [--only usearch]
[--first-call] pip install pynndescent hnswlib usearch

Each family is a table without labels that no other script uses: `clusters` (10 clusters in 100
dimensions, noise in all of them), `latent` (100 features of 12 latent ones), `text` (Zipf words of
20 topics, sparse; compared by cosines). Recall is the share of the true five nearest neighbours
that are found, over 1000 random samples.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from common import machine

from conecollapse._linalg import unit_rows

K, ASKED = 5, 1000
FIRST = (
    "import numpy as np; from neighbours import LIBRARIES;"
    " LIBRARIES[{name!r}][0](np.random.default_rng(0).random((500, 20), np.float32))"
)


def clusters(n: int, rng: np.random.Generator) -> Any:
    centres = rng.gamma(1.0, 1.0, (10, 100))
    return (centres[rng.integers(0, 10, n)] * rng.gamma(4.0, 0.25, (n, 100))).astype(np.float32)


def latent(n: int, rng: np.random.Generator) -> Any:
    return (
        rng.gamma(0.5, 1.0, (n, 12)) @ rng.gamma(0.3, 1.0, (12, 100)) + 0.05 * rng.random((n, 100))
    ).astype(np.float32)


def text(n: int, rng: np.random.Generator) -> Any:
    """Documents of 60 words, half of them from the document's topic."""
    words, length = 10000, 60
    common = 1 / np.arange(1, words + 1)
    rows, columns = np.repeat(np.arange(n), length), np.empty((n, length), np.int64)
    topic = rng.integers(0, 20, n)
    columns[:, : length // 2] = rng.choice(words, (n, length // 2), p=common / common.sum())
    for t in range(20):
        members = np.flatnonzero(topic == t)
        p = common[rng.permutation(words)]
        columns[members, length // 2 :] = rng.choice(
            words, (len(members), length // 2), p=p / p.sum()
        )
    X = sp.csr_array((np.ones(n * length, np.float32), (rows, columns.ravel())), shape=(n, words))
    return sp.csr_array(unit_rows(X.sqrt())[0].astype(np.float32))


def exact(X: Any, Y: Any) -> Any:
    from sklearn.neighbors import NearestNeighbors

    return (
        NearestNeighbors(n_neighbors=K + 1, algorithm="brute")
        .fit(X)
        .kneighbors(Y, return_distance=False)
    )


def pynndescent(n_neighbors: int = 15, **options: Any) -> Callable[[Any], Any]:
    def find(X: Any) -> Any:
        from pynndescent import NNDescent

        return NNDescent(X, n_neighbors=n_neighbors, random_state=0, **options).neighbor_graph[0][
            :, : K + 1
        ]

    return find


def hnswlib(ef: int, M: int = 16, ef_construction: int = 100) -> Callable[[Any], Any]:
    def find(X: Any) -> Any:
        import hnswlib

        index = hnswlib.Index(space="l2", dim=X.shape[1])
        index.init_index(len(X), ef_construction=ef_construction, M=M, random_seed=0)
        index.add_items(X)
        index.set_ef(ef)
        return index.knn_query(X, K + 1)[0].astype(np.int64)

    return find


def usearch(ef: int, M: int = 16, ef_construction: int = 100) -> Callable[[Any], Any]:
    def find(X: Any) -> Any:
        from usearch.index import Index

        index = Index(
            ndim=X.shape[1],
            metric="l2sq",
            dtype="f32",
            connectivity=M,
            expansion_add=ef_construction,
            expansion_search=ef,
        )
        index.add(np.arange(len(X)), X)
        return index.search(X, K + 1).keys.astype(np.int64)

    return find


def cells(X: Any) -> Any:
    from conecollapse.affinity.neighbors import approximate

    return approximate(X, K)[0]


LIBRARIES: dict[str, tuple[Callable[[Any], Any], bool]] = {  # and whether it takes sparse tables
    "scikit-learn, exact": (lambda X: exact(X, X), True),
    "conecollapse": (cells, False),
    "pynndescent k=15": (pynndescent(15), True),
    "pynndescent k=30": (pynndescent(30), True),
    "hnswlib ef=50": (hnswlib(50), False),
    "hnswlib ef=200": (hnswlib(200), False),
    "usearch ef=50": (usearch(50), False),
    "usearch ef=200": (usearch(200), False),
}
FAMILIES = {"clusters": clusters, "latent": latent, "text": text}


def recall(found: Any, truth: Any, asked: Any) -> float:
    """Share of the true neighbours that are found; a sample itself is not counted."""
    hits = 0
    for i, near, true in zip(asked, found, truth, strict=True):
        wanted = set([t for t in true.tolist() if t != i][:K])
        hits += len(wanted & set(near.tolist()))
    return hits / (K * len(asked))


def first_calls(only: str) -> None:
    """Import and first answer on 500 x 20, in processes of their own; the first line of a library
    includes compiling its kernels."""
    print("\n| library | import and first call, s | processor s |\n| --- | --- | --- |")
    for name in [name for name in LIBRARIES if only in name]:
        for _ in range(2):
            start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(
                [sys.executable, "-c", FIRST.format(name=name)],
                check=True,
                cwd=Path(__file__).parent,
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            print(f"| {name} | {time.perf_counter() - start:.1f} | {processor:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=10000)
    parser.add_argument("--family", nargs="+", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--only", default="")
    parser.add_argument("--first-call", action="store_true")
    options = parser.parse_args()
    print(machine())
    if options.first_call:
        first_calls(options.only)
        return
    print(
        "\n| table | library | s | processor s | recall of 5 | same twice |\n| --- | --- | --- |"
        " --- | --- | --- |"
    )
    for family in options.family:
        X = FAMILIES[family](options.n, np.random.default_rng(1))
        asked = np.random.default_rng(2).choice(options.n, min(ASKED, options.n), replace=False)
        truth = exact(X, X[asked])
        for name, (find, takes_sparse) in LIBRARIES.items():
            if options.only not in name or (sp.issparse(X) and not takes_sparse):
                continue
            find(X[:500])  # compiles
            start, processor = time.perf_counter(), time.process_time()
            found = find(X)
            seconds, processor = time.perf_counter() - start, time.process_time() - processor
            again = "" if "exact" in name else "yes" if (found == find(X)).all() else "no"
            print(
                f"| {family} | {name} | {seconds:.1f} | {processor:.1f} |"
                f" {recall(found[asked], truth, asked):.3f} | {again} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
