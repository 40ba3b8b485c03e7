"""NNLS: the optimality conditions hold for every method, shape, rank and right-hand side."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from conecollapse import ConvergenceError, InvalidInputError, nnls
from conecollapse._nnls import active_set as active_set_module
from conecollapse._nnls import (
    bpp,
    by_columns,
    by_complement,
    by_digits,
    by_pivoting,
    by_products,
    choose,
    columns,
    products,
    solve,
)
from conecollapse._nnls.active_set import active_set, active_set_sparse
from conecollapse._nnls.bound import OPTIMAL, SAFETY, UNPROVEN, Record, lower_bound
from conecollapse._nnls.careful import residual_norm
from conecollapse._nnls.factor import solve_triangle
from conecollapse._nnls.problem import Problem
from conecollapse._nnls.slots import price

METHODS = ["auto", "bpp", "active-set"]


def problem(name, rng):
    """The table of problems that every method solves."""
    A = {
        "overdetermined": lambda: rng.standard_normal((40, 8)),
        "non-negative": lambda: rng.random((30, 12)),
        "square": lambda: rng.random((15, 15)),
        "wide": lambda: rng.random((6, 30)),
        "very wide": lambda: rng.random((9, 700)),
        "rank deficient": lambda: rng.random((20, 3)) @ rng.random((3, 10)),
        "repeated columns": lambda: np.repeat(rng.random((12, 4)), 3, axis=1),
        "zero columns": lambda: rng.random((12, 6)) * np.array([1, 0, 1, 0, 1, 1]),
        "badly scaled": lambda: rng.random((20, 6)) * 10.0 ** np.array([-150, -9, 0, 3, 9, 150]),
        "ill conditioned": lambda: np.vander(np.linspace(0.1, 1, 12), 9),
        "one column": lambda: rng.random((7, 1)),
        "one row": lambda: rng.standard_normal((1, 5)),
        "large": lambda: rng.standard_normal((150, 110)),
    }[name]()
    return (
        A,
        rng.standard_normal((A.shape[0], 13)),
        np.maximum(rng.standard_normal((A.shape[1], 13)), 0),
    )


NAMES = [
    "overdetermined",
    "non-negative",
    "square",
    "wide",
    "very wide",
    "rank deficient",
    "repeated columns",
    "zero columns",
    "badly scaled",
    "ill conditioned",
    "one column",
    "one row",
    "large",
]


def kkt(A, b, x):
    """Largest violation of x >= 0, g <= 0, x g = 0 for g = A'(b - Ax), in units of |a_j| |b|."""
    scale = np.linalg.norm(A / np.maximum(np.abs(A).max(axis=0), 1e-300), axis=0) * np.abs(A).max(
        axis=0
    )
    g = (A / np.where(scale > 0, scale, 1)).T @ (b - A @ x) / np.linalg.norm(b)
    assert (x >= 0).all()
    return max(g.max(), np.abs(g[x > 0]).max(initial=0))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("inside", [False, True])
def test_optimality(name, method, inside):
    A, B, X = problem(name, np.random.default_rng(0))
    B = A @ X if inside else B
    solution, rnorm, info = nnls(A, B, method=method, full_output=True)
    assert info.converged.all()
    for j in np.flatnonzero(B.any(axis=0)):
        assert kkt(A, B[:, j], solution[:, j]) < 1e-9
    assert info.kkt_residual.max() < 1e-9
    np.testing.assert_allclose(
        rnorm, np.linalg.norm(B - A @ solution, axis=0), rtol=1e-9, atol=1e-12 * np.abs(B).max()
    )


