r"""How far a factorization with missing entries is shrunk, chosen by entries that are held out.

Where entries are missing, a factorization of many components fits noise: a component that few known
entries of a row tell about gets any coefficient, and the model of the missing ones is far off. The
penalty of `conecollapse.tables.masked`,

.. math:: \sum_{ij\ \mathrm{known}} (x_{ij} - (WH)_{ij})^2 + \sum_k \lambda_k \|w_k\|^2 \|h_k\|^2 ,

keeps contributions small that the known entries do not ask for. A tenth of the known entries is
held out, the others are factorized at falling :math:`\lambda`, each from where the last ended. This
is done for up to five tenths, and the :math:`\lambda` with the smallest squared error on the
held-out entries is chosen, or zero where its error is larger by no more than one standard error of
the differences between the tenths: a factorization that went wrong in one of them does not decide.
For data that a factorization describes exactly zero is chosen. The errors may rise and fall again
as :math:`\lambda` falls, so all shares are tried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from conecollapse._types import AnyArray, FloatArray, IntArray
from conecollapse.factorization.initial_factors import initialize
from conecollapse.factorization.result import Factorization
from conecollapse.tables import MaskedTable

SHARES = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0)
# share of the known entries that is held out, and how many are enough
HELD_OUT, ENOUGH = 0.1, 200_000
# that are held out in turn, fewer where they have enough entries: squared errors have long tails
MOST_FOLDS = 5
TOL, MOST = 1e-4, 15  # of each factorization
# entries of a start are not below this share of the mean: a component that was shrunk to zero may
# come back
ALIVE = 1e-3
BLOCK = 2**16  # entries that are predicted at once


class HeldOut(NamedTuple):
    """Entries that are held out, and the table without them."""

    rest: MaskedTable
    rows: IntArray
    columns: IntArray
    values: FloatArray


class Choice(NamedTuple):
    """A share of the penalty, and the components that were found with it without the held-out
    entries of each fold."""

    shrinkage: float
    components: list[AnyArray]


def hold_out(table: MaskedTable, seed: int, fold: int = 0) -> HeldOut:
    """A tenth of the known entries, the same ones for the same table and seed; every row and column
    keeps one that is known."""
    n, m = table.shape
    known = np.flatnonzero(table.weights.entries > 0)
    rng = np.random.default_rng([seed, n, m])
    count = min(int(HELD_OUT * len(known)), ENOUGH)
    chosen = known[np.sort(rng.permutation(len(known))[fold * count : (fold + 1) * count])]
    rows, columns = table.places(chosen)
    rest = np.array(table.weights.entries)
    rest[chosen] = 0
    left = table.places(np.flatnonzero(rest > 0))
    kept = (np.bincount(left[0], minlength=n) > 0)[rows] & (np.bincount(left[1], minlength=m) > 0)[
        columns
    ]
    chosen, rows, columns = chosen[kept], rows[kept], columns[kept]
    return HeldOut(
        table.without(chosen), rows, columns, np.asarray(table.values.entries[chosen], np.float64)
    )


def choose_shrinkage(
    run: Callable[..., Factorization], table: MaskedTable, r: int, seed: int
) -> Choice:
    """Zero, or the share with the smallest error on held-out entries;
    ``run(X, W, H, tol=, max_iter=, callback=)`` is the method."""
    size = max(1, int(HELD_OUT * np.count_nonzero(table.weights.entries)))
    parts = [hold_out(table, seed, fold) for fold in range(min(MOST_FOLDS, -(-ENOUGH // size)))]
    init = "nndsvda" if r <= min(table.shape) else "random"
    factors = [initialize(part.rest, r, init, np.random.default_rng(seed)) for part in parts]
    if not len(parts[0].values):
        return Choice(0.0, [H for _, H in factors])
    errors, components = [], []
    for share in SHARES:
        found = [
            run(
                part.rest.shrunk(share), _alive(W), _alive(H), tol=TOL, max_iter=MOST, callback=None
            )
            for part, (W, H) in zip(parts, factors, strict=True)
        ]
        factors = [(one.W, one.H) for one in found]
        errors.append([_error(part, *pair) for part, pair in zip(parts, factors, strict=True)])
        components.append([H for _, H in factors])
    chosen = _zero_or_best(np.array(errors))
    return Choice(SHARES[chosen], components[chosen])


def _zero_or_best(errors: FloatArray) -> int:
    """The index of the smallest sum of the errors (shares, folds), or the last one, zero, if that
    is within one standard error of it."""
    best = int(errors.sum(axis=1).argmin())
    more = errors[-1] - errors[best]
    spread = float(more.std(ddof=1)) / np.sqrt(len(more)) if len(more) > 1 else 0.0
    return len(errors) - 1 if float(more.mean()) <= spread else best


def _error(part: HeldOut, W: AnyArray, H: AnyArray) -> float:
    return float(np.square(predicted(W, H, part.rows, part.columns) - part.values).sum())


def predicted(W: AnyArray, H: AnyArray, rows: IntArray, columns: IntArray) -> FloatArray:
    """Entries of ``W H``."""
    Ht, out = np.ascontiguousarray(H.T), np.empty(len(rows))
    for a in range(0, len(rows), BLOCK):
        piece = slice(a, a + BLOCK)
        out[piece] = np.einsum("ek,ek->e", W[rows[piece]], Ht[columns[piece]])
    return out


def _alive(F: AnyArray) -> AnyArray:
    return np.maximum(F, F.dtype.type(ALIVE * F.mean()))
