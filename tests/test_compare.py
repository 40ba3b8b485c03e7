"""Two folders of results compared: what agrees, what differs, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from conecollapse import InvalidInputError, RunFolderError
from conecollapse.io import read_table
from conecollapse.io.cube import read_spectra
from conecollapse.metrics import adjusted_rand_score
from conecollapse.runs import cluster, rays, save
from conecollapse.runs.comparing import compare
from conecollapse.runs.unmixing import save_unmixing, unmix

SAMPLES, FEATURES = [f"s{i}" for i in range(24)], [f"f{j}" for j in range(9)]


def frame():
    blocks = np.kron(np.eye(3), np.ones((8, 3)))
    return pd.DataFrame(
        blocks + 0.2 * np.random.default_rng(0).random((24, 9)), index=SAMPLES, columns=FEATURES
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Three clusters of all samples; two of most of them, in another order and without a feature;
    few rays; two unmixings."""
    folder = tmp_path_factory.mktemp("runs")
    save(
        cluster(read_table(frame(), features_in="columns"), 3, method="features", random_state=0),
        folder / "three",
    )
    part = frame().iloc[::-1].iloc[2:, :-1]
    save(
        cluster(read_table(part, features_in="columns"), 2, method="features", random_state=1),
        folder / "two",
    )
    save(rays(read_table(frame(), features_in="columns"), max_rays=4), folder / "few")
    spectra = np.array([[4.0, 3, 2, 1, 0], [0, 1, 2, 3, 4]])
    X = np.random.default_rng(1).dirichlet([0.5, 0.5], 40) @ spectra + 0.01
    np.save(folder / "x.npy", X)
    np.save(folder / "y.npy", X[::-1, :].copy())
    for name in ("x", "y"):
        save_unmixing(
            unmix(read_spectra(folder / f"{name}.npy", features_in="columns"), 2), folder / name
        )
    return folder


def test_samples_are_matched_by_name(runs):
    found = compare(runs / "three", runs / "two")
    first, second = (
        pd.read_csv(runs / name / "labels.csv", index_col="sample")["cluster"]
        for name in ("three", "two")
    )
    assert found.samples.tolist() == SAMPLES[:22]
    assert found.labels[0].tolist() == first[SAMPLES[:22]].tolist()
    assert found.labels[1].tolist() == second[SAMPLES[:22]].tolist()
    results = found.results()
    assert results["adjusted_rand"] == adjusted_rand_score(*found.labels)
    assert len(found.moved()) == round((1 - results["share_in_matching_clusters"]) * 22) > 0
    named = [set(pd.read_csv(runs / name / "rays.csv")["name"]) for name in ("three", "two")]
    assert results["n_common_rays"] == len(named[0] & named[1])
    assert results["n_rays"] == [len(one) for one in named]
    said = {name: (one, two) for name, one, two in found.differences()}
    assert said["parameters, n_components"] == ("3", "2")
    assert said["data, n_features"] == ("9", "8")
    assert "parameters, method" not in said


def test_a_run_is_like_itself(runs):
    found = compare(runs / "three", runs / "three")
    assert found.differences() == []
    assert len(found.moved()) == 0
    assert found.results()["adjusted_rand"] == found.results()["share_in_matching_clusters"] == 1


def test_rays_and_components(runs):
    found = compare(runs / "three", runs / "few")
    assert found.labels is None
    assert found.results()["n_rays"][1] == 4
    matches = compare(runs / "x", runs / "y").matches
    assert (
        sorted(match.first for match in matches)
        == sorted(match.second for match in matches)
        == [0, 1]
    )
    assert max(match.angle for match in matches) < 2  # the same samples in another order


def test_what_cannot_be_compared_is_refused(runs, tmp_path):
    with pytest.raises(
        InvalidInputError, match="a run of cluster and a run of unmix have nothing to compare"
    ):
        compare(runs / "three", runs / "x")
    with pytest.raises(RunFolderError, match="there is no folder"):
        compare(runs / "three", tmp_path / "none")
    other = frame().rename(index=lambda name: f"other {name}")
    save(
        cluster(read_table(other, features_in="columns"), 2, method="features"), tmp_path / "other"
    )
    with pytest.raises(InvalidInputError, match="no sample in common"):
        compare(runs / "three", tmp_path / "other")
    twins = frame().rename(index=lambda _: "twin")
    save(
        cluster(read_table(twins, features_in="columns"), 2, method="features"), tmp_path / "twins"
    )
    with pytest.raises(InvalidInputError, match="several samples called 'twin'"):
        compare(tmp_path / "twins", runs / "three")


@pytest.mark.parametrize(
    ("name", "change"),
    [("A", lambda a: a[:-1]), ("A", lambda a: a[:, :-1]), ("ray_indices", lambda a: a + 100)],
)
def test_a_damaged_folder_is_refused(runs, tmp_path, name, change):
    save(
        cluster(read_table(frame(), features_in="columns"), 3, method="features", random_state=0),
        tmp_path / "run",
    )
    arrays = dict(np.load(tmp_path / "run" / "factors.npz"))
    np.savez(tmp_path / "run" / "factors.npz", **(arrays | {name: change(arrays[name])}))
    with pytest.raises(RunFolderError, match="damaged or of another run"):
        compare(tmp_path / "run", runs / "three")


def test_the_command(runs, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = run("compare", runs / "three", runs / "two")
    assert code == 0
    assert "22 samples in both runs" in out
    assert "parameters, n_components: 3, 2" in out
    assert "page in comparison.html" in out
    assert "three and two" in (tmp_path / "comparison.html").read_text(encoding="utf-8")
    code, out, _ = run("compare", runs / "x", runs / "y", "--json")  # in place of the earlier page
    assert code == 0
    assert len(json.loads(out)["angles"]) == 2
    (tmp_path / "mine.html").write_text("<p>mine</p>")
    code, _, err = run("compare", runs / "x", runs / "y", "--out", "mine.html")
    assert code == 1
    assert "is no earlier result; name another file, or pass --force to replace it" in err
    assert (tmp_path / "mine.html").read_text() == "<p>mine</p>"
