"""Theorems about the factorizations: nothing rises that must not, subproblems are solved, paths
agree, fixed points are stationary."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import takes_arrays
from factors import clusters, dense, problems, squared_error
from hypothesis import given, settings
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning

from conecollapse import MultiplicativeNMF
from conecollapse._linalg import ratio
from conecollapse._progress import showing
from conecollapse.factorization import (
    SOLVERS,
    anls,
    em,
    hals,
    initialize,
    mu,
    multiplicative,
    onp_mf,
    orthogonality,
    pnmf,
)
from conecollapse.factorization.initial_factors import INITS
from conecollapse.factorization.kmeans import lloyd, seeds
from conecollapse.factorization.nmf.anls import solve_rows
from conecollapse.factorization.nmf.fixed import Fixed
from conecollapse.factorization.nmf.kl import encode_divergence, kl, kl_by_squares
from conecollapse.factorization.nmf.row_sweeps import sweep, sweep_ahead
from conecollapse.factorization.orthogonal.em import Clusters, gram_matrix
from conecollapse.factorization.orthogonal.trials import promising, try_em
from conecollapse.factorization.restarts import Starts, best_of_starts
from conecollapse.tables import as_table
from conecollapse.tables.divergence import Effort

# estimators make a table of what they are given; here the methods are called with arrays
anls, em, hals, kl, kl_by_squares, mu, multiplicative, onp_mf, pnmf = map(
    takes_arrays, (anls, em, hals, kl, kl_by_squares, mu, multiplicative, onp_mf, pnmf)
)
encode_divergence, gram_matrix, initialize = map(
    takes_arrays, (encode_divergence, gram_matrix, initialize)
)

METHODS = {
    "mu": mu,
    "mu kl": lambda *a, **k: mu(*a, loss="kullback-leibler", **k),
    "kl": kl,
    "anls": anls,
    "sparse": lambda *a, **k: anls(*a, alpha=0.1, eta=1.0, **k),
    "hals": hals,
    "plain hals": lambda *a, **k: hals(*a, sweeps=1, extrapolate=False, **k),
    "pnmf": pnmf,
    **{f"onmf {name}": takes_arrays(solver) for name, solver in SOLVERS.items()},
}
MONOTONE = ("mu", "mu kl", "kl", "anls", "sparse", "hals", "plain hals", "pnmf", "onmf em")


def rises(history, scale):
    """The largest rise, in units of what the objective is made of."""
    return float(np.diff(history).max(initial=0.0)) / scale


@pytest.mark.parametrize("name", MONOTONE)
@settings(max_examples=60)
@given(problem=problems())
def test_objective_never_rises(name, problem):
    X, W, H = problem
    result = METHODS[name](X, W, H, tol=0.0, max_iter=30)
    scale = dense(X).sum() if "kl" in name else max(as_table(X).squared_norm, result.history[0])
    assert rises(result.history, scale) <= 1e-13


@pytest.mark.parametrize("name", METHODS)
@settings(max_examples=25)
@given(problem=problems(dtypes=(np.float64, np.float32)))
def test_factors_are_finite_non_negative_and_of_the_data_s_precision(name, problem):
    X, W, H = problem
    result = METHODS[name](X, W, H, max_iter=20)
    for factor, shape in ((result.W, W.shape), (result.H, H.shape)):
        assert factor.shape == shape
        assert factor.dtype == X.dtype
        assert np.isfinite(factor).all()
        assert (factor >= 0).all()
    assert result.n_iter == len(result.history) - 1 <= 20
    assert result.status.startswith(("converged after", "stopped at max_iter = 20"))


@pytest.mark.parametrize(
    "name", [name for name in METHODS if name not in ("mu kl", "kl", "sparse")]
)
@settings(max_examples=25)
@given(problem=problems())
def test_the_objective_is_the_squared_error_of_the_factors(name, problem):
    X, W, H = problem
    result = METHODS[name](X, W, H, max_iter=10)
    assert result.objective == pytest.approx(
        squared_error(X, result.W, result.H), abs=1e-12 * as_table(X).squared_norm
    )


@pytest.mark.parametrize("name", METHODS)
@settings(max_examples=15)
@given(problem=problems())
def test_the_sparse_path_equals_the_dense_path(name, problem):
    X, W, H = problem
    # the number of sweeps follows the cost of a product, and an extrapolation that is taken back or
    # not by rounding leads elsewhere
    fixed = {"sweeps": 3, "extrapolate": False} if name == "hals" else {}
    a = METHODS[name](dense(X), W, H, tol=0.0, max_iter=5, **fixed)
    b = METHODS[name](sp.csr_array(X), W, H, tol=0.0, max_iter=5, **fixed)
    scale = dense(X).sum() if "kl" in name else as_table(X).squared_norm
    assert a.objective == pytest.approx(b.objective, abs=1e-10 * scale)


@settings(max_examples=60)
@given(problem=problems())
def test_anls_subproblems_meet_their_optimality_conditions(problem):
    X, _, H = problem
    G, C = H @ H.T, np.asarray(X @ H.T)
    W = solve_rows(G, C)
    gradient = W @ G - C
    scale = np.abs(C).max() + np.finfo(float).tiny
    assert (W >= 0).all()
    assert gradient.min() >= -1e-9 * scale  # no coordinate wants to grow
    # and those that are free are at rest
    assert np.abs(gradient[W > 0]).max(initial=0.0) <= 1e-9 * scale


def test_anls_subproblems_with_dependent_components():
    """Two equal components make the Gram matrix singular; the solution still meets the
    conditions."""
    rng = np.random.default_rng(0)
    H = np.vstack([(h := rng.random((2, 9))), h[:1], np.zeros((1, 9))])
    X = rng.random((20, 9))
    G, C = H @ H.T, X @ H.T
    W = solve_rows(G, C)
    gradient = W @ G - C
    assert gradient.min() >= -1e-9
    assert np.abs(gradient[W > 0]).max() <= 1e-9
    assert (W[:, 3] == 0).all()


ORACLES = {
    "mu": (mu, {}, {"solver": "mu", "beta_loss": "frobenius"}),
    "kl": (mu, {"loss": "kullback-leibler"}, {"solver": "mu", "beta_loss": "kullback-leibler"}),
    "hals": (hals, {"sweeps": 1, "extrapolate": False}, {"solver": "cd"}),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", ORACLES)
def test_mu_and_hals_follow_scikit_learn_step_by_step(name, sparse):
    rng = np.random.default_rng(3)
    X = rng.random((40, 5)) @ rng.random((5, 30)) * (rng.random((40, 30)) < 0.7)
    X = sp.csr_array(X) if sparse else X
    W, H = initialize(X, 4, "random", rng)
    method, ours, theirs = ORACLES[name]
    result = method(X, W, H, tol=0.0, max_iter=25, **ours)
    oracle = NMF(4, init="custom", tol=0, max_iter=25, **theirs)
    W_oracle = oracle.fit_transform(X, W=W.copy(), H=H.copy())
    np.testing.assert_allclose(
        result.W @ result.H, W_oracle @ oracle.components_, rtol=1e-7, atol=1e-9
    )
    theirs_objective = oracle.reconstruction_err_**2 / (2 if name == "kl" else 1)
    assert result.objective == pytest.approx(theirs_objective, rel=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sweeps_of_rows_that_share_a_matrix_are_those_of_rows_one_by_one(dtype):
    rng = np.random.default_rng(1)
    # neither rows nor coordinates fill the lanes
    X, W = rng.random((150, 12)).astype(dtype), rng.random((150, 7)).astype(dtype)
    H = rng.random((7, 12)).astype(dtype)
    H[3] = 0.0
    equations = as_table(X).row_equations(H)
    new, ahead = sweep_ahead(W, equations, 1, 0.5 * W, 0.7)
    nothing = Fixed(np.zeros((7, 150), bool), np.zeros((7, 150)))
    one_by_one = sweep_ahead(W, equations, 1, 0.5 * W, 0.7, nothing)
    tolerance = 1e-12 if dtype is np.float64 else 1e-4
    np.testing.assert_allclose(new, one_by_one[0], atol=tolerance)
    np.testing.assert_allclose(ahead, one_by_one[1], atol=tolerance)
    assert new.dtype == dtype
    more = sweep(W, equations, 8)
    assert equations.error(0.0, more) <= equations.error(0.0, new)


def test_hals_is_monotone():
    rng = np.random.default_rng(2)
    X = rng.random((70, 4)) ** 4 @ rng.random((4, 90)) ** 4 + 0.01 * rng.random((70, 90))
    history = hals(X, *initialize(X, 6, "random", rng), tol=0, max_iter=30).history
    assert (np.diff(history) <= 1e-12 * history[0]).all()


def test_accelerated_hals_is_ahead_of_plain_hals():
    rng = np.random.default_rng(0)
    X = rng.random((80, 8)) @ rng.random((8, 120)) + 0.01 * rng.random((80, 120))
    W, H = initialize(X, 8, "random", rng)
    plain, fast = (
        hals(X, W, H, sweeps=1, extrapolate=False, tol=0, max_iter=60),
        hals(X, W, H, tol=0, max_iter=60),
    )
    assert fast.objective < plain.objective


def test_all_plain_solvers_reach_the_same_exact_factorization():
    """A separable table has one NMF; every monotone method of the plain problem gets near zero
    error from NNDSVD."""
    rng = np.random.default_rng(1)
    H = np.hstack([np.eye(4), rng.random((4, 20))])
    X = rng.dirichlet(np.ones(4), size=50) @ H
    W0, H0 = initialize(X, 4, "nndsvda", rng)
    for name, limit in (("anls", 1e-6), ("hals", 1e-6), ("mu", 1e-2)):
        assert (
            METHODS[name](X, W0, H0, tol=0, max_iter=800).objective
            <= limit * as_table(X).squared_norm
        )


@pytest.mark.parametrize("solver", ["em", "onp-mf"])
@settings(max_examples=40)
@given(problem=problems(dtypes=(np.float64, np.float32)))
def test_exact_orthogonal_solvers_have_disjoint_supports(solver, problem):
    X, W, H = problem
    A = SOLVERS[solver](as_table(X), W, H, max_iter=60).W
    assert ((A > 0).sum(axis=1) <= 1).all()
    if solver == "em" and (dense(X).any(axis=1)).sum() >= W.shape[1]:
        assert orthogonality(A) <= (1e-12 if A.dtype == np.float64 else 1e-5)


def test_em_ends_at_a_fixed_point():
    """Each direction is the leading singular vector of its cluster, and no sample would rather be
    elsewhere."""
    rng = np.random.default_rng(0)
    X, _ = clusters(rng)
    W, H = initialize(X, 3, "random", rng)
    A, S = (result := em(X, W, H, tol=0.0)).W, result.H
    labels = A.argmax(axis=1)
    scores = X @ (S / np.linalg.norm(S, axis=1, keepdims=True)).T
    np.testing.assert_array_equal(scores.argmax(axis=1), labels)
    for k in range(3):
        leading = np.linalg.svd(X[labels == k])[1][0]
        assert np.linalg.norm(S[k]) == pytest.approx(leading, rel=1e-6)
    np.testing.assert_allclose(S, A.T @ X, rtol=1e-12)


@pytest.mark.parametrize("rule", ["mu", "ding", "choi"])
def test_multiplicative_onmf_ends_at_a_stationary_point(rule):
    """At a fixed point ``S o (A'X - A'A S) = 0``, and ``A o (Y - A A'Y) = 0`` up to the scaling of
    columns, ``Y = X S'``."""
    rng = np.random.default_rng(0)
    X, _ = clusters(rng)
    W, H = initialize(X, 3, "spectral", rng)
    result = multiplicative(X, W, H, rule=rule, tol=0.0, max_iter=20_000)
    A, S = result.W, result.H
    np.testing.assert_allclose(S * (A.T @ X - A.T @ A @ S), 0, atol=1e-8 * np.square(X).sum())
    Y = X @ S.T
    quotient = ratio(Y, A @ (Y.T @ A) if rule == "choi" else A @ (A.T @ Y))
    for k in range(3):
        on = A[:, k] > 1e-6
        assert np.ptp(quotient[on, k]) <= 1e-3 * quotient[on, k].max()


def test_scaling_only_A_is_what_keeps_multiplicative_onmf_from_cycling():
    """Kept as found: with the rows of S taking up the factors, the rule of Choi ends with equal or
    empty columns."""
    rng = np.random.default_rng(0)
    X = rng.random((60, 5)) @ rng.random((5, 80)) + 0.1 * rng.random((60, 80))
    A, S = initialize(X, 5, "spectral", rng)
    compensated = A.copy()
    for _ in range(100):
        S = S * ratio(compensated.T @ X, compensated.T @ compensated @ S)
        compensated = compensated * ratio(Y := X @ S.T, compensated @ (Y.T @ compensated))
        lengths = np.maximum(np.linalg.norm(compensated, axis=0), 1e-300)
        compensated, S = compensated / lengths, S * lengths[:, None]
    assert orthogonality(compensated) > 0.99
    assert (
        orthogonality(
            multiplicative(X, *initialize(X, 5, "spectral", rng), rule="choi", max_iter=100).W
        )
        < 0.9
    )


def test_onp_mf_is_a_fair_solver():
    rng = np.random.default_rng(0)
    X, y = clusters(rng)
    W, H = initialize(X, 3, "nndsvd", rng)
    labels = onp_mf(X, W, H).W.argmax(axis=1)
    pairs = {(a, b) for a, b in zip(y, labels, strict=True)}
    assert len(pairs) == 3  # one cluster for each class


def test_em_through_the_gram_matrix_is_em():
    rng = np.random.default_rng(0)
    X, _ = clusters(rng, n_features=200)
    W, H = initialize(X, 3, "random", rng)
    gram = gram_matrix(X)
    assert gram is not None
    a, b = em(X, W, H, gram=gram), em(sp.csr_array(X), W, H)
    np.testing.assert_allclose(a.history, b.history, rtol=1e-10)
    np.testing.assert_allclose(a.W, b.W, atol=1e-10)


def test_em_uses_every_cluster_even_when_samples_are_identical():
    X = np.ones((6, 4))
    W = np.zeros((6, 3))
    W[:, 1] = 1.0
    result = em(X, W)
    assert sorted(set(result.W.argmax(axis=1))) == [0, 1, 2]
    assert orthogonality(result.W) < 1e-12
    assert result.objective == pytest.approx(0, abs=1e-12)


def test_sparse_nmf_penalties_are_part_of_the_objective_and_scale_with_the_data():
    rng = np.random.default_rng(0)
    X = rng.random((20, 15))
    W, H = initialize(X, 3, "random", rng)
    result = anls(X, W, H, alpha=0.5, eta=2.0, max_iter=50, tol=0)
    penalties = 2.0 * np.square(result.H).sum() + 0.5 * np.square(result.W.sum(axis=1)).sum()
    assert result.objective == pytest.approx(
        squared_error(X, result.W, result.H) + penalties, rel=1e-10
    )
    scaled = anls(1000 * X, 1000 * W, H, alpha=0.5, eta=2.0 * 1000**2, max_iter=50, tol=0)
    np.testing.assert_allclose(scaled.H, result.H, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(scaled.W, 1000 * result.W, rtol=1e-6, atol=1e-6)


def test_steps_on_squares_save_steps_on_the_divergence():
    rng = np.random.default_rng(0)
    X = as_table(
        rng.poisson(20 * rng.dirichlet(np.full(5, 0.3), 150) @ rng.gamma(0.3, 1.0, (5, 60))).astype(
            float
        )
        + np.eye(150, 60)
    )
    W, H = rng.random((150, 5)), rng.random((5, 60))
    plain, begun = (method(X, W, H, tol=1e-5, max_iter=500) for method in (kl, kl_by_squares))
    assert begun.objective < 1.01 * plain.objective
    assert begun.n_iter < plain.n_iter
    assert (np.diff(begun.history) <= 1e-12 * begun.history[0]).all()


def test_encodings_for_the_divergence_are_optimal():
    """At the optimum ``H (1 - x / wh)`` is non-negative, and zero where w > 0."""
    rng = np.random.default_rng(0)
    H = rng.random((3, 12)) + 0.05
    X = rng.random((8, 3)) @ H + 0.1 * rng.random((8, 12))
    X[:, 0] = 0.0
    W = encode_divergence(X, H)
    gradient = (1 - X / (W @ H)) @ H.T
    assert gradient.min() > -1e-7
    np.testing.assert_allclose(W * gradient, 0, atol=1e-7)
    np.testing.assert_allclose(encode_divergence(sp.csr_array(X), H), W, rtol=1e-9, atol=1e-12)


def test_coordinates_lower_the_divergence_faster_than_multiplicative_updates():
    rng = np.random.default_rng(0)
    X = rng.poisson(3 * rng.gamma(0.3, size=(40, 4)) @ rng.gamma(0.3, size=(4, 30))).astype(float)
    W, H = initialize(X, 4, "random", rng)
    plain, fast = (
        mu(X, W, H, loss="kullback-leibler", tol=0, max_iter=60),
        kl(X, W, H, tol=0, max_iter=30),
    )
    assert fast.objective < plain.objective


def test_a_coefficient_of_zero_may_rise_and_one_that_nothing_needs_falls_to_zero():
    H = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]])
    W, _ = (
        as_table(np.array([[0.0, 2.0, 4.0]]))
        .quotients()
        .improved(np.array([[5.0, 0.0]]), H, Effort(3, 0.0))
    )
    np.testing.assert_allclose(W, [[0.0, 3.0]], rtol=1e-12)


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, lambda X: X.astype(np.float32)])
def test_starts(init, make):
    rng = np.random.default_rng(0)
    X = make(rng.random((30, 20)) * (rng.random((30, 20)) < 0.6))
    W, H = initialize(X, 4, init, np.random.default_rng(1))
    again = initialize(X, 4, init, np.random.default_rng(1))
    assert (W.shape, H.shape, W.dtype, H.dtype) == ((30, 4), (4, 20), X.dtype, X.dtype)
    assert (W >= 0).all()
    assert (H >= 0).all()
    np.testing.assert_array_equal(W, again[0])
    np.testing.assert_array_equal(H, again[1])
    if init in ("random", "nndsvda", "nndsvdar", "spectral"):
        assert (W > 0).all()


