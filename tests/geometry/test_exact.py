"""Small integer problems against oracles in exact arithmetic.

Each statement is a function of what it quantifies over, so that `make fuzz` runs the same ones on
fresh random problems (`tests/fuzz.py`).
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import scipy.sparse as sp
from certificate_cases import quick
from exact_cones import combination, exact_rays, separation
from exact_nnls import exact_nnls
from exact_nnls import solve as solve_exactly
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from conecollapse import Cone, collapse, nnls
from conecollapse._nnls import active_set

LARGEST = {
    1: 9,
    2: 700,
    3: 50,
    4: 15,
    5: 7,
    6: 4,
}  # entry in each dimension; rays are then far more than TOL from the others' cone
TOL = 1e-8
CHECKED: Counter[str] = Counter()  # what `make fuzz` counts


def integer_points(seed):
    """Rows with zeros, sums of few of them (on faces and inside), copies, zero rows, repeated
    coordinates (low rank), in any order."""
    rng = np.random.default_rng(seed)
    dim = int(rng.choice([1, 2, 3, 4, 5, 6], p=[0.02, 0.08, 0.2, 0.25, 0.25, 0.2]))
    n_rays, n_sums, n_copies, n_zeros = (
        int(rng.integers(*ends)) for ends in ((1, 10), (0, 6), (0, 3), (0, 3))
    )
    largest = int(rng.choice([LARGEST[dim], rng.integers(1, min(LARGEST[dim], 5) + 1)]))
    P = rng.integers(0, largest + 1, (n_rays, dim)) * (
        rng.random((n_rays, dim)) < rng.choice([1.0, 0.6, 0.4])
    )
    sums = rng.integers(0, 3, (n_sums, n_rays)) * (rng.random((n_sums, n_rays)) < 2.5 / n_rays) @ P
    P = np.vstack(
        [
            P,
            sums[sums.max(axis=1) <= LARGEST[dim]],
            P[rng.integers(0, n_rays, n_copies)],
            np.zeros((n_zeros, dim), int),
        ]
    )
    if rng.random() < 0.25:
        P = P[:, rng.integers(0, int(rng.integers(1, dim + 1)), dim)]
    P = rng.permutation(P)
    return P if P.any() else np.ones((1, dim), int)


# drawing the entries themselves gives one ray in two cases of three, drawing integers repeats the
# small ones; bytes are spread evenly
SEEDS = st.binary(min_size=8, max_size=8).map(lambda drawn: int.from_bytes(drawn, "big"))
POINTS = SEEDS.map(integer_points)
CONES = (POINTS, st.lists(st.integers(-60, 60), min_size=1, max_size=16), st.integers(0, 20))
COLLAPSES = (POINTS, st.sampled_from([0.1, 0.25, 0.7]))


def ways(P, shifts, cut):
    """Every way to the cone of P, with the points that its certificate is about: name, cone,
    points."""
    X = P.astype(np.float64)
    scaled = X * 2.0 ** np.resize(shifts, len(X))[:, None]
    single = X.astype(np.float32)
    for name, points in {
        "dense": X,
        "scaled": scaled,
        "float32": single,
        "sparse": sp.csr_array(scaled),
        "sparse float32": sp.csr_array(single),
    }.items():
        yield name, Cone.from_points(points, TOL), points
        if points.dtype == np.float64:
            yield f"{name}, quick and proven", quick(points).prove(points), points
    with patch.object(active_set, "SMALL_WORK", -1):
        by_kernels = Cone.from_points(X, TOL)
    yield "kernels", by_kernels, X
    blocks = np.array_split(scaled.T, min(2, X.shape[1]))
    yield "samples", Cone.from_samples(blocks, TOL), lambda: blocks
    first, second = X[: cut % len(X)], X[cut % len(X) :]
    if first.any() and second.any():
        yield "blocks", Cone.from_blocks([first, second], TOL), X
        yield (
            "merged",
            Cone.from_points(first, TOL).merge(Cone.from_points(sp.csr_array(second), TOL)),
            X,
        )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:P is float32")
@given(*CONES)
@example(
    np.array([[1, 1, 0], [1, 0, 0], [0, 1, 0], [2, 0, 0], [0, 0, 0], [0, 0, 3], [1, 1, 1]]),
    [0, 40, -40],
    3,
)
def test_every_way_to_the_cone_has_exactly_the_rays_of_the_oracle(P, shifts, cut):
    expected = exact_rays(P)
    assert separation(P) > 50 * TOL, (
        "the points are too near to each other for floating point to be judged"
    )
    event(f"{len(expected[0])} rays")
    for name, cone, points in ways(P, shifts, cut):
        CHECKED["cones"] += 1
        assert (cone.ray_indices.tolist(), [group.tolist() for group in cone.groups]) == expected, (
            name
        )
        cone.verify(points)


@pytest.mark.slow
@settings(max_examples=30)
@given(*COLLAPSES)
def test_cone_collapse_has_exactly_the_rays_of_the_oracle(P, eta):
    CHECKED["cones"] += 1
    cone = collapse(P, eta, TOL)
    assert (cone.ray_indices.tolist(), [group.tolist() for group in cone.groups]) == exact_rays(P)
    cone.verify(P)


@given(SEEDS)
def test_the_oracle_equals_brute_force_over_bases(seed):
    """Caratheodory: a point of a cone is a non-negative combination of linearly independent
    generators."""
    rng = np.random.default_rng(seed)
    p, *others = rng.integers(0, 4, (int(rng.integers(2, 7)), int(rng.integers(2, 5)))).tolist()
    inside = not any(p)
    for size in range(1, len(p) + 1):
        for some in combinations(others, size):
            gram = [[Fraction(int(np.dot(a, b))) for b in some] for a in some]
            # of integers below 10^8: exact after rounding
            if round(np.linalg.det(np.array(gram, float))) > 0:
                h = solve_exactly(gram, [Fraction(int(np.dot(a, p))) for a in some])
                inside |= min(h) >= 0 and all(
                    sum(x * q[k] for x, q in zip(h, some, strict=True)) == p[k]
                    for k in range(len(p))
                )
    assert (combination(p, others) is not None) == inside


def integer_problem(seed, spread=0):
    """Small integers, any rank, a right-hand side inside the cone or not; rows and columns times
    powers of two up to 2**spread."""
    rng = np.random.default_rng(seed)
    m, n = (int(rng.integers(1, 8)) for _ in range(2))
    A = rng.integers(-3 * int(rng.integers(2)), 4, (m, n)) * (
        rng.random((m, n)) < rng.choice([1.0, 0.6])
    )
    A = A[:, rng.integers(0, n, n)] if rng.random() < 0.25 else A
    b = A @ rng.integers(0, 3, n) if rng.random() < 0.4 else rng.integers(-3, 4, m)
    rows, columns = (
        2.0 ** rng.integers(-spread, spread + 1, m),
        2.0 ** rng.integers(-spread, spread + 1, n),
    )
    return A * rows[:, None] * columns, b * rows


def check_nnls(A, b, within=1.0, negligible=0.0):
    """The residual of ``x``, computed exactly, is ``within`` times the least one up to rounding and
    ``negligible * |b|``.

    With ``within`` above 1 a method may also say ``converged=False``.
    """
    best_x, squared = exact_nnls(A, b)
    best = float(squared) ** 0.5
    # what rounding does to A x at the exact solution, which no method in floating point can avoid
    rounding = 64 * np.finfo(float).eps * np.linalg.norm(
        np.abs(A) @ np.array(best_x, float) + np.abs(b)
    ) + negligible * np.linalg.norm(b)
    for method in ("auto", "bpp", "active-set"):
        CHECKED["nnls problems"] += 1
        x, rnorm, info = nnls(A, b, method=method, full_output=True)
        assert (x >= 0).all(), method
        residual = exact_residual(A, b, x)
        assert abs(rnorm - residual) <= 64 * np.finfo(float).eps * np.linalg.norm(
            np.abs(A) @ x + np.abs(b)
        ), method
        assert not info.converged.all() or residual <= within * best + rounding, (
            f"{method}: {residual} where {best} can be had"
        )
        if within == 1:
            assert info.converged.all(), method


def exact_residual(A, b, x):
    rows = [
        sum(
            (Fraction(a) * Fraction(v) for a, v in zip(row, x.tolist(), strict=True)),
            start=Fraction(0),
        )
        for row in A.tolist()
    ]
    return (
        float(
            sum((Fraction(value) - row) ** 2 for value, row in zip(b.tolist(), rows, strict=True))
        )
        ** 0.5
    )


PROBLEMS = (SEEDS.map(integer_problem),)
BADLY_SCALED = (SEEDS.map(lambda seed: integer_problem(seed, spread=20)),)


@pytest.mark.slow
@given(*PROBLEMS)
@example(integer_problem(3533613624112468957))
def test_nnls_reaches_the_exact_optimum(problem):
    check_nnls(*problem)


@given(*BADLY_SCALED)
def test_nnls_of_badly_scaled_rows_and_columns_is_optimal_or_says_that_it_is_not(problem):
    """A residual of 1e-12 of |b| counts as zero."""
    check_nnls(*problem, within=1.01, negligible=1e-12)


@pytest.mark.slow
def test_the_fuzzer_explores_and_says_how_to_replay():
    """Its profile draws anew in each run, unlike that of the tests, and its seed is printed."""
    assert settings.get_profile("repo").derandomize
    assert not settings.get_profile("fuzz").derandomize
    command = [
        sys.executable,
        str(Path(__file__).parents[1] / "fuzz.py"),
        "--minutes",
        "0",
        "--seed",
        "7",
        "--family",
        "nnls",
    ]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert out.startswith("fuzz: seed 7\n")
    assert out.rstrip().endswith("0 disagreements, seed 7")
