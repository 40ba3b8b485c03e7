"""Missing entries, weights, uncertainties and known components: what counts, what does not, and
what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from factors import problems
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls
from scipy.special import kl_div
from sklearn.cluster import KMeans

from conecollapse import (
    CCNMF,
    AlternatingNMF,
    ConeNovelty,
    GraphCCNMF,
    HierarchicalNMF,
    InvalidInputError,
    MinVolumeNMF,
    MultiplicativeNMF,
    OrthogonalNMF,
    SparseNMF,
    select_rank,
)
from conecollapse.factorization import anls, hals, initialize, mu
from conecollapse.factorization.nmf.fixed import Fixed
from conecollapse.factorization.nmf.kl import kl
from conecollapse.factorization.nmf.robust import robust
from conecollapse.factorization.nmf.row_solver import solve
from conecollapse.factorization.nmf.shrinkage import _zero_or_best, hold_out
from conecollapse.factorization.resampling.heldout import _mixed_error
from conecollapse.tables import DenseTable, MaskedTable, as_table

METHODS = {
    "hals": hals,
    "anls": anls,
    "sparse": lambda *a, **k: anls(*a, alpha=0.1, eta=1.0, **k),
    "mu": mu,
    "mu kl": lambda *a, **k: mu(*a, loss="kullback-leibler", **k),
    "kl": kl,
}
MODELS = [
    HierarchicalNMF(),
    AlternatingNMF(),
    MultiplicativeNMF(),
    MultiplicativeNMF(loss="kullback-leibler"),
    SparseNMF(alpha=0.001),
]
every_model = pytest.mark.parametrize(
    "model", MODELS, ids=lambda model: f"{type(model).__name__}-{getattr(model, 'loss', '')}"
)
every_squared = pytest.mark.parametrize(
    "model", [model for model in MODELS if getattr(model, "loss", "") != "kullback-leibler"]
)
quiet = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore::conecollapse.EmptyDataWarning"
)


def fresh(model, n_components=3, **parameters):
    return type(model)(
        **{**model.get_params(), "n_components": n_components, "random_state": 0, **parameters}
    )


@st.composite
def weighted(draw):
    """A masked table beside its dense values and weights, and a start."""
    X, W, H = draw(problems())
    X = X.toarray() if sp.issparse(X) else X
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    known = rng.random(X.shape) < 0.7
    Q = known * (
        1.0 if draw(st.booleans()) else rng.random(X.shape) * 10.0 ** rng.integers(-3, 3, X.shape)
    )
    Q[:, 0] = np.maximum(Q[:, 0], 1.0)
    Q[0] = np.maximum(Q[0], 1.0)
    if draw(st.booleans()):
        places = sp.csr_array(Q)
        rows = np.repeat(np.arange(len(X)), np.diff(places.indptr))
        values = sp.csr_array(
            (X[rows, places.indices], places.indices, places.indptr), shape=X.shape
        )
        table = MaskedTable.of(values, places, True)
    else:
        table = MaskedTable.of(np.where(Q > 0, X, 0), Q, True)
    return table, X, Q, W, H


@pytest.fixture
def planted():
    rng = np.random.default_rng(0)
    W = rng.random((40, 3)) * (rng.random((40, 3)) < 0.7) + 0.01
    H = rng.random((3, 20)) * (rng.random((3, 20)) < 0.7)
    H[0, ~H.any(axis=0)] = 0.5
    return W @ H, rng.random((40, 20)) < 0.3, H


# theorems


@pytest.mark.parametrize("name", METHODS)
@settings(max_examples=30)
@given(problem=weighted(), shrinkage=st.sampled_from([0.0, 0.0, 0.01, 1.0]))
def test_the_weighted_objective_never_rises(name, problem, shrinkage):
    table, X, Q, W, H = problem
    result = METHODS[name](table.shrunk(shrinkage), W, H, tol=0.0, max_iter=20)
    scale = (Q * X).sum() if "kl" in name else max(table.squared_norm, result.history[0])
    assert np.diff(result.history).max(initial=0.0) <= 1e-13 * scale
    assert np.isfinite(result.W).all()
    assert np.isfinite(result.H).all()


@settings(max_examples=30)
@given(problem=weighted(), shrinkage=st.sampled_from([0.0, 0.01, 1.0]))
def test_the_objective_is_what_its_formula_says(problem, shrinkage):
    table, X, Q, W, H = problem
    table = table.shrunk(shrinkage)
    shares = np.where(np.arange(len(H)) == 0, 0.1 * (Q > 0).mean(), 1.0) * shrinkage
    squares = (Q * np.square(X - W @ H)).sum() + (
        shares * np.square(W).sum(axis=0) * np.square(H).sum(axis=1)
    ).sum()
    assert np.isclose(hals(table, W, H, max_iter=1, tol=0).history[0], squares, rtol=1e-10)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(X > 0, X * np.log(X / (W @ H)), 0.0)
    divergence = (Q * (logs - X + W @ H)).sum() + (shares * W.sum(axis=0) * H.sum(axis=1)).sum()
    assert np.isclose(
        kl(table, W, H, max_iter=1, tol=0).history[0],
        divergence,
        rtol=1e-8,
        atol=1e-12 * (Q * X).sum(),
    )


@settings(max_examples=20)
@given(problem=weighted(), limit=st.sampled_from([1e-3, 0.1, 1.0]))
def test_huber_s_loss_never_rises_and_is_what_its_formula_says(problem, limit):
    table, X, Q, W, H = problem
    limit = limit * np.sqrt(table.squared_norm)
    result = robust(hals, table, W, H, limit=limit, tol=0.0, max_iter=6)
    z = np.sqrt(Q) * np.abs(X - W @ H)
    assert np.isclose(
        result.history[0], np.where(z > limit, limit * (2 * z - limit), z * z).sum(), rtol=1e-10
    )
    assert np.diff(result.history).max(initial=0.0) <= 1e-13 * max(
        table.squared_norm, result.history[0]
    )


@settings(max_examples=20)
@given(problem=weighted())
def test_rows_are_solved_as_scipy_solves_them(problem):
    table, X, Q, _, H = problem
    W = solve(table.row_equations(H))
    for w, x, q in zip(W, X, Q, strict=True):
        root = np.sqrt(q)
        best = nnls((root * H).T, root * x)[1]
        assert np.linalg.norm(root * (x - w @ H)) <= best + 1e-9 * np.linalg.norm(root * x)


def test_rows_with_the_same_mask_share_a_matrix():
    rng = np.random.default_rng(0)
    masks = (rng.random((3, 8)) < 0.6).astype(float)
    masks[:, 0] = 1.0
    Q = masks[rng.integers(3, size=50)]
    for table in (MaskedTable.of(Q, Q), MaskedTable.of(sp.csr_array(Q), sp.csr_array(Q))):
        (part,) = table.row_equations(rng.random((2, 8))).parts()
        assert len(part.G) == 3


@pytest.mark.parametrize("method", [hals, anls, mu, kl])
def test_weights_of_one_change_nothing(method):
    rng = np.random.default_rng(1)
    X, W, H = rng.random((12, 9)), rng.random((12, 3)), rng.random((3, 9))
    plain, weighted = (
        method(table, W, H, tol=0, max_iter=5)
        for table in (DenseTable(X), MaskedTable.of(X, np.ones_like(X)))
    )
    assert np.allclose(plain.H, weighted.H, rtol=1e-9)
    assert np.allclose(plain.history, weighted.history, rtol=1e-9)


@pytest.mark.parametrize("name", METHODS)
@settings(max_examples=15)
@given(problem=weighted(), seed=st.integers(0, 2**31), plain=st.booleans())
def test_what_is_known_of_h_stays_to_the_last_bit(name, problem, seed, plain):
    table, X, _, W, H = problem
    rng = np.random.default_rng(seed)
    known = rng.random(H.shape) < 0.5
    # not all zero for a feature
    values = np.where(
        known & ((rng.random(H.shape) < 0.5) | (np.arange(len(H)) == 0)[:, None]), H, 0.0
    )
    held = Fixed(known, values)
    result = METHODS[name](
        as_table(X) if plain else table, W, held.put(H), fixed=held, tol=0.0, max_iter=6
    )
    assert (result.H[known] == values[known]).all()
    assert (result.H >= 0).all()
    assert np.diff(result.history).max(initial=0.0) <= 1e-12 * result.history[0]


# estimators


@quiet
@every_model
def test_missing_entries_are_ignored_and_imputed(model, planted):
    X, missing, _ = planted
    Y = np.where(missing, np.nan, X)
    fitted = fresh(model, shrinkage=0, tol=1e-7, max_iter=1000).fit(Y)
    filled = fitted.impute(Y)
    assert (filled[~missing] == X[~missing]).all()
    assert np.linalg.norm((filled - X)[missing]) < 0.1 * np.linalg.norm(X[missing])
    assert np.allclose(fitted.inverse_transform(fitted.transform(Y))[missing], filled[missing])
    known = np.linalg.norm((X - fitted.embedding_ @ fitted.components_)[~missing])
    assert np.isclose(fitted.reconstruction_err_, known, rtol=1e-6, atol=1e-9)
    assert fitted.score(Y) > 0.99
    assert (fitted.predict(Y) == fitted.labels_).mean() > 0.95
    other = fresh(model, tol=1e-7, max_iter=1000).fit(
        np.where(missing, 1e6, X), weights=(~missing).astype(int)
    )  # what is there is not used
    assert np.allclose(other.components_, fitted.components_, rtol=1e-6, atol=1e-9)


@quiet
@every_model
def test_shrinkage_predicts_missing_entries_that_an_exact_fit_gets_wrong(model):
    rng = np.random.default_rng(3)
    X = rng.gamma(0.5, 1.0, (80, 4)) @ rng.gamma(0.5, 1.0, (4, 40))
    X *= rng.gamma(4.0, 0.25, X.shape)
    missing = rng.random(X.shape) < 0.3
    Y = np.where(missing, np.nan, X)
    exact, shrunk = (fresh(model, 10, shrinkage=share).fit(Y) for share in (0.0, "auto"))
    assert shrunk.shrinkage_ > 0 == exact.shrinkage_
    errors = [
        np.linalg.norm((one.inverse_transform(one.transform(Y)) - X)[missing])
        for one in (shrunk, exact)
    ]
    assert errors[0] < 0.9 * errors[1]
    assert np.linalg.norm((shrunk.impute(Y) - X)[missing]) < 1.05 * errors[0]
    known = np.linalg.norm((X - shrunk.embedding_ @ shrunk.components_)[~missing])
    assert np.isclose(shrunk.reconstruction_err_, known, rtol=1e-6)  # without the penalty
    assert np.diff(shrunk.history_).max() <= 1e-13
    again = fresh(model, 10).fit(Y)
    assert (again.components_ == shrunk.components_).all()
    assert np.allclose(
        again.transform(Y), again.embedding_, rtol=1e-2, atol=1e-2 * again.embedding_.max()
    )


@quiet
@pytest.mark.parametrize(
    ("seed", "shape", "known"),
    [(4, (60, 30), 0.5), (10, (60, 30), 0.5), (11, (60, 30), 0.5), (3, (25, 40), 0.6)],
)
def test_nearly_exact_tables_are_not_shrunk_whatever_marks_missing_entries(seed, shape, known):
    rng = np.random.default_rng(seed)
    X = rng.random((shape[0], 3)) @ rng.random((3, shape[1])) + 0.01 * rng.random(shape)
    is_known = rng.random(shape) < known
    model = MultiplicativeNMF(3, loss="kullback-leibler", random_state=0, max_iter=20)
    dense, sparse = (
        fresh(model).fit(np.where(is_known, X, np.nan)),
        fresh(model, missing="unstored").fit(sp.csr_array(np.where(is_known, X, 0))),
    )
    assert dense.shrinkage_ == sparse.shrinkage_ == fresh(model).fit(X).shrinkage_ == 0


def test_held_out_entries_are_missing_in_any_storage():
    rng = np.random.default_rng(0)
    X, known = rng.random((20, 8)) + 0.1, rng.random((20, 8)) < 0.6
    S = sp.csr_array(np.where(known, X, 0))
    dense, sparse = (
        MaskedTable.of(np.where(known, X, 0), known * 1.0),
        MaskedTable.of(S, sp.csr_array((np.ones(S.nnz), S.indices, S.indptr))),
    )
    parts = [hold_out(table, 0) for table in (dense, sparse)]
    np.testing.assert_array_equal(
        parts[0].rest.weights.array, parts[1].rest.weights.array.toarray()
    )
    starts = [initialize(part.rest, 3, "nndsvda", np.random.default_rng(0)) for part in parts]
    np.testing.assert_allclose(starts[0][0], starts[1][0], rtol=1e-9)
    np.testing.assert_allclose(starts[0][1], starts[1][1], rtol=1e-9)


def test_one_fold_that_went_wrong_does_not_decide_on_the_shrinkage():
    # shares by folds; the last share is zero
    errors = np.array([[5.0, 5.0, 5.0, 5.0, 5.0], [1.0, 1.0, 1.0, 1.0, 9.0]])
    assert _zero_or_best(errors) == 1
    assert _zero_or_best(errors[::-1]) == 0
    assert _zero_or_best(np.array([[1.0, 1.1], [2.0, 2.2]])) == 0
    assert _zero_or_best(np.array([[1.0], [2.0]])) == 0


def test_held_out_entries_are_known_ones_and_leave_one_in_each_row_and_column():
    rng = np.random.default_rng(0)
    known = rng.random((30, 12)) < 0.15
    known[np.arange(30), rng.integers(12, size=30)] = True
    known[rng.integers(30, size=12), np.arange(12)] = True
    values = np.where(known, rng.random(known.shape) + 1, 0.0)
    dense, sparse = (
        MaskedTable.of(values, known.astype(float)),
        MaskedTable.of(sp.csr_array(values), sp.csr_array(known.astype(float))),
    )
    folds = [hold_out(table, 5, fold) for table in (dense, sparse) for fold in range(2)]
    for part in folds:
        assert known[part.rows, part.columns].all()
        assert (part.values == values[part.rows, part.columns]).all()
    for part in folds[:2]:
        left = part.rest.weights.array > 0
        assert left.sum() + len(part.values) == known.sum()
        assert left.any(axis=0).all()
        assert left.any(axis=1).all()
        assert not (part.rest.values.array[~left] != 0).any()
    assert (folds[0].rows == folds[2].rows).all()
    assert not set(zip(folds[0].rows, folds[0].columns, strict=True)) & set(
        zip(folds[1].rows, folds[1].columns, strict=True)
    )


def test_neighbours_impute_what_a_model_of_low_rank_cannot():
    rng = np.random.default_rng(0)
    kinds = rng.random((12, 30))
    X = kinds[rng.integers(12, size=150)] + 0.02 * rng.random((150, 30))
    missing = rng.random(X.shape) < 0.3
    Y = np.where(missing, np.nan, X)
    model = HierarchicalNMF(3, random_state=0).fit(Y)
    by_model, filled = model.inverse_transform(model.transform(Y)), model.impute(Y)
    assert np.linalg.norm((filled - X)[missing]) < 0.2 * np.linalg.norm((by_model - X)[missing])
    # one sample has no neighbours
    assert np.allclose(model.impute(Y[:1]), np.where(missing[:1], by_model[:1], X[:1]))
    assert (filled >= 0).all()


@quiet
@every_model
def test_unstored_entries_of_sparse_tables_can_be_missing(model, planted):
    X, missing, _ = planted
    X = X.copy()
    X[0, :5] = 0.0
    missing[0, :5] = False  # stored zeros are known
    rows, columns = np.nonzero(~missing)
    S = sp.csr_array((X[rows, columns], (rows, columns)), shape=X.shape)
    dense_model = fresh(model, init="random", shrinkage=0.02).fit(np.where(missing, np.nan, X))
    sparse_model = fresh(model, init="random", shrinkage=0.02, missing="unstored").fit(S)
    assert np.allclose(dense_model.components_, sparse_model.components_, rtol=1e-6, atol=1e-8)
    known = sp.csr_array((~missing).astype(float))
    by_weights = fresh(model, init="random", shrinkage=0.02).fit(
        sp.csr_array(np.where(missing, 7.0, X)), weights=known
    )
    assert np.allclose(by_weights.components_, sparse_model.components_, rtol=1e-6, atol=1e-8)
    assert np.allclose(
        dense_model.transform(np.where(missing, np.nan, X)), sparse_model.transform(S), atol=1e-6
    )
    from_svd = fresh(model, missing="unstored", tol=1e-7, max_iter=1000).fit(S)
    assert from_svd.relative_err_ < 0.1


STARTS = ["auto", "random", "nndsvd", "nndsvdar", "spectral", "components", "pair", "labels"]


def equal_fits(model, X, s, **parameters):
    """The fits of weighted samples and of samples that are repeated, which must be equal."""
    repeated = np.repeat(X, s, axis=0) if isinstance(X, np.ndarray) else X[np.repeat(range(15), s)]
    given = {"shrinkage": 0, "max_iter": 30, **parameters}
    init, starts = given.pop("init", "auto"), []
    rng = np.random.default_rng(7)
    W, H = rng.random((15, 2)), rng.random((2, X.shape[1]))
    for rows in (np.arange(15), np.repeat(np.arange(15), s)):
        of = {"components": H, "pair": (W[rows], H), "labels": (np.arange(15) % 2)[rows]}
        starts.append(of.get(init, init))
    weighted = fresh(model, 2, init=starts[0], **given).fit(X, sample_weight=s)
    return weighted, fresh(model, 2, init=starts[1], **given).fit(repeated)


def check_equal(weighted, repeated, X):
    names = ["components_", "label_weights_", "history_", "profiles_", "relative_err_"]
    # with weights `embedding_` is what `transform` gives, which ends the divergence's own steps
    is_same = getattr(weighted, "loss", "frobenius") == "frobenius"
    for name in names if is_same else names[:3]:
        np.testing.assert_allclose(
            getattr(weighted, name), getattr(repeated, name), rtol=1e-6, atol=1e-8, err_msg=name
        )
    assert weighted.n_iter_ == repeated.n_iter_
    np.testing.assert_array_equal(weighted.predict(X), repeated.predict(X))
    np.testing.assert_allclose(weighted.embedding_, weighted.transform(X), rtol=1e-6, atol=1e-9)


@quiet
@every_model
@pytest.mark.parametrize("init", STARTS)
def test_every_start_of_weighted_samples_is_that_of_repeated_ones(model, init):
    rng = np.random.default_rng(1)
    X, s = rng.random((15, 8)), rng.integers(0, 4, 15)
    X[4:8, :3] = 0.0
    check_equal(*equal_fits(model, X, s, init=init, n_init=2 if init == "random" else 1), X)
    S = sp.csr_array(X)
    check_equal(*equal_fits(model, S, s, init=init), S)


@quiet
@every_model
@pytest.mark.parametrize("kind", ["missing", "unstored", "fixed", "fixed zeros", "float32"])
def test_weighted_samples_are_repeated_ones_beside_all_else_that_fit_takes(model, kind):
    rng = np.random.default_rng(1)
    X, s = rng.random((15, 8)), rng.integers(0, 4, 15)
    s[:2] = 0, 3
    gaps = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    table, parameters = {
        "missing": (gaps, {}),
        "unstored": (sp.csr_array(np.nan_to_num(gaps)), {"missing": "unstored"}),
        "fixed": (X, {"fixed_components": rng.random((1, 8))}),
        "fixed zeros": (X, {"fixed_entries": np.eye(2, 8) > 0}),
        "float32": (np.ascontiguousarray(X, np.float32), {}),
    }[kind]
    if kind == "float32":  # after some steps rounding of float32 has grown
        weighted, repeated = equal_fits(model, table, s, max_iter=3)
        np.testing.assert_allclose(weighted.components_, repeated.components_, rtol=1e-3)
        return
    for init in ("auto", "random"):
        check_equal(*equal_fits(model, table, s, init=init, **parameters), table)


@quiet
@every_model
@pytest.mark.parametrize("init", STARTS[:5])
def test_samples_of_weight_zero_are_absent_and_leave_every_component_alive(model, init):
    rng = np.random.default_rng(0)
    X = np.vstack((rng.random((20, 3)) @ np.kron(np.eye(3), np.ones((1, 4))), np.eye(12) * 50))
    s = np.append(np.ones(20), np.zeros(12))
    one, other = (fresh(model, init=init).fit(X[:n], sample_weight=s[:n]) for n in (20, 32))
    np.testing.assert_array_equal(other.components_, one.components_)
    np.testing.assert_array_equal(other.labels_[:20], one.labels_)
    assert (one.embedding_ * one.label_weights_).max(axis=0).min() > 0
    plain = fresh(model, init=init).fit(X[:20])  # weights of one are as good as none
    np.testing.assert_allclose(plain.components_, one.components_, rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore::conecollapse.EmptyDataWarning")
def test_weights_that_leave_nothing_are_refused():
    X = np.vstack((np.ones((4, 3)), np.zeros((2, 3))))
    with pytest.raises(InvalidInputError, match="above zero hold only zeros"):
        HierarchicalNMF(2).fit(X, sample_weight=[0, 0, 0, 0, 1, 1])
    with pytest.raises(
        InvalidInputError, match="only n_samples = 1 whose weight is above zero; ask for at most"
    ):
        HierarchicalNMF(2).fit(X, sample_weight=[1, 0, 0, 0, 0, 0])


@quiet
@every_model
def test_fixed_components_are_the_first_to_the_last_bit(model, planted):
    X, missing, H = planted
    for Y in (X, np.where(missing, np.nan, X), sp.csr_array(X)):
        fitted = fresh(model, fixed_components=H[:2], tol=1e-6, max_iter=1000).fit(Y)
        assert (fitted.components_[:2] == H[:2]).all()
        assert fitted.relative_err_ < 0.15
    only = fresh(model, fixed_components=pd.DataFrame(H)).fit(X)
    assert (only.components_ == H).all()
    single = fresh(model, fixed_components=H[:1]).fit(X.astype(np.float32))
    assert (single.components_[0] == H[0].astype(np.float32)).all()


@quiet
@every_model
def test_fixed_entries_are_zero(model, planted):
    X, _, H = planted
    fitted = fresh(model, fixed_entries=H == 0, tol=1e-6, max_iter=1000).fit(X)
    assert (fitted.components_[H == 0] == 0).all()
    assert fitted.relative_err_ < 0.15
    both = fresh(model, fixed_components=H[:1], fixed_entries=H == 0).fit(X)
    assert (both.components_[0] == H[0]).all()
    assert (both.components_[H == 0] == 0).all()


@every_model
def test_components_alone_are_a_start(model, planted):
    X, _, H = planted
    fitted = fresh(model, init=H * 1e-40).fit(X * 1e-40)  # in the units of the table
    assert fitted.relative_err_ < 0.05
    with pytest.raises(
        InvalidInputError,
        match=r"init has shape \(2, 20\); as components alone it must have \(3, 20\)",
    ):
        fresh(model, init=H[:2]).fit(X)


@pytest.mark.slow
def test_large_residuals_do_not_rule_robust_components(planted):
    X, _, _ = planted
    rng = np.random.default_rng(3)
    sigma = 0.01 + 0.02 * rng.random(X.shape)
    Y = np.maximum(X + sigma * rng.standard_normal(X.shape), 0)
    bad = rng.random(X.shape) < 0.02
    Y[bad] += 5.0
    starts = {"init": "random", "n_init": 5, "random_state": 0}
    plain, tamed = (
        HierarchicalNMF(3, robust=limit, **starts).fit(Y, weights=1 / sigma**2)
        for limit in (None, 4.0)
    )
    errors = [
        np.linalg.norm((model.embedding_ @ model.components_ - X)[~bad]) for model in (plain, tamed)
    ]
    assert errors[1] < 0.1 * errors[0]
    assert np.allclose(tamed.transform(Y, weights=1 / sigma**2), tamed.embedding_, atol=1e-6)
    scaled = HierarchicalNMF(3, robust=4.0, **starts).fit(
        Y * 2.0**-120, weights=1 / (sigma * 2.0**-120) ** 2
    )
    assert np.allclose(
        scaled.embedding_ @ scaled.components_ * 2.0**120, tamed.embedding_ @ tamed.components_
    )


def test_frames_and_masked_arrays_keep_their_form(planted):
    X, missing, _ = planted
    frame = pd.DataFrame(
        np.where(missing, np.nan, X),
        index=[f"s{i}" for i in range(40)],
        columns=[f"f{j}" for j in range(20)],
    )
    model = HierarchicalNMF(3, random_state=0).fit(frame)
    filled = model.impute(frame)
    assert list(filled.index) == list(frame.index)
    assert list(filled.columns) == list(frame.columns)
    assert not filled.isna().to_numpy().any()
    masked = HierarchicalNMF(3, random_state=0).fit(
        np.ma.masked_array(np.where(missing, -1.0, X), missing)
    )
    assert np.allclose(masked.components_, model.components_)
    assert np.isnan(frame.to_numpy()).sum() == missing.sum()  # the input is not written to
    assert model.profiles_.shape == (3, 20)
    assert np.isfinite(model.profiles_).all()


@quiet
def test_other_estimators_name_those_that_take_missing_entries_and_weights():
    X = np.random.default_rng(0).random((12, 6))
    Y = X.copy()
    Y[3, 4] = np.nan
    for model in (CCNMF(2), GraphCCNMF(2), OrthogonalNMF(2), MinVolumeNMF(2), ConeNovelty()):
        with pytest.raises(
            InvalidInputError,
            match=r"NaN at row 3, column 4; \w+ cannot use missing values\. HierarchicalNMF, Alt",
        ):
            model.fit(Y)
    for model in (CCNMF(2), GraphCCNMF(2), OrthogonalNMF(2)):
        with pytest.raises(
            InvalidInputError,
            match=(r"does not take weights in fit; HierarchicalNMF, AlternatingNMF, Mult\w+ and"),
        ):
            model.fit(X, weights=np.ones_like(X))
        with pytest.raises(TypeError, match="unexpected keyword argument 'weight'"):
            model.fit(X, weight=1)


TABLE = np.random.default_rng(0).random((12, 6)) + 0.1


def _with(X, value):
    X = X.copy()
    X[1, 0] = value
    return X


BAD = {
    "all entries of row 2 of X are missing": (
        {},
        {"X": np.where(np.arange(12)[:, None] == 2, np.nan, TABLE)},
    ),
    "all entries of column 5 of X are missing": (
        {},
        {"X": np.where(np.arange(6) == 5, np.nan, TABLE)},
    ),
    "all entries of row 0 of X are missing or have weight zero": (
        {},
        {"weights": np.arange(12)[:, None] * TABLE},
    ),
    r"weights has -1 at row 1, column 0; weights must be finite and >= 0\.$": (
        {},
        {"weights": _with(TABLE, -1.0)},
    ),
    "weights has nan at row 1, column 0": ({}, {"weights": _with(TABLE, np.nan)}),
    "An uncertainty of zero gives an infinite weight": ({}, {"weights": _with(TABLE, np.inf)}),
    r"weights has shape \(12, 5\), but X has \(12, 6\)": ({}, {"weights": TABLE[:, :5]}),
    "the largest of weights is 1e": ({}, {"weights": np.full_like(TABLE, 1e200)}),
    r"sample_weight has shape \(11,\); expected \(12,\)": ({}, {"sample_weight": np.ones(11)}),
    "sample_weight has -2 at sample 3": (
        {},
        {"sample_weight": np.where(np.arange(12) == 3, -2.0, 1)},
    ),
    "sample_weight is zero everywhere": ({}, {"sample_weight": np.zeros(12)}),
    "fixed_components have 5 features, but X has 6": ({"fixed_components": np.ones((1, 5))}, {}),
    "there are 3 fixed_components, but n_components = 2": (
        {"fixed_components": np.ones((3, 6))},
        {},
    ),
    "fixed_components has 1 negative entry": ({"fixed_components": -np.eye(6)[:1]}, {}),
    "row 0 of fixed_components is zero everywhere": ({"fixed_components": np.zeros((1, 6))}, {}),
    "fixed_entries has 0.5 at row 1, column 0; use True": (
        {"fixed_entries": _with(np.zeros((2, 6)), 0.5)},
        {},
    ),
    "fixed_entries has nan at row 1, column 0; use True": (
        {"fixed_entries": _with(np.zeros((2, 6)), np.nan)},
        {},
    ),
    r"fixed_entries has shape \(1, 6\)": ({"fixed_entries": np.zeros((1, 6), bool)}, {}),
    "fixed_entries leaves nothing of component 1": (
        {"fixed_entries": np.arange(2)[:, None] * np.ones((2, 6)) > 0},
        {},
    ),
    "fixed_entries leaves no component for feature 2": (
        {"fixed_entries": np.arange(6) == np.full((2, 1), 2)},
        {},
    ),
    "where fixed_components has another number": (
        {"fixed_components": np.ones((1, 6)), "fixed_entries": np.eye(2, 6, dtype=bool)},
        {},
    ),
    "missing must be .nan. or .unstored.; got 'zero'": ({"missing": "zero"}, {}),
    'missing="unstored" is for sparse X': ({"missing": "unstored"}, {}),
    'store only what is known and use missing="unstored"': (
        {},
        {"X": sp.csr_array(_with(TABLE, np.nan))},
    ),
    "Negative values in data: X has 1 negative entry": (
        {},
        {"X": np.where(TABLE[2, 2] == TABLE, np.nan, _with(TABLE, -1.0))},
    ),
    "shrinkage must be .auto. or a finite number >= 0; got -1": ({"shrinkage": -1}, {}),
    "robust compares residuals with their uncertainties": ({"robust": 4.0}, {}),
    "robust must be a number above 0; got -4": ({"robust": -4}, {"weights": np.ones_like(TABLE)}),
    "a graph of samples cannot use missing entries .NaN. or weights": (
        {"affinity": "knn"},
        {"weights": np.ones_like(TABLE)},
    ),
    "over features, and a graph has none": (
        {"affinity": "knn", "fixed_components": np.ones((1, 6))},
        {},
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_what_cannot_be_used_is_refused_in_one_sentence(message):
    parameters, given = BAD[message]
    model = HierarchicalNMF(2, **parameters)
    with pytest.raises(InvalidInputError, match=message):
        model.fit(**{"X": TABLE, **given})
    assert not hasattr(model, "components_")
    # new samples may lack a feature
    if not parameters and "sample_weight" not in given and "column 5" not in message:
        model = HierarchicalNMF(2, random_state=0).fit(TABLE)
        with pytest.raises(InvalidInputError, match=message):
            model.transform(**{"X": TABLE, **given})


@pytest.mark.parametrize(
    "model",
    [HierarchicalNMF(2), CCNMF(2), OrthogonalNMF(2)],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_infinite_entries_are_named(model, form):
    with pytest.raises(InvalidInputError, match="X has an infinite entry at row 1, column 0"):
        model.fit(form(_with(TABLE, np.inf)))


def test_keywords_of_other_estimators_are_refused_by_name():
    with pytest.raises(
        TypeError,
        match=(
            r"HierarchicalNMF\.fit\(\) got an unexpected keyword argument 'must_link';"
            r" OrthogonalNMF, CCNMF"
        ),
    ):
        HierarchicalNMF(2).fit(TABLE, must_link=[(0, 1)])


@pytest.mark.parametrize(
    ("estimator", "method", "n_runs", "message"),
    [
        (
            KMeans(),
            "residual",
            2,
            "residual compares the errors of factorizations, and KMeans is none; use stability",
        ),
        (object(), "stability", 2, "estimator must be an estimator such as HierarchicalNMF"),
        (None, "consensus", 1, "consensus compares runs; n_runs must be at least 2"),
    ],
)
def test_ranks_need_a_suitable_estimator_and_several_runs(estimator, method, n_runs, message):
    with pytest.raises(InvalidInputError, match=message):
        select_rank(TABLE, [2, 3], method, estimator=estimator, n_runs=n_runs)


def test_what_else_is_refused():
    X = TABLE
    model = HierarchicalNMF(2, random_state=0).fit(X)
    with pytest.raises(InvalidInputError, match="impute makes a dense table"):
        model.impute(sp.csr_array(X))
    with pytest.raises(InvalidInputError, match="use the Frobenius loss"):
        MultiplicativeNMF(2, loss="kullback-leibler", robust=4.0).fit(X, weights=X)


def test_held_out_entries_find_planted_ranks_and_name_ties():
    rng = np.random.default_rng(0)
    W, H = rng.gamma(0.5, 1.0, (60, 4)), rng.gamma(0.5, 1.0, (4, 40))
    found = select_rank(
        np.maximum(W @ H + 0.02 * rng.standard_normal((60, 40)), 0),
        range(2, 7),
        "heldout",
        n_runs=4,
        random_state=0,
    )
    assert found.rank == 4
    assert found.scores.argmin() == 2
    assert 4 in found.ties
    assert found.reason.startswith("the smallest rank whose squared error on held-out entries")
    counts = select_rank(
        sp.csr_array(rng.poisson(8 * W @ H)), [2, 3, 4, 5], "heldout", n_runs=4, random_state=0
    )
    assert counts.rank == 4
    assert "divergence" in counts.reason


@pytest.mark.parametrize("divergence", [False, True])
def test_models_are_mixed_with_independence_in_the_proportion_that_predicts_the_other_half(
    divergence,
):
    def error(x, model):
        return (kl_div(x, model) if divergence else np.square(x - model)).mean()

    rng = np.random.default_rng(0)
    x, a, b = rng.poisson(2.0, 60).astype(float), rng.gamma(2.0, 1.0, 60), rng.gamma(2.0, 1.0, 60)
    assert _mixed_error(x, np.where(x > 0, 0.0, 9.0), b, divergence) == pytest.approx(error(x, b))
    assert _mixed_error(x, x, b, divergence) == pytest.approx(0.0, abs=1e-4)
    shares, halves = np.linspace(0, 1, 2001), (slice(0, None, 2), slice(1, None, 2))
    mixed = [(1 - s) * a + s * b for s in shares]
    best = [np.argmin([error(x[half], m[half]) for m in mixed]) for half in halves]
    expected = np.mean(
        [error(x[half], mixed[k][half]) for half, k in zip(halves, best[::-1], strict=True)]
    )
    assert _mixed_error(x, a, b, divergence) == pytest.approx(expected, abs=1e-3)


def test_sparse_counts_with_less_than_one_for_each_entry_show_their_rank():
    rng = np.random.default_rng(3)
    W, H = rng.dirichlet(np.full(4, 0.1), 80), 0.9 * rng.dirichlet(np.full(50, 0.1), 4) + 0.1 / 50
    X = sp.csr_array(rng.poisson(30 * W @ H))
    assert X.mean() < 0.7
    assert select_rank(X, range(2, 7), "heldout", n_runs=4, random_state=0).rank == 4


def test_equal_stabilities_are_ties():
    X = np.kron(np.eye(4), np.ones((6, 3)))
    found = select_rank(
        X, [2, 4], "stability", estimator=OrthogonalNMF(n_init=3), n_runs=3, random_state=0
    )
    assert found.ties == tuple(found.candidates[found.scores == found.scores.max()])
    found = select_rank(X, [2, 3, 4], "consensus", n_runs=3, random_state=0)
    assert (
        found.rank
        in found.ties
        == tuple(found.candidates[found.scores >= found.scores.max() - 0.001])
    )


def test_held_out_entries_need_folds_and_no_estimator():
    with pytest.raises(InvalidInputError, match="n_runs must be at least 2"):
        select_rank(TABLE, [2, 3], "heldout", n_runs=1)
    with pytest.raises(
        InvalidInputError,
        match="two entries in each fold, but there are 6 for 4 folds; lower n_runs",
    ):
        select_rank(np.arange(1.0, 7.0).reshape(3, 2), [1, 2], "heldout", n_runs=4)
    with pytest.raises(InvalidInputError, match="takes no estimator"):
        select_rank(TABLE, [2, 3], "heldout", estimator=OrthogonalNMF())


def test_weights_of_entries_leave_the_penalties_of_sparse_nmf():
    """Twice the weights are half the penalties."""
    X = np.random.default_rng(1).random((15, 6))
    settings = {"tol": 1e-10, "max_iter": 2000, "random_state": 0}
    doubled = SparseNMF(2, alpha=0.1, eta=1.0, **settings).fit(X, weights=np.full(X.shape, 2.0))
    halved = SparseNMF(2, alpha=0.05, eta=0.5, **settings).fit(X, weights=np.ones(X.shape))
    np.testing.assert_allclose(doubled.components_, halved.components_, rtol=1e-4, atol=1e-4)


@every_squared
@pytest.mark.parametrize(("size", "limit"), [(1.0, 2.0), (100.0, 2.0), (1e6, 1e-6)])
@quiet
def test_the_recorded_objective_of_a_robust_fit_never_rises(model, size, limit):
    rng = np.random.default_rng(0)
    X, Q = rng.random((20, 3)) @ rng.random((3, 8)) + 0.05, size * rng.random((20, 8))
    for shrinkage in (0.0, 0.1):
        history = (
            fresh(model, robust=limit, shrinkage=shrinkage, tol=1e-9, max_iter=40)
            .fit(X, weights=Q)
            .history_
        )
        assert (np.diff(history) <= 1e-12 * history[0]).all()


@pytest.mark.parametrize("model", [HierarchicalNMF(), SparseNMF(alpha=0.1)])
@quiet
def test_a_sample_of_weight_k_is_like_k_samples_in_a_robust_fit(model):
    rng = np.random.default_rng(0)
    X, Q, copies = (
        rng.random((10, 3)) @ rng.random((3, 5)) + 0.05,
        100 * rng.random((10, 5)),
        rng.integers(1, 4, 10),
    )
    weighted, repeated = (fresh(model, 2, robust=0.5, tol=1e-9, max_iter=1000) for _ in range(2))
    weighted.fit(X, weights=Q, sample_weight=copies)
    repeated.fit(np.repeat(X, copies, axis=0), weights=np.repeat(Q, copies, axis=0))
    assert weighted.history_[-1] == pytest.approx(repeated.history_[-1], rel=1e-5)


@every_model
@pytest.mark.parametrize("factor", [1e155, 1e-160, 1e-200])
def test_known_components_too_far_from_the_scale_of_the_data_are_refused(model, factor):
    X = np.random.default_rng(0).random((12, 5)) + 0.1
    with pytest.raises(
        InvalidInputError,
        match=r"row 0 of fixed_components is .* that of X is .* multiply the row by a number",
    ):
        fresh(model, fixed_components=factor * X[:1]).fit(X)
    with pytest.raises(InvalidInputError, match="too far apart for float32"):
        fresh(model, fixed_components=1e15 * X[:1]).fit(X.astype(np.float32))


@every_model
@quiet
def test_the_scale_of_a_start_does_not_matter(model):
    X = np.random.default_rng(0).random((12, 5)) + 0.1
    starts = [factor * X[:3] for factor in (1.0, 1e-160, 1e-200, 1e160)] + [
        (1e160 * X[:, :3], 1e-160 * X[:3]),
        X[:3].tolist(),
    ]
    errors = [fresh(model, init=start, tol=1e-7).fit(X).relative_err_ for start in starts]
    np.testing.assert_allclose(errors, errors[0], rtol=0.2)
    with pytest.raises(InvalidInputError, match="row 1 of init is zero everywhere"):
        fresh(model, init=X[:3] * [[1.0], [0.0], [1.0]]).fit(X)


def test_frames_beside_x_go_by_name():
    X = pd.DataFrame(np.random.default_rng(0).random((12, 3)) + 0.1, columns=["a", "b", "c"])
    turned = X[["c", "b", "a"]]
    model = HierarchicalNMF(2, fixed_components=X[:1]).fit(X, weights=X)
    for name, value in (
        ("weights", X),
        ("fixed_components", X[:1]),
        ("fixed_entries", X[:2] > 1),
        ("init", X[:2]),
    ):
        one, other = (
            HierarchicalNMF(2, random_state=0, **({} if name == "weights" else {name: frame})).fit(
                X, weights=frame if name == "weights" else None
            )
            for frame in (value, value[["c", "b", "a"]])
        )
        np.testing.assert_array_equal(one.components_, other.components_)
        renamed = value.rename(columns={"b": "z"})
        given = {"weights": renamed} if name == "weights" else {}
        other = HierarchicalNMF(2, **({} if given else {name: renamed}))
        with pytest.raises(
            InvalidInputError, match=f"{name} has no column for the feature 'b' of X; use the names"
        ):
            other.fit(X, **given)
    np.testing.assert_array_equal(
        model.transform(turned, weights=turned), model.transform(X, weights=X)
    )
    model.fit(X, weights=pd.DataFrame(X.to_numpy()))  # columns without names


@quiet
@pytest.mark.parametrize("size", [1e-100, 1e10, 1e30, 1e100])
@pytest.mark.parametrize("shrinkage", [0.0, 0.1])
def test_equal_weights_of_any_size_give_the_divergence_of_no_weights(size, shrinkage):
    rng = np.random.default_rng(0)
    X = rng.random((30, 3)) @ rng.random((3, 12)) + 0.1 * rng.random((30, 12))
    weights = np.full(X.shape, size)
    plain = MultiplicativeNMF(
        3, loss="kullback-leibler", shrinkage=shrinkage, max_iter=50, random_state=0
    ).fit(X, weights=np.ones(X.shape))
    # penalties are not weighted
    model = fresh(plain, shrinkage=shrinkage * size).fit(X, weights=weights)
    assert model.relative_err_ == pytest.approx(plain.relative_err_, rel=1e-6)
    np.testing.assert_allclose(
        model.transform(X, weights=weights), plain.transform(X, weights=np.ones(X.shape)), rtol=1e-6
    )
    # after few iterations
    assert np.allclose(model.transform(X, weights=weights), model.embedding_, atol=0.1)


@quiet
@every_model
def test_weights_may_differ_by_any_factor(model):
    rng = np.random.default_rng(0)
    X = rng.random((30, 3)) @ rng.random((3, 12)) + 0.1 * rng.random((30, 12))
    assert fresh(model).fit(X, weights=10 ** rng.uniform(-40, 40, X.shape)).relative_err_ < 0.3


@quiet
@every_model
@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_equal_weights_of_samples_of_any_size_change_nothing(model, size):
    rng = np.random.default_rng(0)
    X = rng.random((20, 3)) @ rng.random((3, 8)) + 0.1 * rng.random((20, 8))
    plain, weighted = (
        fresh(model, max_iter=50, **({"eta": s} if isinstance(model, SparseNMF) else {})).fit(
            X, sample_weight=np.full(20, s)
        )
        for s in (1.0, size)
    )
    assert weighted.relative_err_ == pytest.approx(plain.relative_err_, rel=1e-4)
    assert weighted.reconstruction_err_ == pytest.approx(
        plain.reconstruction_err_ * np.sqrt(size), rel=1e-4
    )


@quiet
@every_model
def test_the_scale_of_samples_of_weight_zero_does_not_matter(model):
    rng = np.random.default_rng(0)
    X = rng.random((30, 3)) @ rng.random((3, 12)) + 0.1 * rng.random((30, 12))
    counts = np.arange(30) >= 3
    errors = [
        fresh(model).fit(np.where(counts[:, None], X, z * X), sample_weight=counts).relative_err_
        for z in (1.0, 100.0)
    ]
    assert errors[1] == pytest.approx(errors[0], rel=1e-6)


@quiet
@every_model
@pytest.mark.parametrize("size", [2.0**-997, 2.0**-532, 2.0**664])  # others round the table
def test_guesses_do_not_depend_on_the_scale_of_the_table(model, size, planted):
    X, missing, _ = planted
    Y = np.where(missing, np.nan, X)
    guesses = [fresh(model).fit(Y * z).impute(Y * z) / z for z in (1.0, size)]
    np.testing.assert_allclose(guesses[1], guesses[0], rtol=1e-6, atol=1e-9)


def test_weights_of_another_shape_or_size():
    X = np.random.default_rng(0).random((12, 3))
    with pytest.raises(
        InvalidInputError,
        match=r"weights has shape \(12,\), but X has \(12, 3\); .*, or use sample_weight",
    ):
        HierarchicalNMF(2).fit(X, weights=np.ones(12))
    with pytest.raises(
        InvalidInputError,
        match=r"weights has shape \(12, 1\), but X has \(12, 3\); give one for each entry\.$",
    ):
        HierarchicalNMF(2).fit(X).transform(X, weights=np.ones((12, 1)))
    with pytest.raises(
        InvalidInputError,
        match=r"must be from 1e-100 to 1e\+100; divide all weights by the largest. With `robust`",
    ):
        HierarchicalNMF(2).fit(X, weights=1e120 * X)
