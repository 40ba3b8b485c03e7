"""The epsilon-cone: its guarantee, its path, and how it compares with SPA and XRAY."""

from __future__ import annotations

import dataclasses
import importlib
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from cones import planted

from conecollapse import CertificateError, Cone
from conecollapse.geometry.selections import spa, xray

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch):
    """The benchmark of planted anchors, as a module."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("recovery")


def residuals(P, rays):
    return Cone.from_points(P[rays]).residuals(P)


@pytest.mark.parametrize("eps", [0.3, 0.1, 0.01])
@pytest.mark.parametrize("sparse", [False, True])
def test_no_point_is_further_away_than_guaranteed(eps, sparse):
    P = planted(np.random.default_rng(0), 10, 40, 100)
    cone = Cone.approximate(sp.csr_array(P) if sparse else P, max_residual=eps)
    assert residuals(P, cone.ray_indices).max() <= eps
    assert cone.tol <= eps
    assert cone.verify(P).largest_residual <= eps


def test_the_path_is_the_residual_after_each_ray():
    P = planted(np.random.default_rng(1), 8, 20, 60)
    calls = []
    cone = Cone.approximate(P, max_residual=0.02, callback=lambda k, r: calls.append((k, r)))
    assert [k for k, _ in calls] == list(range(1, cone.n_rays + 1))
    np.testing.assert_array_equal([r for _, r in calls], cone.path.residuals)
    assert (np.diff(cone.path.residuals) <= 1e-12).all()
    for k in range(1, cone.n_rays + 1):
        assert residuals(P, cone.path.rays[:k]).max() == pytest.approx(
            cone.path.residuals[k - 1], abs=1e-7
        )


def test_each_ray_is_the_furthest_point_of_its_turn():
    """Lazy bounds must not change the greedy choice."""
    P = planted(np.random.default_rng(2), 6, 15, 300)
    cone = Cone.approximate(P, max_residual=0.01)
    for k in range(1, cone.n_rays):
        assert residuals(P, cone.path.rays[:k]).argmax() == cone.path.rays[k]


def test_as_many_rays_as_asked_for_or_needed():
    """More than there are dimensions where the cone is round, and those of the exact cone where
    that has few; zero points need none."""
    P = np.random.default_rng(3).random((200, 30))
    cone = Cone.approximate(P, max_residual=0.01, max_rays=7)
    assert cone.n_rays == 7
    assert cone.path.residuals[-1] == pytest.approx(residuals(P, cone.ray_indices).max(), abs=1e-7)
    cone.verify(P)
    angle = np.linspace(0, 2 * np.pi, 300, endpoint=False)
    circle = np.column_stack([np.cos(angle) + 2, np.sin(angle) + 2, np.ones(300)])
    few = planted(np.random.default_rng(5), 9, 6, 80)
    for points, eps, least, most in ((circle, 1e-3, 4, 299), (few, 1e-6, 6, 6)):
        cone = Cone.approximate(points, max_residual=eps)
        assert least <= cone.n_rays <= most
        cone.verify(points)
    assert sorted(cone.ray_indices) == Cone.from_points(few).ray_indices.tolist()
    cone = Cone.approximate([[0.0, 0], [1, 2], [0, 0]])
    assert cone.ray_indices.tolist() == [1]
    cone.verify([[0.0, 0], [1, 2], [0, 0]])


def test_mass_measures_the_points_themselves():
    P = planted(np.random.default_rng(4), 6, 12, 40) * np.logspace(-4, 0, 52)[:, None]
    cone = Cone.approximate(P, max_residual=0.05, weighting="mass")
    away = np.linalg.norm(P - cone.project(P), axis=1) / np.linalg.norm(P, axis=1).max()
    assert away.max() <= 0.05
    cone.verify(P)
    assert cone.n_rays < Cone.approximate(P, max_residual=0.05).n_rays


def test_a_forged_guarantee_is_refused():
    P = planted(np.random.default_rng(6), 6, 12, 40)
    cone = Cone.approximate(P, 0.1)
    with pytest.raises(CertificateError, match=r"point \d+: its residual is .* more than tol = "):
        Cone(cone.rays, dataclasses.replace(cone.certificate, tol=cone.tol / 2)).verify(P)
    with pytest.raises(ValueError, match="groups needs an exact cone"):
        cone.groups  # noqa: B018


@pytest.mark.parametrize(
    "find", [spa, xray, lambda P, k: Cone.approximate(P, 1e-6, max_rays=k).ray_indices]
)
@pytest.mark.parametrize("sparse", [False, True])
def test_separable_data_without_noise_is_recovered_exactly(find, sparse, benchmark):
    for seed in range(5):
        P, anchors = benchmark.separable(
            np.random.default_rng(seed), dim=30, n_rays=8, n_points=120, noise=0.0
        )
        assert sorted(find(sp.csr_array(P) if sparse else P, 8)) == sorted(anchors)


@pytest.mark.slow
def test_recovery_against_noise_as_an_order(benchmark):
    """Noise costs every method something, and the mass-weighted epsilon-cone the least."""
    table = benchmark.recovery(noises=(0.0, 0.3, 0.6), n_trials=10, seed=0)
    for method, shares in table.items():
        assert shares[0] == 1.0, method
        assert shares[0] >= shares[1] > shares[2], method
    for rival in ("SPA", "XRAY", "epsilon-cone"):
        assert table["epsilon-cone, mass"][2] > table[rival][2], rival


def test_spa_cannot_find_more_rays_than_dimensions(benchmark):
    table = benchmark.recovery(noises=(0.0,), n_trials=3, seed=0, dim=10, n_rays=20)
    assert table["SPA"][0] <= 0.5
    assert table["epsilon-cone"][0] == table["epsilon-cone, mass"][0] == table["XRAY"][0] == 1.0


@pytest.mark.parametrize("find", [spa, xray])
def test_spa_and_xray_find_no_more_rays_than_asked_for_or_there_are(find):
    P = planted(np.random.default_rng(5), 6, 6, 20)
    assert find(P, 2).tolist() == find(P, 4)[:2].tolist()
    assert sorted(find(np.array([[1.0, 0, 0], [1, 1, 0], [0, 1, 0]]), 3)) == [0, 2]


def test_without_a_number_all_points_are_within_a_twentieth():
    P = np.eye(5)
    P[3:, :2] = np.sqrt(0.5)
    P[3, 3], P[4, 4] = 0.04, 0.07  # about how far each is from the cone of the others
    cone = Cone.approximate(P)
    assert sorted(cone.ray_indices) == [0, 1, 2, 4]
    assert 0.03 < cone.verify(P).largest_residual < 0.05
