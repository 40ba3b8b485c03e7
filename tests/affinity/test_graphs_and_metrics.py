"""Graphs of samples, their diffusion, scores of clusterings, and the choice of the rank."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from factors import clusters
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from conecollapse import GraphCCNMF, HierarchicalNMF, InvalidInputError, OrthogonalNMF, select_rank
from conecollapse.affinity.graphs import (
    WEIGHTS,
    check_graph,
    diffused_graph,
    knn_graph,
    n_parts,
    neighbor_rows,
    normalized,
    tie_small_parts,
)
from conecollapse.affinity.spectrum import leading_eigenpairs
from conecollapse.estimators.rank import METHODS
from conecollapse.factorization.resampling.rank_of_clusters import cophenetic_correlation
from conecollapse.metrics import (
    adjusted_rand_score,
    clustering_accuracy,
    contingency,
    normalized_mutual_info_score,
    purity_score,
)
from conecollapse.tables import DiffusedTable, as_table


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_knn_graph_is_the_graph_of_brute_force(metric, make):
    X = np.random.default_rng(0).random((40, 7)) + 0.01
    distance = cdist(X, X, metric)
    np.fill_diagonal(distance, np.inf)
    directed = np.zeros((40, 40))
    np.put_along_axis(directed, np.argsort(distance, axis=1)[:, :4], 1.0, axis=1)
    G = knn_graph(make(X), 4, metric=metric)
    np.testing.assert_array_equal(G.toarray(), np.maximum(directed, directed.T))


@pytest.mark.parametrize("weights", WEIGHTS)
def test_weights_are_symmetric_and_between_zero_and_one(weights):
    X = np.random.default_rng(0).random((40, 7))
    X[1] = X[0]  # two samples at distance zero
    X[2:9] = X[2]
    G = knn_graph(X, 4, metric="cosine", weights=weights)
    assert abs(G - G.T).max() == 0
    assert (G.data > 0).all()
    assert G.data.max() <= 1 + 1e-12
    assert (G.diagonal() == 0).all()


def test_shared_neighbours_by_hand():
    X = np.array([[0.0], [1.0], [2.1], [10.0], [11.0], [12.1]])
    G = knn_graph(X, 2, metric="euclidean", weights="shared").toarray()
    assert G[0, 1] == pytest.approx(1.0)  # {0, 1, 2} and {1, 0, 2}
    assert G[0, 3] == 0
    assert n_parts(sp.csr_array(G)) == 2


@pytest.mark.slow
@settings(max_examples=30)
@given(seed=st.integers(0, 2**31), damping=st.sampled_from([0.1, 0.5, 0.8, 0.95]))
def test_diffusion_applied_is_diffusion_formed(seed, damping):
    rng = np.random.default_rng(seed)
    X = rng.random((30, 4))
    G = knn_graph(X, 3)
    M = diffused_graph(G, damping).array
    operator = DiffusedTable(normalized(G), damping)
    B = rng.standard_normal((30, 3))
    np.testing.assert_allclose(operator @ B, M @ B, atol=1e-11)
    np.testing.assert_allclose(operator.T @ B, M.T @ B, atol=1e-11)
    np.testing.assert_allclose(
        (np.eye(30) - damping * normalized(G).toarray()) @ M, np.eye(30), atol=1e-11
    )
    assert M.min() >= 0
    assert (operator @ np.abs(B)).min() >= 0
    np.testing.assert_allclose(operator.row_lengths, np.linalg.norm(M, axis=1), rtol=0.4)
    assert operator.squared_norm == pytest.approx(np.square(M).sum(), rel=0.1)


def test_isolated_samples_have_a_place_in_the_diffusion():
    G = sp.csr_array((3, 3))
    np.testing.assert_allclose(diffused_graph(G, 0.5).array, 2 * np.eye(3))


def test_new_samples_find_their_neighbours():
    X = np.array([[0.0], [1.0], [5.0]])
    np.testing.assert_array_equal(
        neighbor_rows(np.array([[0.4], [4.0]]), X, 1, metric="euclidean").toarray(),
        [[1, 0, 0], [0, 0, 1]],
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda X: knn_graph(X, 9),
            r"n_neighbors = 9, but each of the 4 samples has only 3 others",
        ),
        (lambda X: knn_graph(X, 0), r"n_neighbors must be an integer of at least 1"),
        (
            lambda X: knn_graph(X, 2, metric="manhattan"),
            r"metric must be one of auto, euclidean, cosine; got 'manhattan'",
        ),
        (
            lambda X: knn_graph(X, 2, weights="heat"),
            r"weights must be one of binary, cosine, local, shared; got 'heat'",
        ),
        (
            lambda X: knn_graph(X, 2, weights="cosine", metric="euclidean"),
            r'weights="cosine" needs metric="cosine"',
        ),
        (
            lambda X: diffused_graph(knn_graph(X, 2), 1.0),
            r"damping must be a number above 0 and below 1; got 1\.0",
        ),
        (
            lambda _: diffused_graph(-np.ones((3, 3))),
            r"G has 9 negative entries.*a graph needs weights >= 0",
        ),
        (lambda _: diffused_graph(np.triu(np.ones((3, 3)))), r"G is not symmetric"),
        (check_graph, r"a graph of samples is square"),
    ],
)
def test_bad_graphs(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call(np.random.default_rng(0).random((4, 3)))


@pytest.mark.parametrize("scale", [1e-200, 1e200])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_graphs_know_no_scale_and_no_storage(scale, metric):
    X = np.random.default_rng(0).random((30, 30)) * (
        np.random.default_rng(1).random((30, 30)) < 0.5
    )
    G = knn_graph(X, 3, metric=metric).toarray()
    for table in (X * scale, sp.csc_array(X), sp.coo_array(X), sp.lil_array(X), X.tolist()):
        np.testing.assert_array_equal(knn_graph(table, 3, metric=metric).toarray(), G)


def test_the_largest_entry_of_a_diffusion_is_on_its_diagonal():
    G = knn_graph(np.random.default_rng(0).random((60, 4)), 4)
    M = diffused_graph(G, 0.8).array
    assert M.max() == M.diagonal().max()
    assert DiffusedTable(normalized(G), 0.8).peak == pytest.approx(M.max(), rel=0.25)


@pytest.mark.slow
def test_every_copy_of_a_repeated_eigenvalue_is_found():
    """Nine parts have the eigenvalue 1 nine times; Lanczos from one vector would find it once."""
    X = np.repeat(np.eye(9), 90, axis=0) * 100 + np.random.default_rng(0).random((810, 9))
    N = normalized(knn_graph(X, 5))
    values, vectors = leading_eigenpairs(N, 12, np.random.default_rng(0))
    exact = np.linalg.eigvalsh(N.toarray())[::-1][:12]
    np.testing.assert_allclose(values, exact, atol=2e-3)
    assert (values[:9] > 1 - 1e-5).all()
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(12), atol=1e-4)


def test_small_parts_are_tied_to_the_rest():
    X = np.vstack(
        [np.random.default_rng(0).random((40, 3)), 50 + np.random.default_rng(1).random((4, 3))]
    )
    G = knn_graph(X, 3, metric="euclidean", weights="shared")
    tied, count = tie_small_parts(G, X, 10, 3, "euclidean")
    assert (n_parts(G), n_parts(tied), count) == (2, 1, 4)
    assert abs(tied - tied.T).max() == 0
    assert tie_small_parts(G, X, 2, 3, "euclidean")[1] == 0


def test_row_weights_of_a_diffusion():
    rng = np.random.default_rng(0)
    G = knn_graph(rng.random((30, 4)), 3)
    base, weights = sp.csr_array(rng.random((30, 8))), rng.random(30) + 0.5
    M = diffused_graph(G, 0.6).array @ base.toarray()
    operator = DiffusedTable(normalized(G), 0.6, base, row_weights=weights)
    np.testing.assert_allclose(operator @ np.eye(8), M * weights[:, None], atol=1e-12)
    np.testing.assert_allclose(operator.T @ np.eye(30), (M * weights[:, None]).T, atol=1e-12)
    unit = DiffusedTable(normalized(G), 0.6, base, row_weights=weights, unit_rows=True)
    np.testing.assert_allclose(np.linalg.norm(unit @ np.eye(8), axis=1), weights, rtol=0.3)


@settings(max_examples=60)
@given(data=st.data())
def test_metrics_ignore_names_and_agree_with_brute_force(data):
    n = data.draw(st.integers(1, 12))
    y = np.array(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    z = np.array(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    renamed = np.array(["d", "a", "c", "b"])[z]
    by_hand = sum(max(np.bincount(y[z == k])) for k in set(z)) / n
    assert purity_score(y, z) == pytest.approx(by_hand)
    for score in (purity_score, clustering_accuracy):
        assert score(y, z) == score(y, renamed) == score(np.array(["w", "x", "y", "z"])[y], z)
        assert score(y, y) == 1.0
    assert clustering_accuracy(y, z) <= purity_score(y, z)
    assert contingency(y, z).sum() == n


def test_purity_of_the_definition():
    assert purity_score([0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 2, 2]) == pytest.approx(5 / 6)
    assert clustering_accuracy([0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 2, 2]) == pytest.approx(4 / 6)
    assert (
        adjusted_rand_score([0, 1], [1, 0]) == normalized_mutual_info_score([0, 1], [1, 0]) == 1.0
    )


@pytest.mark.parametrize(
    ("y", "z", "message"),
    [
        ([0, 1], [0], "labels_true has 2 samples and labels_pred 1"),
        ([], [], "expected one label for each sample"),
        ([[0]], [0], "labels_true has shape"),
        ([0.0, np.nan], [0, 1], "labels_true has no label for sample 1"),
        (["a", None], [0, 1], "labels_true has no label for sample 1"),
    ],
)
def test_bad_labels(y, z, message):
    with pytest.raises(InvalidInputError, match=message):
        purity_score(y, z)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("method", ["stability", "consensus", "residual"])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_the_planted_rank_is_found(method, make):
    X, _ = clusters(np.random.default_rng(2), sizes=(20, 20, 20, 20), n_features=40)
    found = select_rank(make(X), range(2, 8), method, n_runs=6, random_state=0)
    assert found.rank == 4
    assert found.candidates.tolist() == list(range(2, 8))
    assert found.scores.shape == found.spread.shape == (6,)
    assert (found.reference is not None) == (method == "residual")
    assert found.reason
    again = select_rank(make(X), range(2, 8), method, n_runs=6, random_state=0)
    np.testing.assert_array_equal(found.scores, again.scores)


def test_rank_selection_takes_any_estimator():
    X, _ = clusters(np.random.default_rng(2))
    assert select_rank(
        X, [2, 3, 4], "residual", estimator=HierarchicalNMF(tol=1e-3), n_runs=2, random_state=0
    ).rank in (2, 3, 4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"candidates": []}, "candidates is empty"),
        ({"candidates": [0]}, "each candidate must be an integer of at least 1; got 0"),
        (
            {"candidates": [50]},
            "candidate 50 exceeds the number of samples that stability works with, 48",
        ),
        ({"candidates": [1, 2]}, "rank 1 puts all samples together"),
        ({"candidates": 3}, "candidates must be several ranks"),
        (
            {"method": "elbow"},
            (
                "method must be one of auto, prediction, stability, eigengap, heldout, consensus,"
                " residual; got 'elbow'"
            ),
        ),
    ],
)
def test_bad_rank_selection(arguments, message):
    X, _ = clusters(np.random.default_rng(2))
    with pytest.raises(InvalidInputError, match=message):
        select_rank(X, **arguments)


@pytest.mark.parametrize("method", [m for m in METHODS if m != "prediction"])  # counts have none
def test_the_unit_of_the_table_does_not_matter_for_its_rank(method):
    X, _ = clusters(np.random.default_rng(2), sizes=(10, 10, 10))
    ours = select_rank(X, [2, 3, 4], method, n_runs=2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for power in (-900, -95, -65, 65, 95, 900):
            other = select_rank(np.ldexp(X, power), [2, 3, 4], method, n_runs=2, random_state=0)
            assert (other.rank, other.ties) == (ours.rank, ours.ties)


def test_missing_entries_are_neither_fitted_nor_held_out():
    rng = np.random.default_rng(1)
    W, H = rng.gamma(0.5, 1.0, (60, 3)), rng.gamma(0.5, 1.0, (3, 40))
    X = np.maximum(W @ H + 0.02 * rng.standard_normal((60, 40)), 0)
    X[rng.random(X.shape) < 0.2] = np.nan
    found = select_rank(X, range(1, 6), "heldout", n_runs=3, random_state=0)
    assert found.rank == 3
    for same in (np.ma.masked_invalid(X), pd.DataFrame(X)):
        np.testing.assert_array_equal(
            select_rank(same, range(1, 6), "heldout", n_runs=3, random_state=0).scores, found.scores
        )
    table = rng.poisson(3.0, (12, 8)).astype(float)
    known = np.ones(table.shape, bool)
    known[0, 1:] = known[1:6, 0] = False  # the only known entry of row 0 is held out in one fold
    found = select_rank(np.where(known, table, np.nan), [1, 2], "heldout", n_runs=3, random_state=0)
    assert np.isfinite(found.scores).all()
    assert "divergence" in found.reason


@pytest.mark.parametrize(
    ("at", "method", "make", "message"),
    [
        (
            (4, 2),
            "stability",
            np.asarray,
            'X has NaN at row 4, column 2; of the methods only "heldout" can use missing values',
        ),
        (
            (4, 2),
            "heldout",
            sp.csr_array,
            'X has NaN at row 4, column 2; of the methods only "heldout" can .* in a dense table',
        ),
        ((4, slice(None)), "heldout", np.asarray, "all entries of row 4 of X are missing"),
        ((slice(None), 2), "heldout", np.asarray, "all entries of column 2 of X are missing"),
    ],
)
def test_missing_entries_that_rank_selection_refuses(at, method, make, message):
    X = np.random.default_rng(0).random((12, 5))
    X[at] = np.nan
    with pytest.raises(InvalidInputError, match=message):
        select_rank(make(X), [2, 3], method)


@pytest.mark.parametrize("method", ["stability", "consensus", "residual"])
def test_rank_selection_on_a_graph_and_on_few_features(method):
    X, _ = clusters(np.random.default_rng(2))
    G = knn_graph(X, 8, metric="cosine")
    model = OrthogonalNMF(affinity="precomputed", init="random", n_init=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if method == "residual":
            with pytest.raises(
                InvalidInputError, match="residual shuffles features, and a graph has none"
            ):
                select_rank(G, [2, 3, 4], method, estimator=model)
        else:
            assert select_rank(
                G, [2, 3, 4], method, estimator=model, n_runs=3, random_state=0
            ).rank in (2, 3, 4)
        assert select_rank(X[:, :4], range(2, 7), method, n_runs=2, random_state=0).rank in range(
            2, 7
        )


def test_cophenetic_correlation_of_agreement_is_one():
    labels = np.array([0, 0, 1, 1, 2])
    assert cophenetic_correlation((labels[:, None] == labels).astype(float)) == pytest.approx(1.0)
    assert cophenetic_correlation(np.ones((3, 3))) == 1.0


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_shuffled_features_keep_their_values(make):
    X = np.random.default_rng(0).random((20, 5)) * (np.random.default_rng(1).random((20, 5)) < 0.5)
    Y = as_table(make(X)).shuffled(np.random.default_rng(0)).array
    Y = Y.toarray() if sp.issparse(Y) else Y
    np.testing.assert_allclose(np.sort(Y, axis=0), np.sort(X, axis=0))
    assert not np.array_equal(Y, X)


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_the_eigenvalues_of_a_graph_fall_after_as_many_as_there_are_clusters(storage):
    rng = np.random.default_rng(0)
    for k in (2, 5):
        words = 0.9 * rng.dirichlet(np.full(60, 0.1), k) + 0.1 / 60
        X = storage(np.array([rng.multinomial(50, words[i % k]) for i in range(90)], dtype=float))
        found = select_rank(X, range(2, 8), "eigengap", random_state=0)
        assert found.rank == k
        assert found.scores.argmax() == k - 2
        assert found.reason.startswith("the largest gap between the eigenvalues of the graph")
    assert (
        "'root'"
        in select_rank(
            X, [4, 5], "eigengap", estimator=GraphCCNMF(view="root"), random_state=0
        ).reason
    )


def test_eigengaps_are_of_graph_ccnmf_and_need_one_more_eigenvalue():
    X = np.random.default_rng(0).random((8, 3))
    with pytest.raises(InvalidInputError, match="graph of a GraphCCNMF; got OrthogonalNMF"):
        select_rank(X, [2, 3], "eigengap", estimator=OrthogonalNMF())
    with pytest.raises(
        InvalidInputError, match="candidate 8 leaves no eigenvalue after it: 8 samples are distinct"
    ):
        select_rank(X, [2, 8], "eigengap")
