"""Views for counts of cells: what is recognised, what is chosen, and that neither storage nor the
size of samples decides."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse as sp

from conecollapse import GraphCCNMF, InvalidInputError, scverse, select_rank
from conecollapse.affinity.counts import (
    PRIORS,
    Counts,
    CountView,
    are_counts,
    form_of_counts,
    leading,
    prediction_gains,
    sizes,
)
from conecollapse.factorization.resampling.rank_of_clusters import (
    most_predictive,
    without_shared_directions,
)
from conecollapse.io import open_table
from conecollapse.metrics import purity_score


def make_cells(
    seed: int = 0, n: int = 240, m: int = 600, r: int = 4
) -> tuple[np.ndarray, np.ndarray]:
    """Negative binomial counts of r kinds of cells, of which each has a depth of its own."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(r, size=n)
    means = rng.lognormal(-1, 1.5, m) * np.exp(
        rng.normal(0, 1.0, (r, m)) * (rng.random((r, m)) < 0.1)
    )
    shares = means / means.sum(axis=1, keepdims=True)
    mu = 1000 * rng.lognormal(0, 0.7, n)[:, None] * shares[kinds]
    X = rng.poisson(rng.gamma(1 / 0.3, 0.3 * mu)).astype(float)
    return X[:, X[::2].any(axis=0)], kinds


@pytest.fixture(scope="module")
def cells() -> tuple[np.ndarray, np.ndarray]:
    return make_cells()


@pytest.fixture(scope="module")
def model(cells: tuple[np.ndarray, np.ndarray]) -> GraphCCNMF:
    return GraphCCNMF(4, random_state=0).fit(cells[0])


def test_counts_are_recognised_by_sampling_noise_and_nothing_else_is(cells):
    X = cells[0]
    rng = np.random.default_rng(0)
    assert are_counts(X)
    assert are_counts(sp.csr_array(X.astype(np.float32)))
    assert form_of_counts(X) == "counts"
    same_depth = 1e4 * X / X.sum(axis=1, keepdims=True)
    assert form_of_counts(same_depth) == "scaled"
    assert form_of_counts(np.log1p(same_depth).astype(np.float32)) == "logarithms"
    assert form_of_counts(sp.csr_array(np.log1p(same_depth))) == "logarithms"
    assert form_of_counts(np.sqrt(X + rng.random(X.shape))) is None
    assert form_of_counts(rng.random((30, 20))) is None
    assert not are_counts(np.log1p(X))  # not whole
    assert not are_counts(X * 9)  # reads: nine of each molecule
    assert not are_counts((X > 0).astype(float))  # presence and absence
    assert not are_counts(rng.integers(0, 256, (50, 80)).astype(float))  # pixels
    assert not are_counts(np.zeros((5, 4)))


def test_the_dispersion_of_negative_binomial_counts_is_found():
    rng = np.random.default_rng(0)
    mu = 2000 * rng.lognormal(0, 0.5, 400)[:, None] * rng.dirichlet(np.full(300, 0.5))
    for phi in (0.2, 1.0):
        X = sp.csr_array(rng.poisson(rng.gamma(1 / phi, phi * mu)).astype(float))
        assert Counts(X, np.arange(400)).dispersion == pytest.approx(phi, rel=0.2)


def test_residuals_of_samples_that_differ_by_size_alone_have_variance_one():
    rng = np.random.default_rng(0)
    mu = 3000 * rng.lognormal(0, 1.0, 500)[:, None] * rng.dirichlet(np.full(200, 5.0))
    X = sp.csr_array(rng.poisson(mu).astype(float))
    view = CountView.of_counts("residuals", Counts(X, np.arange(500)))
    values = view.values(X)
    assert values.var() == pytest.approx(1.0, abs=0.05)
    size = np.log(sizes(X))
    assert all(abs(np.corrcoef(place, size)[0, 1]) < 0.2 for place in view.of(X).T)


def test_as_many_components_are_kept_as_shuffling_cannot_explain():
    rng = np.random.default_rng(0)
    signal = rng.standard_normal((300, 3)) @ rng.standard_normal((3, 80))
    assert leading(signal + rng.standard_normal((300, 80))).shape == (80, 3)
    assert leading(rng.standard_normal((300, 80))).shape == (80, 2)


def test_the_gain_is_the_logarithm_of_a_ratio_of_predictions_by_the_others():
    rng = np.random.default_rng(0)
    X = rng.poisson(2.0, (7, 5)).astype(float)
    labels = np.array([0, 0, 0, 1, 1, 1, 1])

    def gains(prior):
        found = np.zeros(7)
        for i in range(7):
            rest = np.arange(7) != i
            q = (X[rest].sum(axis=0) + 1) / (X[rest].sum() + 5)
            others = X[rest & (labels == labels[i])].sum(axis=0)
            p = (others + prior * q) / (others.sum() + prior)
            found[i] = X[i] @ np.log(p / q)
        return found

    best = max((gains(prior) for prior in PRIORS), key=np.sum)
    np.testing.assert_allclose(prediction_gains(sp.csr_array(X), labels, 2), best)


