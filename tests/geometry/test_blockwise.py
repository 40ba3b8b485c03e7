"""The exact cone of a table in blocks of features: the rays of memory, on files and on Dask, by one
worker and by several."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from cones import planted, unit
from conftest import seeds

from conecollapse import Cone, InvalidInputError, SlowWarning
from conecollapse._progress import showing
from conecollapse.certificates import Vectors
from conecollapse.geometry import blocks, streaming
from conecollapse.geometry.certified import Decisions, conclude
from conecollapse.geometry.undecided import undecided
from conecollapse.io import open_table
from conecollapse.tables import as_table
from conecollapse.tables.blocks import FileTable, Worker

dask = pytest.importorskip("dask")
import dask.array as da  # noqa: E402


def in_blocks(P, size, kind="file"):
    """The points as the features of a table in blocks of ``size`` of them."""
    X = P.T
    if kind == "file":
        return FileTable(
            open_table(sp.csr_array(X) if sp.issparse(P) else np.ascontiguousarray(X)),
            1,
            size,
        )
    if not sp.issparse(P):
        return da.from_array(np.ascontiguousarray(X), chunks=(-1, size))
    return da.from_array(X.toarray(), chunks=(-1, size)).map_blocks(sp.csr_array)


def assert_same(found, P):
    direct = Cone.from_points(P)
    np.testing.assert_array_equal(found.ray_indices, direct.ray_indices)
    assert abs(found.rays - direct.rays).max() == 0
    np.testing.assert_array_equal(found.zero_points, direct.zero_points)
    assert [group.tolist() for group in found.groups] == [group.tolist() for group in direct.groups]
    assert not found.certificate.rays_only.any()  # clear of all points, not only of the other rays
    found.verify(P)


def assert_shares_and_merges_are_as_in_memory(P, size, monkeypatch):
    """In one piece, and in as many shares as three workers would have; merged cones have the same
    rays too."""
    table = in_blocks(P, size)
    for count in (1, 2, 3):
        part = blocks.part_of_shares(table, 1e-8, count)
        assert_same(Cone(part.rays, part.certificate), P)
    merged = streaming.part_of_merges(table, 1e-8, "exact")
    direct = Cone.from_points(P)
    np.testing.assert_array_equal(merged.certificate.rays, direct.ray_indices)
    Cone(merged.rays, merged.certificate).verify(P)
    monkeypatch.setattr(streaming, "merge", unexpected)
    with dask.config.set(scheduler="sync"):
        for kind in ("file", "dask"):
            assert_same(Cone.from_table(in_blocks(P, size, kind)), P)


def unexpected(*_args):
    raise AssertionError("the blocks were merged")


@pytest.mark.parametrize("seed", seeds(6, quick=3))
def test_dense_blocks_give_the_rays_of_memory(seed, monkeypatch):
    """Planted cones with copies in other blocks and zero points, with few rays and with many."""
    rng = np.random.default_rng(seed)
    P = planted(
        rng, int(rng.integers(3, 14)), int(rng.integers(3, 90)), 60, terms=[None, 2][seed % 2]
    )
    P = np.vstack([P, 3 * P[rng.integers(len(P), size=5)], np.zeros((3, P.shape[1]))])[
        rng.permutation(len(P) + 8)
    ]
    assert_shares_and_merges_are_as_in_memory(P, int(rng.integers(9, 40)), monkeypatch)


@pytest.mark.parametrize("seed", seeds(4, quick=2))
def test_sparse_blocks_give_the_rays_of_memory(seed, monkeypatch):
    """Words that are sums of others, words of nearly every document, copies and empty words."""
    rng = np.random.default_rng(seed)
    P = sp.random_array((160, 60), density=0.05, rng=rng, format="csr")
    everywhere = sp.csr_array(rng.random((2, 60)) + 0.1)
    total = sp.csr_array(rng.random((2, 160)) @ P.toarray())
    P = sp.csr_array(
        sp.vstack([P, P[:20] + 2 * P[20:40], everywhere, total, 3 * P[40:45], 0 * P[:2]])
    )
    P = sp.csr_array(P[rng.permutation(P.shape[0])])
    assert_shares_and_merges_are_as_in_memory(P, 31, monkeypatch)


def test_mostly_filled_sparse_blocks_give_the_rays_of_memory(monkeypatch):
    P = sp.csr_array(planted(np.random.default_rng(0), 8, 12, 40))
    assert_shares_and_merges_are_as_in_memory(P, 13, monkeypatch)


def test_points_near_the_tolerance_are_decided_as_in_memory():
    """Two rays less than tol from the cone of all other points, but not from that of the other
    rays: one must be chosen first, and no share can do so by itself."""
    P = np.random.default_rng(0).random((40, 6)) + 0.1
    P[1] = P[0] + 1.5e-8 * np.eye(6)[2]
    P[20] = P[0] + 1.5e-8 * np.eye(6)[3]
    direct = Cone.from_points(P)
    for count in (1, 2, 3):
        part = blocks.part_of_shares(in_blocks(P, 10), 1e-8, count)
        Cone(part.rays, part.certificate).verify(P)
        np.testing.assert_array_equal(part.certificate.rays, direct.ray_indices)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_quick_cone_of_blocks_is_that_of_memory(is_sparse):
    rng = np.random.default_rng(3)
    P = planted(rng, 12, 40, 400)
    P = sp.csr_array(P * (rng.random(P.shape) < 0.3)) if is_sparse else P
    quick = Cone.from_table(in_blocks(P, 31), effort="quick")
    direct = Cone.from_points(P, effort="quick")
    np.testing.assert_array_equal(quick.ray_indices, direct.ray_indices)
    np.testing.assert_array_equal(quick.open_points, direct.open_points)
    assert set(Cone.from_points(P).ray_indices) <= set(quick.ray_indices)
    quick.verify(P)


def test_one_ray_and_none_are_as_in_memory():
    P = np.outer(np.arange(5.0), [1.0, 2.0, 3.0])
    assert blocks.part_of_shares(in_blocks(P, 2), 1e-8, 2) is None  # there is nothing to share
    assert_same(Cone.from_table(in_blocks(P, 2)), P)
    for find in (Cone.from_table, lambda table: blocks.group_features(table, 1e-8)):
        with pytest.raises(InvalidInputError, match="all 5 points are zero"):
            find(in_blocks(0 * P, 2))


def test_groups_of_blocks_are_those_of_memory():
    """Of copies in any block the first is the leader; their distances from it are known."""
    rng = np.random.default_rng(0)
    P = rng.random((30, 5))
    P[20:] = P[:10] * rng.random((10, 1))
    P[25] += 1e-9 * rng.random(5)
    P[7] = 0
    for points in (P, sp.csr_array(P)):
        leader, apart = blocks.group_features(in_blocks(points, 4), 1e-8)
        certificate = Cone.from_points(points).certificate
        np.testing.assert_array_equal(leader, certificate.leader)
        assert 1e-10 < apart <= certificate.residual


def test_a_table_that_no_worker_can_hold_is_merged_and_a_warning_says_so(capsys):
    rng = np.random.default_rng(0)
    P = planted(rng, 8, 12, 90)

    class Small(FileTable):
        workers = (Worker("a", 1, 2.0**14), Worker("b", 1, np.inf))

    small = Small(in_blocks(P, 20).source, 1, 20)
    needed = blocks.memory_needed(small, 2)
    assert needed == P.size * (blocks.DENSE_ENTRY + 4) + len(P) * blocks.EACH_POINT
    with pytest.warns(SlowWarning, match=r"each worker would hold .* GiB of points and has .* GiB"):
        assert blocks.part_of_features(small, 1e-8, "exact") is None
    with pytest.warns(SlowWarning, match="blocks are decided one by one and merged"):
        cone = Cone.from_table(small)
    np.testing.assert_array_equal(cone.ray_indices, Cone.from_points(P).ray_indices)
    cone.verify(P)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert blocks.fits(needed, [Worker("a", 1, 2 * needed)])
        assert blocks.fits(needed, FileTable(small.source, 1, 20).workers)
    with showing("cone", verbose=True):
        assert blocks.fits(2**30, [Worker("", 1, 2.0**31)])
    assert "this process will hold 1 GiB of points and has 2 GiB" in capsys.readouterr().out


def test_as_many_workers_share_the_points_as_have_enough_to_do():
    small, large = np.ones((3, 40)), np.broadcast_to(1.0, (50, 10**5))
    assert blocks.n_shares(as_table(open_table(small)), 4) == 1
    assert blocks.n_shares(as_table(open_table(large)), 4) == 4
    words = as_table(open_table(sp.csr_array(small)))
    assert blocks.n_shares(words, 4) == 1


def test_blocks_are_left_as_they_are():
    """Stored zeros, entries twice and coordinates in any order: the points are right, and the
    user's block is not changed."""
    block = sp.csr_array(
        (np.array([2.0, 0.0, 1.0, 1.0, 4.0]), np.array([2, 1, 0, 0, 1]), np.array([0, 4, 5])),
        shape=(2, 3),
    )
    copy = block.copy()
    for array in (block.data, block.indices, block.indptr):
        array.flags.writeable = False
    for array in (block, sp.csc_array(block)):
        points = blocks.points_of(array)
        np.testing.assert_allclose(points.toarray(), [[2, 0], [0, 4], [2, 0]])
        assert points.nnz == 3
        assert points.has_canonical_format
    U = blocks._unit_rows_of(block, np.array([0, 2]), None)
    np.testing.assert_allclose(U.toarray(), [[1, 0], [1, 0]])
    np.testing.assert_array_equal(block.data, copy.data)


