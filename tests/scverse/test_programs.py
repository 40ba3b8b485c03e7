"""Programs from the shell: the same as in scverse, in files for other programs, with batches named,
and usages that can be checked."""

from __future__ import annotations

import json

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from conecollapse import CertificateError, InvalidInputError, scverse
from conecollapse.io import read_table
from conecollapse.runs import programs, save, verify
from conecollapse.runs.gene_programs import gains_of_other_usages


@pytest.fixture
def cells(tmp_path):
    """A file of counts with three programs, of which the last is a batch."""
    rng = np.random.default_rng(0)
    shares = rng.dirichlet([0.5, 0.5], 60)
    batch = rng.integers(2, size=60)
    usages = np.column_stack([shares, 1.5 * batch])
    rates = np.kron(np.eye(3), np.full((1, 8), 12.0)) + 0.2
    adata = anndata.AnnData(
        sp.csr_matrix(rng.poisson(usages @ rates).astype(np.float32)),
        obs=pd.DataFrame({"donor": [f"d{b}" for b in batch]}, index=[f"c{i}" for i in range(60)]),
        var=pd.DataFrame(index=[f"G{j}" for j in range(24)]),
    )
    adata.write_h5ad(tmp_path / "cells.h5ad")
    return tmp_path / "cells.h5ad"


def test_the_command_and_scverse_find_the_same_programs(cells, run, monkeypatch):
    monkeypatch.chdir(cells.parent)
    more = ["--runs", "3", "--batches", "obs:donor", "--write-h5ad", "done.h5ad", "--no-report"]
    code, out, err = run("programs", "cells.h5ad", "-k", "3", *more)
    assert code == 0, err
    assert "3 programs; stability" in out
    assert "is a batch more than a program: obs:donor explains" in err
    adata = anndata.read_h5ad(cells)
    with pytest.warns(UserWarning, match="is a batch more than a program: 'donor' explains"):
        scverse.programs(adata, 3, n_runs=3, batch_key="donor")
    folder = cells.parent / "cells-programs"
    usages = pd.read_csv(folder / "usages.csv", index_col=0, float_precision="round_trip")
    assert usages.pop("batch").tolist() == adata.obs["donor"].tolist()
    np.testing.assert_array_equal(usages, adata.obsm["X_programs"])
    table = pd.read_csv(folder / "programs.csv", index_col=0)
    np.testing.assert_allclose(table.iloc[:, :3], adata.varm["programs"], rtol=1e-12)
    np.testing.assert_allclose(table.iloc[:, 3:], adata.varm["programs_z"], atol=1e-9)
    markers = pd.read_csv(folder / "markers.csv")
    for k, genes in enumerate(adata.uns["programs"]["top_genes"]):
        listed = markers[markers["program"] == k]["feature"].tolist()
        assert listed == genes[: len(listed)].tolist()
    written = anndata.read_h5ad("done.h5ad")
    pd.testing.assert_frame_equal(written.obsm["X_programs"], adata.obsm["X_programs"])
    np.testing.assert_array_equal(written.obs["programs_0"], adata.obs["programs_0"])


def test_auto_json_and_the_page(cells, run, monkeypatch):
    monkeypatch.chdir(cells.parent)
    code, out, err = run("programs", "cells.h5ad", "-k", "auto", "--runs", "2", "--json")
    said = json.loads(out)
    assert code == 0, err
    assert said["rank_reason"]
    assert said["n_programs"] == len(said["stability"])
    page = (cells.parent / "cells-programs" / "report.html").read_text(encoding="utf-8")
    assert "The genes of 60 cells form" in page


def test_usages_that_are_not_the_likeliest_are_refused(cells, tmp_path):
    found = programs(read_table(cells), 3, n_runs=2)
    save(found, tmp_path / "out")
    assert "no other usages of the 3 programs" in str(verify(tmp_path / "out"))
    with np.load(tmp_path / "out" / "factors.npz") as file:
        arrays = dict(file)
    arrays["usages"] = arrays["usages"][:, [1, 0, 2]]
    np.savez(tmp_path / "out" / "factors.npz", **arrays)
    with pytest.raises(CertificateError, match=r"usages of 'c\d+' .* not those"):
        verify(tmp_path / "out")


def test_the_bound_on_what_other_usages_gain_holds():
    rng = np.random.default_rng(0)
    H = rng.dirichlet(np.full(9, 0.7), 3)
    for x in rng.poisson(3.0, (5, 9)).astype(float):
        u = rng.dirichlet([1.0, 1.0, 1.0])

        def loss(v, x=x):
            p = np.maximum(np.abs(v) / np.abs(v).sum() @ H, 1e-300)
            return -float(x @ np.log(p)) / x.sum()

        best = min(minimize(loss, start, method="Nelder-Mead").fun for start in (u, [1, 1, 1]))
        bound = gains_of_other_usages(x[None], H, u[None])[0]
        assert loss(u) - best <= bound + 1e-9


def test_batches_need_one_entry_for_each_cell(cells):
    with pytest.raises(InvalidInputError, match="there are 2 batches for 60 samples"):
        programs(read_table(cells), 2, batches=["a", "b"])
