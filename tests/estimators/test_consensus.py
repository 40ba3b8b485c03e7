"""`ConsensusNMF`: what many runs agree on, the same for any number of threads, and resumable."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from conecollapse import CheckpointError, ConsensusNMF, HierarchicalNMF, InvalidInputError, plots
from conecollapse.factorization.resampling.consensus import agreement, stability
from conecollapse.factorization.resampling.matching import matched


def programs(seed=0, n=80, m=30, r=3, depth=400):
    rng = np.random.default_rng(seed)
    H = rng.dirichlet(np.full(m, 0.2), r)
    return rng.poisson(depth * rng.dirichlet(np.full(r, 0.3), n) @ H).astype(np.float64) + 0.01, H


@pytest.fixture(scope="module")
def counts():
    return programs()


@pytest.fixture(scope="module")
def fitted(counts):
    return ConsensusNMF(3, n_runs=12).fit(counts[0])


@pytest.mark.parametrize("loss", ["frobenius", "kullback-leibler"])
def test_planted_programs_are_found(loss, counts):
    X, H = counts
    model = ConsensusNMF(3, n_runs=8, loss=loss).fit(X)
    assert matched(model.components_, H)[1].min() > 0.97
    assert model.stability_.min() > 0.98
    mass = model.embedding_.sum(axis=0) * model.components_.sum(axis=1)
    assert (np.diff(mass) <= 0).all()
    np.testing.assert_allclose(
        model.transform(X), model.embedding_, rtol=2e-2, atol=1e-2 * model.embedding_.max()
    )


@pytest.mark.parametrize("loss", ["frobenius", "kullback-leibler"])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_the_number_of_threads_changes_nothing(loss, kind, counts):
    X = kind(counts[0])
    one, two = (
        ConsensusNMF(3, n_runs=5, loss=loss, max_iter=30, tol=1e-3, n_jobs=jobs).fit(X)
        for jobs in (1, 3)
    )
    for name in ("components_", "embedding_", "run_labels_", "run_errors_", "stability_"):
        assert getattr(one, name).tobytes() == getattr(two, name).tobytes()


def test_the_consensus_matrix_counts_shared_labels(fitted, counts):
    labels = fitted.run_labels_
    expected = (labels[:, :, None] == labels[:, None, :]).mean(axis=0)
    np.testing.assert_allclose(fitted.consensus_, expected)
    np.testing.assert_array_equal(
        fitted.consensus_of([4, 2]), fitted.consensus_[np.ix_([4, 2], [4, 2])]
    )
    assert len(counts[0]) == len(fitted.consensus_)


def test_large_consensus_matrices_are_refused(fitted):
    many = clone(fitted)
    many.__dict__.update(fitted.__dict__)
    many.run_labels_ = np.zeros((1, 20_001), np.int64)
    with pytest.raises(InvalidInputError, match=r"use consensus_of\(rows\) for at most 20000"):
        _ = many.consensus_


def test_components_of_few_runs_are_outliers():
    rng = np.random.default_rng(0)
    true = np.eye(3, 8) + 0.05
    runs = np.abs(true + 0.01 * rng.standard_normal((20, 3, 8)))
    runs = runs * rng.random((20, 3, 1)) ** -1  # of any length
    for i in range(20):
        runs[i] = runs[i][rng.permutation(3)]
    runs[3, 1] = rng.random(8) + np.eye(8)[6] * 5
    runs[7, 0] = 0.0
    found = agreement(runs, np.arange(20.0), 0.5)
    assert found.enough
    assert sorted(zip(*np.nonzero(found.is_outlier), strict=True)) == [(3, 1), (7, 0)]
    assert matched(found.H, true)[1].min() > 0.999
    stable = stability(runs, found.H)
    assert (stable < 1).all()
    assert stable.min() > 0.9


def test_runs_that_do_not_agree_are_told():
    X = np.random.default_rng(0).random((40, 30))
    with pytest.warns(UserWarning, match="the runs do not agree on 6 components"):
        model = ConsensusNMF(6, n_runs=4, max_distance=1e-9, tol=1e-3).fit(X)
    assert model.components_.shape == (6, 30)
    assert np.isfinite(model.components_).all()


def test_a_stopped_set_of_runs_goes_on(tmp_path, counts, fitted):
    X = counts[0]
    stopped = ConsensusNMF(
        3, n_runs=12, n_jobs=1, checkpoint=tmp_path / "runs", callback=lambda done, _: done == 5
    ).fit(X)
    assert len(stopped.run_errors_) == 5
    calls = []
    resumed = ConsensusNMF(
        3, n_runs=12, checkpoint=tmp_path / "runs", callback=lambda done, _: calls.append(done)
    ).fit(X)
    assert calls == list(range(6, 13))
    assert resumed.components_.tobytes() == fitted.components_.tobytes()
    again = ConsensusNMF(
        3, n_runs=12, checkpoint=str(tmp_path / "runs"), callback=lambda *_: 1 / 0
    ).fit(X)
    assert again.components_.tobytes() == fitted.components_.tobytes()


def test_checkpoints_of_other_runs_are_refused(tmp_path, counts):
    X = counts[0][:20]
    model = ConsensusNMF(2, n_runs=2, checkpoint=tmp_path / "runs", tol=1e-3).fit(X)
    for other, data, message in [
        ({"n_components": 3}, X, "were made with n_components = 2, not 3; use another folder"),
        ({"random_state": 7}, X, "were made with random_state = 0, not 7"),
        ({}, X * 2, "were made from other data; use another folder"),
    ]:
        with pytest.raises(CheckpointError, match=message):
            clone(model).set_params(**other).fit(data)
    np.savez(
        tmp_path / "runs" / "run-00001.npz",
        H=np.full((2, 30), np.nan),
        labels=np.zeros(20, np.int64),
        objective=np.float64(0),
    )
    with pytest.raises(
        CheckpointError, match=r"run-00001.npz' does not hold a run of this table; remove it"
    ):
        clone(model).fit(X)
    (tmp_path / "runs" / "run-00001.npz").write_bytes(b"PK damaged")
    with pytest.raises(CheckpointError, match=r"not a whole \.npz archive"):
        clone(model).fit(X)
    for text in ("{", json.dumps([1])):
        (tmp_path / "runs" / "runs.json").write_text(text)
        with pytest.raises(CheckpointError, match="use another folder"):
            clone(model).fit(X)
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match="is not a folder that can be used"):
        clone(model).set_params(checkpoint=tmp_path / "file").fit(X)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_runs": 0}, "n_runs must be an integer of at least 1; got 0"),
        ({"max_distance": 0}, "max_distance must be a number above 0; got 0"),
        (
            {"init": "nndsvda"},
            (
                "init must be one of random, nndsvdar, spectral, so that the runs differ; got"
                " 'nndsvda'"
            ),
        ),
        ({"loss": "huber"}, "loss must be one of frobenius, kullback-leibler; got 'huber'"),
        ({"callback": 3}, "callback must be a function or None; got 3"),
        ({"n_jobs": 0}, "n_jobs must be a number of threads"),
        (
            {"checkpoint": "runs", "random_state": None},
            "a checkpoint needs an integer as random_state, to go on as before; got None",
        ),
        ({"n_components": 9}, "n_components = 9, but X has only n_samples = 4"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(InvalidInputError, match=message):
        ConsensusNMF(**{"n_components": 2, **parameters}).fit(np.eye(4))


def test_progress_is_printed(capsys):
    ConsensusNMF(2, n_runs=3, verbose=True, n_jobs=1).fit(np.kron(np.eye(2), np.ones((3, 2))))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" runs")[0] for line in lines] == [
        f"ConsensusNMF: {k} of 3" for k in (1, 2, 3)
    ]


def test_the_figure_has_a_block_for_each_component(fitted):
    drawn = plots.consensus(fitted)
    assert len(drawn.data[0].z) == 80
    assert [text.split("<br>")[0] for text in drawn.layout.yaxis.ticktext] == [
        "component 0",
        "component 1",
        "component 2",
    ]
    assert "stability by component" in fitted._repr_mimebundle_()["text/html"]


def test_one_run_is_a_plain_factorization(counts):
    alone = ConsensusNMF(3, n_runs=1).fit(counts[0])
    plain = HierarchicalNMF(3, init="random", random_state=1).fit(counts[0])
    assert alone.relative_err_ == pytest.approx(plain.relative_err_, rel=1e-3)
    assert alone.n_outliers_ == 0


def test_starts_and_folders_that_cannot_be_used(tmp_path):
    X = np.random.default_rng(0).random((12, 5))
    with pytest.raises(
        InvalidInputError,
        match=(
            "init must be one of random, nndsvdar, spectral, so that the runs differ; got a ndarray"
        ),
    ):
        ConsensusNMF(2, n_runs=2, init=X[:2]).fit(X)
    with pytest.raises(InvalidInputError, match="checkpoint must be the path of a folder; got 3"):
        ConsensusNMF(2, n_runs=2, checkpoint=3).fit(X)
    model = ConsensusNMF(2, n_runs=2, checkpoint=tmp_path).fit(X)
    (damaged,) = tmp_path.glob("run-00001.npz")
    damaged.write_bytes(damaged.read_bytes()[:100])
    with pytest.raises(
        CheckpointError,
        match=r"run-00001.npz' cannot be read .*; remove it, and this run is made again",
    ):
        model.fit(X)
    damaged.unlink()
    model.fit(X)
