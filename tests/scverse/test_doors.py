"""The command, `scverse` and the estimators give the same answer for the same cells."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from conecollapse import EmptyDataWarning, GraphCCNMF, InvalidInputError, scverse
from conecollapse.cli.commands import run as command
from conecollapse.io import read_table
from conecollapse.metrics import adjusted_rand_score
from conecollapse.runs import cluster, prepare, verify

anndata = pytest.importorskip("anndata")
N_TYPES = 5


def cells(rng):
    """Negative binomial counts of 5 types, after log1p: 40 genes tell them apart and are marked,
    360 are noise."""
    kind = np.repeat(np.arange(N_TYPES), 16)
    mean = rng.gamma(1.0, 1.0, 400) + 0.1
    folds = np.ones((N_TYPES, 400))
    folds[:, :40] = np.where(rng.random((N_TYPES, 40)) < 0.3, 8.0, 0.4)
    mu = mean * folds[kind] * rng.gamma(8.0, 1 / 8, (len(kind), 1))
    counts = rng.negative_binomial(0.7, 0.7 / (0.7 + mu)).astype(np.float32)
    adata = anndata.AnnData(sp.csr_matrix(np.log1p(counts)))
    adata.layers["counts"] = sp.csr_matrix(counts)
    adata.var_names = [f"gene{j}" for j in range(400)]
    adata.obs_names = [f"cell{i}" for i in range(len(kind))]
    adata.var["highly_variable"] = np.arange(400) < 40
    adata.obs["kind"] = pd.Categorical([f"type{k}" for k in kind])
    return adata


@pytest.fixture(scope="module")
def adata():
    return cells(np.random.default_rng(4))


@pytest.fixture(scope="module")
def file(adata, tmp_path_factory):
    path = tmp_path_factory.mktemp("cells") / "cells.h5ad"
    adata.write_h5ad(path)
    return path


@pytest.fixture
def run(capsys):
    """What a command prints."""

    def called(*arguments):
        code = command([str(argument) for argument in arguments])
        said = capsys.readouterr()
        assert code == 0, said
        return said.out

    return called


def labels_in(folder):
    return pd.read_csv(folder / "labels.csv")["cluster"].to_numpy()


def labels_of(adata, **how):
    copy = adata.copy()
    scverse.cluster(copy, how.pop("n_clusters", N_TYPES), **how)
    return copy.obs["conecollapse"].cat.codes.to_numpy()


@pytest.mark.filterwarnings("ignore::conecollapse.EmptyDataWarning")
@pytest.mark.parametrize("all_features", [False, True])
def test_every_door_gives_the_same_labels(run, adata, file, tmp_path, all_features):
    columns = slice(None) if all_features else slice(40)
    wanted = GraphCCNMF(N_TYPES, random_state=0).fit_predict(adata.X[:, columns])
    if not all_features:
        assert adjusted_rand_score(adata.obs["kind"].cat.codes, wanted) > 0.8
    option = ["--all-features"] if all_features else []
    said = run("cluster", file, "-k", N_TYPES, "-o", tmp_path / "out", "--no-report", *option)
    assert ("40 features" in said) != all_features
    assert ("--all-features" in said) != all_features
    np.testing.assert_array_equal(labels_in(tmp_path / "out"), wanted)
    np.testing.assert_array_equal(
        labels_of(adata, use_highly_variable=False if all_features else None), wanted
    )
    backed = anndata.read_h5ad(file, backed="r")
    scverse.cluster(backed, N_TYPES, use_highly_variable=not all_features)
    np.testing.assert_array_equal(backed.obs["conecollapse"].cat.codes, wanted)
    dense = anndata.AnnData(adata.X.toarray(), var=adata.var)
    np.testing.assert_array_equal(labels_of(dense, use_highly_variable=not all_features), wanted)


def test_a_run_of_marked_features_says_which_and_is_verified(run, adata, file, tmp_path):
    out, results = tmp_path / "out", tmp_path / "results.h5ad"
    said = json.loads(
        run("cluster", file, "-k", N_TYPES, "-o", out, "--write-h5ad", results, "--json")
    )
    assert said["features"] == "highly_variable"
    assert said["n_features"] == 40
    assert json.loads((out / "run.json").read_text())["preparation"]["features"] == (
        "highly_variable"
    )
    np.testing.assert_array_equal(
        np.load(out / "factors.npz")["feature_names"], adata.var_names[:40]
    )
    assert "verified" in run("verify", out)
    written = anndata.read_h5ad(results)
    assert written.varm["conecollapse"].shape == (400, N_TYPES)
    assert not written.varm["conecollapse"][40:].any()
    changed = adata.copy()
    changed.var["highly_variable"] = np.arange(400) < 41
    changed.write_h5ad(tmp_path / "changed.h5ad")
    with pytest.raises(Exception, match="41 features"):
        verify(out, tmp_path / "changed.h5ad")
    changed.var["highly_variable"] = (np.arange(400) > 0) & (np.arange(400) < 41)
    changed.write_h5ad(tmp_path / "changed.h5ad")
    with pytest.raises(Exception, match="the feature 'gene0' of the run is called 'gene1'"):
        verify(out, tmp_path / "changed.h5ad")


def test_depth_is_that_of_all_features(run, adata, file, tmp_path):
    """Scanpy's order: normalized first, then restricted."""
    out = tmp_path / "out"
    run(
        "cluster", file, "-k", N_TYPES, "-o", out, "--layer", "counts", "--normalize", "cells",
        "--no-report",
    )  # fmt: skip
    counts = adata.layers["counts"].toarray().astype(float)
    total = counts.sum(axis=1, keepdims=True)
    values = np.log1p(counts / (total / np.median(total)))[:, :40].astype(np.float32)
    wanted = GraphCCNMF(N_TYPES, random_state=0).fit_predict(values)
    np.testing.assert_array_equal(labels_in(out), wanted)
    assert "verified" in run("verify", out)


