r"""Cones of points with three coordinates, on a slice: the final cone, and Cone Collapse as it ran.

A cone and its points are cut by the plane :math:`x + y + z = 1`, and every direction becomes one
place in a triangle. Its corners are the axes, and the triangle is the orthant; a cone becomes a
polygon with its rays as corners, and a point lies in the cone exactly where its place lies in the
polygon. The length of a point, which the slice does not show, is the size of its dot.

Data live in as many dimensions as there are samples. Their *shadow* has three: the samples are put
in three groups, and a feature becomes its means over the groups. That map is linear and
non-negative, so it takes the cone of the features onto the cone of their shadows: what generates
the features generates the shadows, and every ray of the shadow is the shadow of a ray. Features
that are found in one group only would lie on the axes, and the orthant would have nothing to
collapse; each mean is then mixed with the mean of all three, which is linear and non-negative too.
"""

from __future__ import annotations

from textwrap import wrap
from typing import Any

import numpy as np
import plotly.graph_objects as go
import scipy.sparse as sp
from scipy.spatial import ConvexHull, QhullError

from conecollapse._checks import as_matrix, as_points
from conecollapse._errors import InvalidInputError
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray
from conecollapse.geometry.collapse import Iteration
from conecollapse.plots.style import PALETTE, figure, names_or_numbers, rgba

DATA, FREE, FROZEN, OUTSIDE = "#7f7f7f", PALETTE[1], PALETTE[0], "#d11149"
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])  # places of the three axes
MAX_POINTS = 300  # of a shadow
# features that are added in one iteration and get a step each; more are added in one step
ONE_BY_ONE = 20
GROUPS = 3
LEAST = 0.06  # share of every group in a shadow, which keeps it off the faces of the orthant


