"""Curves: convergence of the factorization, residual by number of rays, samples that fit badly, and
the choice of the rank."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from conecollapse._checks import as_matrix
from conecollapse._errors import InvalidInputError
from conecollapse._types import FloatArray, IntArray
from conecollapse.estimators._estimator import check_is_fitted
from conecollapse.plots.clusters import distances
from conecollapse.plots.style import PALETTE, colour, figure, rgba

# Tukey's: an outlier is further above the upper quartile than this many times the spread of the
# quartiles
FENCE = 1.5


def convergence(model: Any) -> go.Figure:
    """The objective, as a share of the squares of the data, after each iteration."""
    check_is_fitted(model)
    history = np.asarray(model.history_)
    line = go.Scatter(
        x=np.arange(len(history)),
        y=history,
        mode="lines+markers",
        line={"color": PALETTE[0]},
        name="objective",
    )
    across = {"title": "iteration"} | ({"dtick": 1} if len(history) <= 10 else {})
    return figure(
        [line], xaxis=across, yaxis={"title": "objective, share of the squares"}, height=320
    )


def epsilon_path(cone: Any) -> go.Figure:
    """The largest residual against the number of rays, of a cone from `Cone.approximate`."""
    path = getattr(cone, "path", None)
    if path is None:
        raise InvalidInputError("this cone has no path; make it with Cone.approximate.")
    residuals = np.asarray(path.residuals)
    line = go.Scatter(
        x=np.arange(1, len(residuals) + 1),
        y=residuals,
        mode="lines+markers",
        line={"color": PALETTE[2]},
        name="residual",
    )
    return figure(
        [line],
        xaxis={"title": "rays"},
        yaxis={"title": "largest residual", "rangemode": "tozero"},
        height=320,
    )


def outlier_fence(values: Any) -> float:
    """Tukey's upper fence of the values."""
    low, high = np.quantile(values, [0.25, 0.75])
    return float(high + FENCE * (high - low))


def residuals(model: Any, X: Any) -> go.Figure:
    """How far samples are from the mean of their cluster, as an angle's sine: a histogram for each
    cluster and the fence of outliers."""
    check_is_fitted(model)
    far = distances(as_matrix(X, "X"), model.labels_, model.profiles_)
    return draw_residuals(model.labels_, len(model.profiles_), far)


def draw_residuals(labels: IntArray, n_clusters: int, values: FloatArray) -> go.Figure:
    """As `residuals`, of the distances of the samples."""
    bins = {"start": 0.0, "end": 1.0, "size": 0.02}
    traces = [
        go.Histogram(
            x=values[labels == k],
            xbins=bins,
            name=f"cluster {k}",
            marker={"color": rgba(colour(k), 0.75)},
        )
        for k in range(n_clusters)
    ]
    fence = outlier_fence(values)
    shapes = [
        {
            "type": "line",
            "yref": "paper",
            "y0": 0,
            "y1": 1,
            "x0": fence,
            "x1": fence,
            "line": {"dash": "dash", "color": "#b22f4a"},
        }
    ]
    note = [
        {
            "x": fence,
            "y": 1,
            "yref": "paper",
            "text": "outliers →",
            "showarrow": False,
            "xanchor": "left",
            "yanchor": "top",
        }
    ]
    inside = fence < 1
    return figure(
        traces,
        barmode="stack",
        xaxis={"title": "distance from the mean of the cluster", "range": [0, 1]},
        yaxis={"title": "samples"},
        shapes=shapes if inside else [],
        annotations=note if inside else [],
        height=360,
        showlegend=len(traces) <= 12,
    )


def rank_selection(selection: Any) -> go.Figure:
    """The scores behind `select_rank`, with their spread; the chosen rank is marked."""
    curve = {
        "method": selection.method,
        "candidates": selection.candidates,
        "scores": selection.scores,
        "standard_errors": selection.spread,
    }
    return draw_curve(curve, selection.rank, selection.reference)


def draw_curve(curve: Any, rank: int, reference: Any = None) -> go.Figure:
    """As `rank_selection`, of the scores of the candidates and their standard errors."""
    x, y = np.asarray(curve["candidates"]), np.asarray(curve["scores"])
    at = np.flatnonzero(x == rank)[:1]
    traces = [
        go.Scatter(
            x=x,
            y=y,
            error_y={"type": "data", "array": np.asarray(curve["standard_errors"])},
            mode="lines+markers",
            name=curve["method"],
            line={"color": PALETTE[0]},
        ),
        go.Scatter(
            x=x[at],
            y=y[at],
            mode="markers",
            name=f"chosen: {rank}",
            marker={"size": 14, "color": PALETTE[4]},
        ),
    ]
    if reference is not None:
        shuffled = {"x": x, "y": np.asarray(reference), "name": "shuffled data"}
        traces.insert(1, go.Scatter(**shuffled, mode="lines", line={"dash": "dot"}))
    across = {"title": "clusters", "dtick": 1}
    return figure(traces, xaxis=across, yaxis={"title": curve["method"]}, height=340)
