"""Dask arrays, on threads and on a real cluster: the local result, named tasks, killed workers,
lost schedulers."""

from __future__ import annotations

import concurrent.futures
import os
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import load_points, seeds

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
import dask.array as da  # noqa: E402

from conecollapse import (  # noqa: E402
    CCNMF,
    CheckpointError,
    ClusterError,
    Cone,
    ConeCollapse,
    _memory,
)
from conecollapse.geometry import blocks  # noqa: E402
from conecollapse.geometry.blocks import part_of_shares  # noqa: E402
from conecollapse.tables import as_table  # noqa: E402
from conecollapse.tables.dask import Watch  # noqa: E402

CHUNKS = {"features": (-1, 23), "samples": (17, -1), "both": (21, 31)}
SCHEDULER = """
import time
from distributed import LocalCluster
options = dict(
    n_workers=1, threads_per_worker=1, processes=False, protocol="tcp://",
    dashboard_address=":0", worker_dashboard_address=":0",
)
with LocalCluster(**options) as cluster:
    print(cluster.scheduler_address, flush=True)
    time.sleep(120)
"""


def problem(seed):
    """Samples of three kinds; some features are sums of two others. Wide or tall."""
    rng = np.random.default_rng(seed)
    n, m = [(30, 70), (120, 40)][seed % 2]
    kind = rng.integers(3, size=n)
    X = rng.gamma(0.5, size=(n, m)) * (1 + 6 * (rng.random((3, m)) < 0.3)[kind])
    X[:, -5:] = X[:, :5] + X[:, 5:10]
    if seed % 3 == 2:
        X *= rng.random(X.shape) < 0.4
        X[:, 0] += 0.1
    return X


def array(X, how, sparse=False):
    D = da.from_array(X, chunks=CHUNKS[how])
    return D.map_blocks(sp.csr_array) if sparse else D


def assert_same(model, local):
    assert isinstance(model.labels_, da.Array)
    np.testing.assert_array_equal(model.cone_.ray_indices, local.cone_.ray_indices)
    np.testing.assert_array_equal(model.labels_.compute(), local.labels_)
    assert model.reconstruction_err_ == pytest.approx(local.reconstruction_err_, rel=1e-9)
    # the few words inside the cone of others may be combinations of rays in several ways
    if not sp.issparse(local.cone_.rays):
        np.testing.assert_allclose(
            model.components_, local.components_, atol=1e-9 * np.abs(local.components_).max()
        )


