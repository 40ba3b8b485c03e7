"""The factorizations of the active sets: after columns entered and left in any order, they are
those of the passive columns."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from conecollapse._nnls import careful, columns, factor, products
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


def fresh_state(dim, with_q, has_sum=False):
    """A state whose every number is UNTOUCHED."""
    shapes = [
        (CAPACITY,),
        (CAPACITY, dim if with_q else 0),
        (CAPACITY, CAPACITY),
        (CAPACITY,),
        (CAPACITY if has_sum else 0,),
        (CAPACITY,),
        (dim,),
    ]
    fields = (np.full(shape, UNTOUCHED) for shape in shapes)
    return factor.State(np.zeros(CAPACITY, np.int64), *fields)


def leaves_the_rest(state, k, t):
    """Column ``t`` leaves, and nothing beyond the first k is written."""
    kept = [field[k:].copy() for field in state[:6]]
    factor.remove(state, k, t)
    for field, before in zip(state[:6], kept, strict=True):
        np.testing.assert_array_equal(field[k:], before)


@settings(max_examples=25)
@given(moves, st.integers(0, 10**6))
def test_orthogonal_factors_of_the_passive_columns(moves, seed):
    rng = np.random.default_rng(seed)
    Z, x = rng.standard_normal((20, DIM)), rng.standard_normal(DIM)
    Z /= np.linalg.norm(Z, axis=1)[:, None]
    state = fresh_state(DIM, True)

    def enters(k, j):
        state.r[:] = x - state.Q[:k].T @ (state.Q[:k] @ x)
        sign = 1 if factor.append_column(Z[j], state, k) else -1
        Z[j] *= sign  # a column that does not reduce the residual is refused; its opposite does
        state.S[k], state.h[k] = j, j
        return sign > 0 or factor.append_column(Z[j], state, k)

    def check(S):
        k = len(S)
        Q, R = state.Q[:k], np.triu(state.R[:k, :k])
        assert state.S[:k].tolist() == state.h[:k].tolist() == S
        np.testing.assert_allclose(Q @ Q.T, np.eye(k), atol=1e-12)
        np.testing.assert_allclose(R.T @ Q, Z[S], atol=1e-12)
        np.testing.assert_allclose(state.q[:k], Q @ x, atol=1e-12)

    walk(moves, enters, lambda k, t: leaves_the_rest(state, k, t), check)


@settings(max_examples=25)
@given(moves, st.integers(0, 10**6), st.booleans())
def test_triangle_of_the_passive_products(moves, seed, has_sum):
    rng = np.random.default_rng(seed)
    A, b = rng.standard_normal((24, 20)), rng.standard_normal(24)
    G, c = A.T @ A + 0.5 * np.eye(20), A.T @ b
    state = fresh_state(0, False, has_sum)

    def enters(k, j):
        entered = factor.append_product(G, c, j, state, k)
        state.S[k] = state.h[k] = j
        return entered

    def check(S):
        k = len(S)
        R = np.triu(state.R[:k, :k])
        assert state.S[:k].tolist() == state.h[:k].tolist() == S
        np.testing.assert_allclose(R.T @ R, G[np.ix_(S, S)], atol=1e-11)
        np.testing.assert_allclose(R.T @ state.q[:k], c[S], atol=1e-11)
        if has_sum:
            np.testing.assert_allclose(R.T @ state.p[:k], np.ones(k), atol=1e-11)
        factor.solve_triangle(state.R, state.q, k, state.ls)
        np.testing.assert_allclose(R @ state.ls[:k], state.q[:k], atol=1e-11)
        whole = np.zeros((k, k))
        assert factor.factorize(G, np.array(S, np.int64), k, whole)
        np.testing.assert_allclose(np.triu(whole), np.abs(R) * np.sign(R), atol=1e-11)

    walk(moves, enters, lambda k, t: leaves_the_rest(state, k, t), check)


def test_a_column_that_depends_on_the_passive_ones_does_not_enter_the_triangle():
    state, c = factor.new_state(3, 0, False), np.ones(3)
    ones = np.ones((2, 2))
    assert factor.append_product(ones, c, 0, state, 0)
    state.S[0] = 0
    assert not factor.append_product(ones, c, 1, state, 1)
    assert factor.append_product(ones + 1e-3 * np.eye(2), c, 1, state, 1)  # unless there is a ridge
    assert not factor.factorize(ones, np.arange(2), 2, np.empty((2, 2)))
    # the last column is nearly a difference of two that are at a small angle: the combination is
    # large, and so is its rounding error
    for angle, enters in ((1e-2, True), (1e-4, False)):
        A = np.array([[1.0, 1.0, 0.0], [0.0, angle, 1.0], [0.0, 0.0, 1e-4]])
        A /= np.linalg.norm(A, axis=0)
        G, state = A.T @ A, factor.new_state(3, 0, False)
        for k in range(2):
            assert factor.append_product(G, c, k, state, k)
            state.S[k] = k
        assert factor.append_product(G, c, 2, state, 2) == enters


@settings(max_examples=25)
@given(moves, st.integers(0, 10**6))
def test_orthogonal_factors_of_32_digits(moves, seed):
    rng = np.random.default_rng(seed)
    Z, b = rng.standard_normal((CAPACITY + 14, DIM)), rng.standard_normal(DIM)
    Z /= np.linalg.norm(Z, axis=1)[:, None]
    state = careful.Passive(Z, b)

    def enters(_, j):
        return state.append(j, careful.Wide(np.array(float(j))))

    def check(S):
        k, precise = len(S), np.longdouble
        Q, R, q, r = (
            pair.hi.astype(precise) + pair.lo
            for pair in (state.Q[:k], state.R[:k, :k], state.q[:k], state.r)
        )
        assert state.S == state.h.hi[:k].tolist() == S
        digits = 1e-17  # below what float64 resolves
        for found, expected in (
            (Q @ Q.T, np.eye(k)),
            (np.triu(R).T @ Q, Z[S]),
            (q, Q @ b),
            (r, b - Q.T @ (Q @ b)),
        ):
            assert np.abs(found - expected).max(initial=0) < digits

    walk(moves, enters, lambda k, t: state.keep(np.arange(k) != t), check)


def test_all_columns_but_the_passive_ones_may_be_priced_again():
    # those that are passive are dead
    candidates = columns.Candidates(np.array([4, 2, 9, 1]), np.array([True, True, True, False]))
    columns.revive(candidates, np.array([9, 4, 1, 2]), 2)  # the last two places are not in use
    assert candidates.dead.tolist() == [True, False, True, False]
    Z = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [0.8, 0.6]])
    candidates = columns.Candidates(np.array([0, 1, 2, 3]), np.zeros(4, bool))
    for r, least, expected in (
        ([1.0, 0.0], 0.0, 0),
        ([0.0, 1.0], 0.7, 1),
        ([0.0, 1.0], 1.0, -1),
        ([-1.0, 0.0], 0.0, -1),
    ):
        assert columns.best_candidate(Z, None, np.array(r), candidates, least) == expected


@pytest.mark.parametrize("solver", ["products", "complement"])
def test_solutions_scale_with_the_linear_term(solver):
    """The sides and the steps stay the same, whatever the size of the right-hand side."""
    rng = np.random.default_rng(3)
    A = rng.standard_normal((12, 6))
    G, C, size = A.T @ A, rng.standard_normal((20, 12)) @ A, np.full(20, 4.0)

    def solve(scale):
        upper = np.full((1, 6), 0.3 * scale)
        if solver == "products":
            of = np.zeros(20, np.int64)
            problems = products.Problems(G[None], of, scale * C, upper, scale * size)
            solved = products.solve(problems)
            return solved.X, solved.side, solved.ending == products.OPTIMAL, solved.steps
        X = scale * np.linalg.solve(G, C.T).T
        return X, *pivot_complement(np.linalg.inv(G), X, upper, scale * size)

    X, side, is_solved, steps = solve(1.0)
    assert is_solved.any()
    assert {products.LOW, products.FREE, products.HIGH} <= set(side[is_solved].ravel().tolist())
    for scale in (2.0**-60, 2.0**60):
        for found, expected in zip(solve(scale), (scale * X, side, is_solved, steps), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_a_start_is_kept_where_it_sums_to_one():
    """Variables are where the start has them; without such a sum a vertex takes its place. No
    step is allowed, so that only the walk over the free ones follows."""
    upper = np.array([[0.5, 1.0, 1.0, 0.0]])
    c = np.array([[0.1, 0.9, 0.2, 0.0]])
    problems = products.Problems(np.eye(4)[None], np.zeros(1, int), c, upper, np.ones(1))
    for x, total, sides in (
        ([0.5, 0.4, 0.1, 0.0], 1.0, [2, 1, 0, -1]),  # the walk ends at (0.5, 0.5, 0)
        ([0.5, 0.3, 0.0, 0.0], None, [2, 1, 0, -1]),
        # the second has the smallest objective of its own
        ([0.5, 0.3, 0.0, 0.0], 1.0, [0, 1, 0, -1]),
        # the last one may not be used
        ([0.0, 0.0, 0.0, 1.0], 1.0, [0, 1, 0, -1]),
    ):
        solved = products.solve(problems, np.array([x]), total=total, max_steps=0)
        assert solved.side[0].tolist() == sides
        assert total is None or solved.X.sum() == pytest.approx(1.0)


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
            state = factor.new_state(CAPACITY, DIM, True)
            Q, R = np.linalg.qr(Z.T)
            state.Q[:5], state.R[:5, :5], state.q[:5], state.h[:5], state.S[:5] = (
                Q.T,
                R,
                Q.T @ x,
                h,
                range(5),
            )
            k = factor.restore(state, 5)
            found, left = state.h[:k], state.S[:k].tolist()
        else:
            state = careful.Passive(Z, x)
            assert all(state.append(j, careful.Wide(h[j])) for j in range(5))
            state.restore()
            k, left = len(state.S), state.S
            found = state.h.hi[:k]
        S, expected = inner_loop(Z, x, range(5), h)
        assert left == S
        np.testing.assert_allclose(found, expected, rtol=1e-9)
        dropped.add(5 - k)
    assert len(dropped) > 2


@pytest.mark.parametrize("seed", [157, 1188, 1736])  # three of 4,000 on which pivoting cycles
def test_the_active_set_ends_where_pivoting_does_not(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 9))
    A = rng.standard_normal((n, n)) + rng.choice([0, 1, 3])
    G, c = A.T @ A, rng.standard_normal(n) @ A * 3
    solved = products.solve(products.plain_problems(G, c[None]))
    assert solved.ending.tolist() == [products.OPTIMAL]
    x = solved.X[0]
    slope = G @ x - c
    assert (x >= 0).all()
    assert slope.min() > -1e-9
    assert np.abs(slope[x > 0]).max() < 1e-9


def test_many_variables_are_followed_by_short_lists():
    rng = np.random.default_rng(4)
    U = rng.random((700, 12))
    U /= np.linalg.norm(U, axis=1)[:, None]
    Y = rng.standard_normal((20, 12))
    solved = products.solve(products.plain_problems(U @ U.T, Y @ U.T), capacity=12)
    assert (solved.ending == products.OPTIMAL).all()
    dense = active_set(U, Y)
    np.testing.assert_allclose(Y - solved.X @ U, dense.residual, atol=1e-9)


def test_passive_columns_are_not_priced_and_dead_ones_only_leave_a_doubt():
    for dead, expected, doubt in (([], 1, False), ([1], 2, False), ([1, 2], -1, False)):
        state = careful.Passive(np.eye(3), np.array([3.0, 2.0, 1.0]))
        assert state.append(0)
        is_dead = np.isin(np.arange(3), dead)
        assert careful._enter(state, is_dead, 1.0, True) == (expected, doubt)
    state = careful.Passive(np.eye(3), np.array([3.0, 0.0, 0.0]))
    assert state.append(0)
    assert careful._enter(state, np.zeros(3, bool), 1.0, True) == (-1, True)


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
