"""Figures of what was found, as functions that return plotly figures:
``plots.cluster_map(model, X).show()``.

Names that come from data are escaped, so that a gene called ``<b>`` stays text. Figures hold
samples of large tables, never all of them.
"""

from conecollapse._errors import optional

with optional("A figure", "report"):
    import plotly  # noqa: F401

from conecollapse.plots.agreement import component_range, consensus, intervals
from conecollapse.plots.clusters import cluster_map, confusion, heat_map, images, top_features
from conecollapse.plots.curves import convergence, epsilon_path, rank_selection, residuals
from conecollapse.plots.embedding import shares
from conecollapse.plots.slices import collapse_animation, cone, shadow

__all__ = [
    "cluster_map",
    "collapse_animation",
    "component_range",
    "cone",
    "confusion",
    "consensus",
    "convergence",
    "epsilon_path",
    "heat_map",
    "images",
    "intervals",
    "rank_selection",
    "residuals",
    "shadow",
    "shares",
    "top_features",
]