@pytest.mark.parametrize("name", NAMES)
def test_objective_equals_scipys(name):
    """For a few right-hand sides, and for many."""
    A, B, X = problem(name, np.random.default_rng(1))
    if name == "badly scaled":
        # SciPy's squares overflow otherwise
        A = A / np.linalg.norm(A / A.max(axis=0), axis=0) / A.max(axis=0)
    B[:, 6:] = (A @ X)[:, 6:]
    expected = [scipy.optimize.nnls(A, b, maxiter=100 * A.shape[1])[1] for b in B.T]
    for method in METHODS:
        for often in (1, 6):
            _, rnorm = nnls(A, np.tile(B, often), method=method)
            np.testing.assert_allclose(rnorm, np.tile(expected, often), rtol=1e-9, atol=1e-10)


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 5))
def test_brute_force_over_passive_sets(seed, m, n):
    """The optimum is the best least-squares solution, non-negative, over all subsets of columns."""
    rng = np.random.default_rng(seed)
    A, b = rng.integers(-3, 4, (m, n)).astype(float), rng.integers(-3, 4, m).astype(float)
    best = np.linalg.norm(b)
    for F in map(list, chain.from_iterable(combinations(range(n), k) for k in range(1, n + 1))):
        z = np.linalg.lstsq(A[:, F], b, rcond=None)[0]
        if (z >= -1e-12).all():
            best = min(best, np.linalg.norm(A[:, F] @ z - b))
    for method in METHODS:
        assert abs(nnls(A, b, method=method)[1] - best) < 1e-9


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "name", ["overdetermined", "wide", "rank deficient", "zero columns", "large"]
)
def test_sparse_equals_dense(name, method):
    A, B, _ = problem(name, np.random.default_rng(2))
    A = A * (np.random.default_rng(3).random(A.shape) < 0.5)
    dense = nnls(A, B, method=method)[1]
    for As, Bs in ((sp.csr_array(A), B), (sp.csc_matrix(A), sp.csc_array(B)), (A, sp.coo_array(B))):
        np.testing.assert_allclose(nnls(As, Bs, method=method)[1], dense, rtol=1e-9)


def test_a_sparse_matrix_too_large_to_fill():
    A = sp.random_array((60, 400), density=0.05, rng=np.random.default_rng(0)).tocsr()
    B = np.random.default_rng(1).random((60, 4))
    problem = Problem.of(A)
    solved = active_set_sparse(problem.unit().T.tocsr(), B.T.copy(), with_sigma=True)
    record, _ = problem.measure(B.T, solved.dense(400), solved.sigma)
    assert (record.ending == OPTIMAL).all()
    np.testing.assert_allclose(record.rnorm, nnls(A.toarray(), B)[1], rtol=1e-9)


def test_float32_gives_float32_and_is_solved_in_float64():
    rng = np.random.default_rng(4)
    A, B = rng.random((30, 6)).astype(np.float32), rng.random((30, 5)).astype(np.float32)
    x, rnorm = nnls(A, B)
    assert x.dtype == rnorm.dtype == np.float32
    np.testing.assert_allclose(x, nnls(A.astype(float), B.astype(float))[0], rtol=1e-6)


def test_warm_start_gives_the_same_answer_in_fewer_steps():
    rng = np.random.default_rng(5)
    for A in (rng.random((60, 20)), rng.random((20, 50)), rng.random((10, 800))):
        B = rng.random((A.shape[0], 30))
        x, _, cold = nnls(A, B, full_output=True)
        again, _, warm = nnls(A, B, x0=x, full_output=True)
        np.testing.assert_allclose(A @ again, A @ x, atol=1e-10)
        assert warm.n_iter.sum() < cold.n_iter.sum()
        assert (
            nnls(A, B[:, 0], x0=x[:, 0], full_output=True)[2].n_iter
            < nnls(A, B[:, 0], full_output=True)[2].n_iter
        )
    wrong = nnls(A, B, x0=np.ones_like(x))[1]  # a useless start only costs time
    np.testing.assert_allclose(wrong, nnls(A, B)[1], rtol=1e-9)


def test_blocks_and_layouts_do_not_change_the_answer():
    """Right-hand sides of a call that is solved in blocks, and of calls with some or one of them;
    203 rows are no multiple of four."""
    rng = np.random.default_rng(6)
    A, B = rng.random((203, 9)), rng.random((203, 2000))
    whole, norms = nnls(A, B)
    for rows in (slice(0, 1), slice(3, 40), slice(900, 2000)):
        np.testing.assert_allclose(nnls(A, B[:, rows])[0], whole[:, rows], atol=1e-12)
    for M in (A, np.asfortranarray(A), np.repeat(A, 2, axis=0)[::2]):
        x, rnorm = nnls(M, np.repeat(B[:, 5], 2)[::2])
        np.testing.assert_allclose(x, whole[:, 5], atol=1e-12)
        assert isinstance(rnorm, float)
        assert rnorm == pytest.approx(norms[5])


