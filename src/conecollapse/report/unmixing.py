"""The page of `conecollapse unmix`: spectra, abundance maps on one scale, where the fit is bad, and
what is proven."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
from markupsafe import Markup

from conecollapse._types import FloatArray
from conecollapse.plots.style import colour, evenly, figure, rgba, text
from conecollapse.report.parts import (
    MAX_ROWS,
    Chart,
    Page,
    Part,
    Picture,
    Pictures,
    Section,
    Table,
    Text,
    how_it_was_made,
)
from conecollapse.report.pictures import image

MAX_CHANNELS = 2000  # of a spectrum that is drawn
MANY_NAMES = 40  # channels up to which spectra are drawn as bars

SPECTRA = Markup(
    "Every sample is, up to noise, a sum of these components with weights that are not negative."
    " The component with the largest total abundance comes first. The numbers are in"
    " <code>endmembers.csv</code>."
)
FIT = (
    "The distance of a sample from the nearest mixture of the components, as a share of the"
    " sample's length: 0 means that it is a mixture of them."
)
SPREAD = Markup(
    "J is the squared error over the noise plus the logarithm of the volume of the cone; the"
    " smallest is chosen. The band around a component holds every candidate within one unit of it"
    " (<code>spread.csv</code>). Their number, and how they were found, are not proven."
)
PURITY = (
    "How many of 1024 random functionals are largest at each pixel: the purest pixels have most."
    " Where no pixel near a component has any, the component rests on mixtures alone."
)
BAND = 0.2  # of a colour, in a band around its line
PROVEN = Markup(
    "This is proven by <code>certificate.npz</code> beside this page; <code>conecollapse"
    " verify</code> checks it against the data without the solver. That the components are the true"
    " ones is not proven: that depends on how pure the samples are and on the noise."
)


def contents(run: Any) -> Page:
    """Collect what the page of ``run`` shows."""
    facts, names = run.facts(), run.names
    proven = (
        f"No sample is further from the cone of the components than {facts['cone_residual']:.3g}"
        f" {run.unit_of_distance}."
    )
    lines = Chart("spectra", spectra(run, names), SPECTRA)
    maps = None if run.maps is None else images(run.maps[:, :, :-1], names)
    sections = [Section("components", "The components", [lines])] if maps is not None else []
    return Page(
        title=Path(str(run.table.source)).name,
        about="components and abundances",
        sentences=[*_sentences(facts, names), proven],
        picture=lines if maps is None else maps,
        facts=[
            ("samples", f"{facts['n_samples']:,}"),
            ("channels", f"{facts['n_features']:,}"),
            ("components", str(facts["n_components"])),
            ("relative error", f"{facts['relative_error']:.3g}"),
        ],
        sections=[
            *sections,
            _sure(run),
            Section("fit", "Where the mixture does not fit", _fit(run, facts, names)),
            Section("proven", "What is proven", [Text(Markup("{} {}").format(proven, PROVEN))]),
            how_it_was_made(run.parameters, run.timings),
        ],
    )


def _sentences(facts: dict[str, Any], names: list[str]) -> list[str]:
    explained = max(0.0, 1 - facts["relative_error"] ** 2)
    mean = np.asarray(facts["mean_abundances"], np.float64)
    what = f"{facts['n_samples']} {'pixels' if facts['shape'] else 'samples'}"
    return [
        (
            f"The {what} are mixtures of {len(names)} components, which explain {explained:.2%} of"
            " the squares of the data."
        ),
        (
            f"The most abundant is {names[0]}, with"
            f" {mean[0] / max(mean.sum(), np.finfo(float).tiny):.0%} of all abundances."
        ),
    ]


def images(cube: FloatArray, names: list[str]) -> Pictures:
    """Maps side by side on one scale of colours."""
    peak = float(np.nanmax(cube, initial=0.0))
    return Pictures(
        [Picture(name, image(cube[:, :, k], peak)) for k, name in enumerate(names)],
        "0",
        f"{peak:.3g}",
        large=True,
    )


def _sure(run: Any) -> Section:
    """What the candidates say about how sure the components are."""
    rows = [[name, float(f"{J:.6g}")] for name, J in run.candidates[:MAX_ROWS]]
    open_ = [
        [name, float(f"{share:.3g}")] for name, share in zip(run.names, run.openness, strict=True)
    ]
    parts: list[Part] = [
        Text(run.sureness),
        Table("spread", ["component", "spread, as a share of its length"], open_),
        Text(SPREAD),
        Table("candidates", ["candidate", "J"], rows),
    ]
    if run.purity_map is not None:
        parts += [Text(PURITY), images(run.purity_map, ["purity"])]
    return Section("sure", "How sure the components are", parts)


def _fit(run: Any, facts: dict[str, Any], names: list[str]) -> list[Part]:
    said = {
        "n_missing": "pixels have no data and were left out; they are NaN in the maps.",
        "n_masked": "pixels were left out by the mask; they are NaN in the maps.",
        "n_clipped": "negative values were set to zero.",
        "n_outliers": (
            "samples were left out of the search because they are empty or fit no mixture."
        ),
        "n_empty_samples": "samples hold only zeros; their abundances are zero.",
        "n_empty_features": "channels hold only zeros, and so do the components there.",
    }
    notes = [Text(f"{facts[name]} {words}", "note") for name, words in said.items() if facts[name]]
    residuals = [] if run.maps is None else [images(run.maps[:, :, -1:], ["distance"])]
    return [
        Text(FIT),
        *notes,
        *residuals,
        Text("The samples that fit worst come first."),
        _sample_table(run, names),
    ]


def spectra(run: Any, names: list[str]) -> go.Figure:
    """The components over the channels, each as it is in endmembers.csv."""
    H = np.asarray(run.components, np.float64)
    at = evenly(H.shape[1], MAX_CHANNELS)
    axis = {"title": {"text": "channel"}}
    if run.wavelengths is not None:
        order = np.argsort(run.wavelengths[at], kind="stable")
        at = at[order]
        x: Any = run.wavelengths[at]
        axis = {"title": {"text": "wavelength"}}
    elif run.table.feature_names is not None:
        x = [text(name) for name in run.table.features[at]]
    else:
        x = at
    spread = np.asarray(run.spread, np.float64)[:, at]
    if H.shape[1] <= MANY_NAMES and run.wavelengths is None:
        traces: list[Any] = [
            go.Bar(
                x=x,
                y=row[at],
                name=text(name),
                marker={"color": colour(k)},
                error_y=_errors(row[at], spread[k]),
            )
            for k, (name, row) in enumerate(zip(names, H, strict=True))
        ]
    else:
        traces = _bands(x, H[:, at], spread, names)
        traces += [
            go.Scatter(x=x, y=row[at], mode="lines", name=text(name), line={"color": colour(k)})
            for k, (name, row) in enumerate(zip(names, H, strict=True))
        ]
    return figure(
        traces, height=420, xaxis=axis, yaxis={"title": {"text": "value"}, "rangemode": "tozero"}
    )


def _errors(row: FloatArray, spread: FloatArray) -> dict[str, Any]:
    return {"array": spread, "arrayminus": np.minimum(spread, row), "symmetric": False}


def _bands(x: Any, H: FloatArray, spread: FloatArray, names: list[str]) -> list[Any]:
    """A band around each component, as far as the spread reaches."""
    traces = []
    for k, name in enumerate(names):
        edges = (np.maximum(H[k] - spread[k], 0.0), None), (H[k] + spread[k], "tonexty")
        traces += [
            go.Scatter(
                x=x,
                y=edge,
                mode="lines",
                line={"width": 0},
                fill=fill,
                fillcolor=rgba(colour(k), BAND),
                name=text(name),
                showlegend=False,
                hoverinfo="skip",
            )
            for edge, fill in edges
        ]
    return traces


def _sample_table(run: Any, names: list[str]) -> Table:
    """The samples that fit worst first, as many as the page can hold."""
    far = run.distances
    rows = np.argsort(-far, kind="stable")[:MAX_ROWS]
    called = run.table.samples
    if run.shape is not None and run.table.sample_names is None:
        called = np.array(
            [f"row {i // run.shape[1]}, column {i % run.shape[1]}" for i in range(len(far))]
        )
    out = np.asarray(run.outliers)
    out = out if len(out) == len(far) else np.zeros(len(far), bool)
    cells = [
        [
            str(called[i]),
            *(float(f"{v:.3g}") for v in run.abundances[i]),
            float(f"{far[i]:.3g}"),
            "yes" if out[i] else "",
        ]
        for i in rows
    ]
    return Table("samples", ["sample", *names, "distance", "left out"], cells)
