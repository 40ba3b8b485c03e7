r"""Cones in three dimensions: the final cone with its points, Cone Collapse as it runs, and the cap of Lemma 3.

Data live in as many dimensions as there are samples. Their *shadow* has three: the samples are put in three groups, and a feature becomes
its means over the groups. That map is linear and non-negative, so it takes the cone of the features onto the cone of their shadows: what
generates the features generates the shadows, and every ray of the shadow is the shadow of a ray.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go
import scipy.sparse as sp
from scipy.spatial import ConvexHull, QhullError

from conecollapse._checks import as_matrix, as_points
from conecollapse._errors import InvalidInputError
from conecollapse._types import AnyArray, FloatArray, IntArray
from conecollapse.geometry.collapse import Iteration, collapse
from conecollapse.geometry.cone import Cone
from conecollapse.plots.style import PALETTE, figure, names_or_numbers, rgba

DATA, FREE, FROZEN, OUTSIDE = "#7f7f7f", PALETTE[1], PALETTE[0], "#d11149"
MAX_POINTS = 300  # in an animation: each frame solves an NNLS problem for each of them
GROUPS = 3


def shadow(X: Any, labels: Any, *, most: int = MAX_POINTS) -> tuple[FloatArray, IntArray, list[str]]:
    """Features of ``X`` in three dimensions: their means over three groups of samples; which features, and what the axes are.

    Clusters are the groups where there are three. More are joined, the two of the least samples first. With two, the third group is
    the half of the larger cluster that is least like its mean; one cluster is split twice. At most ``most`` features are kept: those that
    are rays of the shadow, and the heaviest.
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
    heavy = filled[np.argsort(-lengths[filled], kind="stable")]
    rays = filled[Cone.from_points(P[filled]).ray_indices] if len(filled) <= 20_000 else heavy[:0]
    rays = rays[np.argsort(-lengths[rays], kind="stable")][: most // 3]
    kept = np.concatenate([rays, heavy[~np.isin(heavy, rays)][: max(0, most - len(rays))]])
    kept.sort()
    return P[kept], kept, [name for _, name in groups]


def cone(P: Any, *, names: Any = None, axes: Any = None) -> go.Figure:
    """The cone of points in three dimensions: its rays, its faces and the points inside (Figure 2 of the paper)."""
    P = _points_3d(P)
    exact = Cone.from_points(P)
    traces = [_points(P, names), _faces(exact.rays, FROZEN), _rays(exact.rays, FROZEN, "extreme rays")]
    return _scene(traces, axes)


def collapse_animation(P: Any, *, names: Any = None, axes: Any = None, eta: float = 0.12) -> go.Figure:
    """Cone Collapse on points in three dimensions, step by step, with play, pause and a slider (Figure 1 of the paper).

    The orthant comes first. In each step free rays (orange) tilt towards the mean; points that then lie outside (red) become rays;
    rays that are not needed are dropped; rays that are data points (blue) stay. It ends when all are.
    """
    P = _points_3d(P)
    history = collapse(P, eta=eta).history or []
    unit = P / np.linalg.norm(P, axis=1, keepdims=True)
    states = [("the orthant", np.eye(3), np.zeros(3, bool), np.zeros((0, 3)))]
    for step in history:
        states.append((f"{step.t + 1}: tilt", step.tilted, step.frozen, unit[step.outside]))
        if len(step.outside) or len(step.pruned):
            on_data = (step.ids >= 0) | np.isin(step.ids, step.tilted_ids[step.frozen])  # a unit vector may be a data point too
            states.append((f"{step.t + 1}: {_events(step)}", step.rays, on_data, unit[[]]))
    frames = [go.Frame(data=_moving(*state[1:]), traces=[1, 2, 3, 4], name=str(i)) for i, state in enumerate(states)]
    start = [_points(P, names), *_moving(*states[0][1:])]
    result = _scene(start, axes)
    result.frames = frames
    result.update_layout(**_controls([state[0] for state in states]), height=680, margin={"l": 10, "r": 10, "t": 10, "b": 130})
    return result


def spherical_cap(P: Any, *, axes: Any = None, eta: float = 0.12) -> go.Figure:
    """Lemma 3: the free rays lie in a cap around the mean, so their cone does, and a ray outside the cap must still be found.

    Drawn at the first step whose cap leaves an extreme ray outside, or at the last step with free rays.
    """
    P = _points_3d(P)
    found = collapse(P, eta=eta)
    unit = P / np.linalg.norm(P, axis=1, keepdims=True)
    mean = P.sum(axis=0) / np.linalg.norm(P.sum(axis=0))
    free, alpha = np.eye(3), float(mean.min())
    for step in found.history or []:
        if step.frozen.all():
            break
        free = step.tilted[~step.frozen]
        alpha = float((free @ mean).min())
        if (found.rays @ mean).min() < alpha:
            break
    circle = _circle(mean, alpha)
    outside = found.rays[found.rays @ mean < alpha]
    radius = np.vstack([mean[None], circle])
    count = len(circle)
    fan = {"i": np.zeros(count, int), "j": np.arange(1, count + 1), "k": np.roll(np.arange(1, count + 1), -1)}
    traces = [
        _octant(),
        go.Mesh3d(
            x=radius[:, 0],
            y=radius[:, 1],
            z=radius[:, 2],
            **fan,
            color=PALETTE[2],
            opacity=0.35,
            name="cap",
            showlegend=True,
            hoverinfo="skip",
        ),
        go.Scatter3d(
            x=circle[:, 0],
            y=circle[:, 1],
            z=circle[:, 2],
            mode="lines",
            line={"color": PALETTE[2], "width": 5},
            showlegend=False,
            hoverinfo="skip",
        ),
        _rays(mean[None], "#444444", "mean"),
        _rays(free, FREE, "free rays"),
        _rays(found.rays[found.rays @ mean >= alpha], FROZEN, "rays inside the cap"),
        _rays(outside, OUTSIDE, "rays outside the cap"),
        _points(unit, None),
    ]
    return _scene(traces, axes)


def _three_groups(X: Any, labels: IntArray) -> list[tuple[IntArray, str]]:
    groups = [(np.flatnonzero(labels == k), f"cluster {k}") for k in np.unique(labels[labels >= 0])]
    while len(groups) > GROUPS:
        groups.sort(key=lambda group: -len(group[0]))
        (a, first), (b, second) = groups[-2], groups[-1]
        groups[-2:] = [(np.concatenate([a, b]), f"{first}, {second.removeprefix('cluster ').removeprefix('clusters ')}")]
    while len(groups) < GROUPS:
        groups.sort(key=lambda group: -len(group[0]))
        members, name = groups.pop(0)
        if len(members) < 2:
            raise InvalidInputError(f"three groups need at least three samples; X has {X.shape[0]}.")
        part = X[members].toarray() if sp.issparse(X) else np.asarray(X[members], np.float64)
        lengths = np.linalg.norm(part, axis=1)
        cosines = part @ part.mean(axis=0) / np.where(lengths > 0, lengths, 1.0)
        half = np.argsort(-cosines, kind="stable")
        middle = len(half) // 2
        groups += [(members[half[:middle]], f"{name}, near its mean"), (members[half[middle:]], f"{name}, far from its mean")]
    return [(members, _short(name)) for members, name in sorted(groups, key=lambda group: group[1])]


def _short(name: str) -> str:
    """Names of many joined clusters, cut."""
    name = name.replace("cluster ", "clusters ", 1) if name.count(",") and "mean" not in name else name
    return name if len(name) <= 28 else name[:27] + "…"


def _points_3d(P: Any) -> FloatArray:
    P = as_points(P)
    if P.shape[1] != GROUPS:
        raise InvalidInputError(f"points to draw have 3 coordinates; these have {P.shape[1]}. See plots.shadow.")
    dense: FloatArray = np.asarray(P.toarray() if sp.issparse(P) else P, np.float64)
    dense = dense[dense.any(axis=1)]
    if not len(dense):
        raise InvalidInputError("all points are zero; there is no cone to draw.")
    return dense / dense.max()


def _points(P: FloatArray, names: Any) -> Any:
    """Points in their direction, nearer to the origin the lighter they are."""
    lengths = np.linalg.norm(P, axis=1)
    place = (P / lengths[:, None]) * (0.3 + 0.7 * np.sqrt(lengths / lengths.max()))[:, None]
    hover = names_or_numbers(names, len(P), "feature")
    return _scatter(
        place, mode="markers", marker={"size": 3, "color": DATA, "opacity": 0.75}, text=hover, hoverinfo="text", name="features"
    )


def _scatter(place: AnyArray, **options: Any) -> Any:
    """Points or lines. "None" is one point nowhere, because an empty array in a frame of an animation leaves what was there before."""
    place = np.asarray(place, np.float64).reshape(-1, 3)
    return go.Scatter3d(**_xyz(place if len(place) else np.full((1, 3), np.nan)), **options)


def _xyz(place: AnyArray) -> dict[str, list[float]]:
    """Coordinates as lists: plotly.js keeps the decoded values of a packed array when a frame replaces it."""
    x, y, z = np.round(place, 4).T.tolist()
    return {"x": x, "y": y, "z": z}


def _rays(rays: AnyArray, shade: str, name: str) -> Any:
    """Segments from the origin, each ended by a dot."""
    segments = np.full((3 * len(rays), 3), np.nan)
    segments[0::3], segments[1::3] = 0.0, rays
    sizes = [0, 5, 0] * len(rays)
    return _scatter(
        segments,
        mode="lines+markers",
        line={"color": shade, "width": 5},
        marker={"size": sizes, "color": shade},
        name=name,
        hoverinfo="skip",
    )


def _faces(rays: AnyArray, shade: str) -> Any:
    """The cone's own faces between neighbouring rays, translucent; nothing for fewer than three rays."""
    corners = _around(rays)
    place = np.vstack([np.zeros((1, 3)), corners])
    n = len(corners)
    i, j, k = (np.zeros(n, int), np.arange(1, n + 1), np.roll(np.arange(1, n + 1), -1)) if n > 2 else ([0], [0], [0])
    triangles = {name: [int(v) for v in values] for name, values in (("i", i), ("j", j), ("k", k))}
    return go.Mesh3d(**_xyz(place), **triangles, color=rgba(shade, 1.0), opacity=0.25, hoverinfo="skip", showlegend=False)


def _around(rays: AnyArray) -> AnyArray:
    """The rays that bound their cone, in order around it."""
    if len(rays) < 3:
        return rays
    slice_ = rays / rays.sum(axis=1, keepdims=True)
    try:
        return rays[ConvexHull(slice_[:, :2]).vertices]
    except QhullError:  # all in one plane
        return rays[:0]


def _moving(rays: AnyArray, frozen: AnyArray, outside: AnyArray) -> list[Any]:
    return [
        _faces(rays, FREE if not frozen.all() else FROZEN),
        _rays(rays[~frozen], FREE, "free rays"),
        _rays(rays[frozen], FROZEN, "rays that are features"),
        _scatter(outside, mode="markers", marker={"size": 6, "color": OUTSIDE}, name="outside", hoverinfo="skip"),
    ]


def _events(step: Iteration) -> str:
    parts = [f"{len(ids)} {word}" for ids, word in ((step.outside, "added"), (step.pruned, "dropped")) if len(ids)]
    return ", ".join(parts)


def _circle(mean: FloatArray, alpha: float, count: int = 72) -> FloatArray:
    """Unit vectors whose cosine with ``mean`` is ``alpha``."""
    first = np.cross(mean, np.eye(3)[int(np.argmin(mean))])
    first /= np.linalg.norm(first)
    second = np.cross(mean, first)
    angle = 2 * np.pi * np.arange(count) / count
    spread = np.sqrt(max(0.0, 1 - alpha**2))
    circle: FloatArray = alpha * mean + spread * (np.cos(angle)[:, None] * first + np.sin(angle)[:, None] * second)
    return circle


def _octant(count: int = 16) -> Any:
    """The part of the unit sphere with non-negative coordinates, faint."""
    theta, phi = np.meshgrid(np.linspace(0, np.pi / 2, count), np.linspace(0, np.pi / 2, count))
    x, y, z = np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)
    return go.Surface(x=x, y=y, z=z, opacity=0.15, showscale=False, colorscale=[[0, "#888888"], [1, "#888888"]], hoverinfo="skip")


