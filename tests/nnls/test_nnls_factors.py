"""The factorizations of the active sets: after columns entered and left in any order, they are
those of the passive columns."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from conecollapse._nnls import careful, cholesky, kernels, passive, quadratic
from conecollapse._nnls.active_set import active_set, active_set_sparse
from conecollapse._nnls.complement import pivot_complement

pytestmark = pytest.mark.own

CAPACITY, DIM, UNTOUCHED = 6, 8, 7.0
# below CAPACITY: the column at this place leaves; else one enters
moves = st.lists(st.integers(0, 2 * CAPACITY), min_size=1, max_size=14)


def walk(moves, enters, leaves, check):
    """Play the moves; ``S`` is the list that the factorization is about."""
    S, unused = [], list(range(20))
    for move in moves:
        if move < len(S):
            leaves(len(S), move)
            unused.append(S.pop(move))
        elif len(S) < CAPACITY - 1:
            S.append(unused.pop(0))
            assert enters(len(S) - 1, S[-1])
        check(S)


@settings(max_examples=25)
@given(moves, st.integers(0, 10**6))
def test_orthogonal_factors_of_the_passive_columns(moves, seed):
    rng = np.random.default_rng(seed)
    Z, x = rng.standard_normal((20, DIM)), rng.standard_normal(DIM)
    Z /= np.linalg.norm(Z, axis=1)[:, None]
    state = kernels.State(
        np.zeros(CAPACITY, np.int64), *(np.full(shape, UNTOUCHED) for shape in SHAPES)
    )

    def enters(k, j):
        r = x - state.Q[:k].T @ (state.Q[:k] @ x)
        sign = 1 if kernels.append_column(Z[j], r, state.Q, state.R, state.qx, k) else -1
        Z[j] *= sign  # a column that does not reduce the residual is refused; its opposite does
        state.S[k], state.h[k] = j, j
        return sign > 0 or kernels.append_column(Z[j], r, state.Q, state.R, state.qx, k)

    def leaves(k, t):
        kept = [field[k:].copy() for field in state[:5]]
        kernels.remove_column(state, k, t)
        for field, before in zip(state[:5], kept, strict=True):
            np.testing.assert_array_equal(field[k:], before)

    def check(S):
        k = len(S)
        Q, R = state.Q[:k], np.triu(state.R[:k, :k])
        assert state.S[:k].tolist() == state.h[:k].tolist() == S
        np.testing.assert_allclose(Q @ Q.T, np.eye(k), atol=1e-12)
        np.testing.assert_allclose(R.T @ Q, Z[S], atol=1e-12)
        np.testing.assert_allclose(state.qx[:k], Q @ x, atol=1e-12)

    walk(moves, enters, leaves, check)


SHAPES = [(CAPACITY,), (CAPACITY, DIM), (CAPACITY, CAPACITY), (CAPACITY,), (DIM,), (CAPACITY,)]


@settings(max_examples=25)
@given(moves, st.integers(0, 10**6))
def test_triangle_of_the_passive_products(moves, seed):
    rng = np.random.default_rng(seed)
    A, b, ridge = rng.standard_normal((24, 20)), rng.standard_normal(24), 0.5
    G, c = A.T @ A, A.T @ b
    state = passive.Passive.of(CAPACITY)

    def enters(k, j):
        entered = passive.append(G, c, ridge, j, state, k)
        state.h[k] = j
        return entered

    def check(S):
        k = len(S)
        L = np.tril(state.L[:k, :k])
        assert state.S[:k].tolist() == state.h[:k].tolist() == S
        np.testing.assert_allclose(L @ L.T, G[np.ix_(S, S)] + ridge * np.eye(k), atol=1e-12)
        np.testing.assert_allclose(L @ state.q[:k], c[S], atol=1e-12)
        passive.solve(state.L, state.q, k, state.ls)
        np.testing.assert_allclose(L.T @ state.ls[:k], state.q[:k], atol=1e-12)

    walk(moves, enters, lambda k, t: passive.remove(state, k, t), check)


def test_a_column_that_depends_on_the_passive_ones_does_not_enter_the_triangle():
    state = passive.Passive.of(2)
    assert passive.append(np.ones((2, 2)), np.ones(2), 0.0, 0, state, 0)
    assert not passive.append(np.ones((2, 2)), np.ones(2), 0.0, 1, state, 1)
    assert passive.append(np.ones((2, 2)), np.ones(2), 1e-3, 1, state, 1)  # unless there is a ridge


@settings(max_examples=25)
@given(moves, st.integers(0, 10**6))
def test_orthogonal_factors_of_twice_the_precision(moves, seed):
    rng = np.random.default_rng(seed)
    Z, b = rng.standard_normal((20, DIM)), rng.standard_normal(DIM)
    Z /= np.linalg.norm(Z, axis=1)[:, None]
    shapes = [
        (CAPACITY, 2),
        (CAPACITY, 2, DIM),
        (CAPACITY, CAPACITY, 2),
        (CAPACITY, 2),
        (2, DIM),
        (CAPACITY, 2),
        (2, DIM),
    ]
    state = careful.TwofoldState(
        np.zeros(CAPACITY, np.int64), *(np.full(shape, UNTOUCHED) for shape in shapes)
    )
    state.r[:], state.column[1] = (b, np.zeros(DIM)), 0.0

    def enters(k, j):
        entered = careful._append(Z, j, state, k)
        assert not state.h[k].any()
        state.h[k] = j, -j
        return entered

    def leaves(k, t):
        kept = [field[k:].copy() for field in state[:5]]
        careful._remove(state, k, t)
        for field, before in zip(state[:5], kept, strict=True):
            np.testing.assert_array_equal(field[k:], before)

    def check(S):
        k = len(S)
        Q, R, qb = (
            pairs.astype(np.longdouble) for pairs in (state.Q[:k], state.R[:k, :k], state.qb[:k])
        )
        Q, R, qb, r = (
            Q.sum(axis=1),
            np.triu(R.sum(axis=2)),
            qb.sum(axis=1),
            state.r.astype(np.longdouble).sum(axis=0),
        )
        assert state.S[:k].tolist() == state.h[:k, 0].tolist() == (-state.h[:k, 1]).tolist() == S
        digits = 1e-17  # below what float64 resolves
        for found, expected in (
            (Q @ Q.T, np.eye(k)),
            (R.T @ Q, Z[S]),
            (qb, Q @ b),
            (r, b - Q.T @ (Q @ b)),
        ):
            assert np.abs(found - expected).max(initial=0) < digits

    walk(moves, enters, leaves, check)


@settings(max_examples=25)
@given(moves, st.integers(0, 10**6))
def test_cholesky_factors_of_the_free_variables(moves, seed):
    A = np.random.default_rng(seed).standard_normal((25, 20))
    G = A.T @ A
    s = cholesky.Factor(
        np.zeros(CAPACITY, np.int64),
        *(
            np.full(shape, UNTOUCHED)
            for shape in ((CAPACITY, CAPACITY), CAPACITY, CAPACITY, 1, 1, 1)
        ),
        np.zeros(1, bool),
    )

    def enters(k, j):
        pivot = cholesky.append(G, s, k, j)
        assert pivot == pytest.approx(s.R[k, k] ** 2)
        return pivot > 0

    def leaves(k, t):
        kept = [field[k:].copy() for field in s[:2]]
        cholesky.remove(s, k, t)
        for field, before in zip(s[:2], kept, strict=True):
            np.testing.assert_array_equal(field[k:], before)

    def check(S):
        k = len(S)
        R = np.triu(s.R[:k, :k])
        assert s.F[:k].tolist() == S
        np.testing.assert_allclose(R.T @ R, G[np.ix_(S, S)], rtol=1e-9, atol=1e-10)

    walk(moves, enters, leaves, check)


def test_a_column_that_depends_on_the_free_ones_or_finds_no_room_is_refused():
    A = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    G = A.T @ A
    s = cholesky.new_factor(3, 4)
    assert cholesky.append(G, s, 0, 0) == cholesky.append(G, s, 1, 1) == 1.0
    assert cholesky.append(G, s, 2, 2) == 0.0
    assert cholesky.append(np.eye(3), cholesky.new_factor(3, 1), 0, 0) == 0.0


def test_all_columns_but_the_passive_ones_may_be_priced_again():
    # those that are passive are dead
    candidates = kernels.Candidates(np.array([4, 2, 9, 1]), np.array([True, True, True, False]))
    kernels.revive(candidates, np.array([9, 4, 1, 2]), 2)  # the last two places are not in use
    assert candidates.dead.tolist() == [True, False, True, False]
    columns = kernels.Columns(
        np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [0.8, 0.6]]), np.array([1.0, 1.0, 1.0, 2.0])
    )
    candidates = kernels.Candidates(np.array([0, 1, 2, 3]), np.zeros(4, bool))
    for r, least, expected in (
        ([1.0, 0.0], 0.0, 3),
        ([0.0, 1.0], 0.7, 1),
        ([0.0, 1.0], 1.0, -1),
        ([-1.0, 0.0], 0.0, -1),
    ):
        assert kernels.best_candidate(columns, np.array(r), candidates, least) == expected


@pytest.mark.parametrize("solver", ["quadratic", "complement"])
def test_solutions_scale_with_the_linear_term(solver):
    """The sides and the steps stay the same, whatever the size of the right-hand side."""
    rng = np.random.default_rng(3)
    A = rng.standard_normal((12, 6))
    G, C, size = A.T @ A, rng.standard_normal((20, 12)) @ A, np.full(20, 4.0)
    allowed = np.ones((1, 6), bool)

    def solve(scale):
        upper = np.full((1, 6), 0.3 * scale)
        if solver == "quadratic":
            problems = quadratic.Quadratic(
                G[None], np.zeros(20, np.int64), scale * C, upper, allowed, scale * size, False
            )
            solved = quadratic.solve_quadratic(problems, np.zeros((20, 6)), 6, 100)
            return solved.X, solved.side, solved.ending == quadratic.OPTIMAL, solved.steps
        X = scale * np.linalg.solve(G, C.T).T
        return X, *pivot_complement(np.linalg.inv(G), X, (upper, allowed), scale * size)

    X, side, is_solved, steps = solve(1.0)
    assert is_solved.any()
    assert {quadratic.LOW, quadratic.FREE, quadratic.HIGH} <= set(side[is_solved].ravel().tolist())
    for scale in (2.0**-60, 2.0**60):
        for found, expected in zip(solve(scale), (scale * X, side, is_solved, steps), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_a_start_is_kept_where_it_sums_to_one():
    """Variables are sorted by where the start has them; without such a sum a vertex takes its
    place."""
    G, upper, allowed = (
        np.eye(4),
        np.array([0.5, 1.0, 1.0, 1.0]),
        np.array([True, True, True, False]),
    )
    for x, simplex, expected, sides in (
        ([0.5, 0.3, 0.2, 0.0], True, [0.5, 0.3, 0.2, 0.0], [2, 1, 1, -1]),
        ([0.5, 0.3, 0.0, 0.0], False, [0.5, 0.3, 0.0, 0.0], [2, 1, 0, -1]),
        # the second has the smallest objective of its own
        ([0.5, 0.3, 0.0, 0.0], True, [0.0, 1.0, 0.0, 0.0], [0, 1, 0, -1]),
        # the last one may not be used
        ([0.0, 0.0, 0.0, 1.0], True, [0.0, 1.0, 0.0, 0.0], [0, 1, 0, -1]),
    ):
        s, side, x = cholesky.new_factor(4, 5), np.zeros(4, np.int8), np.array(x)
        s.c[:] = [0.1, 0.9, 0.2, 0.0]
        k = quadratic._begin(G, x, side, upper, allowed, s, simplex)
        np.testing.assert_array_equal(x, expected)
        assert side.tolist() == sides
        assert k == sides.count(1)
        np.testing.assert_allclose(
            s.c, np.array([0.1, 0.9, 0.2, 0.0]) - 0.5 * (np.array(sides) == 2)
        )


def inner_loop(Z, x, S, h):
    """Lawson and Hanson's inner loop as they wrote it: walk towards the solution over S until a
    coefficient is zero, and drop that one."""
    S, h = list(S), np.array(h)
    while S:
        ls = np.linalg.lstsq(Z[S].T, x, rcond=None)[0]
        if (ls > 0).all():
            return S, ls
        steps = np.where(ls <= 0, h / np.where(ls <= 0, h - ls, 1.0), np.inf)
        h = h + steps.min() * (ls - h)
        kept = np.arange(len(S)) != np.argmin(steps)
        S, h = [j for j, keep in zip(S, kept, strict=True) if keep], h[kept]
    return S, np.zeros(0)


@pytest.mark.parametrize("digits", [16, 32])
def test_coefficients_become_feasible_as_lawson_and_hanson_wrote(digits):
    rng = np.random.default_rng(8)
    dropped = set()
    for _ in range(40):
        Z, x, h = rng.random((5, DIM)), rng.random(DIM) - 0.2, rng.random(5)
        Z /= np.linalg.norm(Z, axis=1)[:, None]
        if digits == 16:
            state = kernels.new_state(CAPACITY, DIM)
            Q, R = np.linalg.qr(Z.T)
            state.Q[:5], state.R[:5, :5], state.qx[:5], state.h[:5], state.S[:5] = (
                Q.T,
                R,
                Q.T @ x,
                h,
                range(5),
            )
            k = kernels.restore_feasibility(state, 5)
            found = state.h[:k]
        else:
            shapes = [
                (CAPACITY, 2),
                (CAPACITY, 2, DIM),
                (CAPACITY, CAPACITY, 2),
                (CAPACITY, 2),
                (2, DIM),
                (CAPACITY, 2),
                (2, DIM),
            ]
            state = careful.TwofoldState(np.zeros(CAPACITY, np.int64), *map(np.zeros, shapes))
            state.r[0] = x
            assert all(careful._append(Z, j, state, j) for j in range(5))
            state.h[:5, 0] = h
            k = careful._restore(state, 5)
            found = state.h[:k, 0]
        S, expected = inner_loop(Z, x, range(5), h)
        assert state.S[:k].tolist() == S
        np.testing.assert_allclose(found, expected, rtol=1e-9)
        dropped.add(5 - k)
    assert len(dropped) > 2


@pytest.mark.parametrize("seed", [157, 1188, 1736])  # three of 4,000 on which it does not get on
def test_where_pivoting_gives_up_the_active_set_takes_over(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 9))
    A = rng.standard_normal((n, n)) + rng.choice([0, 1, 3])
    G, c, rule = A.T @ A, rng.standard_normal(n) @ A * 3, (False, 3e-14, 5 * n + 100)
    unbounded, allowed, s = np.full(n, np.inf), np.ones(n, bool), cholesky.new_factor(n, n + 1)
    s.c[:] = c
    _, ending, turns = quadratic._pivot(
        G, np.zeros(n), np.zeros(n, np.int8), unbounded, allowed, s, rule
    )
    assert ending == quadratic.STEP_LIMIT
    assert turns < 10
    problems = quadratic.Quadratic(
        G[None],
        np.zeros(1, np.int64),
        c[None],
        unbounded[None],
        allowed[None],
        np.full(1, 3.0),
        False,
    )
    solved = quadratic.solve_quadratic(problems, np.zeros((1, n)), n, 5 * n + 100)
    assert solved.ending.tolist() == [quadratic.OPTIMAL]
    x = solved.X[0]
    slope = G @ x - c
    assert (x >= 0).all()
    assert slope.min() > -1e-9
    assert np.abs(slope[x > 0]).max() < 1e-9


def test_passive_columns_are_not_priced_and_dead_ones_only_leave_a_doubt():
    shapes = [(3, 2), (3, 2, 3), (3, 3, 2), (3, 2), (2, 3), (3, 2), (2, 3)]
    state = careful.TwofoldState(np.zeros(3, np.int64), *map(np.zeros, shapes))
    state.r[0] = [3.0, 2.0, 1.0]
    for dead, expected in (
        ([False] * 3, (1, 2.0, 0.0)),
        ([False, True, False], (2, 1.0, 2.0)),
        ([True] * 3, (-1, 0.0, 2.0)),
    ):
        assert careful._price(np.eye(3), state, 1, np.array(dead)) == expected


def test_an_active_set_over_sparse_rows_leaves_out_what_is_excluded_as_that_over_dense_rows_does():
    rng = np.random.default_rng(0)
    U = rng.random((12, 8)) * (rng.random((12, 8)) < 0.5) + 0.1 * np.eye(8)[0]
    U /= np.linalg.norm(U, axis=1)[:, None]
    own = np.array([3, 5])
    found, dense = (
        active_set_sparse(sp.csr_array(U), U[own], exclude=own),
        active_set(U, U[own], exclude=own),
    )
    assert all(i not in passive for i, passive in zip(own, found.passive, strict=True))
    # each is a ray: with itself nothing would be left
    assert np.linalg.norm(found.residual, axis=1).min() > 0.1
    np.testing.assert_allclose(found.residual, dense.residual, atol=1e-12)


def test_a_step_of_a_sparse_active_set_is_counted_once_however_often_it_is_solved_anew():
    found = active_set_sparse(sp.csr_array(np.eye(200)), np.linspace(1, 2, 200)[None])
    assert len(found.passive[0]) == found.n_steps[0] == 200
