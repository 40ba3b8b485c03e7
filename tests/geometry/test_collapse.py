"""Algorithm 1 and its theorem."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from cones import brute_force, planted

from conecollapse import Cone, ConvergenceError, collapse

SMALL = [
    planted(np.random.default_rng(seed), 3 + seed % 3, 4 + seed % 5, 3 + seed % 12)
    for seed in range(12)
]


@pytest.mark.parametrize("P", SMALL)
def test_theorem_the_final_cone_is_the_data_cone_and_minimal(P):
    cone = collapse(P)
    assert (
        cone.ray_indices.tolist()
        == brute_force(P).tolist()
        == Cone.from_points(P).ray_indices.tolist()
    )
    cone.verify(P)


@pytest.mark.parametrize("P", SMALL[:6])
def test_theorem_the_result_does_not_depend_on_eta(P):
    slow, middle, fast = (collapse(P, eta=eta) for eta in (0.05, 0.25, 0.9))
    assert slow.ray_indices.tolist() == middle.ray_indices.tolist() == fast.ray_indices.tolist()
    assert len(slow.history) > len(fast.history)  # only the time depends on it


def test_the_printed_rule_never_stops():
    """Pruning only after an addition, as printed: all three rays are found, and a free ray outside
    their cone tilts for ever."""
    P = np.array([[5, 4, 1], [1, 3, 5], [3, 5, 2]])
    with pytest.raises(ConvergenceError, match="did not stop within 300 iterations"):
        collapse(P, prune="printed", max_iter=300)
    seen = []
    with pytest.raises(ConvergenceError):
        collapse(P, prune="printed", max_iter=300, callback=seen.append)
    assert {0, 1, 2} <= set(seen[-1].ids.tolist())  # every extreme ray is in U
    assert len(seen[-1].outside) == 0  # no point is outside any more, so nothing is ever pruned
    assert (seen[-1].ids < 0).any()  # although free rays remain
    assert collapse(P).ray_indices.tolist() == [0, 1, 2]


@pytest.mark.slow
def test_how_often_the_printed_rule_fails():
    stopped = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        P = rng.random((int(rng.integers(7, 25)), int(rng.integers(3, 6))))
        assert len(collapse(P).history) < 40
        try:
            collapse(P, prune="printed", max_iter=100)
            stopped += 1
        except ConvergenceError:
            pass
    assert stopped <= 5


def test_history_tells_the_whole_story():
    P = planted(np.random.default_rng(1), 4, 6, 10)
    calls = []
    cone = collapse(P, callback=calls.append)
    assert calls == cone.history
    rays = {int(i) for i in -1 - np.arange(4)}  # the orthant
    mean = P.mean(axis=0) / np.linalg.norm(P.mean(axis=0))
    for t, step in enumerate(cone.history):
        assert step.t == t
        assert set(step.tilted_ids.tolist()) == rays
        rays |= set(step.outside.tolist())
        rays -= set(step.pruned.tolist())
        assert set(step.ids.tolist()) == rays
        assert step.rays.shape == (len(step.ids), 4)
        np.testing.assert_allclose(np.linalg.norm(step.rays, axis=1), 1)
        assert (step.rays >= 0).all()  # all columns stay in the orthant
    for before, after in zip(cone.history, cone.history[1:], strict=False):
        for k, name in enumerate(after.tilted_ids):
            u = before.rays[before.ids.tolist().index(name)]
            if after.frozen[k]:
                np.testing.assert_array_equal(u, after.tilted[k])
            else:  # Lemma 2: the tilt brings every free ray nearer to the mean
                assert after.tilted[k] @ mean > u @ mean


def test_every_point_stays_inside_after_each_iteration():
    P = planted(np.random.default_rng(2), 4, 7, 8)
    for step in collapse(P).history:
        assert Cone.from_points(step.rays).residuals(P).max() < 1e-7


@pytest.mark.parametrize("eta", [0.05, 0.25, 0.9])
def test_one_ray_low_rank_zero_points_and_groups(eta):
    assert collapse([[1, 2], [2, 4], [0, 0]], eta=eta).ray_indices.tolist() == [0]
    # a two-dimensional cone in three dimensions
    flat = np.array([[1.0, 0, 1], [2, 1, 3], [0, 1, 1], [1, 1, 2], [0, 3, 3]])
    for points in (flat, sp.csr_array(flat)):
        cone = collapse(points, eta=eta)
        assert cone.ray_indices.tolist() == [0, 2]
        cone.verify(flat)


def test_a_cosine_cannot_tell_twins_apart_and_scale_does_not_matter():
    twins = [[1, 1.5e-8], [1, 0], [0, 1]]
    assert (
        collapse(twins, max_iter=500).ray_indices.tolist()
        == Cone.from_points(twins).ray_indices.tolist()
        == [1, 2]
    )
    P = np.array([[4.0, 1], [1, 1], [1, 3]])
    for scale in (1e-200, 1e200):
        assert collapse(P * scale).ray_indices.tolist() == [0, 2]
