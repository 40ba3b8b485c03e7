"""Novelty: distances from the cone of trusted samples, their threshold, and their reasons."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.optimize
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.io import savemat
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from conecollapse import ConeNovelty, EmptyDataWarning, InvalidInputError
from conecollapse.cli import main
from conecollapse.cli.commands import run as run_command
from conecollapse.geometry.nearest import EXACT, POOL_EACH, Terms, distances, gram, nearest
from conecollapse.io.envi import write_envi
from conecollapse.report import page as page_of
from conecollapse.runs import judge, verify

# these checks fit samples with negative entries, which no cone of non-negative samples can take
NEEDS_NEGATIVE = ("check_outliers_train", "check_outliers_fit_predict")


def unit(X):
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300)


def problem(seed, n=None, dim=None):
    rng = np.random.default_rng(seed)
    n, dim = n or int(rng.integers(1, 40)), dim or int(rng.integers(1, 25))
    U = rng.random((n, dim)) ** rng.choice([1, 4]) * (rng.random((n, dim)) < rng.choice([0.3, 1.0]))
    U[:, 0] += 1e-3
    if n > 3:
        U[1], U[2] = U[0] * 3, U[0] + U[3]  # a duplicate and a mixture
    return unit(U), unit(rng.random((9, dim)) + 1e-3)


@pytest.mark.slow
def test_scikit_learns_checks_pass_except_those_with_negative_data():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(ConeNovelty(), on_fail=None, on_skip=None)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert set(failed) <= set(NEEDS_NEGATIVE)
    assert all("Negative values" in str(error) for error in failed.values())


@given(st.integers(0, 10_000))
def test_distance_without_locality_is_that_of_scipys_nnls(seed):
    U, Y = problem(seed)
    expected = [scipy.optimize.nnls(U.T, y)[1] for y in Y]
    np.testing.assert_allclose(distances(U, Y, nearest(U, Y, gram(U))), expected, atol=2e-6)


TERMS = [EXACT, Terms(0.02), Terms(0.9), Terms(0.0, 0.5), Terms(0.02, 3.0)]


@given(st.integers(0, 10_000), st.sampled_from(TERMS))
def test_optimality_conditions_hold_and_the_scale_is_from_zero_to_one(seed, terms):
    U, Y = problem(seed)
    H = nearest(U, Y, gram(U), terms).toarray()
    g = (Y - H @ U) @ U.T - terms.locality - terms.ridge * H
    assert H.min(initial=0) >= 0
    assert g.max() <= 1e-7
    assert np.abs(g[H > 0]).max(initial=0) <= 1e-7
    d = distances(U, Y, sp.csr_array(H), terms)
    assert d.min() >= 0
    assert d.max() <= 1 + 1e-12
    if terms.ridge == 0:
        own = distances(U, U, nearest(U, U, gram(U), terms), terms)
        np.testing.assert_allclose(own, 0, atol=1e-3)


@given(st.integers(0, 10_000), st.sampled_from(TERMS))
def test_more_trusted_samples_never_increase_a_distance(seed, terms):
    U, Y = problem(seed, n=20)
    few = distances(U[:12], Y, nearest(U[:12], Y, gram(U[:12]), terms), terms)
    many = distances(U, Y, nearest(U, Y, gram(U), terms), terms)
    assert (many**2 <= few**2 + 1e-6).all()


@pytest.mark.parametrize("terms", TERMS)
def test_pools_give_the_distances_of_the_gram_matrix(terms):
    U, Y = problem(3, n=20 * POOL_EACH, dim=60)
    out = np.array([-1, 4, 7, 0, 1, 2, 3, -1, 9])
    whole, pooled = (nearest(U, Y, G, terms, out) for G in (gram(U), None))
    np.testing.assert_allclose(
        distances(U, Y, pooled, terms), distances(U, Y, whole, terms), atol=1e-7
    )
    assert all(pooled[[i], [j]] == 0 for i, j in enumerate(out) if j >= 0)


def test_over_a_single_trusted_sample_the_distance_follows_from_the_angle():
    U, Y = problem(5, n=1, dim=10)
    cosine = (Y @ U.T).ravel()
    for locality in (0.0, 0.3, 0.99):
        expected = np.sqrt(1 - np.maximum((cosine - locality) / (1 - locality), 0) ** 2)
        terms = Terms(locality)
        np.testing.assert_allclose(
            distances(U, Y, nearest(U, Y, gram(U), terms), terms), expected, atol=1e-6
        )


def test_witness_separates_and_explains():
    rng = np.random.default_rng(0)
    trusted = pd.DataFrame(rng.random((30, 6)) + 0.5, columns=list("abcdef"))
    trusted["f"] = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmptyDataWarning)
        model = ConeNovelty().fit(trusted)
    x = trusted.iloc[[0]].copy()
    x["f"] = 2.0
    g = model.witness_samples(x)[0]
    assert g @ x.to_numpy()[0] == pytest.approx(g @ g)
    assert (trusted.to_numpy() @ g).max() <= 1e-9
    (reasons,) = model.explain(x, 2)
    assert (reasons[0].name, reasons[0].column) == ("f", 5)
    assert reasons[0].amount == pytest.approx(2.0)
    assert reasons[0].share == pytest.approx(1.0, abs=1e-6)
    assert model.explain(trusted.iloc[:1]) == [[]]
    assert model.predict(x).tolist() == [-1]
    assert -model.score_samples(x * 1e-6)[0] == pytest.approx(-model.score_samples(x)[0])


@pytest.mark.parametrize("contamination", ["auto", 0.2])
def test_false_alarms_are_at_most_the_contamination(contamination):
    share = 0.05 if contamination == "auto" else contamination
    alarms = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X = rng.gamma(1.0, size=(60, 4)) @ rng.random((4, 12)) + 0.05 * rng.random((60, 12))
        alarms.append((ConeNovelty(contamination).fit(X[:40]).predict(X[40:]) < 0).mean())
    assert np.mean(alarms) <= share + 3 * np.sqrt(share / 600)
    assert np.mean(alarms) > 0


def test_fit_predict_judges_each_trusted_sample_by_the_others():
    X = np.vstack(
        [
            np.tile([1.0, 0.1, 0.0], (40, 1)) + np.random.default_rng(0).random((40, 3)) * 0.1,
            [[0.0, 0.0, 1.0]],
        ]
    )
    labels = ConeNovelty(contamination=0.1).fit_predict(X)
    assert labels[-1] == -1
    assert (labels == -1).sum() == 3  # of 42, at most a tenth
    assert (ConeNovelty().fit(X).predict(X) == 1).all()


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_blocks_give_the_scores_of_the_whole(kind):
    rng = np.random.default_rng(2)
    X, new = rng.random((60, 8)) ** 4, rng.random((20, 8)) ** 4
    whole = ConeNovelty().fit(kind(X))
    parts = ConeNovelty()
    for block in np.split(X, 4):
        parts.partial_fit(kind(block))
    parts.partial_fit(kind(X[:10]))  # known already: counted, not kept
    np.testing.assert_allclose(
        parts.score_samples(kind(new)), whole.score_samples(kind(new)), atol=1e-9
    )
    assert (parts.n_trusted_, whole.n_trusted_) == (70, 60)
    assert parts._trusted.count == 60
    assert -parts.offset_ <= -whole.offset_
    np.testing.assert_allclose(
        whole.score_samples(new.astype(np.float32)), whole.score_samples(new), atol=1e-5
    )


def test_a_stream_with_a_tolerance_keeps_few_samples():
    rng = np.random.default_rng(0)
    sources = rng.random((3, 20))
    model = ConeNovelty(locality=0, noise=0, tol=0.01)
    for _ in range(10):
        model.partial_fit(rng.dirichlet(np.ones(3), 50) @ sources)
    assert model.n_trusted_ == 500
    assert model._trusted.count < 120
    assert model.score_samples(rng.dirichlet(np.ones(3), 50) @ sources).min() > -0.02


def test_bad_input_is_refused_in_one_sentence():
    X = np.eye(3) + 0.1
    model = ConeNovelty().fit(X)
    with pytest.raises(InvalidInputError, match="all trusted samples are zero"):
        ConeNovelty().fit(np.zeros((3, 2)))
    with pytest.raises(
        ValueError, match=r"Negative values in data: .* the first at row 0, column 1"
    ):
        ConeNovelty().fit([[1.0, -1.0]])
    with pytest.raises(ValueError, match="Negative values"):
        model.predict([[1.0, -1.0, 0.0]])
    with pytest.raises(ValueError, match="NaN"):
        model.score_samples([[1.0, np.nan, 0.0]])
    with pytest.raises(ValueError, match="2 features, but ConeNovelty is expecting 3"):
        model.explain([[1.0, 2.0]])
    with pytest.raises(InvalidInputError, match="there are 2 names for 3 features"):
        model.explain(X, names=["a", "b"])
    for wrong in (
        {"contamination": 0.7},
        {"contamination": "much"},
        {"contamination": None},
        {"locality": 1.0},
        {"noise": 1.0},
        {"tol": -1},
    ):
        with pytest.raises(InvalidInputError, match=f"{next(iter(wrong))} must be"):
            clone(model).set_params(**wrong).fit(X)
    with pytest.warns(
        EmptyDataWarning,
        match="sample 1 of X holds only zeros: such a sample belongs to every cone",
    ):
        assert model.score_samples([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])[1] == 0
    with pytest.warns(EmptyDataWarning, match="left out of the trusted samples"):
        assert ConeNovelty().fit(np.vstack([X, np.zeros((1, 3))])).n_trusted_ == 3


def files(tmp_path, trusted, new):
    places = tmp_path / "trusted.csv", tmp_path / "new.csv"
    for place, frame in zip(places, (trusted, new), strict=True):
        frame.rename_axis("sample").to_csv(place)
    return places


def test_the_command_matches_features_by_name_and_writes_reasons(tmp_path, capsys):
    rng = np.random.default_rng(0)
    trusted = pd.DataFrame(rng.random((30, 4)) + 0.5, columns=list("abcd")).assign(e=0.0)
    new = trusted.iloc[:3, ::-1].copy()
    new.index = ["x", "y", "=z"]
    new.loc["=z", "e"] = 3.0
    a, b = files(tmp_path, trusted, new)
    out = tmp_path / "out"
    with pytest.raises(SystemExit) as end:
        main(["novelty", str(a), str(b), "--out", str(out), "--reasons", "2"])
    said = capsys.readouterr().out
    assert end.value.code == 0, said
    assert "Features were matched by their names." in said
    assert "=z: " in said
    assert "; e +3" in said
    written = pd.read_csv(out / "novelty.csv")
    assert written["novel"].tolist() == ["no", "no", "yes"]
    assert written["distance"].max() == written["distance"][2]
    assert written["features"][2].startswith("e +3")
    judged = judge(a, b)
    np.testing.assert_allclose(judged.distances, written["distance"])
    assert "1 of the 3 samples are further" in str(verify(out))
    with pytest.raises(SystemExit):
        main(["novelty", str(a), str(b), "--out", str(out), "--force", "--json"])
    assert json.loads(capsys.readouterr().out)["n_novel"] == 1
    single = files(tmp_path, trusted, new.iloc[2:])[1]
    assert [row["novel"] for row in judge(a, single).rows()] == [True]


def test_the_command_refuses_in_one_sentence_and_writes_nothing(tmp_path, capsys):
    good = pd.DataFrame(np.eye(3) + 1, columns=list("abc"))
    cases = [
        (
            good,
            good.rename(columns={"c": "d"}),
            "the trusted samples have the feature 'c', which the new ones lack",
        ),
        (
            good,
            good.assign(d=1.0),
            "the new samples have the feature 'd', which the trusted ones lack",
        ),
        (good, -good, "negative values, the first in row"),
        (good * np.nan, good, "remove or impute missing values first"),
        (good * 0, good, "all trusted samples are zero"),
    ]
    for trusted, new, sentence in cases:
        a, b = files(tmp_path, trusted, new)
        with pytest.raises(SystemExit) as end:
            main(["novelty", str(a), str(b), "--out", str(tmp_path / "out")])
        said = capsys.readouterr().err
        assert end.value.code == 1
        assert sentence in said
        assert said.count("\n") == 1
    assert not (tmp_path / "out").exists()
    np.save(tmp_path / "wide.npy", np.ones((4, 5)))
    with pytest.raises(
        InvalidInputError, match="the new samples have 5 features, but the trusted ones 3"
    ):
        judge(np.ones((4, 3)), tmp_path / "wide.npy")


def test_the_page_names_the_new_and_their_features(tmp_path, run):
    rng = np.random.default_rng(0)
    trusted = rng.dirichlet([1.0, 1.0, 1.0], 60) @ rng.random((3, 8))
    new = np.vstack([trusted[:5], trusted[5] + 3 * np.eye(8)[6]])
    columns = [f"<b>feature {j}" for j in range(8)]
    for name, X in (("trusted", trusted), ("new", new)):
        pd.DataFrame(X, columns=columns, index=[f"{name} {i}" for i in range(len(X))]).to_csv(
            tmp_path / f"{name}.csv"
        )
    command = (
        "novelty",
        tmp_path / "trusted.csv",
        tmp_path / "new.csv",
        "--features-in",
        "columns",
        "--out",
        tmp_path / "judged",
    )
    code, out, err = run(*command)
    assert code == 0, err
    assert "judged/report.html" in out
    page = (tmp_path / "judged" / "report.html").read_text(encoding="utf-8")
    assert "1 of the 6 samples is new" in page
    assert "The farthest, new 5, has the distance" in page
    assert "differs most in &lt;b&gt;feature 6" in page
    assert "<b>feature" not in page
    assert "None of the 5 samples is new." in page_of(judge(trusted, trusted[:5]))


@pytest.mark.parametrize("kind", ["npy", "hdr", "mat", "npz"])
def test_the_command_takes_cubes(tmp_path, monkeypatch, capsys, kind):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    cube = (rng.dirichlet([1, 1, 1], 40) @ (rng.random((3, 6)) + 0.1)).reshape(5, 8, 6)
    other = cube[:2].copy()
    other[1, 3] = [9, 0, 0, 0, 0, 0]
    other[0, 0, 0] = np.nan
    for name, scene in (("old", cube), ("new", other)):
        if kind == "npy":
            np.save(name, scene)
        elif kind == "hdr":
            write_envi(Path(f"{name}.hdr"), Path(f"{name}.img"), scene, list("abcdef"))
        elif kind == "mat":
            savemat(f"{name}.mat", {"cube": scene, "more": scene})
        else:
            flat = scene.transpose(2, 1, 0).reshape(6, -1)
            np.savez(name, Y=flat, nRow=scene.shape[0], nCol=8, cube=flat)
    asked = ["novelty", f"old.{kind}", f"new.{kind}", "--out", "out"]
    assert run_command([*asked, *(["--variable", "cube"] if kind in ("mat", "npz") else [])]) == 0
    said = capsys.readouterr().out
    assert "40 trusted samples, 6 features" in said
    assert f"new.{kind}: 1 pixel without data left out." in said
    rows = pd.read_csv("out/novelty.csv").set_index("sample")
    assert len(rows) == 15
    assert rows.novel["row 1, column 3"] == "yes"
    if kind == "npy":
        cube[0, 0, 0] = -0.1
        np.save("low", cube)
        assert run_command(["novelty", "low.npy", "new.npy", "--out", "low"]) == 1
        assert "pass --clip to set them to zero" in capsys.readouterr().err
        assert run_command(["novelty", "low.npy", "new.npy", "--out", "low", "--clip"]) == 0
        assert "low.npy: 1 negative value set to zero." in capsys.readouterr().out