def test_right_hand_sides_of_zeros_need_no_step():
    A = np.random.default_rng(9).random((5, 3))
    x, rnorm, info = nnls(A, np.zeros((5, 2)), full_output=True)
    assert not np.concatenate([x.ravel(), rnorm, info.kkt_residual, info.n_iter]).any()
    assert nnls(A, np.zeros(5)) == (pytest.approx(np.zeros(3)), 0.0)


@pytest.mark.parametrize("shape", [(40, 30), (30, 300), (20, 900)])
def test_a_limit_is_kept_and_named_with_what_did_not_keep_it(shape):
    rng = np.random.default_rng(11)
    A, B = rng.random(shape), rng.random((shape[0], 5))
    for method in METHODS:
        for limit in (1, 3, 8):
            x, _, info = nnls(A, B, method=method, maxiter=limit, full_output=True)
            assert info.n_iter.max() <= limit
            assert (x >= 0).all()
    many = r"maxiter = 1 exchanges were not enough for \d of 5 right-hand sides; raise maxiter"
    one = "Maximum number of .* were not enough for the right-hand side; raise maxiter"
    for b, message in ((B, many), (B[:, 0], one)):
        with pytest.raises(ConvergenceError, match=message):
            nnls(A, b, maxiter=1)
    assert nnls(A, B, maxiter=0)[1] == pytest.approx(nnls(A, B)[1])
    for bad in (-1, 2.5, "a", True):
        with pytest.raises(ValueError, match="maxiter must be a whole number"):
            nnls(A, B, maxiter=bad)


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e-150, 1e150, 1e200, 1e300])
@pytest.mark.parametrize("shape", [(6, 3), (900, 30), (4, 9)])
def test_scale_of_the_right_hand_side_does_not_matter(shape, scale):
    rng = np.random.default_rng(10)
    A, B = rng.random(shape), rng.random((shape[0], 3))
    B[1, :2] = 0.0
    x, rnorm = nnls(A, B)
    for many, j in ((B, slice(None)), (B[:, 0], 0)):
        big, size = nnls(A, many * scale)
        np.testing.assert_allclose(big / scale, x[:, j], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(size / scale, rnorm[j], rtol=1e-9)


@pytest.mark.parametrize(("n", "seed"), [(3, 549), (5, 62)])
def test_the_backup_rule_ends_cycles(n, seed):
    """Two well-posed problems on which exchanging all offenders cycles for ever; the backup rule
    solves them."""
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((n, n))
    G = M @ M.T + 1e-3 * np.eye(n)
    scale = 1 / np.sqrt(np.diag(G))
    G *= scale * scale[:, None]
    c = rng.standard_normal((1, n))
    result = bpp.block_pivoting(G, c, np.ones(1))
    assert result.solved.all()
    y = G @ result.X[0] - c[0]
    assert (y >= -1e-12).all()
    assert abs(y @ result.X[0]) < 1e-12
    never = bpp.block_pivoting(G, c, np.ones(1), max_iter=500, patience=10**9)
    assert not never.solved.any()


@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e155, 1e300])
@pytest.mark.parametrize("method", METHODS)
def test_scale_of_the_matrix_does_not_matter(method, scale):
    rng = np.random.default_rng(12)
    A, b = rng.random((30, 10)), rng.random(30)
    x = nnls(A, b)[0]
    for full in (False, True):
        for M in (A, sp.csr_array(A)):
            scaled = nnls(M * scale, b, method=method, full_output=full)[0]
            np.testing.assert_allclose(scaled * scale, x, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("A", "b", "message"),
    [
        (np.ones(3), np.ones(3), "Expected a 2D array, but the shape of A is"),
        (np.ones((3, 2)), np.ones(4), "Incompatible dimensions"),
        (np.ones((3, 2)), np.ones((4, 2)), "Incompatible dimensions"),
        (np.array([[1.0, np.nan]]), np.ones(1), "A has NaN at row 0, column 1"),
        (np.array([[1.0, np.nan]]), np.zeros(1), "A has NaN at row 0, column 1"),
        (np.array([[1.0, np.inf]]), np.ones((1, 150)), "A has an infinite entry at row 0, column"),
        (np.ones((2, 2)), np.array([1.0, np.inf]), "b has an infinite entry at row 1, column 0"),
        (np.ones((2, 2)) * 1j, np.ones(2), "A holds complex numbers"),
        (np.array([["a", "b"]]), np.ones(1), "A holds text, not numbers"),
        (np.ones((2, 0)), np.ones(2), "no columns"),
        (np.ones((2, 2)), np.array([object(), 1]), "b holds objects, not numbers"),
        ([[1, 2], [3]], [1, 2], "A is not a rectangular table of numbers"),
    ],
)
def test_bad_input(A, b, message):
    with pytest.raises(ValueError, match=message):
        nnls(A, b)


