"""What supports decide by themselves, before anything is solved over all points."""

from __future__ import annotations

import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from cones import cone_by_supports, unit
from scipy.optimize import nnls

from conecollapse import Cone, _memory
from conecollapse.geometry.certified import Decisions
from conecollapse.geometry.certified.cost import Budget
from conecollapse.geometry.certified.lists import Lists, stored_columns
from conecollapse.geometry.certified.private import _contained_holder, private_coordinates
from conecollapse.geometry.certified.supports import (
    Scratch,
    _lift_functional,
    contained_points,
    decide_by_supports,
)
from conecollapse.geometry.certified.sweeps import MAX_LOOKS, descend_by_sweeps, polish

pytestmark = pytest.mark.own


def test_a_point_is_represented_by_the_points_that_its_support_contains():
    P = np.zeros((7, 12))
    P[0, 0] = P[1, 1] = P[2, 2] = 1
    P[3, [0, 1]] = 1, 2  # of points 0 and 1
    P[4, [0, 1, 2]] = 3, 1, 1  # of points 0, 1 and 2
    P[5, [5, 6]] = 1, 1
    P[6, [2, 5, 7]] = 1, 1, 1  # has a coordinate of its own
    U = sp.csr_array(unit(P))
    found = decide_by_supports(U, 1e-8, Decisions.nothing(7), most_dense=0)
    assert found.combination.keys() == {3, 4}
    assert sorted(found.combination[3][0].tolist()) == [0, 1]
    assert set(found.combination[4][0].tolist()) <= {0, 1, 2}
    cone = cone_by_supports(sp.csr_array(P))
    assert cone.certificate.residual <= 1e-15
    assert np.flatnonzero(found.sure).tolist() == cone.ray_indices.tolist() == [0, 1, 2, 5, 6]
    cone.verify(P)


@pytest.mark.parametrize("density", [0.05, 0.3, 0.7])
def test_a_private_coordinate_proves_a_ray_exactly_where_no_contained_point_has_it(density):
    """By the definition, point by point; and every witness has one positive entry."""
    rng = np.random.default_rng(0)
    P = (rng.random((60, 30)) < density) * (0.1 + rng.random((60, 30)))
    P = (
        P[np.unique((P > 0).argmax(axis=1), return_index=True)[1]]
        if density > 0.5
        else P[P.any(axis=1)]
    )
    U = sp.csr_array(P / np.linalg.norm(P, axis=1)[:, None])
    family = private_coordinates(Lists.of(U), 1e-8, Budget())
    coordinate = dict(zip(family.of.tolist(), family.F.indices.tolist(), strict=True))
    has = P > 0
    for i in range(len(P)):
        contained = [j for j in range(len(P)) if j != i and not (has[j] & ~has[i]).any()]
        private = has[i] & ~has[contained].any(axis=0)
        assert (i in coordinate) == private.any()
        assert i not in coordinate or private[coordinate[i]]
    G = family.F.toarray() - family.lift[:, None] * ~has[family.of]
    values = G @ U.toarray().T
    assert ((values > 0) == (np.arange(len(P)) == family.of[:, None])).all()
    assert ((G > 0).sum(axis=1) == 1).all()


def test_whatever_a_point_contains_sweeps_decide_it_as_scipy_does():
    """Inside where SciPy's distance is zero; else the residual leads from the point to no
    column, over few and many columns, thin and full, in coordinates of any weight."""
    rng = np.random.default_rng(0)
    for dim, n, power in ((12, 40, 0), (30, 20, 0), (5, 1, 1), (3, 60, 0), (8, 8, 1), (12, 30, 1)):
        words = (rng.random((n, dim)) < 0.3) * rng.random((n, dim))
        words[np.arange(n), rng.integers(dim, size=n)] = 1.0
        weight = rng.uniform(0.5, 1.5, dim) ** power
        lists, places = Lists.of(sp.csr_array(words)), np.arange(dim, dtype=np.int32)
        columns = stored_columns(lists, np.arange(n), places, weight, np.empty((3, dim)))
        slices = words * weight / (words @ weight)[:, None]
        uneven = np.where(np.arange(dim) % 2, 1.0, 1e-3)
        for x in (rng.random(n) @ words, rng.random(dim), words[0] + words[-1], uneven):
            x = x * weight / (x @ weight)
            is_solved, h, r = descend_by_sweeps(columns, x, 1e-10, MAX_LOOKS)
            assert is_solved
            assert (h >= 0).all()
            assert r.any() == (nnls(slices.T, x)[1] > 1e-9)
            np.testing.assert_allclose(r, x - h @ slices if r.any() else 0, atol=1e-12)
            assert r @ x > 0 or np.linalg.norm(x - h @ slices) <= 1e-10 * np.linalg.norm(x)
            assert (slices @ r).max() <= 1e-15


@pytest.mark.parametrize("density", [0.1, 0.5, 0.95])
def test_the_kernels_of_supports_can_be_called_from_python(density):
    """With the scratch of their lists they do what they say, one point after the other: contained
    points by definition, and a functional that is not positive on any other point."""
    rng = np.random.default_rng(0)
    P = (rng.random((60, 9)) < density) * rng.random((60, 9))
    P[:, 0] += ~P.any(axis=1)
    U = sp.csr_array(unit(P))
    lists, has = Lists.of(U), P > 0
    scratch, allowed = Scratch.of(lists), rng.random(60) < 0.7
    for i in range(60):
        wanted = [j for j in np.flatnonzero(allowed) if j != i and not (has[j] & ~has[i]).any()]
        assert sorted(contained_points(lists, allowed, i, scratch)) == wanted
        size = int(has[i].sum())
        f, lift, _ = _lift_functional(lists, i, rng.standard_normal(size), np.ones(size), scratch)
        values = U[:, has[i]] @ f - lift * (U @ ~has[i])
        assert np.delete(values, i).max() <= 0
        assert not scratch.sums.any()


