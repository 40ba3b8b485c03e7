"""A sample of rays: each is one, the bound on what was missed holds, and neither storage nor blocks
decide anything."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.optimize
import scipy.sparse as sp
from conftest import seeds

from conecollapse import (
    CertificateError,
    Cone,
    ConeCollapse,
    InvalidInputError,
    NotOptimalWarning,
)
from conecollapse.cli.commands import run as run_command
from conecollapse.geometry.sample import Law, Sample, bound, estimate, join, scan
from conecollapse.io import open_table
from conecollapse.io.source import ArraySource
from conecollapse.runs import verify
from conecollapse.runs.run import checksum
from conecollapse.tables.blocks import FileTable

TOL = 1e-8
KINDS = ("mixtures", "thin", "sparse", "duplicates", "ties")


def planted(kind, seed):
    """Points of a cone: combinations of some points, and these."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    dim, n = int(rng.integers(2, 31)), int(rng.integers(5, 120))
    R = rng.random((int(rng.integers(2, 30)), dim))
    if kind == "thin":
        R = 1 + 1e-3 * R
    if kind == "sparse":
        R *= rng.random(R.shape) < 0.3
        R[:, 0] += 0.01
    P = np.vstack([rng.dirichlet(np.full(len(R), 0.5), n) @ R, R])
    if kind == "duplicates":
        P = np.vstack([P, P, 3 * P[::2], np.zeros((2, dim))])
    if kind == "ties":
        P = np.round(4 * P)
        P[0] += 1
    return P[rng.permutation(len(P))] * 10.0 ** rng.integers(-3, 4)


def assert_rays(cone, P):
    """Each is further than tol from the cone of all points but its multiples, by SciPy's
    solver."""
    lengths = np.linalg.norm(P, axis=1)
    U = P[lengths > 0] / lengths[lengths > 0, None]
    for u in P[cone.ray_indices] / lengths[cone.ray_indices, None]:
        others = U[np.linalg.norm(U - u, axis=1) > 2 * TOL]
        assert not len(others) or scipy.optimize.nnls(others.T, u)[1] > TOL


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", seeds(12, quick=4))
def test_every_sampled_ray_is_one_and_its_witness_proves_it(kind, seed):
    P = planted(kind, seed)
    cone = Cone.sample(P, 200, random_state=seed)
    assert_rays(cone, P)
    assert cone.counts.sum() + (cone.winners < 0).sum() == 200
    assert (cone.counts > 0).all()
    verdict = cone.verify(P)
    assert verdict.smallest_distance > TOL
    assert str(verdict).startswith(f"{cone.n_rays} of the {len(P)} points are rays, each at least")
    assert set(cone.ray_indices) <= set(Cone.from_points(P).ray_indices)


@pytest.mark.filterwarnings("ignore::conecollapse.EmptyDataWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_storage_and_blocks_decide_nothing(kind, tmp_path):
    P = planted(kind, 3).astype(np.float32).astype(float)
    wanted = Cone.sample(P, 300, random_state=1)
    np.save(tmp_path / "p.npy", P)
    np.save(tmp_path / "columns.npy", P.T)
    stored = {
        "float32": P.astype(np.float32),
        "CSR": sp.csr_array(P),
        "CSC, float32": sp.csc_array(P.astype(np.float32)),
        "Fortran order": np.asfortranarray(P),
        "frame": pd.DataFrame(P),
        "mapped": np.load(tmp_path / "p.npy", mmap_mode="r"),
        "opened": open_table(tmp_path / "p.npy", block_size=7),
    }
    for name, points in stored.items():
        cone = Cone.sample(points, 300, random_state=1)
        np.testing.assert_array_equal(cone.ray_indices, wanted.ray_indices, name)
        np.testing.assert_array_equal(cone.counts, wanted.counts, name)
        assert cone.missed == wanted.missed
        cone.verify(points)
    columns = ConeCollapse("sample", n_functionals=300, random_state=1)
    for table in (P.T, open_table(tmp_path / "columns.npy")):
        columns.fit(table)
        np.testing.assert_array_equal(columns.ray_indices_, wanted.ray_indices)
        columns.cone_.verify(P)
    columns.cone_.verify(table)


@pytest.mark.parametrize(
    ("scale", "dtype"),
    [(2.0**-700, float), (2.0**980, float), (2.0**-115, np.float32), (2.0**120, np.float32)],
)
def test_the_unit_decides_nothing(scale, dtype):
    P = planted("mixtures", 1).astype(np.float32).astype(float)
    scaled = (P * scale).astype(dtype)
    np.testing.assert_array_equal(scaled.astype(float), P * scale)
    wanted = Cone.sample(P, 100, random_state=0)
    np.testing.assert_array_equal(Cone.sample(scaled, 100, random_state=0).counts, wanted.counts)


def test_where_float32_does_not_tell_float64_does():
    """Points next to the largest one, nearer than float32 resolves."""
    rng = np.random.default_rng(0)
    P = np.repeat(rng.random((40, 12)) ** 4, 5, axis=0) * (1 + 1e-6 * rng.random((200, 12)))
    A = Law.of(P).draw(400, rng)
    q = P.astype(np.longdouble) / P.astype(np.longdouble).sum(axis=1, keepdims=True)
    exact = (q @ A.T.astype(np.longdouble)).argmax(axis=0)
    leaders = scan(P, A, TOL)
    _, first = np.unique(leaders.which, return_index=True)
    np.testing.assert_array_equal(leaders.point[first], exact)
    parts = [scan(P[a : a + 30], A, TOL) for a in range(0, 200, 30)]
    joined = join(TOL, *parts)
    for name in ("which", "point", "value"):
        np.testing.assert_array_equal(getattr(joined, name), getattr(leaders, name))


def test_functionals_that_no_digits_decide_are_counted_as_misses():
    """Two points that differ by a roundoff less than tol apart are one; those of the same value
    further apart are not decided."""
    P = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1]])
    sample = Sample.begin(FileTable(ArraySource(P)), TOL, 0.95, 0)
    A = np.array([[1, 1, 0], [1, 0, 0]], np.float32) / np.sqrt([[2], [1]]).astype(np.float32)
    drawn = sample._with(A, scan(P, A, TOL))
    assert drawn.winners.tolist() == [-1, 0]
    assert drawn.counts.tolist() == [1]
    assert estimate(drawn.winners) == 1.0
    assert bound(np.array([0, 0, -1, -1])) == 1.0
    assert bound(np.array([0, 0, 0, 0])) == pytest.approx(1 - 0.025**0.5)
    assert bound(np.array([0, 0, 0, 0]), look=2) == pytest.approx(1 - (0.05 / 6) ** 0.5)


