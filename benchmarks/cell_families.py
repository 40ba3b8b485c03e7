"""Clusters of planted single-cell counts: `GraphCCNMF` and `select_rank` beside Leiden.

``python benchmarks/cell_families.py [--seeds 2]`` draws twelve families of negative binomial
counts, at two strengths of the types' genes. Where scanpy, igraph and leidenalg are installed,
Leiden runs with scanpy's defaults at the resolution that gives the true number of clusters;
families are weak or strong enough that its purity is mostly between 0.6 and 0.97. Types are used
only for scoring.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from conecollapse import GraphCCNMF, select_rank
from conecollapse.metrics import purity_score


@dataclass(frozen=True)
class Family:
    """How the counts of a family are drawn; ``strengths`` are of the fold changes, weak and
    strong."""

    strengths: tuple[float, float]
    n: int = 1000
    genes: int = 3000
    types: int = 7
    depth: float = 2500.0
    spread: float = 0.4  # of the logarithms of the cells' depth
    dispersion: float = 0.3
    marked: float = 0.08  # share of the genes that a type changes
    tail: float = 1.5  # of the logarithms of the genes' means
    decay: float = 1.0  # size of a type over that of the one before
    n_batches: int = 1
    batch: float = 0.0  # of the logarithms of the batches' gene factors
    depths: tuple[float, ...] = (1.0,)  # of the batches
    dropout: float | None = None  # logarithm of the mean at which half of the counts are lost
    ambient: float = 0.0  # share of each cell that is a mean cell
    markers: int = 0  # genes of a type that the others nearly lack, in place of fold changes


FAMILIES = {
    "plain": Family((0.26, 0.31), marked=0.1, depth=4000, dispersion=0.05),
    "dropout": Family((0.34, 0.38), marked=0.1, depth=6000, dropout=0.0),
    "two batches": Family((0.45, 0.54), n_batches=2, batch=0.12, dropout=-1.5, depth=3000),
    "shallow": Family((0.66, 0.72), n=1500, genes=4000, types=8, marked=0.05, depth=1200, tail=1.8),
    "rare types": Family((0.48, 0.65), n=1500, types=9, marked=0.06, decay=0.75),
    "uneven depth": Family((0.60, 0.80), types=6, spread=1.0, tail=1.7),
    "ambient": Family((0.60, 0.75), types=6, ambient=0.35, depth=3000, tail=1.7),
    "panel": Family((0.78, 0.94), n=1500, genes=350, types=8, marked=0.15, depth=300, tail=1.0),
    "noisy": Family((0.45, 0.54), marked=0.15, depth=5000, dispersion=1.5),
    "few and deep": Family(
        (0.60, 0.72), n=300, genes=4000, types=6, marked=0.05, depth=8000, spread=0.6, dropout=-1.0
    ),
    "depth of batches": Family(
        (0.43, 0.48), types=6, n_batches=3, batch=0.1, depths=(0.6, 1.2, 2.4), dispersion=0.4
    ),
    "markers": Family((0.70, 0.78), n=1200, genes=6000, types=8, markers=25, tail=1.8),
}


def draw(family: Family, strength: float, seed: int) -> tuple[sp.csr_array, np.ndarray, np.ndarray]:
    """Counts (cells x genes), the type and the batch of each cell."""
    rng = np.random.default_rng(seed)
    n, genes, r = family.n, family.genes, family.types
    weight = family.decay ** np.arange(r)
    types = rng.choice(r, n, p=weight / weight.sum())
    batches = rng.integers(family.n_batches, size=n)
    mean = rng.lognormal(-1, family.tail, genes)
    folds = np.ones((r, genes))
    if family.markers:
        scarce = np.argsort(mean)[: genes // 2]
        for k in range(r):
            chosen = rng.choice(scarce, family.markers, replace=False)
            folds[k, chosen] = np.exp(rng.normal(2.5 * strength + 1, 0.5, family.markers))
    else:
        changed = rng.random((r, genes)) < family.marked
        size = np.abs(rng.normal(strength, strength / 2, (r, genes)))
        folds = np.where(changed, np.exp(rng.choice([-1, 1], (r, genes)) * size), 1.0)
    shares = mean * folds
    shares = (shares / shares.sum(axis=1, keepdims=True))[types]
    shares = (1 - family.ambient) * shares + family.ambient * shares.mean(axis=0)
    factors = np.exp(rng.normal(0, family.batch, (family.n_batches, genes)))
    shares = shares * factors[batches]
    shares /= shares.sum(axis=1, keepdims=True)
    depth = family.depth * np.resize(family.depths, family.n_batches)[batches]
    mu = (depth * rng.lognormal(-(family.spread**2) / 2, family.spread, n))[:, None] * shares
    counts = rng.poisson(rng.gamma(1 / family.dispersion, mu * family.dispersion)).astype(float)
    if family.dropout is not None:
        counts *= rng.random(counts.shape) < 1 / (1 + np.exp(family.dropout - np.log(mu + 1e-9)))
    return sp.csr_array(counts[:, counts.any(axis=0)]), types, batches


def leiden(X: sp.csr_array, n_clusters: int) -> np.ndarray:
    """Leiden with scanpy's defaults, at the resolution that gives so many clusters."""
    import anndata
    import scanpy as sc

    adata = anndata.AnnData(sp.csr_matrix(X.astype(np.float32)))
    sc.pp.filter_genes(adata, min_cells=3)
    sc.pp.normalize_total(adata, target_sum=1e4)
    sc.pp.log1p(adata)
    if adata.n_vars > 2000:
        sc.pp.highly_variable_genes(adata, n_top_genes=2000)
    sc.pp.pca(adata, n_comps=50)
    sc.pp.neighbors(adata)
    low, high, resolution, best = 0.0, 8.0, 1.0, None
    for _ in range(20):
        sc.tl.leiden(adata, resolution=resolution, flavor="igraph", n_iterations=2, directed=False)
        labels = adata.obs["leiden"].cat.codes.to_numpy()
        count = labels.max() + 1
        if best is None or abs(count - n_clusters) < abs(best.max() + 1 - n_clusters):
            best = labels
        if count == n_clusters:
            break
        low, high = (resolution, high) if count < n_clusters else (low, resolution)
        resolution = (low + high) / 2
    return best


