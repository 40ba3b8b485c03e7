"""What supports decide by themselves, before anything is solved over all points."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from conecollapse import Cone
from conecollapse.geometry.certified import support
from conecollapse.geometry.certified.lists import Lists
from conecollapse.geometry.certified.private import private_coordinates
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


@pytest.mark.parametrize("density", [0.05, 0.3, 0.7])
def test_a_private_coordinate_proves_a_ray_exactly_where_no_contained_point_has_it(density):
    """By the definition, point by point; and every witness is a few entries, one of them positive."""
    rng = np.random.default_rng(0)
    P = (rng.random((60, 30)) < density) * (0.1 + rng.random((60, 30)))
    P = P[np.unique((P > 0).argmax(axis=1), return_index=True)[1]] if density > 0.5 else P[P.any(axis=1)]
    U = sp.csr_array(P / np.linalg.norm(P, axis=1)[:, None])
    found = private_coordinates(Lists.of(U), 1e-8)
    has = P > 0
    for i in range(len(P)):
        contained = [j for j in range(len(P)) if j != i and not (has[j] & ~has[i]).any()]
        private = has[i] & ~has[contained].any(axis=0)
        assert found.is_proven[i] == private.any()
        assert not found.is_proven[i] or private[found.coordinate[i]]
    G = found.witnesses(30).G.toarray()
    values = G @ U.toarray().T
    rays = np.flatnonzero(found.is_proven)
    assert ((values > 0) == (np.arange(len(P)) == rays[:, None])).all()
    assert ((G > 0).sum(axis=1) == 1).all()


def test_a_point_whose_coordinates_all_have_axes_is_their_sum():
    P = np.vstack([np.diag([1.0, 2, 3, 4]), [[1.0, 2, 0, 0], [3, 1, 4, 1]]])
    cone = Cone.from_points(sp.csr_array(P))
    assert cone.ray_indices.tolist() == [0, 1, 2, 3]
    assert cone.certificate.residual <= 1e-15
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