def test_clusters_of_noise_gain_nothing(cells):
    X, kinds = sp.csr_array(cells[0]), cells[1]
    random = np.random.default_rng(0).permutation(kinds)
    assert prediction_gains(X, kinds, 4).sum() > 100 * max(prediction_gains(X, random, 4).sum(), 1)


def test_cells_of_very_different_depth_are_clustered_by_kind(cells, model):
    assert purity_score(cells[1], model.labels_) > 0.95
    assert model.view_ in model.view_gains_
    assert "nats" in model._summary()["view"]


@pytest.mark.parametrize("view", ["residuals", "log pcs"])
def test_a_view_for_counts_can_be_named(cells, view):
    model = GraphCCNMF(4, view=view, random_state=0).fit(cells[0])
    assert (model.view_, model.view_gains_) == (view, {})


def test_storage_does_not_decide_about_counts(cells, model, tmp_path):
    X = cells[0]
    np.save(tmp_path / "cells.npy", X)
    for stored in (
        sp.csr_array(X),
        sp.csc_array(X.astype(np.float32)),
        open_table(tmp_path / "cells.npy"),
        np.log1p(1e4 * X / X.sum(axis=1, keepdims=True)),
    ):
        other = GraphCCNMF(4, random_state=0).fit(stored)
        assert other.view_ == model.view_
        np.testing.assert_array_equal(other.labels_, model.labels_)


def test_new_cells_join_the_cluster_of_their_kind(cells, model):
    X, kinds = cells
    known = {k: np.bincount(model.labels_[kinds == k]).argmax() for k in range(4)}
    half = GraphCCNMF(4, random_state=0).fit(X[::2])
    names = {k: np.bincount(half.labels_[kinds[::2] == k]).argmax() for k in range(4)}
    assert len(set(known.values())) == 4
    for new in (X[1::2], sp.csr_array(X[1::2])):
        expected = [names[k] for k in kinds[1::2]]
        assert np.mean(half.predict(new) == expected) > 0.9
    np.testing.assert_array_equal(model.predict(X), model.labels_)


def test_counts_in_blocks_are_compared_by_the_same_view(cells, tmp_path):
    class Large(GraphCCNMF):
        _limits: ClassVar = {"gathered": 0}

    X, kinds = cells
    np.save(tmp_path / "cells.npy", X)
    model = Large(4, random_state=0).fit(open_table(tmp_path / "cells.npy"))
    assert model.view_ in ("residuals", "log pcs")
    assert purity_score(kinds, model.labels_) > 0.95
    assert np.mean(model.predict(X) == model.labels_) > 0.95


def test_the_number_of_kinds_is_the_one_whose_clusters_predict_best(cells):
    found = select_rank(cells[0], range(2, 9), random_state=0)
    assert (found.rank, found.method) == (4, "prediction")
    assert found.scores.argmax() == 2
    assert "the runner-up is" in found.reason
    assert most_predictive(found.candidates, found.scores, found.spread).rank == 4


def test_prediction_is_refused_where_there_are_no_counts():
    X = np.random.default_rng(0).random((30, 20))
    with pytest.raises(InvalidInputError, match="prediction is for counts of cells"):
        select_rank(X, [2, 3], "prediction")
    assert select_rank(X, [2, 3], n_runs=2, random_state=0).method == "stability"


def test_batches_are_asked_alone_how_many_kinds_there_are():
    anndata = pytest.importorskip("anndata")
    X, _ = make_cells(1, n=300)
    batch = np.arange(len(X)) % 2
    rng = np.random.default_rng(0)
    other = np.exp(rng.normal(0, 0.8, X.shape[1]))  # each gene is seen more or less in batch 1
    X[batch == 1] = rng.poisson(X[batch == 1] * other)
    adata = anndata.AnnData(X, obs={"batch": batch.astype(str)})
    assert scverse.select(adata, range(2, 9), batch_key="batch").rank == 4


def test_a_direction_that_draws_out_all_clusters_alike_is_left_out():
    rng = np.random.default_rng(0)
    kinds, batch = rng.integers(5, size=500), rng.integers(2, size=500)
    corners = np.zeros((5, 7))
    corners[:, :5] = 8 * np.eye(5)
    places = corners[kinds] + rng.standard_normal((500, 7))
    assert without_shared_directions(places, np.arange(2, 10)).shape == (500, 7)
    places[:, 6] += 6 * batch
    found = without_shared_directions(places, np.arange(2, 10))
    assert found.shape == (500, 6)
    assert all(abs(np.corrcoef(column, batch)[0, 1]) < 0.2 for column in found.T)
