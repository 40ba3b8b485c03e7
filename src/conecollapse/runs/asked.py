"""What a run is asked for, checked against the table before anything is computed, or imported that
takes long."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from conecollapse._errors import InvalidInputError
from conecollapse.io import TableFile

LARGEST_RANK = 10  # that "auto" tries
STABLE_SHARE = 0.8  # of the samples, in the subsamples by which `select_rank` judges


def candidates(count: int, what: str = "samples") -> range:
    """The numbers of clusters, or of components, that "auto" tries for so many samples (features,
    if these are fewer)."""
    most = min(LARGEST_RANK, int(STABLE_SHARE * count))
    if most < 2:
        raise InvalidInputError(
            f'n_components="auto" needs at least 3 {what}, but there are {count}; pass a number.'
        )
    return range(2, most + 1)


def check_clusters(r: Any, table: TableFile) -> None:
    """Refuse a number of clusters that the table cannot have; the estimator would say so too, but
    only after the cone."""
    if isinstance(r, str) and r == "auto":
        candidates(table.n_samples)
        return
    if isinstance(r, bool) or not isinstance(r, (int, np.integer)) or r < 1:
        raise InvalidInputError(
            f"n_components must be 'auto' or an integer of at least 1; got {r!r}."
        )
    if r > table.n_samples:
        other = "columns" if table.features_in == "rows" else "rows"
        raise InvalidInputError(
            f"{r} clusters were asked for, but there are only {table.n_samples} samples; ask for at"
            " most that many "
            f"(or, if the {table.n_features} features are in fact the samples, read the table with"
            f' features_in="{other}").'
        )


def check_components(r: int | Literal["auto"], table: TableFile) -> range:
    """The numbers of components to try; a number that the table cannot have is refused."""
    most = min(table.n_samples, table.n_features)
    what = "samples" if table.n_samples <= table.n_features else "features"
    if r == "auto":
        return candidates(most, what)
    if r > most:
        raise InvalidInputError(
            f"{r} components were asked for, but there are only {most} {what}; ask for at most that"
            " many."
        )
    return range(r, r + 1)


def check_image_shape(shape: tuple[int, int] | None, n_features: int) -> tuple[int, int] | None:
    """``shape``, refused unless it has a pixel for each feature."""
    if shape is not None and shape[0] * shape[1] != n_features:
        raise InvalidInputError(
            f"images of {shape[0]} x {shape[1]} have {shape[0] * shape[1]} pixels, but the table"
            f" has {n_features} features; give height x width of one sample."
        )
    return shape
