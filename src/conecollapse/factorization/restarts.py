"""Several starts of one method; the best objective wins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from conecollapse._types import AnyArray
from conecollapse.factorization.data import Factorization
from conecollapse.factorization.inits import from_labels, initialize, kmeans_labels, spectral_embedding
from conecollapse.tables import Table, as_table

SAME_OBJECTIVE = 64.0  # roundoffs of the squared norm within which two objectives count as one
SETTLED = 1e-5  # and so do objectives that differ by this share: a run stops where one more step would change no more
REPEATABLE = ("nndsvd", "nndsvda")  # no randomness: a second start would be the first again


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
) -> Factorization:
    """Call ``run(X, W, H)`` from up to ``n_init`` starts and keep the factorization with the smallest objective.

    Starts that end in the same place differ by rounding and by where they stopped. The first of them is taken, so that neither the
    order in which products were summed nor the kind of storage decides.

    ``embedding`` replaces the spectral embedding of X in ``init="spectral"``, and ``weights`` are those of the samples in its k-means.
    """
    X = as_table(X)
    results = (run(X, W, H) for W, H in starts(X, n_components, init, n_init, rng, embedding, weights))
    first = best = next(results)
    for result in results:
        rounding = SAME_OBJECTIVE * float(np.finfo(result.W.dtype).eps) * result.scale
        if result.objective < best.objective - rounding:
            best = result
        if first.objective > best.objective * (1 + SETTLED) + rounding:
            first = best
    return first


def starts(
    X: Table, r: int, init: Any, n_init: int, rng: np.random.Generator, embedding: AnyArray | None, weights: AnyArray | None
) -> Iterator[tuple[AnyArray, AnyArray]]:
    """The starts one after the other; the spectral embedding is computed once for all of them."""
    if isinstance(init, str) and init == "spectral":
        E = spectral_embedding(X, r, rng) if embedding is None else embedding
        for _ in range(n_init):
            yield from_labels(X, kmeans_labels(E, r, rng, weights), r)
        return
    is_repeatable = not isinstance(init, str) or init in REPEATABLE
    for _ in range(1 if is_repeatable else n_init):
        yield initialize(X, r, init, rng)