def test_decisions_travel_whole_and_those_of_several_shares_are_joined():
    nothing, witness = Decisions.nothing(4), Vectors(np.array([2]), np.ones((1, 3)))
    first = replace(nothing, combination={0: (np.array([2]), np.ones(1))}).add(witness)
    second = replace(nothing, combination={1: (np.array([2, 3]), np.array([0.5, 2.0]))})
    joined = Decisions.join([pickle.loads(pickle.dumps(some)) for some in (first, second)])
    np.testing.assert_array_equal(joined.families[0].G, first.families[0].G)
    assert joined.sure.tolist() == [False, False, True, False]
    assert {i: (S.tolist(), h.tolist()) for i, (S, h) in joined.combination.items()} == {
        0: ([2], [1.0]),
        1: ([2, 3], [0.5, 2.0]),
    }


def test_combinations_of_each_other_become_combinations_of_rays():
    """x = a + y / 2 and y = b + x / 2 are 4/3 a + 2/3 b and 2/3 a + 4/3 b."""
    P = np.array([[1.0, 0.0], [0.0, 1.0], [4 / 3, 2 / 3], [2 / 3, 4 / 3]])
    U = unit(P)
    of_unit = np.linalg.norm(P[2]) / np.array([1.0, 1.0, *np.linalg.norm(P[2:], axis=1)])

    def combination(points, values):
        return np.array(points), np.array(values) / of_unit[points]

    combinations = {2: combination([0, 3], [1.0, 0.5]), 3: combination([1, 2], [1.0, 0.5])}
    decided = replace(Decisions.nothing(4), combination=combinations).add(
        Vectors(np.array([0, 1]), np.array([[1.0, -1e-3], [-1e-3, 1.0]]))
    )
    proof = conclude(U, 1e-8, decided)
    np.testing.assert_array_equal(proof.rays, [0, 1])
    for i in (2, 3):
        S, h = proof.combination[i]
        np.testing.assert_allclose(h @ U[S], U[i], atol=1e-12)


