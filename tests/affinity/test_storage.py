"""How a table is stored, and the last bits of its sums, decide no answer."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits

from conecollapse import (
    CCNMF,
    AlternatingNMF,
    ConeCollapse,
    ConeNovelty,
    ConsensusNMF,
    GraphCCNMF,
    HierarchicalNMF,
    InvalidInputError,
    MinVolumeNMF,
    MultiplicativeNMF,
    OrthogonalNMF,
    ProjectiveNMF,
    SeparableNMF,
    SparseNMF,
    Unmixing,
)
from conecollapse._threads import limit_threads
from conecollapse.affinity import KNN, Diffusion, knn_graph
from conecollapse.affinity.exact import take_nearest
from conecollapse.affinity.neighbors import nearest
from conecollapse.io import open_table

quiet = pytest.mark.filterwarnings("ignore")
MODELS = [
    CCNMF(4, random_state=0),
    CCNMF(4, weighting="unit", random_state=0),
    CCNMF(4, affinity="knn", random_state=0),
    CCNMF(4, affinity=KNN(neighbors="approximate", metric="euclidean"), random_state=0),
    CCNMF(4, affinity="diffusion", random_state=0),
    CCNMF(4, affinity=Diffusion(metric="cosine"), random_state=0),
    GraphCCNMF(4, random_state=0),
    GraphCCNMF(4, view="root cosine", random_state=0),
    HierarchicalNMF(4, random_state=0),
    HierarchicalNMF(4, affinity="knn", random_state=0),
    AlternatingNMF(4, init="random", random_state=0),
    MultiplicativeNMF(4, random_state=0),
    MultiplicativeNMF(4, loss="kullback-leibler", random_state=0),
    SparseNMF(4, random_state=0),
    ProjectiveNMF(4, random_state=0),
    OrthogonalNMF(4, random_state=0),
    ConsensusNMF(4, n_runs=3, random_state=0),
    MinVolumeNMF(4),
    SeparableNMF(4),
    Unmixing(4),
    ConeCollapse(),
    ConeNovelty(),
]


def images():
    """Counts with half of the entries zero, and many equal distances."""
    return load_digits().data[:120]


def texts():
    """Counts of words: 5 % of the entries are not zero."""
    rng = np.random.default_rng(0)
    X = np.zeros((100, 300))
    for i, row in enumerate(X):
        near = rng.integers(75 * (i % 4), 75 * (i % 4) + 90, 12) % 300
        np.add.at(row, np.concatenate([near, rng.integers(0, 300, 4)]), 1)
    return X


TABLES = {"images": images(), "texts": texts()}


def cases(models):
    """Approximate neighbours are for tables that are not mostly zeros."""
    return [
        (model, table)
        for model in models
        for table in TABLES
        if table == "images" or "approximate" not in repr(model)
    ]


def with_zeros(X):
    """A CSR array with zeros that are stored, some of them negative, and columns in any order."""
    rng = np.random.default_rng(0)
    rows, columns = np.nonzero((X != 0) | (rng.random(X.shape) < 0.1))
    order = np.lexsort((rng.random(len(rows)), rows))
    rows, columns = rows[order], columns[order]
    values = X[rows, columns]
    values[(values == 0) & (rng.random(len(values)) < 0.5)] = -0.0
    ends = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(X)))])
    return sp.csr_array((values, columns, ends), shape=X.shape)


def kept_on_disk(X, folder):
    np.save(folder / "x.npy", X)
    return np.load(folder / "x.npy", mmap_mode="r")


def each_storage(X, folder):
    return {
        "Fortran order": np.asfortranarray(X),
        "CSR": sp.csr_array(X),
        "CSC": sp.csc_array(X),
        "COO": sp.coo_array(X),
        "stored zeros": with_zeros(X),
        "negative zeros": np.where(X == 0, -0.0, X),
        "float32": X.astype(np.float32),
        "float32, CSR": sp.csr_array(X.astype(np.float32)),
        "on disk": kept_on_disk(X, folder),
        "frame": pd.DataFrame(X, columns=[f"g{j}" for j in range(X.shape[1])]),
    }


def in_blocks(X, folder):
    da = pytest.importorskip("dask.array")
    np.save(folder / "x.npy", X)
    return {
        "an opened file": open_table(folder / "x.npy", block_size=40),
        "float32, CSR in blocks": open_table(sp.csr_array(X.astype(np.float32)), block_size=40),
        "Dask, by samples": da.from_array(X, chunks=(50, -1)),
        "Dask, by features": da.from_array(X, chunks=(-1, 20)),
    }


def found_by(model, X, scores=True):
    """What the answer is: labels or samples, exactly, and numbers, up to rounding."""
    model.fit(X)
    decided = {
        name: np.asarray(getattr(model, name))
        for name in ("labels_", "ray_indices_", "view_", "n_iter_")
        if hasattr(model, name)
    }
    numbers = {
        name: np.asarray(getattr(model, name), float)
        for name in ("components_", "threshold_", "residuals_")
        if getattr(model, name, None) is not None
    }
    if scores and hasattr(model, "score_samples"):
        numbers["scores"] = np.asarray(model.score_samples(X))
    return decided, numbers


@quiet
@pytest.mark.parametrize(("model", "table"), cases(MODELS), ids=repr)
def test_the_same_numbers_give_the_same_answer_however_they_are_stored(model, table, tmp_path):
    X = TABLES[table]
    answer = found_by(model, X)
    for name, stored in each_storage(X, tmp_path).items():
        assert_same(found_by(model, stored), answer, name)


def assert_same(found, wanted, name):
    (others, approximately), (decided, numbers) = found, wanted
    assert decided or numbers
    rounding = 1e-6 if "float32" in name else 1e-9
    for what, value in decided.items():
        np.testing.assert_array_equal(others[what], value, f"{what}, {name}")
    for what, value in numbers.items():
        largest = np.abs(value).max() if what == "components_" else 1.0  # others are shares
        np.testing.assert_allclose(
            approximately[what], value, 0, rounding * largest, err_msg=f"{what}, {name}"
        )


def needs_memory(model):
    """Graphs that are given, the divergence, mixtures and novelty: all other models read blocks."""
    is_divergence = getattr(model, "loss", "") == "kullback-leibler"
    mixtures = (MinVolumeNMF, SeparableNMF, Unmixing, ConeNovelty)
    return bool(getattr(model, "affinity", None)) or is_divergence or isinstance(model, mixtures)


@quiet
@pytest.mark.parametrize(("model", "table"), cases(MODELS), ids=repr)
def test_blocks_give_the_answer_of_the_whole_table(model, table, tmp_path):
    dask = pytest.importorskip("dask")
    X = TABLES[table]
    answer = None if needs_memory(model) else found_by(model, X, scores=False)
    with dask.config.set(scheduler="synchronous"):
        for name, stored in in_blocks(X, tmp_path).items():
            if answer is not None:
                assert_same(found_by(model, stored, scores=False), answer, name)
            else:
                with pytest.raises(InvalidInputError, match=r"in memory, and|needs single entries"):
                    model.fit(stored)


@quiet
@pytest.mark.parametrize(("model", "table"), cases(MODELS[2:8]), ids=repr)
def test_samples_are_recognized_however_they_are_stored(model, table, tmp_path):
    """Also those of `fit`, which keep their labels, and new ones next to them."""
    X = TABLES[table]
    model.fit(X[:-20])
    wanted = model.predict(X)
    np.testing.assert_array_equal(wanted[:-20], model.labels_)
    for name, stored in each_storage(X, tmp_path).items():
        if name != "frame":
            np.testing.assert_array_equal(model.predict(stored), wanted, name)


@quiet
@pytest.mark.parametrize("seed", range(3))
def test_generators_that_leave_a_choice_of_coefficients_leave_none_to_the_storage(seed):
    """More rays than samples: a feature is many combinations of them."""
    X = np.random.default_rng(seed).random((6, 200))
    dense, sparse = (CCNMF(2, random_state=0).fit(table) for table in (X, sp.csr_array(X)))
    assert dense.cone_.n_rays > 6
    np.testing.assert_array_equal(dense.labels_, sparse.labels_)
    np.testing.assert_allclose(dense.components_, sparse.components_, rtol=1e-9)


def test_the_metric_is_chosen_by_the_values():
    for X, metric in ((images(), "euclidean"), (texts(), "cosine")):
        wanted = knn_graph(X, 4, metric=metric)
        for stored in (X, sp.csr_array(X), with_zeros(X)):
            assert (knn_graph(stored, 4) != wanted).nnz == 0


def test_of_equally_near_samples_those_with_the_smaller_number_are_neighbours():
    """Equal up to rounding: no order of the features, and no unit, changes it."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (150, 30)).astype(float)
    squares = np.square(X[:, None] - X).sum(axis=2)
    np.fill_diagonal(squares, np.inf)
    wanted = np.argsort(squares, axis=1, kind="stable")[:, :6]
    assert (np.sort(squares, axis=1)[:, 5] == np.sort(squares, axis=1)[:, 6]).mean() > 0.3
    for unit in (1.0, 0.1, 1 / 3):
        for order in (np.arange(30), rng.permutation(30)):
            P = (X * unit)[:, order]
            for stored in (P, sp.csr_array(P), P.astype(np.float32)):
                index, distance = nearest(stored, stored, 6, "euclidean", exclude_self=True)
                if stored.dtype == float or unit == 1.0:
                    np.testing.assert_array_equal(np.sort(index), np.sort(wanted))
                np.testing.assert_allclose(
                    distance, unit * np.sqrt(np.take_along_axis(squares, wanted, 1)), rtol=1e-5
                )


