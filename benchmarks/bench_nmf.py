"""Factorizations beside their peers, from the same start, to the same error.

python benchmarks/bench_nmf.py [ORL REUTERS counts ...] [--repeats 3] [--only hals kl onmf ccnmf]
[--processor]

The name "counts" stands for Poisson counts of cells with eight planted programs. Times are of the
clock on the wall or, with ``--processor``, of the processors.

- `HierarchicalNMF` against scikit-learn's coordinate descent: the time to reach the error of its 60
  iterations.
- `MultiplicativeNMF` with the Kullback-Leibler loss against scikit-learn's multiplicative updates:
  the time to reach the divergence of 50.
- EM-ONMF against multiplicative ONMF (the paper's rule, 100 iterations): the time to reach its
  objective. The multiplicative factors are not orthogonal, so their objective is that of the
  clustering they give: the best disjoint factors for their labels.
- `CCNMF` end to end against scikit-learn's NMF at the same rank.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import scipy.sparse as sp
from common import best_of, cell_counts, load_points, machine
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning

from conecollapse import CCNMF, HierarchicalNMF, MultiplicativeNMF, OrthogonalNMF
from conecollapse.factorization import em, hals, initialize, multiplicative
from conecollapse.factorization.nmf.kl import kl
from conecollapse.factorization.orthogonal.em import disjoint_factors
from conecollapse.tables import as_table

RANKS = {"ORL": 40, "REUTERS": 65, "MED": 31, "AMLALL": 3, "counts": 20}
CD_ITERATIONS, MU_ITERATIONS = 60, 100
KL_ITERATIONS, KL_RANK = 50, 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=["ORL", "REUTERS"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=COMPARED, default=list(COMPARED))
    parser.add_argument("--processor", action="store_true")
    options = parser.parse_args()
    clock = time.process_time if options.processor else time.perf_counter
    warnings.simplefilter("ignore", ConvergenceWarning)
    print(machine())
    for name in options.names:
        points = counts() if name == "counts" else load_points(name)
        if points is None:
            print(f"{name}: no data")
            continue
        X = sp.csr_array(points.T) if sp.issparse(points) else np.ascontiguousarray(points.T)
        print(f"{name}: {X.shape[0]} samples, {X.shape[1]} features, rank {RANKS[name]}")
        for which in options.only:
            COMPARED[which](X, KL_RANK if which == "kl" else RANKS[name], options.repeats, clock)


def counts():
    """Genes as rows, without those that no cell has."""
    genes = sp.csr_array(cell_counts(2000, 1500, 1.0)[0].T)
    return genes[np.flatnonzero(genes.sum(axis=1))]


def against_coordinate_descent(X, r: int, repeats: int, clock=time.perf_counter) -> float:
    """Time to the error of scikit-learn's 60 iterations. From one start the two may fall into
    different local minima; if ours is the worse one, both are timed to its error."""
    table = as_table(X)
    W, H = initialize(table, r, "random", np.random.default_rng(0))
    iterations = CD_ITERATIONS
    target = coordinate_descent(X, W, H, r, iterations).reconstruction_err_ ** 2
    ours = hals(table, W, H, tol=0, max_iter=CD_ITERATIONS, callback=lambda _, f: f <= target)
    if ours.objective > target:
        print(
            f"  HierarchicalNMF ends in another local minimum, {ours.objective / target - 1:.2%}"
            " above"
        )
        target = ours.history[-1]
        while (
            iterations > 1
            and coordinate_descent(X, W, H, r, iterations - 1).reconstruction_err_ ** 2 <= target
        ):
            iterations -= 1
        target = coordinate_descent(X, W, H, r, iterations).reconstruction_err_ ** 2
    needed = int(np.argmax(ours.history <= max(target, ours.history[-1])))
    model = HierarchicalNMF(r, init=(W, H), tol=0, max_iter=needed)
    ours_time, peer_time = in_turns(
        lambda: model.fit(X), lambda: coordinate_descent(X, W, H, r, iterations), repeats, clock
    )
    error = np.sqrt(target / as_table(X).squared_norm)
    print(
        f"  to relative error {error:.4f}: HierarchicalNMF {needed} iterations, {ours_time:.2f} s;",
        end=" ",
    )
    print(
        f"scikit-learn CD {iterations} iterations, {peer_time:.2f} s: {peer_time / ours_time:.1f}"
        " times faster",
        flush=True,
    )
    return peer_time / ours_time


def coordinate_descent(X, W, H, r: int, iterations: int) -> NMF:
    peer = NMF(r, init="custom", solver="cd", tol=0, max_iter=iterations)
    peer.fit_transform(X, W=W.copy(), H=H.copy())
    return peer


def against_divergence(X, r: int, repeats: int, clock=time.perf_counter) -> float:
    """Time to the divergence of scikit-learn's multiplicative updates."""
    table = as_table(X)
    W, H = initialize(table, r, "random", np.random.default_rng(0))
    peer = NMF(
        r, init="custom", solver="mu", beta_loss="kullback-leibler", tol=0, max_iter=KL_ITERATIONS
    )
    peer.fit_transform(X, W=W.copy(), H=H.copy())
    target = peer.reconstruction_err_**2 / 2
    needed = kl(
        table, W, H, tol=0, max_iter=KL_ITERATIONS, callback=lambda _, f: f <= target
    ).n_iter
    model = MultiplicativeNMF(r, loss="kullback-leibler", init=(W, H), tol=0, max_iter=needed)
    ours_time, peer_time = in_turns(
        lambda: model.fit(X), lambda: peer.fit_transform(X, W=W.copy(), H=H.copy()), repeats, clock
    )
    print(
        f"  rank {r} to divergence {target:.6g}: MultiplicativeNMF {needed} iterations,"
        f" {ours_time:.2f} s;",
        end=" ",
    )
    print(
        f"scikit-learn MU {KL_ITERATIONS} iterations, {peer_time:.2f} s:"
        f" {peer_time / ours_time:.1f} times faster",
        flush=True,
    )
    return peer_time / ours_time


