"""The page of `conecollapse cluster`: the clusters, the ordered table, known labels, samples that
fit badly, and the rays where they were asked for. It draws what the run holds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from conecollapse import plots
from conecollapse._errors import ConeCollapseError, first_of
from conecollapse._types import AnyArray, FloatArray
from conecollapse.clusters import NO_CLUSTER, cluster_sizes, largest_elsewhere
from conecollapse.metrics import (
    adjusted_rand_score,
    clustering_accuracy,
    normalized_mutual_info_score,
    purity_score,
)
from conecollapse.plots.clusters import distances, draw_heat_map, draw_map, on_embedding
from conecollapse.plots.curves import draw_curve, draw_residuals, outlier_fence
from conecollapse.plots.style import colour
from conecollapse.report.parts import (
    MAX_ROWS,
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
    in_words,
    listed,
    short,
)
from conecollapse.report.pictures import image
from conecollapse.runs.guide import guide_sentence

TOP = 8  # features and rays named for each cluster
LEADING = 3  # features named in the opening sentences
TYPICAL = 4  # samples named, or shown, for each cluster
SNIPPET = 240  # characters of a typical text
LARGE = 1e100  # squares of numbers beyond it are none; the page is then in units of the largest

MAP = (
    "Each dot is a sample. At the corner of its cluster it is typical and belongs there alone;"
    " nearer to the middle it is less typical, and between corners it shares features with other"
    " clusters. Clusters that are alike are neighbours. The corners are the clusters themselves, so"
    " that separation is built in, whatever the data. Dots are spread a little so that none hides"
    " another."
)
LAYOUT = (
    "Each dot is a sample, at its place in {}, which knows nothing of the clusters; colours are the"
    " clusters. Where one colour lies in several places, or colours are mixed, the clusters are in"
    " doubt."
)
HEAT = (
    "Rows are samples, ordered by cluster; columns are the features that distinguish the clusters."
    " Bright is large. Clear clusters show as blocks."
)
SLICE = (
    "Every feature is a point, and the rays are the features that are not mixtures of others. Here"
    " the samples are joined in three groups, so that the cone has three dimensions, and it is cut"
    " by a plane: each feature is a dot, nearer to the corner of a group the larger its share"
    " there, and larger the larger its values. Mixtures lie inside the polygon of the rays."
)
DISTANCE = (
    "The distance is the sine of the angle between a sample and the mean of its cluster: 0 means"
    " the same but for scale, 1 nothing in common. The share, in the table, is how much of a"
    " sample its cluster explains."
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

    run: Any
    lead: FloatArray  # (r, n_features): means minus the largest means elsewhere
    far: FloatArray  # distances of the samples from the means of their clusters

    @property
    def samples(self) -> AnyArray:
        """Their names, or "sample 0" and so on."""
        table = self.run.table
        return _named(table.sample_names, table.n_samples, "sample")

    @property
    def features(self) -> AnyArray:
        """Their names, or "feature 0" and so on."""
        table = self.run.table
        return _named(table.feature_names, table.n_features, "feature")

    def leading(self, k: int, count: int) -> list[int]:
        """The features whose means lead the other clusters most."""
        if self.run.table.texts is None:
            order = np.argsort(-self.lead[k], kind="stable")[:count]
            return [j for j in order if self.lead[k, j] > 0]
        return [top.column for top in self.run.markers(count)[k]]

    def called(self, words: str) -> str:
        """A sentence about samples and features in the words of what they are."""
        return in_words(words, self.run.table)


def contents(run: Any) -> Page:
    """Collect what the page of ``run`` shows."""
    peak = float(run.table.X.max())
    if not 1 / LARGE < peak < LARGE:
        run = replace(run, table=replace(run.table, X=run.table.X.astype(np.float64) / peak))
    table, means, labels = run.table, run.means, run.labels
    lead = np.array([means[k] - largest_elsewhere(means, k) for k in range(len(means))])
    found = Subject(run, lead, distances(table.X, labels, means))
    dots = draw_map(labels, means, run.shares, found.far, names=found.samples, target=run.target)
    heat = draw_heat_map(labels, means, table.X, found.samples, found.features)
    wheel = Chart("map", dots, found.called(MAP))
    first: Part = wheel
    if run.layout is not None:
        rows = run.layout.rows
        target = None if run.target is None else np.asarray(run.target)[rows]
        drawn = on_embedding(
            labels[rows],
            run.n_clusters,
            run.layout.places,
            found.samples[rows],
            target,
            run.shares[rows],
            run.names,
        )
        first = Chart("layout", drawn, found.called(LAYOUT.format(run.layout.name)))
    wheels = [] if run.layout is None else [Section("wheel", "Between the clusters", [wheel])]
    return Page(
        title=Path(str(table.source)).name,
        about="clusters" if run.cone is None else "clusters and rays",
        sentences=[found.called(sentence) for sentence in _sentences(found)],
        picture=first,
        facts=[],
        sections=[
            _clusters(found),
            *wheels,
            Section("table", "The table, in order", [Chart("heat", heat, found.called(HEAT))]),
            *([] if run.target is None else [_known(run)]),
            _outliers(found),
            *([] if run.cone is None else [_rays(found)]),
            _how(found),
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


def _named(names: Any, count: int, what: str) -> AnyArray:
    numbers = np.array([f"{what} {i}" for i in range(count)])
    return numbers if names is None else np.asarray(names).astype(str)


def _sentences(found: Subject) -> list[str]:
    """The clusters; what tells the largest apart, or how it agrees with the known labels; the
    rays."""
    run, sizes = found.run, cluster_sizes(found.run.labels, found.run.n_clusters)
    left, count = len(run.labels) - int(sizes.sum()), len(sizes)
    verb = f"belong{'s' if left == 1 else ''} to none because the encoding is zero"
    spread = f"{sizes.min()} to {sizes.max()} samples"
    if sizes.min() == sizes.max():
        spread = f"{sizes.max()} samples{' each' if count > 1 else ''}"
    clusters = (
        f"The {len(run.labels)} samples fall into {count} cluster{'s' if count > 1 else ''} of"
        f" {spread}{f', and {left} {verb}' if left else ''}."
    )
    rays = [] if run.cone is None else [_ray_sentence(run)]
    guided = [] if run.guide is None else [guide_sentence(run.facts()["guide"])]
    return [clusters, _second_sentence(found, sizes), *guided, *rays]


def _second_sentence(found: Subject, sizes: AnyArray) -> str:
    run, k = found.run, int(sizes.argmax())
    if run.target is not None:
        purity = purity_score(run.target[run.scored], run.labels[run.scored])
        which = "samples" if run.guide is None else "samples without a label that guides"
        return f"{purity:.1%} of the {which} have the most frequent known label of their cluster."
    called = f"Cluster {k}" if sizes.min() == sizes.max() else f"The largest, cluster {k},"
    top = [str(found.features[j]) for j in found.leading(k, LEADING)]
    has = f"the largest means of {listed(top)}" if top else "no feature with its largest mean"
    return f"{called} has {has}."


def _ray_sentence(run: Any) -> str:
    rays, empty, left = run.cone.n_rays, len(run.cone.zero_points), len(run.cone.open_points)
    points = run.table.n_features - empty
    features = f"{points} features{' that are not empty' if empty else ''}"
    if left:
        return (
            f"{rays} of the {features} generate all others, and {left} of them may be mixtures of"
            " the rest."
        )
    if rays == points:
        return f"All {features} are extreme rays: none is a mixture of others."
    return f"{rays} of the {features} are extreme rays: all others are mixtures of these."


def _facts(run: Any) -> list[tuple[str, str]]:
    facts = [
        ("samples", f"{run.table.n_samples:,}"),
        ("features", f"{run.table.n_features:,}"),
        ("clusters", str(run.n_clusters)),
    ]
    if run.cone is not None:
        left = len(run.cone.open_points)
        facts.append(("extreme rays", f"{run.cone.n_rays:,}{f' ({left:,} open)' if left else ''}"))
    if run.target is not None:
        facts.append(
            ("purity", f"{purity_score(run.target[run.scored], run.labels[run.scored]):.3f}")
        )
    return facts


def _clusters(found: Subject) -> Section:
    run = found.run
    parts: list[Part] = []
    if run.status["view"]:
        parts.append(Text(found.called(run.status["view"])))
    if run.image_shape is not None:
        names = [f"cluster {k}" for k in range(run.n_clusters)]
        parts += [Text("The mean of each cluster:"), _pictures(names, run.means, run.image_shape)]
    cards = Cards([_card(found, k) for k in range(run.n_clusters)])
    return Section("clusters", "The clusters", [*parts, cards])


def _pictures(names: Any, rows: Any, shape: tuple[int, int]) -> Pictures:
    rows = rows.toarray() if hasattr(rows, "toarray") else rows
    drawn = (image(row.reshape(shape), scale="gray") for row in rows)
    return Pictures([Picture(str(name), one) for name, one in zip(names, drawn, strict=True)])


def _card(found: Subject, k: int) -> Card:
    run, members = found.run, np.flatnonzero(found.run.labels == k)
    share = len(members) / len(run.labels)
    texts = [f"{len(members)} samples, {share:.0%}{_classes(run, members)}"]
    leading = found.leading(k, TOP)
    if not leading:
        texts.append("No feature has its largest mean in this cluster.")
    if run.cone is not None:
        rays = run.cone.ray_indices[found.lead[k, run.cone.ray_indices] > 0]
        rays = found.features[rays[np.argsort(-found.lead[k, rays], kind="stable")][:TOP]]
        texts.append(Markup("<b>Leading extreme rays:</b> {}").format(", ".join(rays) or "none"))
    typical = members[np.argsort(found.far[members], kind="stable")][:TYPICAL]
    names = found.samples[typical]
    named = f": {run.names[k]}" if run.names[k] else ""
    texts[:] = [text if isinstance(text, Markup) else found.called(text) for text in texts]
    box = Card(f"Cluster {k}{named}", texts, colour=colour(k))
    if run.image_shape is not None:
        texts.append(Markup("<b>{}</b>").format(found.called("Most typical samples:")))
        box.pictures = _pictures(names, run.table.X[typical], run.image_shape)
        return box
    if run.table.texts is not None:
        texts.append(Markup("<b>Most typical texts:</b>"))
        box.items = [
            (str(name), snippet(run.table.texts[i])) for name, i in zip(names, typical, strict=True)
        ]
    else:
        texts.append(
            Markup("<b>{}</b> {}").format(found.called("Most typical samples:"), ", ".join(names))
        )
    if leading:
        box.bars = _bars(found, k, leading)
        box.legend = ("mean in the cluster", "largest mean elsewhere")
    return box


def _classes(run: Any, members: AnyArray) -> str:
    """The known labels among the members of a cluster, the most frequent first."""
    if run.target is None or not len(members):
        return ""
    values, counts = np.unique(np.asarray(run.target).astype(str)[members], return_counts=True)
    return "; known as " + ", ".join(
        f"{values[i]} ({counts[i]})" for i in np.argsort(-counts, kind="stable")[:TYPICAL]
    )


def _bars(found: Subject, k: int, features: list[int]) -> list[Bar]:
    own = np.asarray(found.run.means[k], np.float64)
    rival = own - found.lead[k]
    widest = float(own[features].max(initial=0.0)) or 1.0
    return [
        Bar(str(found.features[j]), short(own[j]), own[j] / widest, rival[j] / widest)
        for j in features
    ]


def _known(run: Any) -> Section:
    measures = {
        "purity": purity_score,
        "accuracy (one cluster for each label)": clustering_accuracy,
        "normalized mutual information": normalized_mutual_info_score,
        "adjusted Rand index": adjusted_rand_score,
    }
    target, labels = np.asarray(run.target)[run.scored], run.labels[run.scored]
    scores = [(name, f"{measure(target, labels):.3f}") for name, measure in measures.items()]
    order = "Clusters are ordered so that as many samples as possible lie on the diagonal."
    drawn = Chart("confusion", plots.confusion(target, labels), order)
    left_out = "" if run.guide is None else " Samples with a label that guides are left out."
    words = Text(f"True labels are used only for scoring.{left_out}")
    return Section("labels", "Against the known labels", [words, Pairs(scores), drawn])


def _outliers(found: Subject) -> Section:
    far, fence = found.far, outlier_fence(found.far)
    worst = [i for i in np.argsort(-far, kind="stable") if far[i] > fence]
    words = (
        "No sample is far from its cluster, by Tukey's rule (further above the upper quartile than"
        " 1.5 times the quartiles' spread)."
    )
    if worst:
        verb = "samples are far from their" if len(worst) > 1 else "sample is far from its"
        names = first_of(found.samples[worst], TOP)
        words = f"{len(worst)} {verb} cluster by Tukey's rule: {names}."
    spread = Chart(
        "residuals", draw_residuals(found.run.labels, found.run.n_clusters, far), DISTANCE
    )
    table = _sample_table(found, fence)
    return Section("outliers", "Samples, and those that fit badly", [Text(words), spread, *table])


def _sample_table(found: Subject, fence: float) -> list[Part]:
    run, labels, far = found.run, found.run.labels, found.far
    own = np.where(labels == NO_CLUSTER, 0.0, run.shares[np.arange(len(labels)), labels])
    columns = {
        "sample": found.samples.tolist(),
        "cluster": ["none" if label == NO_CLUSTER else int(label) for label in labels],
        "share": own.round(3).tolist(),
        "distance": far.round(3).tolist(),
        "outlier": ["yes" if value > fence else "" for value in far],
    }
    if run.target is not None:
        columns["known as"] = np.asarray(run.target).astype(str).tolist()
    shown = np.sort(np.argsort(-far, kind="stable")[:MAX_ROWS])
    rows = [[column[i] for column in columns.values()] for i in shown]
    table = Table("samples", list(columns), rows)
    cut = (
        f"The {MAX_ROWS} samples that are furthest from the means of their clusters; labels.csv has"
        " all."
    )
    return [Text(cut), table] if len(rows) < len(labels) else [table]


def _rays(found: Subject) -> Section:
    """The cone on a slice, and its rays."""
    run = found.run
    left = len(run.cone.open_points)
    needed = f"none but the {left} open ones can be left out" if left else "none can be left out"
    parts: list[Part] = [Text(RAYS.format(needed)), _ray_table(found)]
    try:
        P, kept, axes = plots.shadow(run.table.X, run.labels)
        drawn = plots.cone(P, names=found.features[kept], axes=axes)
        parts.append(Chart("cone", drawn, SLICE))
    except ConeCollapseError as error:  # fewer than three samples
        parts.append(Text(f"The cone is not drawn: {error}"))
    return Section("rays", "The extreme rays", parts)


def _ray_table(found: Subject) -> Table:
    run, rays = found.run, found.run.cone.ray_indices
    X = run.table.X.astype(np.float64) / float(run.table.X.max())
    squares = np.asarray((X.multiply(X) if hasattr(X, "multiply") else X * X).sum(axis=0)).ravel()
    share, groups = squares / squares.sum(), run.cone.groups
    rows = [
        [
            str(found.features[rays[i]]),
            int(run.means[:, rays[i]].argmax()),
            float(f"{share[rays[i]]:.3g}"),
            len(groups[i]),
        ]
        for i in np.argsort(-share[rays], kind="stable")[:MAX_ROWS]
    ]
    head = ["feature", "strongest in cluster", "share of the squares", "features in this direction"]
    return Table("rays", head, rows)


def _how(found: Subject) -> Section:
    run = found.run
    parts: list[Part] = [Pairs([(found.called(name), value) for name, value in _facts(run)])]
    if run.choice["rank_curve"]:
        drawn = draw_curve(run.choice["rank_curve"], run.n_clusters)
        parts.append(Chart("rank", drawn, f"The number of clusters: {run.choice['rank_reason']}"))
    if len(getattr(run.model, "history_", ())) > 1:
        drawn = plots.convergence(run.model)
        parts.append(Chart("convergence", drawn, "The objective after each iteration."))
    prepared = {name: value for name, value in run.table.preparation.items() if value}
    return how_it_was_made({**run.parameters, **prepared}, run.timings, *parts)