@pytest.fixture(autouse=True)
def _threads(request):
    if "cluster" in request.fixturenames:
        yield
        return
    with dask.config.set(scheduler="threads", num_workers=2):
        yield


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes."""
    with (
        dask.config.set(
            {
                "distributed.comm.timeouts.connect": "5s",
                "distributed.scheduler.allowed-failures": 10,
            }
        ),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as workers,
        distributed.Client(workers) as client,
    ):
        yield client


@pytest.mark.parametrize("seed", seeds(10, quick=3))
def test_dask_equals_local(seed):
    """Same rays and, for the same start, same labels, however the array is chunked."""
    X = problem(seed)
    how, sparse = list(CHUNKS)[seed % 3], seed % 4 == 3
    held = sp.csr_array(X) if sparse else X
    local = CCNMF(3, n_init=2, random_state=0).fit(held)
    model = CCNMF(3, n_init=2, random_state=0).fit(array(X, how, sparse))
    assert_same(model, local)
    assert model.labels_.chunks == (array(X, how).chunks[0],)
    np.testing.assert_array_equal(model.predict(array(X, how)).compute(), local.predict(X))
    start = np.random.default_rng(seed).integers(3, size=len(X))
    assert_same(CCNMF(3, init=start).fit(array(X, how, sparse)), CCNMF(3, init=start).fit(held))


def assert_same_sample(make, P):
    wanted = Cone.sample(P, 300, random_state=1)
    for how in CHUNKS:
        cone = Cone.sample(make(P, how), 300, random_state=1)
        np.testing.assert_array_equal(cone.ray_indices, wanted.ray_indices)
        np.testing.assert_array_equal(cone.counts, wanted.counts)
        assert cone.missed == wanted.missed
        cone.verify(make(P, how))


@pytest.mark.parametrize("seed", range(3))
def test_a_sample_of_rays_is_that_of_the_array(seed):
    assert_same_sample(array, problem(seed))
    assert_same_sample(lambda P, how: array(P, how, sparse=True), problem(seed))


@pytest.mark.usefixtures("cluster")
def test_a_sample_of_rays_is_the_same_on_workers_and_from_a_file(tmp_path):
    P = problem(1)
    assert_same_sample(array, P)
    np.save(tmp_path / "p.npy", P)
    table = da.from_array(np.load(tmp_path / "p.npy", mmap_mode="r"), chunks=(19, -1))
    cone, wanted = (Cone.sample(points, 300, random_state=1) for points in (table, P))
    np.testing.assert_array_equal(cone.winners, wanted.winners)
    assert cone.missed == wanted.missed


@pytest.mark.parametrize("how", CHUNKS)
def test_cones_and_selectors_of_dask_arrays(how):
    for seed in (0, 1):
        X = problem(seed)
        direct = Cone.from_points(X.T)
        for cone in (
            Cone.from_points(array(X, how).T),
            Cone.from_table(array(X, how)),
            Cone.from_points(array(X, how, sparse=True).T),
        ):
            np.testing.assert_array_equal(cone.ray_indices, direct.ray_indices)
            cone.verify(X.T)
        selector = ConeCollapse().fit(array(X, how))
        np.testing.assert_array_equal(selector.get_support(), ConeCollapse().fit(X).get_support())
        np.testing.assert_allclose(selector.rays_ @ selector.coefficients_, X, atol=1e-6)
    Cone.from_table(array(X, how)).verify(array(X, how))  # tall: in two passes over the blocks


@pytest.mark.slow
def test_dask_equals_local_on_genes_and_words():
    genes = load_points("AMLALL").T
    local = CCNMF(3, n_init=3, random_state=0).fit(genes)
    assert_same(
        CCNMF(3, n_init=3, random_state=0).fit(da.from_array(genes, chunks=(-1, 1250))), local
    )


@pytest.mark.slow
def test_dask_equals_local_on_a_large_corpus():
    words = load_points("REUTERS").T
    # unit documents
    words = sp.csr_array(sp.diags_array(1 / np.sqrt(words.multiply(words).sum(axis=1))) @ words)
    columns = np.array_split(np.arange(words.shape[1]), 4)
    by_words = sp.csc_array(words)
    parts = [
        da.from_delayed(
            dask.delayed(sp.csr_array(by_words[:, c])), (words.shape[0], len(c)), words.dtype
        )
        for c in columns
    ]
    local = CCNMF(5, n_init=1, random_state=0).fit(words)
    assert_same(CCNMF(5, n_init=1, random_state=0).fit(da.concatenate(parts, axis=1)), local)


def shared_cone(X, count):
    """The cone of the features of a Dask array, decided in so many shares."""
    table = as_table(X)
    table.checked()
    part = part_of_shares(table.along(1), 1e-8, count)
    return Cone(part.rays, part.certificate)


@pytest.mark.slow
def test_on_a_cluster_with_named_tasks(cluster):
    for seed, how in [(0, "both"), (1, "samples")]:
        X = problem(seed)
        assert_same(
            CCNMF(3, n_init=1, random_state=0).fit(array(X, how)),
            CCNMF(3, n_init=1, random_state=0).fit(X),
        )
    for sparse in (False, True):
        cone = shared_cone(array(X, "features", sparse), 3)  # one of two workers has two shares
        direct = Cone.from_points(sp.csr_array(X.T) if sparse else X.T)
        np.testing.assert_array_equal(cone.ray_indices, direct.ray_indices)
        cone.verify(X.T)
    seen = set(cluster.run_on_scheduler(task_names))
    stages = [
        "survey",
        "blocks",
        "measure",
        "points",
        "rays",
        "lead",
        "decide",
        "settle",
        "merge",
        "qr",
        "products",
    ]
    assert {f"conecollapse-{stage}" for stage in stages} <= seen


def task_names(dask_scheduler):
    return [str(name) for name in dask_scheduler.task_prefixes]


@pytest.mark.parametrize("count", [1, 2])
def test_a_killed_worker_costs_time_and_not_the_result(cluster, monkeypatch, count):
    """One of two workers is killed while points are decided, by one of them or by both; its nanny
    brings another, and the blocks that it held are made again."""
    X = np.random.default_rng(5).gamma(0.4, size=(25, 240))
    pids = cluster.run(os.getpid)
    victim = next(iter(pids.values()))
    killed = []

    def kill_when_busy():
        for _ in range(2000):
            time.sleep(0.005)
            if "processing" in (found := cluster.run_on_scheduler(states_of_decisions)):
                os.kill(victim, signal.SIGKILL)
                killed.append(found)
                return

    monkeypatch.setattr(blocks, "_decide", decided_slowly)
    thread = threading.Thread(target=kill_when_busy)
    thread.start()
    slow = da.from_array(X, chunks=(-1, 20)).map_blocks(
        slowly, dtype=X.dtype, meta=np.empty((0, 0))
    )
    cone = shared_cone(slow, count)
    thread.join()
    assert killed
    model = CCNMF(3, cone=cone, weighting="unit", n_init=2, random_state=0).fit(slow)
    assert_same(model, CCNMF(3, weighting="unit", n_init=2, random_state=0).fit(X))
    cluster.wait_for_workers(2, timeout=30)


def states_of_decisions(dask_scheduler):
    return {
        task.state
        for key, task in dask_scheduler.tasks.items()
        if str(key).startswith("conecollapse-decide")
    }


def decided_slowly(*args, decide=blocks._decide):
    time.sleep(0.5)
    return decide(*args)


def slowly(block):
    time.sleep(0.1)
    return block


def test_bad_input_is_named():
    X = problem(0)
    unknown = array(X, "samples")
    unknown = unknown[unknown[:, 0] > 0.1]
    emptied = da.from_array(
        np.repeat([[1.0], [0.0], [2.0]], 3, axis=0) * np.ones(4), chunks=(3, -1)
    )
    emptied = emptied[emptied[:, 0] > 0].compute_chunk_sizes()
    for call in (CCNMF(2).fit, ConeCollapse().fit, Cone.from_points, Cone.from_table):
        with pytest.raises(
            ValueError,
            match=(
                r"chunks of unknown size along its (samples|features); call"
                r" X.compute_chunk_sizes\(\) first"
            ),
        ):
            call(unknown)
        with pytest.raises(ValueError, match=r"block 1 of X along its (samples|features) is empty"):
            call(emptied)
        with pytest.raises(ValueError, match="X has 1 dimensions; expected two"):
            call(da.ones(3))
    spoiled = X.copy()
    spoiled[25, 40] = np.nan
    with pytest.raises(ValueError, match=r"block \(1, 1\): X has NaN at row 25, column 40"):
        CCNMF(2).fit(array(spoiled, "both"))
    spoiled[25, 40] = -1
    with pytest.raises(
        ValueError,
        match=r"block \(0, 1\): X has 1 negative entry, the first at row 25, column 40 \(-1\)",
    ):
        Cone.from_table(array(spoiled, "features"))
    np.testing.assert_array_equal(
        ConeCollapse(points="samples").fit(array(X, "both")).ray_indices_,
        ConeCollapse(points="samples").fit(X).ray_indices_,
    )
    with pytest.raises(ValueError, match="X has 69 features, but CCNMF is expecting 70"):
        CCNMF(2, n_init=1).fit(array(X, "both")).predict(array(X[:, 1:], "both"))


def test_a_cone_can_be_given_to_ccnmf():
    X = problem(0)
    cone = Cone.from_table(array(X, "both"))
    assert_same(
        CCNMF(3, cone=cone, n_init=2, random_state=0).fit(array(X, "both")),
        CCNMF(3, n_init=2, random_state=0).fit(X),
    )
    with pytest.raises(
        ValueError,
        match=r"the cone is of 70 features of 30 samples, but the table has shape \(30, 69\)",
    ):
        CCNMF(2, cone=cone).fit(X[:, 1:])


def test_a_cluster_lost_in_stage_2_leaves_the_cone_of_stage_1(monkeypatch):
    def lost(*_args, **_kwargs):
        raise ClusterError("the Dask cluster went away")

    X = problem(0)
    with monkeypatch.context() as patch:
        patch.setattr("conecollapse.estimators.ccnmf.ccnmf", lost)
        with pytest.raises(ClusterError) as caught:
            CCNMF(3).fit(array(X, "both"))
    assert "goes on from it" in caught.value.__notes__[0]
    again = CCNMF(3, cone=caught.value.cone, n_init=1, random_state=0).fit(array(X, "both"))
    assert_same(again, CCNMF(3, n_init=1, random_state=0).fit(X))


def test_checkpoints_of_dask_arrays_resume(tmp_path):
    X = problem(0)
    direct = Cone.from_table(array(X, "features"))
    first = Cone.from_table(array(X, "features"), checkpoint=tmp_path)
    again = Cone.from_table(array(X, "features"), checkpoint=tmp_path)
    for cone in (first, again):
        np.testing.assert_array_equal(cone.ray_indices, direct.ray_indices)
        cone.verify(X.T)
    with pytest.raises(CheckpointError, match="which are not the first of this table"):
        Cone.from_table(da.from_array(X, chunks=(-1, 35)), checkpoint=tmp_path)
    other = X.copy()
    other[:, [0, 1]] = other[:, [1, 0]]
    with pytest.raises(
        CheckpointError, match="block 0 is not the block that the checkpoint was made from"
    ):
        Cone.from_table(array(other, "features"), checkpoint=tmp_path)


@pytest.mark.full
def test_a_scheduler_that_goes_away_says_what_was_lost_and_what_can_be_resumed(tmp_path):
    """The scheduler is a process of its own, killed as soon as a cone has been saved; the next call
    goes on from there."""
    X = np.random.default_rng(0).gamma(0.4, size=(20, 400))
    D = da.from_array(X, chunks=(-1, 10))
    process = subprocess.Popen(
        [sys.executable, "-c", SCHEDULER],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )

    def kill_when_saved():
        for _ in range(60_000):
            time.sleep(0.002)
            if any(tmp_path.iterdir()):
                break
        process.kill()

    killer = threading.Thread(target=kill_when_saved)
    expected = (
        r"went away during conecollapse-rays .* of 40 blocks are saved in .* start a cluster and"
        r" make the same call"
    )
    try:
        address = process.stdout.readline().strip()
        with (
            dask.config.set(
                {"distributed.comm.timeouts.connect": "1s", "scheduler": "dask.distributed"}
            ),
            distributed.Client(address, timeout="3s"),
        ):
            killer.start()
            with pytest.raises(ClusterError, match=expected):
                Cone.from_table(D, checkpoint=tmp_path)
    finally:
        process.kill()
        process.stdout.close()
        process.wait()
        killer.join()
    assert any(tmp_path.iterdir())
    with dask.config.set(scheduler="threads"):
        cone = Cone.from_table(D, checkpoint=tmp_path)
    np.testing.assert_array_equal(cone.ray_indices, Cone.from_points(X.T).ray_indices)


def test_a_cluster_that_goes_away_without_a_checkpoint_says_that_all_is_lost(monkeypatch):
    def gone(*_tasks):
        raise concurrent.futures.CancelledError("conecollapse-survey-1")

    monkeypatch.setattr(dask, "compute", gone)
    with pytest.raises(
        ClusterError,
        match=r"went away during conecollapse-survey .* is lost; start a cluster and call again",
    ):
        CCNMF(3).fit(da.from_array(np.eye(8), chunks=(-1, 4)))


class Scheduler:
    """A client that sees the clusters of ``seen`` one after the other: (status, name of the
    scheduler, workers)."""

    def __init__(self, *seen):
        self.seen = list(seen)

    @property
    def status(self):
        return self.seen[0][0]

    def scheduler_info(self):
        _, name, workers = self.seen.pop(0)
        if name is None:
            raise OSError("no answer")
        return {"id": name, "workers": {k: {"nthreads": n} for k, n in workers.items()}}


@pytest.mark.parametrize(
    ("later", "message"),
    [
        ([("closed", "a", {})], "the connection to its scheduler is closed"),
        ([("running", "b", {1: 1})], "another scheduler answers at its address"),
        (
            [("running", "a", {1: 1}), ("running", "a", {}), ("running", "a", {})],
            "it has had no worker for 0.01 seconds",
        ),
        (
            [("running", None, {}), ("running", None, {})],
            "its scheduler has not answered for 0.01 seconds",
        ),
    ],
)
def test_nobody_waits_for_a_cluster_that_cannot_answer(later, message):
    watch = Watch(Scheduler(("running", "a", {1: 1}), *later), patience=0.01)
    for _ in later[:-1]:
        watch.look()
        time.sleep(0.02)
    with pytest.raises(TimeoutError, match=message):
        watch.look()


def test_a_cluster_that_has_no_workers_yet_is_waited_for():
    watch = Watch(Scheduler(*[("running", "a", {})] * 4), patience=0.0)
    for _ in range(3):
        watch.look()


@pytest.mark.full
def test_a_cluster_that_loses_its_last_worker_is_not_waited_for():
    options = {
        "n_workers": 1,
        "threads_per_worker": 1,
        "processes": False,
        "dashboard_address": ":0",
    }
    with (
        distributed.LocalCluster(**options) as workers,
        distributed.Client(workers),
        dask.config.set({"scheduler": "dask.distributed", "conecollapse.patience": 0.5}),
    ):
        blocks = da.from_array(problem(0), chunks=(-1, 10)).map_blocks(
            lambda block: (time.sleep(3), block)[1], dtype=float
        )
        threading.Timer(1.0, lambda: workers.scale(0)).start()
        with pytest.raises(ClusterError, match=r"it has had no worker for 0\.5 seconds"):
            Cone.from_table(blocks)


def test_dask_knows_the_size_of_sparse_blocks():
    block = sp.random_array((200, 300), density=0.2, rng=np.random.default_rng(0), format="csr")
    stored = block.data.nbytes + block.indices.nbytes + block.indptr.nbytes
    assert stored <= dask.sizeof.sizeof(block) <= 1.1 * stored
    assert dask.sizeof.sizeof(block.T) >= stored


def test_without_dask_the_error_names_the_extra():
    code = """
import sys
sys.modules["dask"] = sys.modules["dask.array"] = None
import conecollapse
try:
    import conecollapse.tables.dask
except ImportError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'conecollapse[dask]'" in run.stdout


@pytest.mark.parametrize("own", ["65536", ""])
def test_freed_memory_is_kept_while_any_task_runs_and_then_given_back_as_the_worker_was_told(
    own, monkeypatch
):
    calls = []
    library = SimpleNamespace(
        mallopt=lambda *args: calls.append(args),
        malloc_trim=lambda kept: calls.append(("trim", kept)),
    )
    monkeypatch.setattr(_memory, "_library", lambda: library)
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", own)
    kept = (
        [
            (_memory.M_TRIM_THRESHOLD, _memory.KEPT),
            (_memory.M_MMAP_THRESHOLD, _memory.MAPPED),
        ]
        if own
        else []
    )
    with _memory.freed_memory_is_kept():
        with _memory.freed_memory_is_kept():  # a second task, in another thread
            pass
        assert calls == kept
    assert calls[len(kept) :] == ([(-1, 65536), (-3, 2**17), ("trim", 65536)] if own else [])
