"""The estimators: scikit-learn's own checks in full, then what they promise beyond them."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from conftest import each
from factors import clusters
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

import conecollapse
from conecollapse import (
    CCNMF,
    AlternatingNMF,
    Cone,
    ConeCollapse,
    ConeNovelty,
    ConsensusNMF,
    GraphCCNMF,
    HierarchicalNMF,
    InvalidInputError,
    MinVolumeNMF,
    MultiplicativeNMF,
    OrthogonalNMF,
    ProjectiveNMF,
    SeparableNMF,
    SparseNMF,
    UnexpectedArgumentError,
    Unmixing,
    affinity,
)
from conecollapse.factorization import SOLVERS
from conecollapse.factorization.cones.ccnmf import data_cone
from conecollapse.factorization.cones.graph_ccnmf import graph_ccnmf
from conecollapse.factorization.restarts import Starts
from conecollapse.io import read_table
from conecollapse.tables import DiffusedTable, as_table


class Applied(affinity.Diffusion):
    """As of so many samples that it is applied and never formed."""

    _formed = 10


FACTORIZATIONS = [
    MultiplicativeNMF(),
    MultiplicativeNMF(loss="kullback-leibler"),
    AlternatingNMF(),
    HierarchicalNMF(),
    SparseNMF(),
    ProjectiveNMF(),
    *(OrthogonalNMF(solver=solver) for solver in SOLVERS),
    CCNMF(),
    CCNMF.paper(2),
    CCNMF(max_rays=2),
    CCNMF(affinity=affinity.KNN(3)),
    GraphCCNMF(),
    HierarchicalNMF(affinity=affinity.Diffusion(3)),
]
# iterations and starts are enough where nothing is said about how good a result is
FEW, TWO = 20, 2
SLOW_SOLVERS = [f"OrthogonalNMF(solver={solver!r})" for solver in SOLVERS if solver != "em"]


def brief(model):
    """The model with few iterations and starts if its solver takes hundreds of iterations."""
    return (
        clone(model).set_params(max_iter=FEW, n_init=TWO) if repr(model) in SLOW_SOLVERS else model
    )


CHECKED = [
    *map(brief, FACTORIZATIONS),
    ConsensusNMF(n_runs=2),
    ConeCollapse(),
    ConeCollapse(points="samples"),
    ConeCollapse("approximate"),
    ConeCollapse("sample", points="samples"),
]
QUICK = [CCNMF(), HierarchicalNMF(), ConeCollapse()]
QUIET = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::conecollapse.EmptyDataWarning"),
    pytest.mark.filterwarnings("ignore:the graph of samples falls into"),
    pytest.mark.filterwarnings("ignore:y labels every sample"),
    pytest.mark.filterwarnings("ignore:the cone of the features is the whole orthant"),
    pytest.mark.filterwarnings("ignore:.*rounded to about"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning"),
]


WEIGHT_CHECKS = [
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
    "check_sample_weights_pandas_series",
    "check_sample_weights_not_an_array",
    "check_sample_weights_list",
    "check_sample_weights_shape",
    "check_sample_weights_not_overwritten",
]


def expected_failures(estimator):
    """The checks that do not apply, and why."""
    if (
        isinstance(estimator, ConeCollapse)
        and estimator.points == "features"
        and estimator.method != "approximate"
    ):
        return {
            "check_n_features_in_after_fitting": (
                "partial_fit takes further blocks of features, of any width, so none is refused"
            )
        }
    if getattr(estimator, "affinity", None) is not None:
        return dict.fromkeys(WEIGHT_CHECKS, "a graph of samples takes no weights, and says so")
    return {}


def quiet(test):
    for mark in QUIET:
        test = mark(test)
    return test


@quiet
@parametrize_with_checks(QUICK, expected_failed_checks=expected_failures)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


OTHERS = [model for model in CHECKED if repr(model) not in map(repr, QUICK)]


@pytest.mark.slow
@quiet
@parametrize_with_checks(
    [model for model in OTHERS if "=" not in repr(model)], expected_failed_checks=expected_failures
)
def test_scikit_learn_checks_of_the_others(estimator, check):
    check(estimator)


@pytest.mark.full
@quiet
@parametrize_with_checks(
    [model for model in OTHERS if "=" in repr(model)], expected_failed_checks=expected_failures
)
def test_scikit_learn_checks_of_variants(estimator, check):
    check(estimator)


@pytest.fixture
def data():
    return clusters(np.random.default_rng(0))


@quiet
@pytest.mark.parametrize("model", FACTORIZATIONS, ids=repr)
def test_every_method_finds_well_separated_clusters(model, data):
    X, y = data
    model = clone(model).set_params(n_components=3, random_state=0, n_init=5)
    if isinstance(model, CCNMF) and model.max_rays:
        model.set_params(max_rays=20)  # two rays are for the tiny tables of scikit-learn's checks
    labels = model.fit_predict(X)
    assert labels.dtype == np.int64
    assert adjusted_rand_score(y, labels) > 0.9
    assert adjusted_rand_score(labels, model.predict(X)) > 0.9
    assert 0 < model.score(X) <= 1
    assert model.get_feature_names_out().tolist() == [
        f"{type(model).__name__.lower()}{k}" for k in range(3)
    ]


@quiet
@pytest.mark.parametrize("model", each(FACTORIZATIONS))
def test_sparse_and_dense_float32_and_float64(model, data):
    X, y = data
    model = clone(model).set_params(n_components=3, random_state=0, n_init=5)
    if isinstance(model, CCNMF) and model.max_rays:
        model.set_params(max_rays=20)
    if model.affinity is not None:
        model.set_params(affinity__metric="cosine")  # "auto" is another metric for sparse X
    for table in (sp.csr_array(X), sp.csc_matrix(X), X.astype(np.float32), np.asfortranarray(X)):
        fitted = clone(model).fit(table)
        assert adjusted_rand_score(y, fitted.labels_) > 0.9
        assert (
            fitted.components_.dtype
            == fitted.embedding_.dtype
            == fitted.transform(table).dtype
            == table.dtype
        )


@quiet
@pytest.mark.parametrize("model", each(FACTORIZATIONS))
# exact in binary, so results must be the same
@pytest.mark.parametrize("scale", [2.0**-664, 2.0**-40, 2.0**40, 2.0**664])
def test_scaling_the_data_changes_nothing_but_scale(model, data, scale):
    X, _ = data
    model = clone(brief(model)).set_params(n_components=3, random_state=0)
    if isinstance(model, CCNMF) and model.max_rays:
        model.set_params(max_rays=20)
    one, other = clone(model).fit(X), clone(model).fit(X * scale)
    np.testing.assert_array_equal(one.labels_, other.labels_)
    assert np.isfinite(other.components_).all()
    np.testing.assert_array_equal(other.predict(X * scale), one.predict(X))
    if model.affinity is None:
        assert other.reconstruction_err_ / scale == pytest.approx(one.reconstruction_err_, rel=1e-5)
    np.testing.assert_allclose(other.history_[-1], one.history_[-1], rtol=1e-5)


@quiet
@pytest.mark.parametrize("model", each(FACTORIZATIONS))
def test_hard_tables_give_labels_and_no_nan(model):
    rng = np.random.default_rng(0)
    base = rng.random((12, 7))
    tables = {
        "rank one": np.outer(rng.random(12) + 0.1, rng.random(7) + 0.1),
        "identical samples": np.tile(base[0], (12, 1)),
        "identical features": np.tile(base[:, :1], (1, 7)),
        "zero sample and feature": np.where(
            (np.arange(12)[:, None] == 3) | (np.arange(7) == 2), 0.0, base
        ),
        "one feature": base[:, :1],
        "indicator": np.kron(np.eye(3), np.ones((4, 2))),
    }
    for name, X in tables.items():
        fitted = clone(model).set_params(n_components=2, random_state=0)
        if fitted.affinity:
            fitted.set_params(affinity__metric="euclidean")
        fitted.fit(X)
        for array in (fitted.embedding_, fitted.components_, fitted.transform(X), fitted.history_):
            assert np.isfinite(array).all(), name
        assert fitted.labels_.shape == (12,)
        assert fitted.predict(X).shape == (12,)
        assert fitted.score(X) <= 1


def test_empty_rows_and_columns_are_named():
    X = pd.DataFrame(np.ones((4, 3)), columns=["a", "b", "c"])
    X.loc[2] = 0.0
    X["b"] = 0.0
    with (
        pytest.warns(UserWarning, match=r"sample 2 of X holds only zeros.*label -1"),
        pytest.warns(UserWarning, match=r"feature 'b' of X"),
    ):
        model = OrthogonalNMF(2, random_state=0).fit(X)
    assert model.labels_.shape == (4,)
    assert model.labels_[2] == -1
    assert (model.components_[:, 1] == 0).all()


@pytest.mark.parametrize(
    ("model", "X", "message"),
    [
        (
            CCNMF(5),
            np.ones((3, 9)),
            r"n_components = 5, but X has only n_samples = 3; ask for at most that many",
        ),
        (CCNMF(0), np.ones((3, 9)), r"n_components must be an integer of at least 1; got 0"),
        (CCNMF(2.0), np.ones((3, 9)), r"n_components must be an integer of at least 1; got 2\.0"),
        (
            HierarchicalNMF(2),
            -np.ones((3, 9)),
            (
                r"Negative values in data: X has 27 negative entries, the first at row 0, column 0"
                r" \(-1\)"
            ),
        ),
        (
            HierarchicalNMF(2),
            np.zeros((3, 9)),
            r"X is zero everywhere; there is nothing to factorize",
        ),
        (HierarchicalNMF(2, init="nndvsd"), np.ones((3, 9)), r"init must be one of random, nndsvd"),
        (
            HierarchicalNMF(3, init="nndsvd"),
            np.ones((3, 2)),
            r"needs n_components <= min\(n_samples, n_features\) = 2; got 3",
        ),
        (
            HierarchicalNMF(2, init=(np.ones((3, 2)), np.ones((2, 4)))),
            np.ones((3, 9)),
            r"expected \(3, 2\) and \(2, 9\)",
        ),
        (
            HierarchicalNMF(2, init=np.array([0, 1, 2])),
            np.ones((3, 9)),
            r"3 integer labels from 0 to 1",
        ),
        (
            OrthogonalNMF(2, solver="emm"),
            np.ones((3, 9)),
            r"solver must be one of mu, ding, choi, stiefel, em, onp-mf; got 'emm'",
        ),
        (CCNMF(2, solver="emm"), np.ones((3, 9)), r"solver must be one of"),
        (
            CCNMF(2, weighting="heavy"),
            np.ones((3, 9)),
            r"weighting must be one of mass, unit; got 'heavy'",
        ),
        (CCNMF(2, cone="exact"), np.ones((3, 9)), r"cone must be certified or paper; got 'exact'"),
        (
            CCNMF(2, affinity="graph"),
            np.ones((3, 9)),
            (
                r"affinity must be None, one of knn, diffusion, precomputed, or an object such as"
                r" affinity.KNN\(n_neighbors=5\); got 'graph'"
            ),
        ),
        (
            CCNMF(2, affinity="knn"),
            np.ones((3, 9)),
            r"n_neighbors = 5, but each of the 3 samples has only 2 others",
        ),
        (
            CCNMF(2, affinity="precomputed"),
            np.ones((3, 9)),
            r"X has shape \(3, 9\); a graph of samples is square",
        ),
        (
            CCNMF(2, affinity="precomputed"),
            np.triu(np.ones((3, 3))),
            r"X is not symmetric: entry \(0, 1\) is 1 and entry \(1, 0\) is 0",
        ),
        (
            MultiplicativeNMF(2, loss="kl"),
            np.ones((3, 9)),
            r"loss must be one of frobenius, kullback-leibler; got 'kl'",
        ),
        (SparseNMF(2, alpha=-1), np.ones((3, 9)), r"alpha must be a number above 0; got -1"),
        (HierarchicalNMF(2, tol=-1), np.ones((3, 9)), r"tol must be a number >= 0; got -1"),
        (
            ConeCollapse("exact"),
            np.ones((3, 9)),
            r"method must be one of certified, paper, approximate, sample; got 'exact'",
        ),
        (
            ConeCollapse(points="rows"),
            np.ones((3, 9)),
            r"points must be features or samples; got 'rows'",
        ),
    ],
)
def test_bad_input_is_one_clear_sentence(model, X, message):
    with pytest.raises(InvalidInputError, match=message):
        model.fit(X)


def test_only_filled_samples_can_hold_a_cluster():
    X = np.zeros((4, 3))
    X[0] = 1.0
    with (
        pytest.warns(UserWarning, match="samples 1, 2, 3"),
        pytest.raises(InvalidInputError, match=r"n_samples = 1 that are not all zero"),
    ):
        OrthogonalNMF(2).fit(X)


def test_a_graph_in_pieces_is_reported():
    X = np.kron(np.eye(4), np.ones((3, 3))) + 1e-3 * np.random.default_rng(0).random((12, 12))
    with pytest.warns(
        UserWarning, match=r"falls into 4 parts that no edge joins, more than n_components = 2"
    ):
        labels = CCNMF(2, affinity=affinity.KNN(2), random_state=0).fit_predict(X)
    assert labels.shape == (12,)


def test_a_graph_with_an_isolated_sample():
    G = np.zeros((5, 5))
    G[:4, :4] = 1 - np.eye(4)
    with (
        pytest.warns(UserWarning, match="sample 4 of X holds only zeros"),
        pytest.warns(UserWarning, match="feature 4 of X"),
    ):
        model = CCNMF(2, affinity="precomputed", random_state=0).fit(G)
    assert model.labels_.shape == (5,)
    assert np.isfinite(model.embedding_).all()


def test_an_unfinished_run_says_so():
    X = np.random.default_rng(0).random((30, 20))
    with pytest.warns(
        ConvergenceWarning,
        match=r"MultiplicativeNMF stopped at max_iter = 2 before it settled; raise max_iter or tol",
    ):
        model = MultiplicativeNMF(3, max_iter=2).fit(X)
    assert not model.converged_
    assert model.n_iter_ == 2


@pytest.mark.parametrize(
    "model",
    [
        AlternatingNMF(),
        HierarchicalNMF(),
        MultiplicativeNMF(loss="kullback-leibler"),
        MultiplicativeNMF(max_iter=5000),
    ],
    ids=repr,
)
def test_a_table_of_exactly_that_rank_is_no_reason_to_warn(model):
    """Its objective falls for ever, and by more than tol of itself."""
    rng = np.random.default_rng(0)
    X = rng.random((30, 3)) @ rng.random((3, 12))
    model = clone(model).set_params(n_components=3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.fit(X).relative_err_ < 4e-3  # its square is at most tol
        assert model.set_params(init="random", tol=1e-4).fit(X).relative_err_ < 1e-2
    with pytest.warns(ConvergenceWarning, match="stopped at max_iter = 3"):
        model.set_params(max_iter=3).fit(X + rng.random(X.shape))


@pytest.mark.parametrize("model", [AlternatingNMF(), MultiplicativeNMF()], ids=repr)
@pytest.mark.parametrize("shape", [(60, 30, 4), (40, 40, 2)])
def test_small_steps_of_an_exact_fit_are_no_reason_to_warn(model, shape):
    """Neither are they converged; a run that is cut short says so."""
    n, m, r = shape
    rng = np.random.default_rng(0)
    X = rng.random((n, r)) @ rng.random((r, m))
    model = clone(model).set_params(n_components=r, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X)
    if not model.converged_:
        assert np.ptp(model.history_[-2:]) < model.tol
    with pytest.warns(ConvergenceWarning, match="stopped at max_iter = 4"):
        model.set_params(max_iter=4).fit(X)


@quiet
@pytest.mark.parametrize("model", each(CHECKED, others=pytest.mark.full))
def test_pickled_and_cloned_models_repeat_themselves(model, data):
    X, _ = data
    model = clone(model)
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    model.fit(X)
    again, copy = clone(model).fit(X), pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    np.testing.assert_array_equal(copy.transform(X), model.transform(X))


def test_pipeline_grid_search_and_names(data):
    X, _ = data
    frame = pd.DataFrame(
        X, columns=[f"gene{j}" for j in range(X.shape[1])], index=[f"s{i}" for i in range(len(X))]
    )
    pipeline = make_pipeline(
        FunctionTransformer(np.sqrt, feature_names_out="one-to-one"), CCNMF(3, random_state=0)
    ).set_output(transform="pandas")
    out = pipeline.fit_transform(frame)
    assert out.columns.tolist() == ["ccnmf0", "ccnmf1", "ccnmf2"]
    assert out.index.tolist() == frame.index.tolist()
    search = GridSearchCV(HierarchicalNMF(random_state=0), {"n_components": [1, 2, 3]}, cv=3).fit(X)
    assert search.best_params_["n_components"] == 3


def test_html_shows_what_was_found_and_escapes_it():
    X = pd.DataFrame(
        np.random.default_rng(0).random((8, 3)), columns=["<script>alert(1)</script>", "b", "c"]
    )
    selector = ConeCollapse().fit(X)
    html = selector._repr_html_()
    assert "What was found" in html
    assert "<script>alert(1)" not in html.replace("&lt;script&gt;", "")
    assert "Cone: " in html
    assert "What was found" not in CCNMF(2)._repr_html_()
    bundle = CCNMF(2, random_state=0).fit(X)._repr_mimebundle_()
    assert "samples by cluster" in bundle["text/html"]


def test_ccnmf_states_what_it_computed(data):
    """X = U V with the certified cone, H = S V, unit columns of A, and the error of X ~ A H."""
    X, _ = data
    for weighting in ("mass", "unit"):
        model = CCNMF(3, weighting=weighting, random_state=0).fit(X)
        model.cone_.verify(X.T)
        U, V, S, A = model.cone_.rays.T, model.coefficients_, model.loadings_, model.embedding_
        np.testing.assert_allclose(U @ V.toarray(), X, atol=1e-7)
        np.testing.assert_allclose(S @ V.toarray(), model.components_, rtol=1e-10)
        assert model.reconstruction_err_ == pytest.approx(
            np.linalg.norm(X - A @ model.components_), rel=1e-9
        )
        assert model.orthogonality_ < 1e-12
        np.testing.assert_array_equal(model.labels_, A.argmax(axis=1))


def test_mass_weights_bound_the_error_on_the_data():
    """``|X - A S V|^2 <= |(U - A S) D|^2``, with equality when every feature lies on a ray."""
    rng = np.random.default_rng(0)
    rays = rng.random((20, 4))
    for X in (rays @ np.hstack([np.eye(4), rng.random((4, 30))]), rays * 3):
        model = CCNMF(2, random_state=0).fit(X)
        U, V, S, A = (
            model.cone_.rays.T,
            model.coefficients_.toarray(),
            model.loadings_,
            model.embedding_,
        )
        d = np.sqrt(V @ V.sum(axis=0))
        error, bound = np.linalg.norm(X - A @ S @ V), np.linalg.norm((U - A @ S) * d)
        assert error <= bound * (1 + 1e-9)
        if X.shape[1] == 4:
            assert error == pytest.approx(bound, rel=1e-9)


def test_algorithm_1_and_the_certified_cone_give_the_same_clusters():
    X = np.random.default_rng(0).random((5, 12))
    a, b = (CCNMF.paper(2, cone=cone, random_state=0).fit(X) for cone in ("certified", "paper"))
    assert sorted(a.ray_indices_) == sorted(b.ray_indices_)


def test_orthant_degeneracy_has_nothing_to_cluster():
    """If every sample has a feature of its own, the cone is the whole orthant: U is the
    identity."""
    rng = np.random.default_rng(0)
    X = np.hstack([rng.random((6, 10)), np.diag(rng.random(6) + 0.5)])
    with pytest.warns(
        UserWarning, match="the whole orthant of 6 samples: each has a feature of its own"
    ):
        model = CCNMF(2, weighting="unit", random_state=0).fit(X)
    np.testing.assert_allclose(np.sort(model.cone_.rays @ np.ones(6)), 1.0)


@quiet
@pytest.mark.parametrize(
    "model",
    [
        CCNMF(),
        CCNMF(weighting="unit"),
        OrthogonalNMF(),
        HierarchicalNMF(),
        SparseNMF(),
        ProjectiveNMF(),
        OrthogonalNMF(solver="mu"),
    ],
    ids=repr,
)
def test_diffusion_of_many_samples_is_applied_and_never_formed(model):
    X, y = clusters(np.random.default_rng(0), sizes=(60, 50, 70))
    model = (
        clone(model)
        .set_params(
            n_components=3,
            affinity=Applied(metric="cosine"),
            random_state=0,
            max_iter=100,
        )
        .fit(X)
    )
    assert isinstance(model._fitted.source.table, DiffusedTable)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert adjusted_rand_score(y, model.labels_) > 0.9
    assert adjusted_rand_score(model.labels_, model.predict(X)) > 0.9


def test_the_divergence_needs_entries():
    X, _ = clusters(np.random.default_rng(0), sizes=(60, 50, 70))
    with pytest.raises(
        InvalidInputError, match="needs single entries of X, which is a diffused graph"
    ):
        MultiplicativeNMF(3, affinity=Applied(metric="cosine"), loss="kullback-leibler").fit(X)


def test_cone_collapse_selects_features_and_rebuilds_the_rest():
    rng = np.random.default_rng(0)
    generators = rng.random((8, 3))
    X = pd.DataFrame(
        generators @ np.hstack([np.eye(3), rng.random((3, 5))]), columns=list("abcdefgh")
    )
    selector = ConeCollapse().fit(X)
    assert selector.get_feature_names_out().tolist() == ["a", "b", "c"]
    assert selector.set_output(transform="pandas").fit_transform(X).columns.tolist() == [
        "a",
        "b",
        "c",
    ]
    np.testing.assert_allclose(selector.inverse_transform(X[["a", "b", "c"]]), X, atol=1e-7)
    np.testing.assert_allclose(selector.rays_ @ selector.coefficients_.toarray(), X, atol=1e-7)
    assert selector.score_samples(X).min() > -1e-7


@pytest.mark.parametrize("sparse", [False, True])
def test_partial_fit_gives_the_rays_of_the_whole(sparse):
    rng = np.random.default_rng(0)
    X = rng.random((6, 40))
    make = sp.csr_array if sparse else np.asarray
    whole, parts = ConeCollapse().fit(make(X)), ConeCollapse()
    for a in range(0, 40, 13):
        parts.partial_fit(make(X[:, a : a + 13]))
    assert parts.n_features_in_ == 40
    np.testing.assert_array_equal(parts.ray_indices_, whole.ray_indices_)
    np.testing.assert_allclose(
        np.asarray(parts.rays_ @ parts.coefficients_.toarray()), X, atol=1e-7
    )
    samples = ConeCollapse(points="samples")
    for a in range(0, 40, 13):
        samples.partial_fit(make(X.T[a : a + 13]))
    np.testing.assert_array_equal(samples.ray_indices_, whole.ray_indices_)
    with pytest.raises(InvalidInputError, match="this block has 5 samples, the ones before had 6"):
        parts.partial_fit(make(X[:5]))
    assert not hasattr(ConeCollapse("approximate"), "partial_fit")


def test_the_rays_of_algorithm_1_select_the_same_features():
    X = np.random.default_rng(0).random((4, 12))
    np.testing.assert_array_equal(
        ConeCollapse("paper").fit(X).get_support(), ConeCollapse().fit(X).get_support()
    )


def test_epsilon_cones_rebuild_features_in_order():
    """The rays of an epsilon-cone come in the order of choice, the selected columns in that of the
    table."""
    rng = np.random.default_rng(0)
    X = rng.random((20, 4)) @ rng.random((4, 10))
    selector = ConeCollapse("approximate", max_residual=0.02).fit(X)
    assert (np.diff(selector.ray_indices_) < 0).any()
    rebuilt = selector.inverse_transform(selector.transform(X))
    assert (
        np.linalg.norm(rebuilt - X, axis=0) <= 0.02 * np.linalg.norm(X, axis=0) * (1 + 1e-9)
    ).all()
    judge = ConeCollapse("approximate", points="samples", max_residual=0.3).fit(X)
    assert all(judge.explain(np.eye(10)))


@pytest.mark.parametrize("scale", [1e-170, 1e170])
def test_cones_know_no_scale(scale):
    X = np.random.default_rng(0).random((20, 4)) @ np.random.default_rng(1).random((4, 10))
    judge, other = (
        ConeCollapse(points="samples").fit(X),
        ConeCollapse(points="samples").fit(X * scale),
    )
    np.testing.assert_allclose(
        other.score_samples(np.eye(10) * scale), judge.score_samples(np.eye(10)), atol=1e-9
    )
    selector = ConeCollapse().fit(X * scale)
    np.testing.assert_allclose(
        selector.inverse_transform(selector.transform(X * scale)) / scale, X, atol=1e-7
    )


def test_a_refused_block_changes_nothing():
    X = pd.DataFrame(np.random.default_rng(0).random((6, 10)), columns=[f"a{j}" for j in range(10)])
    selector = ConeCollapse().fit(X)
    before = selector.transform(X)
    with pytest.raises(InvalidInputError, match="this block has 5 samples"):
        selector.partial_fit(pd.DataFrame(np.ones((5, 2)), columns=["b0", "b1"]))
    np.testing.assert_array_equal(selector.transform(X), before)
    assert selector.partial_fit(X.add_prefix("b")).feature_names_in_.tolist() == [
        *X.columns,
        *X.add_prefix("b").columns,
    ]


def test_empty_features_are_named_by_the_selector():
    with pytest.warns(UserWarning, match="feature 1 of X holds only zeros"):
        assert ConeCollapse().fit([[1.0, 0.0, 2.0], [0.0, 0.0, 1.0]]).get_support().tolist() == [
            True,
            False,
            True,
        ]


@quiet
def test_sparse_nmf_means_the_same_at_any_scale():
    Z = np.random.default_rng(0).random((60, 20))
    models = [SparseNMF(4, random_state=0).fit(Z * s) for s in (1e-3, 1.0, 1e3)]
    for model in models:
        assert model.relative_err_ == pytest.approx(models[1].relative_err_, rel=1e-3)
        assert (model.embedding_.max(axis=0) > 0).all()
    with pytest.raises(InvalidInputError, match="eta without alpha has no minimum"):
        SparseNMF(2, alpha=0.0, eta=1.0).fit(Z)


@quiet
@pytest.mark.parametrize("model", each(FACTORIZATIONS))
def test_zero_samples_have_zero_encodings_and_no_cluster(model):
    X, _ = clusters(np.random.default_rng(0))
    X[3] = 0.0
    model = clone(model).set_params(n_components=3, random_state=1)
    if getattr(model, "max_rays", None):
        model.set_params(max_rays=20)
    model.fit(X)
    assert (model.embedding_[3] == 0).all()
    assert model.labels_[3] == model.predict(X)[3] == -1
    assert (model.transform(X)[3] == 0).all()


@quiet
def test_custom_starts_are_in_the_units_of_the_data():
    rng = np.random.default_rng(0)
    X, W, H = rng.random((30, 12)), rng.random((30, 3)), rng.random((3, 12))
    one = HierarchicalNMF(3, init=(W, H)).fit(X)
    big = HierarchicalNMF(3, init=(W, sp.csr_array(H * 2.0**150))).fit(X * 2.0**150)
    np.testing.assert_allclose(big.history_, one.history_, rtol=1e-10)
    G = X @ X.T
    small, large = (
        CCNMF(2, affinity="precomputed", random_state=0).fit(G * s) for s in (1.0, 2.0**150)
    )
    assert large.reconstruction_err_ / 2.0**150 == pytest.approx(small.reconstruction_err_)


@pytest.mark.parametrize(
    "init", [(np.ones((30, 3)),) * 3, (np.ones(30), np.ones((3, 12))), "nonsense", np.ones(30)]
)
def test_unusable_starts(init):
    with pytest.raises(
        InvalidInputError,
        match=r"init must be one of random, .* spectral, (matrices|a pair) \(W, H\), H alone",
    ):
        HierarchicalNMF(3, init=init).fit(np.ones((30, 12)))


@quiet
def test_too_few_rays_for_the_clusters():
    with pytest.raises(InvalidInputError, match="max_rays = 4 is fewer than n_components = 6"):
        CCNMF(6, max_rays=4, random_state=0).fit(np.eye(6))
    X = np.hstack([np.kron(np.eye(1, 6).T, np.array([[9.0, 9.1, 9.2]])), 1e-3 * np.eye(6)])
    X[1, :3] = [1.0, 2.0, 3.0]
    with pytest.raises(
        InvalidInputError,
        match="only 2 samples have an entry on any of the 2 rays, fewer than n_components = 3",
    ):
        CCNMF(3, max_residual=0.01, max_rays=3, random_state=0).fit(X)


def test_epsilon_cones_need_the_columns_of_a_diffusion():
    X, _ = clusters(np.random.default_rng(0), sizes=(60, 50, 70))
    with pytest.raises(
        InvalidInputError, match="needs the columns of X, which is a diffused graph"
    ):
        CCNMF(3, max_rays=4, affinity=Applied(metric="cosine")).fit(X)


def test_a_fitted_model_does_not_hold_on_to_the_table():
    X = np.random.default_rng(0).random((400, 300))
    assert len(pickle.dumps(HierarchicalNMF(3, random_state=0, tol=1e-2).fit(X))) < 100_000


def test_bad_encodings_for_the_inverse():
    model = HierarchicalNMF(3, random_state=0, tol=1e-2).fit(
        np.random.default_rng(0).random((30, 12))
    )
    with pytest.raises(
        InvalidInputError, match="X has 7 columns; expected 3, one for each component"
    ):
        model.inverse_transform(np.ones((2, 7)))
    np.testing.assert_allclose(model.inverse_transform(sp.csr_array(np.eye(3))), model.components_)


def test_what_tells_clusters_apart_has_a_name():
    X = pd.DataFrame(
        np.kron(np.eye(3), np.ones((5, 2))) + 9.0 * np.eye(1, 6, 5),
        columns=["a1", "a2", "b1", "b2", "c1", "everywhere"],
    )
    for model in (
        CCNMF(3),
        CCNMF(3, affinity=affinity.KNN(4, "euclidean")),
        GraphCCNMF(3, n_neighbors=4),
    ):
        model.set_params(random_state=0).fit(X + 0.01 * np.random.default_rng(0).random(X.shape))
        tops = {frozenset(feature.name for feature in top) for top in model.top_features(1)}
        assert {"a1", "b1"} <= {feature.name for top in model.top_features(2) for feature in top}
        assert len(tops) == 3
        assert all(
            X.columns[index] == name for top in model.top_features(6) for index, name, _ in top
        )
        assert model.top_features(1, names=range(6))[0][0].name == str(
            model.top_features(1)[0][0].column
        )
        with pytest.raises(InvalidInputError, match="there are 2 names for 6 features"):
            model.top_features(names=["a", "b"])
        assert model.profiles_.shape == (3, 6)


def test_rays_keep_their_names():
    X = pd.DataFrame(
        np.random.default_rng(0).random((4, 9)),
        columns=[f"g{j}" for j in range(9)],
        index=list("wxyz"),
    )
    model = CCNMF(2, random_state=0).fit(X)
    assert model.cone_.ray_names.tolist() == [f"g{j}" for j in model.ray_indices_]
    assert ConeCollapse().fit(X).cone_.ray_names.tolist() == [
        f"g{j}" for j in ConeCollapse().fit(X).ray_indices_
    ]
    samples = ConeCollapse(points="samples").fit(X)
    assert samples.get_feature_names_out().tolist() == [
        list("wxyz")[i] for i in samples.ray_indices_
    ]
    with pytest.raises(
        InvalidInputError, match="max_rays = 3 is for an epsilon-cone; add method='approximate'"
    ):
        ConeCollapse(max_rays=3).fit(X)


def test_distances_are_no_graph():
    with pytest.warns(UserWarning, match="if it holds distances, pass similarities instead"):
        CCNMF(2, affinity="precomputed", random_state=0).fit(1.0 - np.eye(5))


@quiet
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_auto_says_what_it_chose_and_counts_copies_once(make):
    rng = np.random.default_rng(0)
    X, y = clusters(rng, sizes=(30, 30, 30), n_features=60)
    X *= rng.random(X.shape) < (0.08 if make is sp.csr_array else 2.0)
    X[:, 0] += 1e-3
    X, y = np.vstack([X, np.repeat(X[:1], 40, axis=0)]), np.concatenate([y, np.repeat(y[:1], 40)])
    model = GraphCCNMF(3, random_state=0).fit(make(X))
    assert model.view_ in model.eigengap_ratios_
    assert model.eigengap_ratios_[model.view_] == min(model.eigengap_ratios_.values())
    assert len(set(model.labels_[90:]) | {model.labels_[0]}) == 1  # copies share a label
    assert model.orthogonality_ < 1e-9
    assert model.cone_.n_points == (X.shape[1] if make is sp.csr_array else 90)
    np.testing.assert_array_equal(model.predict(make(X)), model.labels_)
    np.testing.assert_array_equal(model.transform(make(X)), model.embedding_)
    if make is np.asarray:
        assert adjusted_rand_score(y, model.labels_) > 0.9
    assert "eigengap ratios:" in model._repr_html_()


def test_outliers_are_scored_and_explained():
    """Moreau: the witness is positive on the outlier, at most zero on every sample of the cone, and
    its square is the squared score."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        rng.dirichlet(np.ones(3), 50) @ np.hstack([np.eye(3), np.ones((3, 3))]),
        columns=[f"g{j}" for j in range(6)],
    )
    judge = ConeCollapse(points="samples").fit(X)
    new = pd.DataFrame([X.mean().to_numpy(), [0.1, 0.1, 0.1, 0.2, 0.2, 3.0]], columns=X.columns)
    scores, witness = judge.score_samples(new), judge.witness_samples(new)
    assert scores[0] == pytest.approx(0, abs=1e-7)
    assert scores[1] < -0.5
    assert witness[1] @ new.to_numpy()[1] > 0
    assert (X.to_numpy() @ witness[1]).max() <= 1e-9
    assert np.linalg.norm(witness[1]) == pytest.approx(-scores[1])
    explained = judge.explain(new, n_features=2)
    assert explained[0] == []
    assert explained[1][0].name == "g5"
    np.testing.assert_allclose(
        -scores, Cone.from_points(X.to_numpy()).residuals(new.to_numpy()), atol=1e-9
    )


