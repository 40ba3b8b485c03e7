"""Exact and quick cones of tables that have been slow once, or might be: each against one product
of the points with their transpose.

    python benchmarks/awkward_tables.py [NAME ...] [--limit SECONDS]

Every table runs in a process of its own, which is stopped after --limit seconds. The product is
sparse where the points are, and in blocks of rows otherwise; it comes last, so that its memory does
not count. Product and quick cone are the smallest of three runs (21 where they take milliseconds),
or one run where that takes more than two seconds; the exact cone is made once. Times are those of
the processor, all threads together, which vary less than wall time on a machine that others use
too. The time of a cone includes its certificate; "verified" is the time of the independent check.
Memory is how far the resident size rose while the exact cone was made and verified, above what it
was just before, in units of the points (the bytes of the arrays that are passed). Before that,
small tables of the same kinds are decided and verified, so that kernels are compiled and loaded;
what that leaves free is given back to the system, and its peak is forgotten. A line ends with what
is over the limits: 20 products or 10 seconds, whichever is more, for the exact cone, and two
products for the quick one.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from common import DATA, best_of, cell_counts, growth_gib, load_points, machine, start_of_growth

from conecollapse import Cone


def cells(n_cells: int, n_genes: int, depth: float) -> sp.csr_array:
    """Genes as points."""
    P = sp.csr_array(cell_counts(n_cells, n_genes, depth)[0].T)
    return P[np.diff(P.indptr) > 0]


def zipf(
    n_words: int,
    n_documents: int,
    length: int,
    *,
    tfidf: bool,
    everywhere: int = 0,
    binary: bool = False,
) -> sp.csr_array:
    """Words as points: documents of ``length`` words drawn by Zipf's law, and ``everywhere`` words
    that stand in each of them."""
    rng = np.random.default_rng(1)
    chance = 1 / np.arange(1, n_words + 1)
    words = rng.choice(n_words, size=n_documents * length, p=chance / chance.sum())
    documents = np.repeat(np.arange(n_documents), length)
    X = sp.coo_array(
        (np.ones(len(words)), (words, documents)), shape=(n_words, n_documents)
    ).tocsr()
    if everywhere:
        X = sp.csr_array(
            sp.vstack([X, sp.csr_array(1.0 + rng.poisson(0.3, (everywhere, n_documents)))])
        )
    X = X[np.diff(X.indptr) > 0]
    if binary:
        X.data[:] = 1
    if not tfidf:
        return X
    X = sp.diags_array(np.log((1 + X.shape[1]) / (1 + np.diff(X.indptr))) + 1) @ X
    return sp.csr_array(
        X @ sp.diags_array(1 / np.sqrt(np.asarray(X.multiply(X).sum(axis=0)).ravel()))
    )


def topics(n_words: int, n_documents: int, n_topics: int, length: int) -> sp.csr_array:
    """Words as points: documents mix a few topics and words that all share, one of which is inside
    the cone though nearly all have it."""
    rng = np.random.default_rng(1)
    words, common = (
        rng.dirichlet(np.full(n_words, 0.05), n_topics),
        rng.dirichlet(5 / np.arange(1, n_words + 1)),
    )
    shares = rng.dirichlet(np.full(n_topics, 0.1), n_documents)
    chances = 0.6 * shares @ words + 0.4 * common
    X = sp.csr_array(
        np.array(
            [rng.multinomial(rng.poisson(length) + 5, chance) for chance in chances], np.float64
        ).T
    )
    return X[np.diff(X.indptr) > 0]


def sets_of(n: int, size: int) -> sp.csr_array:
    """0/1 points: random sets, and unions of two of them."""
    S = sp.random_array(
        (n, 600),
        density=size / 600,
        rng=np.random.default_rng(2),
        data_sampler=lambda size: np.ones(size),
    ).tocsr()
    unions = ((S[: n // 2] + S[n // 2 :]) > 0).astype(np.float64)
    P = sp.csr_array(sp.vstack([S, unions]))
    return P[np.diff(P.indptr) > 0]


def block_diagonal() -> sp.csr_array:
    """Twenty groups of coordinates with 150 points each, half of them combinations of the others of
    their group."""
    rng = np.random.default_rng(3)
    parts = []
    for _ in range(20):
        rays = sp.random_array((75, 60), density=0.2, rng=rng).tocsr()
        weights = sp.random_array((75, 75), density=0.05, rng=rng)
        parts.append(sp.vstack([rays, weights @ rays]))
    P = sp.csr_array(sp.block_diag(parts))
    return P[np.diff(P.indptr) > 0]


def round_cone(n: int, width: float = 0.3) -> np.ndarray:
    """Points on a circle around the diagonal of R^3."""
    t = 2 * np.pi * np.arange(n) / n
    first, second = np.array([1, -1, 0]) / np.sqrt(2), np.array([1, 1, -2]) / np.sqrt(6)
    return 1 / 3 + width * (np.outer(np.cos(t), first) + np.outer(np.sin(t), second))


# takes a circle to another slice
ASKEW = np.array([[1.0, 0.2, 0.1], [0.0, 1.5, 0.3], [0.4, 0.1, 3.0]])


def ellipsoid(n: int, dim: int) -> np.ndarray:
    """Random points on an ellipsoid that lies askew, at random lengths."""
    rng = np.random.default_rng(9)
    z = rng.standard_normal((n, dim - 1))
    z /= np.linalg.norm(z, axis=1)[:, None]
    axes = rng.standard_normal((dim - 1, dim))
    return (1 + 0.3 * z @ axes / np.abs(z @ axes).max()) * (0.5 + rng.random((n, 1)))


def circles(n: int, k: int) -> np.ndarray:
    """Random points of a product of k circles, in a random metric."""
    rng = np.random.default_rng(10)
    t = 2 * np.pi * rng.random((n, k))
    return np.hstack([2 + np.cos(t), 2 + np.sin(t)]) @ (
        np.eye(2 * k) + 0.2 * rng.random((2 * k, 2 * k))
    )


def trigonometric(n: int, k: int) -> np.ndarray:
    """Points on a closed curve with k frequencies: the moment curve of the circle."""
    t = 2 * np.pi * np.arange(n) / n
    return 1.5 + np.stack([f(j * t) for j in range(1, k + 1) for f in (np.cos, np.sin)], axis=1)


def dirichlet(n: int, n_rays: int, dim: int, concentration: float) -> np.ndarray:
    """Random rays and mixtures of them, of few rays each where the concentration is small."""
    rng = np.random.default_rng(11)
    rays = rng.gamma(1.0, size=(n_rays, dim))
    return np.vstack([rays, rng.dirichlet(np.full(n_rays, concentration), n - n_rays) @ rays])


def cyclic(n: int, dim: int) -> np.ndarray:
    """Points on the moment curve: all are rays, and nearly colinear."""
    return np.linspace(0.1, 1.0, n)[:, None] ** np.arange(dim)


def sphere(n: int, dim: int) -> np.ndarray:
    z = np.random.default_rng(4).standard_normal((n, dim - 1))
    return np.hstack([2 + 0.9 * z / np.linalg.norm(z, axis=1)[:, None], np.ones((n, 1))])


def lattice(n: int) -> np.ndarray:
    """All small integer points of R^4: many lie on edges and faces."""
    grid = np.stack(np.meshgrid(*[np.arange(n)] * 4), axis=-1).reshape(-1, 4)
    return grid[grid.any(axis=1)].astype(np.float64)


def duplicates() -> np.ndarray:
    rng = np.random.default_rng(5)
    return np.repeat(rng.random((600, 40)), 20, axis=0) * rng.lognormal(0, 2, (12000, 1))


def twins() -> np.ndarray:
    """Points with a neighbour at a distance between 1e-10 and 1e-6."""
    rng = np.random.default_rng(6)
    P = rng.random((600, 12))
    return np.vstack([P, P + 10.0 ** rng.uniform(-10, -6, (600, 1)) * rng.random((600, 12))])


def interior(n: int, n_rays: int, dim: int) -> np.ndarray:
    """Random rays and combinations of all of them."""
    rng = np.random.default_rng(7)
    rays = rng.gamma(1.0, size=(n_rays, dim))
    return np.vstack([rays, rng.exponential(size=(n - n_rays, n_rays)) @ rays])[rng.permutation(n)]


def low_rank(n: int, dim: int, rank: int) -> np.ndarray:
    rng = np.random.default_rng(8)
    clean = rng.gamma(0.5, size=(n, rank)) @ rng.gamma(0.5, size=(rank, dim))
    return np.clip(clean + 0.01 * clean.mean() * rng.standard_normal(clean.shape), 0, None)


def raw_counts(name: str) -> sp.csr_array | None:
    """The stored table with features as points, without any weighting."""
    file = DATA / f"{name}.npz"
    if not file.is_file():
        return None
    with np.load(file, allow_pickle=False) as z:
        if "indptr" not in z:
            return sp.csr_array(z["X"].astype(np.float64))
        return sp.csc_array(
            (z["data"].astype(np.float64), z["indices"], z["indptr"]), shape=tuple(z["shape"])
        ).tocsr()


TABLES: dict[str, Callable[[], object]] = {
    "WAP": lambda: load_points("WAP"),
    "WAP-COUNTS": lambda: raw_counts("WAP"),
    "SC_POLLEN": lambda: raw_counts("SC_POLLEN"),
    "CELLS-2500x3000": lambda: cells(2500, 3000, 0.35),
    "CELLS-THIN": lambda: cells(3000, 6000, 0.05),
    "CELLS-FULL": lambda: cells(1000, 3000, 3.0),
    "CELLS-5000x8000": lambda: cells(5000, 8000, 0.35),
    "CELLS-8000x15000": lambda: cells(8000, 15000, 0.35),
    "ZIPF": lambda: zipf(8000, 1500, 200, tfidf=True),
    "ZIPF-COUNTS": lambda: zipf(8000, 1500, 200, tfidf=False),
    "ZIPF-EVERYWHERE": lambda: zipf(5000, 1000, 150, tfidf=True, everywhere=15),
    "ZIPF-BINARY": lambda: zipf(8000, 1500, 200, tfidf=False, binary=True),
    "TOPICS": lambda: topics(6000, 1200, 20, 120),
    "SETS": lambda: sets_of(3000, 12),
    "BLOCKS": block_diagonal,
    "CIRCLE-20000": lambda: round_cone(20000),
    "CIRCLE-ASKEW": lambda: round_cone(20000) @ ASKEW,
    "ELLIPSE-20000": lambda: ellipsoid(20000, 3),
    "ELLIPSOID-10000xR5": lambda: ellipsoid(10000, 5),
    "CIRCLES-10000xR6": lambda: circles(10000, 3),
    "CURVE-10000xR4": lambda: trigonometric(10000, 2),
    "MOMENTS-10000xR3": lambda: cyclic(10000, 3),
    "SPHERE-10000xR4": lambda: sphere(10000, 4),
    "CYCLIC-2000xR4": lambda: cyclic(2000, 4),
    "CYCLIC-500xR6": lambda: cyclic(500, 6),
    "LATTICE": lambda: lattice(8),
    "DUPLICATES": duplicates,
    "TWINS": twins,
    "INTERIOR-1300xR250": lambda: interior(1300, 300, 250),
    "INTERIOR-4000xR80": lambda: interior(4000, 500, 80),
    "MIXTURES-0.05": lambda: dirichlet(4000, 500, 80, 0.05),
    "MIXTURES-SQUARE": lambda: dirichlet(3000, 100, 100, 0.3),
    "MIXTURES-2000xR250": lambda: dirichlet(2000, 600, 250, 0.1),
    "LOW-RANK": lambda: low_rank(4000, 300, 20),
}


def product(P) -> float:
    """Seconds of one product of the points with their transpose, a block of rows at a time."""

    def work() -> None:
        for a in range(0, P.shape[0], 1024):
            P[a : a + 1024] @ P.T

    return seconds(work)


def seconds(work: Callable[[], object]) -> float:
    """Processor time: the smallest of three runs, of one that takes more than two seconds, or of
    many that take milliseconds."""
    # threads of BLAS that have nothing to do spin for a while, which counts as processor time
    time.sleep(0.2)
    once = best_of(work, 1, time.process_time)
    return (
        once if once > 2 else min(once, best_of(work, 2 if once > 0.05 else 20, time.process_time))
    )


def warm_up() -> None:
    """Compile every kernel, or load it, on small data."""
    rng = np.random.default_rng(0)
    for P in (rng.random((300, 20)), sphere(1500, 3)):
        both = np.vstack([P, P[:100] + P[100:200]])
        Cone.from_points(both).verify(both)
    thin, filled = (
        sp.csr_array(sp.vstack([S, S[:100] + S[100:]]))
        for S in (
            sp.random_array((200, 100), density=density, rng=rng).tocsr() for density in (0.03, 0.3)
        )
    )
    for T in (
        thin,
        filled,
        zipf(2500, 700, 60, tfidf=True, everywhere=5),
        cells(300, 400, 3.0),
        block_diagonal(),
    ):
        Cone.from_points(T).verify(T)


def run(name: str) -> None:
    """One table: a line with what is measured, each part as soon as it is known."""
    P = TABLES[name]()
    if P is None:
        print(f"{name:19s} skipped: no such file; set CONECOLLAPSE_DATA")
        return
    warnings.simplefilter("ignore")  # that it may take long
    warm_up()
    size = (
        P.data.nbytes + P.indices.nbytes + P.indptr.nbytes if sp.issparse(P) else P.nbytes
    ) / 2**30
    print(f"{name:19s} {P.shape[0]:6d} x {P.shape[1]:<5d}", end="", flush=True)
    before, start = start_of_growth(), time.process_time()
    cone = Cone.from_points(P)
    exact = time.process_time() - start
    print(f" exact {exact:7.2f} s, {cone.n_rays} rays", end="", flush=True)
    start = time.process_time()
    cone.verify(P)
    verified = time.process_time() - start
    print(
        f", verified in {verified:.2f} s, memory {growth_gib(before) / size:.1f} x",
        end="",
        flush=True,
    )
    open_points = Cone.from_points(P, effort="quick").open_points
    quick = seconds(lambda: Cone.from_points(P, effort="quick"))
    print(f" | quick {quick:7.3f} s, {len(open_points)} open", end="", flush=True)
    one = product(P)
    print(
        f" | product {one:7.3f} s: exact {exact / one:.2f}, verified {verified / one:.2f}, quick"
        f" {quick / one:.2f}",
        end="",
    )
    print(
        " | exact OVER" * (exact > max(20 * one, 10)) + " | quick OVER" * (quick > 2 * one),
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"one or more of {', '.join(TABLES)}"
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=300.0,
        help="seconds of wall time after which a table is given up",
    )
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    for name in args.names:
        if name not in TABLES:
            parser.error(f"no table is called {name!r}; there are {', '.join(TABLES)}")
    if args.here:
        run(args.names[0])
        return
    print(machine(), flush=True)
    for name in args.names or TABLES:
        try:
            if subprocess.run(
                [sys.executable, __file__, name, "--here"], check=False, timeout=args.limit
            ).returncode:
                print(f"{name:19s} failed", flush=True)
        except subprocess.TimeoutExpired:
            print(f" | stopped after {args.limit:g} s", flush=True)


if __name__ == "__main__":
    main()
