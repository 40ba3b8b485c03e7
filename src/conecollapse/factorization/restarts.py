"""Several starts of one method; the best objective wins."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from conecollapse._types import AnyArray, FloatArray, IntArray
from conecollapse.factorization.initial_factors import (
    from_labels,
    initialize,
    kmeans_labels,
    spectral_embedding,
)
from conecollapse.factorization.result import Factorization
from conecollapse.tables import Table

SAME_OBJECTIVE = 64.0  # roundoffs of the squared norm within which two objectives count as one
# and so do objectives that differ by this share: a run stops where one more step would change no
# more
SETTLED = 1e-5
TRIAL = 15  # iterations after which starts are compared
REPEATABLE = ("nndsvd", "nndsvda")  # no randomness: a second start would be the first again


@runtime_checkable
class FromLabels(Protocol):
    """A method that begins from clusters, and compares its starts itself."""

    def best_of(self, starts: Iterable[IntArray], r: int) -> Factorization: ...

    def promising(self, r: int, n_starts: int, rng: np.random.Generator) -> Iterable[IntArray]: ...


def best_of_starts(
    run: Callable[[Table, AnyArray, AnyArray], Factorization],
    X: Table,
    n_components: int,
    init: Any,
    n_init: int,
    rng: np.random.Generator,
    *,
    embedding: AnyArray | None = None,
    weights: AnyArray | None = None,
    n_trials: int = 1,
    sample_weight: FloatArray | None = None,
) -> Factorization:
    """Call ``run(X, W, H)`` from up to ``n_init`` starts and keep the factorization with the
    smallest objective.

    A method that is `FromLabels` compares its starts itself, and finds those of the spectral
    embedding itself too.

    Starts that end in the same place differ by rounding and by where they stopped. The first of
    them is taken, so that neither the order in which products were summed nor the kind of storage
    decides.

    With ``n_trials`` each start is the best of so many, after `TRIAL` iterations of each.

    ``embedding`` replaces the spectral embedding of X in ``init="spectral"``, and ``weights`` are
    those of the samples in its k-means. ``sample_weight`` is as in `initialize`.
    """
    n_starts = n_init * n_trials
    spread = starts(X, n_components, init, n_starts, rng, embedding, weights, sample_weight)
    if isinstance(run, FromLabels):
        if embedding is None and isinstance(init, str) and init == "spectral":
            return run.best_of(run.promising(n_components, n_init, rng), n_components)
        return run.best_of(
            (start[0].argmax(axis=1) if isinstance(start, tuple) else start for start in spread),
            n_components,
        )
    drawn = (
        start if isinstance(start, tuple) else from_labels(X, start, n_components, sample_weight)
        for start in spread
    )
    pairs = _tried(run, X, drawn, n_trials) if n_trials > 1 else drawn
    rounding = SAME_OBJECTIVE * float(np.finfo(X.dtype).eps)
    return first_of_best(
        (run(X, W, H) for W, H in pairs), lambda result: (result.objective, rounding * result.scale)
    )


def _tried(
    run: Callable[..., Factorization],
    X: Table,
    pairs: Iterator[tuple[AnyArray, AnyArray]],
    n_trials: int,
) -> Iterator[tuple[AnyArray, AnyArray]]:
    """Of each ``n_trials`` starts the one that is best after a few iterations."""
    while batch := list(itertools.islice(pairs, n_trials)):
        best = min(
            (run(X, W, H, tol=0.0, max_iter=TRIAL) for W, H in batch),
            key=lambda result: result.objective,
        )
        yield best.W, best.H


R = TypeVar("R")


def first_of_best(results: Iterable[R], measure: Callable[[R], tuple[float, float]]) -> R:
    """Of the results with the smallest objective the first; ``measure`` gives an objective and what
    rounding may do to it."""
    every = iter(results)
    first = best = next(every)
    lowest, _ = chosen, _ = measure(first)
    for result in every:
        objective, rounding = measure(result)
        if objective < lowest - rounding:
            best, lowest = result, objective
        if chosen > lowest * (1 + SETTLED) + rounding:
            first, chosen = best, lowest
    return first


def starts(
    X: Table,
    r: int,
    init: Any,
    n_init: int,
    rng: np.random.Generator,
    embedding: AnyArray | None,
    weights: AnyArray | None,
    sample_weight: FloatArray | None,
) -> Iterator[IntArray | tuple[AnyArray, AnyArray]]:
    """The starts one after the other, as labels or as a pair (W, H); the spectral embedding is
    computed once for all of them."""
    if isinstance(init, str) and init == "spectral":
        if embedding is None:
            embedding = spectral_embedding(X.completed(sample_weight), r, rng)
        for _ in range(n_init):
            yield kmeans_labels(embedding, r, rng, sample_weight if weights is None else weights)
        return
    is_repeatable = not isinstance(init, str) or init in REPEATABLE
    for _ in range(1 if is_repeatable else n_init):
        yield initialize(X, r, init, rng, sample_weight)
