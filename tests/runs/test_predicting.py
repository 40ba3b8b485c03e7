"""New samples by the model that a run kept: the answers are those of the model itself, for every
kind of run, and a model that was changed is refused."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from conecollapse import InvalidInputError, RunFolderError, texts
from conecollapse.io import read_table
from conecollapse.io.spectra import read_spectra
from conecollapse.runs import cluster, predict, prepare, programs, save, unmix, verify
from conecollapse.runs.model import model_facts, read_model, write_model
from conecollapse.tables import DiffusedTable

rng = np.random.default_rng(0)
BLOCKS = np.kron(np.eye(3), np.ones((8, 5))) + 0.1 * rng.random((24, 15))
NEW = np.kron(np.eye(3), np.ones((2, 5))) + 0.3 * rng.random((6, 15))
NAMES = [f"g{j}" for j in range(15)]


def frame(X: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(X, columns=NAMES, index=[f"s{i}" for i in range(len(X))])


@pytest.mark.parametrize("method", ["graph", "features", "knn", "diffusion"])
def test_clusters_are_those_of_predict(method, tmp_path):
    run = cluster(read_table(frame(BLOCKS)), 3, method=method)
    save(run, tmp_path / "out")
    wanted = run.model.predict(np.vstack([NEW, BLOCKS[:3]]))
    found = predict(tmp_path / "out", frame(np.vstack([NEW, BLOCKS[:3]])))
    np.testing.assert_array_equal(found.columns["cluster"], wanted)


def test_counts_of_cells_and_sparse_tables_too(tmp_path):
    counts = rng.poisson(6 * BLOCKS).astype(float)
    for name, X in (("cells", counts), ("text", sp.csr_array(np.where(BLOCKS > 0.5, BLOCKS, 0)))):
        run = cluster(read_table(X), 3)
        save(run, tmp_path / name)
        found = predict(tmp_path / name, X[::-1])
        np.testing.assert_array_equal(found.columns["cluster"], run.model.predict(X[::-1]))
    known = ["a", "", "", "", "", "", "", ""] * 2 + ["b", "c", "", "", "", "", "", ""]
    run = cluster(read_table(counts), 3, guide=known)
    save(run, tmp_path / "guided")
    found = predict(tmp_path / "guided", counts)
    np.testing.assert_array_equal(found.columns["label"], run.model.predict(counts))


@pytest.mark.parametrize("how", [["cells"], ["max"], ["unit-samples"], ["sum-samples", "max"]])
def test_new_samples_are_prepared_as_the_data_was(how, tmp_path):
    table = prepare(read_table(frame(BLOCKS)), how)
    save(run := cluster(table, 3), tmp_path / "out")
    found = predict(tmp_path / "out", frame(BLOCKS[3:9]))
    np.testing.assert_array_equal(found.columns["cluster"], run.labels[3:9])
    alone = predict(tmp_path / "out", frame(np.vstack([BLOCKS[3], BLOCKS[20]])))
    np.testing.assert_array_equal(alone.columns["cluster"], run.labels[[3, 20]])


def test_usages_and_abundances_are_those_of_transform(tmp_path):
    counts = rng.poisson(6 * BLOCKS).astype(float)
    run = programs(read_table(frame(counts)), 3, n_runs=2)
    save(run, tmp_path / "programs")
    found = predict(tmp_path / "programs", frame(counts[:7]))
    np.testing.assert_allclose(np.column_stack([*found.columns.values()]), run.usages[:7])
    cube = rng.dirichlet([0.5] * 3, 42).reshape(7, 6, 3) @ rng.random((3, 9))
    np.save(tmp_path / "cube.npy", cube)
    for share in (False, True):
        run = unmix(read_spectra(tmp_path / "cube.npy"), 3, sum_to_one=share)
        save(run, tmp_path / f"scene{share}")
        found = predict(tmp_path / f"scene{share}", tmp_path / "cube.npy")
        columns = np.column_stack([*found.columns.values()])
        np.testing.assert_allclose(columns, run.abundances, atol=1e-12)
        found.write(tmp_path / "maps.npy", ".npy")
        assert np.load(tmp_path / "maps.npy").shape == (7, 6, 3)


def test_new_documents_get_the_topics_of_texts_topics(tmp_path):
    words = ("sea ship sail wave", "tree leaf root wood", "coin bank loan rate")
    old = [" ".join(rng.choice(words[i % 3].split(), 8)) for i in range(30)]
    new = ["The ship and the sea.", "a bank, a loan", "nothing known", "Wood of trees, leaf, root"]
    table = prepare(read_table(old), tfidf=True)
    save(run := cluster(table, 3), tmp_path / "out")
    found = predict(tmp_path / "out", new)
    ours = texts.topics(old, 3, random_state=0)
    np.testing.assert_array_equal(ours.labels, run.labels)
    np.testing.assert_array_equal(found.columns["cluster"], ours.predict(new))
    assert found.columns["cluster"][2] == -1


def test_the_diffusion_of_many_samples_is_kept_by_its_graph(tmp_path):
    N = sp.csr_array(0.5 * (np.ones((3, 3)) - np.eye(3)))
    write_model(tmp_path, {"table": DiffusedTable(N, 0.8)})
    found = read_model(tmp_path, model_facts(tmp_path))["table"]
    np.testing.assert_array_equal(found @ np.eye(3), DiffusedTable(N, 0.8) @ np.eye(3))


def test_features_are_matched_by_name_and_missing_ones_are_named(tmp_path):
    save(run := cluster(read_table(frame(BLOCKS)), 3), tmp_path / "out")
    mixed = frame(NEW).assign(other=1.0).iloc[:, ::-1]
    found = predict(tmp_path / "out", mixed)
    np.testing.assert_array_equal(found.columns["cluster"], run.model.predict(NEW))
    assert found.notes == ["1 features that the run does not have are not used."]
    with pytest.raises(InvalidInputError, match="lack 2 of the 15 features of the run"):
        predict(tmp_path / "out", frame(NEW).drop(columns=["g3", "g7"]))
    with pytest.raises(InvalidInputError, match="have 14 features, but the run 15"):
        predict(tmp_path / "out", NEW[:, 1:])


def test_the_command_writes_a_file_for_any_run(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame(BLOCKS).to_csv("old.csv")
    frame(NEW).to_csv("new.csv")
    assert run("cluster", "old.csv", "-k", "3", "--no-report")[0] == 0
    code, out, err = run("predict", "old-clusters", "new.csv")
    assert code == 0, err
    assert "6 new samples; clusters" in out
    table = pd.read_csv("new-predicted.csv")
    assert table["sample"].tolist() == [f"s{i}" for i in range(6)]
    assert "is there already" in run("predict", "old-clusters", "new.csv")[2]
    code, out, err = run("predict", "old-clusters", "new.csv", "--force", "--json")
    assert json.loads(out)["n_samples"] == 6
    run("cluster", "old.csv", "-k", "3", "--no-report", "--no-model", "--out", "bare")
    assert "saved without its model" in run("predict", "bare", "new.csv", "--force")[2]


def test_a_model_that_was_changed_is_refused_by_both(tmp_path):
    frame(BLOCKS).to_csv(tmp_path / "old.csv")
    save(cluster(read_table(tmp_path / "old.csv"), 3), tmp_path / "out")
    assert verify(tmp_path / "out")
    model = tmp_path / "out" / "model.npz"
    model.write_bytes(model.read_bytes()[:-1] + b"x")
    for look in (lambda: predict(tmp_path / "out", NEW), lambda: verify(tmp_path / "out")):
        with pytest.raises((RunFolderError, ValueError), match="is missing, or is not the file"):
            look()
