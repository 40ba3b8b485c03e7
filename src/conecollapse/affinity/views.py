r"""Views of a table, the graphs they give, and which graph has r clusters in it.

A *view* is a way of measuring the distance of two samples. Which one suits a table is not known
beforehand, but a graph tells whether it falls into r clusters: then r eigenvalues of its normalised
matrix N are near 1 and the next are not. The *eigengap ratio*

.. math:: q = \frac{1 - (\lambda_1 + \dots + \lambda_r)/r}{1 - (\lambda_{r+1} + \dots +
   \lambda_{2r})/r}

is small in that case, does not depend on scale or on the size of the table, and needs no labels.
The view with the smaller q is taken. How many clusters there are is a question to the gaps
:math:`\lambda_r - \lambda_{r+1}` (`eigengaps`): the largest is after as many eigenvalues as there
are clusters, if they are clear.

Dense tables: ``root``, the square root of the entries (it tames large ones) with Euclidean
distances; ``centred``, the same with unit rows, minus the mean row, with unit rows again, which
sees shape and not level. Sparse tables (text): ``cosine`` of the rows, and ``root cosine`` of their
square roots. Counts have views and a choice of their own (`conecollapse.affinity.counts`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from conecollapse._errors import InvalidInputError
from conecollapse._linalg import root, unit_rows
from conecollapse._types import AnyArray, FloatArray, IntArray, Points, Sparse
from conecollapse.affinity.counts import (
    BURSTY,
    COUNT_VIEWS,
    Counts,
    CountView,
    as_counts,
    form_of_counts,
    prediction_gains,
)
from conecollapse.affinity.graphs import graph_of, normalized, tie_small_parts
from conecollapse.affinity.neighbors import are_large
from conecollapse.affinity.sketch import SAMPLE_ROWS, coordinates, leading_directions
from conecollapse.affinity.spectrum import leading_eigenpairs, spectral_places
from conecollapse.tables import BlockedTable

VIEWS = ("root", "centred", "cosine", "root cosine", *COUNT_VIEWS)
N_NEIGHBORS = 5
LEAST = 3  # samples below which there is no graph to speak of
# a part of the graph with less than 1/10 of the mean cluster is an artefact, and is tied to the
# rest
SMALL_PART = 10
# eigengap ratios that differ by less are the same: those of graphs that fall apart are rounding
SAME = 1e-9
CLEARLY = 2.0  # standard errors by which the clusters of another view must predict better
STARTS = 5  # of k-means for these clusters
AT_ONCE = 2**22  # entries of a dense table that are measured at once, in 32 MiB
LEAST_COLUMNS = 64  # of a table that are taken together: fewer would be summed in another order
# when fewer features than this carry the variance, units decide, and columns are scaled
FEW_FEATURES = 2.0


@dataclass(frozen=True)
class View:
    """How samples are measured; made from training samples, applied to any."""

    name: str  # "root", "centred", "cosine" or "root cosine"
    scale: FloatArray | None = None  # of the columns, where units would decide
    mean: FloatArray | None = None  # of the unit rows, for "centred"
    # (n_features, d) whose coordinates stand for samples that do not fit into memory
    directions: FloatArray | None = None

    @property
    def metric(self) -> str:
        """The metric of nearest neighbours on the rows of `of`."""
        return "cosine" if "cosine" in self.name else "euclidean"

    def of(self, X: Points) -> Points:
        """The samples as this view has them; "centred" and coordinates have negative entries."""
        return (
            self._measured(X)
            if self.directions is None
            else np.asarray(self.before_projection(X) @ self.directions)
        )

    def before_projection(self, X: Points) -> Points:
        """The samples with rows whose Euclidean distances are compared."""
        Y = self._measured(X)
        return unit_rows(Y)[0] if self.metric == "cosine" else Y

    def _measured(self, X: Points) -> Points:
        if self.name == "cosine":
            return X
        if self.name != "centred":
            return _scaled_roots(X, self.scale)
        mean = _mean_of_units(X, self.scale) if self.mean is None else self.mean
        found = np.empty(X.shape, np.result_type(X.dtype, np.float32))
        for rows in _parts(X):
            found[rows] = unit_rows(unit_rows(_scaled_roots(X[rows], self.scale))[0] - mean)[0]
        return found


def _scaled_roots(X: Points, scale: FloatArray | None) -> Points:
    return root(X) if scale is None else root(X) * scale


def _mean_of_units(X: Points, scale: FloatArray | None) -> FloatArray:
    """The mean of the roots of all rows at unit length, with few of them in memory at a time."""
    total = np.zeros((1, X.shape[1]))
    for rows in _parts(X):
        # as one sum over all rows
        total = np.vstack([total, unit_rows(_scaled_roots(X[rows], scale))[0]]).sum(
            axis=0, keepdims=True
        )
    return np.asarray(total[0] / X.shape[0])


def _parts(X: Points) -> Iterator[slice]:
    """Consecutive rows, of at most `AT_ONCE` entries together."""
    step = max(1, AT_ONCE // X.shape[1])
    return (slice(first, first + step) for first in range(0, X.shape[0], step))


@dataclass(frozen=True)
class Choice:
    """The view taken, its graph, and why."""

    view: View | CountView
    samples: Points  # as the view has them
    N: Sparse
    degrees: FloatArray
    places: AnyArray  # of the samples in n_components leading eigenvectors of N, at unit length
    eigengap_ratios: dict[str, float]  # of each view
    n_tied: int
    is_sparse: bool
    # whether `samples` have the entries of the table, and not coordinates in their place
    has_entries: bool
    # of each view for counts: nats by which clusters predict a count better than all samples do
    gains: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Samples:
    """The distinct samples of a table, one for each set of identical ones: their entries, or what
    each view keeps of a larger table."""

    # of all distinct samples; of some random ones where the table does not fit into memory
    entries: Points
    is_sparse: bool
    table: BlockedTable | None = None  # that does not fit into memory
    representatives: IntArray | None = None  # its distinct samples
    places: IntArray | None = None  # which distinct samples the random ones are

    @property
    def are_large(self) -> bool:
        """Whether one view of them should be held at a time."""
        return self.table is None and not self.is_sparse and are_large(self.entries.shape)

    @property
    def count(self) -> int:
        """Number of distinct samples."""
        return self.entries.shape[0] if self.representatives is None else len(self.representatives)

    @cached_property
    def some(self) -> Counts:
        """At most a few thousand of them, as counts."""
        n = self.entries.shape[0]
        chosen = np.arange(n)
        if n > SAMPLE_ROWS:
            chosen = np.sort(np.random.default_rng(0).choice(n, SAMPLE_ROWS, replace=False))
        form = self.form or "counts"
        places = chosen if self.places is None else self.places[chosen]
        return Counts(as_counts(self.entries[chosen], form), places, form)

    @cached_property
    def form(self) -> str | None:
        """The form of counts that the table has; None if it holds none, or not of sampling
        noise."""
        return form_of_counts(self.entries[:SAMPLE_ROWS])

    @property
    def are_counts(self) -> bool:
        """Whether the table holds counts, mostly of sampling noise."""
        return self.form is not None

    @property
    def are_cells(self) -> bool:
        """Whether these are counts without the bursts of words."""
        return self.are_counts and self.some.dispersion < BURSTY

    def seen(
        self, views: list[View | CountView], n_components: int
    ) -> Iterator[tuple[View | CountView, Points]]:
        """Each view with the samples as it has them."""
        if self.table is None:
            yield from ((view, view.of(self.entries)) for view in views)
            return
        views = [
            replace(
                v, directions=leading_directions(v.before_projection(self.entries), n_components)
            )
            if isinstance(v, View)
            else v
            for v in views
        ]
        seen = coordinates(self.table, views, as_sparse=self.is_sparse)
        yield from ((view, Y[self.representatives]) for view, Y in zip(views, seen, strict=True))


def choose_view(
    samples: Samples,
    n_components: int,
    rng: np.random.Generator,
    *,
    view: str | int = "auto",
    n_neighbors: int = N_NEIGHBORS,
    neighbors: str = "auto",
) -> Choice:
    """The view of X whose graph has the smallest eigengap ratio for ``n_components`` clusters, or
    of counts the one whose clusters predict best; or the one named, or its number (0, 1)."""
    views = _views(samples, view)

    def look(v: View | CountView, seen: Points) -> Choice:
        graph = _graph(seen, v.metric, n_components, n_neighbors, neighbors)
        N = normalized(graph.G)
        values, vectors = leading_eigenpairs(N, 2 * n_components, rng)
        return Choice(
            v,
            seen,
            N,
            graph.degrees,
            spectral_places(N, values, vectors, n_components),
            {v.name: eigengap_ratio(values, n_components)},
            graph.n_tied,
            samples.is_sparse,
            samples.table is None and isinstance(v, View),
        )

    if view == "auto" and samples.are_counts:
        choices = [look(v, seen) for v, seen in samples.seen(views, n_components)]
        return _best_predicting(choices, samples.some, n_components)
    best: Choice | None = None
    for v, seen in samples.seen(views, n_components):
        choice = look(v, seen)
        ratios = (best.eigengap_ratios if best else {}) | choice.eigengap_ratios
        if best is None or ratios[v.name] < ratios[best.view.name] - SAME:
            best = choice
        best = replace(best, eigengap_ratios=ratios)
        if samples.are_large and v is not views[-1]:  # make room for the next view
            best, seen = replace(best, samples=None), None
            del choice
    assert best is not None
    if best.samples is None:
        best = replace(best, samples=best.view.of(samples.entries))
    return best


def _best_predicting(choices: list[Choice], counts: Counts, n_components: int) -> Choice:
    """The first view, unless the clusters of another predict the counts clearly better."""
    gains = [_gains(choice, counts, n_components) for choice in choices]
    best = 0
    for k in range(1, len(choices)):
        more = gains[k] - gains[best]
        if more.sum() > CLEARLY * np.sqrt(len(more)) * more.std():
            best = k
    names = [choice.view.name for choice in choices]
    total = float(counts.totals.sum())
    return replace(
        choices[best],
        eigengap_ratios={k: v for choice in choices for k, v in choice.eigengap_ratios.items()},
        gains={name: float(g.sum()) / total for name, g in zip(names, gains, strict=True)},
    )


def _gains(choice: Choice, counts: Counts, n_components: int) -> FloatArray:
    """How well k-means clusters of the graph's eigenvectors predict the counts."""
    from sklearn.cluster import k_means

    labels = k_means(choice.places, n_components, n_init=STARTS, random_state=0)[1]
    return prediction_gains(counts.X, labels[counts.places], n_components)


