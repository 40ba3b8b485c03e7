"""NNLS at any condition: an answer is optimal, or it says that it may not be."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from hard_nnls import exact_optimum, families, judge
from hypothesis import given
from hypothesis import strategies as st

from conecollapse import NotOptimalWarning, nnls
from conecollapse._nnls import careful, twofold
from conecollapse._nnls.kernels import smallest_singular_value
from conecollapse._nnls.local import columns_to_unit_rows
from conecollapse._nnls.problem import Problem
from conecollapse._nnls.proof import SAFETY, ZERO_RESIDUAL, is_rough_zero
from conecollapse._nnls.refine import refine

METHODS = ["auto", "bpp", "active-set"]
MUST = 1.01  # a residual norm may be this multiple of the best one, or a rounding error of b
HUGE_X = (
    np.array([[1e10, -1e10], [1e-6, 1.1e-6]]),
    np.array([1.0, 1.0]),
)  # x = (4.8e5, 4.8e5), and its last digit is worth 0.6 in the first row


def scipys(A, b):
    try:
        return scipy.optimize.nnls(A, b, maxiter=100 * A.shape[1])[0]
    except RuntimeError:
        return None


@pytest.mark.parametrize("size", [1e-12, 1e-15, 1e-20])
@pytest.mark.parametrize("method", METHODS)
def test_two_columns_that_differ_by_less_than_rounding(size, method):
    A, b = np.array([[1.0, -1.0], [size, size]]), np.array([0.0, 1.0])
    x, rnorm, info = nnls(A, b, method=method, full_output=True)
    np.testing.assert_allclose(x, 0.5 / size, rtol=1e-15)
    assert rnorm < 1e-15
    assert info.converged.all()
    assert nnls(A, b, method=method)[1] == rnorm


@pytest.mark.parametrize(
    ("condition", "options"),
    [
        (30, {"method": "bpp"}),
        (1e4, {"method": "bpp"}),
        (30, {"upper": 2.0}),
        (300, {"upper": 2.0}),
        (300, {"simplex": True}),
    ],
)
def test_combinations_are_fitted_to_rounding_whatever_the_condition(condition, options):
    """Pivoting works with the Gram matrix, whose errors are larger than those of A; refinement with
    A itself removes them."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        n = int(rng.integers(2, 6))
        A = (
            np.linalg.qr(rng.standard_normal((20, n)))[0]
            * np.geomspace(1, 1 / condition, n)
            @ np.linalg.qr(rng.standard_normal((n, n)))[0]
        )
        X = rng.dirichlet(np.full(n, 0.3), 30).T
        B = A @ X
        x, _, info = nnls(A, B, full_output=True, **options)
        assert info.converged.all()
        assert (
            np.linalg.norm(A @ x - B, axis=0) <= 100 * np.finfo(float).eps * np.abs(A).max()
        ).all()


@pytest.mark.parametrize("name", families())
def test_optimal_or_not_converged(name):
    """Against SciPy and the exact optimum; and what is not converged is off by no more than what
    the rounding of the best x does."""
    rng = np.random.default_rng(list(families()).index(name))
    for _ in range(20):
        A, b = families()[name](rng)
        x, rnorm, info = nnls(A, b, full_output=True)
        ours, theirs, optimum, rounding = judge(A, b, x, scipys(A, b))
        size = np.linalg.norm(b)
        assert (x >= 0).all()
        assert rnorm == pytest.approx(ours, rel=1e-3, abs=ZERO_RESIDUAL * size)
        assert info.least[0] <= optimum * (1 + 1e-12)
        assert ours <= MUST * min(theirs, optimum) + ZERO_RESIDUAL * size or not info.converged[0]
        assert info.converged[0] or ours <= optimum + rounding