def test_nndsvd_agrees_with_scikit_learn():
    rng = np.random.default_rng(0)
    X = rng.random((30, 20))
    W, H = initialize(X, 4, "nndsvd", rng)
    oracle = NMF(4, init="nndsvd", max_iter=1, tol=1e-30, solver="cd", random_state=0)
    with pytest.warns(ConvergenceWarning):
        W1 = oracle.fit_transform(X)
    ours = hals(X, W, H, sweeps=1, extrapolate=False, tol=0, max_iter=1)
    np.testing.assert_allclose(ours.W @ ours.H, W1 @ oracle.components_, rtol=1e-4, atol=1e-5)


def test_the_best_of_several_starts_wins():
    rng = np.random.default_rng(0)
    X, _ = clusters(rng)
    one = [em(X, *initialize(X, 3, "random", np.random.default_rng(s))).objective for s in range(3)]
    many = best_of_starts(em, as_table(X), Starts(3, "random", 20, np.random.default_rng(0)))
    assert many.objective <= min(one) * (1 + 1e-9)


def test_k_means_of_several_starts_is_that_of_each_alone():
    rng = np.random.default_rng(0)
    E, weights = rng.random((60, 4)), rng.random(60)
    centres = E[seeds(E, 5, 3, rng)]
    assert len(np.unique(centres.reshape(-1, 4), axis=0)) > 5
    labels, within = lloyd(E, centres, weights)
    for start in range(3):
        alone, least = lloyd(E, centres[start : start + 1], weights)
        np.testing.assert_array_equal(labels[start], alone[0])
        means = np.array(
            [np.average(E[alone[0] == k], axis=0, weights=weights[alone[0] == k]) for k in range(5)]
        )
        direct = weights @ np.square(E - means[alone[0]]).sum(axis=1)
        np.testing.assert_allclose([within[start], least[0]], direct)


