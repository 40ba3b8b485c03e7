"""Single cells: an .h5ad file with raw counts in a layer, to gene programs and clusters on the UMAP
that it has.

Needs ``pip install "conecollapse[bio]"``.
"""

from __future__ import annotations

from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import scipy.sparse as sp

from conecollapse import scverse


def data(path: Path) -> None:
    """A file as others would hand it over: logarithms in X, counts in a layer, a UMAP in obsm."""
    rng = np.random.default_rng(0)
    kind = rng.integers(4, size=300)
    rates = 0.2 + 3.0 * (np.arange(120) // 30 == kind[:, None])
    counts = rng.poisson(rates * rng.lognormal(0, 0.3, (300, 1))).astype(np.float32)
    adata = anndata.AnnData(
        sp.csr_matrix(np.log1p(counts / counts.sum(axis=1, keepdims=True) * 1e4)),
        obs=pd.DataFrame(
            {"cell_type": [f"type {k}" for k in kind]}, index=[f"cell{i}" for i in range(300)]
        ),
        var=pd.DataFrame(index=[f"GENE{j}" for j in range(120)]),
    )
    adata.layers["counts"] = sp.csr_matrix(counts)
    angle = np.pi / 2 * kind
    adata.obsm["X_umap"] = np.column_stack(
        [np.cos(angle), np.sin(angle)]
    ) + 0.15 * rng.standard_normal((300, 2))
    adata.write_h5ad(path)


def main(folder: Path) -> anndata.AnnData:
    data(folder / "cells.h5ad")
    adata = anndata.read_h5ad(folder / "cells.h5ad")

    scverse.programs(adata, 4, layer="counts", n_runs=5)
    for k, genes in enumerate(adata.uns["programs"]["top_genes"]):
        print(f"program {k}: {', '.join(genes[:5])}")
    scverse.draw(adata, "programs", basis="X_umap").write_html(folder / "programs.html")

    scverse.cluster(adata, 4)
    print(pd.crosstab(adata.obs["cell_type"], adata.obs["conecollapse"]))
    scverse.draw(adata, basis="X_umap", target="cell_type").write_html(folder / "clusters.html")
    adata.write_h5ad(folder / "done.h5ad")
    return adata


if __name__ == "__main__":
    main(Path())