def test_bad_options():
    with pytest.raises(
        ValueError, match="method must be one of auto, bpp, active-set; got 'simplex'"
    ):
        nnls(np.eye(2), np.ones(2), method="simplex")
    with pytest.raises(
        ValueError, match=r"x0 has shape \(3,\); expected that of the solution, \(2,\)"
    ):
        nnls(np.eye(2), np.ones(2), x0=np.ones(3))
    with pytest.raises(ValueError, match="x0 has NaN at row 1, column 0"):
        nnls(np.eye(2), np.ones(2), x0=np.array([1.0, np.nan]))


def test_what_pivoting_leaves_rough_is_left_to_the_next_method():
    """An exact fit over columns whose products have lost digits."""
    rng = np.random.default_rng(13)
    A = rng.random((30, 6))
    A[:, 5] = A[:, 4] + 1e-4 * A[:, 5]
    problem, B = Problem.of(A), A @ rng.random((6, 4))
    first = by_pivoting(problem, B.T.copy(), None, None)
    assert (first.ending == UNPROVEN).any()
    record = solve(problem, B.T.copy(), [by_pivoting, by_columns])
    assert (record.ending == OPTIMAL).all()
    np.testing.assert_allclose(A @ record.X.T, B, atol=1e-14)


def test_what_the_active_set_has_solved_is_not_solved_with_more_digits():
    A, B, _ = problem("rank deficient", np.random.default_rng(14))
    record = solve(Problem.of(A), B.T.copy(), [by_columns])
    assert (record.ending == OPTIMAL).all()
    np.testing.assert_allclose(record.rnorm, nnls(A, B, method="active-set")[1], rtol=1e-9)


def test_a_triangle_is_solved_in_its_first_rows_and_nothing_else_is_written():
    R, v = np.triu(np.full((5, 5), 2.0)), np.full(5, 7.0)
    solve_triangle(R, np.array([6.0, 4, 2, 9, 9]), 3, v)
    np.testing.assert_array_equal(v, [1, 1, 1, 7, 7])


@pytest.mark.parametrize("method", METHODS)
def test_a_warm_start_may_name_columns_that_are_zero(method):
    A, B, _ = problem("zero columns", np.random.default_rng(15))
    x, rnorm = nnls(A, B, method=method, x0=np.ones((A.shape[1], B.shape[1])))
    np.testing.assert_allclose(rnorm, nnls(A, B)[1], rtol=1e-9)
    assert not x[[1, 3]].any()


def test_the_list_of_methods_is_that_of_the_modules_text():
    rng = np.random.default_rng(16)
    tall = rng.random((60, 5))
    dependent = np.column_stack([tall, tall[:, 0] + tall[:, 1]])
    large, wide = rng.random((700, 300)), rng.random((5, 60))
    for A, k, method, expected in (
        (tall, 1, "auto", [by_products, by_columns, by_digits]),
        (tall, 100, "auto", [by_complement, by_products, by_columns, by_digits]),
        (dependent, 100, "auto", [by_products, by_columns, by_digits]),
        (large, 100, "auto", [by_complement, by_columns, by_digits]),
        (large, 1, "auto", [by_columns, by_digits]),
        (wide, 100, "auto", [by_columns, by_digits]),
        (tall[:4], 1, "auto", [by_products, by_columns, by_digits]),
        (tall, 100, "bpp", [by_pivoting, by_columns, by_digits]),
        (tall, 100, "active-set", [by_columns, by_digits]),
    ):
        assert choose(Problem.of(A), k, method, is_cold=True) == expected
    warm = choose(Problem.of(tall), 100, "auto", is_cold=False)
    assert warm == [by_products, by_columns, by_digits]
    assert nnls(tall, np.ones(60), full_output=True)[2].method == "products"


def test_duals_of_zero_ask_for_no_exchange():
    result = bpp.block_pivoting(np.eye(3), np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 0.0]]), np.ones(2))
    assert result.solved.all()
    assert result.n_iter.tolist() == [1, 0]
    np.testing.assert_array_equal(result.X, [[1, 0, 2], [0, 0, 0]])