def eigengaps(
    samples: Samples,
    ranks: IntArray,
    rng: np.random.Generator,
    *,
    view: str | int,
    n_neighbors: int,
    neighbors: str,
) -> tuple[str, FloatArray]:
    """How far the eigenvalues of N fall after each of the increasing ``ranks``, in the view with
    the largest fall, and its name."""
    most, found = int(ranks[-1]), []
    for v, seen in samples.seen(_views(samples, view, for_cells=False), most):
        values, _ = leading_eigenpairs(
            normalized(_graph(seen, v.metric, most, n_neighbors, neighbors).G), most + 1, rng
        )
        found.append((v.name, values[ranks - 1] - values[ranks]))
    return max(found, key=lambda view: round(view[1].max() / SAME))


def _views(
    samples: Samples, wanted: str | int, *, for_cells: bool = True
) -> list[View | CountView]:
    """The views that such a table is tried in, or the one wanted; those for counts of cells also if
    it is one, unless ``for_cells`` is False: their graphs have few dimensions and no clear gaps."""
    _check_view(samples, wanted)
    if wanted in COUNT_VIEWS:
        return [CountView.of_counts(str(wanted), samples.some)]
    if for_cells and wanted == "auto" and samples.are_cells:
        return [CountView.of_counts(name, samples.some) for name in COUNT_VIEWS]
    cosines = [View("cosine"), View("root cosine")]
    if samples.is_sparse or "cosine" in str(wanted):
        views = [*cosines, View("root")] if wanted == "root" else cosines
    else:
        views = _filled_views(samples.entries)
    if wanted == "auto":
        return list(views)
    return [views[wanted]] if isinstance(wanted, int) else [v for v in views if v.name == wanted]


