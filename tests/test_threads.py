"""Threads and processes: concurrent calls, forks after use, and limits that hold."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from cones import planted
from conftest import takes_arrays
from threadpoolctl import threadpool_info

from conecollapse import CCNMF, Cone, ConeNovelty, GraphCCNMF, HierarchicalNMF, nnls
from conecollapse._linalg import LARGE_PRODUCT, dense_product, gram_of
from conecollapse._threads import available_threads, current_threads, for_ranges, limit_threads
from conecollapse.factorization import hals, initialize

hals = takes_arrays(hals)
initialize = takes_arrays(initialize)


def rays_of(seed):
    return Cone.from_points(planted(np.random.default_rng(seed), 10, 25, 150)).ray_indices.tolist()


def test_cones_and_nnls_in_several_python_threads_at_once():
    expected = [rays_of(seed) for seed in range(8)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(rays_of, range(8))) == expected
        A, B = np.random.default_rng(0).random((40, 300)), np.random.default_rng(1).random((40, 50))
        answers = list(pool.map(lambda _: nnls(A, B)[1], range(6)))
    for answer in answers:
        np.testing.assert_allclose(answer, answers[0])


def test_blas_threads_are_restored_after_overlapping_calls():
    def blas():
        return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]

    rays_of(0)
    before = blas()
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(rays_of, [1, 2, 3] * 6))
    assert blas() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_can_go_on():
    expected = rays_of(1)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(rays_of, (1,)).get(timeout=120) == expected


def test_every_item_is_visited_once_and_limits_hold():
    for limit in (1, 2, 5, None):
        visits, names, inner = np.zeros(1000, int), set(), set()

        def work(start, stop, visits=visits, names=names, inner=inner):
            visits[start:stop] += 1
            names.add(threading.get_ident())
            inner.add(current_threads())

        with limit_threads(limit) as granted:
            for_ranges(work, 1000)
        assert (visits == 1).all()
        assert len(names) <= granted
        if granted > 1:
            assert inner == {1}  # threads do not nest


def test_an_error_in_a_thread_reaches_the_caller():
    def work(start, stop):
        raise RuntimeError(f"piece {start} to {stop}")

    with limit_threads(3), pytest.raises(RuntimeError, match="piece"):
        for_ranges(work, 100)
    with limit_threads(3):
        for_ranges(lambda *_: None, 100)  # and the pool still works


def test_the_environment_can_lower_the_number_of_threads(monkeypatch):
    for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    assert available_threads() == 6
    for value, expected in [
        ("1", 1),
        ("4", 4),
        ("99", 6),
        ("many", 6),
        ("0", 6),
        ("-2", 6),
        ("", 6),
    ]:
        monkeypatch.setenv("OMP_NUM_THREADS", value)
        assert available_threads() == expected
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    monkeypatch.setenv("NUMBA_NUM_THREADS", "3")
    assert available_threads() == 3


def test_large_products_and_hals_are_the_same_for_any_number_of_threads():
    rng = np.random.default_rng(0)
    X = rng.random((900, 40)) @ rng.random((40, 700)) + rng.random((900, 700))
    W, H = initialize(X, 40, "random", rng)
    assert min(X.size * 40, W.size * 40 * 4) > LARGE_PRODUCT
    tall = np.vstack([W] * 4)

    def everything():
        found = hals(X, W, H, tol=0, max_iter=3)
        return (
            dense_product(X, H.T),
            dense_product(X.T, W),
            gram_of(tall),
            found.W,
            found.H,
            found.history,
        )

    answers = []
    for n_jobs in (1, 2, 4):
        with limit_threads(n_jobs):
            answers.append(everything())
    for other in answers[1:]:
        for one, same in zip(answers[0], other, strict=True):
            np.testing.assert_array_equal(one, same)
    for product, plain in zip(answers[0], (X @ H.T, X.T @ W, tall.T @ tall), strict=False):
        np.testing.assert_allclose(product, plain, rtol=1e-12)


WORKERS = """
import multiprocessing, pickle, sys

def labels(model, X):
    return model.predict(X).tolist()

def main(method, file):
    with open(file, "rb") as f:
        models, X, expected = pickle.load(f)
    with multiprocessing.get_context(method).Pool(1) as pool:
        for model, labels_of_fit in zip(models, expected):
            found = pool.apply_async(labels, (model, X)).get(timeout=100)
            assert found == labels_of_fit, type(model)
    print("equal")

if __name__ == "__main__":
    main(*sys.argv[1:])
"""


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_predict_with_a_model_that_was_loaded_before(method, tmp_path):
    """Graph methods too: the parent has loaded them, and called none of their methods."""
    rng = np.random.default_rng(0)
    X = np.kron(np.eye(3), np.ones((40, 8))) + 0.3 * rng.random((120, 24))
    new = X[::3] + 0.1 * rng.random((40, 24))
    models = [
        model.fit(X)
        for model in (
            HierarchicalNMF(3, random_state=0),
            GraphCCNMF(3, random_state=0),
            CCNMF(3, affinity="knn", random_state=0),
        )
    ]
    file, script = tmp_path / "models.pickle", tmp_path / "workers.py"
    file.write_bytes(pickle.dumps((models, new, [m.predict(new).tolist() for m in models])))
    script.write_text(WORKERS)
    done = subprocess.run(
        [sys.executable, script, method, file], capture_output=True, text=True, timeout=300
    )
    assert done.stdout == "equal\n", done.stderr


@pytest.mark.slow
def test_methods_without_a_graph_work_in_a_worker_forked_after_they_were_used():
    rng = np.random.default_rng(0)
    X = np.kron(np.eye(3), np.ones((40, 8))) + 0.3 * rng.random((120, 24))
    for model in (HierarchicalNMF(3, random_state=0), CCNMF(3, random_state=0), ConeNovelty()):
        expected = model.fit(X).predict(X)
        with multiprocessing.get_context("fork").Pool(1) as pool:
            found = pool.apply_async(model.predict, (X,)).get(timeout=100)
        np.testing.assert_array_equal(found, expected)