@pytest.mark.parametrize("angle", [1e-6, 1e-9])
def test_two_columns_at_a_small_angle_are_both_used(angle):
    Z = np.array([[1.0, 0.0], [1.0, angle]])
    solved = active_set(Z, np.array([[1.0, angle / 2]]))
    assert len(solved.passive[0]) == 2
    assert np.linalg.norm(solved.residual[0]) <= 1e-6 * angle


def test_a_wrong_proposal_is_left_to_the_kernels(monkeypatch):
    """Small problems take SciPy's answer only where it is checked to be optimal."""
    rng = np.random.default_rng(0)
    Z, X = rng.random((6, 4)), rng.random((5, 4))
    Z /= np.linalg.norm(Z, axis=1)[:, None]
    exclude = np.array([0, 1, 2, 3, 4])
    right = active_set(Z, X, exclude=exclude)

    def gives_up(A, b):
        if gives_up.calls % 2:
            raise RuntimeError("Maximum number of iterations reached.")
        gives_up.calls += 1
        return np.zeros(A.shape[1]), float(np.linalg.norm(b))

    gives_up.calls = 0
    monkeypatch.setattr(active_set_module, "nnls", gives_up)
    by_kernels = active_set(Z, X, exclude=exclude)
    np.testing.assert_allclose(by_kernels.dense(6), right.dense(6), atol=1e-12)
    np.testing.assert_allclose(by_kernels.residual, right.residual, atol=1e-12)
    assert all(i not in S for i, S in zip(exclude, right.passive, strict=True))


@pytest.mark.parametrize("n_buckets", [1, 4, 7, 20])
def test_a_short_list_has_the_best_column_of_each_bucket(n_buckets):
    """Column t is in bucket t mod n_buckets; prices up to ``least`` are left out, and the highest
    price is that of all columns."""
    rng = np.random.default_rng(18)
    R, Z, ids, least = (
        rng.standard_normal((40, 3)),
        rng.standard_normal((18, 3)),
        np.arange(100, 118),
        rng.uniform(-1, 1, 40),
    )

    def bar(prices, rows):
        prices[:, 5] = -9.0 - np.arange(40)[rows]

    lists = price(R, Z, ids, least, n_buckets, bar)
    prices = R @ Z.T
    prices[:, 5] = -9.0 - np.arange(40)
    n_buckets = min(n_buckets, 18)
    np.testing.assert_allclose(lists.best, prices.max(axis=1))
    for row, found, count, bound in zip(prices, lists.ids, lists.lengths, least, strict=True):
        best = [max(range(q, 18, n_buckets), key=row.__getitem__) for q in range(n_buckets)]
        assert found[:count].tolist() == [ids[t] for t in best if row[t] > bound]


def test_scipys_old_argument_is_taken_with_its_warning():
    A, b = np.eye(2), np.array([1.0, -1.0])
    with pytest.warns(DeprecationWarning, match="'atol'} are ignored and deprecated, as in SciPy"):
        x, _ = nnls(A, b, atol=1e-3)
    assert x.tolist() == [1.0, 0.0]
    nnls(A, b)  # without it nothing is said


def test_points_that_are_fitted_or_out_of_steps_are_not_priced_again(monkeypatch):
    rng = np.random.default_rng(19)
    Z, priced = rng.random((30_000, 9)), []
    Z /= np.linalg.norm(Z, axis=1)[:, None]

    def counted(residuals, *rest):
        priced.append(len(residuals))
        return price(residuals, *rest)

    monkeypatch.setattr(active_set_module, "price", counted)
    solved = active_set(Z, 2 * Z[:3])
    assert [passive.tolist() for passive in solved.passive] == [[0], [1], [2]]
    assert priced == [3]