def _scene(traces: Any, axes: Any) -> go.Figure:
    titles = ["x", "y", "z"] if axes is None else names_or_numbers(axes, 3, "axis")
    sides = {
        f"{letter}axis": {"title": {"text": title}, "range": [-0.02, 1.1], "showspikes": False, "showticklabels": False}
        for letter, title in zip("xyz", titles, strict=True)
    }
    eye = {"x": 1.5, "y": 1.5, "z": 0.9}
    scene = {**sides, "aspectmode": "cube", "camera": {"eye": eye}}
    return figure(traces, scene=scene, height=560, margin={"l": 0, "r": 0, "t": 10, "b": 10}, legend={"orientation": "h", "y": 1.0, "x": 0})


def _controls(labels: list[str]) -> dict[str, Any]:
    """Play and pause buttons, and a slider of the steps."""
    now = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}, "transition": {"duration": 0}}
    play = {"frame": {"duration": 350, "redraw": True}, "fromcurrent": True, "transition": {"duration": 0}}
    steps = [{"method": "animate", "label": label, "args": [[str(i)], now]} for i, label in enumerate(labels)]
    buttons = [
        {"label": "▶ play", "method": "animate", "args": [None, play]},
        {"label": "❚❚ pause", "method": "animate", "args": [[None], now]},
    ]
    menu = {
        "type": "buttons",
        "direction": "left",
        "buttons": buttons,
        "x": 0,
        "y": 0,
        "xanchor": "left",
        "yanchor": "top",
        "pad": {"t": 88},
        "showactive": False,
    }
    slider = {
        "steps": steps,
        "active": 0,
        "x": 0,
        "len": 1,
        "y": 0,
        "pad": {"t": 10},
        "currentvalue": {"prefix": "step "},
        "ticklen": 0,
        "minorticklen": 0,
    }
    return {"updatemenus": [menu], "sliders": [slider]}