def shadow(
    X: Any, labels: Any, *, most: int = MAX_POINTS
) -> tuple[FloatArray, IntArray, list[str]]:
    """Features of ``X`` in three dimensions: their means over three groups of samples; which
    features, and what the axes are.

    Each mean is mixed with as much of the mean of all three as it takes to give every feature a
    share of 0.06 of every group.

    Clusters are the groups where there are three. More are joined, the two of the least samples
    first. With two, the third group is the half of the larger cluster that is least like its mean;
    one cluster is split twice. At most ``most`` features are kept: those that are rays of the
    shadow, and the heaviest.
    """
    X = as_matrix(X, "X")
    groups = _three_groups(X, np.asarray(labels))
    means = []
    for members, _ in groups:
        part = X[members]
        means.append(np.asarray(part.mean(axis=0), np.float64).ravel())
    P = np.column_stack(means)
    lengths = np.linalg.norm(P, axis=1)
    filled = np.flatnonzero(lengths > 1e-12 * max(lengths.max(), np.finfo(float).tiny))
    if not len(filled):
        raise InvalidInputError("every feature is zero; there is no cone to draw.")
    P = _off_the_faces(P, filled)
    heavy = filled[np.argsort(-lengths[filled], kind="stable")]
    rays = filled[_corners(P[filled])]
    rays = rays[np.argsort(-lengths[rays], kind="stable")][: most // 3]
    kept = np.concatenate([rays, heavy[~np.isin(heavy, rays)][: max(0, most - len(rays))]])
    kept.sort()
    return P[kept], kept, [name for _, name in groups]


def cone(P: Any, *, names: Any = None, axes: Any = None) -> go.Figure:
    """The cone of points with three coordinates, on a slice: its rays, and the points inside
    (Figure 2 of the paper)."""
    points, names, filled = _points_3d(P, names)
    points, names = points[filled], [names[i] for i in filled]
    rays = points[_corners(points)]
    return _sliced(
        [_dots(points, names), _polygon(rays, FROZEN), _rays(rays, FROZEN, "extreme rays")], axes
    )


def collapse_animation(P: Any, found: Any, *, names: Any = None, axes: Any = None) -> go.Figure:
    """Cone Collapse on points with three coordinates, on a slice, step by step, with play, pause
    and a slider (Figure 1 of the paper).

    It shows the final cone; "play" starts from the orthant. Free rays (orange) tilt towards the
    mean; points that then lie outside (red) become rays, one in each step; rays that are not needed
    are dropped; rays that are data points (blue) stay. It ends when all are.

    Parameters
    ----------
    P : (n_points, 3) array
    found : Cone
        ``collapse(P)``, whose history is drawn; a smaller ``eta`` gives it more iterations.
    names : (n_points,) array, optional
        Of the points.
    axes : sequence of 3 names, optional
    """
    points, names, filled = _points_3d(P, names)
    states = [("the orthant", np.eye(3), np.zeros(3, bool), np.zeros((0, 3)))]
    for step in found.history:
        states += _states(step, points, names)
    frames = [
        go.Frame(data=_moving(*state[1:]), traces=[2, 3, 4, 5], name=str(i))
        for i, state in enumerate(states)
    ]
    dots = _dots(points[filled], [names[i] for i in filled])
    result = _sliced([dots, _mean(points), *_moving(*states[-1][1:])], axes)
    result.frames = frames
    result.update_layout(**_controls([state[0] for state in states]))
    return result.update_layout(
        height=result.layout.height + 110, margin={"b": result.layout.margin.b + 110}
    )


def _off_the_faces(P: FloatArray, filled: IntArray) -> FloatArray:
    """The points mixed with their means: the smallest share of a coordinate, s, becomes (1 - t) s +
    t / 3 = `LEAST`."""
    smallest = float((P[filled] / P[filled].sum(axis=1, keepdims=True)).min())
    t = (LEAST - smallest) / (1 / GROUPS - smallest) if smallest < LEAST else 0.0
    return (1 - t) * P + t * P.mean(axis=1, keepdims=True)


def _three_groups(X: Any, labels: IntArray) -> list[tuple[IntArray, str]]:
    """Three groups of samples, and what each is called."""
    parts = [([k], np.flatnonzero(labels == k)) for k in np.unique(labels[labels >= 0]).tolist()]
    while len(parts) > GROUPS:
        parts.sort(key=lambda part: -len(part[1]))
        (a, first), (b, second) = parts[-2:]
        parts[-2:] = [(sorted(a + b), np.concatenate([first, second]))]
    groups = [(members, _name(clusters)) for clusters, members in parts]
    while len(groups) < GROUPS:
        groups.sort(key=lambda group: -len(group[0]))
        members, name = groups.pop(0)
        if len(members) < 2:
            raise InvalidInputError(
                f"three groups need at least three samples; X has {X.shape[0]}."
            )
        part = X[members].toarray() if sp.issparse(X) else np.asarray(X[members], np.float64)
        lengths = np.linalg.norm(part, axis=1)
        cosines = part @ part.mean(axis=0) / np.where(lengths > 0, lengths, 1.0)
        near, far = np.array_split(members[np.argsort(-cosines, kind="stable")], [len(part) // 2])
        groups += [(near, f"{name}, near its mean"), (far, f"{name}, far from its mean")]
    return sorted(groups, key=lambda group: group[1])


def _name(clusters: list[int]) -> str:
    """The name of the group of these clusters, cut if they are many."""
    name = f"cluster{'s' if len(clusters) > 1 else ''} {', '.join(map(str, clusters))}"
    return name if len(name) <= 28 else name[:27] + "…"


def _points_3d(P: Any, names: Any) -> tuple[FloatArray, list[str], IntArray]:
    """The points, what they are called, and which are not zero."""
    P = as_points(P)
    if P.shape[1] != GROUPS:
        raise InvalidInputError(
            f"points to draw have 3 coordinates; these have {P.shape[1]}. See plots.shadow."
        )
    dense: FloatArray = np.asarray(P.toarray() if sp.issparse(P) else P, np.float64)
    called = names_or_numbers(names, len(dense), "feature")
    filled = np.flatnonzero(dense.any(axis=1))
    if not len(filled):
        raise InvalidInputError("all points are zero; there is no cone to draw.")
    return dense / dense.max(), called, filled


def _states(
    step: Iteration, points: FloatArray, names: list[str]
) -> list[tuple[str, AnyArray, BoolArray, AnyArray]]:
    """The steps of one iteration, each with its caption, the rays, which of them are data points,
    and the points outside."""
    rays, frozen, left = step.tilted, step.frozen, step.outside
    seen = f", {len(left)} outside" if len(left) else ""
    states = [(f"tilt {step.t + 1}{seen}", rays, frozen, points[left])]
    while len(left):
        count = 1 if len(step.outside) <= ONE_BY_ONE else len(left)
        added, left = left[:count], left[count:]
        rays, frozen = np.vstack([rays, points[added]]), np.append(frozen, np.ones(count, bool))
        states.append(
            (
                f"add {names[added[0]] if count == 1 else f'{count} features'}",
                rays,
                frozen,
                points[left],
            )
        )
    if len(step.pruned):
        # a unit vector may be a data point too
        on_data = (step.ids >= 0) | np.isin(step.ids, step.tilted_ids[step.frozen])
        states.append(
            (
                (
                    f"drop {len(step.pruned)} that {'is' if len(step.pruned) == 1 else 'are'} not"
                    " needed"
                ),
                step.rays,
                on_data,
                points[[]],
            )
        )
    return states


def _places(directions: AnyArray) -> FloatArray:
    """Where directions meet the slice, as places in the plane of the figure; (1, 2) of NaN where
    there are none.

    An empty array in a frame of an animation would leave what was there before.
    """
    directions = np.asarray(directions, np.float64).reshape(-1, 3)
    if not len(directions):
        return np.full((1, 2), np.nan)
    return np.round(directions / directions.sum(axis=1, keepdims=True) @ CORNERS, 4)


def _dots(points: FloatArray, names: list[str] | None) -> go.Scatter:
    """A dot for each point, larger the longer it is."""
    at, lengths = _places(points), np.linalg.norm(points, axis=1)
    size = np.round(4 + 6 * np.sqrt(lengths / lengths.max()), 1)
    marker = {"size": size, "color": DATA, "opacity": 0.7}
    return go.Scatter(
        x=at[:, 0],
        y=at[:, 1],
        mode="markers",
        marker=marker,
        text=names,
        hoverinfo="text",
        name="features",
    )


def _mean(points: FloatArray) -> go.Scatter:
    return _markers(points.sum(axis=0), "mean", {"symbol": "x", "size": 9, "color": PALETTE[3]})


def _markers(directions: AnyArray, name: str, marker: dict[str, Any]) -> go.Scatter:
    """Marks as lists: plotly.js keeps the decoded values of a packed array when a frame replaces
    it."""
    x, y = _places(directions).T.tolist()
    return go.Scatter(x=x, y=y, mode="markers", marker=marker, name=name, hoverinfo="skip")


def _rays(rays: AnyArray, shade: str, name: str) -> go.Scatter:
    return _markers(
        rays,
        name,
        {"size": 11, "color": shade, "symbol": "diamond", "line": {"color": "white", "width": 1}},
    )


def _polygon(rays: AnyArray, shade: str) -> go.Scatter:
    """The slice of the cone of the rays."""
    x, y = _places(_around(rays)).T.tolist()
    style = {"line": {"color": shade, "width": 2}, "fill": "toself", "fillcolor": rgba(shade, 0.15)}
    return go.Scatter(x=x, y=y, mode="lines", hoverinfo="skip", showlegend=False, **style)


def _corners(points: AnyArray) -> IntArray:
    """The points at the corners of the polygon that is the slice of their cone, in order around
    it; they are its extreme rays."""
    at = points / points.sum(axis=1, keepdims=True) @ CORNERS
    try:
        return np.asarray(ConvexHull(at).vertices)
    except (QhullError, ValueError):
        # all on one line, or fewer than three: the two that are farthest apart
        return np.unique(np.lexsort(at.T)[[0, -1]])


def _around(rays: AnyArray) -> AnyArray:
    """The rays that bound their cone, in order around it and back to the first."""
    rays = rays[_corners(rays)]
    return np.concatenate([rays, rays[:1]])


def _moving(rays: AnyArray, frozen: BoolArray, outside: AnyArray) -> list[go.Scatter]:
    return [
        _polygon(rays, FREE if not frozen.all() else FROZEN),
        _rays(rays[~frozen], FREE, "free rays"),
        _rays(rays[frozen], FROZEN, "rays that are features"),
        _markers(outside, "outside", {"size": 9, "color": OUTSIDE}),
    ]


def _sliced(traces: list[Any], axes: Any) -> go.Figure:
    """The triangle of the orthant with the names of its axes, and what is in it."""
    titles = ["x", "y", "z"] if axes is None else names_or_numbers(axes, 3, "axis")
    edge = np.vstack([CORNERS, CORNERS[:1]])
    orthant = go.Scatter(
        x=edge[:, 0],
        y=edge[:, 1],
        mode="lines",
        line={"color": DATA, "width": 1},
        hoverinfo="skip",
        showlegend=False,
    )
    names = [
        {
            "x": x,
            "y": y,
            "xanchor": side,
            "yanchor": up,
            "text": "<br>".join(wrap(title, 14, break_long_words=False)),
            "align": side,
            "showarrow": False,
        }
        for (x, y), side, up, title in zip(
            CORNERS, ("left", "right", "center"), ("top", "top", "bottom"), titles, strict=True
        )
    ]
    hidden = {"visible": False, "constrain": "domain"}
    across, up = (
        hidden | {"range": [-0.02, 1.02]},
        hidden | {"range": [-0.12, 1.0], "scaleanchor": "x"},
    )
    return figure(
        [*traces, orthant],
        xaxis=across,
        yaxis=up,
        annotations=names,
        height=520,
        margin={"l": 5, "r": 5, "t": 5, "b": 5},
    )


def _controls(captions: list[str]) -> dict[str, Any]:
    """Play and pause buttons, and a slider of the steps; the caption of the step is above it, in
    one line."""
    now = {
        "mode": "immediate",
        "frame": {"duration": 0, "redraw": True},
        "transition": {"duration": 0},
    }
    play = {
        "fromcurrent": True,
        "frame": {"duration": 350, "redraw": True},
        "transition": {"duration": 0},
    }
    steps = [
        {"method": "animate", "label": caption, "args": [[str(i)], now]}
        for i, caption in enumerate(captions)
    ]
    buttons = [
        {"label": "▶ play", "method": "animate", "args": [None, play]},
        {"label": "❚❚ pause", "method": "animate", "args": [[None], now]},
    ]
    below = {"x": 0, "y": 0, "xanchor": "left", "yanchor": "top"}
    menu = {
        "type": "buttons",
        "direction": "left",
        "buttons": buttons,
        **below,
        "pad": {"t": 80},
        "showactive": False,
    }
    slider = {
        "steps": steps,
        "active": len(steps) - 1,
        **below,
        "len": 1,
        "pad": {"t": 15, "l": 5, "r": 5},
        "currentvalue": {"font": {"size": 13, "color": DATA}},
        # plotly repeats the captions under the slider, cut; these are not seen
        "font": {"size": 1, "color": "rgba(0,0,0,0)"},
        "ticklen": 0,
        "minorticklen": 0,
    }
    return {"updatemenus": [menu], "sliders": [slider]}
