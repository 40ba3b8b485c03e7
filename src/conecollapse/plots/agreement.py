"""How sure a factorization is: what runs agree on."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go
from sklearn.utils.validation import check_is_fitted

from conecollapse.plots.clusters import cluster_name
from conecollapse.plots.style import SCALE, evenly, figure

MAX_SAMPLES = 400  # on a side of the figure


def consensus(model: Any) -> go.Figure:
    """How often two samples share a component over the runs of a `ConsensusNMF`, with samples ordered by their label.

    Bright blocks on the diagonal are components that all runs agree on; the axis names the stability of each. Of more than 400 samples,
    400 are shown.
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
    words = [cluster_name(k) if k < 0 else f"component {k}<br>stability {model.stability_[k]:.2f}" for k in found]
    return figure(
        [trace],
        xaxis={"visible": False, "constrain": "domain"},
        yaxis={"tickvals": middles, "ticktext": words, "autorange": "reversed", "scaleanchor": "x", "constrain": "domain"},
        height=520,
        margin={"l": 120, "r": 20, "t": 20, "b": 20},
    )