@pytest.mark.slow
def test_importing_the_package_leaves_scikit_learn_alone():
    import subprocess
    import sys

    code = (
        "import sys, conecollapse; print('sklearn' in sys.modules); conecollapse.CCNMF;"
        " print('sklearn' in sys.modules)"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert out == ["False", "True"]
    assert set(conecollapse.__all__) <= set(dir(conecollapse))
    with pytest.raises(AttributeError, match="no attribute 'CCMNF'"):
        _ = conecollapse.CCMNF


def test_normal_use_is_silent(data):
    X, _ = data
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for model in (
            CCNMF(3),
            OrthogonalNMF(3),
            HierarchicalNMF(3, tol=1e-3),
            AlternatingNMF(3, tol=1e-3),
            ProjectiveNMF(3, tol=1e-3),
        ):
            model.set_params(random_state=0).fit(X).predict(X)


def test_as_many_rays_as_clusters_in_a_sparse_table():
    """The diffusion of so few rays has no more columns than singular vectors are asked for."""
    rng = np.random.default_rng(0)
    X = sp.random_array((400, 120), density=0.05, rng=rng, format="csr") + sp.csr_array(
        np.kron(np.eye(4), np.ones((100, 1)) * np.eye(1, 30))
    )
    few = partial(data_cone, method="approximate", max_rays=4, weighting="mass")
    found = graph_ccnmf(as_table(sp.csr_array(X)), Starts(4, "spectral", 10, rng), cone=few)
    assert found.cone.n_rays == 4
    assert len(np.unique(found.A.argmax(axis=1))) == 4


ENCODING = [  # whose `embedding_` is what `transform` gives
    model
    for model in FACTORIZATIONS
    if not isinstance(model, ProjectiveNMF)
    and getattr(model, "solver", "em") == "em"
    and getattr(model, "loss", "") != "kullback-leibler"
]


@quiet
@pytest.mark.parametrize("model", ENCODING, ids=repr)
def test_training_samples_keep_their_clusters_and_encodings(model, data):
    X, _ = data
    model = clone(model).set_params(n_components=3, random_state=0)
    if isinstance(model, CCNMF) and model.max_rays:
        model.set_params(max_rays=20)
    embedding = model.fit_transform(X)
    np.testing.assert_array_equal(embedding, model.embedding_)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    np.testing.assert_allclose(model.transform(X), embedding, atol=1e-2 * embedding.max())


@quiet
@pytest.mark.parametrize("model", FACTORIZATIONS, ids=repr)
def test_clusters_are_numbered_by_size_and_labels_are_weighted_encodings(model):
    X, _ = clusters(np.random.default_rng(1), sizes=(8, 30, 17))
    model = clone(model).set_params(n_components=3, random_state=0, n_init=3)
    if isinstance(model, CCNMF) and model.max_rays:
        model.set_params(max_rays=20)
    labels = model.fit(X).labels_
    encoded = model.embedding_.any(axis=1)  # of a graph in four parts, three may be explained
    np.testing.assert_array_equal(labels == -1, ~encoded)
    sizes = np.bincount(labels[encoded], minlength=3)
    assert (np.diff(sizes) <= 0).all()
    largest = (model.embedding_ * model.label_weights_).argmax(axis=1)
    np.testing.assert_array_equal(largest[encoded], labels[encoded])
    np.testing.assert_allclose(
        model.profiles_,
        [X[labels == k].mean(axis=0) if (labels == k).any() else 0 * X[0] for k in range(3)],
    )


@quiet
def test_parameters_of_an_affinity_can_be_searched(data):
    X, _ = data
    search = GridSearchCV(
        HierarchicalNMF(3, affinity=affinity.KNN(), random_state=0),
        {"affinity__n_neighbors": [3, 8]},
        cv=2,
    ).fit(X)
    assert search.best_params_["affinity__n_neighbors"] in (3, 8)
    assert "n_neighbors" not in HierarchicalNMF().get_params()


@pytest.mark.parametrize(
    ("word", "same"), [("knn", affinity.KNN()), ("diffusion", affinity.Diffusion())]
)
def test_words_are_shorthands_for_affinities(word, same, data):
    X, _ = data
    one, other = (CCNMF(3, affinity=a, random_state=0).fit(X) for a in (word, same))
    np.testing.assert_array_equal(one.embedding_, other.embedding_)


def test_the_word_auto_points_to_the_estimator():
    with pytest.raises(
        InvalidInputError,
        match=r"got 'auto'. The recipe that chooses a graph by itself is GraphCCNMF",
    ):
        CCNMF(2, affinity="auto").fit(np.ones((4, 3)))


def test_the_view_can_be_named(data):
    X, y = data
    for view in ("root", "centred", "cosine", "root cosine"):
        model = GraphCCNMF(3, view=view, random_state=0).fit(X)
        assert (model.view_, list(model.eigengap_ratios_)) == (view, [view])
        assert adjusted_rand_score(y, model.labels_) > 0.9
    with pytest.raises(
        InvalidInputError,
        match=r"view must be auto, .*, root cosine, residuals or log pcs; got 'best'",
    ):
        GraphCCNMF(3, view="best").fit(X)
    with pytest.raises(InvalidInputError, match="view='centred' subtracts a mean"):
        GraphCCNMF(2, view="centred").fit(np.eye(20))


def test_cone_of_a_diffusion_is_a_cone_however_many_samples(data):
    X, _ = data
    formed = CCNMF(3, affinity="diffusion", random_state=0).fit(X)
    applied = CCNMF(3, affinity=Applied(), random_state=0).fit(X)
    np.testing.assert_array_equal(applied.cone_.ray_indices, formed.cone_.ray_indices)
    M = formed._fitted.source.table.array
    assert applied.cone_.verify(M.T).n_rays == formed.cone_.verify(M.T).n_rays == len(X)


def test_starts_on_a_graph_are_over_samples():
    rng = np.random.default_rng(0)
    X = np.kron(np.eye(3), np.ones((6, 3))) + 0.1 * rng.random((18, 9))
    X[2] = X[1]
    X = np.vstack([X, np.zeros(9)])
    y = np.append(np.repeat([2, 0, 1], 6), 0)
    W, H = np.eye(3)[y] + 0.1, np.eye(3)[:, y] + 0.1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for init in (y, y.tolist()):
            labels = GraphCCNMF(3, init=init).fit(X).labels_
            assert len({*zip(labels, y, strict=True)}) == 4  # the sample of zeros has no cluster
        for init in (H, (W, H), y):
            assert HierarchicalNMF(3, affinity=affinity.KNN(3), init=init).fit(X).labels_[18] == -1
        for init in (H, (W, H)):
            with pytest.raises(InvalidInputError, match="init of GraphCCNMF cannot be factors"):
                GraphCCNMF(3, init=init).fit(X)
        with pytest.raises(
            InvalidInputError,
            match=r"init has shape \(3, 9\); as components alone it must have \(3, 18\)",
        ):
            HierarchicalNMF(3, affinity=affinity.KNN(3), init=X[:3]).fit(X)
        with pytest.raises(
            InvalidInputError,
            match=r"pair of shapes \(18, 3\) and \(3, 9\); expected \(18, 3\) and \(3, 18\)",
        ):
            HierarchicalNMF(3, affinity=affinity.KNN(3), init=(W, X[:3])).fit(X)


def test_a_polars_frame_stays_one_when_it_is_imputed():
    polars = pytest.importorskip("polars")
    X = np.random.default_rng(0).random((20, 2)) @ np.random.default_rng(1).random((2, 6))
    gaps = X.copy()
    gaps[3, 4] = np.nan
    frame = polars.DataFrame(gaps, schema=list("abcdef")).fill_nan(None)
    filled = HierarchicalNMF(2, random_state=0, tol=1e-8, max_iter=2000).fit(frame).impute(frame)
    assert isinstance(filled, polars.DataFrame)
    assert filled.columns == list("abcdef")
    np.testing.assert_allclose(filled.to_numpy(), X, atol=0.05)


EVERY = [
    HierarchicalNMF(),
    AlternatingNMF(),
    MultiplicativeNMF(),
    SparseNMF(),
    ProjectiveNMF(),
    OrthogonalNMF(),
    CCNMF(),
    CCNMF(affinity=affinity.KNN(3)),
    GraphCCNMF(),
    ConsensusNMF(n_runs=2),
    MinVolumeNMF(),
    SeparableNMF(),
    Unmixing(2),
    ConeNovelty(),
    ConeCollapse(),
    ConeCollapse(points="samples"),
]
every = pytest.mark.parametrize("model", EVERY, ids=repr)


def asked(model, X):
    """What every method of the model that takes new samples says about them."""
    names = ("transform", "predict", "score", "score_samples", "decision_function", "impute")
    return {name: getattr(model, name)(X) for name in names if hasattr(model, name)}


@quiet
@every
def test_columns_go_by_name_in_every_method_and_others_are_named(model):
    X = pd.DataFrame(clusters(np.random.default_rng(0))[0][:, :6], columns=list("abcdef"))
    turned = X[list("fbadce")]
    model = clone(model).fit(X)
    for name, expected in asked(model, X).items():
        found = getattr(model, name)(turned)
        if name == "impute":
            assert found.columns.tolist() == list("fbadce")
            found = found[X.columns]
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12, err_msg=name)
        for bad, message in (
            (
                turned.drop(columns=["b", "c"]),
                "should match those that were passed during fit.\nFeature names seen at fit time,"
                " yet now missing:\n- b\n- c\nAdd, drop or rename",
            ),
            (turned.assign(z=1.0), "Feature names unseen at fit time:\n- z\nAdd"),
            (
                X.rename(columns={"a": "q"}),
                "unseen at fit time:\n- q\nFeature names seen at fit time, yet now missing:\n- a\n",
            ),
        ):
            with pytest.raises(InvalidInputError, match=message):
                getattr(model, name)(bad)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_names_beside_an_array_go_by_name_too():
    X = clusters(np.random.default_rng(0))[0][:, :6]
    model = HierarchicalNMF(2, random_state=0).fit(X, feature_names=list("abcdef"))
    order = np.array([5, 1, 0, 3, 2, 4])
    for of in (np.asarray, sp.csr_array):
        frame = pd.DataFrame(X[:, order], columns=list("fbadce"))
        turned = replace(read_table(frame), X=of(X[:, order]))
        np.testing.assert_allclose(model.transform(turned), model.transform(of(X)))
    with pytest.raises(InvalidInputError, match="yet now missing:\n- a\n"):
        model.transform(read_table(pd.DataFrame(X[:, 1:], columns=list("bcdef"))))