@pytest.mark.parametrize("method", METHODS)
def test_every_door_gives_the_same_answer(method):
    """One right-hand side or many, sparse or dense, warm or cold, whatever the method."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((8, 10)) * 10.0 ** rng.uniform(-6, 6, (8, 1))
    B = rng.standard_normal((8, 12))
    optima = [exact_optimum(A, b, np.zeros(10)) for b in B.T]
    for M, start in ((A, None), (sp.csr_array(A), None), (A, np.ones((10, 12)))):
        _, rnorm, info = nnls(M, B, method=method, x0=start, full_output=True)
        assert info.converged.sum() >= 6
        np.testing.assert_allclose(
            rnorm[info.converged], np.array(optima)[info.converged], rtol=2e-3, atol=1e-11
        )
    for j in np.flatnonzero(info.converged):
        assert nnls(A, B[:, j], method=method)[1] == pytest.approx(rnorm[j], rel=2e-3, abs=1e-11)


def test_what_is_not_shown_to_be_optimal_says_so():
    A, b = HUGE_X
    x, rnorm, info = nnls(A, b, full_output=True)
    assert not info.converged[0]
    assert info.least[0] == 0
    assert rnorm > 1e-9
    with pytest.warns(
        NotOptimalWarning,
        match=(
            rf"residual norm is {rnorm:.3g}, and the smallest possible one may be as small as 0\."
        ),
    ):
        np.testing.assert_array_equal(nnls(A, b)[0], x)
    with pytest.warns(
        NotOptimalWarning, match=r"column 1 of b \(one of 2 such columns\)"
    ) as warned:
        nnls(A, np.column_stack([A[:, 0], b, 2 * b]))
    assert warned[0].filename == __file__


@pytest.mark.filterwarnings("ignore::conecollapse.NotOptimalWarning")
def test_the_last_digits_of_dependent_columns_are_not_fitted_by_enormous_coefficients():
    """A matrix of low rank whose entries are rounded: its residual in float64 is as small as
    SciPy's, and so are the coefficients."""
    rng = np.random.default_rng(8)
    for _ in range(100):
        m, n, rank = rng.integers(6, 20, 3)
        A = rng.standard_normal((m, min(m, n, rank) // 2)) @ rng.standard_normal(
            (min(m, n, rank) // 2, n)
        )
        b = rng.standard_normal(m)
        x, (theirs, least) = nnls(A, b)[0], scipy.optimize.nnls(A, b)
        assert np.linalg.norm(A @ x - b) <= MUST * least
        assert x.max() <= 1e6 * max(theirs.max(), 1.0)


@pytest.mark.parametrize("full_output", [False, True])
@pytest.mark.parametrize("kind", ["negatives", "whole numbers of low rank"])
def test_exactly_dependent_columns_are_decided_by_a_residual_with_32_digits(
    kind, full_output, monkeypatch
):
    """Without a factorization with so many digits, and the bound is the optimum in whole
    numbers."""
    monkeypatch.setattr(
        "conecollapse._nnls.plain.solve_carefully", lambda *_: pytest.fail("32 digits throughout")
    )
    rng = np.random.default_rng(3)
    if kind == "negatives":
        A = rng.standard_normal((12, 5))
        A = np.hstack([A, -A])
    else:
        A = (rng.integers(-3, 4, (12, 4)) @ rng.integers(-2, 3, (4, 9))).astype(float)
    b = rng.standard_normal(12)
    x, rnorm, *info = nnls(A, b, full_output=full_output)
    assert rnorm == pytest.approx(exact_optimum(A, b, x), rel=1e-12)
    assert all(i.converged[0] and i.least[0] == pytest.approx(rnorm, rel=1e-12) for i in info)


@pytest.mark.parametrize("size", [1e-17, 1e-20, 1e-23, 1e-26])
def test_columns_that_differ_by_less_than_rounding_beside_another(size):
    """Prices of 1e-26 belong to columns that lower the residual from 1 to 0."""
    A, b = (
        np.array([[1.0, -1.0, 0.0], [size, size, 0.0], [0.0, 0.0, 1.0]]),
        np.array([0.0, 1.0, 1.0]),
    )
    x, rnorm, info = nnls(A, b, full_output=True)
    np.testing.assert_allclose(x, [0.5 / size, 0.5 / size, 1.0], rtol=1e-15)
    assert rnorm < 1e-15
    assert info.converged.all()
    assert nnls(A, b)[1] == rnorm


@given(seed=st.integers(0, 2**32 - 1))
def test_a_refined_residual_is_a_bound_only_where_nothing_is_smaller(seed):
    rng = np.random.default_rng(seed)
    A = (rng.integers(-3, 4, (8, 3)) @ rng.integers(-3, 4, (3, 6))).astype(float)
    b = rng.standard_normal(8)
    best = scipy.optimize.nnls(A, b)[0]
    for x in (best, np.where(np.arange(6) == np.argmax(best), 0.0, best), best + 1.0):
        refined = refine(A, x, b)
        assert refined.rnorm == pytest.approx(np.linalg.norm(A @ refined.x - b), rel=1e-12)
        assert refined.least <= exact_optimum(A, b, best) * (1 + 1e-12)
    assert refine(A, best, b).least > 0 or not best.any()


def test_a_sparse_matrix_too_large_to_fill_says_so(monkeypatch):
    monkeypatch.setattr("conecollapse._nnls.plain.DENSE_LIMIT", 0)
    A = sp.csr_array(np.array([[1.0, -1.0], [1e-12, 1e-12]]))
    _, rnorm, info = nnls(A, np.array([0.0, 1.0]), full_output=True)
    assert rnorm == pytest.approx(1.0)
    assert not info.converged[0]
    assert info.least[0] < 0.01


@given(
    st.integers(0, 10**6),
    st.sampled_from(["normal", "uniform", "integers", "low rank", "repeated", "opposite"]),
    st.booleans(),
)
def test_ordinary_problems_converge(seed, kind, inside):
    """Any shape and rank, without a warning (the tests turn warnings into errors)."""
    rng = np.random.default_rng(seed)
    m, n = rng.integers(1, 12, 2)
    A = {
        "normal": lambda: rng.standard_normal((m, n)),
        "uniform": lambda: rng.random((m, n)),
        "integers": lambda: rng.integers(-2, 3, (m, n)).astype(float),
        "low rank": lambda: rng.random((m, 2)) @ rng.random((2, n)),
        "repeated": lambda: np.repeat(rng.standard_normal((m, n)), 2, axis=1),
        "opposite": lambda: np.hstack([(M := rng.standard_normal((m, n))), -M]),
    }[kind]()
    b = A @ rng.random(A.shape[1]) if inside else rng.standard_normal(m)
    assert nnls(A, b, full_output=True)[2].converged.all()
    nnls(A, b)


@given(st.integers(0, 10**6))
def test_the_lower_bound_holds_for_any_candidate(seed):
    """Whatever coefficients are measured, optimal or not, no residual is below the bound."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((7, 5)) * 10.0 ** rng.uniform(-4, 4, (7, 1))
    b = rng.standard_normal(7)
    problem = Problem.of(A)
    x = nnls(A, b, full_output=True)[0]
    optimum = exact_optimum(A, b, x)
    for _ in range(5):
        h = x * problem.norms * (1 + 10.0 ** rng.uniform(-15, 0) * rng.standard_normal(5)) + (
            rng.random(5) < 0.2
        ) * rng.random(5)
        h = np.maximum(h, 0)[None, :]
        used = (problem.unit())[:, h[0] > 0]
        sigma = np.linalg.svd(used, compute_uv=False).min(initial=1.0)
        assert problem.measure(b[None, :], h, np.array([sigma])).least[0] <= optimum * (1 + 1e-12)
        everything = np.linalg.svd(problem.unit(), compute_uv=False).min()
        assert problem.measure(b[None, :], h, np.array([everything]), hold_all=True).least[
            0
        ] <= optimum * (1 + 1e-12)
        # nothing is known of the columns
        assert problem.measure(b[None, :], h, np.zeros(1)).least[0] == 0 or not h.any()


@given(st.integers(0, 10**6), st.integers(1, 30), st.floats(0, 14))
def test_smallest_singular_value(seed, k, digits):
    """For unit columns the estimate is at most `SAFETY` times too large, and never smaller than
    both the true value and 6e-6."""
    rng = np.random.default_rng(seed)
    R = np.zeros((32, 32))
    A = rng.standard_normal((k + 2, k)) * 10.0 ** -(digits * rng.random((k + 2, 1)))
    R[:k, :k] = np.linalg.qr(A / np.linalg.norm(A, axis=0))[1]
    R *= np.sign(np.diag(R) + 0.5)[:, None]
    true = np.linalg.svd(R[:k, :k], compute_uv=False).min()
    estimate = smallest_singular_value(R, k, np.empty(32), np.empty(32))
    assert min(true * (1 - 1e-3), 6e-6) - 1e-14 <= estimate <= SAFETY * true + 1e-14


@given(st.integers(0, 10**6))
def test_arithmetic_of_twice_the_precision(seed):
    rng = np.random.default_rng(seed)
    (a, b), (da, db) = (
        rng.standard_normal(2) * 10.0 ** rng.uniform(-6, 6, 2),
        rng.uniform(-0.5, 0.5, 2),
    )
    pair, other = twofold.two_sum(a, da * np.spacing(a)), twofold.two_sum(b, db * np.spacing(b))
    p, q = (sum(map(Fraction, v)) for v in (pair, other))
    for operation, exact in (
        (twofold.add, p + q),
        (twofold.multiply, p * q),
        (twofold.divide, p / q),
    ):
        result = operation(*pair, *other)
        assert abs(sum(map(Fraction, result)) - exact) <= Fraction(2) ** -98 * max(
            abs(exact), abs(p), abs(q)
        ) * (operation is twofold.add) + (Fraction(2) ** -98 * abs(exact))
        assert result[0] == sum(result)
    root = sum(map(Fraction, twofold.square_root(*twofold.multiply(*pair, *pair))))
    assert abs(root - abs(p)) <= Fraction(2) ** -98 * abs(p)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [(6, 3), (900, 30), (4, 9)])
def test_a_column_gives_a_column(shape, method):
    """``b`` of shape (m, 1) gives ``x`` of shape (n, 1) and one residual norm in an array."""
    rng = np.random.default_rng(1)
    A, b = rng.random(shape), rng.random((shape[0], 1))
    flat, size = nnls(A, b[:, 0], method=method)
    for M, column in ((A, b), (sp.csr_array(A), b), (A, sp.csc_array(b)), (A, b.tolist())):
        x, rnorm = nnls(M, column, method=method)
        assert x.shape == (shape[1], 1)
        assert rnorm.shape == (1,)
        np.testing.assert_allclose(x[:, 0], flat, atol=1e-9)
        np.testing.assert_allclose(rnorm, size)
    assert nnls(A, b, x0=x)[0].shape == x.shape


@pytest.mark.parametrize(
    ("A", "b"),
    [
        ([[1e-200]], [1e200]),
        ([[1e200]], [1e-200]),
        ([[1e-200, 0], [0, 2e-200], [1e-200, 1e-200]], [1e200, 1e200, -1e200]),
    ],
)
def test_solutions_that_no_float_holds_are_said_not_to_be_optimal(A, b):
    x, rnorm, info = nnls(A, b, full_output=True)
    assert np.isfinite(x).all()
    assert not info.converged.any()
    largest = np.abs(b).max()
    assert rnorm / largest == pytest.approx(
        np.linalg.norm((np.asarray(b) - np.asarray(A) @ x) / largest)
    )
    with pytest.warns(NotOptimalWarning):
        nnls(A, b)
    x, _, info = nnls(np.float32([[1e-30]]), np.float32([1e30]), full_output=True)
    assert np.isfinite(x).all()
    assert not info.converged.any()


@given(st.integers(0, 10**6))
def test_rotations_and_sums_of_twice_the_precision(seed):
    """``rotate``, ``dot`` and ``axpy`` are exact to about 30 digits of the largest term."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((4, 5)) * 10.0 ** rng.uniform(-3, 3, (4, 5))
    pairs = np.stack(twofold_pairs(values, rng.uniform(-0.5, 0.5, (4, 5))), axis=1)  # (4, 2, 5)
    exact = [
        [Fraction(high) + Fraction(low) for high, low in zip(*pair, strict=True)]
        for pair in pairs.tolist()
    ]
    (c, s, *_), (a, b, *_) = exact[0], exact[1]
    result = twofold.rotate(*pairs[0, :, 0], *pairs[0, :, 1], *pairs[1, :, 0], *pairs[1, :, 1])
    for found, wanted in ((result[:2], c * a + s * b), (result[2:], c * b - s * a)):
        assert abs(sum(map(Fraction, found)) - wanted) <= Fraction(2) ** -98 * (abs(c) + abs(s)) * (
            abs(a) + abs(b)
        )
    products = [x * y for x, y in zip(exact[2], exact[3], strict=True)]
    assert abs(sum(map(Fraction, twofold.dot(pairs[2], pairs[3]))) - sum(products)) <= Fraction(
        2
    ) ** -98 * sum(map(abs, products))
    target = pairs[3].copy()
    twofold.axpy(*pairs[0, :, 2], pairs[2], target)
    for found, x, y in zip(target.T.tolist(), exact[2], exact[3], strict=True):
        step = exact[0][2] * x
        assert abs(sum(map(Fraction, found)) - (y + step)) <= Fraction(2) ** -98 * (
            abs(y) + abs(step)
        )


def twofold_pairs(values, share):
    """Numbers of twice the precision: ``values`` and a share of the distance to the next
    float64."""
    pairs = np.frompyfunc(lambda a, b: twofold.two_sum(a, b), 2, 1)(
        values, share * np.spacing(values)
    )
    return np.array([[pair[0] for pair in row] for row in pairs]), np.array(
        [[pair[1] for pair in row] for row in pairs]
    )


def test_a_triangle_of_twice_the_precision_is_solved_in_its_first_rows_and_only_that_is_written():
    shapes = [(5, 2), (5, 2, 1), (5, 5, 2), (5, 2), (2, 1), (5, 2), (2, 1)]
    state = careful.TwofoldState(np.zeros(5, np.int64), *(np.zeros(shape) for shape in shapes))
    state.R[:, :, 0], state.qb[:, 0], state.ls[:] = (
        np.triu(np.full((5, 5), 2.0)),
        [6, 4, 2, 9, 9],
        7.0,
    )
    careful._solve_triangle(state, 3)
    np.testing.assert_array_equal(state.ls, [[1, 0], [1, 0], [1, 0], [7, 7], [7, 7]])


def test_residuals_near_zero_are_rough_where_rounding_does_not_explain_them():
    H, ones = np.ones((4, 2)), np.ones(4)
    assert is_rough_zero(np.array([0.0, 1e-16, 1e-9, 0.5]), H, ones).tolist() == [
        False,
        False,
        True,
        False,
    ]
    # large coefficients round more
    assert is_rough_zero(np.array([1e-9]), 1e8 * H[:1], ones[:1]).tolist() == [False]
    assert is_rough_zero(np.array([0.5]), H[:1], ones[:1]).tolist() == [False]


@pytest.mark.parametrize("size", [1e-139, 1.0, 1e139])
def test_columns_become_unit_rows_and_those_whose_squares_are_lost_are_refused(size):
    A = np.array([[1.0, 0.0, 0.6], [1.0, 0.0, -0.8], [1.0, 0.0, 0.0]])
    Z, norms = np.empty((3, 3)), np.empty(3)
    assert columns_to_unit_rows(A * size, Z, norms) == pytest.approx((-0.8, 0.6))
    np.testing.assert_allclose(Z, [[3**-0.5] * 3, [0, 0, 0], [0.6, -0.8, 0]])
    np.testing.assert_allclose(norms / size, [3**0.5, 0, 1], rtol=1e-12)
    for wrong in (np.inf, -np.inf, np.nan, 1e-300, 1.7e308):
        assert np.isnan(columns_to_unit_rows(np.array([[1.0, wrong, 1.0]] * 3), Z, norms)).all()


DOUBTFUL = {
    "copied": lambda A: np.column_stack([A, A[:, :2]]),
    "zero": lambda A: np.column_stack([A, np.zeros((len(A), 2))]),
    "negated": lambda A: np.column_stack([A - 0.5, 0.5 - A[:, :2]]),
    "dependent": lambda A: np.column_stack([A - 0.5, A[:, 0] + A[:, 1] - 1, A[:, 1] - A[:, 2]]),
}


@pytest.mark.parametrize("kind", DOUBTFUL)
@pytest.mark.parametrize("shape", [(400, 4), (60, 20), (30, 30)])
def test_columns_in_doubt_need_no_solve_with_32_digits(kind, shape, monkeypatch):
    """Copies of passive columns, their negatives, their sums, and columns of zeros: the residual is
    that of SciPy's solution."""
    monkeypatch.setattr(
        "conecollapse._nnls.plain.solve_carefully", lambda *_: pytest.fail("32 digits")
    )
    for seed in range(10):
        rng = np.random.default_rng(seed)
        A = DOUBTFUL[kind](rng.random(shape))
        b = A @ np.maximum(rng.standard_normal(A.shape[1]), 0) + 0.1 * rng.standard_normal(len(A))
        x, rnorm = nnls(A, b)
        assert (x >= 0).all()
        assert rnorm == pytest.approx(np.linalg.norm(A @ x - b), rel=1e-9)
        assert rnorm <= scipy.optimize.nnls(A, b)[1] * (1 + 1e-9)


def test_no_bound_of_columns_in_doubt_is_above_the_smallest_residual():
    """For any x >= 0, optimal or not: what `refine` shows is at most the residual of the best
    one."""
    shown = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        m, n = rng.integers(3, 12), rng.integers(2, 8)
        A = rng.standard_normal((m, n)) if seed % 2 else rng.random((m, n))
        A = np.column_stack(
            [A, A[:, 0], A[:, 0] + A[:, 1], *([] if seed % 3 else [-A[:, -1]]), np.zeros(m)]
        )
        b = rng.standard_normal(m)
        best, smallest = scipy.optimize.nnls(A, b)
        for x in (
            best,
            np.where(rng.random(len(best)) < 0.7, best, 0.0),
            np.where(np.arange(len(best)) < 2, 1.0, 0.0),
        ):
            corrected, rnorm, least, is_optimal = refine(A, x, b)
            assert least <= smallest * (1 + 1e-9)
            if is_optimal:
                shown += 1
                assert (corrected >= 0).all()
                assert rnorm == pytest.approx(smallest, rel=1e-6)
    assert shown > 100