@pytest.mark.parametrize(
    "name",
    [
        "overdetermined",
        "square",
        "ill conditioned",
        "one column",
        "rank deficient",
        "zero columns",
        "large",
    ],
)
def test_products_computed_as_needed_or_all_at_once_give_the_same(name):
    A, B, X = problem(name, np.random.default_rng(18))
    Bt = np.column_stack([B, A @ X, np.zeros(len(A))]).T.copy()
    n, unit = A.shape[1], Problem.of(A)
    one, many = np.empty((2, len(Bt), n + 4))
    products.solve_rows(A, Bt, None, None, np.inf, None, 3 * n, one)
    products.solve_rows(A, Bt, unit.gram, Bt @ A, np.inf, None, 3 * n, many)
    some, others = Record.of(one), Record.of(many)
    both = (some.ending == OPTIMAL) & (others.ending == OPTIMAL)
    # a residual of zero may stay open
    assert both[:13].all() or name in ("rank deficient", "zero columns", "ill conditioned")
    np.testing.assert_allclose(
        others.X[both], some.X[both], rtol=1e-8, atol=1e-12 * np.abs(some.X).max()
    )
    for i in np.flatnonzero(both & Bt.any(axis=1)):
        assert kkt(A, Bt[i], others.X[i]) < 1e-12


def test_only_right_hand_sides_that_are_left_open_are_solved_again():
    A, B, _ = problem("overdetermined", np.random.default_rng(19))
    asked = []

    def leaves_two(problem, Bt, start, limit):
        record = by_columns(problem, Bt, start, limit)
        record.ending[[3, 7]] = UNPROVEN
        return record

    def counted(problem, Bt, start, limit):
        asked.append((len(Bt), start.shape))
        return by_columns(problem, Bt, start, limit)

    record = solve(Problem.of(A), B.T.copy(), [leaves_two, counted, counted])
    assert asked == [(2, (2, A.shape[1]))]
    np.testing.assert_allclose(record.X.T, nnls(A, B)[0], atol=1e-12)


def test_an_exact_fit_with_large_coefficients_is_shown_by_its_residual_in_32_digits():
    rng = np.random.default_rng([500, 1000, 10])
    A, b = rng.standard_normal((500, 1000))[:120, :250], rng.standard_normal(120)
    problem = Problem.of(A)
    b = A @ by_columns(problem, b[None], None, None).X[0]
    x, rnorm = nnls(A, b)
    assert rnorm < 1e-12 * np.linalg.norm(b)
    np.testing.assert_allclose(A @ x, b, atol=1e-11)
    digits = by_digits(problem, b[None], x[None], None)
    assert digits.ending[0] == OPTIMAL
    assert digits.rnorm[0] < 1e-12 * np.linalg.norm(b)


def test_solutions_of_one_call_are_shown_to_be_optimal_one_by_one():
    rng = np.random.default_rng(30)
    A, B = rng.standard_normal((20, 60)), rng.standard_normal((20, 4))
    B[:, 1] *= 1e-170  # squares are lost
    out = np.empty((4, 64))
    columns.solve_rows(A, B.T.copy(), np.inf, None, 180, out)
    assert list(Record.of(out).ending) == [OPTIMAL, UNPROVEN, OPTIMAL, OPTIMAL]
    B[:, 1] *= 1e170
    np.testing.assert_allclose(
        nnls(A, B * [1, 1e-170, 1, 1])[0], nnls(A, B)[0] * [1, 1e-170, 1, 1], rtol=1e-9
    )


@pytest.mark.parametrize("shape", [(6, 8), (40, 30), (30, 60), (400, 40)])
def test_zero_columns_and_copies_of_columns_leave_no_doubt(shape):
    rng = np.random.default_rng(32)
    A, B = rng.standard_normal(shape), rng.standard_normal((shape[0], 12))
    X, rnorm = nnls(A, B)
    more = np.hstack([A, 0.0 * A[:, :2], A])
    unit = Problem.of(more)
    method = choose(unit, 1, "auto", is_cold=True)[0]
    assert (method(unit, B.T.copy(), None, None).ending == OPTIMAL).all()
    again, size = nnls(more, B)
    np.testing.assert_allclose(size, rnorm, rtol=1e-9)
    np.testing.assert_allclose(more @ again, A @ X, atol=1e-9)
    assert nnls(more, B[:, 0])[1] == pytest.approx(rnorm[0], rel=1e-9)


def test_the_residual_norm_in_32_digits_is_that_of_whole_numbers():
    rng = np.random.default_rng(31)
    A = rng.integers(-(2**26), 2**26, (7, 5)).astype(float)
    x = np.append(rng.integers(0, 2**40, 4).astype(float), 0.0)
    exact = [sum(int(a) * int(v) for a, v in zip(row, x, strict=True)) for row in A]
    b = np.array([float(e) for e in exact])  # rounded: that is all of the residual
    size = np.sqrt(sum((int(v) - e) ** 2 for v, e in zip(b, exact, strict=True)))
    assert size > 0
    assert residual_norm(A.T.copy(), b, x) == pytest.approx(size, rel=1e-14)


