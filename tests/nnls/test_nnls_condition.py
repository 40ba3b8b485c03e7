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
from conecollapse._nnls import careful
from conecollapse._nnls.active_set import active_set_sparse
from conecollapse._nnls.bound import OPTIMAL, SAFETY, ZERO_RESIDUAL
from conecollapse._nnls.careful import Passive, Wide, solve_carefully
from conecollapse._nnls.factor import smallest_singular_value
from conecollapse._nnls.problem import Problem
from conecollapse._nnls.products import column_norms

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


@pytest.mark.parametrize("size", [1e-12, 1e-15, 1e-17, 1e-20, 1e-23, 1e-26])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("is_alone", [True, False])
def test_two_columns_that_differ_by_less_than_rounding(size, method, is_alone):
    """Prices of 1e-26 belong to columns that lower the residual from 1 to 0, also beside another
    column."""
    A, b = (
        np.array([[1.0, -1.0, 0.0], [size, size, 0.0], [0.0, 0.0, 1.0]]),
        np.array([0.0, 1.0, 1.0]),
    )
    best = np.array([0.5 / size, 0.5 / size, 1.0])
    if is_alone:
        A, b, best = A[:2, :2], b[:2], best[:2]
    x, rnorm, info = nnls(A, b, method=method, full_output=True)
    np.testing.assert_allclose(x, best, rtol=1e-15)
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
    monkeypatch.setattr(careful, "_descend", lambda *_: pytest.fail("32 digits throughout"))
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


