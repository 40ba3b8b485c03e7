"""How many clusters: they predict counts best, clusterings of subsamples or from several starts
agree, or a graph falls into that many parts."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.cluster.hierarchy import cophenet, linkage
from scipy.spatial.distance import squareform
from sklearn.metrics import adjusted_rand_score

from conecollapse._errors import InvalidInputError
from conecollapse._threads import serial_blas
from conecollapse._types import FloatArray, IntArray
from conecollapse.affinity.counts import CountView, prediction_gains
from conecollapse.affinity.views import Samples, eigengaps
from conecollapse.factorization.cones.graph_ccnmf import distinct_samples
from conecollapse.factorization.kmeans import lloyd, seeds
from conecollapse.factorization.resampling.rank_selection import Fits, RankSelection, tied
from conecollapse.tables import Table

SHARE = 0.8  # of the samples in each subsample of "stability"
N_STARTS = 5  # of k-means for "prediction"
# directions that clusters share: at most so many are left out; clusters from which it can be told;
# variance over the median one; clusters whose variance is this part of the largest are alike, and
# so many of them must be
MOST_SHARED, FEWEST_SHARING, STANDS_OUT, ALIKE, MOST_CLUSTERS = 3, 4, 1.8, 0.6, 2 / 3
PLATEAU = 0.001  # cophenetic correlations closer than this are the same
MOST_SAMPLES = 1000  # for "consensus": its matrix and tree are of this many samples at most


def stability(
    X: Table, ranks: IntArray, fits: Fits, n_runs: int, rng: np.random.Generator
) -> RankSelection:
    """The rank at which clusterings of two subsamples agree best."""
    n = X.shape[0]
    size = int(SHARE * n)
    agreement = np.empty((len(ranks), n_runs))
    for run in range(n_runs):
        a, b = (np.sort(rng.permutation(n)[:size]) for _ in range(2))
        shared, in_a, in_b = np.intersect1d(a, b, return_indices=True)
        parts = [
            X.rows(rows).columns(rows) if fits.is_pairwise else X.rows(rows) for rows in (a, b)
        ]
        for k, r in enumerate(ranks):
            first, second = (fits.labels(r, rng, part) for part in parts)
            agreement[k, run] = (
                adjusted_rand_score(first[in_a], second[in_b]) if len(shared) else 0.0
            )
    scores = agreement.mean(axis=1)
    spread = agreement.std(axis=1, ddof=1) / np.sqrt(n_runs) if n_runs > 1 else np.zeros(len(ranks))
    return most_stable(ranks, scores, spread)


def most_stable(ranks: IntArray, scores: FloatArray, spread: FloatArray) -> RankSelection:
    """The choice among ``ranks`` with these mean adjusted Rand indices and standard errors."""
    best = int(scores.argmax())
    ties = tuple(int(r) for r in ranks[scores[best] - scores <= spread[best]])
    reason = (
        "the largest mean adjusted Rand index of two subsamples,"
        f" {scores[best]:.3f}{tied(int(ranks[best]), ties)}"
    )
    return RankSelection(int(ranks[best]), "stability", ranks, scores, spread, None, reason, ties)


def counts_of_cells(X: Table, most: int, rng: np.random.Generator) -> Samples | None:
    """The distinct samples of the table, if they are counts of cells."""
    filled = X.rows(np.flatnonzero(X.filled))
    samples = distinct_samples(filled, most, rng)[0]
    return samples if samples.count > most and samples.are_cells else None


def prediction(samples: Samples, ranks: IntArray, fits: Fits) -> RankSelection:
    """The rank whose clusters predict the counts best, each sample by the others of its cluster."""
    counts = samples.some
    places = CountView.of_counts("residuals", counts).of(counts.X)
    places = without_shared_directions(places, ranks)
    gains = np.empty((len(ranks), len(places)))
    for k, r in enumerate(ranks):
        gains[k] = prediction_gains(counts.X, clusters_of(places, int(r)), int(r))
        fits.say(done=1)
    total = float(counts.totals.sum())
    scores = gains.sum(axis=1) / total
    behind = gains[scores.argmax()] - gains
    spread = behind.std(axis=1) * np.sqrt(behind.shape[1]) / total
    return most_predictive(ranks, scores, spread)


def clusters_of(places: FloatArray, r: int) -> IntArray:
    """k-means clusters, the best of a few starts with a fixed seed."""
    with serial_blas():
        first = seeds(places, r, N_STARTS, np.random.default_rng(0))
        labels, squares = lloyd(places, places[first])
    return np.asarray(labels[squares.argmin()])


def without_shared_directions(places: FloatArray, ranks: IntArray) -> FloatArray:
    """The samples without the directions in which most clusters are drawn out alike.

    What tells two kinds apart draws out the one cluster that holds both. A direction that draws out
    all clusters tells none apart: a batch, or a state that cells of all kinds can be in. Of the
    directions of largest variance within the clusters of each rank, the one that stands out most is
    left out, and so on.
    """
    for _ in range(MOST_SHARED):
        found = [
            _shared_direction(places, clusters_of(places, int(r)))
            for r in ranks
            if r >= FEWEST_SHARING and places.shape[1] > 2
        ]
        excess, direction = max(found, key=lambda pair: pair[0], default=(0.0, None))
        if direction is None or excess < STANDS_OUT:
            break
        others = np.linalg.svd(direction[None])[2][1:]
        places = places @ others.T
    return places


def _shared_direction(places: FloatArray, labels: IntArray) -> tuple[float, FloatArray]:
    """The direction of largest variance within clusters, and that variance over the median one; 0
    unless most clusters are drawn out alike."""
    parts = [places[labels == k] for k in np.unique(labels)]
    parts = [part - part.mean(axis=0) for part in parts]
    variances, directions = np.linalg.eigh(sum(part.T @ part for part in parts))
    direction = directions[:, -1]
    along = np.array([(part @ direction).var() for part in parts])
    is_shared = np.mean(along >= ALIKE * along.max()) >= MOST_CLUSTERS
    excess = variances[-1] / max(float(np.median(variances)), np.finfo(float).tiny)
    return float(excess) if is_shared else 0.0, direction


def most_predictive(ranks: IntArray, scores: FloatArray, spread: FloatArray) -> RankSelection:
    """The choice among ``ranks`` with these gains per count, and the standard errors of their
    differences from the best."""
    order = np.argsort(-scores, kind="stable")
    best = int(order[0])
    ties = tuple(int(r) for r in ranks[scores[best] - scores <= spread])
    reason = (
        "the clusters by which each sample's counts are predicted best from the other samples,"
        f" {scores[best]:.3g} nats for each count better than without clusters"
    )
    if len(order) > 1:
        second = order[1]
        reason += f"; the runner-up is {ranks[second]} with {scores[second]:.3g}"
    return RankSelection(int(ranks[best]), "prediction", ranks, scores, spread, None, reason, ties)


def consensus(
    X: Table, ranks: IntArray, fits: Fits, n_runs: int, rng: np.random.Generator
) -> RankSelection:
    """The largest rank before restarts begin to disagree."""
    n = X.shape[0]
    kept = np.sort(rng.permutation(n)[:MOST_SAMPLES])
    scores = np.empty(len(ranks))
    for k, r in enumerate(ranks):
        together = np.zeros((len(kept), len(kept)))
        for _ in range(n_runs):
            labels = fits.labels(r, rng, X)[kept]
            together += labels[:, None] == labels
        scores[k] = cophenetic_correlation(together / n_runs)
    high = np.flatnonzero(scores >= scores.max() - PLATEAU)
    falls = np.flatnonzero(scores[high[0] :] < scores.max() - PLATEAU) + high[0]
    chosen = int(falls[0] - 1) if len(falls) else int(high[0])
    where = "the last before it falls" if len(falls) else "the first, as it does not fall"
    ties = tuple(int(r) for r in ranks[high])
    reason = (
        f"of the ranks with a cophenetic correlation near the best, {scores.max():.3f},"
        f" {where}{tied(int(ranks[chosen]), ties)}"
    )
    return RankSelection(
        int(ranks[chosen]), "consensus", ranks, scores, np.zeros(len(ranks)), None, reason, ties
    )


def cophenetic_correlation(consensus: FloatArray) -> float:
    """Correlation of the distances 1 - consensus with those of their average-linkage tree; 1 when
    all pairs are 0 or 1."""
    distance = squareform(1 - consensus, checks=False)
    if not len(distance) or np.ptp(distance) == 0:
        return 1.0
    tree = cophenet(linkage(distance, "average"))
    return float(np.corrcoef(distance, tree)[0, 1])


def eigengap(X: Table, ranks: IntArray, base: Any, rng: np.random.Generator) -> RankSelection:
    """The rank after which the eigenvalues of the graph of a `GraphCCNMF` fall most."""
    samples, _, _ = distinct_samples(X.rows(np.flatnonzero(X.filled)), int(ranks[-1]), rng)
    if ranks[-1] >= samples.count:
        raise InvalidInputError(
            f"candidate {ranks[-1]} leaves no eigenvalue after it: {samples.count} samples are"
            " distinct; lower it."
        )
    view, gaps = eigengaps(
        samples, ranks, rng, view=base.view, n_neighbors=base.n_neighbors, neighbors=base.neighbors
    )
    order = np.argsort(-gaps, kind="stable")
    reason = (
        f"the largest gap between the eigenvalues of the graph, {gaps[order[0]]:.3g} in the view"
        f" {view!r}"
    )
    if len(order) > 1:
        reason += f"; the next largest is {gaps[order[1]]:.3g}, for {ranks[order[1]]}"
    return RankSelection(
        int(ranks[order[0]]), "eigengap", ranks, gaps, np.zeros(len(ranks)), None, reason
    )
