"""Many samples: approximate neighbours, the diffusion that is applied, and tables that are not in
memory."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
from factors import clusters

from conecollapse import GraphCCNMF, InvalidInputError, SlowWarning
from conecollapse._linalg import RowBlocks
from conecollapse._threads import limit_threads
from conecollapse.affinity import KNN, knn_graph, neighbors
from conecollapse.affinity.cells import cell_neighbors, random_samples
from conecollapse.affinity.graphs import normalized
from conecollapse.affinity.neighbors import nearest
from conecollapse.affinity.spectrum import _filter
from conecollapse.io import open_table
from conecollapse.metrics import adjusted_rand_score, purity_score
from conecollapse.tables import DiffusedTable, as_table

X, y = clusters(np.random.default_rng(0), sizes=(90, 80, 70), n_features=20)
WITH_ZEROS = X.copy()
WITH_ZEROS[[3, 200]] = 0.0


class Large(GraphCCNMF):
    """As of samples that are too many to form their diffusion or to be held in memory."""

    _limits: ClassVar = {"formed": 10, "gathered": 0, "sample_rows": 60}


quiet = pytest.mark.filterwarnings("ignore::conecollapse.EmptyDataWarning")


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_nearly_all_true_neighbours_are_found_by_any_number_of_threads(metric):
    # far from the origin, where float32 is coarse
    P = np.random.default_rng(0).random((2000, 12)) + 1e3 * (metric == "euclidean")
    truth, distance = nearest(P, P, 5, metric, exclude_self=True)
    found, about = nearest(P, P, 5, metric, exclude_self=True, search="approximate")
    assert (truth[:, :, None] == found[:, None]).any(axis=2).mean() > 0.95
    same = found == truth
    np.testing.assert_allclose(about[same], distance[same], rtol=1e-3)
    for n_jobs in (1, 2):
        with limit_threads(n_jobs):
            np.testing.assert_array_equal(
                nearest(P, P, 5, metric, exclude_self=True, search="approximate")[0], found
            )


def test_a_sample_is_not_its_own_neighbour_however_many_copies_it_has():
    P = np.repeat(np.random.default_rng(0).random((3, 4)), [40, 20, 7], axis=0)
    found, distance = nearest(P, P, 5, "euclidean", exclude_self=True, search="approximate")
    assert (found != np.arange(len(P))[:, None]).all()
    assert (found >= 0).all()
    assert distance.max() < 1e-6


def test_copies_do_not_hide_how_hard_the_others_are_to_find():
    P = np.vstack([np.zeros((2000, 6)), np.random.default_rng(0).random((3000, 6))])
    found = nearest(P, P, 5, "euclidean", exclude_self=True, search="approximate")[0][2000:]
    truth = nearest(P, P, 5, "euclidean", exclude_self=True)[0][2000:]
    assert (truth[:, :, None] == found[:, None]).any(axis=2).mean() > 0.93


def test_as_many_cells_are_searched_as_the_recall_needs():
    """Separate clusters need few cells, and noise in all of 40 dimensions nearly all of them."""
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((4000, 40))
    apart = noise + 40 * np.eye(40)[rng.integers(0, 8, 4000)]
    shares = []
    for P in (apart, noise):
        asked = random_samples(len(P))
        truth = nearest(P, P, 5, "euclidean", exclude_self=True)[0]
        found = cell_neighbors(P, 5, (asked, truth[asked]))
        assert (truth[:, :, None] == found.index[:, None]).any(axis=2).mean() > 0.93
        shares.append(found.n_probed / found.n_cells)
    assert shares[0] < 0.4 < shares[1]


def mostly_zeros(X):
    """The same samples among many features that none of them has."""
    return np.hstack([X, np.zeros((len(X), 9 * X.shape[1]))])


def test_beyond_so_many_samples_neighbours_are_approximate():
    """Unless they are mostly zeros, however they are stored."""
    many = np.ones((neighbors.MANY + 1, 2))
    for table, search, wanted in (
        (many, "auto", True),
        (sp.csr_array(many), "auto", True),
        (mostly_zeros(many), "auto", False),
        (sp.csr_array(mostly_zeros(many)), "auto", False),
        (many, "exact", False),
        (many[1:], "auto", False),
        (X, "approximate", True),
    ):
        samples = neighbors.as_compared(as_table(table)).array
        assert neighbors.is_approximate(search, samples) == wanted


@pytest.mark.parametrize(
    ("make", "faster"),
    [(np.asarray, "neighbors='approximate' is faster"), (sp.csr_array, "fit a random part")],
)
def test_exact_neighbours_of_many_samples_are_announced(make, faster):
    samples = make(np.ones((10**6, 1)))
    with pytest.warns(
        SlowWarning,
        match=f"finding the exact neighbours of 1000000 samples may take about .*; {faster}",
    ):
        neighbors.announce(samples)


def test_searches_that_are_refused():
    with pytest.raises(
        InvalidInputError, match="neighbors must be one of auto, exact, approximate; got 'fast'"
    ):
        GraphCCNMF(3, neighbors="fast").fit(X)
    with pytest.raises(
        InvalidInputError, match="approximate neighbours are not for tables that are mostly zeros"
    ):
        KNN(5, neighbors="approximate").source(as_table(mostly_zeros(X)), 3)


@pytest.mark.slow
def test_clusters_are_those_of_exact_neighbours():
    approximate = GraphCCNMF(3, neighbors="approximate", random_state=0).fit(X)
    assert (
        adjusted_rand_score(
            GraphCCNMF(3, neighbors="exact", random_state=0).fit_predict(X), approximate.labels_
        )
        == 1
    )
    np.testing.assert_array_equal(approximate.predict(X), approximate.labels_)


@pytest.mark.parametrize("weighting", ["mass", "unit"])
def test_a_diffusion_that_is_applied_gives_the_clusters_of_one_that_is_formed(weighting):
    formed = GraphCCNMF(3, weighting=weighting, random_state=0).fit(X)
    applied = Large(3, weighting=weighting, random_state=0).fit(X)
    np.testing.assert_array_equal(applied.labels_, formed.labels_)
    np.testing.assert_allclose(
        applied.components_, formed.components_, rtol=0.05, atol=0.05 * formed.components_.max()
    )


def test_a_graph_in_blocks_is_the_graph():
    """To the last bit, by any number of threads: the diffusion, and the filter by which its
    eigenvectors are found."""
    N = normalized(knn_graph(np.random.default_rng(0).random((700, 3)), 4))
    B = np.random.default_rng(1).standard_normal((700, 5)).astype(np.float32)

    def measured(step):
        table = DiffusedTable(N, 0.6, dtype=np.float32)
        table._blocks = RowBlocks(N, step)
        return table.solve(B), _filter(RowBlocks(N, step), B, 0.5)

    whole = measured(700)
    for n_jobs in (1, 2):
        with limit_threads(n_jobs):
            for part, expected in zip(measured(90), whole, strict=True):
                np.testing.assert_array_equal(part, expected)


@quiet
def test_an_opened_file_gives_the_clusters_of_its_array(tmp_path):
    np.save(tmp_path / "x.npy", WITH_ZEROS)
    table = open_table(tmp_path / "x.npy", block_size=50)
    expected = GraphCCNMF(3, random_state=0).fit(WITH_ZEROS)
    found = GraphCCNMF(3, random_state=0).fit(table)
    np.testing.assert_array_equal(found.labels_, expected.labels_)
    np.testing.assert_allclose(found.components_, expected.components_, rtol=1e-9)
    np.testing.assert_array_equal(found.predict(table), found.labels_)
    np.testing.assert_array_equal(expected.predict(table), expected.labels_)


@quiet
@pytest.mark.parametrize("kind", ["file", "sparse", "filled sparse", "dask"])
def test_what_does_not_fit_into_memory_is_clustered_by_its_coordinates(kind):
    """As the separate clusters that these are; a sample gets the same cluster again however its row
    comes."""
    array = WITH_ZEROS
    if kind == "dask":
        table = pytest.importorskip("dask.array").from_array(array, chunks=(100, 11))
    else:
        zeros = np.zeros((len(array), 300 if kind == "sparse" else 10))
        array = sp.csr_array(np.hstack([array, zeros])) if "sparse" in kind else array
        table = open_table(array, block_size=70)
    model = Large(3, random_state=0).fit(table)
    labels = np.asarray(model.labels_)
    assert labels[3] == labels[200] == -1
    assert purity_score(y[labels >= 0], labels[labels >= 0]) == 1
    np.testing.assert_array_equal(model.predict(array), labels)
    np.testing.assert_array_equal(np.asarray(model.predict(table)), labels)
    assert model.cone_.n_rays == (labels >= 0).sum()
    members = np.equal.outer(np.arange(3), labels)
    dense = array.toarray() if "sparse" in kind else array
    np.testing.assert_allclose(
        model.profiles_, members @ dense / members.sum(axis=1)[:, None], rtol=1e-9
    )
