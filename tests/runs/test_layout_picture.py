"""The first picture: places that know nothing of the clusters, from the file or from t-SNE, in
every picture of a report the words of its subject, and as many colours as clusters."""

from __future__ import annotations

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from conecollapse.io import read_table
from conecollapse.plots.style import PALETTE
from conecollapse.report import page
from conecollapse.runs import cluster, prepare, save, verify

rng = np.random.default_rng(0)
BLOCKS = np.kron(np.eye(3), np.ones((8, 5))) + 0.1 * rng.random((24, 15))


def test_tsne_of_the_view_separates_clear_groups_and_is_saved(tmp_path):
    pd.DataFrame(BLOCKS).to_csv(tmp_path / "x.csv")
    run = cluster(read_table(tmp_path / "x.csv"), 3, layout=True)
    assert run.layout.name.startswith("t-SNE of the view")
    middles = np.array([run.layout.places[run.labels == k].mean(axis=0) for k in range(3)])
    away = np.linalg.norm(run.layout.places[:, None] - middles, axis=2)
    np.testing.assert_array_equal(away.argmin(axis=1), run.labels)
    save(run, tmp_path / "out")
    assert verify(tmp_path / "out")
    table = pd.read_csv(tmp_path / "out" / "layout.csv", float_precision="round_trip")
    np.testing.assert_array_equal(table[["x", "y"]], run.layout.places)


def test_a_file_with_a_umap_keeps_it_and_cells_are_called_cells(tmp_path):
    adata = anndata.AnnData(sp.csr_matrix(rng.poisson(5 * BLOCKS).astype(np.float32)))
    adata.obsm["X_umap"] = rng.random((24, 2))
    adata.write_h5ad(tmp_path / "cells.h5ad")
    run = cluster(read_table(tmp_path / "cells.h5ad"), 3, layout=True)
    np.testing.assert_array_equal(run.layout.places, adata.obsm["X_umap"])
    text = page(run)
    assert "The 24 cells fall into 3 clusters of 8 cells each" in text
    assert "Each dot is a cell, at its place in X_umap, as the file has it" in text
    assert "separation is built in" in text


def test_topics_are_called_by_words_that_their_texts_share(tmp_path):
    words = ("sea ship sail wave", "tree leaf root wood", "coin bank loan rate")
    old = [" ".join(rng.choice(words[i % 3].split(), 8)) for i in range(30)]
    run = cluster(prepare(read_table(old), tfidf=True), 3, layout=True)
    for title in run.names:
        assert len({i for i in range(3) for word in title.split(", ") if word in words[i]}) == 1
    assert "The 30 texts fall into 3 clusters of 10 texts each" in page(run)
    save(run, tmp_path / "out")
    names = pd.read_csv(tmp_path / "out" / "names.csv")["name"].tolist()
    assert names == run.names
    markers = pd.read_csv(tmp_path / "out" / "markers.csv")
    assert ", ".join(markers[markers["cluster"] == 1]["feature"][:3]) == run.names[1]


def test_names_that_the_user_wrote_are_used_by_the_page_the_labels_and_obs(
    tmp_path, run, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    adata = anndata.AnnData(sp.csr_matrix(rng.poisson(5 * BLOCKS).astype(np.float32)))
    adata.write_h5ad("cells.h5ad")
    assert run("cluster", "cells.h5ad", "-k", "3", "--no-report")[0] == 0
    names = tmp_path / "cells-clusters" / "names.csv"
    names.write_text("cluster,name\n0,T cells\n2,B cells\n1,<b>\n")
    code, out, err = run("report", "cells-clusters", "--write-h5ad", "named.h5ad")
    assert code == 0, err
    assert "0: T cells; 1: <b>; 2: B cells" in out
    labels = pd.read_csv(tmp_path / "cells-clusters" / "labels.csv")
    assert set(labels["name"]) == {"T cells", "B cells", "<b>"}
    written = anndata.read_h5ad("named.h5ad").obs["conecollapse"]
    assert written.astype(str).tolist() == labels["name"].tolist()
    assert "Cluster 0: T cells" in (tmp_path / "cells-clusters" / "report.html").read_text("utf-8")
    assert run("verify", "cells-clusters")[0] == 0
    assert run("predict", "cells-clusters", "cells.h5ad")[0] == 0
    names.write_text("cluster,name\n0,T cells\n")
    assert "names the clusters [0]; the run has 0 to 2" in run("report", "cells-clusters")[2]


def test_fourteen_clusters_have_fourteen_colours():
    assert len(set(PALETTE)) == len(PALETTE) >= 14


@pytest.mark.parametrize("n", [3, 4])
def test_a_handful_of_samples_has_no_layout(n):
    assert cluster(read_table(BLOCKS[::6][:n]), 2, method="features", layout=True).layout is None
