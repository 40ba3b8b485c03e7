"""Several starts of one method; the best objective wins."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Starts:
    """Where the runs of a method for r components begin."""

    r: int
    init: Any  # as in `initialize`
    n_init: int
    rng: np.random.Generator
    embedding: AnyArray | None = None  # in place of the spectral embedding of the table
    weights: AnyArray | None = None  # of the samples in its k-means
    sample_weight: FloatArray | None = None  # as in `initialize`
    n_trials: int = 1  # of which each start is the best after `TRIAL` iterations

    @property
    def is_spectral(self) -> bool:
        return isinstance(self.init, str) and self.init == "spectral"

    def draw(self, X: Table) -> Iterator[IntArray | tuple[AnyArray, AnyArray]]:
        """The starts one after the other, as labels or as a pair (W, H); the spectral embedding is
        computed once for all of them."""
        n_starts, s = self.n_init * self.n_trials, self.sample_weight
        if self.is_spectral:
            embedding = self.embedding
            if embedding is None:
                embedding = spectral_embedding(X.completed(s), self.r, self.rng)
            weights = s if self.weights is None else self.weights
            for _ in range(n_starts):
                yield kmeans_labels(embedding, self.r, self.rng, weights)
            return
        is_repeatable = not isinstance(self.init, str) or self.init in REPEATABLE
        for _ in range(1 if is_repeatable else n_starts):
            yield initialize(X, self.r, self.init, self.rng, s)


def best_of_starts(
    run: Callable[[Table, AnyArray, AnyArray], Factorization], X: Table, starts: Starts
) -> Factorization:
    """Call ``run(X, W, H)`` from the starts and keep the factorization with the smallest objective.

    A method that is `FromLabels` compares its starts itself, and finds those of the spectral
    embedding itself too.

    Starts that end in the same place differ by rounding and by where they stopped. The first of
    them is taken, so that neither the order in which products were summed nor the kind of storage
    decides.
    """
    drawn = starts.draw(X)
    if isinstance(run, FromLabels):
        if starts.embedding is None and starts.is_spectral:
            return run.best_of(run.promising(starts.r, starts.n_init, starts.rng), starts.r)
        labels = (one[0].argmax(axis=1) if isinstance(one, tuple) else one for one in drawn)
        return run.best_of(labels, starts.r)
    pairs: Iterator[tuple[AnyArray, AnyArray]] = (
        one if isinstance(one, tuple) else from_labels(X, one, starts.r, starts.sample_weight)
        for one in drawn
    )
    if starts.n_trials > 1:
        pairs = _try(run, X, pairs, starts.n_trials)
    rounding = SAME_OBJECTIVE * float(np.finfo(X.dtype).eps)
    return first_of_best(
        (run(X, W, H) for W, H in pairs), lambda result: (result.objective, rounding * result.scale)
    )


def _try(
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
