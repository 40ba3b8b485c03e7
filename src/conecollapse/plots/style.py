"""What all figures share: colours, margins and escaped text."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

import numpy as np
import plotly.graph_objects as go

# Okabe & Ito's colours, which the colour-blind can tell apart, then lighter and darker variants
PALETTE = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#d55e00",
    "#56b4e9",
    "#8c6d1f",
    "#7f7f7f",
    "#4b3b8f",
    "#a3c644",
    "#b22f4a",
    "#2f8f8f",
    "#f0c000",
    "#5b2a00",
    "#ff8fb1",
    "#003f5c",
    "#b39ddb",
    "#6b8e23",
    "#000000",
    "#c0c0c0",
)
SCALE = "Viridis"
MAX_NAME = 40  # characters of a name in a figure
BESIDE = 24  # of a name beside a vertical axis, which leaves room for the figure on a phone


def colour(cluster: int) -> str:
    """Colour of a cluster; they repeat after twenty."""
    return PALETTE[cluster % len(PALETTE)]


def rgba(hexadecimal: str, alpha: float) -> str:
    """A colour of the palette, translucent.

    Examples
    --------
    >>> rgba("#0072b2", 0.5)
    'rgba(0,114,178,0.5)'
    """
    red, green, blue = (int(hexadecimal[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"


def text(name: Any, most: int = MAX_NAME) -> str:
    """A name from the data as text for plotly, which reads some HTML: it is escaped, and cut if it
    is long.

    Examples
    --------
    >>> text("<script>")
    '&lt;script&gt;'
    """
    name = str(name)
    return (
        escape(name if len(name) <= most else name[: most - 1] + "…", quote=False)
        if name.strip()
        else "(no name)"
    )


def names_or_numbers(names: Any, count: int, what: str) -> list[str]:
    """Names as text, or "sample 0", "sample 1", ... where there are none."""
    return (
        [f"{what} {i}" for i in range(count)] if names is None else [text(name) for name in names]
    )


def evenly(count: int, most: int) -> Any:
    """At most ``most`` of the positions 0, 1, ..., spread evenly."""
    return (
        np.arange(count)
        if count <= most
        else np.unique(np.linspace(0, count - 1, most).astype(np.int64))
    )


def figure(traces: Iterable[Any], **layout: Any) -> go.Figure:
    """A figure with our margins, without a background of its own."""
    base: dict[str, Any] = {
        "margin": {"l": 50, "r": 20, "t": 40, "b": 45},
        "template": "plotly_white",
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        # above: an axis title is below
        "legend": {"orientation": "h", "yanchor": "bottom", "y": 1.02, "x": 0},
    }
    axes = {name: {"automargin": True} | layout.get(name, {}) for name in ("xaxis", "yaxis")}
    return go.Figure(list(traces), base | layout | axes)
