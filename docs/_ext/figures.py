"""Plotly figures on the pages: each is a few kB of JSON, and plotly.js is one file for the whole
site.

Whatever an example shows with ``figure.show()`` is collected, put on the page where it was shown,
and sketched with matplotlib for the overview of the gallery. The directive ``shown`` (shown.py)
does the same with a block of code on any page.
"""

from __future__ import annotations

import base64
from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
import plotly.graph_objects as go
import plotly.io as pio
from plotly.io.base_renderers import ExternalRenderer

import conecollapse

PLOTLY_JS = Path(conecollapse.__file__).parent / "report" / "plotly" / "plotly-cartesian.min.js"
MARK = 'class="plotly-figure"'
_collected: list[go.Figure] = []


class Collector(ExternalRenderer):
    """Keeps the figures that are shown."""

    def render(self, fig):
        _collected.append(go.Figure(fig))


def take():
    """The figures shown since the last call."""
    figures = list(_collected)
    _collected.clear()
    return figures


def markup(figure):
    """A place for the figure with its data inside; ``figures.js`` draws it. Plotly's JSON has no
    ``<``, so it cannot end the script."""
    figure.layout.template = None  # figures.js has one for light and one for dark pages
    height = figure.layout.height or 450
    return (
        f'<div {MARK} style="height: {height}px"><script'
        f' type="application/json">{figure.to_json()}</script></div>'
    )


def scraper(block, block_vars, gallery_conf):  # noqa: ARG001 - as sphinx-gallery calls it
    """The figures of one block of an example, as reStructuredText."""
    parts = []
    for figure in take():
        sketch(figure, next(block_vars["image_path_iterator"]))
        parts.append(f".. raw:: html\n\n    {markup(figure)}\n")
    return "\n".join(parts)


def _get_sg_image_scraper():
    return scraper


def sketch(figure, path):
    """A rough picture of a plotly figure, for a thumbnail: markers, lines, bars and heat maps
    without their text."""
    canvas, axes = plt.subplots(figsize=(4, 2.8), dpi=100)
    for trace in figure.data:
        marker = getattr(trace, "marker", None)
        line = getattr(trace, "line", None)
        shade = next(
            (
                part.color
                for part in (marker, line)
                if part is not None and isinstance(part.color, str)
            ),
            "#0072b2",
        )
        x, y = numbers(getattr(trace, "x", None)), numbers(getattr(trace, "y", None))
        if trace.type == "heatmap":
            grey = figure.layout.yaxis.scaleanchor is not None  # pictures
            axes.imshow(
                numbers(trace.z),
                aspect="equal" if grey else "auto",
                cmap="gray" if grey else "viridis",
            )
        elif trace.type == "scatter":
            x = x if len(x) else np.arange(len(y))
            if "markers" in (trace.mode or ""):
                axes.scatter(x, y, s=9, color=_plain(shade))
            if "lines" in (trace.mode or "lines"):
                axes.plot(x, y, color=_plain(shade))
        elif trace.type == "bar" and trace.orientation == "h":
            axes.barh(y, x, color=_plain(shade))
        elif trace.type == "bar":
            axes.bar(x, y, color=_plain(shade))
        elif trace.type == "histogram":
            axes.hist(x, bins=np.arange(0, 1.02, 0.02), color=_plain(shade), alpha=0.8)
    axes.axis("off")
    canvas.tight_layout(pad=0.2)
    canvas.savefig(path, transparent=True)
    plt.close(canvas)


def numbers(values):
    """Numbers of a trace, also as plotly packs them."""
    if isinstance(values, dict):
        packed = np.frombuffer(base64.b64decode(values["bdata"]), values["dtype"]).astype(float)
        return (
            packed.reshape([int(n) for n in values["shape"].split(",")])
            if "shape" in values
            else packed
        )
    try:
        return np.zeros(0) if values is None else np.asarray(values, float)
    except ValueError:  # names, one beside the other
        return np.arange(len(values), dtype=float)


def _plain(shade):
    """A colour that matplotlib reads."""
    if not shade.startswith("rgb"):
        return shade
    parts = [float(part) for part in shade[shade.index("(") + 1 : -1].split(",")]
    return [part / 255 for part in parts[:3]]


def add_scripts(app, pagename, templatename, context, doctree):  # noqa: ARG001 - as Sphinx calls it
    """Only pages that have figures load plotly.js."""
    if MARK in context.get("body", ""):
        app.add_js_file(PLOTLY_JS.name, priority=900)
        app.add_js_file("figures.js", priority=901)


def setup(app):
    pio.renderers["site"] = Collector()
    pio.renderers.default = "site"
    app.connect("html-page-context", add_scripts)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