def test_a_far_sample_blurs_no_others():
    X = np.vstack([np.random.default_rng(0).random((40, 5)), np.full((1, 5), 1e12)])
    wanted = nearest(X[:-1], X[:-1], 3, "euclidean", exclude_self=True)[0]
    found = nearest(X, X, 3, "euclidean", exclude_self=True)[0]
    np.testing.assert_array_equal(found[:-1], wanted)


def test_samples_at_infinity_are_taken_last():
    index, distance = take_nearest(np.array([[np.inf, 4.0, np.inf, 1.0]]), 3)
    assert index.tolist() == [[3, 1, 0]]
    assert distance.tolist() == [[1.0, 2.0, np.inf]]


@quiet
@pytest.mark.parametrize("model", MODELS[2:8], ids=repr)
def test_the_order_of_features_and_the_number_of_threads_decide_nothing(model):
    """Sums in another order have other last bits."""
    X = load_digits().data[:250]
    wanted = model.fit(X).labels_
    for seed in range(2):
        order = np.random.default_rng(seed).permutation(X.shape[1])
        for n_jobs in (1, 2):
            with limit_threads(n_jobs):
                np.testing.assert_array_equal(model.fit(X[:, order]).labels_, wanted)


SCRIPT = """
import hashlib, warnings
import numpy as np, scipy.sparse as sp
from sklearn.datasets import load_digits
from conecollapse import CCNMF, GraphCCNMF
warnings.simplefilter("ignore")
X = load_digits().data[:700]
for model in (GraphCCNMF(10), CCNMF(10, affinity="knn"), CCNMF(10, affinity="diffusion")):
    for table in (X, sp.csr_array(X)):
        labels = model.set_params(random_state=0).fit_predict(table)
        print(hashlib.sha256(labels.astype(np.int64).tobytes()).hexdigest())
"""


@pytest.mark.slow
def test_processors_agree():
    """OpenBLAS sums in another order for each of them; other libraries ignore the variables."""
    said = set()
    for core in ("Prescott", "Haswell"):
        for threads in ("1", "2"):
            env = {**os.environ, "OPENBLAS_CORETYPE": core, "OPENBLAS_NUM_THREADS": threads}
            run = subprocess.run(
                [sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=True
            )
            said.add(run.stdout)
    assert len(said) == 1
    lines = said.pop().split()
    assert lines[::2] == lines[1::2]
