r"""Missing entries filled in by several guesses, in the proportions that predict entries which are
held out.

The guesses for an entry of row i and feature j:

- the model, :math:`(WH)_{ij}`;
- the mean of the feature;
- a product :math:`a_i b_j` of a number for the row and one for the feature;
- the mean of the feature over the nearest rows, those in which it is known, each by one over its
  squared distance;
- the model plus what it misses in the nearest rows, by the same mean.

The squared distance of two rows is the mean squared difference over the entries that are known in
both. A tenth of the known entries is held out and all guesses are made from the others, for up to
five tenths. The weighted mean of the guesses with the smallest squared error on the held-out
entries is taken (stacking; Breiman 1996). The nearest rows get the largest weight where samples
form groups, the model where the table has a low rank.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from conecollapse._linalg import power_of_two
from conecollapse._nnls import nnls
from conecollapse._types import AnyArray, FloatArray
from conecollapse.factorization.nmf.shrinkage import hold_out
from conecollapse.tables import MaskedTable
from conecollapse.tables.guessed import rank_one_guess

NEIGHBOURS = 7  # nearest rows in which an entry is known, on average
MOST_DONORS = 4096  # rows among which neighbours are looked for
BLOCK = 512  # rows at once
FEW = 50  # with fewer held-out entries there is nothing to learn the proportions from
PULL = 0.1  # weight of the guess without neighbours, where the nearest neighbour has weight one
NEAREST = 1e-6  # of the mean squared distance: nearer rows count as this near

Model = Callable[[MaskedTable], FloatArray]  # all entries of a table by a factorization


@dataclass(frozen=True)
class Imputer:
    """What a fit with missing entries knows of guesses: encoders over components that have not seen
    one fold of the known entries each, by `hold_out` with this seed."""

    unseen: tuple[Any, ...] = ()
    seed: int = 0

    def __call__(self, table: MaskedTable, fitted: Any) -> FloatArray:
        """Guesses for all entries of a dense table; ``fitted`` is the model of all entries."""
        unit = float(power_of_two(table.peak))  # guesses from neighbours square entries

        def in_unit(model: Any) -> Model:
            return lambda part: model.model(part.divided(1 / unit)) / unit

        unseen = [replace(fitted, encoder=one, components=one.H, order=None) for one in self.unseen]
        models = [in_unit(model) for model in unseen]
        return stacked_guesses(table.divided(unit), in_unit(fitted), models, self.seed) * unit


def stacked_guesses(table: MaskedTable, model: Model, unseen: list[Model], seed: int) -> FloatArray:
    """Guesses for all entries of a dense table; each model of ``unseen`` has not seen one fold of
    `hold_out` with this seed."""
    parts = [hold_out(table, seed, fold) for fold in range(len(unseen))]
    x = np.concatenate([part.values for part in parts])
    if len(x) < FEW:
        return model(table)
    columns = [
        [guess[part.rows, part.columns] for guess in _guesses(part.rest, without(part.rest), seed)]
        for part, without in zip(parts, unseen, strict=True)
    ]
    shares, _ = nnls(np.concatenate(columns, axis=1).T, x, simplex=True)
    guesses = _guesses(table, model(table), seed)
    mixed = sum(share * guess for share, guess in zip(shares, guesses, strict=True) if share > 0)
    # of a feature that no row knows only the model knows
    return np.where((table.weights.array > 0).any(axis=0), mixed, guesses[0])


def _guesses(table: MaskedTable, model: FloatArray, seed: int) -> list[FloatArray]:
    X, known = (
        table.values.array.astype(np.float64, copy=False),
        (table.weights.array > 0).astype(np.float64),
    )
    means = np.broadcast_to(X.sum(axis=0) / np.maximum(known.sum(axis=0), 1), X.shape)
    independent = np.outer(*rank_one_guess(table.values, type(table.values)(known)))
    near, beside = (
        np.maximum(guess, 0) for guess in _from_neighbours(X, known, (means, model), seed)
    )
    return [model, means, independent, near, beside]


def _from_neighbours(
    X: FloatArray, known: FloatArray, bases: tuple[AnyArray, ...], seed: int
) -> list[FloatArray]:
    """Each guess of ``bases`` plus the weighted mean of what it misses in the nearest rows; ``X``
    is zero where it is not known."""
    n = len(X)
    donors = np.sort(np.random.default_rng(seed).permutation(n)[:MOST_DONORS])
    count = min(int(np.ceil(NEIGHBOURS / known.mean())), len(donors) - 1)
    if count < 1:
        return [np.array(base) for base in bases]
    misses = [(X[donors] - base[donors]) * known[donors] for base in bases]
    out = [np.empty_like(X) for _ in bases]
    for a in range(0, n, BLOCK):
        rows = slice(a, min(a + BLOCK, n))
        S = _weights(X, known, rows, donors, count)
        total = S @ known[donors] + PULL
        for guess, base, miss in zip(out, bases, misses, strict=True):
            guess[rows] = base[rows] + (S @ miss) / total
    return out


def _weights(
    X: FloatArray, known: FloatArray, rows: slice, donors: AnyArray, count: int
) -> FloatArray:
    """Weights of the donors for these rows: at most one, and zero beyond the ``count`` nearest."""
    Y, K = X[donors], known[donors]
    shared = known[rows] @ K.T
    squares = np.square(X[rows]) @ K.T + known[rows] @ np.square(Y).T - 2 * X[rows] @ Y.T
    distance = np.where(shared > 0, np.maximum(squares, 0) / np.maximum(shared, 1), np.inf)
    distance[np.arange(rows.start, rows.stop)[:, None] == donors] = np.inf  # itself
    farthest = np.partition(distance, count - 1, axis=1)[:, count - 1 : count]
    finite = np.isfinite(distance)
    floor = NEAREST * distance[finite].mean() + np.finfo(np.float64).tiny if finite.any() else 1.0
    inverse = np.where((distance <= farthest) & finite, 1 / np.maximum(distance, floor), 0.0)
    return np.asarray(
        inverse / np.maximum(inverse.max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    )