def _check_view(samples: Samples, wanted: str | int) -> None:
    """Refuse a view that is not known, or not for these samples."""
    if samples.count < LEAST:
        raise InvalidInputError(
            f"neighbourhoods are compared, which needs at least {LEAST} samples; got n_samples ="
            f" {samples.count}."
        )
    if wanted not in ("auto", 0, 1, *VIEWS):
        raise InvalidInputError(
            f"view must be auto, {', '.join(VIEWS[:-1])} or {VIEWS[-1]}; got {wanted!r}."
        )
    if samples.is_sparse and wanted == "centred":
        raise InvalidInputError(
            "view='centred' subtracts a mean, which would fill a table that is mostly zeros; use"
            " 'auto' or another view."
        )


def _filled_views(X: Points) -> list[View]:
    """Of tables that are not mostly zeros."""
    variance = _variance_of_roots(X)
    total = float(variance.sum())
    by_units = total**2 < FEW_FEATURES * float(np.square(variance).sum())
    scale = (
        (1 / np.sqrt(np.where(variance > 0, variance, 1.0))).astype(X.dtype) if by_units else None
    )
    return [View("root", scale), View("centred", scale, _mean_of_units(X, scale))]


def _variance_of_roots(X: Points) -> FloatArray:
    """The variance of the root of each feature, with few features in memory at a time."""
    step = max(LEAST_COLUMNS, AT_ONCE // X.shape[0])
    parts = [
        root(X[:, first : first + step]).var(axis=0, dtype=np.float64)
        for first in range(0, X.shape[1], step)
    ]
    return np.concatenate(parts)


class _Graph(NamedTuple):
    G: Sparse
    n_tied: int

    @property
    def degrees(self) -> FloatArray:
        return np.asarray(self.G.sum(axis=1)).ravel()


def _graph(samples: Points, metric: str, r: int, n_neighbors: int, neighbors: str) -> _Graph:
    """The graph of shared neighbours, without small parts."""
    n = samples.shape[0]
    k = min(n_neighbors, n - 1)
    G = graph_of(samples, k, metric, "shared", neighbors)
    return _Graph(*tie_small_parts(G, samples, n / (SMALL_PART * r), k, metric))


def eigengap_ratio(values: FloatArray, r: int) -> float:
    """How far the graph is from falling into r clusters; 1 where there is no evidence: too few
    samples, or 2 r parts.

    Examples
    --------
    >>> import numpy as np
    >>> (
    ...     eigengap_ratio(np.array([1.0, 1.0, 0.2, 0.0]), 2),
    ...     round(eigengap_ratio(np.array([1.0, 0.9, 0.9, 0.8]), 2), 3),
    ... )
    (0.0, 0.333)
    """
    rest = values[r : 2 * r]
    if not len(rest) or 1 - rest.mean() < 1e-9:
        return 1.0
    return float((1 - values[:r].mean()) / (1 - rest.mean()))
