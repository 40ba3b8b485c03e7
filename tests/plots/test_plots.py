"""Figures say what the numbers say, hold no markup from data, and refuse what they cannot draw."""

from __future__ import annotations

import json

import numpy as np
import plotly.graph_objects as go
import pytest
import scipy.sparse as sp

from conecollapse import CCNMF, Cone, InvalidInputError, collapse, plots, select_rank
from conecollapse.datasets import make_topics
from conecollapse.plots.clusters import distances, memberships
from conecollapse.plots.curves import outlier_fence

EVIL = '<script>alert("x")</script>'


@pytest.fixture(scope="module")
def fitted():
    data = make_topics(60, 40, 4, random_state=0)
    X = data.X.toarray() if sp.issparse(data.X) else data.X
    X = X[:, X.any(axis=0)]
    return CCNMF(4, random_state=0).fit(X), X


def on_the_slice(rays):
    """Where rays meet the plane x + y + z = 1, in the coordinates of the figure."""
    return rays / rays.sum(axis=1, keepdims=True) @ np.array([[0, 0], [1, 0], [0.5, np.sqrt(0.75)]])


def all_figures(model, X, names, features, target):
    P, kept, axes = plots.shadow(X, model.labels_)
    few = Cone.approximate(X.T, max_residual=0.2)
    return {
        "map": plots.cluster_map(model, X, names=names, target=target),
        "heat": plots.heat_map(model, X, names=names, feature_names=features),
        "bars": plots.top_features(model, 1, 5, feature_names=features),
        "images": plots.images(X[:5, :24], (4, 6), titles=names[:5]),
        "confusion": plots.confusion(target, model.labels_),
        "cone": plots.cone(P, names=features[kept], axes=axes),
        "collapse": plots.collapse_animation(P, collapse(P), names=features[kept], axes=axes),
        "convergence": plots.convergence(model),
        "path": plots.epsilon_path(few),
        "residuals": plots.residuals(model, X),
        "shares": plots.shares(memberships(model, X), X[:, :2], names=names, titles=names[:4]),
    }


def test_every_figure_is_drawn_and_holds_no_markup_from_data(fitted):
    model, X = fitted
    names = np.array([f"{EVIL} {i}" for i in range(len(X))])
    features = np.array([f"<b>{j}</b>" for j in range(X.shape[1])])
    target = np.array([EVIL, "<i>b</i>", "c"])[np.arange(len(X)) % 3]
    for name, figure in all_figures(model, X, names, features, target).items():
        assert isinstance(figure, go.Figure), name
        text = figure.to_json()
        assert json.loads(text)["data"]
        assert "script>" not in text.replace("&lt;script&gt;", ""), name
        assert "\\u003cb\\u003e" not in text, name  # how plotly writes <b>
        assert "<b>" not in text, name


def test_sparse_tables_give_the_same_figures(fitted):
    model, X = fitted
    for make in (plots.cluster_map, plots.heat_map, plots.residuals):
        for one, two in zip(make(model, X).data, make(model, sp.csr_array(X)).data, strict=True):
            for key in ("x", "y", "z"):
                if getattr(one, key, None) is not None:
                    # the heat map rounds to three digits
                    np.testing.assert_allclose(one[key], two[key], atol=2e-3)


def test_shares_are_drawn_on_an_embedding_with_one_scale():
    values, place = np.array([[0.1, 0.9], [0.5, 0.5], [1.0, 0.0]]), np.arange(9.0).reshape(3, 3)
    figure = plots.shares(values, place, titles=["a", "b"])
    assert len(figure.data) == 2
    for k, trace in enumerate(figure.data):
        np.testing.assert_allclose(trace.marker.color, values[:, k], rtol=1e-6)
        np.testing.assert_allclose(np.column_stack([trace.x, trace.y]), place[:, :2])
        assert trace.marker.coloraxis == "coloraxis"
    assert (figure.layout.coloraxis.cmin, figure.layout.coloraxis.cmax) == (0, 1)
    assert [note.text for note in figure.layout.annotations] == ["a", "b"]
    with pytest.raises(InvalidInputError, match="titles has 1 entries, and there are 2 components"):
        plots.shares(values, place, titles=["a"])
    with pytest.raises(
        InvalidInputError, match="expected two finite numbers for each of the 3 samples"
    ):
        plots.shares(values, place[:2])


def test_shares_and_distances(fitted):
    model, X = fitted
    shares = memberships(model, X)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert (shares.argmax(axis=1) == model.labels_).mean() > 0.9
    far = distances(X, model.labels_, model.profiles_)
    assert ((far >= 0) & (far <= 1)).all()
    i, own = 3, model.profiles_[model.labels_[3]]
    angle = np.arccos(X[i] @ own / np.linalg.norm(X[i]) / np.linalg.norm(own))
    assert far[i] == pytest.approx(np.sin(angle))
    # scale does not matter
    np.testing.assert_allclose(distances(7 * X, model.labels_, model.profiles_), far, atol=1e-12)


