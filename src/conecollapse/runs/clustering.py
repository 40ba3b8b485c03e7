"""`cluster` and `rays`: from a table to a run."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from conecollapse._errors import InvalidInputError
from conecollapse._types import Points, Progress
from conecollapse.estimators import CCNMF, GraphCCNMF, select_rank
from conecollapse.geometry.certified.estimate import LONG, product_seconds, rest_seconds
from conecollapse.geometry.cone import Cone
from conecollapse.io import TableFile
from conecollapse.runs.run import Interrupted, RaysRun, Run

METHODS: dict[str, Callable[[], CCNMF | GraphCCNMF]] = {
    "graph": GraphCCNMF,
    "features": CCNMF,
    "knn": partial(CCNMF, affinity="knn"),
    "diffusion": partial(CCNMF, affinity="diffusion"),
}
LARGEST_RANK = 10  # that "auto" tries
STABLE_SHARE = 0.8  # of the samples, in the subsamples by which `select_rank` judges
SMALL_RESIDUAL = 1e-3  # with max_rays alone the number of rays decides
FLOAT32_TOL = 1e-6  # of a cone of points that were rounded to float32


def cluster(
    table: TableFile,
    n_components: int | Literal["auto"],
    *,
    method: Any = "graph",
    target: Any = None,
    random_state: int | None = 0,
    image_shape: tuple[int, int] | None = None,
    prove: bool = False,
    progress: Progress = None,
) -> Run:
    """Cluster the samples of ``table`` with `GraphCCNMF`, and find and certify the cone of its features.

    Parameters
    ----------
    table : TableFile
        Prepared, if it is to be (`prepare`).
    n_components : int or "auto"
        Number of clusters; "auto" chooses among 2 to 10 by `select_rank`.
    method : {"graph", "features", "knn", "diffusion"} or an estimator
        `GraphCCNMF`, usually the best clustering; `CCNMF` of the features; or `CCNMF` of a graph of nearest neighbours, as it is or
        diffused. Or an estimator of your own choice of parameters, of one of these classes.
    random_state : int or None
        Random seed.
    target : sequence, optional
        The known class of each sample, used only for scoring.
    image_shape : (height, width), optional
        Of a sample, when the features are pixels; the table's own by default.
    prove : bool
        Decide every ray of the cone, however long it takes. By default that is done where it will take at most about ten seconds; else
        rays may stay open, see `Cone.from_points`.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.

    Returns
    -------
    Run

    Raises
    ------
    Interrupted
        Ctrl-C while the samples were clustered; ``finished`` is then a `RaysRun` with the cone.

    Examples
    --------
    >>> import numpy as np
    >>> from conecollapse.io import read_table
    >>> from conecollapse.runs import cluster
    >>> X = np.kron(np.eye(2), np.ones((4, 3))) + 0.1 * np.random.default_rng(0).random((8, 6))
    >>> run = cluster(read_table(X), 2)
    >>> bool((run.labels == np.repeat(run.labels[[0, 7]], 4)).all())
    True
    >>> run.cone.n_rays, run.cone.verify(X.T).n_rays
    (6, 6)
    """
    called = method if isinstance(method, str) else repr(method)
    asked = {"n_components": n_components, "method": called, "random_state": random_state, "prove": prove}
    model = _estimator(method).set_params(random_state=random_state)
    classes = _check_target(target, table.n_samples)
    shape = check_image_shape(image_shape or table.image_shape, table.n_features)
    timings: dict[str, float] = {}
    rank = None
    if n_components == "auto":
        with _timed(timings, "rank", progress):
            rank = select_rank(table.X, _candidates(table.n_samples), random_state=random_state)
    model.set_params(n_components=n_components if rank is None else rank.rank)
    _check_rank(model.n_components, table)
    found = cone_of_features(table, prove, timings, progress)
    try:
        with _timed(timings, "clusters", progress):
            model.fit(table.X)
    except KeyboardInterrupt:
        rays_only = RaysRun(table, found, shape, {"max_residual": None, "max_rays": None, "weighting": "unit", "prove": prove}, timings)
        raise Interrupted("interrupted while clustering; the cone was finished.", rays_only) from None
    return Run(table, model, model.labels_, found, classes, shape, asked, timings, rank)


def rays(
    table: TableFile,
    *,
    max_residual: float | None = None,
    max_rays: int | None = None,
    weighting: Literal["unit", "mass"] = "unit",
    image_shape: tuple[int, int] | None = None,
    prove: bool = False,
    progress: Progress = None,
) -> RaysRun:
    """The extreme rays of the features of ``table``, or an epsilon-cone when ``max_residual`` or ``max_rays`` is given.

    Parameters are those of `Cone.approximate`; with ``max_rays`` alone rays are added until there are that many. ``prove`` is as in
    `cluster`.
    """
    asked = {"max_residual": max_residual, "max_rays": max_rays, "weighting": weighting, "prove": prove}
    shape = check_image_shape(image_shape or table.image_shape, table.n_features)
    timings: dict[str, float] = {}
    if max_residual is None and max_rays is None:
        return RaysRun(table, cone_of_features(table, prove, timings, progress), shape, asked, timings)
    if prove:
        raise InvalidInputError("prove=True is for the cone of all rays; leave it out, or leave out max_residual=... and max_rays=...")

    def added(n_rays: int, residual: float) -> None:  # noqa: ARG001
        if progress is not None:
            progress("cone", n_rays, max_rays or table.n_features)

    with _timed(timings, "cone", progress):
        residual = SMALL_RESIDUAL if max_residual is None else max_residual
        cone = Cone.approximate(points(table.X), residual, max_rays, weighting, callback=added)
    cone.ray_names = table.features[cone.ray_indices]
    return RaysRun(table, cone, shape, asked, timings)


def cone_of_features(table: TableFile, prove: bool, timings: dict[str, float], progress: Progress) -> Cone:
    """The certified cone of the features, with their names: proven where that is asked for, or takes little time; else quick."""
    P = points(table.X)
    with _timed(timings, "cone", progress):
        tol = 1e-8 if table.X.dtype == np.float64 else FLOAT32_TOL
        cone = Cone.from_points(P, tol=tol, effort="quick", progress=progress)
        if prove or _proof_seconds(cone, P) <= LONG:
            cone = cone.prove(P, progress=progress)
    cone.ray_names = table.features[cone.ray_indices]
    return cone


def _proof_seconds(cone: Cone, P: Points) -> float:
    """To decide what a quick cone left open: that alone, and the product that may have to be done again for it."""
    if not len(cone.open_points):
        return 0.0
    return product_seconds(P) + rest_seconds(np.isin(np.arange(cone.n_points), cone.open_points), P)


def points(X: Points) -> Points:
    """The features as rows."""
    return sp.csr_array(X.T) if sp.issparse(X) else X.T


def check_image_shape(shape: tuple[int, int] | None, n_features: int) -> tuple[int, int] | None:
    """``shape``, refused unless it has a pixel for each feature."""
    if shape is not None and shape[0] * shape[1] != n_features:
        raise InvalidInputError(
            f"images of {shape[0]} x {shape[1]} have {shape[0] * shape[1]} pixels, but the table has {n_features} features; "
            "give height x width of one sample."
        )
    return shape


def _estimator(method: Any) -> Any:
    if isinstance(method, (CCNMF, GraphCCNMF)):
        return clone(method)
    if not isinstance(method, str) or method not in METHODS:
        raise InvalidInputError(f"`method` must be one of {', '.join(METHODS)}, or a CCNMF or GraphCCNMF; got {method!r}.")
    return METHODS[method]()


class _timed:
    """Records the seconds of a stage, and says that it begins and ends."""

    def __init__(self, timings: dict[str, float], stage: str, progress: Progress) -> None:
        self.timings, self.stage, self.progress = timings, stage, progress

    def __enter__(self) -> None:
        self.start = time.perf_counter()
        self._say(0)

    def __exit__(self, kind: Any, *_: object) -> None:
        self.timings[self.stage] = time.perf_counter() - self.start
        if kind is None:
            self._say(1)

    def _say(self, done: int) -> None:
        if self.progress is not None:
            self.progress(self.stage, done, 1)


def _candidates(n_samples: int) -> range:
    most = min(LARGEST_RANK, int(STABLE_SHARE * n_samples))
    if most < 2:
        raise InvalidInputError(f'n_components="auto" needs at least 3 samples, but there are {n_samples}; pass a number.')
    return range(2, most + 1)


def _check_rank(r: Any, table: TableFile) -> None:
    """Before anything is computed: the estimator would say so too, but only after the cone."""
    if isinstance(r, bool) or not isinstance(r, (int, np.integer)) or r < 1:
        raise InvalidInputError(f"n_components must be 'auto' or an integer of at least 1; got {r!r}.")
    if r > table.n_samples:
        other = "columns" if table.features_in == "rows" else "rows"
        raise InvalidInputError(
            f"{r} clusters were asked for, but there are only {table.n_samples} samples; ask for at most that many "
            f'(or, if the {table.n_features} features are in fact the samples, read the table with features_in="{other}").'
        )


def _check_target(target: Any, n_samples: int) -> Any:
    if target is None:
        return None
    classes = np.array([str(label) for label in target], dtype=np.str_)
    if len(classes) != n_samples:
        raise InvalidInputError(f"there are {len(classes)} labels for {n_samples} samples; give one for each.")
    return classes
