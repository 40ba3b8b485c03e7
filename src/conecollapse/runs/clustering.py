"""`cluster` and `rays`: from a table to a run."""

from __future__ import annotations

import time
from typing import Any, Literal

import numpy as np

from conecollapse import estimators
from conecollapse._errors import InvalidInputError
from conecollapse._types import Points, Progress
from conecollapse.geometry.certified.cost import LONG, product_seconds, rest_seconds
from conecollapse.geometry.cone import Cone
from conecollapse.io import TableFile
from conecollapse.runs.asked import candidates, check_clusters, check_image_shape
from conecollapse.runs.preparing import points
from conecollapse.runs.run import Interrupted, RaysRun, Run

# estimators by name: they are imported when one is made
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "graph": ("GraphCCNMF", {}),
    "features": ("CCNMF", {}),
    "knn": ("CCNMF", {"affinity": "knn"}),
    "diffusion": ("CCNMF", {"affinity": "diffusion"}),
}
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
    """Cluster the samples of ``table`` with `GraphCCNMF`, and find and certify the cone of its
    features.

    Parameters
    ----------
    table : TableFile
        Prepared, if it is to be (`prepare`).
    n_components : int or "auto"
        Number of clusters; "auto" chooses among 2 to 10 by `select_rank`.
    method : {"graph", "features", "knn", "diffusion"} or an estimator
        `GraphCCNMF`, usually the best clustering; `CCNMF` of the features; or `CCNMF` of a graph of
        nearest neighbours, as it is or diffused. Or an estimator of your own choice of parameters,
        of one of these classes.
    random_state : int or None
        Random seed.
    target : sequence, optional
        The known class of each sample, used only for scoring.
    image_shape : (height, width), optional
        Of a sample, when the features are pixels; the table's own by default.
    prove : bool
        Decide every ray of the cone, however long it takes. By default that is done where it will
        take at most about ten seconds; else rays may stay open, see `Cone.from_points`.
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
    asked = {
        "n_components": n_components,
        "method": called,
        "random_state": random_state,
        "prove": prove,
    }
    model = estimator_of(method).set_params(random_state=random_state)
    classes = _check_target(target, table.n_samples)
    shape = check_image_shape(image_shape or table.image_shape, table.n_features)
    timings: dict[str, float] = {}
    rank = None
    if n_components == "auto":
        with _timed(timings, "rank", progress):
            rank = chosen_rank(table.X, random_state)
    model.set_params(n_components=n_components if rank is None else rank.rank)
    check_clusters(model.n_components, table)
    found = cone_of_features(table, prove, timings, progress)
    try:
        with _timed(timings, "clusters", progress):
            model.fit(table)
    except KeyboardInterrupt:
        rays_only = RaysRun(
            table,
            found,
            shape,
            {"max_residual": None, "max_rays": None, "weighting": "unit", "prove": prove},
            timings,
        )
        raise Interrupted(
            "interrupted while clustering; the cone was finished.", rays_only
        ) from None
    return Run(table, model, model.labels_, found, classes, shape, asked, timings, rank)


def chosen_rank(X: Any, random_state: Any) -> Any:
    """What "auto" clusters means: `select_rank` among 2 to 10."""
    return estimators.select_rank(X, candidates(X.shape[0]), random_state=random_state)


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
    """The extreme rays of the features of ``table``, or an epsilon-cone when ``max_residual`` or
    ``max_rays`` is given.

    Parameters are those of `Cone.approximate`; with ``max_rays`` alone rays are added until there
    are that many. ``prove`` is as in `cluster`.
    """
    asked = {
        "max_residual": max_residual,
        "max_rays": max_rays,
        "weighting": weighting,
        "prove": prove,
    }
    shape = check_image_shape(image_shape or table.image_shape, table.n_features)
    timings: dict[str, float] = {}
    if max_residual is None and max_rays is None:
        return RaysRun(
            table, cone_of_features(table, prove, timings, progress), shape, asked, timings
        )
    if prove:
        raise InvalidInputError(
            "prove=True is for the cone of all rays; leave it out, or leave out max_residual=..."
            " and max_rays=..."
        )

    def added(n_rays: int, residual: float) -> None:  # noqa: ARG001
        if progress is not None:
            progress("cone", n_rays, max_rays or table.n_features)

    with _timed(timings, "cone", progress):
        residual = SMALL_RESIDUAL if max_residual is None else max_residual
        cone = Cone.approximate(points(table.X), residual, max_rays, weighting, callback=added)
    cone.ray_names = table.features[cone.ray_indices]
    return RaysRun(table, cone, shape, asked, timings)


def cone_of_features(
    table: TableFile, prove: bool, timings: dict[str, float], progress: Progress
) -> Cone:
    """The certified cone of the features, with their names: proven where that is asked for, or
    takes little time; else quick."""
    P = points(table.X)
    with _timed(timings, "cone", progress):
        tol = 1e-8 if table.X.dtype == np.float64 else FLOAT32_TOL
        cone = Cone.from_points(P, tol=tol, effort="quick", progress=progress)
        if prove or _proof_seconds(cone, P) <= LONG:
            cone = cone.prove(P, progress=progress)
    cone.ray_names = table.features[cone.ray_indices]
    return cone


def _proof_seconds(cone: Cone, P: Points) -> float:
    """To decide what a quick cone left open: that alone, and the product that may have to be done
    again for it."""
    if not len(cone.open_points):
        return 0.0
    return product_seconds(P) + rest_seconds(np.isin(np.arange(cone.n_points), cone.open_points), P)


def estimator_of(method: Any) -> Any:
    """The estimator of a method by name, or a copy of the one that is given; not fitted."""
    if isinstance(method, str) and method in METHODS:
        name, parameters = METHODS[method]
        return getattr(estimators, name)(**parameters)
    if isinstance(method, str) or not isinstance(method, (estimators.CCNMF, estimators.GraphCCNMF)):
        raise InvalidInputError(
            f"`method` must be one of {', '.join(METHODS)}, or a CCNMF or GraphCCNMF; got"
            f" {method!r}."
        )
    from sklearn.base import clone

    return clone(method)


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


def _check_target(target: Any, n_samples: int) -> Any:
    if target is None:
        return None
    classes = np.array([str(label) for label in target], dtype=np.str_)
    if len(classes) != n_samples:
        raise InvalidInputError(
            f"there are {len(classes)} labels for {n_samples} samples; give one for each."
        )
    return classes