@pytest.mark.parametrize("kind", ["sparse", "wide", "tall"])
def test_where_nothing_is_decided_blocks_have_the_rays_of_memory(kind):
    """Copies of features in other blocks are one ray, zero features none, and all rays are open."""
    rng = np.random.default_rng(0)
    X = rng.gamma(0.4, size=(200, 40) if kind == "tall" else (40, 90))
    if kind == "sparse":
        X *= rng.random(X.shape) < 0.2
    X[:, 30:] = 2 * X[:, :10] if kind == "tall" else 2 * np.hstack([X[:, :30], X[:, :30]])
    X[:, 5] = 0
    P = sp.csr_array(X.T) if kind == "sparse" else np.ascontiguousarray(X.T)
    direct = undecided(as_table(P.T), 1e-8)
    assert len(direct.open_points) == direct.n_rays < P.shape[0] - 1
    for most in (10**6, 0):
        axis = 0 if kind == "tall" else 1
        source = open_table(sp.csr_array(P.T) if kind == "sparse" else np.ascontiguousarray(P.T))
        found = undecided(FileTable(source, axis, 7), 1e-8, most)
        assert found.holds_rays == bool(most)
        np.testing.assert_array_equal(found.ray_indices, direct.ray_indices)
        np.testing.assert_array_equal(found.open_points, direct.open_points)
        np.testing.assert_array_equal(found.certificate.leader, direct.certificate.leader)
    assert direct.verify(P).n_open == direct.n_rays
