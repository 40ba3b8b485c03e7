"""Consensus of many runs: is it worth it, how long does it take, and is it the same for any number
of threads?

    python benchmarks/consensus.py                # planted programs: consensus, best of 100, one
    start python benchmarks/consensus.py --speed        # 100 runs on 5000 x 2000 sparse counts
    python benchmarks/consensus.py --threads      # the same components for 1, 2 and 4 threads

Programs are planted in Poisson counts: each sample mixes them with weights from a Dirichlet
distribution, of few programs (0.2) or of many (2), each program shares half of its mass with all
others or none, and samples have 100 or 1000 counts. The table has the mean cosine between true
programs and found ones, matched one to one, and in brackets that of the worst program of a draw,
over the draws.
"""

from __future__ import annotations

import argparse
import hashlib
import time

import numpy as np
import scipy.sparse as sp
from common import machine

from conecollapse import ConsensusNMF, HierarchicalNMF, SeparableNMF
from conecollapse.factorization.resampling.matching import matched

RANK, RUNS = 8, 100


def planted(
    n: int, m: int, r: int, usage: float, shared: float, depth: float, seed: list[int]
) -> tuple[sp.csr_array, np.ndarray]:
    """Counts and the programs in them."""
    rng = np.random.default_rng(seed)
    own, common = rng.gamma(0.3, 1.0, (r, m)), rng.gamma(0.3, 1.0, m)
    H = (1 - shared) * own / own.sum(axis=1, keepdims=True) + shared * common / common.sum()
    W = rng.dirichlet(np.full(r, usage), n) * rng.lognormal(0.0, 0.4, (n, 1))
    return sp.csr_array(rng.poisson(depth * W @ H).astype(np.float64)), H


def filled(X: sp.csr_array) -> sp.csr_array:
    return X[np.flatnonzero(X.sum(axis=1))]


def from_pair(X: sp.csr_array, H: np.ndarray) -> HierarchicalNMF:
    """Plain NMF from these components and the encodings over them."""
    W = HierarchicalNMF.from_components(H).transform(X)
    return HierarchicalNMF(len(H), init=(W, H)).fit(X)


def ways(X: sp.csr_array, seed: int) -> dict[str, list[np.ndarray]]:
    """Components by each way; several for the single random start, whose scores are averaged."""
    singles = [
        HierarchicalNMF(RANK, init="random", random_state=1000 * seed + run).fit(X)
        for run in range(RUNS)
    ]
    best = min(singles, key=lambda model: model.relative_err_)
    cone = SeparableNMF(RANK, method="cone").fit(X)
    return {
        "consensus of 100": [ConsensusNMF(RANK, n_runs=RUNS, random_state=seed).fit(X).components_],
        "best of 100": [best.components_],
        "one random start": [model.components_ for model in singles],
        "epsilon-cone": [from_pair(X, cone.components_).components_],
        "epsilon-cone as it is": [cone.components_],
        "nndsvda": [HierarchicalNMF(RANK).fit(X).components_],
    }


def programs(draws: int) -> None:
    print(machine())
    for usage in (0.2, 2.0):
        for shared in (0.0, 0.5):
            for depth in (100, 1000):
                cells: dict[str, list[tuple[float, float]]] = {}
                for draw in range(draws):
                    X, H = planted(
                        400,
                        300,
                        RANK,
                        usage,
                        shared,
                        depth,
                        [draw, int(10 * usage), int(10 * shared), depth],
                    )
                    X = (
                        filled(X)[:, np.flatnonzero(X.sum(axis=0))],
                        H[:, np.flatnonzero(X.sum(axis=0))],
                    )
                    for name, found in ways(X[0], draw).items():
                        scores = [matched(components, X[1])[1] for components in found]
                        cells.setdefault(name, []).append(
                            (np.mean(scores), float(np.mean([s.min() for s in scores])))
                        )
                text = "; ".join(
                    f"{name} {np.mean([a for a, _ in c]):.3f} ({np.mean([b for _, b in c]):.3f})"
                    for name, c in cells.items()
                )
                print(f"usage {usage:g}, shared {shared:g}, {depth} counts: {text}", flush=True)


def large() -> sp.csr_array:
    return planted(5000, 2000, 10, 0.3, 0.2, 500, [0])[0]


def speed(runs: int) -> None:
    print(machine())
    X = large()
    print(f"5000 x 2000 counts, {X.nnz / np.prod(X.shape):.0%} stored, 10 programs")
    ConsensusNMF(2, n_runs=2).fit(X[:100, np.flatnonzero(X[:100].sum(axis=0))])  # compiles
    for loss in ("frobenius", "kullback-leibler"):
        wall, cpu = time.perf_counter(), time.process_time()
        model = ConsensusNMF(10, n_runs=runs, loss=loss).fit(X)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        print(
            f"{loss}: {runs} runs in {wall:.0f} s, {cpu:.0f} s of processors; stability"
            f" {model.stability_.round(3).tolist()}",
            flush=True,
        )


def threads() -> None:
    print(machine())
    X = large()[:1000]
    X = X[:, np.flatnonzero(X.sum(axis=0))]
    for kind, table in (("sparse", X), ("dense", X.toarray())):
        for loss in ("frobenius", "kullback-leibler"):
            found = [
                ConsensusNMF(10, n_runs=10, loss=loss, max_iter=60, tol=1e-4, n_jobs=jobs)
                .fit(table)
                .components_
                for jobs in (1, 2, 4)
            ]
            print(
                f"{kind}, {loss}: {[hashlib.sha256(H.tobytes()).hexdigest()[:12] for H in found]}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--threads", action="store_true")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--runs", type=int, default=RUNS)  # of --speed
    options = parser.parse_args()
    if options.speed:
        speed(options.runs)
    elif options.threads:
        threads()
    else:
        programs(options.draws)


if __name__ == "__main__":
    main()
