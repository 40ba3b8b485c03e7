"""The clusters: a map of the samples, the ordered table, distinguishing features, and clusters
against known labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment

from conecollapse._checks import as_matrix
from conecollapse._errors import InvalidInputError
from conecollapse._types import AnyArray, FloatArray, IntArray, Points
from conecollapse.clusters import NO_CLUSTER, largest_elsewhere
from conecollapse.estimators._estimator import check_is_fitted
from conecollapse.estimators._prepared import values_of
from conecollapse.metrics import contingency
from conecollapse.plots.style import (
    BESIDE,
    PALETTE,
    SCALE,
    colour,
    evenly,
    figure,
    names_or_numbers,
    text,
)

MAX_DOTS = 6000  # samples on a map
MAX_ROWS, MAX_COLUMNS = 300, 80  # of a heat map
MAX_TICKS = 60  # columns up to which their names have room
# cells of a confusion matrix up to which numbers have room, and rows up to which each gets 26
# pixels
MAX_COUNTED, MAX_LINES = 600, 40
MIN_SHARE = 0.035  # of the rows of a heat map, from which a cluster has room for its name
JITTER = 0.04  # of the radius of the map
SMALL = {"l": 5, "r": 5, "t": 10, "b": 5}  # margins of a figure without axes
# a figure about as high as wide, in a report
SQUARE = {"narrow": {"height": 450}, "wide": {"height": 560}}
GREY = "#9aa0a6"  # what belongs to no cluster
PULL = 0.7  # how far towards the middle the least typical sample is drawn


def memberships(model: Any, X: Any) -> FloatArray:
    """(n_samples, r) shares: how much of each sample its encoding gives to each cluster; rows sum
    to 1.

    A sample without an encoding belongs to the cluster of its label, or to all clusters equally
    where it has none.
    """
    scores = np.asarray(model.transform(X), np.float64) * model.label_weights_
    sums = scores.sum(axis=1, keepdims=True)
    own = np.full_like(scores, 1 / scores.shape[1])
    if len(model.labels_) == len(scores):
        labelled = np.flatnonzero(model.labels_ != NO_CLUSTER)
        own[labelled] = np.eye(scores.shape[1])[model.labels_[labelled]]
    shares: FloatArray = np.where(sums > 0, scores / np.where(sums > 0, sums, 1.0), own)
    return shares


def cluster_name(k: int) -> str:
    """How a figure calls the samples with the label ``k``."""
    return "no cluster" if k == NO_CLUSTER else f"cluster {k}"


def around_the_circle(profiles: Any) -> IntArray:
    """An order of the clusters in which neighbours are alike: by angle in the two leading
    directions of their centred unit profiles."""
    unit = np.asarray(profiles, np.float64)
    lengths = np.linalg.norm(unit, axis=1, keepdims=True)
    unit = unit / np.where(lengths > 0, lengths, 1.0)
    centred = unit - unit.mean(axis=0)
    if len(centred) < 3:
        return np.arange(len(centred))
    left, sigma, _ = np.linalg.svd(centred, full_matrices=False)
    return np.argsort(np.arctan2(left[:, 1] * sigma[1], left[:, 0] * sigma[0]), kind="stable")


def cluster_map(
    model: Any,
    X: Any,
    *,
    names: Any = None,
    target: Any = None,
    embedding: Any = None,
) -> go.Figure:
    """Samples between the corners of their clusters: a projection of the rows of A to the plane.

    Each cluster has a corner on a circle, neighbours being alike. A sample stands at the mean of
    the corners, weighted by how much of it its encoding gives to each cluster, and is drawn towards
    the middle the less it is like the mean of its cluster: at a corner it is typical and belongs
    there alone, in the middle it is unlike any, or could belong to several.

    Parameters
    ----------
    model : fitted estimator
    X : (n_samples, n_features) array
        The samples it was fitted to.
    names, target : (n_samples,) array, optional
        Names and known labels, shown on hover.
    embedding : (n_samples, 2) array, optional
        Where each sample is drawn instead, such as ``adata.obsm["X_umap"]``; further columns are
        not used.
    """
    check_is_fitted(model)
    X = values_of(model, X).X
    shares, labels = memberships(model, X), model.labels_
    if embedding is not None:
        return on_embedding(labels, shares.shape[1], embedding, names, target, shares)
    far = distances(as_matrix(X, "X"), labels, model.profiles_)
    return draw_map(labels, model.profiles_, shares, far, names=names, target=target)


def draw_map(
    labels: IntArray,
    means: AnyArray,
    shares: FloatArray,
    far: FloatArray,
    *,
    names: Any = None,
    target: Any = None,
) -> go.Figure:
    """As `cluster_map`, of the means of the clusters, the shares of the samples, and their
    distances from the means."""
    r = len(means)
    angle = np.empty(r)
    angle[around_the_circle(means)] = 2 * np.pi * np.arange(r) / r + (np.pi / 2 if r > 2 else 0)
    corners = np.column_stack([np.cos(angle), np.sin(angle)])
    towards = 1 - PULL * (far - far.min()) / max(float(np.ptp(far)), np.finfo(float).tiny)
    apart = JITTER * np.random.default_rng(0).standard_normal((len(shares), 2))
    place = towards[:, None] * (shares @ corners) + apart * (1.0 if r > 2 else [0.5, 6.0])
    traces = [*_dots(labels, r, place, names, target, shares), _numbers(1.13 * corners, range(r))]
    return _map(traces, r, range=[-1.3, 1.3]).update_layout(meta=SQUARE, margin=SMALL)


def _map(traces: list[go.Scatter], r: int, **axis: Any) -> go.Figure:
    axis |= {"visible": False, "constrain": "domain"}
    down = axis | {"scaleanchor": "x"}
    return figure(traces, xaxis=axis, yaxis=down, height=560, showlegend=r <= len(PALETTE))


def on_embedding(
    labels: IntArray,
    n_clusters: int,
    embedding: Any,
    names: Any = None,
    target: Any = None,
    shares: FloatArray | None = None,
    titles: Any = None,
) -> go.Figure:
    """Samples where an embedding has them; the number of each cluster stands at the median of its
    samples. ``titles`` are what a legend calls the clusters."""
    place = checked_places(embedding, len(labels))
    there = [k for k in range(n_clusters) if (labels == k).any()]
    middles = np.array([np.median(place[labels == k], axis=0) for k in there]).reshape(-1, 2)
    dots = _dots(labels, n_clusters, place, names, target, shares)
    for k, title in enumerate([] if titles is None else titles):
        dots[k].name = f"{k}: {text(title, BESIDE)}" if title else cluster_name(k)
    return _map([*dots, _numbers(middles, there)], n_clusters)


def checked_places(embedding: Any, n_samples: int) -> FloatArray:
    """The first two columns of an embedding, if it has finite numbers for each sample."""
    place = np.asarray(embedding, np.float64)
    if (
        place.ndim != 2
        or place.shape[0] != n_samples
        or place.shape[1] < 2
        or not np.isfinite(place[:, :2]).all()
    ):
        raise InvalidInputError(
            f"embedding has shape {place.shape}; expected two finite numbers for each of the"
            f" {n_samples} samples."
        )
    return place[:, :2]


def _dots(
    labels: IntArray, r: int, place: FloatArray, names: Any, target: Any, shares: FloatArray | None
) -> list[go.Scatter]:
    """A dot for each sample, in the colour of its cluster."""
    shown = evenly(len(labels), MAX_DOTS)
    hover = names_or_numbers(names, len(labels), "sample")
    known = None if target is None else names_or_numbers(target, len(labels), "")
    traces = []
    for k in [*range(r), NO_CLUSTER] if (labels == NO_CLUSTER).any() else range(r):
        rows = shown[labels[shown] == k]
        lines = [
            f"{hover[i]}<br>{cluster_name(k)}"
            + ("" if k == NO_CLUSTER or shares is None else f", share {shares[i, k]:.2f}")
            + ("" if known is None else f"<br>known as {known[i]}")
            for i in rows
        ]
        marker = {
            "color": GREY if k == NO_CLUSTER else colour(k),
            "size": 7 if len(shown) < 1500 else 4,
            "opacity": 0.8,
        }
        traces.append(
            go.Scatter(
                x=place[rows, 0].astype(np.float32),
                y=place[rows, 1].astype(np.float32),
                mode="markers",
                name=cluster_name(k),
                text=lines,
                hoverinfo="text",
                marker=marker,
            )
        )
    return traces


def _numbers(place: FloatArray, numbers: Any) -> go.Scatter:
    """The numbers of the clusters."""
    return go.Scatter(
        x=place[:, 0],
        y=place[:, 1],
        mode="text",
        text=[str(k) for k in numbers],
        hoverinfo="skip",
        showlegend=False,
        textfont={"size": 14},
    )


def heat_map(model: Any, X: Any, *, names: Any = None, feature_names: Any = None) -> go.Figure:
    """The table with its samples ordered by cluster and, of its features, those that distinguish
    the clusters.

    Each feature is divided by its largest value shown. Lines separate the clusters.
    """
    check_is_fitted(model)
    columns = _feature_names(model, feature_names)
    return draw_heat_map(model.labels_, model.profiles_, as_matrix(X, "X"), names, columns)


def draw_heat_map(
    labels: IntArray, means: AnyArray, X: Points, names: Any, feature_names: AnyArray
) -> go.Figure:
    """As `heat_map`, of labels and of the means of the clusters."""
    each = max(1, MAX_COLUMNS // (2 * len(means)))
    columns = _distinguishing_features(means, each)[:MAX_COLUMNS]
    order = np.argsort(labels, kind="stable")
    rows = order[evenly(len(order), MAX_ROWS)]
    part = X[rows][:, columns]
    block = np.asarray(part.toarray() if sp.issparse(part) else part, np.float64)
    peaks = block.max(axis=0)
    block = np.round(block / np.where(peaks > 0, peaks, 1.0), 3).astype(np.float32)
    samples = (
        [f"sample {i}" for i in rows]
        if names is None
        else [text(name) for name in np.asarray(names)[rows]]
    )
    features = [text(name) for name in feature_names[columns]]
    shown = "%{y}<br>%{x}: %{z:.2f} of its largest<extra></extra>"
    trace = go.Heatmap(z=block, hovertemplate=shown, colorscale=SCALE, showscale=False)
    edge = {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "line": {"color": "white", "width": 1.5},
    }
    lines = [
        {**edge, "y0": float(e), "y1": float(e)}
        for e in np.flatnonzero(np.diff(labels[rows])) + 0.5
    ]
    down = {
        "tickvals": list(range(len(rows))),
        "ticktext": samples,
        "showticklabels": False,
        "autorange": "reversed",
    }
    across = {"tickvals": list(range(len(columns))), "ticktext": features, "tickangle": -60}
    few = len(columns) <= MAX_TICKS
    return figure(
        [trace],
        yaxis=down,
        xaxis=across | {"showticklabels": few},
        shapes=lines,
        annotations=_row_names(labels[rows]),
        height=560,
        margin={"l": 80, "r": 5, "t": 5, "b": 30},
        meta={"narrow": {"xaxis.showticklabels": False}, "wide": {"xaxis.showticklabels": few}},
    )


def _row_names(labels: IntArray) -> list[dict[str, Any]]:
    """The name of each cluster beside the middle of its rows, where they leave room for it."""
    place = {"xref": "paper", "x": 0, "xanchor": "right", "xshift": -4, "showarrow": False}
    found, first, counts = np.unique(labels, return_index=True, return_counts=True)
    return [
        {**place, "y": float(start + (count - 1) / 2), "text": cluster_name(k)}
        for k, start, count in zip(found, first, counts, strict=True)
        if count >= MIN_SHARE * len(labels)
    ]


def top_features(
    model: Any, cluster: int, n_features: int = 10, *, feature_names: Any = None
) -> go.Figure:
    """Bars: the features that distinguish one cluster from the others, with the mean inside it and
    the largest mean elsewhere."""
    check_is_fitted(model)
    profiles = np.asarray(model.profiles_, np.float64)
    if not 0 <= cluster < len(profiles):
        raise InvalidInputError(
            f"cluster must be one of 0 to {len(profiles) - 1}; got {cluster!r}."
        )
    own = profiles[cluster]
    rival = np.zeros_like(own) + largest_elsewhere(profiles, cluster)
    chosen = np.argsort(rival - own, kind="stable")[:n_features][::-1]
    names = [text(name) for name in _feature_names(model, feature_names)[chosen]]
    axis = {"tickvals": list(range(len(chosen))), "ticktext": names}
    bars = [
        go.Bar(
            y=list(range(len(chosen))),
            x=rival[chosen],
            orientation="h",
            name="largest mean elsewhere",
            marker={"color": GREY},
        ),
        go.Bar(
            y=list(range(len(chosen))),
            x=own[chosen],
            orientation="h",
            name="mean in the cluster",
            marker={"color": colour(cluster)},
        ),
    ]
    return figure(
        bars,
        barmode="group",
        yaxis=axis,
        height=120 + 26 * len(chosen),
        margin={"l": 140, "r": 20, "t": 10, "b": 40},
    )


def images(rows: Any, shape: tuple[int, int], *, titles: Any = None, columns: int = 8) -> go.Figure:
    """Rows of a table as pictures of ``shape`` (height, width), for features that are pixels; each
    from black to its own largest value."""
    rows = np.asarray(rows.toarray() if sp.issparse(rows) else rows, np.float64)
    height, width = shape
    if rows.shape[1] != height * width:
        raise InvalidInputError(
            f"an image of {height} x {width} has {height * width} pixels, but a row has"
            f" {rows.shape[1]}."
        )
    columns = min(columns, len(rows))
    lines = -(-len(rows) // columns)
    side, gap = max(height, width), max(1, max(height, width) // 8)
    over = gap if titles is None else gap + side // 4  # room for a title
    sheet = np.full((lines * (height + over), columns * (width + gap) - gap), np.nan, np.float32)
    notes = []
    for place, row in enumerate(rows):
        top, left = (place // columns) * (height + over) + over, (place % columns) * (width + gap)
        peak = row.max() if row.max() > 0 else 1.0
        sheet[top : top + height, left : left + width] = np.round(255 * row.reshape(shape) / peak)
        if titles is not None:
            at = {
                "x": left + (width - 1) / 2,
                "y": top - 0.5,
                "yanchor": "bottom",
                "showarrow": False,
            }
            notes.append({**at, "text": text(titles[place]), "font": {"size": 11}})
    trace = go.Heatmap(
        z=sheet, zmin=0, zmax=255, colorscale="Gray", showscale=False, hoverinfo="skip"
    )
    down = {"visible": False, "autorange": "reversed", "scaleanchor": "x", "constrain": "domain"}
    return figure(
        [trace],
        xaxis={"visible": False, "constrain": "domain"},
        yaxis=down,
        annotations=notes,
        height=int(30 + 120 * lines * (height + over) / width),
        margin={"l": 5, "r": 5, "t": 5, "b": 5},
    )


def confusion(target: Any, labels: Any) -> go.Figure:
    """Known labels (rows) and clusters (columns) of the same samples, counted.

    Columns are ordered so that as many samples as possible lie on the diagonal.
    """
    target, labels = np.asarray(target), np.asarray(labels)
    if len(target) != len(labels):
        raise InvalidInputError(
            f"target has {len(target)} labels, labels has {len(labels)}; they must be of the same"
            " samples."
        )
    target = target if target.dtype.kind in "iu" else target.astype(str)
    known, found, counts = np.unique(target), np.unique(labels), contingency(target, labels)
    matched, order = linear_sum_assignment(counts, maximize=True)
    order = np.concatenate([order[np.argsort(matched)], np.setdiff1d(np.arange(len(found)), order)])
    down = {
        "tickvals": list(range(len(known))),
        "ticktext": [_label(name) for name in known],
        "autorange": "reversed",
    }
    across = {"tickvals": list(range(len(found))), "ticktext": [_label(found[k]) for k in order]}
    return figure(
        [
            go.Heatmap(
                z=counts[:, order],
                colorscale="Blues",
                showscale=False,
                texttemplate="%{z}" if counts.size <= MAX_COUNTED else None,
                hovertemplate="known label %{y}, cluster %{x}: %{z}<extra></extra>",
            )
        ],
        yaxis=down | {"title": {"text": "known label"}},
        xaxis=across | {"title": {"text": "cluster"}},
        height=140 + 26 * min(len(known), MAX_LINES),
    )


def _label(name: Any) -> str:
    return "none" if not isinstance(name, str) and name == NO_CLUSTER else text(name, BESIDE)


def _distinguishing_features(profiles: AnyArray, each: int) -> IntArray:
    """For each cluster in turn the features that distinguish it from the others; every feature
    once."""
    chosen: dict[int, None] = {}
    for k, profile in enumerate(np.asarray(profiles, np.float64)):
        lead = profile - largest_elsewhere(profiles, k)
        chosen.update(
            dict.fromkeys(int(j) for j in np.argsort(-lead, kind="stable")[:each] if lead[j] > 0)
        )
    return np.array(list(chosen) or [0])


def _feature_names(model: Any, names: Any) -> AnyArray:
    if names is None:
        names = getattr(model, "feature_names_in_", None)
    return (
        np.array([f"x{j}" for j in range(model.n_features_in_)])
        if names is None
        else np.asarray(names)
    )


def distances(X: Points, labels: IntArray, means: AnyArray) -> FloatArray:
    """Sine of the angle between each sample and the mean of its cluster: 0 the same but for scale,
    1 nothing in common (or no cluster)."""
    peak = float(np.max(means, initial=0.0)) or 1.0  # squares of entries of 1e200 are no numbers
    X, own = X.astype(np.float64) / peak, (np.asarray(means, np.float64) / peak)[labels]
    if sp.issparse(X):
        products, squares = (np.asarray(X.multiply(Y).sum(axis=1)).ravel() for Y in (own, X))
    else:
        products, squares = (np.einsum("ij,ij->i", X, Y) for Y in (own, X))
    lengths = np.sqrt(squares) * np.linalg.norm(own, axis=1)
    comparable = (lengths > 0) & (labels != NO_CLUSTER)
    cosines = np.where(comparable, products / np.where(comparable, lengths, 1.0), 0.0)
    result: FloatArray = np.sqrt(np.clip(1 - cosines**2, 0.0, 1.0))
    return result
