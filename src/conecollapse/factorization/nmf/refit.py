r"""Encodings of samples over a catalogue of components, of which each sample uses few.

For a sample x and components H

.. math:: \min_{w \ge 0}\ \frac{1}{2} \|x - w H\|^2 + \lambda \mu \sum_k \|h_k\| w_k , \qquad
          \mu = \max_k \frac{x \cdot h_k}{\|h_k\|} ,

with at most so many positive entries. With :math:`\lambda = 1` the best w is zero, since no
component gains more than it costs, so that :math:`0 \le \lambda < 1` means the same for samples and
components of any scale. The price only changes the right-hand side of the normal equations,
:math:`c_k = x \cdot h_k - \lambda \mu \|h_k\|`.

*Few entries* are chosen one by one. For a set S of components let :math:`E(S)` be the least squared
residual with :math:`w_j = 0` outside S.

- *Forward*: S is empty at first. The component joins with which :math:`E(S + j)` is smallest; S
  then keeps the components that are positive.
- *Backward*: S holds the positive entries of the solution over all components at first. The
  component leaves without which :math:`E(S - j)` is smallest.

Let w be the solution over S, positive on S, :math:`G = H H^T` and :math:`g = c - w G`. Without the
constraint on the entries that are positive, the values of E have closed forms, and the constraint
can only raise them:

.. math:: E(S) - E(S + j) \le \frac{g_j^2}{G_{jj} - G_{jS} G_{SS}^{-1} G_{Sj}} , \qquad
          E(S - j) - E(S) \ge \frac{w_j^2}{(G_{SS}^{-1})_{jj}} .

So candidates are solved for in the order of these bounds, until no bound is better than the best
value found; that is nearly always the first one.

Samples and components are brought to lengths near one first, by powers of two, so that no square
leaves the range of floating point.
"""

from __future__ import annotations

import numpy as np

from conecollapse._linalg import row_lengths
from conecollapse._nnls.factor import DEPENDENT_SQUARE
from conecollapse._nnls.products import plain_problems, solve, unit_products
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray
from conecollapse.factorization.nmf.anls import solve_rows
from conecollapse.tables import Table

SELECTIONS = ("forward", "backward")
# share of the square of the largest product with a component up to which a gain is rounding
PRICE = 1e-12
BLOCK = 1024  # samples at once


def refit(
    X: Table, H: FloatArray, *, l1: float, most: int | None, selection: str, least_gain: float
) -> AnyArray:
    """The encodings of the rows of ``X``; ``least_gain`` is a share of the squared length of a row,
    ``most`` None for no limit."""
    powers = np.frexp(row_lengths(H))[1]
    H = np.ldexp(np.asarray(H, np.float64), -powers[:, None])
    shifts = np.frexp(X.row_lengths)[1]
    equations = X.row_equations(H)
    G = np.asarray(equations.G, np.float64)
    C = np.ldexp(np.asarray(equations.C, np.float64), -shifts[:, None])
    if l1:
        lengths = np.sqrt(np.diag(G))
        shares = C / np.where(lengths > 0, lengths, np.inf)
        C = C - l1 * shares.max(axis=1, keepdims=True) * lengths
    if most is None and not least_gain:
        codes = solve_rows(G, C)
    else:
        gain = least_gain * np.square(np.ldexp(X.row_lengths, -shifts))
        codes = stepwise(G, C, len(G) if most is None else most, gain, selection == "backward")
    return np.ldexp(codes, shifts[:, None] - powers)


def stepwise(
    G: FloatArray, C: FloatArray, most: int, gain: FloatArray, backward: bool
) -> FloatArray:
    """One solution with at most ``most`` positive entries for each row c of ``C``; ``gain`` is what
    a component must lower the squared residual of each row by."""
    unit_G, unit_C, inverse = unit_products(G, C)
    codes = np.empty_like(unit_C)
    for a in range(0, len(C), BLOCK):
        rows = slice(a, a + BLOCK)
        codes[rows] = _select(unit_G, unit_C[rows], most, gain[rows], backward)
    return codes * inverse


def _select(
    G: FloatArray, C: FloatArray, most: int, gain: FloatArray, backward: bool
) -> FloatArray:
    problems = plain_problems(G, C)
    X = solve(problems).X if backward else np.zeros_like(C)
    least = np.maximum(gain, PRICE * np.square(problems.size))
    live = np.arange(len(C))
    while len(live):
        X_live, c = X[live], C[live]
        count = (X_live > 0).sum(axis=1)
        if backward:
            bounds, floor = -_rises(G, X_live), np.where(count > most, -np.inf, -gain[live])
        else:
            bounds, floor = _gains(G, c, X_live), np.where(count < most, least[live], np.inf)
        changed, found = _best_change(G, c, X_live, bounds, floor)
        live = live[changed]
        X[live] = found[changed]
    return X


def _best_change(
    G: FloatArray, C: FloatArray, X: FloatArray, bounds: FloatArray, floor: FloatArray
) -> tuple[BoolArray, FloatArray]:
    """For each row the solution with one more, or one less, component: the one that explains most.
    And whether it explains more than now by more than ``floor``; ``bounds`` are on this change."""
    found, best, left = X.copy(), floor.copy(), bounds.copy()
    while True:
        at = left.argmax(axis=1)
        rows = np.flatnonzero(left[np.arange(len(at)), at] > best)
        if not len(rows):
            return best > floor, found
        at = at[rows]
        left[rows, at] = -np.inf
        allowed = X[rows] > 0
        allowed[np.arange(len(rows)), at] ^= True
        start = np.where(allowed, X[rows], 0.0)
        problems = plain_problems(G, C[rows])._replace(upper=np.where(allowed, np.inf, 0.0))
        tried = solve(problems, start).X
        change = np.einsum("ij,ij->i", C[rows], tried - X[rows])
        better = change > best[rows]
        best[rows[better]], found[rows[better]] = change[better], tried[better]


def _gains(G: FloatArray, C: FloatArray, X: FloatArray) -> FloatArray:
    """Bounds on what each component would gain; none for those in S, and those that S spans."""
    places, inverses, used = _inverses(G, X)
    B = G[places] * used[:, :, None]
    outside = np.diag(G) - np.einsum("iaj,iab,ibj->ij", B, inverses, B, optimize=True)
    slopes = C - X @ G
    may_join = (X == 0) & (slopes > 0) & (outside > DEPENDENT_SQUARE)
    return np.where(may_join, np.square(slopes) / np.where(may_join, outside, 1.0), -np.inf)


def _rises(G: FloatArray, X: FloatArray) -> FloatArray:
    """Bounds on what the residual would rise by without each component of S."""
    places, inverses, used = _inverses(G, X)
    rises = np.full(X.shape, np.inf)
    values = np.take_along_axis(X, places, axis=1)
    own = np.square(values) / np.einsum("iaa->ia", inverses)
    np.put_along_axis(rises, places, np.where(used, own, np.inf), axis=1)
    return rises


def _inverses(G: FloatArray, X: FloatArray) -> tuple[IntArray, FloatArray, BoolArray]:
    """For each row the numbers of the components of S, padded with others, the inverse of their
    products, and which are no padding."""
    size = max(int((X > 0).sum(axis=1).max(initial=0)), 1)
    places: IntArray = np.argsort(X <= 0, axis=1, kind="stable")[:, :size]
    used = np.take_along_axis(X > 0, places, axis=1)
    products = G[places[:, :, None], places[:, None, :]]
    products = np.where(used[:, :, None] & used[:, None, :], products, np.eye(size))
    return places, np.asarray(np.linalg.inv(products), np.float64), used