def test_trials_in_all_coordinates_are_em_itself():
    rng = np.random.default_rng(0)
    X, truth = clusters(rng)
    labels, objective = try_em(X, np.array([truth, rng.integers(3, size=len(X))]), 3)
    W = np.eye(3)[truth]
    assert objective[0] == pytest.approx(em(X, W, W.T @ X).objective, rel=1e-4)
    assert len(np.unique(np.column_stack([labels[0], truth]), axis=0)) == 3


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_promising_starts_lead_as_low_as_all_of_them(make):
    rng = np.random.default_rng(0)
    X, _ = clusters(rng)
    X = make(X)
    few = best_of_starts(
        Clusters(as_table(X)), as_table(X), Starts(3, "spectral", 10, np.random.default_rng(0))
    )
    every = [
        em(X, *initialize(X, 3, "spectral", np.random.default_rng(s))).objective for s in range(5)
    ]
    assert few.objective <= min(every) * (1 + 1e-5)


def test_starts_that_are_one_clustering_are_one_start():
    rng = np.random.default_rng(0)
    X, y = clusters(rng)
    starts = promising(as_table(X), 3, 10, rng)
    assert len(starts) == 1  # both ways find the planted clusters
    assert len({(a, b) for a, b in zip(starts[0].tolist(), y.tolist(), strict=True)}) == 3