@pytest.mark.parametrize("kind", KINDS[:3])
def test_the_bound_holds_as_often_as_it_says(kind):
    """The truth is the share of 5000 other functionals of the same law."""
    P = planted(kind, 8)
    table = FileTable(ArraySource(P))
    cones = [Cone.sample(P, 60, confidence=0.9, random_state=seed) for seed in range(60)]
    truth = Sample.begin(table, TOL, 0.95, 10**6).drawn(5000).winners
    missed = np.array([(~np.isin(truth, cone.ray_indices)).mean() for cone in cones])
    bound = np.array([cone.missed for cone in cones])
    # each fails with a chance of at most 0.05; 10 of 60 do with less than 1e-3
    assert (missed > bound).sum() < 10
    assert bound.max() < 1


def test_more_functionals_sharpen_and_never_forget():
    P = planted("mixtures", 8)
    first = Cone.sample(P, 100, random_state=0)
    more = first.extended(100)
    again = Cone.sample(P, 200, random_state=0)
    np.testing.assert_array_equal(more.ray_indices, again.ray_indices)
    np.testing.assert_array_equal(more.counts, again.counts)
    assert set(first.ray_indices) <= set(more.ray_indices)
    assert more.missed <= first.missed
    np.testing.assert_array_equal(first.extended(100).counts, more.counts)  # first is as it was
    # the second look has a third of the risk of the first
    assert again.missed < more.missed or again.missed == more.missed == first.missed


def test_until_doubles_the_sample():
    P = planted("mixtures", 8)
    cone = Cone.sample(P, 64, until=0.05, random_state=0)
    assert cone.missed <= 0.05
    assert np.log2(cone.counts.sum() / 64) % 1 == 0
    assert cone.counts.sum() > 64


def test_until_that_is_not_reached_is_said():
    P = np.random.default_rng(0).dirichlet(np.ones(60), 300)
    sample = Sample.begin(FileTable(ArraySource(P)), TOL, 0.95, 0)
    with pytest.warns(NotOptimalWarning, match=r"after 64 functionals missed is .*, more than"):
        assert len(sample.drawn(16, 0.01, most=64).winners) == 64


def test_one_ray_and_no_ray():
    cone = Cone.sample(np.outer([1.0, 3, 0, 2], [1, 2, 0]), 50, random_state=0)
    assert cone.ray_indices.tolist() == [0]
    assert Cone.sample([[0.0], [2.0], [3.0]], 50, random_state=0).ray_indices.tolist() == [1]
    with pytest.raises(InvalidInputError, match="all points that were drawn are zero"):
        Cone.sample(np.zeros((4, 3)))
    with pytest.raises(InvalidInputError, match="has 1 negative entry"):
        Cone.sample([[1.0, -1.0]])
    with pytest.raises(InvalidInputError, match="negative"):
        Cone.sample(open_table(np.array([[1.0, 2.0], [3.0, -1.0]])))
    for name, value in {
        "confidence": 1.0,
        "until": 0,
        "tol": 2,
        "n_functionals": 0,
        "random_state": "a",
    }.items():
        with pytest.raises(InvalidInputError, match=name):
            Cone.sample(np.eye(3), **{name: value})


