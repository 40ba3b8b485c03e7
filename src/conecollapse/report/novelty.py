"""The page of `conecollapse novelty`: the distances and the threshold, who is new, and the features
by which they leave the cone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go

from conecollapse.plots.style import BESIDE, PALETTE, evenly, figure, text
from conecollapse.report.parts import (
    MAX_ROWS,
    Bar,
    Card,
    Cards,
    Chart,
    Page,
    Part,
    Section,
    Table,
    Text,
    how_it_was_made,
    listed,
    short,
)

TRUSTED, ORDINARY, NOVEL = "#7f7f7f", PALETTE[0], "#d11149"
MAX_DOTS = 4000
SHOWN = 6  # novel samples with a card
TOP = 15  # features in the figure
LEADING = 3  # features named in the opening sentences

ORDER = (
    "The new samples in the order of their file. A group that is new together, or a drift, shows"
    " here."
)
SCORES = (
    "How far samples lie from the cone of the trusted samples, as a share of their length: 0 is a"
    " mixture of them, 1 has nothing in common with them. A trusted sample is compared with the"
    " cone of the others. The dashed line is the threshold."
)
WHY = (
    "A novel sample differs from the nearest mixture of trusted samples in these features. The"
    " amount is in the units of the data: + is more than the mixture has, - is less. Bars compare"
    " the amounts within a sample."
)
OFTEN = (
    "For each feature, the mean of its share of the squared distance over the novel samples; only"
    " the features named for a sample count."
)


def contents(found: Any) -> Page:
    """Collect what the page of ``found`` shows."""
    facts, rows = found.facts(), sorted(found.rows(), key=lambda row: -row["distance"])
    novel = [row for row in rows if row["novel"]]
    return Page(
        title=Path(str(found.table.source)).name,
        about="which samples are new",
        sentences=_sentences(facts, novel),
        picture=Chart("scores", _scores(found, facts["threshold"]), SCORES),
        facts=[
            ("novel", f"{facts['n_novel']:,}"),
            ("samples judged", f"{facts['n_samples']:,}"),
            ("trusted samples", f"{facts['n_trusted']:,}"),
            ("features", f"{facts['n_features']:,}"),
            ("threshold", f"{facts['threshold']:.3g}"),
        ],
        sections=[
            *(
                [Section("features", "The features that leave the cone", _features(novel))]
                if novel
                else []
            ),
            Section("samples", "All samples", _samples(found, facts["threshold"], rows)),
            how_it_was_made(
                {
                    "trusted samples": found.trusted.source,
                    "new samples": found.table.source,
                    "log(1 + x)": found.parameters["log"],
                }
                | found.model.get_params(),
                found.timings,
            ),
        ],
    )


def _sentences(facts: dict[str, Any], novel: list[dict[str, Any]]) -> list[str]:
    """How many are new, which is the farthest, and what to expect of ordinary samples."""
    near = f"the cone of the {facts['n_trusted']} trusted samples"
    bound = (
        f"Of ordinary samples at most {facts['false_alarms']:.1%} are expected beyond"
        f" {facts['threshold']:.3g}."
    )
    if not novel:
        return [
            f"None of the {facts['n_samples']} samples is new.",
            f"None is further than {facts['threshold']:.3g} from {near}.",
            bound,
        ]
    verb = "is new: it is" if len(novel) == 1 else "are new: they are"
    names = [feature["name"] for feature in novel[0]["features"][:LEADING]]
    why = f" and differs most in {listed(names)}" if names else ""
    return [
        (
            f"{len(novel)} of the {facts['n_samples']} samples {verb} further than"
            f" {facts['threshold']:.3g} from {near}."
        ),
        f"The farthest, {novel[0]['sample']}, has the distance {novel[0]['distance']:.3f}{why}.",
        bound,
    ]


def _scores(found: Any, threshold: float) -> go.Figure:
    """Histograms of the distances of trusted and new samples, with the threshold."""
    trusted, new = np.asarray(found.model.distances_), np.asarray(found.distances)
    top = max(float(np.max(values, initial=0.0)) for values in (trusted, new, [threshold]))
    bins = {"start": 0.0, "end": 1.02 * top, "size": max(1.02 * top / 50, np.finfo(float).tiny)}
    traces = [
        go.Histogram(
            x=np.round(values, 5),
            xbins=bins,
            histnorm="percent",
            name=name,
            marker={"color": shade},
            opacity=0.65,
        )
        for values, name, shade in ((trusted, "trusted", TRUSTED), (new, "new samples", ORDINARY))
    ]
    across = {"title": {"text": "distance from the cone"}, "range": [0, 1.02 * top]}
    dashed = {
        "type": "line",
        "yref": "paper",
        "y0": 0,
        "y1": 1,
        "x0": threshold,
        "x1": threshold,
        "line": {"dash": "dash", "color": NOVEL},
    }
    down = {"title": {"text": "% of the samples"}}
    return figure(traces, barmode="overlay", xaxis=across, yaxis=down, shapes=[dashed], height=360)


def _in_order(found: Any, threshold: float) -> go.Figure:
    distance, names = np.asarray(found.distances), found.table.samples
    is_novel = distance > threshold
    traces = []
    for mask, name, shade in ((~is_novel, "ordinary", ORDINARY), (is_novel, "novel", NOVEL)):
        at = np.flatnonzero(mask)
        at = at[evenly(len(at), MAX_DOTS)]
        hover = [f"{text(names[i])}: {distance[i]:.3f}" for i in at]
        marker = {"color": shade, "size": 6}
        traces.append(
            go.Scatter(
                x=at,
                y=np.round(distance[at], 4),
                mode="markers",
                name=name,
                text=hover,
                hoverinfo="text",
                marker=marker,
            )
        )
    dashed = {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": threshold,
        "y1": threshold,
        "line": {"dash": "dash", "color": NOVEL},
    }
    down = {"title": {"text": "distance from the cone"}, "rangemode": "tozero"}
    return figure(
        traces, xaxis={"title": {"text": "sample"}}, yaxis=down, shapes=[dashed], height=340
    )


def _features(novel: list[dict[str, Any]]) -> list[Part]:
    """The features of all novel samples together, then those of each of the farthest."""
    total: Counter[str] = Counter()
    for row in novel:
        for feature in row["features"]:
            total[feature["name"]] += feature["share"] / len(novel)
    top = total.most_common(TOP)[::-1]
    places = list(range(len(top)))
    bars = go.Bar(
        x=[share for _, share in top],
        y=places,
        orientation="h",
        marker={"color": NOVEL},
        hoverinfo="x",
    )
    down = {"tickvals": places, "ticktext": [text(name, BESIDE) for name, _ in top]}
    across = {"title": {"text": "mean share of the squared distance"}, "tickformat": ".0%"}
    chart = figure(
        [bars],
        xaxis=across,
        yaxis=down,
        height=110 + 24 * len(top),
        showlegend=False,
        margin={"l": 5, "r": 20, "t": 10, "b": 45},
    )
    together = [Chart("features", chart, OFTEN)] if len(novel) > 1 and top else []
    return [*together, Text(WHY), Cards([_card(row) for row in novel[:SHOWN]])]


def _card(row: dict[str, Any]) -> Card:
    widest = max((abs(one["amount"]) for one in row["features"]), default=0.0) or 1.0
    bars = [
        Bar(one["name"], short(one["amount"], "+"), abs(one["amount"]) / widest)
        for one in row["features"]
    ]
    return Card(
        row["sample"],
        [f"distance {row['distance']:.3f}"],
        bars,
        ("difference from the nearest mixture", ""),
        colour=NOVEL,
    )


def _samples(found: Any, threshold: float, rows: list[dict[str, Any]]) -> list[Part]:
    cells = [
        [
            row["sample"],
            round(row["distance"], 4),
            "yes" if row["novel"] else "",
            ", ".join(one["name"] for one in row["features"]),
        ]
        for row in rows[:MAX_ROWS]
    ]
    table = Table("samples", ["sample", "distance", "novel", "features"], cells)
    return [
        Chart("order", _in_order(found, threshold), ORDER),
        Text("The farthest samples come first."),
        table,
    ]
