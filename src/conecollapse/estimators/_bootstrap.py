"""`bootstrap`: intervals for the components, the encodings and the labels of a fitted model."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from conecollapse._checks import check_callable, check_count, first_no_count
from conecollapse._errors import InvalidInputError
from conecollapse._linalg import as_dense, power_of_two, row_lengths
from conecollapse._progress import showing
from conecollapse._threads import limit_threads, serial_blas
from conecollapse._types import FloatArray, IntArray
from conecollapse.clusters import NO_CLUSTER
from conecollapse.estimators._base import BaseNMF
from conecollapse.estimators._catalogue import CatalogueNMF
from conecollapse.estimators._estimator import check_is_fitted
from conecollapse.estimators._mixture import MixtureNMF
from conecollapse.estimators._prepared import check_table, generator
from conecollapse.estimators._weighted import WeightedNMF
from conecollapse.estimators.consensus import ConsensusNMF
from conecollapse.factorization.nmf.hals import hals
from conecollapse.factorization.nmf.kl import kl
from conecollapse.factorization.resampling.drawn_tables import Noise, Poisson, Residuals, intervals
from conecollapse.factorization.resampling.many_runs import many_runs, reporter
from conecollapse.factorization.resampling.matching import matched
from conecollapse.factorization.result import squared_error
from conecollapse.tables import Table

# a run that ends early stays too near to where it began, and the intervals would be too short
TOL, MAX_ITER = 1e-8, 1000
NOISES = ("auto", "residuals", "poisson")
# positive entries from which on a common divisor is no accident: two counts share a 2 in one of
# four cases
LEAST_COUNTS = 20
# of the length of the table: factors in float32 and errors from sums of products differ by less
SAME = 1e-3
MOST_ENTRIES = 5 * 10**8  # of all encodings and components that are drawn: 4 GB


@dataclass(frozen=True)
class BootstrapResult:
    """Estimates with their intervals. Component k of every draw is the counterpart of component k
    of the model."""

    # (r, n_features): fitted to convergence; each has the sum that it has in the model
    components: FloatArray
    components_low: FloatArray
    components_high: FloatArray
    encodings: FloatArray  # (n_samples, r)
    encodings_low: FloatArray
    encodings_high: FloatArray
    # (n_samples,): the component with the largest contribution; -1 for a sample without any
    labels: IntArray
    # (n_samples, r): share of the draws in which the sample has this label; in the others it has
    # none
    label_shares: FloatArray
    level: float
    noise: str  # "residuals" or "poisson"
    n_runs: int

    def __repr__(self) -> str:
        (r, m), n, share = self.components.shape, len(self.encodings), f"{self.level:.3g}"
        is_sure = self.label_shares.max(axis=1) >= self.level
        return (
            f"Bootstrap of {r} components from {self.n_runs} draws of {n} samples x {m} features\n"
            f"  noise: {self.noise}; level of the intervals: {share}\n"
            f"  components: {_spread(self.components, self.components_low, self.components_high)}\n"
            f"  encodings: {_spread(self.encodings, self.encodings_low, self.encodings_high)}\n"
            f"  labels: {is_sure.sum()} of {n} samples have theirs in at least {share} of the draws"
        )


def _spread(values: FloatArray, low: FloatArray, high: FloatArray) -> str:
    """How wide intervals are, in words."""
    width, size = float(np.median(high - low)), float(values.mean())
    return f"mean {size:.4g}, median width of an interval {width:.4g}"


class _Factors(NamedTuple):
    W: FloatArray
    H: FloatArray
    objective: float


def bootstrap(
    model: Any,
    X: Any,
    n_runs: int = 200,
    *,
    level: float = 0.95,
    noise: str = "auto",
    random_state: Any = 0,
    n_jobs: int | None = None,
    verbose: bool | None = None,
    callback: Any = None,
) -> BootstrapResult:
    """Intervals for the components, encodings and labels of a fitted model.

    Tables like ``X`` are drawn around the fit and factorized, their components are matched with
    those of the model, and the spread of what is found gives the intervals
    (`conecollapse.factorization.resampling.drawn_tables`).

    *What is assumed*: the model holds, ``X = W H + noise`` with as many components and noise of
    mean zero that is independent from entry to entry; and the factorization is unique, as far as
    the data go. Plain NMF is often not unique: other components then fit equally well, and no
    interval says so. `HierarchicalNMF.component_range` gives their range for two and three
    components, and `ConsensusNMF.stability_` says whether other starts end elsewhere. For plain NMF
    each draw starts from the solution for ``X``. Noise that was cut off at zero does not have mean
    zero, and entries that should be zero are then found too large.

    Parameters
    ----------
    model : fitted estimator
        A factorization of ``X``: `HierarchicalNMF`, `AlternatingNMF`, `MultiplicativeNMF` and
        `ConsensusNMF` go on from their solution; others, such as `MinVolumeNMF`, are fitted anew to
        each draw. Not for graphs (``affinity``), nor for a fit with missing entries, ``weights``,
        ``sample_weight`` or ``robust``.
    X : (n_samples, n_features) array, sparse array or data frame
        The table that it was fitted to.
    n_runs : int
        Number of draws.
    level : float
        Share of the entries that the intervals are to contain.
    noise : {"auto", "residuals", "poisson"}
        How tables are drawn: with residuals of entries of similar size, or as counts, for which
        ``X`` must hold the counts themselves, not shares or multiples of them. "auto" is "poisson"
        for the Kullback-Leibler loss and "residuals" otherwise. With residuals the drawn tables are
        dense.
    random_state : int, RandomState or None
        Random seed; the default is fixed. A draw depends on its number and on the seed only, not on
        the threads.
    n_jobs : int, optional
        Threads, over which the draws are spread; None or -1 for all.
    verbose : bool, optional
        By default progress is shown after two seconds, on a terminal and in a notebook. If True, a
        line is printed after each tenth of the draws instead; if False, nothing is.
    callback : callable, optional
        Called as ``callback(n_done, objective)`` after each draw; a true answer ends the draws.

    Returns
    -------
    BootstrapResult

    Examples
    --------
    >>> import numpy as np
    >>> from conecollapse import HierarchicalNMF, bootstrap
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((60, 2)) @ np.array(
    ...     [[5.0, 3.0, 0.0, 1.0], [0.0, 1.0, 4.0, 2.0]]
    ... ) + 0.05 * rng.random((60, 4))
    >>> found = bootstrap(HierarchicalNMF(2).fit(X), X, n_runs=50)
    >>> bool(
    ...     (found.components_low <= found.components).all()
    ...     and (found.components <= found.components_high).all()
    ... )
    True
    """
    if check_count(n_runs, "n_runs") == 1:
        raise InvalidInputError("intervals need several draws; n_runs must be at least 2.")
    check_callable(callback, "callback")
    if isinstance(level, bool) or not isinstance(level, (float, np.floating)) or not 0 < level < 1:
        raise InvalidInputError(f"level must be a number above 0 and below 1; got {level!r}.")
    if noise not in NOISES:
        raise InvalidInputError(f"noise must be one of {', '.join(NOISES)}; got {noise!r}.")
    table = _checked(model, X, n_runs)
    seed = int(generator(random_state).integers(2**31 - 1))
    kind = (
        noise
        if noise != "auto"
        else "poisson"
        if getattr(model, "loss", "") == "kullback-leibler"
        else "residuals"
    )
    if kind == "poisson":
        _check_counts(table)
    shows = None if verbose is None else False  # `reporter` prints
    with (
        showing("bootstrap", shows),
        limit_threads(n_jobs),
        serial_blas(),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # of drawn tables: empty features, limits of iterations
        kinds = _kinds(model)
        centre, refit = (
            _plain(model, table, kinds)
            if isinstance(model, (CatalogueNMF, ConsensusNMF))
            else _anew(model)
        )
        drawn: Noise = (
            Poisson(centre.W, centre.H, table.is_sparse)
            if kind == "poisson"
            else Residuals(_entries(table), centre.W, centre.H)
        )

        def one(i: int) -> _Factors:
            return _like(refit(drawn.table(np.random.default_rng([seed, i]))), centre.H, kinds)

        draws = list(
            many_runs(
                one, n_runs, None, reporter("bootstrap", "draws", n_runs, verbose, callback)
            ).values()
        )
    return _result(centre, draws, level, kind)


def _result(centre: _Factors, draws: list[_Factors], level: float, kind: str) -> BootstrapResult:
    H = intervals(np.array([draw.H for draw in draws]), centre.H, level)
    W = intervals(np.array([draw.W for draw in draws]), centre.W, level)
    shares = np.zeros_like(centre.W)
    for draw in draws:
        labels = _labels(draw)
        rows = np.flatnonzero(labels != NO_CLUSTER)
        shares[rows, labels[rows]] += 1 / len(draws)
    return BootstrapResult(
        centre.H, *H, centre.W, *W, _labels(centre), shares, float(level), kind, len(draws)
    )


def _labels(found: _Factors) -> IntArray:
    labels: IntArray = np.argmax(found.W * row_lengths(found.H), axis=1).astype(np.int64)
    labels[~found.W.any(axis=1)] = NO_CLUSTER
    return labels


def _kinds(model: Any) -> IntArray:
    """A number for each component; only components of the same number may change places: those
    about which the same is known."""
    fixed = model._fitted.fixed
    return np.zeros(len(model.components_), np.int64) if fixed is None else fixed.kinds


def _like(found: _Factors, H: FloatArray, kinds: IntArray) -> _Factors:
    """The factors with their components in the order of ``H``, among those of one kind, and with
    its sums."""
    order = np.arange(len(H))
    for kind in np.unique(kinds):
        same = np.flatnonzero(kinds == kind)
        order[same] = same[matched(found.H[same], H[same])[0]]
    sums, wanted = found.H[order].sum(axis=1), H.sum(axis=1)
    scale = np.where((sums > 0) & (wanted > 0), wanted / np.where(sums > 0, sums, 1.0), 1.0)
    return _Factors(
        found.W[:, order] / np.where(scale > 0, scale, 1.0),
        found.H[order] * scale[:, None],
        found.objective,
    )


def _plain(
    model: Any, table: Table, kinds: IntArray
) -> tuple[_Factors, Callable[[Table], _Factors]]:
    """The solution, fitted to convergence, and how a drawn table is factorized from there."""
    unit, fixed = model._fitted.unit, model._fitted.fixed
    run = kl if getattr(model, "loss", "") == "kullback-leibler" else hals
    method = partial(run, fixed=fixed, tol=TOL, max_iter=MAX_ITER)

    def fitted(X: Table, W: FloatArray, H: FloatArray) -> _Factors:
        found = method(X.divided(unit), W, H / unit)
        # a draw of few counts may have none
        share = found.objective / found.scale if found.scale else 0.0
        return _Factors(
            np.asarray(found.W, np.float64), np.asarray(found.H, np.float64) * unit, share
        )

    H = np.asarray(model.components_, np.float64)
    centre = _like(fitted(table, np.asarray(model.embedding_, np.float64), H), H, kinds)
    return centre, lambda X: fitted(X, centre.W, centre.H)


def _anew(model: Any) -> tuple[_Factors, Callable[[Table], _Factors]]:
    """The solution as it is; a drawn table is factorized by the same estimator."""

    def fitted(X: Table) -> _Factors:
        again = clone(model).set_params(n_components=len(model.components_))
        found = again.fit(X.array)
        return _Factors(
            np.asarray(found.embedding_, np.float64),
            np.asarray(found.components_, np.float64),
            found.relative_err_**2,
        )

    centre = _Factors(
        np.asarray(model.embedding_, np.float64), np.asarray(model.components_, np.float64), 0.0
    )
    return centre, fitted


def _entries(table: Table) -> FloatArray:
    return np.asarray(as_dense(table.array), np.float64)


def _check_counts(table: Table) -> None:
    """Refuse entries that Poisson's distribution cannot have."""
    found = first_no_count(table.array)
    if found is not None:
        row, column, value = found
        raise InvalidInputError(
            f"noise='poisson' draws counts, and X has {value:.6g} at row {row}, column {column},"
            " which is none; fit the counts themselves, or use noise='residuals'."
        )
    data = np.asarray(table.entries if hasattr(table, "entries") else table.array)
    shared = int(np.gcd.reduce(data[data > 0].astype(np.int64))) if data.any() else 1
    if shared > 1 and np.count_nonzero(data) >= LEAST_COUNTS:
        raise InvalidInputError(
            f"noise='poisson' draws counts, and all entries of X are multiples of {shared}, as if"
            f" counts had been multiplied; divide X by {shared} before the fit, or use"
            " noise='residuals'."
        )


