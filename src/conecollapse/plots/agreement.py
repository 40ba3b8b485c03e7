"""How sure a factorization is: what runs agree on, intervals, and components that fit equally
well."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from conecollapse._errors import InvalidInputError
from conecollapse.estimators._estimator import check_is_fitted
from conecollapse.plots.clusters import GREY, cluster_name
from conecollapse.plots.style import SCALE, colour, evenly, figure, rgba, text

MAX_SAMPLES = 400  # on a side of the figure


def consensus(model: Any) -> go.Figure:
    """How often two samples share a component over the runs of a `ConsensusNMF`, with samples
    ordered by their label.

    Bright blocks on the diagonal are components that all runs agree on; the axis names the
    stability of each. Of more than 400 samples, 400 are shown.
    """
    check_is_fitted(model)
    labels = np.asarray(model.labels_)
    order = np.argsort(labels, kind="stable")
    rows = order[evenly(len(order), MAX_SAMPLES)]
    shown = np.round(model.consensus_of(rows), 3).astype(np.float32)
    trace = go.Heatmap(
        z=shown,
        hovertemplate="together in %{z:.0%} of the runs<extra></extra>",
        colorscale=SCALE,
        zmin=0,
        zmax=1,
        colorbar={"title": "share of runs", "tickformat": ".0%"},
    )
    found = np.unique(labels[rows])
    middles = [float(np.flatnonzero(labels[rows] == k).mean()) for k in found]
    words = [
        cluster_name(k) if k < 0 else f"component {k}<br>stability {model.stability_[k]:.2f}"
        for k in found
    ]
    return figure(
        [trace],
        xaxis={"visible": False, "constrain": "domain"},
        yaxis={
            "tickvals": middles,
            "ticktext": words,
            "autorange": "reversed",
            "scaleanchor": "x",
            "constrain": "domain",
        },
        height=520,
        margin={"l": 120, "r": 20, "t": 20, "b": 20},
    )


def intervals(
    found: Any, component: int = 0, *, feature_names: Any = None, n_features: int = 40
) -> go.Figure:
    """One component of a `bootstrap` with the interval of each entry; of more than ``n_features``
    features the largest."""
    H = np.asarray(found.components)
    if not 0 <= component < len(H):
        raise InvalidInputError(f"component must be one of 0 to {len(H) - 1}; got {component!r}.")
    names = [f"x{j}" for j in range(H.shape[1])] if feature_names is None else list(feature_names)
    if len(names) != H.shape[1]:
        raise InvalidInputError(
            f"there are {len(names)} names for {H.shape[1]} features; give one for each."
        )
    shown = np.sort(np.argsort(-found.components_high[component], kind="stable")[:n_features])
    value = H[component, shown]
    low, high = found.components_low[component, shown], found.components_high[component, shown]
    bars = {
        "type": "data",
        "array": np.maximum(high - value, 0),
        "arrayminus": np.maximum(value - low, 0),
        "color": colour(component),
    }
    trace = go.Scatter(
        x=[text(names[j]) for j in shown],
        y=value,
        error_y=bars,
        mode="markers",
        marker={"color": colour(component)},
        name=f"component {component}",
    )
    return figure(
        [trace], yaxis={"title": f"{found.level:.0%} interval", "rangemode": "tozero"}, height=360
    )


def component_range(model: Any) -> go.Figure:
    """The components that fit equally well, of a fitted model of two or three components (see
    `HierarchicalNMF.component_range`).

    Each point is a component whose sum is one. Grey: what is non-negative (outside) and the data
    (inside). Coloured: where each component can be. With two components all this lies on a line.
    """
    found = model.component_range()
    corners = (
        np.array([[1.0, 0.0], [0.0, 0.0]])
        if len(found.points) == 2
        else np.array([[1.0, 0.0], [0.5, np.sqrt(0.75)], [0.0, 0.0]])
    )
    traces = []
    for outline, name, dash in (
        (found.outer, "non-negative", "dot"),
        (found.inner, "data", "solid"),
    ):
        traces.append(
            _outline(
                outline, corners, name=name, line={"color": GREY, "dash": dash}, hoverinfo="name"
            )
        )
    for k, region in enumerate(found.regions):
        line = {"color": colour(k), "width": 2 if len(corners) == 3 else 8}
        fill = {"fill": "toself", "fillcolor": rgba(colour(k), 0.35)} if len(corners) == 3 else {}
        traces.append(
            _outline(
                region, corners, name=f"range of component {k}", line=line, hoverinfo="name", **fill
            )
        )
    at = _placed(found.points, corners)
    marker = {
        "color": [colour(k) for k in range(len(at))],
        "size": 11,
        "line": {"color": "white", "width": 1.5},
    }
    names = [f"component {k}" for k in range(len(at))]
    traces.append(
        go.Scatter(
            x=at[:, 0],
            y=at[:, 1],
            mode="markers",
            marker=marker,
            text=names,
            hoverinfo="text",
            name="components",
        )
    )
    down = (
        {"visible": False, "scaleanchor": "x"}
        if len(corners) == 3
        else {"visible": False, "range": [-1, 1]}
    )
    return figure(
        traces, xaxis={"visible": False}, yaxis=down, height=460 if len(corners) == 3 else 220
    )


def _placed(points: Any, corners: Any) -> Any:
    """Points of the plane with the first components at these corners."""
    return np.column_stack([points, 1 - points.sum(axis=1)]) @ corners


def _outline(points: Any, corners: Any, **how: Any) -> go.Scatter:
    at = _placed(np.concatenate([points, points[:1]]), corners)
    return go.Scatter(x=at[:, 0], y=at[:, 1], mode="lines", **how)