def test_points_decided_at_the_same_time_do_not_lean_on_each_other():
    """Many points with one support: some represent others, and what is redundant represents
    nothing."""
    rng = np.random.default_rng(1)
    rays = np.vstack([np.eye(6), rng.random((6, 6)) * 0.2 + np.eye(6)])
    P = np.vstack([rays, rng.random((40, 12)) @ rays])
    P = sp.csr_array(np.hstack([P, np.zeros((len(P), 100))]))
    cone = Cone.from_points(P)
    assert cone.ray_indices.tolist() == list(range(6))
    cone.verify(P)


@pytest.mark.parametrize("seed", range(3))
def test_coordinates_of_very_different_size_do_not_change_what_is_decided(seed):
    """Rays of dense and sparse storage agree, whatever the scale of each coordinate."""
    rng = np.random.default_rng(seed)
    P = (rng.random((80, 10)) < 0.4) * rng.lognormal(0, 4, (80, 10))
    P = np.vstack([P[P.any(axis=1)], rng.random((40, 5)) @ P[P.any(axis=1)][:5]])
    dense, sparse = Cone.from_points(P), Cone.from_points(sp.csr_array(P))
    assert dense.ray_indices.tolist() == sparse.ray_indices.tolist()
    sparse.verify(P)


def test_the_search_for_a_contained_point_counts_the_entries_that_it_reads():
    """Up to the first entry off the support, that one included, or one more than there are; points
    with larger supports are not read."""
    supports = [[0, 1, 2, 3], [0, 5], [0, 1, 6], [0, 2, 3], [0, 1, 2, 3, 4]]
    U = sp.csr_array(np.array([[float(d in S) for d in range(7)] for S in supports]))
    lists, stamp = Lists.of(U), np.full(7, -1)
    stamp[supports[0]] = 0
    assert _contained_holder(lists, 0, 0, stamp) == (3, 2 + 3 + 4)
    assert _contained_holder(lists, 0, 1, stamp) == (-1, 3 + 5)  # its own entries too
    stamp[:] = -1
    stamp[supports[1]] = 1
    assert _contained_holder(lists, 1, 5, stamp) == (-1, 3)


def test_a_cone_of_sparse_points_and_its_verification_hold_at_most_four_times_the_points():
    rng = np.random.default_rng(0)
    P = sp.csr_array(
        rng.poisson(0.1 * rng.gamma(0.5, size=(1500, 1)) / 0.5, (1500, 1500)), dtype=np.float64
    )
    Cone.from_points(P).verify(P)  # compiles what it needs
    tracemalloc.start()
    try:
        Cone.from_points(P).verify(P)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 4 * (P.data.nbytes + P.indices.nbytes + P.indptr.nbytes)


def test_a_large_sparse_cone_gives_freed_memory_back_where_the_system_can(monkeypatch):
    """By a call of the C library's function, if it has one; small and dense points are not worth
    the call."""
    calls, P = [], np.eye(4) + 0.1
    many = np.tile(P, (1, _memory.MANY_ENTRIES // P.size))
    library = SimpleNamespace(malloc_trim=calls.append)
    monkeypatch.setattr(_memory, "_library", lambda: library)
    Cone.from_points(sp.csr_array(P))
    assert calls == []
    Cone.from_points(many)
    assert calls == []
    Cone.from_points(sp.csr_array(many))
    assert calls == [0]
    monkeypatch.setattr(_memory, "_library", lambda: None)
    Cone.from_points(sp.csr_array(P)).verify(P)


def nearly_inside(seed, power):
    """Columns, and the coefficients of a point that they nearly give, with what is left of it."""
    rng = np.random.default_rng([23, seed])
    words = sp.random_array((150, 60), density=0.05, rng=rng).tocsr()
    words = sp.csr_array(sp.vstack([words[np.diff(words.indptr) > 0], sp.eye_array(60)]))
    n, weight = words.shape[0], rng.uniform(0.5, 2.0, 60) ** power
    columns = stored_columns(
        Lists.of(words),
        np.arange(n),
        np.arange(60, dtype=np.int32),
        weight,
        np.zeros((3, 60)),
    )
    columns.room[2][:] = weight**2
    Q = words.toarray() * weight * columns.share[:, None]
    h = rng.uniform(0.1, 1.0, n)
    x = (h * (1 + rng.uniform(-0.3, 0.3, n))) @ Q
    return columns, Q, h, x, weight


@pytest.mark.parametrize("power", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_a_combination_that_is_near_is_made_exact(seed, power):
    """Coefficients stay positive, and the residual is that of the coefficients; it vanishes."""
    columns, Q, h, x, weight = nearly_inside(seed, power)
    r, zero = (x - h @ Q) * weight, 1e-10
    assert np.linalg.norm(x - h @ Q) > 1e-3 * np.linalg.norm(x)
    polish(columns, np.arange(len(h)), h, r, (zero * np.linalg.norm(x)) ** 2, 500)
    assert (h > 0).all()
    np.testing.assert_allclose(r / weight, x - h @ Q, atol=1e-13)
    assert np.linalg.norm(x - h @ Q) <= zero * np.linalg.norm(x)


def test_a_combination_is_left_alone_where_a_coordinate_has_no_column():
    columns, Q, h, x, weight = nearly_inside(0, 1.0)
    used = np.flatnonzero(Q[:, 7] == 0)
    given, r = h.copy(), (x - h[used] @ Q[used]) * weight
    before = r.copy()
    polish(columns, used, h, r, 0.0, 100)
    np.testing.assert_array_equal(h, given)
    np.testing.assert_array_equal(r, before)