def against_multiplicative(X, r: int, repeats: int, clock=time.perf_counter) -> float:
    table = as_table(X)
    W, H = initialize(table, r, "random", np.random.default_rng(0))

    def peer():
        return multiplicative(table, W, H, rule="mu", tol=0, max_iter=MU_ITERATIONS)

    slow = peer()
    target = clustering_objective(X, slow.W)
    starts = 1
    while (
        OrthogonalNMF(r, init="random", n_init=starts, random_state=0).fit(X).reconstruction_err_
        ** 2
        > target
        and starts < 64
    ):
        starts *= 2
    ours = OrthogonalNMF(r, init="random", n_init=starts, random_state=0)
    reached, one, n2 = (
        ours.fit(X).reconstruction_err_ ** 2,
        em(table, W, H).objective,
        as_table(X).squared_norm,
    )
    ours_time, peer_time = in_turns(lambda: ours.fit(X), peer, repeats, clock)
    print(
        f"  objective / |X|^2: MU-ONMF {target / n2:.4f} as a clustering ({slow.objective / n2:.4f}"
        " with overlapping columns)",
        end=" ",
    )
    print(
        f"in {peer_time:.2f} s; EM-ONMF {one / n2:.4f} from the same start, {reached / n2:.4f} as"
        f" the best of {starts} random starts",
        end=" ",
    )
    print(f"in {ours_time:.2f} s: {peer_time / ours_time:.1f} times faster", flush=True)
    return peer_time / ours_time


def clustering_objective(X, A) -> float:
    """|X - A S|^2 of the best disjoint factors with the clusters of A: directions by the power
    method, then scores."""
    labels, r = A.argmax(axis=1), A.shape[1]
    scores = np.ones(len(labels))
    for _ in range(20):
        _, S = disjoint_factors(as_table(X), labels, scores, r)
        lengths = np.linalg.norm(S, axis=1, keepdims=True)
        scores = np.asarray(X @ (S / np.maximum(lengths, 1e-300)).T)[np.arange(len(labels)), labels]
    return as_table(X).squared_norm - float(np.square(scores).sum())


def end_to_end(X, r: int, repeats: int, clock=time.perf_counter) -> float:
    ours, peer = CCNMF(r, random_state=0), NMF(r, init="nndsvda", random_state=0)
    ours.fit(X)
    ours_time, peer_time = in_turns(
        lambda: ours.fit(X), lambda: peer.fit_transform(X), repeats, clock
    )
    print(
        f"  CCNMF end to end {ours_time:.2f} s, scikit-learn NMF {peer_time:.2f} s:"
        f" {peer_time / ours_time:.1f} times faster",
        flush=True,
    )
    return peer_time / ours_time


COMPARED = {
    "hals": against_coordinate_descent,
    "kl": against_divergence,
    "onmf": against_multiplicative,
    "ccnmf": end_to_end,
}


def in_turns(ours, peer, repeats: int, clock) -> tuple[float, float]:
    """Best times of both, measured alternately."""
    times = [(best_of(ours, 1, clock), best_of(peer, 1, clock)) for _ in range(repeats)]
    return min(a for a, _ in times), min(b for _, b in times)


if __name__ == "__main__":
    main()
