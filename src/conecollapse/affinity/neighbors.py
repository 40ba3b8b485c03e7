r"""Nearest neighbours of samples: exact for up to 20,000 samples, approximate for more.

Exact neighbours cost a distance for each pair of samples. Approximate ones
(`conecollapse.affinity.cells`) are sought in a few cells of the data only, as many as hold 97 % of
the true neighbours of 500 random samples. Those of sparse samples are always exact.
"""

from __future__ import annotations

import numpy as np

from conecollapse._checks import check_count
from conecollapse._errors import InvalidInputError
from conecollapse._linalg import (
    is_sparse,
    unit_rows,
)
from conecollapse._types import AnyArray, FloatArray, IntArray, Points
from conecollapse.affinity.cells import cell_neighbors, random_samples
from conecollapse.affinity.exact import exact, others_of
from conecollapse.geometry.certified.cost import product_time, warn_if_long
from conecollapse.tables import DenseTable, Table, stored

# share of non-zero entries up to which samples are mostly zeros: those of text are, images are not
SPARSE = 0.1
# entries beyond which a dense table is compared in float32: distances do not show its rounding, and
# memory does
SINGLE = 10**8
METRICS = ("auto", "euclidean", "cosine")
SEARCHES = ("auto", "exact", "approximate")
# exact neighbours take about as long as so many products of the samples with their transpose
PER_PRODUCT = 4
_FASTER = {
    False: "neighbors='approximate' is faster",
    True: "fit a random part of the samples, and predict the clusters of the others",
}
# samples beyond which "auto" is approximate: up to there exact neighbours take a few seconds
MANY = 20_000


def are_mostly_zeros(n_entries: int, shape: tuple[int, int]) -> bool:
    """Whether a table with so many non-zero entries counts as sparse, however it is stored."""
    return n_entries <= SPARSE * shape[0] * shape[1]


def are_large(shape: tuple[int, int]) -> bool:
    """Whether a dense table of this shape is compared in float32, and one copy of it at a time."""
    return shape[0] * shape[1] > SINGLE


def as_compared(X: Table, sparse: bool | None = None) -> Table:
    """The samples as they are compared, which depends on their values and not on how they are
    stored: a CSR array if they are mostly zeros, else dense, in float32 if they are large."""
    if sparse is None:
        sparse = are_mostly_zeros(X.n_entries, X.shape)
    compared = stored(X, sparse=sparse)
    if not sparse and are_large(X.shape):
        return DenseTable(compared.array.astype(np.float32))
    return compared


def nearest(
    X: Points,
    samples: Points,
    n_neighbors: int,
    metric: str,
    *,
    exclude_self: bool,
    search: str = "exact",
) -> tuple[IntArray, FloatArray]:
    """Indices of and distances to the nearest ``samples`` of each row of ``X``, nearest first; both
    are as `as_compared` has them.

    ``search`` counts where ``X`` is ``samples`` itself, without each sample's own row
    (``exclude_self``); other rows are compared with all samples.
    """
    k = check_count(n_neighbors, "n_neighbors")
    peak = float(max(samples.max(), -samples.min()))
    if not 1e-100 < peak < 1e100 and peak > 0:  # squares of distances would be lost
        X, samples = (X / peak, X / peak) if samples is X else (X / peak, samples / peak)
    available = samples.shape[0] - exclude_self
    if k > available:
        raise InvalidInputError(
            f"n_neighbors = {k}, but each of the {samples.shape[0]} samples has only {available}"
            " others; lower it."
        )
    # on unit rows the Euclidean order is that of the cosines
    if metric_of(samples, metric) == "cosine":
        X, samples = (
            (X_unit := unit_rows(X)[0]),
            (X_unit if samples is X else unit_rows(samples)[0]),
        )
    if not exclude_self:
        return exact(X, samples, k)
    if is_approximate(search, samples):
        return approximate(samples, k)
    announce(samples)
    return exact(None, samples, k)


def announce(samples: Points) -> None:
    """Say beforehand that exact neighbours take long."""
    warn_if_long(
        PER_PRODUCT * 1e-9 * product_time(samples),
        f"finding the exact neighbours of {samples.shape[0]} samples",
        _FASTER[is_sparse(samples)],
    )


def metric_of(X: Points, metric: str) -> str:
    """The metric that ``metric`` means for X."""
    if metric not in METRICS:
        raise InvalidInputError(f"metric must be one of {', '.join(METRICS)}; got {metric!r}.")
    return ("cosine" if is_sparse(X) else "euclidean") if metric == "auto" else metric


def is_approximate(search: str, samples: Points) -> bool:
    """Whether the neighbours of these samples are approximate."""
    if search not in SEARCHES:
        raise InvalidInputError(f"neighbors must be one of {', '.join(SEARCHES)}; got {search!r}.")
    if search == "approximate" and is_sparse(samples):
        raise InvalidInputError(
            "approximate neighbours are not for tables that are mostly zeros; use neighbors='auto'"
            " or 'exact'."
        )
    return search == "approximate" or (
        search == "auto" and samples.shape[0] > MANY and not is_sparse(samples)
    )


def approximate(samples: AnyArray, k: int) -> tuple[IntArray, FloatArray]:
    """About the k nearest others of each sample; the few samples for which too few are found get
    their exact ones."""
    asked = random_samples(samples.shape[0])
    truth = others_of(samples, asked, k)[0]
    # k times at least: such neighbours are easily found
    is_copied = (samples[asked] == samples[truth[:, -1]]).all(axis=1)
    telling = slice(None) if is_copied.all() else ~is_copied
    found = cell_neighbors(samples, k, (asked[telling], truth[telling]))
    index, distance = found.index, found.distance
    short = np.flatnonzero(np.isinf(distance[:, -1]))
    if len(short):
        index[short], distance[short] = others_of(samples, short, k)
    return index, distance