def _check_same_table(model: Any, table: Table) -> None:
    """Refuse a table whose distance from the fit is not the one that `fit` found."""
    W, H = (np.asarray(part, np.float64) for part in (model.embedding_, model.components_))
    unit, of_codes = float(power_of_two(table.peak)), power_of_two(W.max())
    working = table.divided(unit)
    norm = float(np.sqrt(working.squared_norm))
    with np.errstate(over="ignore", invalid="ignore"):  # of a table in quite another unit
        found, fitted = (
            np.sqrt(squared_error(working, W / of_codes, H / unit * of_codes)),
            model.reconstruction_err_ / unit,
        )
    if not abs(found - fitted) <= SAME * norm:
        raise InvalidInputError(
            f"X is {found / norm:.4g} of its length away from the fit of this"
            f" {type(model).__name__}, and the table that it was fitted to {fitted / norm:.4g}: it"
            " is another table; pass the same one, or call `fit` again."
        )


def _checked(model: Any, X: Any, n_runs: int) -> Table:
    """``X`` as a table that ``model`` was fitted to, as far as can be seen."""
    this = f"this {type(model).__name__}"
    check_is_fitted(model)
    if not isinstance(model, (BaseNMF, MixtureNMF)):
        package = type(model).__module__.partition(".")[0]
        raise InvalidInputError(
            f"{this} of {package} is none of conecollapse's factorizations; fit one of them, such"
            " as HierarchicalNMF."
        )
    if (
        getattr(model, "affinity", None) is not None
        or model._fitted.skips_empty
        or not hasattr(model, "components_")
    ):
        raise InvalidInputError(
            f"{this} has no components over features; bootstrap needs a model without a graph."
        )
    if not hasattr(model, "embedding_"):
        raise InvalidInputError(
            f"{this} was made from a catalogue; bootstrap needs a model that was fitted to X."
        )
    if getattr(model, "missing", "nan") == "unstored" or getattr(model, "robust", None) is not None:
        raise InvalidInputError(
            f"{this} takes entries as missing or uncertain, which bootstrap cannot draw; fit one to"
            " a whole table."
        )
    if counted := model._fitted.weighted_by:
        raise InvalidInputError(
            f"{this} was fitted with {counted}, which bootstrap cannot draw; fit one to a"
            " whole table without."
        )
    table = (
        model._check_table(X, None, reset=False)
        if isinstance(model, WeightedNMF)
        else check_table(model, X, reset=False)
    )
    if not table.is_complete:
        raise InvalidInputError(
            f"X has missing entries (NaN), but {this} was fitted to a table without; pass the same"
            " table."
        )
    if not table.in_memory:
        raise InvalidInputError(
            f"bootstrap draws whole tables, and X is {table.kind}; pass a part of its samples, and"
            " a model of it."
        )
    W, H = model.embedding_, model.components_
    if len(W) != table.shape[0]:
        raise InvalidInputError(
            f"X has {table.shape[0]} samples, but {this} was fitted to {len(W)}; pass the same"
            " table."
        )
    if H.shape[1] != table.shape[1]:
        raise InvalidInputError(
            f"{this} has no components over features; bootstrap needs a model without a graph."
        )
    _check_same_table(model, table)
    most = MOST_ENTRIES // (W.size + H.size)
    if n_runs > most:
        raise InvalidInputError(
            f"{n_runs} draws of these factors have too many numbers; ask for at most {most} draws,"
            " or fit fewer samples."
        )
    return table