def test_marks_that_mark_nothing_are_refused(adata):
    table = read_table(adata)
    assert table.marked.sum() == 40
    nothing = adata.copy()
    nothing.var["highly_variable"] = pd.array([None] * 400, dtype="boolean")
    with pytest.raises(InvalidInputError, match="is False everywhere"):
        prepare(read_table(nothing), features="highly_variable")
    del nothing.var["highly_variable"]
    with pytest.raises(InvalidInputError, match="var has no column 'highly_variable'"):
        prepare(read_table(nothing), features="highly_variable")
    with pytest.raises(InvalidInputError, match="features must be"):
        prepare(table, features="some")
    assert prepare(read_table(adata.X)).preparation == {}


def test_a_copy_of_the_estimator_is_fitted(adata):
    mine = GraphCCNMF(3, n_neighbors=4, random_state=7)
    before = mine.get_params()
    first = labels_of(adata, estimator=mine)
    assert mine.get_params() == before
    assert not hasattr(mine, "labels_")
    np.testing.assert_array_equal(
        first, GraphCCNMF(N_TYPES, n_neighbors=4, random_state=0).fit_predict(adata.X[:, :40])
    )


def scaled(adata):
    found = adata.copy()
    found.raw = adata
    values = adata.X.toarray()
    found.X = values - values.mean(axis=0)
    return found


def test_scaled_cells_are_clustered_by_their_raw_values(adata):
    with pytest.raises(InvalidInputError, match=r"X has negative values.*use_raw=True"):
        scverse.cluster(scaled(adata), N_TYPES)
    wanted = labels_of(adata)
    np.testing.assert_array_equal(labels_of(scaled(adata), use_raw=True), wanted)
    # of fewer genes than raw has, in another order
    part = scaled(adata)[:, np.r_[39:-1:-1, 300]].copy()
    assert part.raw.shape[1] == 400
    copy = part.copy()
    scverse.cluster(copy, N_TYPES, use_raw=True)
    np.testing.assert_array_equal(copy.obs["conecollapse"].cat.codes, wanted)
    assert copy.varm["conecollapse"].shape == (41, N_TYPES)
    assert not copy.varm["conecollapse"][40].any()