def seconds(what: Callable[[], object]) -> tuple[object, float]:
    """What a call returns, and its processor time."""
    start = time.process_time()
    found = what()
    return found, time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1, help="tables of each strength")
    parser.add_argument("--only", default=",".join(FAMILIES), help="families, with commas")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    with_leiden = importlib.util.find_spec("scanpy") and importlib.util.find_spec("leidenalg")
    print("| family | types | Leiden | GraphCCNMF | view | number found | seconds: fit, number |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    rows = []
    for name in arguments.only.split(","):
        family = FAMILIES[name]
        for strength in family.strengths:
            for seed in range(arguments.seeds):
                X, types, _ = draw(family, strength, seed)
                rival = purity_score(types, leiden(X, family.types)) if with_leiden else np.nan
                model, fit = seconds(lambda: GraphCCNMF(family.types, random_state=0).fit(X))  # noqa: B023
                rank, number = seconds(lambda: select_rank(X, range(2, 13), random_state=0))  # noqa: B023
                ours = purity_score(types, model.labels_)
                rows.append((rival, ours, rank.rank == family.types))
                print(
                    f"| {name} {strength:g} | {family.types} | {rival:.3f} | {ours:.3f} |"
                    f" {model.view_} | {rank.rank} | {fit:.1f}, {number:.1f} |",
                    flush=True,
                )
    table = np.array(rows, dtype=float)
    between = table[(table[:, 0] >= 0.6) & (table[:, 0] <= 0.97)] if with_leiden else table
    mean = between.mean(axis=0)
    print(
        f"\n{len(between)} tables on which Leiden has 0.60 to 0.97: mean purity of Leiden"
        f" {mean[0]:.3f}, of GraphCCNMF {mean[1]:.3f}, smallest difference"
        f" {(between[:, 1] - between[:, 0]).min():+.3f}; the number of types is found on"
        f" {int(between[:, 2].sum())} of them, on {int(table[:, 2].sum())} of all {len(table)}"
    )


if __name__ == "__main__":
    main()
