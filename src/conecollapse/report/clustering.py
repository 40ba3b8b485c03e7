"""The page of `conecollapse cluster`: the clusters, the ordered table, the cone, known labels,
samples that fit badly, and the rays."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from conecollapse import plots
from conecollapse._errors import ConeCollapseError
from conecollapse._types import AnyArray, FloatArray
from conecollapse.clusters import NO_CLUSTER, cluster_sizes, largest_elsewhere
from conecollapse.geometry.cone import Cone
from conecollapse.metrics import (
    adjusted_rand_score,
    clustering_accuracy,
    normalized_mutual_info_score,
    purity_score,
)
from conecollapse.plots.clusters import distances, memberships
from conecollapse.plots.curves import outlier_fence
from conecollapse.plots.style import colour
from conecollapse.report.parts import (
    Bar,
    Card,
    Cards,
    Chart,
    Page,
    Pairs,
    Part,
    Picture,
    Pictures,
    Section,
    Table,
    Text,
    how_it_was_made,
    listed,
    short,
)
from conecollapse.report.pictures import image

TOP = 8  # features and rays named for each cluster
LEADING = 3  # features named in the opening sentences
TYPICAL = 4  # samples named, or shown, for each cluster
SNIPPET = 240  # characters of a typical text
# rays of the epsilon path, and the size of table up to which it is drawn
PATH_RAYS, PATH_CELLS = 40, 2e8
SAFE_TO_SQUARE = (1e-100, 1e100)
MAX_ROWS = 5000  # of a table

MAP = (
    "Each dot is a sample. At the corner of its cluster it is typical and belongs there alone;"
    " nearer to the middle it is less typical, and between corners it shares features with other"
    " clusters. Clusters that are alike are neighbours. Dots are spread a little so that none hides"
    " another."
)
HEAT = (
    "Rows are samples, ordered by cluster; columns are the features that distinguish the clusters."
    " Bright is large. Clear clusters show as blocks."
)
CONE = Markup(
    "Every feature is a point: its values are its coordinates. All mixtures of features fill a"
    " cone, and its corners, the <em>extreme rays</em>, are the features that are not mixtures of"
    " others. To find them, begin with the largest cone there is, tilt its sides towards the data,"
    " and keep every feature that would fall outside."
)
SLICE = (
    "Here the samples are joined in three groups, so that the cone has three dimensions, and it is"
    " cut by a plane: each feature is a dot, nearer to the corner of a group the larger its share"
    " there, and larger the larger its values. The outer triangle is the orthant. A mixture of"
    " features lies between them, so that all dots lie inside the polygon of the rays."
)
DISTANCE = (
    "The distance is the sine of the angle between a sample and the mean of its cluster: 0 means"
    " the same but for scale, 1 nothing in common. The share, in the table, is how much of a"
    " sample's encoding its cluster has."
)
RAYS = Markup(
    "The features that generate all others, the heaviest first, with the cluster in which their"
    " mean is largest. That they generate every feature, and that {}, is proven by"
    " <code>certificate.npz</code> beside this page; <code>conecollapse verify</code> checks it"
    " without the solver."
)


@dataclass(frozen=True)
class Subject:
    """A run with what several parts of its page need."""

    run: Any  # in range, see `_in_range`
    labels: AnyArray
    samples: AnyArray  # names
    features: AnyArray
    shares: FloatArray
    far: FloatArray  # distances of the samples from the means of their clusters

    @property
    def n_clusters(self) -> int:
        return len(self.run.model.profiles_)


def contents(run: Any) -> Page:
    """Collect what the page of ``run`` shows."""
    shares = memberships(run.model, run.table.X)
    run = _in_range(run)
    table, model, labels = run.table, run.model, np.asarray(run.labels)
    samples = _names(table.sample_names, table.n_samples, "sample")
    features = _names(table.feature_names, table.n_features, "feature")
    found = Subject(
        run, labels, samples, features, shares, distances(table.X, labels, model.profiles_)
    )
    dots = plots.cluster_map(
        model, table.X, names=samples, target=run.target, shares=shares, values=found.far
    )
    return Page(
        title=Path(str(table.source)).name,
        about="clusters and rays",
        sentences=_sentences(found),
        picture=Chart("map", dots, MAP),
        facts=_facts(run),
        sections=[
            _clusters(found),
            Section("table", "The table, in order", [_heat(found)]),
            _cone(found),
            *([] if run.target is None else [_known(run, labels)]),
            _outliers(found),
            Section(
                "rays", "The extreme rays", [Text(RAYS.format(_needed(run))), _ray_table(found)]
            ),
            _how(run),
        ],
    )


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
    """The run in float64, and in units of its largest value where squares of the values would be
    out of range."""
    peak = float(run.table.X.max())
    unit = 1.0 if SAFE_TO_SQUARE[0] < peak < SAFE_TO_SQUARE[1] else peak
    if unit == 1.0 and run.table.X.dtype == np.float64:
        return run
    model = copy(run.model)
    model.profiles_ = np.asarray(model.profiles_, np.float64) / unit
    return replace(
        run, model=model, table=replace(run.table, X=run.table.X.astype(np.float64) / unit)
    )


def _names(names: Any, count: int, what: str) -> AnyArray:
    return (
        np.array([f"{what} {i}" for i in range(count)])
        if names is None
        else np.asarray(names).astype(str)
    )


def _sentences(found: Subject) -> list[str]:
    """The clusters; what tells the largest apart, or how it agrees with the known labels; the
    rays."""
    run, sizes = found.run, cluster_sizes(found.labels, found.n_clusters)
    left = len(found.labels) - int(sizes.sum())
    none = (
        f", and {left} belong{'s' if left == 1 else ''} to none because the encoding is zero"
        if left
        else ""
    )
    spread = (
        f"of {sizes.min()} to {sizes.max()} samples"
        if sizes.min() != sizes.max()
        else f"of {sizes.max()} samples each"
    )
    if len(sizes) == 1:
        spread = f"of {sizes[0]} samples"
    clusters = (
        f"The {len(found.labels)} samples fall into {len(sizes)}"
        f" cluster{'s' if len(sizes) > 1 else ''} {spread}{none}."
    )
    one = int(sizes.argmax())
    called = f"Cluster {one}" if sizes.min() == sizes.max() else f"The largest, cluster {one},"
    return [clusters, _second_sentence(found, one, called), _ray_sentence(run)]


def _second_sentence(found: Subject, one: int, called: str) -> str:
    if found.run.target is not None:
        purity = purity_score(found.run.target, found.labels)
        return f"{purity:.1%} of the samples have the most frequent known label of their cluster."
    lead = _lead(found.run.model.profiles_, one)
    top = [
        str(found.features[j]) for j in np.argsort(-lead, kind="stable")[:LEADING] if lead[j] > 0
    ]
    return (
        f"{called} has"
        f" {f'the largest means of {listed(top)}' if top else 'no feature with its largest mean'}."
    )


def _ray_sentence(run: Any) -> str:
    rays, points, left = (
        run.cone.n_rays,
        run.table.n_features - len(run.cone.zero_points),
        len(run.cone.open_points),
    )
    features = f"{points} features{' that are not empty' if len(run.cone.zero_points) else ''}"
    if left:
        return (
            f"{rays} of the {features} generate all others, and {left} of them may be mixtures of"
            " the rest."
        )
    if rays == points:
        return f"All {features} are extreme rays: none is a mixture of others."
    return f"{rays} of the {features} are extreme rays: all others are mixtures of these."


def _needed(run: Any) -> str:
    left = len(run.cone.open_points)
    return (
        f"none but the {left} open ones can be left out" if left else "none of them can be left out"
    )


def _facts(run: Any) -> list[tuple[str, str]]:
    facts = [
        ("samples", f"{run.table.n_samples:,}"),
        ("features", f"{run.table.n_features:,}"),
        ("clusters", str(len(run.model.profiles_))),
        (
            "extreme rays",
            f"{run.cone.n_rays:,}"
            + (f" ({left:,} open)" if (left := len(run.cone.open_points)) else ""),
        ),
    ]
    if run.target is not None:
        facts.append(("purity", f"{purity_score(run.target, run.labels):.3f}"))
    return facts


def _clusters(found: Subject) -> Section:
    run, model = found.run, found.run.model
    parts: list[Part] = []
    if hasattr(model, "view_"):
        others = ", ".join(f"{name} {value:.3g}" for name, value in model.eigengap_ratios_.items())
        view = (
            f"Samples were compared in the view “{model.view_}”, whose graph falls most clearly"
            " into clusters"
        )
        parts.append(Text(f"{view} (eigengap ratios: {others}; smaller is clearer)."))
    if run.image_shape is not None:
        parts.append(Text("The mean of each cluster:"))
        means = [
            Picture(f"cluster {k}", image(row.reshape(run.image_shape), scale="gray"))
            for k, row in enumerate(model.profiles_)
        ]
        parts.append(Pictures(means))
    return Section(
        "clusters",
        "The clusters",
        [*parts, Cards([_card(found, k) for k in range(found.n_clusters)])],
    )


def _card(found: Subject, k: int) -> Card:
    run, members = found.run, np.flatnonzero(found.labels == k)
    lead = _lead(run.model.profiles_, k)
    leading = [j for j in np.argsort(-lead, kind="stable")[:TOP] if lead[j] > 0]
    by_lead = run.cone.ray_indices[np.argsort(-lead[run.cone.ray_indices], kind="stable")][:TOP]
    rays = [j for j in by_lead if lead[j] > 0]
    typical = members[np.argsort(found.far[members], kind="stable")][:TYPICAL]
    texts = [
        f"{len(members)} samples, {len(members) / len(found.labels):.0%}{_classes(run, members)}"
    ]
    if not leading:
        texts.append("No feature has its largest mean in this cluster.")
    if rays and rays == leading:
        texts.append("The features below are extreme rays." if run.image_shape is None else "")
    elif rays:
        texts.append(
            Markup("<b>Leading extreme rays:</b> {}").format(", ".join(found.features[rays]))
        )
    pictures, items = None, []
    if run.image_shape is not None:
        rows = run.table.X[typical]
        rows = rows.toarray() if hasattr(rows, "toarray") else rows
        named = zip(found.samples[typical], rows, strict=True)
        pictures = Pictures(
            [
                Picture(str(name), image(row.reshape(run.image_shape), scale="gray"))
                for name, row in named
            ]
        )
        texts.append(Markup("<b>Most typical samples:</b>"))
    elif run.table.texts is not None:
        items = [(str(found.samples[i]), snippet(run.table.texts[i])) for i in typical]
        texts.append(Markup("<b>Most typical texts:</b>"))
    else:
        texts.append(
            Markup("<b>Most typical samples:</b> {}").format(", ".join(found.samples[typical]))
        )
    bars = _bars(run.model.profiles_, k, leading, found.features) if pictures is None else []
    legend = ("mean in the cluster", "largest mean elsewhere") if bars else None
    return Card(
        f"Cluster {k}",
        [words for words in texts if words],
        bars,
        legend,
        pictures,
        items,
        colour(k),
    )


def _classes(run: Any, members: AnyArray) -> str:
    """The known labels among the members of a cluster, the most frequent first."""
    if run.target is None or not len(members):
        return ""
    values, counts = np.unique(np.asarray(run.target).astype(str)[members], return_counts=True)
    return "; known as " + ", ".join(
        f"{values[i]} ({counts[i]})" for i in np.argsort(-counts, kind="stable")[:TYPICAL]
    )


def _bars(profiles: AnyArray, k: int, features: list[Any], names: AnyArray) -> list[Bar]:
    own = np.asarray(profiles[k], np.float64)
    rival = np.zeros_like(own) + largest_elsewhere(profiles, k)
    widest = float(own[features].max(initial=0.0)) or 1.0
    return [Bar(str(names[j]), short(own[j]), own[j] / widest, rival[j] / widest) for j in features]


def _lead(profiles: AnyArray, k: int) -> FloatArray:
    """Mean inside a cluster minus the largest mean elsewhere."""
    return np.asarray(profiles[k] - largest_elsewhere(profiles, k), np.float64)


def _heat(found: Subject) -> Chart:
    return Chart(
        "heat",
        plots.heat_map(
            found.run.model, found.run.table.X, names=found.samples, feature_names=found.features
        ),
        HEAT,
    )


def _cone(found: Subject) -> Section:
    X = found.run.table.X
    parts: list[Part] = [Text(CONE)]
    try:
        P, kept, axes = plots.shadow(X, found.labels)
        parts.append(
            Chart(
                "collapse",
                plots.collapse_animation(P, names=found.features[kept], axes=axes),
                SLICE,
            )
        )
    except ConeCollapseError as error:  # fewer than three samples
        parts.append(Text(f"The cone is not drawn: {error}"))
    if X.shape[0] * X.shape[1] <= PATH_CELLS or hasattr(X, "nnz"):
        few = Cone.approximate(
            X.T, max_residual=1e-3, max_rays=min(PATH_RAYS, found.run.cone.n_rays), weighting="mass"
        )
        near = (
            f"{few.n_rays} rays, chosen by mass, come within {few.tol:.3g} of every feature (of the"
            " length of the longest)."
        )
        parts.append(
            Chart("epsilon", plots.epsilon_path(few), f"How few rays would nearly do? {near}")
        )
    return Section("cone", "The cone", parts)


def _known(run: Any, labels: AnyArray) -> Section:
    measures = {
        "purity": purity_score,
        "accuracy (one cluster for each label)": clustering_accuracy,
        "normalized mutual information": normalized_mutual_info_score,
        "adjusted Rand index": adjusted_rand_score,
    }
    scores = Pairs(
        [
            (name, f"{measure(np.asarray(run.target), labels):.3f}")
            for name, measure in measures.items()
        ]
    )
    order = "Clusters are ordered so that as many samples as possible lie on the diagonal."
    parts: list[Part] = [
        Text("True labels are used only for scoring."),
        scores,
        Chart("confusion", plots.confusion(run.target, labels), order),
    ]
    return Section("labels", "Against the known labels", parts)


def _outliers(found: Subject) -> Section:
    fence = outlier_fence(found.far)
    which = np.flatnonzero(found.far > fence)
    words = (
        "No sample is far from its cluster, by Tukey's rule (further above the upper quartile than"
        " 1.5 times the quartiles' spread)."
    )
    if len(which):
        worst = which[np.argsort(-found.far[which], kind="stable")][:TOP]
        more = f" and {len(which) - len(worst)} more" if len(which) > len(worst) else ""
        verb = "samples are far from their" if len(which) > 1 else "sample is far from its"
        words = (
            f"{len(which)} {verb} cluster by Tukey's rule: {', '.join(found.samples[worst])}{more}."
        )
    spread = Chart(
        "residuals", plots.residuals(found.run.model, found.run.table.X, values=found.far), DISTANCE
    )
    return Section(
        "outliers",
        "Samples, and those that fit badly",
        [Text(words), spread, *_sample_table(found, fence)],
    )


def _sample_table(found: Subject, fence: float) -> list[Part]:
    labels, target = found.labels, found.run.target
    head = ["sample", "cluster", "share", "distance", "outlier"] + (
        [] if target is None else ["known as"]
    )
    own = np.where(labels == NO_CLUSTER, 0.0, found.shares[np.arange(len(labels)), labels])
    known = None if target is None else np.asarray(target).astype(str)
    rows = [
        [
            str(found.samples[i]),
            "none" if labels[i] == NO_CLUSTER else int(labels[i]),
            round(float(own[i]), 3),
            round(float(found.far[i]), 3),
            "yes" if found.far[i] > fence else "",
            *([] if known is None else [str(known[i])]),
        ]
        for i in np.sort(np.argsort(-found.far, kind="stable")[:MAX_ROWS])
    ]
    cut = (
        f"The {MAX_ROWS} samples that are furthest from the means of their clusters; labels.csv has"
        " all."
    )
    return [*([Text(cut)] if len(rows) < len(labels) else []), Table("samples", head, rows)]


def _ray_table(found: Subject) -> Table:
    X, rays, profiles = (
        found.run.table.X,
        found.run.cone.ray_indices,
        np.asarray(found.run.model.profiles_),
    )
    squares = (
        np.asarray(X.multiply(X).sum(axis=0)).ravel()
        if hasattr(X, "multiply")
        else np.einsum("ij,ij->j", X, X)
    )
    share = squares / max(float(squares.sum()), np.finfo(float).tiny)
    groups = found.run.cone.groups
    order = np.argsort(-share[rays], kind="stable")[:MAX_ROWS]
    rows = [
        [
            str(found.features[rays[i]]),
            int(profiles[:, rays[i]].argmax()),
            float(f"{share[rays[i]]:.3g}"),
            len(groups[i]),
        ]
        for i in order
    ]
    return Table(
        "rays",
        ["feature", "strongest in cluster", "share of the squares", "features in this direction"],
        rows,
    )


def _how(run: Any) -> Section:
    parts: list[Part] = []
    if run.rank is not None:
        parts.append(
            Chart(
                "rank", plots.rank_selection(run.rank), f"The number of clusters: {run.rank.reason}"
            )
        )
    if len(run.model.history_) > 1:
        parts.append(
            Chart(
                "convergence", plots.convergence(run.model), "The objective after each iteration."
            )
        )
    prepared = {name: value for name, value in run.table.preparation.items() if value}
    return how_it_was_made({**run.parameters, **prepared}, run.timings, *parts)
