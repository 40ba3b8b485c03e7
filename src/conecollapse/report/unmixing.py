"""The page of `conecollapse unmix`: spectra, abundance maps on one scale, where the fit is bad, and what is proven."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go

from conecollapse._types import FloatArray
from conecollapse.plots.style import SCALE, colour, evenly, figure, text
from conecollapse.report.contents import DataTable
from conecollapse.report.page import write_page
from conecollapse.runs.unmixing import component_names, unmix_results

MAP_SIDE = 240  # pixels of a map at most; larger images are averaged
MAX_CHANNELS = 2000  # of a spectrum that is drawn
MAX_SAMPLES = 5000  # rows of the table
MANY_NAMES = 40  # channels up to which spectra are drawn as bars
COLUMNS = 4  # maps side by side
MAP_HEIGHT, MOST_HEIGHT = 320, 1600  # of a line of maps on the page, and of all


@dataclass
class UnmixContents:
    """What the page shows."""

    title: str
    sentence: str
    proven: str
    facts: list[tuple[str, str]] = field(default_factory=list)
    figures: dict[str, go.Figure] = field(default_factory=dict)
    tables: dict[str, DataTable] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    parameters: list[tuple[str, str]] = field(default_factory=list)


def write_unmixing_report(path: Path, run: Any) -> None:
    """Write the page of an `UnmixRun` to ``path``, whole or not at all."""
    write_page(path, contents(run), "unmix.html.j2")


def contents(run: Any) -> UnmixContents:
    """Collect what the page of ``run`` shows."""
    facts, names = unmix_results(run), component_names(run)
    r, n = facts["n_components"], facts["n_samples"]
    explained = max(0.0, 1 - facts["relative_error"] ** 2)
    found = UnmixContents(
        title=Path(str(run.table.source)).name,
        sentence=f"The {n} samples are mixtures of {r} components, which explain {explained:.2%} of the squares of the data.",
        proven=f"No sample is further from the cone of the components than {facts['cone_residual']:.3g} {run.unit_of_distance}.",
    )
    found.facts = [("samples", str(n)), ("channels", str(facts["n_features"])), ("components", str(r))]
    found.facts.append(("relative error", f"{facts['relative_error']:.3g}"))
    found.figures["spectra"] = spectra(run, names)
    if run.maps is not None:
        found.figures["maps"] = maps(run.maps[:, :, :-1], names)
        found.figures["residuals"] = maps(run.maps[:, :, -1:], ["distance"])
    found.tables["samples"] = _sample_table(run, names)
    found.notes = _notes(facts)
    found.parameters = [(name, str(value)) for name, value in run.parameters.items()]
    found.parameters += [(f"time, {name}", f"{seconds:.2f} s") for name, seconds in run.timings.items()]
    return found


def _notes(facts: dict[str, Any]) -> list[str]:
    notes = []
    if facts["n_clipped"]:
        notes.append(f"{facts['n_clipped']} negative values were set to zero.")
    if facts["n_outliers"]:
        notes.append(f"{facts['n_outliers']} samples were left out of the search because they are empty or fit no mixture.")
    if facts["n_empty_samples"]:
        notes.append(f"{facts['n_empty_samples']} samples hold only zeros; their abundances are zero.")
    if facts["n_empty_features"]:
        notes.append(f"{facts['n_empty_features']} channels hold only zeros, and so do the components there.")
    return notes


def spectra(run: Any, names: list[str]) -> go.Figure:
    """The components over the channels, each as it is in endmembers.csv."""
    H = np.asarray(run.model.components_, np.float64)
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
    if H.shape[1] <= MANY_NAMES and run.wavelengths is None:
        traces: list[Any] = [
            go.Bar(x=x, y=row[at], name=text(name), marker={"color": colour(k)}) for k, (name, row) in enumerate(zip(names, H, strict=True))
        ]
    else:
        traces = [
            go.Scatter(x=x, y=row[at], mode="lines", name=text(name), line={"color": colour(k)})
            for k, (name, row) in enumerate(zip(names, H, strict=True))
        ]
    return figure(traces, height=420, xaxis=axis, yaxis={"title": {"text": "value"}, "rangemode": "tozero"})


def maps(cube: FloatArray, names: list[str]) -> go.Figure:
    """Images side by side on one scale of colours."""
    shown = [shrunk(cube[:, :, k]) for k in range(cube.shape[2])]
    height, width = shown[0].shape
    columns = min(COLUMNS, len(shown))
    lines = -(-len(shown) // columns)
    gap = max(1, width // 20)
    over = gap + max(2, height // 8)  # room for a title
    sheet = np.full((lines * (height + over), columns * (width + gap) - gap), np.nan)
    titles = []
    for place, image in enumerate(shown):
        top, left = (place // columns) * (height + over) + over, (place % columns) * (width + gap)
        sheet[top : top + height, left : left + width] = image
        at = {"x": left + (width - 1) / 2, "y": top - 0.5, "yanchor": "bottom", "showarrow": False}
        titles.append({**at, "text": text(names[place]), "font": {"size": 12}})
    peak = float(cube.max()) if cube.size and cube.max() > 0 else 1.0
    sheet = np.round(sheet, 3 - int(np.floor(np.log10(peak))))
    trace = go.Heatmap(z=sheet.astype(np.float32), zmin=0, zmax=peak, colorscale=SCALE, hoverinfo="z", hoverongaps=False)
    return figure(
        [trace],
        xaxis={"visible": False, "constrain": "domain"},
        yaxis={"visible": False, "autorange": "reversed", "scaleanchor": "x", "constrain": "domain"},
        annotations=titles,
        height=int(np.clip(lines * MAP_HEIGHT, MAP_HEIGHT, MOST_HEIGHT)),
        margin={"l": 5, "r": 5, "t": 5, "b": 5},
    )


def shrunk(image: FloatArray) -> FloatArray:
    """The image with at most `MAP_SIDE` pixels on a side, each the mean of a block."""
    step = -(-max(image.shape) // MAP_SIDE)
    if step == 1:
        return image
    height, width = (-(-side // step) for side in image.shape)
    padded = np.full((height * step, width * step), np.nan)
    padded[: image.shape[0], : image.shape[1]] = image
    return np.asarray(np.nanmean(padded.reshape(height, step, width, step), axis=(1, 3)))


def _sample_table(run: Any, names: list[str]) -> DataTable:
    """The samples that fit worst first, as many as the page can hold."""
    far = np.asarray(run.model.residuals_)
    rows = np.argsort(-far, kind="stable")[:MAX_SAMPLES]
    called = run.table.samples
    if run.shape is not None and run.table.sample_names is None:
        called = np.array([f"row {i // run.shape[1]}, column {i % run.shape[1]}" for i in range(len(far))])
    out = np.asarray(run.model.outliers_)
    out = out if len(out) == len(far) else np.zeros(len(far), bool)
    cells = [
        [str(called[i]), *(float(f"{v:.3g}") for v in run.model.embedding_[i]), float(f"{far[i]:.3g}"), "yes" if out[i] else ""]
        for i in rows
    ]
    return DataTable(["sample", *names, "distance", "left out"], cells)