def test_the_divergence_is_measured_only_where_it_is_asked_for():
    rng = np.random.default_rng(0)
    X = rng.poisson(3.0, (30, 20)).astype(float)
    W, H = initialize(X, 3, "random", rng)
    for table in (as_table(X), as_table(sp.csr_array(X))):
        seen, logs = table.quotients().improved(W, H, Effort(sweeps=2, still=0.0))
        unseen, none = table.quotients().improved(W, H, Effort(sweeps=2, still=0.0, measures=False))
        np.testing.assert_array_equal(seen, unseen)
        model = seen @ H
        assert logs == pytest.approx(float((X * np.log(np.where(X > 0, X, 1) / model)).sum()))
        assert none == 0


def test_callback_and_progress():
    rng = np.random.default_rng(0)
    X = rng.random((20, 20))
    seen, told = [], []
    with showing("work", False, callback=lambda *event: told.append(event)):
        result = hals(
            X,
            *initialize(X, 3, "random", rng),
            tol=0,
            callback=lambda n, f: seen.append((n, f)) or n == 4,
        )
    assert [n for n, _ in seen] == [1, 2, 3, 4]
    assert [f for _, f in seen] == result.history[1:].tolist()
    assert told[-1] == ("HALS", 4, 500)
    assert result.status == "stopped by the callback after 4 iterations"


def test_an_exact_fit_ends_with_its_own_sentence():
    X = np.outer([1.0, 2.0, 3.0], [1.0, 4.0])
    result = hals(X, np.ones((3, 1)), np.ones((1, 2)), tol=0.0)
    assert result.converged
    assert result.status.endswith("the objective is zero to rounding")


@pytest.mark.parametrize("scale", [1e-29, 1e19, 1e29, 1e150])
def test_the_divergence_of_a_table_with_zeros_is_the_same_share_at_every_scale(scale):
    X = np.floor(9 * np.random.default_rng(0).random((12, 5)))  # holds zeros
    plain, scaled = (
        MultiplicativeNMF(2, loss="kullback-leibler", tol=1e-3).fit(s * X) for s in (1.0, scale)
    )
    np.testing.assert_allclose(scaled.history_, plain.history_, rtol=1e-9)
