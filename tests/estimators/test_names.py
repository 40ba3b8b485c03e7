"""Names are never lost: whatever brings a table, its features keep their names through every
estimator."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from conecollapse import (
    CCNMF,
    ConeCollapse,
    ConeNovelty,
    HierarchicalNMF,
    InvalidInputError,
    MinVolumeNMF,
    SeparableNMF,
    Unmixing,
    select_rank,
)
from conecollapse.io import open_table, read_table
from conecollapse.tables import as_table

X = np.kron(np.eye(3), np.ones((6, 4))) + 0.1 * np.random.default_rng(0).random((18, 12))
GENES = [f"gene{j}" for j in range(12)]
CELLS = [f"cell{i}" for i in range(18)]
MODELS = [
    HierarchicalNMF(3, random_state=0),
    CCNMF(3, random_state=0),
    MinVolumeNMF(3),
    SeparableNMF(3),
    Unmixing(3),
    ConeCollapse(),
    ConeNovelty(),
]


def as_anndata(values):
    anndata = pytest.importorskip("anndata")
    data = anndata.AnnData(values, obs=pd.DataFrame(index=CELLS), var=pd.DataFrame(index=GENES))
    data.layers["twice"] = 2 * values
    return data


@pytest.mark.parametrize("model", MODELS, ids=repr)
class TestEveryEstimator:
    def test_takes_the_names_of_an_array(self, model):
        for table in (X, sp.csr_array(X)):
            assert model.fit(table, feature_names=GENES).feature_names_in_.tolist() == GENES
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            judge = model.score_samples if hasattr(model, "score_samples") else model.transform
            judge(X)  # an array as in `fit`: nobody asks for names again
            judge(pd.DataFrame(X, columns=GENES))
            if hasattr(model, "transform"):
                model.transform(X)
            turned = judge(pd.DataFrame(X, columns=GENES)[GENES[::-1]])
        np.testing.assert_array_equal(turned, judge(X))  # columns go by name
        with pytest.raises(ValueError, match=r"now missing:\n- gene0\n"):
            judge(pd.DataFrame(X[:, 1:], columns=GENES[1:]))

    def test_takes_what_read_table_returns(self, model):
        table = read_table(pd.DataFrame(X, columns=GENES, index=CELLS))
        assert model.fit(table).feature_names_in_.tolist() == GENES

    def test_takes_anndata_and_its_layers(self, model):
        data = as_anndata(X)
        assert model.fit(data).feature_names_in_.tolist() == GENES
        errors = [
            getattr(model.fit(data, layer=layer), "reconstruction_err_", None)
            for layer in (None, "twice")
        ]
        assert errors[0] is None or errors[1] == pytest.approx(2 * errors[0], rel=1e-3, abs=1e-6)
        with pytest.raises(InvalidInputError, match=r"no layer 'counts'; it has 'twice'"):
            model.fit(data, layer="counts")
        with pytest.raises(
            InvalidInputError,
            match="layer='twice' is for AnnData objects; leave it out for ndarray",
        ):
            model.fit(X, layer="twice")

    def test_refuses_names_that_are_not_one_for_each_feature(self, model):
        with pytest.raises(
            InvalidInputError, match="feature_names has 2 names, but X has 12 features"
        ):
            model.fit(X, feature_names=["a", "b"])


def test_later_tables_of_the_same_object_come_from_the_same_layer():
    data = as_anndata(X)
    model = HierarchicalNMF(3, random_state=0).fit(data, layer="twice")
    np.testing.assert_allclose(model.transform(data), model.transform(2 * X))
    turned = model.transform(data[:, ::-1].copy())  # columns go by name
    np.testing.assert_allclose(turned, model.transform(data))


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix, sp.csc_matrix])
def test_opened_files_carry_names(tmp_path, make):
    data = as_anndata(make(X))
    data.write_h5ad(tmp_path / "cells.h5ad")
    table = open_table(tmp_path / "cells.h5ad")
    assert table.feature_names.tolist() == GENES
    assert table.sample_names.tolist() == CELLS
    assert CCNMF(3, random_state=0).fit(table).top_features(1) == CCNMF(3, random_state=0).fit(
        X, feature_names=GENES
    ).top_features(1)
    np.testing.assert_allclose(
        as_table(open_table(tmp_path / "cells.h5ad", layer="twice")) @ np.ones((12, 1)),
        2 * X.sum(axis=1, keepdims=True),
    )
    assert select_rank(table, [2, 3, 5], n_runs=2, random_state=0).rank == 3
    with pytest.raises(InvalidInputError, match=r"has no layer 'counts'; it has 'twice'"):
        open_table(tmp_path / "cells.h5ad", layer="counts")
    with pytest.raises(InvalidInputError, match=r"is only for \.h5ad files"):
        open_table(X, layer="twice")


def test_a_backed_object_is_read_in_blocks(tmp_path):
    anndata = pytest.importorskip("anndata")
    as_anndata(sp.csr_matrix(X)).write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    model = HierarchicalNMF(3, random_state=0).fit(backed, layer="twice")
    np.testing.assert_allclose(
        model.components_, HierarchicalNMF(3, random_state=0).fit(2 * X).components_, rtol=1e-6
    )
    assert model.feature_names_in_.tolist() == GENES
    backed.file.close()


def test_names_beside_a_matrix_market_file(tmp_path):
    from scipy.io import mmwrite

    mmwrite(tmp_path / "t.mtx", sp.coo_array(X))
    (tmp_path / "t.cols.txt").write_text("\n".join(GENES))
    table = open_table(tmp_path / "t.mtx")
    assert table.feature_names.tolist() == GENES
    assert table.sample_names is None


def test_rays_that_are_samples_have_the_names_of_samples():
    for table in (as_anndata(X), read_table(pd.DataFrame(X, columns=GENES, index=CELLS))):
        rays = ConeCollapse(points="samples").fit(table)
        assert rays.get_feature_names_out().tolist() == [CELLS[i] for i in rays.ray_indices_]


def test_a_rank_is_chosen_for_whatever_brings_a_table():
    for table in (as_anndata(X), read_table(X), pd.DataFrame(X)):
        assert select_rank(table, [2, 3, 5], n_runs=2, random_state=0).rank == 3


def test_a_pipeline_of_texts_names_its_words():
    texts = [
        "apple pear plum",
        "pear apple",
        "plum apple pear",
        "stone sand rock",
        "rock sand",
        "sand stone rock",
    ]
    pipe = make_pipeline(TfidfVectorizer(), CCNMF(2, random_state=0)).fit(texts)
    words = [
        {word.name for word in topic}
        for topic in pipe[-1].top_features(3, names=pipe[:-1].get_feature_names_out())
    ]
    assert {"apple", "pear", "plum"} in words
    assert {"stone", "sand", "rock"} in words
