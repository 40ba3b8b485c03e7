"""The page of `conecollapse compare`: what two runs were asked for, how far their clusters agree,
and the rays they share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go

from conecollapse import plots
from conecollapse._types import AnyArray
from conecollapse.clusters import NO_CLUSTER
from conecollapse.plots.style import PALETTE, figure
from conecollapse.report.parts import Chart, Page, Pairs, Part, Section, Table, Text, listed
from conecollapse.runs.comparing import ASKED

NAMED = 4  # differing parameters named in the opening sentences
MAX_ROWS = 5000  # of a table

AGREE = (
    "Samples by their cluster in the first run (rows) and in the second (columns). Clusters of the"
    " second are ordered so that as many samples as possible lie on the diagonal; these are the"
    " matching clusters."
)
ANGLES = (
    "The angle between each component of the first run and the component of the second that it is"
    " matched with: 0 is the same spectrum."
)


def contents(found: Any) -> Page:
    """Collect what the page of a `Comparison` shows."""
    results, names = found.results(), _short(found.names)
    sections = [Section("parameters", "What differs", _parameters(found, names))]
    pictures: list[Chart] = []
    if found.labels is not None:
        titles = ("cluster in the first run", "cluster in the second run")
        pictures.append(Chart("confusion", plots.confusion(*found.labels, titles=titles), AGREE))
        sections.insert(0, Section("clusters", "The clusters", _clusters(found)))
    if found.rays is not None:
        pictures.append(Chart("rays", _ray_counts(*found.rays)))
        sections.insert(
            1,
            Section(
                "rays",
                "The rays",
                [*pictures[1:], Text(_ray_sentence(results)), _ray_table(*found.rays)],
            ),
        )
    if found.matches is not None:
        pictures.append(Chart("angles", _angles(found.matches), ANGLES))
    return Page(
        title=f"{names[0]} and {names[1]}",
        about="two runs compared",
        sentences=_sentences(found, results),
        picture=pictures[0],
        facts=_facts(results),
        sections=sections,
    )


def _short(paths: tuple[str, str]) -> tuple[str, str]:
    """The names of two folders, with their parents where these are the same."""
    first, second = (Path(path).resolve() for path in paths)
    return (
        (first.name, second.name)
        if first.name != second.name
        else ("/".join(first.parts[-2:]), "/".join(second.parts[-2:]))
    )


def _sentences(found: Any, results: dict[str, Any]) -> list[str]:
    """The agreement, the rays in common, what differs."""
    sentences = []
    if found.labels is not None:
        share, rand = results["share_in_matching_clusters"], results["adjusted_rand"]
        both = f"the {results['n_common_samples']} samples that both runs have"
        sentences.append(
            f"{share:.1%} of {both} are in matching clusters (adjusted Rand index {rand:.3f})."
        )
    if found.rays is not None:
        sentences.append(_ray_sentence(results))
    if found.matches is not None:
        angles = results["angles"]
        sentences.append(
            f"{len(angles)} components are matched, with angles of {min(angles):.2g} to"
            f" {max(angles):.2g} degrees between them."
        )
    if found.labels is None:
        sentences.append(f"{results['n_common_samples']} samples are in both runs.")
    asked = [name for name, _, _ in found.differences(ASKED)]
    names = list(
        dict.fromkeys(
            "the data" if name.startswith("data") else name.rpartition(", ")[2] for name in asked
        )
    )
    more = [f"{len(names) - NAMED} more"] if len(names) > NAMED else []
    sentences.append(
        f"The runs differ in {listed(names[:NAMED] + more)}."
        if names
        else "Both runs were asked for the same, of the same data."
    )
    return sentences


def _ray_sentence(results: dict[str, Any]) -> str:
    first, second = results["n_rays"]
    return (
        f"{results['n_common_rays']} features are rays in both runs, of {first} rays in the first"
        f" and {second} in the second."
    )


def _facts(results: dict[str, Any]) -> list[tuple[str, str]]:
    facts = [("samples in both", f"{results['n_common_samples']:,}")]
    if "adjusted_rand" in results:
        facts.append(("adjusted Rand index", f"{results['adjusted_rand']:.3f}"))
        facts.append(
            ("normalized mutual information", f"{results['normalized_mutual_information']:.3f}")
        )
    if "n_common_rays" in results:
        facts.append(("rays in both", f"{results['n_common_rays']:,}"))
    if "angles" in results:
        facts.append(("degrees, mean angle", f"{np.mean(results['angles']):.3g}"))
    return facts


def _parameters(found: Any, names: tuple[str, str]) -> list[Part]:
    rows = found.differences()
    said = (
        "What their run.json say differently; all else is the same."
        if rows
        else "Their run.json say the same."
    )
    return [Text(said), *([Pairs(rows, ("", *names))] if rows else [])]


def _clusters(found: Any) -> list[Part]:
    """The samples that are in clusters that do not match."""
    moved = found.moved()
    if not len(moved):
        return [Text("All samples are in matching clusters.")]
    names = [
        ["none" if label == NO_CLUSTER else int(label) for label in labels]
        for labels in found.labels
    ]
    rows = [[str(found.samples[i]), names[0][i], names[1][i]] for i in moved[:MAX_ROWS]]
    said = (
        f"{len(moved)} of {len(found.samples)} samples are in clusters that do not match. Each run"
        " numbers its clusters by itself:"
    )
    said += " the figure above says which match."
    return [Text(said), Table("moved", ["sample", "in the first run", "in the second run"], rows)]


def _ray_counts(first: AnyArray, second: AnyArray) -> go.Figure:
    both = len(np.intersect1d(first, second))
    counts = {
        "only in the first": len(np.unique(first)) - both,
        "in both": both,
        "only in the second": len(np.unique(second)) - both,
    }
    shades = (PALETTE[1], PALETTE[2], PALETTE[0])
    traces = [
        go.Bar(
            x=[count],
            y=["rays"],
            orientation="h",
            name=f"{name}: {count}",
            marker={"color": shade},
            hoverinfo="name",
        )
        for (name, count), shade in zip(counts.items(), shades, strict=True)
    ]
    return figure(
        traces,
        barmode="stack",
        height=150,
        yaxis={"visible": False},
        margin={"l": 5, "r": 5, "t": 10, "b": 30},
    )


def _ray_table(first: AnyArray, second: AnyArray) -> Table:
    """Every ray of either run, those that differ first."""
    one, two = {str(name) for name in first}, {str(name) for name in second}
    order = [*sorted(one ^ two), *sorted(one & two)][:MAX_ROWS]
    rows = [[name, "yes" if name in one else "", "yes" if name in two else ""] for name in order]
    return Table("rays", ["feature", "ray in the first run", "ray in the second run"], rows)


def _angles(matches: list[Any]) -> go.Figure:
    names = [f"{match.first} and {match.second}" for match in matches]
    bars = go.Bar(
        x=list(range(len(names))),
        y=[round(match.angle, 4) for match in matches],
        marker={"color": PALETTE[0]},
        hoverinfo="y",
    )
    across = {
        "tickvals": list(range(len(names))),
        "ticktext": names,
        "title": {"text": "components of the first and the second run"},
    }
    return figure(
        [bars],
        xaxis=across,
        yaxis={"title": {"text": "degrees"}, "rangemode": "tozero"},
        height=320,
    )
