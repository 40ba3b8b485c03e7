"""The exact cone of many blocks without a last merge: the rays of memory, on files and on Dask."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from cones import planted, unit
from conftest import seeds

from conecollapse import Cone
from conecollapse.geometry import blockwise, streaming
from conecollapse.geometry import undecided as undecided_module
from conecollapse.geometry.blockwise import (
    dense,
    dense_together,
    leading,
    lifts,
    measure,
    pieces,
    rounds,
    sparse,
)
from conecollapse.geometry.blockwise.decided import Combinations, Decided, over_rays
from conecollapse.geometry.undecided import undecided
from conecollapse.io import open_table
from conecollapse.tables import as_table, blocked, survey
from conecollapse.tables.files import FileTable

dask = pytest.importorskip("dask")
import dask.array as da  # noqa: E402

from conecollapse.tables import dask_array  # noqa: E402


def unexpected(*_args):
    raise AssertionError("the blocks were merged")


@pytest.fixture
def alone(monkeypatch):
    """Blocks are never merged, and no place may hold more than the points of one block beside its
    own."""
    monkeypatch.setattr(streaming, "merge", unexpected)
    for module in (measure, sparse):
        monkeypatch.setattr(module, "SMALLEST_SHARE", 1)
    monkeypatch.setattr(dense, "SMALLEST_GROUP", 4)


def on_three_workers(monkeypatch):
    """Work is divided as on a cluster, and done here."""
    three = {
        "has_cluster": lambda: True,
        "n_workers": lambda: 3,
        "workers": list,
        "holders": lambda tasks: [[] for _ in tasks],
    }
    for name, value in three.items():
        monkeypatch.setattr(dask_array, name, value)


def in_blocks(P, size, kind):
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


def test_moments_of_parts_are_those_of_the_whole_and_parts_may_be_empty():
    Q = np.random.default_rng(0).random((9, 3)) + 10
    nothing = measure.Moments(0, np.zeros(3), np.zeros((3, 3)))

    def moments(some):
        return measure.Moments(
            len(some), some.mean(axis=0), (some - some.mean(axis=0)).T @ (some - some.mean(axis=0))
        )

    assert nothing.joined(nothing).size == 0
    for joined in (
        moments(Q[:4]).joined(moments(Q[4:])),
        nothing.joined(nothing).joined(moments(Q)),
        moments(Q).joined(nothing),
    ):
        for found, expected in zip(joined, moments(Q), strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("seed", seeds(6, quick=3))
def test_dense_blocks_give_the_rays_of_memory(seed, monkeypatch):
    """Planted cones with copies in other blocks and zero points; few rays (shared by all) and many
    (asked for block by block)."""
    rng = np.random.default_rng(seed)
    P = planted(
        rng, int(rng.integers(3, 14)), int(rng.integers(3, 90)), 60, terms=[None, 2][seed % 2]
    )
    P = np.vstack([P, 3 * P[rng.integers(len(P), size=5)], np.zeros((3, P.shape[1]))])[
        rng.permutation(len(P) + 8)
    ]
    if seed % 3 == 0:
        # no rays may be shared: every candidate comes from its block
        monkeypatch.setattr(dense, "share", lambda _table: 2)
    with dask.config.set(scheduler="sync"):
        assert_same(
            Cone.from_table(in_blocks(P, int(rng.integers(9, 40)), ["file", "dask"][seed % 2])), P
        )


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("seed", seeds(4, quick=2))
@pytest.mark.parametrize("copied", [False, True])
def test_sparse_blocks_give_the_rays_of_memory(seed, copied, monkeypatch):
    """Words that are sums of others, a word of nearly every document (which goes round the blocks),
    copies and empty words."""
    if copied:
        on_three_workers(monkeypatch)
    rng = np.random.default_rng(seed)
    P = sp.random_array((160, 60), density=0.05, rng=rng, format="csr")
    everywhere = sp.csr_array(rng.random((2, 60)) + 0.1)
    total = sp.csr_array(rng.random((2, 160)) @ P.toarray())
    P = sp.csr_array(
        sp.vstack([P, P[:20] + 2 * P[20:40], everywhere, total, 3 * P[40:45], 0 * P[:2]])
    )
    P = sp.csr_array(P[rng.permutation(P.shape[0])])
    travelled = []
    monkeypatch.setattr(
        sparse, "travel", lambda *args: travelled.append(len(args[1])) or rounds.travel(*args)
    )
    with dask.config.set(scheduler="sync"):
        assert_same(
            Cone.from_table(in_blocks(P, 31, "dask" if copied else ["file", "dask"][seed % 2])), P
        )
    assert travelled


@pytest.mark.parametrize("n_rays", [10, 150])
def test_dense_points_that_every_worker_holds_give_the_rays_of_memory(n_rays, monkeypatch):
    """Both where few points lead in their own direction and where most do; copies and zero points
    are among them."""
    on_three_workers(monkeypatch)
    monkeypatch.setattr(streaming, "merge", unexpected)
    monkeypatch.setattr(dense_together, "POINTS_OF_A_TASK", 1)
    rng = np.random.default_rng(n_rays)
    P = planted(rng, 12, n_rays, 200)
    P = np.vstack([P, 2 * P[:3], 0 * P[:2]])[rng.permutation(len(P) + 5)]
    shares = []
    monkeypatch.setattr(
        dense_together,
        "decide_here",
        lambda *args: shares.append(len(args[3])) or dense.decide_here(*args),
    )
    with dask.config.set(scheduler="sync"):
        assert_same(Cone.from_table(in_blocks(P, 31, "dask")), P)
    assert len(shares) == 3
    assert max(shares) - min(shares) <= 1


@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_quick_cone_of_copies_leaves_open_what_the_first_step_does_not_decide(
    is_sparse, monkeypatch
):
    on_three_workers(monkeypatch)
    monkeypatch.setattr(blockwise, "SMALL_WORK", 0)
    rng = np.random.default_rng(3)
    P = planted(rng, 12, 30, 60)
    P = sp.csr_array(P * (rng.random(P.shape) < 0.3)) if is_sparse else P
    with dask.config.set(scheduler="sync"):
        quick = Cone.from_table(in_blocks(P, 31, "dask"), effort="quick")
    assert quick.certificate.open.any()
    assert set(Cone.from_points(P).ray_indices) <= set(quick.ray_indices)
    quick.verify(P)


def test_what_a_worker_keeps_does_not_travel_and_is_made_again_elsewhere():
    kept = pickle.loads(pickle.dumps(blocked.Kept("large", "told")))
    assert (kept.own, kept.told) == (None, "told")

    def first(blocks, k, found, shared):
        return blocked.Kept((blocks, k, found), shared)

    def then(own, k, told, shared):
        return own, k, told, shared

    items = [("a", None), ("b", None)]
    made_again = dask_array._second_of_two(first, then, items, 1, ["seen"], [kept, kept], "s")
    assert made_again == ((["a", "b"], 1, ["seen"]), 1, ["told", "told"], "s")


def test_shares_of_products_cover_all_pairs_of_points():
    single = np.random.default_rng(0).standard_normal((1500, 5)).astype(np.float32)
    whole = leading.share_of_products(single, 0, 1)
    np.testing.assert_array_equal(
        np.max([leading.share_of_products(single, k, 4) for k in range(4)], axis=0), whole
    )
    products = single @ single.T
    np.fill_diagonal(products, -np.inf)
    np.testing.assert_allclose(whole, products.max(axis=1), rtol=1e-5, atol=1e-5)


def test_every_worker_holds_all_points_where_these_are_no_more_than_three_blocks_or_small():
    class Held(FileTable):
        together = 4

    table = Held(open_table(np.random.default_rng(0).random((30, 40))), 1, 10)
    assert pieces.is_worth_copies(table, 1200, is_sparse=False)
    # nobody holds the blocks of a file
    assert not pieces.is_worth_copies(FileTable(table.source, 1, 10), 1200, is_sparse=False)
    assert not pieces.is_worth_copies(table, 2**24, is_sparse=False)
    assert pieces.is_worth_copies(table, 2**21, is_sparse=True)
    assert not pieces.is_worth_copies(table, 2**24, is_sparse=True)


def test_one_task_looks_at_blocks_of_one_worker():
    held = [["a"], ["b"], ["a", "b"], ["a"], ["a", "b"], ["a"], ["a"], ["a"], ["a"]]
    runs, places = dask_array._runs_of(held)
    assert sorted(k for run in runs for k in run) == list(range(9))
    assert all(place in held[k] for run, place in zip(runs, places, strict=True) for k in run)
    assert max(map(len, runs)) <= dask_array.MOST_BLOCKS


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("as_points", [False, True])
@pytest.mark.parametrize("are_large", [False, True])
def test_blocks_cut_anew_for_several_workers_give_the_rays_of_memory(
    is_sparse, as_points, are_large, monkeypatch
):
    """Uneven blocks become even ones, each cut from one or several of the user's; copies of large
    ones are dropped between pairs."""
    dropped = []
    monkeypatch.setattr(dask_array, "drop_copies", lambda: dropped.append(1))
    if are_large:
        monkeypatch.setattr(dask_array, "LARGE", 0)
        for module in (measure, survey):
            monkeypatch.setattr(module, "SLICE", 50)
    rng = np.random.default_rng(7)
    P = planted(rng, 40, 60, 40)
    if is_sparse:
        P *= rng.random(P.shape) < np.linspace(0.15, 0.02, len(P))[:, None]
    on_three_workers(monkeypatch)
    monkeypatch.setattr(blockwise, "is_worth_copies", lambda *_, is_sparse: False)  # noqa: ARG005
    monkeypatch.setattr(streaming, "merge", unexpected)
    monkeypatch.setattr(pieces, "SMALLEST_SHARE", 1)
    cut = []
    monkeypatch.setattr(
        blockwise, "evened", lambda *args: cut.append(pieces.evened(*args)) or cut[-1]
    )
    array = da.from_array(
        P if as_points else P.T,
        chunks=((3, 70, 2, 15, 10), -1) if as_points else (-1, (3, 70, 2, 15, 10)),
    )
    array = array.map_blocks(sp.csr_array) if is_sparse else array
    with dask.config.set(scheduler="sync"):
        found = Cone.from_points(array) if as_points else Cone.from_table(array)
    assert_same(found, sp.csr_array(P) if is_sparse else P)
    weights = (P > 0).sum(axis=1) if is_sparse else np.full(len(P), 40)
    assert np.add.reduceat(weights, cut[0].bounds[:-1]).max() <= weights.sum() / 5 + 12
    assert cut[0].n_blocks == 5
    assert bool(dropped) == are_large


def test_even_bounds_leave_no_run_empty():
    for weights in ([1] * 10, [9, 0, 0, 0, 1], [0, 0, 7], [5]):
        for count in (1, 2, 3, 8):
            bounds = pieces.even_bounds(np.array(weights), count)
            assert bounds[0] == 0
            assert bounds[-1] == len(weights)
            assert (np.diff(bounds) > 0).all()
            assert len(bounds) <= count + 1


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
    U, lengths = measure.unit_points(block.T, as_sparse=True)
    np.testing.assert_allclose(U.toarray() * lengths[:, None], [[2, 0, 2], [0, 4, 0]])
    assert U.nnz == 3
    assert U.has_canonical_format
    np.testing.assert_array_equal(streaming._clean(block.T).toarray(), block.toarray())
    np.testing.assert_array_equal(block.data, copy.data)


def test_rows_are_taken_from_a_block_without_a_copy():
    block = sp.random_array((100, 30), density=0.2, rng=np.random.default_rng(0), format="csr")
    for a, b in ((0, 100), (10, 20), (30, 30)):
        rows = survey.rows_of(block, a, b)
        np.testing.assert_array_equal(rows.toarray(), block[a:b].toarray())
        assert rows.has_canonical_format
        assert a == b or (
            np.shares_memory(rows.data, block.data)
            and np.shares_memory(rows.indices, block.indices)
        )


def test_what_was_decided_travels_whole():
    combined = Combinations.of_parts(
        [2, 0], [(np.array([3, 1]), np.array([0.5, 2.0])), (np.array([3]), np.ones(1))], [1e-9, 0.0]
    )
    for some in (Decided(), Decided({3: np.ones(2), 1: np.zeros(2)}, [combined], [7])):
        found = pickle.loads(pickle.dumps(some))
        assert list(found.witness) == list(some.witness)
        assert found.doubtful == some.doubtful
        for i, g in some.witness.items():
            np.testing.assert_array_equal(found.witness[i], g)
        for mine, other in zip(
            Combinations.joined(found.combinations),
            Combinations.joined(some.combinations),
            strict=True,
        ):
            np.testing.assert_array_equal(mine, other)


def test_combinations_of_several_parts_are_joined():
    first = Combinations.of_parts(
        [2, 0], [(np.array([3, 1]), np.array([0.5, 2.0])), (np.array([3]), np.ones(1))], [1e-9, 0.0]
    )
    second = Combinations.of_parts([4], [(np.array([1]), np.array([3.0]))], [2e-9])
    joined = Combinations.joined([first, second])
    np.testing.assert_array_equal(joined.of, [2, 0, 4])
    np.testing.assert_array_equal(joined.off, [1e-9, 0.0, 2e-9])
    np.testing.assert_array_equal(
        joined.rows(5).toarray(), [[0, 2, 0, 0.5, 0], [0, 0, 0, 1, 0], [0, 3, 0, 0, 0]]
    )


def test_mostly_filled_sparse_blocks_are_decided_as_dense_ones(monkeypatch):
    monkeypatch.setattr(streaming, "merge", unexpected)
    P = sp.csr_array(planted(np.random.default_rng(0), 8, 12, 40))
    cone = Cone.from_table(in_blocks(P, 13, "file"))
    assert sp.issparse(cone.rays)
    assert_same(cone, P)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_measures_that_are_too_large_for_one_place_are_joined_in_a_tree(is_sparse, monkeypatch):
    monkeypatch.setattr(blockwise, "SMALLEST_SHARE", 0)
    P = np.random.default_rng(0).gamma(0.3, size=(50, 12)) * (
        np.random.default_rng(1).random((50, 12)) < 0.4
    )
    P = sp.csr_array(P) if is_sparse else P
    with dask.config.set(scheduler="sync"):
        for kind in ("file", "dask"):
            assert_same(Cone.from_table(in_blocks(P, 11, kind)), P)


def test_combinations_of_each_other_become_combinations_of_rays():
    """x = a + y / 2 and y = b + x / 2 are 4/3 a + 2/3 b and 2/3 a + 4/3 b, and their residuals add
    up in the same way."""
    parts = [(np.array([1, 2]), np.array([1, 0.5])), (np.array([0, 3]), np.array([1, 0.5]))]
    mutual = Combinations.of_parts([3, 2], parts, [0.0, 3e-9])
    H, off = over_rays(mutual, np.array([0, 1]), 4)
    np.testing.assert_allclose(
        H.toarray(), [[0, 0], [0, 0], [4 / 3, 2 / 3], [2 / 3, 4 / 3]], rtol=1e-15
    )
    assert off == pytest.approx(4e-9)


def test_points_near_the_tolerance_are_left_to_the_merge():
    """Two rays less than tol from the cone of all other points, but not from that of the other
    rays: one must be chosen first."""
    P = np.random.default_rng(0).random((40, 6)) + 0.1
    P[1] = P[0] + 1.5e-8 * np.eye(6)[2]
    P[20] = P[0] + 1.5e-8 * np.eye(6)[3]
    direct, found = Cone.from_points(P), Cone.from_table(in_blocks(P, 10, "file"))
    found.verify(P)
    assert found.n_rays == direct.n_rays


def test_a_quick_cone_of_blocks_leaves_open_what_one_product_does_not_decide(monkeypatch):
    monkeypatch.setattr(blockwise, "SMALL_WORK", 0)
    monkeypatch.setattr(streaming, "merge", unexpected)
    for P in (
        planted(np.random.default_rng(0), 6, 30, 60),
        sp.random_array((90, 30), density=0.1, rng=0, format="csr"),
    ):
        quick, exact = (
            Cone.from_table(in_blocks(P, 25, "file"), effort="quick"),
            Cone.from_table(in_blocks(P, 25, "file")),
        )
        assert set(exact.ray_indices) <= set(quick.ray_indices)
        assert quick.verify(P).n_open == quick.n_rays - (~quick.certificate.open).sum()


def test_the_moments_of_blocks_are_those_of_the_whole():
    Q = np.random.default_rng(0).random((50, 4)) + 1e6
    parts = [
        measure.Moments(len(q), q.mean(axis=0), (q - q.mean(axis=0)).T @ (q - q.mean(axis=0)))
        for q in np.split(Q, [3, 3, 20])[::1]
        if len(q)
    ]
    joined = parts[0]
    for part in parts[1:]:
        joined = joined.joined(part)
    np.testing.assert_allclose(joined.mean, Q.mean(axis=0), rtol=1e-15)
    np.testing.assert_allclose(joined.scatter, 50 * np.cov(Q.T, bias=True), rtol=1e-6)


def test_only_dense_points_of_high_dimension_are_merged(monkeypatch):
    P = np.random.default_rng(0).random((30, 6)) * (np.random.default_rng(1).random((30, 6)) < 0.5)
    monkeypatch.setattr(blockwise, "HIGHEST_DIMENSION", 5)
    assert blockwise.part_blockwise(in_blocks(P, 10, "file"), 1e-8) is None
    assert blockwise.part_blockwise(in_blocks(sp.csr_array(P), 10, "file"), 1e-8) is not None


@pytest.mark.parametrize("kind", ["sparse", "wide", "tall"])
def test_where_nothing_is_decided_blocks_have_the_rays_of_memory(kind, monkeypatch):
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
    for rows_are_held in (True, False):
        if not rows_are_held:
            for module in (undecided_module, streaming):
                monkeypatch.setattr(module, "HELD_RAYS", 0)
        axis = 0 if kind == "tall" else 1
        source = open_table(sp.csr_array(P.T) if kind == "sparse" else np.ascontiguousarray(P.T))
        found = undecided(FileTable(source, axis, 7), 1e-8)
        assert found.holds_rays == rows_are_held
        np.testing.assert_array_equal(found.ray_indices, direct.ray_indices)
        np.testing.assert_array_equal(found.open_points, direct.open_points)
        np.testing.assert_array_equal(found.certificate.leader, direct.certificate.leader)
    assert direct.verify(P).n_open == direct.n_rays


def test_a_functional_that_one_block_objects_to_proves_nothing():
    U = sp.csr_array(np.eye(3)[:2])
    rules = sparse.Rules(tol=1e-8, rounding=1e-15, dim=3, most_entries=10)
    quiet, objects = (
        lifts.Lift(np.zeros(2), np.array(blocked)) for blocked in ([False, False], [False, True])
    )
    found = lifts.lifted(sparse.Functionals(np.array([4, 7]), U, U), [quiet, objects], rules)
    assert found.support.of.tolist() == [4]
    assert found.decided.doubtful == [7]


def test_functionals_that_are_looked_at_together_need_the_same_lifts_as_one_by_one(monkeypatch):
    rng = np.random.default_rng(0)
    U = measure.unit_points(
        sp.random_array((12, 40), density=0.3, rng=rng, format="csc"), as_sparse=True
    )[0]
    rows = sparse.made_rows(U.T, (0, 0, np.arange(40)), np.ones(12, np.int64))
    targets = sp.csr_array(U[[3, 8, 20]])
    F = targets.copy()
    F.data = F.data - 0.3
    F.data[:1] = 0.0
    F.eliminate_zeros()  # a functional may vanish at coordinates of the support
    rules = sparse.Rules(tol=1e-8, rounding=1e-14, dim=12, most_entries=10)
    found = []
    for wide in (0.0, 1.0):
        monkeypatch.setattr(lifts, "WIDE", wide)
        found.append(lifts.lifts(sparse.Functionals(np.array([3, 8, 20]), targets, F), rows, rules))
    np.testing.assert_allclose(found[0].needed, found[1].needed, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(found[0].blocked, found[1].blocked)


def test_few_targets_are_divided_by_their_entries():
    which = [(0, np.array([4, 7])), (2, np.array([1])), (3, np.array([0, 5]))]
    parts = sparse.divided(which, np.array([3, 90, 50, 45, 30]), 2)
    assert [[(k, some.tolist()) for k, some in part] for part in parts] == [
        [(0, [7]), (3, [5])],
        [(0, [4]), (2, [1]), (3, [0])],
    ]
    assert len(sparse.divided(which, np.array([3, 90, 50, 5, 30]), 8)) == 5


def test_a_point_that_the_search_leaves_is_projected_where_all_points_are_at_hand(monkeypatch):
    """Whatever the search leaves is decided: a single doubtful point would send the whole table to
    the merge."""
    monkeypatch.setattr(
        dense,
        "_exchange",
        lambda _held, groups, *_, **__: (Decided(doubtful=groups[0].points.ids.tolist()), None),
    )
    monkeypatch.setattr(dense, "_searched", lambda group, _: group)
    P = planted(np.random.default_rng(3), 6, 20, 40)
    U = unit(P)
    around = leading.Round.of(measure.measure_block(U.T, None, False).moments)
    points = dense.Points(np.arange(len(U)), U, U.sum(axis=1))
    frame = around.frame(U, points.sums)
    decided = dense.decide_here(
        points, frame, np.zeros(len(U), bool), points.ids, dense.Rules(around, 1e-8, 64)
    )
    assert decided.doubtful == []
    np.testing.assert_array_equal(sorted(decided.witness), Cone.from_points(P).ray_indices)