def test_columns_whose_squares_are_lost_are_left_open():
    for name, scale in (("badly scaled", 1.0), ("square", 1e-170)):
        A, B, _ = problem(name, np.random.default_rng(20))
        for method in (products, columns):
            out, Bt = np.empty((13, A.shape[1] + 4)), np.ascontiguousarray(B.T * scale)
            if method is products:
                products.solve_rows(A, Bt, None, None, np.inf, None, 100, out)
            else:
                columns.solve_rows(A, Bt, np.inf, None, 100, out)
            assert (Record.of(out).ending == UNPROVEN).all()


def test_entries_that_float32_rounds_too_far_are_not_called_optimal():
    """Rounding x to float32 changes a residual by its large entries: the norm is that of the x that
    is returned."""
    rng = np.random.default_rng(62)
    a, d, b = rng.standard_normal((3, 6))
    A = np.column_stack([a, -a + 1e-7 * d, rng.standard_normal(6)]).astype(np.float32)
    x, rnorm, info = nnls(A, b.astype(np.float32), full_output=True)
    assert x.dtype == np.float32
    assert not info.converged[0]
    assert rnorm == pytest.approx(
        np.linalg.norm(A.astype(float) @ x - b.astype(np.float32)), rel=1e-6
    )
    inside = nnls(A, (A @ [1, 2, 3]).astype(np.float32), full_output=True)
    ordinary = nnls(rng.random((9, 4), np.float32), rng.random(9, np.float32), full_output=True)
    assert inside[2].converged[0]
    assert ordinary[2].converged[0]


@given(st.integers(0, 2**32 - 1))
def test_the_bound_is_that_of_its_formula(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    h = np.where(rng.random(n) < 0.5, rng.random(n), 0.0)
    v = 10.0 ** rng.uniform(-18, 0) * rng.standard_normal(n)
    v[h > 0] = np.abs(v[h > 0])
    sigma, value, noise, longest = rng.random(), rng.random(), 10.0 ** rng.uniform(-18, -6), 1.2
    for hold_all, reach in ((False, 3.0), (False, np.inf), (True, 3.0)):
        held = (h > 0) | hold_all
        lean = SAFETY * np.linalg.norm(np.maximum(v[held] + noise, 0.0)) / sigma
        worst = v[~held].max(initial=-np.inf) + noise + longest * lean
        square = value**2 - lean**2 - (2 * worst * reach if worst > 0 else 0.0)
        found = lower_bound(v, h, hold_all, sigma, reach, value, noise, longest)
        assert found == pytest.approx(np.sqrt(max(square, 0.0)), rel=1e-9, abs=1e-12)
    assert lower_bound(np.ones(1), np.ones(1), False, 0.0, 3.0, 1.0, noise, 1.0) == 0.0


@pytest.mark.parametrize("kind", ["independent", "dependent"])
def test_active_sets_on_products_find_what_block_pivoting_finds(kind):
    rng = np.random.default_rng(33)
    A, B = rng.random((30, 12)), rng.standard_normal((30, 40)) + 0.3
    if kind == "dependent":
        A[:, 5], A[:, 6], A[:, 9] = A[:, 4], A[:, 4] + 1e-7 * A[:, 3], 0.0
    A /= np.maximum(np.linalg.norm(A, axis=0), 1e-300)
    X = products.solve(products.plain_problems(A.T @ A, B.T @ A)).X
    np.testing.assert_allclose(np.linalg.norm(A @ X.T - B, axis=0), nnls(A, B)[1], rtol=1e-9)
    assert (X >= 0).all()


@pytest.mark.parametrize("name", ["A", "b", "weights"])
def test_masked_entries_are_refused(name):
    given = {"A": np.eye(3), "b": np.ones(3), "weights": np.ones(3)}
    given[name] = np.ma.masked_array(given[name], mask=given[name] == 1)
    with pytest.raises(
        InvalidInputError,
        match=f"{name} is a masked array with 3 masked entries; fill or drop them first",
    ):
        nnls(**given)