def test_the_shadow_of_the_cone_is_the_cone_of_the_shadow():
    rng = np.random.default_rng(1)
    X = rng.random((12, 9)) @ rng.random((9, 50))
    labels = np.arange(12) % 5  # more than three: joined
    P, kept, axes = plots.shadow(X, labels)
    assert P.shape == (len(kept), 3) == (50, 3)
    assert len(axes) == 3
    rays = Cone.from_points(X.T).ray_indices
    # shadows of the rays generate all shadows
    assert Cone.from_points(P[np.isin(kept, rays)]).contains(P, tol=1e-7).all()
    for count in (1, 2):
        P, _, axes = plots.shadow(X, np.arange(12) % count)
        assert P.shape[1] == len(set(axes)) == 3


def test_the_shadow_of_many_features_keeps_its_rays():
    rng = np.random.default_rng(2)
    X = rng.random((9, 2000)) ** 4
    labels = np.arange(9) % 3
    P, kept, _ = plots.shadow(X, labels, most=100)
    assert len(P) == 100
    means = np.column_stack([X[labels == k].mean(axis=0) for k in range(3)])
    rays = Cone.from_points(means).ray_indices
    assert len(rays) < 33
    assert np.isin(rays, kept).all()


def test_points_and_cone_are_on_one_slice():
    P = np.random.default_rng(5).random((40, 3)) * np.geomspace(1e-3, 1, 40)[:, None]
    figure = plots.cone(P)
    dots, polygon, rays = figure.data[:3]
    np.testing.assert_allclose(np.column_stack([dots.x, dots.y]), on_the_slice(P), atol=1e-4)
    assert sorted(polygon.x[:-1]) == sorted(rays.x)  # every ray is a corner
    assert set(rays.x) <= set(dots.x)


def test_confusion_is_sorted_to_the_diagonal():
    target = np.repeat([10, 2, 7], [4, 3, 2])
    figure = plots.confusion(target, [5, 5, 5, 0, 1, 1, 1, 0, 0])
    assert list(figure.layout.yaxis.ticktext) == ["2", "7", "10"]
    assert list(figure.layout.xaxis.ticktext) == ["1", "0", "5"]
    assert np.diag(np.asarray(figure.data[0].z)).tolist() == [3, 2, 3]


@pytest.mark.parametrize("on_axis", [False, True])
def test_the_animation_is_the_history(on_axis):
    P = np.random.default_rng(3).random((30, 3)) + 0.05
    P[0] = [1, 0, 0] if on_axis else P[0]  # a unit vector that is a data point is not free
    found = collapse(P, eta=0.2)
    figure, history = plots.collapse_animation(P, found), found.history
    captions = [step.label for step in figure.layout.sliders[0].steps]
    assert len(captions) == len(figure.frames)
    assert captions[0] == "the orthant"
    assert sum(caption.startswith("tilt") for caption in captions) == len(history)
    assert sum(caption.startswith("add") for caption in captions) == sum(
        len(step.outside) for step in history
    )
    assert sum(caption.startswith("drop") for caption in captions) == sum(
        len(step.pruned) > 0 for step in history
    )
    assert set(figure.frames[-1].data[2].x) == set(figure.data[4].x)  # it is shown as it ends
    last = figure.frames[-1].data
    ends = np.column_stack([last[2].x, last[2].y])
    rays = on_the_slice(Cone.from_points(P).rays)
    assert len(ends) == len(rays)
    assert np.allclose(np.sort(ends, axis=0), np.sort(rays, axis=0), atol=1e-3)
    assert not np.isfinite(np.asarray(last[1].x, float)).any()  # no ray is free at the end


def test_rank_selection_marks_the_rank(fitted):
    _, X = fitted
    selection = select_rank(X, range(2, 5), n_runs=3, random_state=0)
    figure = plots.rank_selection(selection)
    assert list(figure.data[-1].x) == [selection.rank]


def test_tukeys_fence():
    assert outlier_fence([0.0, 1.0, 2.0, 3.0, 4.0]) == pytest.approx(3 + 1.5 * 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, _: plots.top_features(m, 9), r"cluster must be one of 0 to 3; got 9"),
        (lambda _, X: plots.images(X, (5, 5)), r"an image of 5 x 5 has 25 pixels, but a row has"),
        (lambda *_: plots.cone(np.ones((4, 2))), r"3 coordinates; these have 2"),
        (lambda *_: plots.cone(np.zeros((4, 3))), r"zero"),
        (lambda *_: plots.confusion([1, 2], [0, 1, 1]), r"target has 2 labels, labels has 3"),
        (
            lambda *_: plots.epsilon_path(Cone.from_points(np.eye(3))),
            r"no path; make it with Cone.approximate",
        ),
        (lambda *_: plots.shadow(np.ones((2, 5)), [0, 1]), r"at least three samples"),
    ],
)
def test_what_cannot_be_drawn_is_refused(fitted, call, message):
    with pytest.raises(InvalidInputError, match=message):
        call(*fitted)
