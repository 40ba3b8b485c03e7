"""What a report says: sentences, figures and tables, from a run."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go

from conecollapse import plots
from conecollapse._errors import ConeCollapseError
from conecollapse._types import AnyArray, FloatArray
from conecollapse.clusters import NO_CLUSTER, cluster_sizes, largest_elsewhere
from conecollapse.geometry.cone import Cone
from conecollapse.metrics import adjusted_rand_score, clustering_accuracy, normalized_mutual_info_score, purity_score
from conecollapse.plots.clusters import distances, memberships
from conecollapse.plots.curves import outlier_fence
from conecollapse.plots.style import colour

TOP = 8  # features and rays named for each cluster
TYPICAL = 4  # samples named, or shown, for each cluster
SNIPPET = 240  # characters of a typical text
CHARTED = 12  # with more clusters than this, features are listed but not drawn as bars
PATH_RAYS, PATH_CELLS = 40, 2e8  # rays of the epsilon path, and the size of table up to which it is drawn
SAFE_TO_SQUARE = (1e-100, 1e100)
MAX_RAYS = 5000  # rows of the table of rays


@dataclass(frozen=True)
class DataTable:
    """A table that the page sorts and searches."""

    head: list[str]
    rows: list[list[Any]]


@dataclass(frozen=True)
class Cluster:
    """What the page says about one cluster."""

    number: int
    size: int
    share: float
    colour: str
    features: list[str]
    rays: list[str]
    typical: list[str]
    snippets: list[tuple[str, str]]  # of texts: the name of a typical document, and how it begins
    figure: str | None
    classes: str  # known labels inside it, when there are any


@dataclass
class Contents:
    """The whole content; figures and tables by the name of their place on the page."""

    title: str
    sentence: str
    facts: list[tuple[str, str]] = field(default_factory=list)
    clusters: list[Cluster] = field(default_factory=list)
    figures: dict[str, go.Figure] = field(default_factory=dict)
    tables: dict[str, DataTable] = field(default_factory=dict)
    scores: list[tuple[str, str]] = field(default_factory=list)
    outliers: str = ""
    epsilon: str = ""
    rank: str = ""
    view: str = ""
    parameters: list[tuple[str, str]] = field(default_factory=list)


def contents(run: Any) -> Contents:
    """Collect what the page of ``run`` shows."""
    shares = memberships(run.model, run.table.X)
    run = _in_range(run)
    table, model = run.table, run.model
    X, labels = table.X, np.asarray(run.labels)
    samples = _names(table.sample_names, X.shape[0], "sample")
    features = _names(table.feature_names, X.shape[1], "feature")
    far = distances(X, labels, model.profiles_)
    found = Contents(title=Path(str(table.source)).name, sentence=_sentence(run))
    found.facts = _facts(run)
    found.figures["map"] = plots.cluster_map(model, X, names=samples, target=run.target, shares=shares, values=far)
    found.figures["heat"] = plots.heat_map(model, X, names=samples, feature_names=features)
    found.clusters = [_cluster(run, k, samples, features, far, found.figures) for k in range(len(model.profiles_))]
    if run.image_shape is not None:
        titles = [f"cluster {k}" for k in range(len(model.profiles_))]
        found.figures["images"] = plots.images(model.profiles_, run.image_shape, titles=titles)
    _add_cone(found, run, labels, features)
    if run.target is not None:
        found.scores = _scores(run.target, labels)
        found.figures["confusion"] = plots.confusion(run.target, labels)
    fence = outlier_fence(far)
    found.outliers = _outliers(far, fence, samples)
    found.figures["residuals"] = plots.residuals(model, X, values=far)
    found.tables["samples"] = _sample_table(run, samples, labels, shares, far, fence)
    found.tables["rays"] = _ray_table(run, features)
    if len(model.history_) > 1:
        found.figures["convergence"] = plots.convergence(model)
    if run.rank is not None:
        found.figures["rank"] = plots.rank_selection(run.rank)
        found.rank = run.rank.reason
    if hasattr(model, "view_"):
        others = ", ".join(f"{name} {value:.3g}" for name, value in model.eigengap_ratios_.items())
        found.view = f"Samples were compared in the view “{model.view_}”, whose graph falls most clearly into clusters"
        found.view += f" (eigengap ratios: {others}; smaller is clearer)."
    found.parameters = [
        (name, str(value)) for name, value in {**run.parameters, **{f"time, {k}": f"{v:.2f} s" for k, v in run.timings.items()}}.items()
    ]
    return found


def snippet(text: str) -> str:
    """How a text begins, in one line.

    Examples
    --------
    >>> snippet("One\\n two."), len(snippet("word " * 100)) <= SNIPPET + 2
    ('One two.', True)
    """
    line = " ".join(text.split())
    return line if len(line) <= SNIPPET else f"{line[:SNIPPET].rsplit(' ', 1)[0]} …"


def _in_range(run: Any) -> Any:
    """The run in float64, and in units of its largest value where squares of the values would be out of range."""
    peak = float(run.table.X.max())
    unit = 1.0 if SAFE_TO_SQUARE[0] < peak < SAFE_TO_SQUARE[1] else peak
    if unit == 1.0 and run.table.X.dtype == np.float64:
        return run
    model = copy(run.model)
    model.profiles_ = np.asarray(model.profiles_, np.float64) / unit
    return replace(run, model=model, table=replace(run.table, X=run.table.X.astype(np.float64) / unit))


def _names(names: Any, count: int, what: str) -> AnyArray:
    return np.array([f"{what} {i}" for i in range(count)]) if names is None else np.asarray(names).astype(str)


def _sentence(run: Any) -> str:
    n, m = run.table.X.shape
    sizes = cluster_sizes(run.labels, len(run.model.profiles_))
    left = n - int(sizes.sum())
    none = f" {left} belong{'s' if left == 1 else ''} to no cluster: their encoding is zero." if left else ""
    spread = f"of {sizes.min()} to {sizes.max()} samples" if sizes.min() != sizes.max() else f"of {sizes.max()} samples each"
    rays, points = run.cone.n_rays, m - len(run.cone.zero_points)
    share = "every one of the" if rays == points else f"{rays} of the"
    rest = "none is a mixture of others" if rays == points else "all others are mixtures of these"
    if len(run.cone.open_points):
        share, rest = f"{rays} of the", f"all others are mixtures of these, of which {len(run.cone.open_points)} may be mixtures too"
    return (
        f"The {n} samples fall into {len(sizes)} clusters {spread}.{none} "
        f"Of {m} features, {share} {points} that are not empty are extreme: {rest}."
    )


def _facts(run: Any) -> list[tuple[str, str]]:
    n, m = run.table.X.shape
    facts = [
        ("samples", f"{n:,}"),
        ("features", f"{m:,}"),
        ("clusters", str(len(run.model.profiles_))),
        ("extreme rays", f"{run.cone.n_rays:,}" + (f" ({left:,} open)" if (left := len(run.cone.open_points)) else "")),
    ]
    if run.target is not None:
        facts.append(("purity", f"{purity_score(run.target, run.labels):.3f}"))
    return facts


def _cluster(run: Any, k: int, samples: AnyArray, features: AnyArray, far: FloatArray, figures: dict[str, go.Figure]) -> Cluster:
    model, labels = run.model, np.asarray(run.labels)
    members = np.flatnonzero(labels == k)
    lead = _lead(model.profiles_, k)
    leading = np.argsort(-lead, kind="stable")
    rays = run.cone.ray_indices[np.argsort(-lead[run.cone.ray_indices], kind="stable")][:TOP]
    typical = members[np.argsort(far[members], kind="stable")][:TYPICAL]
    name = None
    if run.image_shape is not None and len(typical):
        name = f"cluster-{k}"
        figures[name] = plots.images(run.table.X[typical], run.image_shape, titles=samples[typical])
    elif len(model.profiles_) <= CHARTED and len(members):
        name = f"cluster-{k}"
        figures[name] = plots.top_features(model, k, TOP, feature_names=features)
    classes = ""
    if run.target is not None and len(members):
        values, counts = np.unique(np.asarray(run.target).astype(str)[members], return_counts=True)
        classes = ", ".join(f"{values[i]} ({counts[i]})" for i in np.argsort(-counts, kind="stable")[:TYPICAL])
    return Cluster(
        number=k,
        size=len(members),
        share=len(members) / len(labels),
        colour=colour(k),
        features=[str(features[j]) for j in leading[:TOP] if lead[j] > 0],
        rays=[str(features[j]) for j in rays if lead[j] > 0],
        typical=[str(samples[i]) for i in typical] if run.table.texts is None else [],
        snippets=[] if run.table.texts is None else [(str(samples[i]), snippet(run.table.texts[i])) for i in typical],
        figure=name,
        classes=classes,
    )


def _lead(profiles: AnyArray, k: int) -> FloatArray:
    """Mean inside a cluster minus the largest mean elsewhere."""
    return np.asarray(profiles[k] - largest_elsewhere(profiles, k), np.float64)


def _add_cone(found: Contents, run: Any, labels: AnyArray, features: AnyArray) -> None:
    X = run.table.X
    try:
        P, kept, axes = plots.shadow(X, labels)
        names = features[kept]
        found.figures["collapse"] = plots.collapse_animation(P, names=names, axes=axes)
        found.figures["cone"] = plots.cone(P, names=names, axes=axes)
        found.figures["cap"] = plots.spherical_cap(P, axes=axes)
    except ConeCollapseError as error:  # fewer than three samples
        found.epsilon = f"The cone is not drawn: {error}"
    if X.shape[0] * X.shape[1] <= PATH_CELLS or hasattr(X, "nnz"):
        few = Cone.approximate(X.T, max_residual=1e-3, max_rays=min(PATH_RAYS, run.cone.n_rays), weighting="mass")
        found.figures["epsilon"] = plots.epsilon_path(few)
        found.epsilon += f"{few.n_rays} rays, chosen by mass, come within {few.tol:.3g} of every feature (of the length of the longest)."


def _scores(target: Any, labels: AnyArray) -> list[tuple[str, str]]:
    measures = {
        "purity": purity_score,
        "accuracy (one cluster for each label)": clustering_accuracy,
        "normalized mutual information": normalized_mutual_info_score,
        "adjusted Rand index": adjusted_rand_score,
    }
    return [(name, f"{measure(np.asarray(target), labels):.3f}") for name, measure in measures.items()]


def _outliers(far: FloatArray, fence: float, samples: AnyArray) -> str:
    which = np.flatnonzero(far > fence)
    if not len(which):
        return "No sample is far from its cluster, by Tukey's rule (further above the upper quartile than 1.5 times the quartiles' spread)."
    worst = which[np.argsort(-far[which], kind="stable")][:TOP]
    more = f" and {len(which) - len(worst)} more" if len(which) > len(worst) else ""
    return f"{len(which)} samples are far from their cluster by Tukey's rule: {', '.join(samples[worst])}{more}."


def _sample_table(run: Any, samples: AnyArray, labels: AnyArray, shares: FloatArray, far: FloatArray, fence: float) -> DataTable:
    head = ["sample", "cluster", "share of its cluster", "distance", "outlier"] + ([] if run.target is None else ["known label"])
    own = np.where(labels == NO_CLUSTER, 0.0, shares[np.arange(len(labels)), labels])
    known = None if run.target is None else np.asarray(run.target).astype(str)
    clusters = ["none" if label == NO_CLUSTER else int(label) for label in labels]
    rows = [
        [str(samples[i]), clusters[i], round(float(own[i]), 3), round(float(far[i]), 3), "yes" if far[i] > fence else ""]
        + ([] if known is None else [str(known[i])])
        for i in range(len(labels))
    ]
    return DataTable(head, rows)


def _ray_table(run: Any, features: AnyArray) -> DataTable:
    X, rays, profiles = run.table.X, run.cone.ray_indices, np.asarray(run.model.profiles_)
    squares = np.asarray(X.multiply(X).sum(axis=0)).ravel() if hasattr(X, "multiply") else np.einsum("ij,ij->j", X, X)
    share = squares / max(float(squares.sum()), np.finfo(float).tiny)
    groups = run.cone.groups
    order = np.argsort(-share[rays], kind="stable")[:MAX_RAYS]
    rows = [[str(features[rays[i]]), int(profiles[:, rays[i]].argmax()), float(f"{share[rays[i]]:.3g}"), len(groups[i])] for i in order]
    return DataTable(["feature", "strongest in cluster", "share of the squares", "features in this direction"], rows)
