"""Samples drawn where an embedding has them: clusters by colour, and how much of each component is
in every sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from conecollapse._errors import InvalidInputError
from conecollapse.plots.clusters import MAX_DOTS, checked_places
from conecollapse.plots.style import SCALE, evenly, figure, names_or_numbers

PANEL = 240  # pixels of height


def shares(
    values: Any, embedding: Any, *, names: Any = None, titles: Any = None, columns: int = 3
) -> go.Figure:
    """How much of each component is in every sample: a map for each component, on one scale of
    colours.

    Parameters
    ----------
    values : (n_samples, n_components) array
        Such as ``adata.obsm["X_programs"]``, the ``shares_`` of a mixture or the encodings of an
        NMF.
    embedding : (n_samples, 2) array
        Where each sample is drawn, such as ``adata.obsm["X_umap"]``; further columns are not used.
    names : (n_samples,) array, optional
        Shown on hover.
    titles : list of str, optional
        One for each component.
    columns : int
        Maps beside each other.
    """
    values = np.asarray(values, np.float32)
    if values.ndim != 2 or not values.size or not np.isfinite(values).all():
        raise InvalidInputError(
            f"values has shape {values.shape}; expected finite numbers, one for each sample and"
            " component."
        )
    place = checked_places(embedding, len(values)).astype(np.float32)
    shown = evenly(len(values), MAX_DOTS)
    hover = names_or_numbers(names, len(values), "sample")
    over = names_or_numbers(titles, values.shape[1], "component")
    if len(over) != values.shape[1]:
        raise InvalidInputError(
            f"titles has {len(over)} entries, and there are {values.shape[1]} components."
        )
    columns = min(columns, values.shape[1])
    lines = -(-values.shape[1] // columns)
    panels = make_subplots(
        lines, columns, subplot_titles=over, horizontal_spacing=0.02, vertical_spacing=0.25 / lines
    )
    for k in range(values.shape[1]):
        dots = go.Scatter(
            x=place[shown, 0],
            y=place[shown, 1],
            mode="markers",
            text=[f"{hover[i]}<br>{values[i, k]:.2f}" for i in shown],
            hoverinfo="text",
            marker={
                "color": values[shown, k],
                "coloraxis": "coloraxis",
                "size": 5 if len(shown) < 1500 else 3,
            },
        )
        panels.add_trace(dots, 1 + k // columns, 1 + k % columns)
    panels.update_xaxes(visible=False).update_yaxes(visible=False).update_annotations(font_size=12)
    scale = {
        "colorscale": SCALE,
        "cmin": 0,
        "cmax": float(values.max()) or 1.0,
        "colorbar": {"thickness": 12, "lenmode": "pixels", "len": PANEL},
    }
    return panels.update_layout(
        figure([], coloraxis=scale, showlegend=False, height=60 + PANEL * lines).layout
    )
