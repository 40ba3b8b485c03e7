"""What supports decide by themselves, before anything is solved over all points."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from conecollapse import Cone
from conecollapse.geometry.certified import support
from conecollapse.geometry.certified.sweeps import descend_by_sweeps


@pytest.fixture
def settled(monkeypatch):
    """The rays and combinations that were found when the rest is left to `settle`."""
    seen = []

    def spy(U, sums, tol, sure, combination, *rest):
        seen.append((sure.copy(), {i: sorted(S.tolist()) for i, (S, _) in combination.items()}))
        return settle(U, sums, tol, sure, combination, *rest)

    settle = support.settle
    monkeypatch.setattr(support, "settle", spy)
    monkeypatch.setattr("conecollapse.geometry.certified.support.MOSTLY_FILLED", 2.0)
    return seen


def test_a_point_is_represented_by_the_points_that_its_support_contains(settled):
    P = np.zeros((7, 12))
    P[0, 0] = P[1, 1] = P[2, 2] = 1
    P[3, [0, 1]] = 1, 2  # of points 0 and 1
    P[4, [0, 1, 2]] = 3, 1, 1  # of points 0, 1 and 2
    P[5, [5, 6]] = 1, 1
    P[6, [2, 5, 7]] = 1, 1, 1  # has a coordinate of its own
    cone = Cone.from_points(sp.csr_array(P))
    (sure, combination), *_ = settled
    assert combination.keys() == {3, 4}
    assert combination[3] == [0, 1]
    assert set(combination[4]) <= {0, 1, 2}
    assert np.flatnonzero(sure).tolist() == cone.ray_indices.tolist() == [0, 1, 2, 5, 6]
    cone.verify(P)


def test_sweeps_decide_whether_a_point_is_inside_the_cone_of_the_points_that_it_contains():
    """Either the coefficients represent it, or the residual leads from it to no other point."""
    rng = np.random.default_rng(0)
    words = (rng.random((30, 12)) < 0.3) * rng.random((30, 12))
    words = words[words.any(axis=1)]
    for x, is_inside in ((rng.random(len(words)) @ words, True), (np.where(np.arange(12) % 2, 1.0, 1e-3), False)):
        lists = support.Lists.of(sp.csr_array(words))
        x = x / x.sum()
        slices = words / lists.sums[:, None]
        is_solved, h, r = descend_by_sweeps(lists, np.arange(len(words)), np.arange(12, dtype=np.int32), x, 1e-6)
        assert is_solved
        assert (h >= 0).all()
        np.testing.assert_allclose(r, x - h @ slices, atol=1e-12)
        assert is_inside == (np.linalg.norm(r) <= 1e-6 * np.linalg.norm(x))
        assert is_inside or r @ x > (slices @ r).max()