@quiet
@every
def test_every_estimator_is_seeded_and_refuses_weights_that_it_cannot_use(model):
    X = clusters(np.random.default_rng(0))[0][:, :6]
    pipeline = make_pipeline(FunctionTransformer(), clone(model))
    pipeline.set_params(**{name: 3 for name in pipeline.get_params() if "random_state" in name})
    assert pipeline[-1].random_state == 3
    pipeline.fit(X)
    if type(model) in (HierarchicalNMF, AlternatingNMF, MultiplicativeNMF, SparseNMF):
        return
    for name, value in (("sample_weight", np.ones(len(X))), ("weights", np.ones_like(X))):
        with pytest.raises(
            InvalidInputError,
            match=rf"does not take {name} in fit; HierarchicalNMF, Alt.* and SparseNMF do in fit",
        ):
            clone(model).fit(X, **{name: value})
    clone(model).fit(X, sample_weight=None)
    with pytest.raises(UnexpectedArgumentError, match="unexpected keyword argument 'wieghts'"):
        clone(model).fit(X, wieghts=1)


def test_the_seed_of_novelty_chooses_the_samples_it_is_calibrated_on():
    X = np.random.default_rng(0).random((1200, 4))
    fits = [ConeNovelty(random_state=seed).fit(X) for seed in (0, 0, np.random.RandomState(5))]
    np.testing.assert_array_equal(fits[0].distances_, fits[1].distances_)
    assert (fits[0].distances_ != fits[2].distances_).any()
    with pytest.raises(InvalidInputError, match="cannot be used to seed"):
        ConeNovelty(random_state="three").fit(X[:5])
