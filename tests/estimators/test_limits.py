"""Where floating point ends: numbers of any scale, any type and any storage, and samples that hold
nothing."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import each, takes_arrays
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs

from conecollapse import (
    CCNMF,
    AlternatingNMF,
    Cone,
    ConeCollapse,
    EmptyDataWarning,
    GraphCCNMF,
    HierarchicalNMF,
    InvalidInputError,
    MultiplicativeNMF,
    OrthogonalNMF,
    ProjectiveNMF,
    SparseNMF,
    affinity,
)
from conecollapse.factorization import (
    SOLVERS,
    Factorization,
    anls,
    best_of_starts,
    hals,
    initialize,
    mu,
    pnmf,
)
from conecollapse.factorization.restarts import Starts
from conecollapse.geometry.tall import triangular_of
from conecollapse.io import open_table, read_table
from conecollapse.report.clustering import contents
from conecollapse.runs import cluster
from conecollapse.tables import as_table

hals = takes_arrays(hals)
initialize = takes_arrays(initialize)

MODELS = [
    MultiplicativeNMF(),
    MultiplicativeNMF(loss="kullback-leibler"),
    AlternatingNMF(),
    HierarchicalNMF(),
    SparseNMF(),
    ProjectiveNMF(),
    *(OrthogonalNMF(solver=solver) for solver in SOLVERS),
    CCNMF(),
    CCNMF(weighting="unit"),
    CCNMF.paper(2),
    CCNMF(max_rays=6),
    CCNMF(affinity=affinity.KNN(3)),
    CCNMF(affinity=affinity.Diffusion(3)),
    GraphCCNMF(),
    HierarchicalNMF(affinity=affinity.Diffusion(3)),
]
CONES = [
    ConeCollapse(),
    ConeCollapse(points="samples"),
    ConeCollapse("approximate"),
    ConeCollapse("approximate", weighting="mass"),
]
FITTED = (
    "embedding_",
    "components_",
    "profiles_",
    "loadings_",
    "coefficients_",
    "rays_",
    "history_",
    "reconstruction_err_",
    "relative_err_",
    "orthogonality_",
)
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:the graph of samples falls into"),
    pytest.mark.filterwarnings("ignore:the cone of the features is the whole orthant"),
    pytest.mark.filterwarnings("ignore:.*rounded to about"),
    pytest.mark.filterwarnings("ignore:feature.*only zeros"),
]


def dense(values):
    return values.toarray() if sp.issparse(values) else np.asarray(values)


def everything_from(model, X):
    """Every number that a fitted model gives about X, by name."""
    model = clone(model)
    if not isinstance(model, ConeCollapse):
        model.set_params(n_components=3, random_state=0, max_iter=60)
    model.fit(X)
    found = {
        name: getattr(model, name) for name in FITTED if getattr(model, name, None) is not None
    }
    found["transform"] = model.transform(X)
    found["inverse_transform"] = model.inverse_transform(found["transform"])
    if isinstance(model, ConeCollapse):
        found |= {
            "score_samples": model.score_samples(X),
            "witness_samples": model.witness_samples(X),
        }
    else:
        found |= {"score": model.score(X), "labels": model.labels_, "predict": model.predict(X)}
    return found


def extreme_tables():
    rng = np.random.default_rng(0)
    base = rng.random((24, 10)) * (rng.random((24, 10)) < 0.7) + 1e-3
    return {
        "columns from 1e-100 to 1e100": base * np.logspace(-100, 100, 10),
        "rows from 1e-100 to 1e100": base * np.logspace(-100, 100, 24)[:, None],
        "entries from 1e-100 to 1e100": base * 10.0 ** rng.uniform(-100, 100, base.shape),
        "one column 1e300 of the rest": base * np.where(np.arange(10) == 0, 1e300, 1.0),
        "float32 near its largest number": (base / base.max() * 3.3e38).astype(np.float32),
        "float32 near its smallest number": (base * 1e-38).astype(np.float32),
        "float32 over its whole range": (base * np.logspace(-37, 37, 10)).astype(np.float32),
    }


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("model", each([*MODELS, *CONES]))
def test_every_number_of_an_estimator_is_finite_for_data_of_any_range(model, store):
    for name, X in extreme_tables().items():
        with np.errstate(over="ignore", under="ignore"):
            found = everything_from(model, store(X))
        for what, values in found.items():
            assert np.isfinite(dense(values)).all(), (name, what)


@pytest.mark.parametrize(
    "model",
    [HierarchicalNMF(), AlternatingNMF(), CCNMF(), OrthogonalNMF(), MultiplicativeNMF()],
    ids=repr,
)
def test_large_float32_numbers_give_the_factors_of_small_ones(model):
    rng = np.random.default_rng(1)
    X = rng.integers(1, 100, size=(30, 8)).astype(np.float32)
    unit = np.float32(2.0**121)  # the largest entry is then 2.6e38
    one, other = (
        clone(model).set_params(n_components=3, random_state=0).fit(table)
        for table in (X, X * unit)
    )
    np.testing.assert_array_equal(one.labels_, other.labels_)
    assert other.reconstruction_err_ == pytest.approx(
        one.reconstruction_err_ * float(unit), rel=1e-6
    )
    product = (
        other.embedding_.astype(np.float64) @ other.components_.astype(np.float64) / float(unit)
    )
    np.testing.assert_allclose(
        product, one.embedding_.astype(np.float64) @ one.components_, rtol=1e-4, atol=1e-3
    )


def test_cc_nmf_finds_the_rays_and_loadings_of_features_of_any_scale():
    rng = np.random.default_rng(2)
    X = rng.random((20, 6))
    scaled = X * np.array([1.0, 1e-162, 1e-100, 1.0, 1.0, 1e-200])
    # unit rays: the scales of the features do not enter stage 2
    model = CCNMF(2, weighting="unit", random_state=0)
    one, other = clone(model).fit(X), clone(model).fit(scaled)
    np.testing.assert_array_equal(other.ray_indices_, one.ray_indices_)
    np.testing.assert_allclose(other.loadings_, one.loadings_, rtol=1e-10)
    np.testing.assert_array_equal(other.predict(scaled), one.predict(X))


def test_what_floating_point_cannot_compare_is_refused_before_work_starts():
    X = np.random.default_rng(0).random((6, 4)) * np.array([1e-300, 1.0, 1.0, 1e300])
    for model in (HierarchicalNMF(2), CCNMF(2)):
        with pytest.raises(
            InvalidInputError,
            match=r"feature 0 of X is more than 1e300 times smaller than the largest entry of X",
        ):
            model.fit(X)


@pytest.mark.parametrize("method", [anls, hals, mu, pnmf, *SOLVERS.values()])
@pytest.mark.parametrize(
    ("scale", "dtype"),
    [(1e200, np.float64), (1e-200, np.float64), (1e30, np.float32), (1e-30, np.float32)],
)
def test_a_pure_factorization_refuses_squares_that_it_cannot_hold(method, scale, dtype):
    rng = np.random.default_rng(0)
    X = (rng.random((6, 5)) * scale).astype(dtype)
    W, H = (rng.random(shape).astype(dtype) for shape in ((6, 2), (2, 5)))
    with pytest.raises(
        InvalidInputError,
        match=r"the squares of X, whose largest entry is .*, leave the range of float",
    ):
        method(as_table(X), W, H)


def test_encodings_that_would_overflow_are_refused():
    model = HierarchicalNMF(2, random_state=0).fit(np.random.default_rng(0).random((8, 4)) * 1e-200)
    with pytest.raises(InvalidInputError, match="so much larger than the samples of `fit`"):
        model.transform(np.full((1, 4), 1e200))


def tall_tables():
    X = np.random.default_rng(0).random((60, 5))
    # two points inside
    X = np.hstack([X, X[:, :3] @ np.array([[1.0, 0.5], [1.0, 2.0], [0.0, 1.0]])])
    rest, faint = np.ones(7), np.zeros(7, bool)
    faint[[1, 4, 6]] = True
    return X, [
        np.where(faint, 1e-162, rest),
        np.where(faint, 1e-162, 1e150),
        np.where(faint, 1e-180, 1e150),
        np.where(faint, 1e-300, 1e8),
    ]


def test_samples_in_blocks_give_the_cone_of_columns_of_any_scale():
    X, scales = tall_tables()
    expected = Cone.from_samples([X[:30], X[30:]])
    for scale in scales:
        cone = Cone.from_samples([X[:30] * scale, X[30:] * scale])
        np.testing.assert_array_equal(cone.ray_indices, expected.ray_indices)
        assert not len(cone.zero_points)


def test_the_triangle_of_a_table_keeps_the_angles_of_columns_that_grow_from_block_to_block():
    X, _ = tall_tables()
    grown = np.vstack(
        [X[:20] * 1e-250, X[20:40] * np.where(np.arange(7) < 3, 1e-250, 1e250), X[40:]]
    )
    R = triangular_of([grown[:20], grown[20:40], grown[40:]])
    lengths = np.linalg.norm(R, axis=0)
    unit = grown / grown.max(axis=0)
    unit /= np.linalg.norm(unit, axis=0)
    np.testing.assert_allclose((R / lengths).T @ (R / lengths), unit.T @ unit, atol=1e-14)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_table_in_blocks_measures_columns_of_any_scale(axis):
    X = np.random.default_rng(0).random((9, 5)) * np.array([1.0, 1e-162, 1e-250, 1e100, 0.0])
    for store in (np.asarray, sp.csr_array):
        survey = as_table(open_table(store(X), block_size=3)).along(axis).survey
        np.testing.assert_allclose(
            survey.lengths,
            [np.linalg.norm(c / c.max()) * c.max() if c.any() else 0.0 for c in X.T],
            rtol=1e-14,
        )
        np.testing.assert_array_equal(survey.peaks, X.max(axis=0))


@cache
def whole_numbers():
    rng = np.random.default_rng(0)
    blobs = make_blobs(120, 12, centers=5, cluster_std=3.0, random_state=0)[0]
    kinds = rng.integers(5, size=120)
    counts = rng.poisson(0.06, size=(120, 90)) + rng.poisson(
        1.5 * (rng.random((5, 90)) < 0.08)[kinds]
    )
    counts[counts.sum(axis=1) == 0, 0] = 1
    return {
        "digits": load_digits().data[:180].astype(np.uint8),
        "blobs": np.rint((blobs - blobs.min()) * 5).astype(np.uint8),
        "planted": (rng.poisson(3 * rng.gamma(0.3, size=(5, 40))[kinds]) + 1).astype(np.uint8),
        "counts": counts.astype(np.uint8),
    }


CHOOSING = [
    CCNMF(),
    CCNMF(solver="mu"),
    CCNMF(max_rays=12),
    OrthogonalNMF(),
    OrthogonalNMF(init="random"),
    OrthogonalNMF(solver="mu", n_init=3),
    GraphCCNMF(),
    CCNMF(affinity=affinity.KNN(metric="cosine")),
    CCNMF(affinity=affinity.Diffusion(metric="cosine")),
    HierarchicalNMF(init="random", n_init=3),
    AlternatingNMF(),
]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["digits", "blobs", "planted", "counts"])
@pytest.mark.parametrize("model", CHOOSING, ids=repr)
def test_the_same_whole_numbers_give_the_same_clusters_in_any_type_and_order(model, name):
    X = whole_numbers()[name]
    model = clone(model).set_params(n_components=5, random_state=0, max_iter=50)
    expected = clone(model).fit(X.astype(np.float64))
    for table in (X.astype(np.float32), X, np.asfortranarray(X.astype(np.float64))):
        fitted = clone(model).fit(table)
        np.testing.assert_array_equal(fitted.labels_, expected.labels_)
        np.testing.assert_array_equal(fitted.predict(table), expected.predict(X.astype(np.float64)))
    stored = clone(model).fit(sp.csr_array(X.astype(np.float64)))
    np.testing.assert_array_equal(
        clone(model).fit(sp.csc_array(X.astype(np.float32))).labels_, stored.labels_
    )


@pytest.mark.parametrize("model", each([CCNMF(), OrthogonalNMF(), GraphCCNMF()]))
def test_sparse_and_dense_storage_of_the_same_numbers_give_the_same_clusters(model):
    for name, X in whole_numbers().items():
        model = clone(model).set_params(n_components=5, random_state=0)
        np.testing.assert_array_equal(
            model.fit_predict(X), model.fit_predict(sp.csr_array(X)), err_msg=name
        )


def test_a_table_in_blocks_has_the_same_clusters_in_float32_and_float64():
    X = whole_numbers()["digits"]
    models = [
        CCNMF(5, cone_tol=1e-6, random_state=0).fit(open_table(X.astype(kind), block_size=40))
        for kind in (np.float32, np.float64)
    ]
    np.testing.assert_array_equal(*(model.labels_ for model in models))
    assert models[0].components_.dtype == np.float32


def test_of_starts_that_end_alike_the_first_is_taken():
    X = as_table(np.ones((4, 3)))

    def chosen(objectives):
        """The number of the start that is kept when the runs end with these objectives."""
        ends = iter(enumerate(objectives))

        def run(_, W, H):
            k, objective = next(ends)
            return Factorization(
                W, H, objective, np.array([objective]), True, str(k), 100.0, objective
            )

        return int(
            best_of_starts(
                run, X, Starts(2, "random", len(objectives), np.random.default_rng(0))
            ).status
        )

    # rounding and the place where a run stopped decide nothing
    assert chosen([1.0, 1.0 - 1e-9, 1.0 + 1e-9]) == 0
    assert chosen([1.0 + 1e-9, 1.0, 1.0 - 1e-9]) == 0
    assert chosen([1.1, 1.0 + 1e-9, 1.0]) == 1
    assert chosen([1.1, 1.0, 0.9]) == 2
    assert chosen([0.0, 0.0]) == 0


def test_a_component_that_fits_nothing_is_given_back_in_balance():
    X = np.outer([1.0, 2.0, 3.0, 1.0], [1e10, 2.0, 3.0])
    W, H = initialize(X, 2, "nndsvda", np.random.default_rng(0))
    W[:, 1], H[1] = 1e-30, 1e30
    found = hals(X, W, H, tol=0, max_iter=5)
    w, h = np.linalg.norm(found.W, axis=0), np.linalg.norm(found.H, axis=1)
    assert (np.finfo(float).eps * np.maximum(w, h) <= np.minimum(w, h)).all()
    np.testing.assert_allclose(found.W @ found.H, X, atol=1e-9 * X.max())


ON_SAMPLES = [
    HierarchicalNMF(affinity="knn"),
    HierarchicalNMF(affinity="diffusion"),
    OrthogonalNMF(affinity=affinity.KNN(metric="cosine")),
    OrthogonalNMF(affinity="diffusion", solver="mu"),
    CCNMF(affinity="knn"),
    CCNMF(affinity="diffusion"),
    GraphCCNMF(),
    CCNMF(),
    HierarchicalNMF(),
    MultiplicativeNMF(loss="kullback-leibler"),
]


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("model", each(ON_SAMPLES))
def test_samples_of_zeros_get_no_cluster(model, store):
    rng = np.random.default_rng(0)
    filled = np.kron(np.eye(3), np.ones((12, 8))) * rng.integers(1, 9, size=(36, 24)) + (
        rng.random((36, 24)) < 0.05
    )
    empty = np.array([0, 7, 36])
    X = np.insert(filled, [0, 6, 34], 0.0, axis=0)
    assert not X[empty].any()
    others = np.setdiff1d(np.arange(39), empty)
    # copies by `clone` warn once for all
    model = type(model)(**model.get_params(deep=False)).set_params(n_components=3, random_state=0)
    without = clone(model).fit(store(filled))
    with pytest.warns(
        EmptyDataWarning,
        match=r"samples 0, 7, 36 of X hold only zeros.*label -1, which means no cluster",
    ):
        model.fit(store(X))
    np.testing.assert_array_equal(model.labels_[empty], -1)
    assert not model.embedding_[empty].any()
    # where samples are compared with each other, those of zeros have no say at all
    if model.affinity or isinstance(model, GraphCCNMF):
        np.testing.assert_array_equal(model.labels_[others], without.labels_)
        np.testing.assert_allclose(model.embedding_[others], without.embedding_)
    if model.affinity:
        assert model.components_.shape == (3, 39)
        assert not model.components_[:, empty].any()
    if isinstance(model, CCNMF) and model.affinity:
        assert not np.isin(model.ray_indices_, empty).any()
        assert model.coefficients_.shape == (len(model.ray_indices_), 39)
    assert np.isfinite(model.profiles_).all()
    with pytest.warns(EmptyDataWarning, match=r"samples 0, 7, 36 of X hold only zeros.*label -1"):
        np.testing.assert_array_equal(model.predict(store(X))[empty], -1)
    assert not model.transform(store(X))[empty].any()
    assert model.score(store(X)) == pytest.approx(model.score(store(X[others])))
    with pytest.warns(EmptyDataWarning, match="sample 0 of X holds only zeros"):
        assert model.predict(store(np.zeros((1, 24)))).tolist() == [-1]


def test_no_sample_is_a_neighbour_of_one_that_holds_nothing():
    rng = np.random.default_rng(0)
    # samples with little in common are further from each other than from zero
    X = (rng.random((40, 60)) < 0.05) * 1.0
    X[np.arange(40), np.arange(40)] += 1
    X = np.vstack([X, np.zeros((3, 60))])
    model = OrthogonalNMF(2, affinity=affinity.KNN(metric="cosine"), random_state=0)
    with pytest.warns(EmptyDataWarning, match="samples 40, 41, 42"):
        labels = model.fit_predict(X)
    np.testing.assert_array_equal(labels, [*model.fit_predict(X[:40]), -1, -1, -1])


def test_the_report_says_which_samples_have_no_cluster():
    X = np.kron(np.eye(3), np.ones((8, 4))) + 0.1 * np.random.default_rng(0).random((24, 12))
    X[5] = 0.0
    with pytest.warns(EmptyDataWarning, match="sample 5"):
        run = cluster(read_table(X), 3, target=np.repeat(["a", "b", "c"], 8))
    found = contents(run)
    assert "1 belongs to none because the encoding is zero" in found.sentences[0]
    parts = {
        part.kind: part
        for part in found.all_parts()
        if part.kind == "cards" or getattr(part, "name", "") == "samples"
    }
    assert [row[1] for row in parts["table"].rows].count("none") == 1
    assert sum(int(card.texts[0].split()[0]) for card in parts["cards"].cards) == 23
    assert "no cluster" in [trace.name for trace in found.picture.figure.data]


def test_a_start_from_labels_or_factors_leaves_samples_of_zeros_out():
    rng = np.random.default_rng(0)
    X = rng.random((12, 5))
    X[4] = 0.0
    labels = np.arange(12) % 2
    for init in (labels, (rng.random((12, 2)), rng.random((2, 12)))):
        with pytest.warns(EmptyDataWarning, match="sample 4"):
            model = HierarchicalNMF(2, affinity=affinity.KNN(3), init=init, max_iter=5).fit(X)
        assert model.labels_[4] == -1


@pytest.mark.parametrize("scale", [1e-308, 1e-310, 1e-320])
def test_sparse_tables_of_the_smallest_numbers(scale):
    """SciPy divides a sparse array by multiplying with the inverse, which overflows here."""
    X = sp.csr_array(np.kron(np.eye(2), np.ones((5, 3))) * scale)
    assert np.isfinite(HierarchicalNMF(2, random_state=0).fit(X).components_).all()
    assert CCNMF(2, random_state=0).fit_predict(X).tolist() in (
        [0] * 5 + [1] * 5,
        [1] * 5 + [0] * 5,
    )