def test_forged_samples_are_refused(tmp_path):
    P = planted("mixtures", 2)
    cone = Cone.sample(P, 100, random_state=0)
    claims = cone.certificate
    other = np.setdiff1d(np.arange(len(P)), Cone.from_points(P).ray_indices)[0]
    rays = np.sort(np.append(claims.rays[1:], other))
    U = P / np.linalg.norm(P, axis=1)[:, None]
    forged = {
        "is .* away from the unit point": Cone(cone.rays[::-1], claims),
        "its witness gives": Cone(cone.rays, replace(claims, G=claims.G + 0.1)),
        "proves a distance of": Cone(cone.rays, replace(claims, G=-np.ones_like(claims.G))),
        r"its witness (gives|proves)": Cone(U[rays], replace(claims, rays=rays)),
        "must be increasing": Cone(cone.rays, replace(claims, rays=claims.rays[::-1])),
        "but P has shape": Cone(cone.rays, replace(claims, n_points=len(P) + 1)),
    }
    for message, false in forged.items():
        with pytest.raises(CertificateError, match=message):
            false.verify(P)
        with pytest.raises(CertificateError, match=message):
            false.verify(open_table(P, block_size=5))
    cone.save(tmp_path / "c.npz")
    loaded = Cone.load(tmp_path / "c.npz")
    assert str(loaded.verify(P)) == str(cone.verify(P))
    assert repr(loaded).startswith("<sampled Cone: ")
    with pytest.raises(InvalidInputError, match="a file does not keep it"):
        _ = loaded.counts
    with pytest.raises(InvalidInputError, match="needs an exact cone"):
        loaded.merge(cone)


def test_the_selector_keeps_no_table():
    X = planted("mixtures", 4).T
    X = np.vstack([X] * 60)
    model = ConeCollapse("sample", random_state=0).fit(X)
    assert len(pickle.dumps(model)) < X.nbytes + 2 * model.cone_.rays.nbytes
    assert model.transform(X).shape[1] == model.cone_.n_rays
    assert not hasattr(model, "partial_fit")
    with pytest.raises(InvalidInputError, match="does not hold its points"):
        model.cone_.extended(5)
    with pytest.raises(InvalidInputError, match="needs an exact cone"):
        model.inverse_transform(model.transform(X))


def test_functionals_as_they_are():
    """What the pixel purity index counts: points without the slice."""
    rng = np.random.default_rng(0)
    X, A = rng.standard_normal((500, 9)), rng.standard_normal((200, 9))
    leaders = scan(X, A / np.linalg.norm(A, axis=1)[:, None], TOL, on_slice=False)
    _, first = np.unique(leaders.which, return_index=True)
    values = X @ np.concatenate([A, -A]).T
    np.testing.assert_array_equal(leaders.point[first], values.argmax(axis=0))


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """The folder of a run of the command, and what it said."""
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame(planted("mixtures", 4).T).add_prefix("g")
    frame.to_csv("t.csv", index=False)
    assert run_command(["rays", "t.csv", "--sample", "300", "--seed", "3", "--out", "run"]) == 0
    return tmp_path / "run", capsys.readouterr().out


def test_the_command_writes_counts_and_a_bound_and_is_verified(run, capsys):
    folder, said = run
    facts = json.loads((folder / "run.json").read_text())["results"]
    cone = Cone.sample(planted("mixtures", 4), 300, random_state=3)
    assert facts["missed"] == pytest.approx(cone.missed)
    assert f"with at most {cone.missed:.2g} probability, at 95 % confidence" in said
    rays = pd.read_csv(folder / "rays.csv")
    assert rays["feature"].tolist() == cone.ray_indices.tolist()
    assert rays["functionals"].tolist() == cone.counts.tolist()
    assert run_command(["verify", "run"]) == 0
    assert "there may be more. Not checked:" in capsys.readouterr().out
    assert run_command(["rays", "t.csv", "--sample", "9", "--quick", "--out", "other"]) == 1
    assert "--sample for some; leave one out" in capsys.readouterr().err


@pytest.mark.parametrize("forge", ["winners", "missed", "functionals"])
def test_forged_runs_are_refused(run, forge):
    folder, _ = run
    if forge == "winners":
        with np.load(folder / "factors.npz") as file:
            arrays = dict(file)
        arrays["winners"][0] = np.setdiff1d(np.arange(9), arrays["winners"])[0]
        np.savez(folder / "factors.npz", **arrays)
    elif forge == "missed":
        facts = json.loads((folder / "run.json").read_text())
        facts["results"]["missed"] /= 2
        facts["checksum"] = checksum(facts)
        (folder / "run.json").write_text(json.dumps(facts))
    else:
        path = folder / "rays.csv"
        path.write_text(path.read_text().replace(",", ",1", 6))
    with pytest.raises(CertificateError):
        verify(folder)
