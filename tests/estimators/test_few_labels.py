"""A few labels, and pairs of samples: kept in the result, used for the rest, refused where they
contradict each other."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from joblib import parallel_config
from sklearn.base import clone
from sklearn.linear_model import Ridge as LinearRidge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from conecollapse import (
    CCNMF,
    GraphCCNMF,
    HierarchicalNMF,
    InvalidInputError,
    OrthogonalNMF,
    affinity,
)
from conecollapse.estimators._labels import Names, read_labels, read_pairs
from conecollapse.factorization.orthogonal.clamped import ClampedClusters
from conecollapse.factorization.orthogonal.constraints import constrained
from conecollapse.factorization.orthogonal.evidence import Seeds, probabilities, ridge, sharpness
from conecollapse.io import open_table
from conecollapse.tables import as_table

MODELS = [GraphCCNMF(3, random_state=0), CCNMF(3, random_state=0), OrthogonalNMF(3, random_state=0)]
each = pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)


def overlapping(seed=0, n=90, r=3, spread=1.0):
    """Samples of r classes, each with a profile of its own and noise."""
    rng = np.random.default_rng(seed)
    profiles, y = rng.gamma(0.5, size=(r, 20)), np.arange(n) % r
    return profiles[y] * rng.gamma(1 / spread, spread, size=(n, 20)) + 0.01, y


def some(y, count, seed=0):
    rng, known = np.random.default_rng(seed), np.full(len(y), -1)
    for k in np.unique(y):
        known[rng.permutation(np.flatnonzero(y == k))[:count]] = k
    return known


@each
def test_given_labels_are_kept_and_the_rest_is_found(model):
    right = []
    for seed in range(20):
        X, y = overlapping(seed)
        wrong = some(y, 3, seed)
        # a label against the data is kept too
        wrong[np.flatnonzero(wrong < 0)[0]] = (y[np.flatnonzero(wrong < 0)[0]] + 1) % 3
        fitted = clone(model).fit(X, wrong)
        known = wrong >= 0
        np.testing.assert_array_equal(fitted.labels_[known], wrong[known])
        np.testing.assert_array_equal(fitted.predict(X)[known], wrong[known])
        right.append((fitted.labels_[~known] == y[~known]).mean())
    assert np.mean(right) > 0.85
    np.testing.assert_array_equal(fitted.classes_, [0, 1, 2])
    np.testing.assert_allclose(fitted.label_distributions_.sum(axis=1), 1)
    np.testing.assert_array_equal(fitted.label_distributions_[known].argmax(axis=1), wrong[known])
    assert fitted.orthogonality_ < 1e-6


@each
def test_new_samples_get_classes(model):
    X, y = overlapping(1, 150)
    names = np.array(["ape", "bee", "cat"])
    known = np.where(some(y[:100], 3) >= 0, names[y[:100]], "")
    fitted = clone(model).fit(X[:100], known)
    assert fitted.classes_.tolist() == names.tolist()
    assert (fitted.predict(X[100:]) == names[y[100:]]).mean() > 0.85
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))


@each
def test_labels_in_any_form_say_the_same(model):
    X, y = overlapping(2, 45)
    known = some(y, 2)
    first = clone(model).fit(X, known).labels_
    floats = np.where(known < 0, np.nan, known)
    text = [None if k < 0 else f"c{k}" for k in known]
    for form in (known.tolist(), pd.Series(floats), known[:, None]):
        np.testing.assert_array_equal(clone(model).fit(X, form).labels_, first)
    for form in (
        pd.Categorical(text),
        pd.array(text, "string"),
        np.array([-1 if t is None else t for t in text]),
    ):
        np.testing.assert_array_equal(clone(model).fit(X, form).labels_, [f"c{k}" for k in first])


@each
def test_nothing_known_is_as_no_y(model):
    X, _ = overlapping(3, 40)
    plain = clone(model).fit(X)
    for y in (np.full(40, -1), np.full(40, np.nan), [None] * 40, [""] * 40, np.linspace(0, 1, 40)):
        fitted = clone(model).fit(X, y, must_link=[], cannot_link=np.zeros((0, 2)))
        np.testing.assert_array_equal(fitted.embedding_, plain.embedding_)
        np.testing.assert_array_equal(fitted.components_, plain.components_)
        assert not hasattr(fitted, "classes_")


def test_a_second_fit_without_labels_forgets_them():
    X, y = overlapping(3, 40)
    model = CCNMF(3, random_state=0).fit(X, some(y, 2))
    plain = CCNMF(3, random_state=0).fit(X)
    model.fit(X)
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))
    assert not hasattr(model, "classes_")
    assert not hasattr(model, "label_distributions_")


@each
def test_more_clusters_than_classes(model):
    X, y = overlapping(4, 120, 4, 0.2)
    known = some(y, 4)
    known[known == 3] = -1
    fitted = clone(model).set_params(n_components=4).fit(X, known)
    assert fitted.cluster_labels_.tolist() == [0, 1, 2, 3]
    assert (fitted.labels_ == y).mean() > 0.9  # the class that no label names is found as cluster 3
    words = (
        clone(model).set_params(n_components=4).fit(X, [None if k < 0 else f"c{k}" for k in known])
    )
    assert words.cluster_labels_.tolist() == ["c0", "c1", "c2", "cluster 4"]


def test_names_of_further_clusters_are_new():
    assert Names.of(np.array(["cluster 3", "cluster 4"]), 4).clusters.tolist() == [
        "cluster 3",
        "cluster 4",
        "cluster 5",
        "cluster 6",
    ]
    # -1 means no cluster
    assert Names.of(np.array([-3, -2]), 4).clusters.tolist() == [-3, -2, 0, 1]
    assert Names.of(np.array([2, 7]), 4).clusters.tolist() == [2, 7, 8, 9]
    # there is no room after the largest
    assert Names.of(np.array([0, 2**63 - 2]), 4).clusters.tolist() == [0, 2**63 - 2, 1, 2]
    assert Names.of(np.array([1.0, 1e300]), 4).clusters.tolist() == [1.0, 1e300, 0.0, 2.0]
    assert Names.of(np.array([2.0, 7.0]), 3)(np.array([2, -1, 0])).tolist() == [8.0, -1.0, 2.0]


@each
def test_pairs_are_kept(model):
    X, _ = overlapping(5, 60)
    together, apart = [(0, 1), (1, 5), (7, 8)], [(0, 3), (5, 6), (3, 6), (9, 12)]
    fitted = clone(model).fit(X, must_link=together, cannot_link=apart)
    labels = fitted.labels_
    assert all(labels[i] == labels[j] for i, j in together)
    assert all(labels[i] != labels[j] for i, j in apart)
    known = np.full(60, -1)
    known[[0, 10, 20]] = [0, 1, 2]
    labels = clone(model).fit(X, known, must_link=together, cannot_link=apart).labels_
    # a label reaches all that must be with its sample
    assert labels[0] == labels[1] == labels[5] == 0
    assert all(labels[i] != labels[j] for i, j in apart)
    assert labels[7] == labels[8]


@pytest.mark.parametrize("table", [sp.csr_array, lambda X: X.astype(np.float32), pd.DataFrame])
@each
def test_every_table(model, table):
    X, y = overlapping(6, 60, spread=0.3)
    X[np.median(X) > X] = 0
    X = X[:, X.any(axis=0)]
    known = some(y, 3)
    fitted = clone(model).fit(table(X), known)
    assert (fitted.labels_ == y).mean() > 0.85
    assert (fitted.predict(table(X)) == fitted.labels_).mean() > 0.95


def test_on_a_graph_of_neighbours_and_on_a_file(tmp_path):
    X, y = overlapping(7, 60, spread=0.3)
    known = some(y, 3)
    model = CCNMF(3, affinity=affinity.KNN(5), random_state=0).fit(X, known)
    assert (model.labels_ == y).mean() > 0.9
    np.save(tmp_path / "X.npy", X)
    for model in (CCNMF(3, random_state=0), GraphCCNMF(3, random_state=0)):
        labels = clone(model).fit(X, known).labels_
        np.testing.assert_array_equal(
            clone(model).fit(open_table(tmp_path / "X.npy"), known).labels_, labels
        )


def test_samples_of_zeros_and_copies():
    X, y = overlapping(8, 60, spread=0.3)
    X[4] = 0
    X[10] = X[20]
    known = some(y, 3)
    known[[10, 20]] = [1, 2]
    for model in MODELS:
        with pytest.warns(match="only zeros"):
            fitted = clone(model).fit(X, [None if k < 0 else f"c{k}" for k in known])
        assert fitted.labels_[[10, 20]].tolist() == ["c1", "c2"]
        assert fitted.labels_[4] == ("" if known[4] < 0 else f"c{known[4]}")
        assert fitted.label_distributions_.shape == (60, 3)


@each
def test_a_labelled_sample_of_zeros_keeps_its_label_and_others_have_no_cluster(model):
    X, y = overlapping(8, 60, spread=0.3)
    X[[0, 4]] = 0
    known = some(y, 3)
    known[[0, 4]] = [2, -1]
    for labels, none in ((known, -1), (np.where(known < 0, "", known.astype(str)), "")):
        with pytest.warns(
            match=(
                r'zero encodings and without a cluster \(-1, or "" beside strings\) unless y labels'
                r" them"
            )
        ):
            fitted = type(model)(3, random_state=0).fit(X, labels)
        assert fitted.labels_[[0, 4]].tolist() == [labels[0], none]
        np.testing.assert_array_equal(fitted.label_distributions_[[0, 4]], [[0, 0, 1], [0, 0, 0]])
        with pytest.warns(match=f"zero encodings and the label {none!r}, which means no cluster"):
            assert fitted.predict(X)[[0, 4]].tolist() == [none, none]
    with (
        pytest.warns(match="zeros"),
        pytest.raises(
            InvalidInputError, match="must_link has sample 4 in pair 1, which holds only zeros"
        ),
    ):
        type(model)(3, random_state=0).fit(X, must_link=[(1, 2), (3, 4)])
    with (
        pytest.warns(match="zeros"),
        pytest.raises(
            InvalidInputError, match="cannot_link has sample 0 in pair 0, which holds only zeros"
        ),
    ):
        type(model)(3, random_state=0).fit(X, known, cannot_link=[(0, 1)])


@pytest.mark.parametrize(
    ("y", "labels", "classes"),
    [
        ([True, False, True], [1, 0, 1], [0, 1]),
        (pd.array([True, None, False], "boolean"), [1, -1, 0], [0, 1]),
        (pd.Series([7, None, 5], dtype="Int64"), [1, -1, 0], [5, 7]),
        ([7, None, 5], [1, -1, 0], [5, 7]),
        (["b", float("nan"), "a"], [1, -1, 0], ["a", "b"]),
        (pd.array(["b", None, "-1"], "string"), [0, -1, -1], ["b"]),
        (np.array([3, 2**63 - 1], np.uint64), [0, 1], [3, 2**63 - 1]),
    ],
)
def test_classes_keep_their_kind(y, labels, classes):
    found, named = read_labels(y, len(y))
    assert found.tolist() == labels
    assert named.tolist() == classes
    assert named.dtype == (object if isinstance(classes[0], str) else np.int64)


@pytest.mark.parametrize("y", [[0, np.inf, 1], np.array([0, 2**63, 1], np.uint64)])
def test_labels_that_are_no_whole_numbers_of_64_bits_are_refused(y):
    with pytest.raises(
        InvalidInputError,
        match=r"y has the label .* for sample 1; use smaller numbers, or -1 if it is unknown",
    ):
        read_labels(y, 3)


@pytest.mark.parametrize(
    "pairs",
    [
        {(0, 3)},
        [frozenset((0, 3))],
        zip([0], [3], strict=True),
        np.array([[0, 3]]),
        pd.DataFrame([[0, 3]]),
    ],
)
def test_pairs_in_any_form_say_the_same(pairs):
    np.testing.assert_array_equal(
        np.sort(read_pairs(pairs, "must_link", np.ones(4, bool))), [[0, 3]]
    )


BAD = [
    ({"y": [0, 1]}, "y has 2 labels for 12 samples; give one for each, -1 where it is unknown"),
    ({"y": np.zeros((12, 2))}, r"y has shape \(12, 2\); give one label for each sample"),
    (
        {"y": [0] + [-1] * 11},
        "y names only one class, 0; label samples of at least two classes, or leave y out",
    ),
    (
        {"y": [0, 1, 2, 3] + [-1] * 8},
        "y names 4 classes, more than n_components = 3; set n_components=4 or more",
    ),
    ({"y": ["a", 1] + [None] * 10}, "y mixes labels of the types int, str; use one type"),
    (
        {"must_link": [(0, 1)], "cannot_link": [(1, 0)]},
        "samples 1 and 0 are in must_link and in cannot_link; drop one of the two pairs",
    ),
    (
        {"must_link": [(0, 1), (1, 2)], "cannot_link": [(0, 2)]},
        (
            "cannot_link keeps samples 0 and 2 apart, but must_link joins them in several steps;"
            " drop one of these pairs"
        ),
    ),
    ({"cannot_link": [(3, 3)]}, "cannot_link keeps sample 3 apart from itself; drop this pair"),
    (
        {"y": list("ab") + [""] * 10, "must_link": [(0, 5), (5, 1)]},
        (
            "must_link puts samples 0 and 1 into one cluster, but y gives them the labels a and b;"
            " drop the pair or a label"
        ),
    ),
    (
        {"y": [0, 0, 1] + [-1] * 9, "must_link": [(1, 7)], "cannot_link": [(0, 7)]},
        (
            "cannot_link keeps samples 0 and 7 apart, but y gives them the same label; drop the"
            " pair or a label"
        ),
    ),
    (
        {"must_link": [(0, 12)]},
        "must_link has sample 12 in pair 0, but the samples are numbered from 0 to 11",
    ),
    ({"cannot_link": [(0, 1), (-1, 2)]}, "cannot_link has sample -1 in pair 1"),
    ({"must_link": [0, 1]}, "must_link must be a list of pairs of sample numbers"),
    ({"must_link": [(0.5, 1)]}, "must_link must be a list of pairs of sample numbers"),
    (
        {"cannot_link": [(i, j) for i in range(4) for j in range(i)]},
        (
            "no cluster is left for sample 3: cannot_link keeps it apart from samples of all"
            " n_components = 3 clusters; ask for more"
        ),
    ),
]


@each
@pytest.mark.parametrize(("hints", "message"), BAD)
def test_bad_hints(model, hints, message):
    X = np.random.default_rng(0).random((12, 5))
    with pytest.raises(InvalidInputError, match=message):
        clone(model).fit(X, **hints)


def test_more_refusals():
    X = np.random.default_rng(0).random((12, 5))
    y = [0, 1] + [-1] * 10
    with pytest.raises(
        InvalidInputError, match="labels and pairs of samples need solver='em'; got 'mu'"
    ):
        OrthogonalNMF(2, solver="mu").fit(X, y)
    X[0] = 0
    with (
        pytest.warns(match="only zeros"),
        pytest.raises(InvalidInputError, match="all samples labelled 0 are zero everywhere; label"),
    ):
        CCNMF(2).fit(X, y)
    X[0] = 1
    X[1] = X[2]
    with pytest.raises(
        InvalidInputError,
        match="cannot_link keeps samples 1 and 2 apart, but they are identical; drop this pair",
    ):
        GraphCCNMF(2).fit(X, cannot_link=[(1, 2)])


def test_a_y_for_another_step_of_a_pipeline(monkeypatch):
    monkeypatch.setattr("conecollapse.estimators._labels._has_warned", False)
    X, y = overlapping(9, 40)
    plain = CCNMF(2, random_state=0).fit(X)
    with pytest.warns(
        UserWarning,
        match="y labels every sample, with 3 classes, more than n_components = 2, so it is ignored",
    ) as caught:
        fitted = CCNMF(2, random_state=0).fit(X, y)
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(fitted.embedding_, plain.embedding_)
    np.testing.assert_array_equal(
        make_pipeline(CCNMF(2, random_state=0), LinearRidge()).fit(X, X[:, 0])[0].embedding_,
        plain.embedding_,
    )
    np.testing.assert_array_equal(
        HierarchicalNMF(2, random_state=0).fit(X, y).labels_,
        HierarchicalNMF(2, random_state=0).fit(X).labels_,
    )
    # with enough clusters it is used
    assert (CCNMF(3, random_state=0).fit_predict(X, y) == y).all()


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_y_that_labels_every_sample_is_one_warning_a_process(monkeypatch, n_jobs):
    monkeypatch.setattr("conecollapse.estimators._labels._has_warned", False)
    X, y = overlapping(9, 40)
    search = GridSearchCV(
        CCNMF(random_state=0), {"n_components": [1, 2]}, cv=2, n_jobs=n_jobs, scoring=lambda *_: 0.0
    )
    with warnings.catch_warnings(record=True) as caught, parallel_config("threading"):
        warnings.simplefilter("always")
        for _ in range(2):
            search.fit(X, y)
            GraphCCNMF(2, random_state=0).fit(X, y)
    assert [str(one.message)[:21] for one in caught] == ["y labels every sample"]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), weight=st.booleans())
def test_the_objective_never_rises_and_constraints_hold(seed, weight):
    rng = np.random.default_rng(seed)
    n, r = 20, 3
    X = as_table(rng.gamma(0.5, size=(n, 6)) + 1e-3)
    labels = np.full(n, -1)
    labels[:4] = [0, 1, 2, 0]
    must, cannot = rng.permutation(np.arange(4, n))[:6].reshape(3, 2), np.array([[0, 5], [1, 6]])
    try:
        known = constrained(labels, must, cannot)
    except InvalidInputError:
        return
    evidence = rng.dirichlet(np.ones(r), n) if weight else None
    run = ClampedClusters(as_table(X), known, evidence, tol=0.0, max_iter=40)
    found = run.best_of([rng.integers(r, size=n)], r)
    assert (np.diff(found.history) <= 1e-12 * X.squared_norm).all()
    clusters = found.W.argmax(axis=1)
    placed = found.W.any(axis=1)
    assert (clusters == known.labels)[placed & (known.labels >= 0)].all()
    assert all(clusters[i] == clusters[j] for i, j in must if placed[i] and placed[j])
    assert all(clusters[i] != clusters[j] for i, j in cannot if placed[i] and placed[j])
    np.testing.assert_allclose(found.error, np.square(X.array - found.W @ found.H).sum(), rtol=1e-8)


@pytest.mark.parametrize("count", [1, 3])
def test_ridge_in_gram_form_is_ridge_on_unit_rows_that_are_centred_at_all_or_at_several_labels(
    count,
):
    X, y = overlapping(10, 40, spread=2.0)
    seeds = Seeds.of(some(y, count))
    rows, L = X / np.linalg.norm(X, axis=1, keepdims=True), seeds.index
    rows = rows - (rows if count == 1 else rows[L]).mean(axis=0)
    strength = 0.1 * np.square(rows[L]).sum(axis=1).mean()
    peer = LinearRidge(alpha=strength, fit_intercept=False).fit(rows[L], seeds.indicator - 1 / 3)
    scores = ridge(as_table(X), seeds).scores(as_table(X))
    np.testing.assert_allclose(scores, rows @ peer.coef_.T, atol=1e-10)


@each
def test_a_wrong_label_does_not_move_clear_clusters(model):
    X, y = overlapping(11, 90, spread=0.05)
    plain = clone(model).fit(X)
    assert len({*zip(plain.labels_, y, strict=True)}) == 3
    known = some(y, 3)
    odd = np.flatnonzero(known < 0)[:1]
    known[odd] = (y[odd] + 1) % 3
    fitted = clone(model).fit(X, known)
    np.testing.assert_array_equal(fitted.labels_, np.where(known >= 0, known, y))


@pytest.mark.parametrize("seed", range(3))
def test_more_clusters_than_classes_are_never_empty(seed):
    X, y = overlapping(seed, 40, 2, 0.3)
    # the whole class has labels, so its second cluster loses all samples
    known = np.where(y == 0, 0, -1)
    known[np.flatnonzero(y == 1)[:2]] = 1
    model = OrthogonalNMF(5, random_state=0).fit(X, known)
    assert np.bincount(model.embedding_.argmax(axis=1), minlength=5).min() > 0
    assert model.orthogonality_ < 1e-6


def test_sharpening_gives_the_same_mean_confidence():
    scores = np.random.default_rng(0).normal(size=(200, 5))
    for scale in (1e-3, 1.0, 1e3):
        assert probabilities(sharpness(scale * scores) * scale * scores).max(
            axis=1
        ).mean() == pytest.approx(0.7, abs=1e-3)
    assert np.isfinite(probabilities(sharpness(np.ones((4, 3))) * np.ones((4, 3)))).all()


@pytest.mark.parametrize("model", [CCNMF, GraphCCNMF, OrthogonalNMF])
def test_what_is_learned_from_labels_is_no_parameter(model):
    assert [name for name in model().get_params() if name.startswith("_")] == []


@pytest.mark.parametrize("kind", [list, np.array, pd.Series, pd.Categorical])
@pytest.mark.parametrize("model", [GraphCCNMF, CCNMF, OrthogonalNMF])
def test_a_word_for_unknown_is_no_class(model, kind):
    X, y = overlapping()
    words = np.array([f"type {k}" for k in y], object)
    known = some(y, 4) != -1
    wanted = model(3, random_state=0).fit(X, np.where(known, words, None))
    fitted = model(3, unlabeled="unknown", random_state=0)
    fitted.fit(X, kind(np.where(known, words, "unknown").tolist()))
    assert fitted.classes_.tolist() == ["type 0", "type 1", "type 2"]
    np.testing.assert_array_equal(fitted.labels_, wanted.labels_)
    assert clone(fitted).unlabeled == "unknown"


def test_a_number_for_unknown_is_no_class():
    labels, classes = read_labels([9, 1, -1, 2, 9], 5, unlabeled=9)
    assert labels.tolist() == [-1, 0, -1, 1, -1]
    assert classes.tolist() == [1, 2]
    with pytest.raises(InvalidInputError, match=r"unlabeled must be a word or a number; got \["):
        OrthogonalNMF(2, unlabeled=["unknown"]).fit(np.eye(3), [0, 1, -1])