def test_raw_values_that_are_not_there_are_refused(adata):
    with pytest.raises(InvalidInputError, match=r"there is no adata\.raw"):
        scverse.cluster(adata.copy(), 3, use_raw=True)
    with pytest.raises(InvalidInputError, match="exclude each other"):
        scverse.cluster(scaled(adata), 3, use_raw=True, layer="counts")
    other = adata[:, 1:].copy()
    found = adata.copy()
    found.raw = other
    with pytest.raises(InvalidInputError, match=r"adata\.raw has no gene 'gene0'"):
        scverse.cluster(found, 3, use_raw=True)


def test_auto_means_the_same_everywhere(run, adata, file, tmp_path):
    out = tmp_path / "out"
    run("cluster", file, "-k", "auto", "-o", out, "--no-report")
    found = adata.copy()
    scverse.cluster(found, "auto")
    np.testing.assert_array_equal(found.obs["conecollapse"].cat.codes, labels_in(out))
    assert found.uns["conecollapse"]["parameters"]["n_clusters"] == labels_in(out).max() + 1


def test_warnings_name_genes_and_name_them_once(adata):
    """Short, however many there are."""
    silent = adata.copy()
    values = silent.X.toarray()
    values[:, 3:35] = 0
    silent.X = values
    table = read_table(silent)
    for fit in (
        lambda: scverse.cluster(silent, N_TYPES),
        lambda: cluster(prepare(table, features="highly_variable"), N_TYPES),
        lambda: GraphCCNMF(N_TYPES, random_state=0).fit(table),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fit()
        said = [str(w.message) for w in caught if issubclass(w.category, EmptyDataWarning)]
        said = [message for message in said if "feature" in message]
        assert len(said) == 1, said
        assert "'gene3', 'gene4'" in said[0]
        assert len(said[0]) < 130


def test_mistakes_are_told_in_words_of_the_call():
    adata = cells(np.random.default_rng(20))
    adata.obs["batch"] = [None, *["a"] * 40, *["b"] * 39]
    adata.obs["few"] = [*["x"] * 3, *["y"] * 77]
    adata.obs["small"] = [*["x"] * 76, *["y"] * 4]
    scaled = adata.copy()
    scaled.X = scaled.X.toarray() - 1
    for call, message in (
        (lambda: scverse.cluster(adata, 0), 'n_clusters must be .* or "auto"; got 0'),
        (lambda: scverse.programs(adata, "x"), "n_programs must be .* or \"auto\"; got 'x'"),
        (lambda: scverse.cluster(adata, 1, guide_key="few"), "names 2 types, more than n_cl"),
        (lambda: scverse.cluster(adata, 2, guide_key=["few"]), "obs has no column"),
        (lambda: scverse.cluster(adata, 2, estimator="graph"), "got 'graph'"),
        (lambda: scverse.cluster(adata[:, :0], 2, use_highly_variable=False), "no genes"),
        (lambda: scverse.select(adata, 5), "such as range"),
        (lambda: scverse.select(adata[:2]), "from 3 cells on; adata has 2"),
        (lambda: scverse.select(adata, batch_key="batch"), "no batch for 1 of 80 cells"),
        (lambda: scverse.select(adata, [2, 9], batch_key="small"), "the batch 'y' holds 4 of the"),
        (lambda: scverse.programs(adata, 3, batch_key="batch"), "no batch for 1 of 80 cells"),
        (lambda: scverse.programs(scaled, 3), "pass the layer"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            call()


def test_the_mark_of_cells_without_a_type_can_be_a_number():
    adata = cells(np.random.default_rng(21))
    adata.obs["few"] = [*range(5), *[-1] * 75]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        scverse.cluster(adata, 6, guide_key="few", unlabeled=-1)
    assert list(adata.obs["conecollapse"].cat.categories)[:5] == ["0", "1", "2", "3", "4"]