@given(st.integers(0, 2**32 - 1), st.sampled_from(["integers", "normal", "uniform"]))
def test_a_residual_in_32_digits_is_a_bound_only_where_nothing_is_smaller(seed, kind):
    """For any start, optimal or not, and columns that are copies, sums, negatives or zero."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(3, 12))
    A = (rng.random if kind == "uniform" else rng.standard_normal)((m, int(rng.integers(2, 6))))
    A = np.column_stack([A, A[:, 0], A[:, 0] + A[:, 1], -A[:, -1], np.zeros(m)])
    if kind == "integers":
        A = (rng.integers(-3, 4, (m, 3)) @ rng.integers(-3, 4, (3, 6))).astype(float)
    b, n = rng.standard_normal(m), A.shape[1]
    best = scipy.optimize.nnls(A, b)[0]
    optimum = exact_optimum(A, b, best)
    without = np.where(np.arange(n) == np.argmax(best), 0.0, best)
    for x in (best, without, best + 1.0, np.where(np.arange(n) < 2, 1.0, 0.0)):
        found = solve_carefully(A, b, x, 3 * n)
        assert (found.X >= 0).all()
        assert found.rnorm == pytest.approx(np.linalg.norm(A @ found.X[0] - b), rel=1e-12)
        assert found.least <= optimum * (1 + 1e-12)
        assert found.ending != OPTIMAL or found.rnorm <= 1.001 * optimum + 1e-12


def test_a_sparse_matrix_too_large_to_fill_says_so():
    problem = Problem.of(sp.csr_array(np.array([[1.0, -1.0], [1e-12, 1e-12]])))
    b = np.array([[0.0, 1.0]])
    solved = active_set_sparse(problem.unit().T.tocsr(), b, with_sigma=True)
    record, _ = problem.measure(b, solved.dense(2), solved.sigma)
    assert record.rnorm[0] == pytest.approx(1.0)
    assert record.ending[0] != OPTIMAL
    assert record.least[0] < 0.01


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
        everything = np.linalg.svd(problem.unit(), compute_uv=False).min()
        for value, hold_all in ((sigma, False), (everything, True)):
            record, _ = problem.measure(b[None, :], h, np.array([value]), hold_all=hold_all)
            assert record.least[0] <= optimum * (1 + 1e-12)
        # nothing is known of the columns
        record, _ = problem.measure(b[None, :], h, np.zeros(1))
        assert record.least[0] == 0 or not h.any()


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


def wide(values, rng):
    """Numbers of 32 digits: ``values`` and a share of the distance to the next float64; and the
    same without rounding."""
    numbers = Wide(
        *careful.two_sum(values, rng.uniform(-0.5, 0.5, values.shape) * np.spacing(values))
    )
    return numbers, exactly(numbers)


def exactly(numbers):
    return [
        Fraction(high) + Fraction(low)
        for high, low in zip(numbers.hi.ravel().tolist(), numbers.lo.ravel().tolist(), strict=True)
    ]


@given(st.integers(0, 10**6))
def test_arithmetic_of_32_digits(seed):
    rng = np.random.default_rng(seed)
    (a, p), (b, q) = (
        wide(rng.standard_normal(4) * 10.0 ** rng.uniform(-6, 6, 4), rng) for _ in "ab"
    )
    digit = Fraction(2) ** -98
    for found, exact in (
        (a + b, [x + y for x, y in zip(p, q, strict=True)]),
        (a - b, [x - y for x, y in zip(p, q, strict=True)]),
        (a * b, [x * y for x, y in zip(p, q, strict=True)]),
        (a / b, [x / y for x, y in zip(p, q, strict=True)]),
        ((a * a).root(), [abs(x) for x in p]),
    ):
        assert (found.hi == found.hi + found.lo).all()
        for value, wanted, x, y in zip(exactly(found), exact, p, q, strict=True):
            is_sum = wanted in (x + y, x - y)
            scale = max(abs(wanted), abs(x), abs(y)) if is_sum else abs(wanted)
            assert abs(value - wanted) <= 2 * digit * scale
    products = [x * y for x, y in zip(p, q, strict=True)]
    size = sum(abs(x) for x in products)
    assert abs(exactly(careful.dot(a, b))[0] - sum(products)) <= digit * size
    assert Wide(np.zeros(2)).root().hi.tolist() == [0.0, 0.0]


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


def test_a_triangle_of_32_digits_is_solved_in_its_first_rows():
    state = Passive(np.eye(5), np.zeros(5))
    state.S, state.R = [0, 1, 2], Wide(np.triu(np.full((5, 5), 2.0)))
    state.q = Wide(np.array([6.0, 4, 2, 9, 9]))
    np.testing.assert_array_equal(state.solution().hi, [1, 1, 1])


@pytest.mark.parametrize("size", [1e-139, 1.0, 1e139])
def test_columns_whose_squares_are_lost_are_refused(size):
    A, norms = np.array([[1.0, 0.0, 0.6], [1.0, 0.0, -0.8], [1.0, 0.0, 0.0]]), np.empty(3)
    assert column_norms(A * size, norms)
    np.testing.assert_allclose(norms[[0, 2]] / size, [3**0.5, 1], rtol=1e-12)
    for wrong in (np.inf, -np.inf, np.nan, 1e-300, 1.7e308):
        assert not column_norms(np.array([[1.0, wrong, 1.0]] * 3), norms)


DOUBTFUL = {
    "copied": lambda A: np.column_stack([A, A[:, :2]]),
    "zero": lambda A: np.column_stack([A, np.zeros((len(A), 2))]),
    "negated": lambda A: np.column_stack([A - 0.5, 0.5 - A[:, :2]]),
    "dependent": lambda A: np.column_stack([A - 0.5, A[:, 0] + A[:, 1] - 1, A[:, 1] - A[:, 2]]),
}


@pytest.mark.parametrize("kind", DOUBTFUL)
@pytest.mark.parametrize("shape", [(400, 4), (60, 20), (30, 30)])
def test_columns_in_doubt_leave_no_doubt(kind, shape):
    """Copies of passive columns, their negatives, their sums, and columns of zeros: the residual is
    that of SciPy's solution, and shown to be the smallest."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        A = DOUBTFUL[kind](rng.random(shape))
        b = A @ np.maximum(rng.standard_normal(A.shape[1]), 0) + 0.1 * rng.standard_normal(len(A))
        x, rnorm = nnls(A, b)
        assert (x >= 0).all()
        assert rnorm == pytest.approx(np.linalg.norm(A @ x - b), rel=1e-9)
        assert rnorm <= scipy.optimize.nnls(A, b)[1] * (1 + 1e-9)
