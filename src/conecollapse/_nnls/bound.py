r"""How much smaller a residual could be: what a solution and its gradient prove, rounding included.

Let ``h >= 0`` be a candidate for unit columns ``z_j``, ``r = b - Z h`` its residual and
:math:`g_j = z_j \cdot r` the *price* of a column. Call some columns, among them all with
``h_j > 0``, *held*, let :math:`\sigma` be their smallest singular value, and let ``v_j`` be what is
wrong with a column: ``|g_j|`` where ``h_j > 0``, else ``g_j``. For any other candidate ``h*`` with
``d = Z (h* - h)``,

.. math:: |r^*|^2 = |r|^2 - 2 g \cdot (h^* - h) + |d|^2, \qquad
   |h^* - h|_{held} \le (|d| + \sum_{others} h^*_j) / \sigma,

so with *lean* :math:`= |\max(v_{held}, 0)| / \sigma` and *worst* the largest ``v_j + lean`` of the
other columns

.. math:: |r^*|^2 \ge |r|^2 - lean^2 - 2 \max(worst, 0) \sum_{others} h^*_j.

If *worst* is not positive, this is a lower bound for every ``h*``, however large. If it is, a bound
on the last sum is needed (*reach*): :math:`\sqrt{m} |b|` in an optimum where the signs of A do not
mix. Otherwise nothing is proven: a price far below rounding can belong to a column that lowers the
residual a great deal, with an enormous coefficient. All of it is relative to the residual that A
and b themselves give, so no scaling of rows or columns can hide an error.

With constraints the same holds for twice the objective in place of the squared residual, prices
less the multiplier of a sum, ``-v_j`` at an upper bound, columns extended by the root of a ridge
and by a row for a sum (which makes them longer than one: *longest*), and :math:`|h^*_j - h_j|` in
the sums.

A column that is a passive one, or its negative, lies in the span of the held columns: its
coefficient and that of the passive one are one coefficient without a sign. So it adds nothing, and
neither does a column of zeros (`set_aside`).

Rounding errors of sums of k terms grow like sqrt(k) (Higham & Mary 2019); that estimate is used
with room to spare.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._nnls.factor import dot
from conecollapse._types import AnyArray, BoolArray, FloatArray

# a residual norm is optimal when it is at most this share above the smallest possible one,
OPTIMAL_WITHIN = 1e-3
# or at most this share of |b|, which is what rounding leaves of ordinary problems with an exact
# solution
ZERO_RESIDUAL = 1e-12
SAFETY = 4.0  # how much smaller than estimated the smallest singular value is taken to be
# errors of x add to a residual norm above this share of |b| only their squares, which are rounding
NEAR_ZERO = 1e-6
IN_DOUBT = 1e-10  # prices of unit columns up to this share of |b| may be zero but for rounding
EPS = float(np.finfo(np.float64).eps)
# a residual norm from products may be off by this share of |b|: with 1e-9 of its own square fuzzing
# found one that was off by 1e-11
PRODUCT_ERROR = 64 * EPS
RESIDUAL_STOP = 1e-15  # a residual below this share of |b| is rounding
# of columns and right-hand sides whose squares are not lost
LEAST_LENGTH, MOST_LENGTH = 1e-140, 1e140

# how a method ended for a right-hand side: not shown to be optimal, limit on the steps, optimal
UNPROVEN, STEP_LIMIT, OPTIMAL = -1, 0, 1


class Record(NamedTuple):
    """What is known of the solutions so far. Every method fills one, and a later method starts from
    it: one row, or entry, for each right-hand side, as views of one array."""

    X: FloatArray  # (k, n): coefficients of the columns of A
    rnorm: FloatArray
    least: FloatArray  # no residual norm is smaller; zero where not known
    ending: FloatArray  # UNPROVEN, STEP_LIMIT or OPTIMAL
    steps: FloatArray

    @classmethod
    def of(cls, out: FloatArray) -> Record:
        """Views of an array of n + 4 columns, which is what kernels fill."""
        return cls(out[:, :-4], out[:, -4], out[:, -3], out[:, -2], out[:, -1])

    @classmethod
    def empty(cls, k: int, n: int) -> Record:
        return cls.of(np.zeros((k, n + 4)))

    def put(self, rows: AnyArray, other: Record) -> None:
        """Replace ``rows`` by the rows of another; steps add up, and the better bound stays."""
        other.steps[:] += self.steps[rows]
        other.least[:] = np.maximum(other.least, self.least[rows])
        for mine, theirs in zip(self, other, strict=True):
            mine[rows] = theirs


@kernel
def keeps_squares(length):  # type: ignore[no-untyped-def]
    """Whether no square of entries of this size is lost."""
    return LEAST_LENGTH < length < MOST_LENGTH


@kernel
def noise_of(h, b_norm):  # type: ignore[no-untyped-def]
    """The rounding error of the residual of coefficients ``h``."""
    total, count = b_norm, 0.0
    for j in range(len(h)):
        if h[j] > 0.0:
            total += h[j]
            count += 1.0
    return EPS * (4.0 + np.sqrt(count)) * total


@kernel
def has_accurate_square(square, error, b_norm):  # type: ignore[no-untyped-def]
    """Whether the root of a squared residual norm from products, with this error, is accurate
    enough."""
    return error <= 2.0 * PRODUCT_ERROR * b_norm * np.sqrt(np.maximum(square, 0.0))


@kernel
def lower_bound(v, held, hold_all, sigma, reach, value, noise, longest):  # type: ignore[no-untyped-def]
    """The bound of the module's text, for columns held as marked, or all of them."""
    wrong, worst = 0.0, -np.inf
    for j in range(len(v)):
        if hold_all or held[j] > 0:
            off = v[j] + noise if v[j] + noise > 0.0 else 0.0
            wrong += off * off
        elif v[j] > worst:
            worst = v[j]
    lean = 0.0
    if wrong > 0.0:
        lean = np.sqrt(wrong) * SAFETY / sigma if sigma > 0.0 else np.inf
    square, worst = value * value - lean * lean, worst + noise + lean * longest
    if worst > 0.0 and value > 0.0:
        square -= 2.0 * worst * reach
    return np.sqrt(square) if square > 0.0 else 0.0


@kernel
def lower_bounds(v, held, hold_all, sigma, reach, value, noise, longest):  # type: ignore[no-untyped-def]
    """`lower_bound` of each row."""
    least = np.empty(len(v))
    for i in range(len(v)):
        least[i] = lower_bound(
            v[i], held[i], hold_all, sigma[i], reach[i], value[i], noise[i], longest[i]
        )
    return least


@kernel
def judge(A, used, x, g, sigma, reach, norms, noise):  # type: ignore[no-untyped-def]
    """How a plain problem has ended, OPTIMAL or UNPROVEN, and the lower bound, for coefficients
    ``x`` of unit columns with prices ``g``.

    ``used`` has a list of columns and how many of its first ones are in use, ``norms`` the lengths
    of the residual and of b; ``reach`` is for a right-hand side of length one."""
    (S, k), (r_norm, b_norm) = used, norms
    set_aside(A, S, k, x, g, b_norm)
    rounding = noise_of(x, b_norm)
    for j in range(len(g)):
        g[j] = abs(g[j]) if x[j] > 0.0 else g[j]
    least = lower_bound(g, x, False, sigma, reach * b_norm, r_norm, noise + rounding, 1.0)
    least = max(least - rounding, 0.0)
    is_shown = r_norm + rounding <= (1.0 + OPTIMAL_WITHIN) * least + ZERO_RESIDUAL * b_norm
    return OPTIMAL if is_shown else UNPROVEN, least


@kernel
def close_row(row, ending, r_norm, least, b_norm):  # type: ignore[no-untyped-def]
    """Write how a right-hand side has ended; less than what rounding leaves of it is no
    residual."""
    row[-4] = r_norm if r_norm > RESIDUAL_STOP * b_norm else 0.0
    row[-3], row[-2] = least, ending


@kernel
def open_row(b, is_safe, row):  # type: ignore[no-untyped-def]
    """Write what a `Record` knows of a right-hand side before it is solved; the length of ``b``, or
    zero where there is nothing to solve or squares are lost."""
    b_norm, is_zero = np.sqrt(dot(b, b)), True
    for t in range(len(b)):
        is_zero = is_zero and b[t] == 0.0
    for j in range(len(row)):
        row[j] = 0.0
    row[-4], row[-2] = b_norm, OPTIMAL if is_zero and is_safe else UNPROVEN
    return b_norm if is_safe and keeps_squares(b_norm) else 0.0


@kernel
def set_aside(A, S, k, x, g, b_norm):  # type: ignore[no-untyped-def]
    """Give zeros, copies of the first ``k`` columns in ``S`` and their negatives a price of minus
    infinity; those with a price near zero are looked at, which are few as a rule."""
    m = len(A)
    for j in range(A.shape[1]):
        if x[j] != 0.0 or abs(g[j]) > IN_DOUBT * b_norm:
            continue
        t = 0
        while t < m and A[t, j] == 0.0:
            t += 1
        for a in range(2 * k):
            if t == m:
                break
            sign, s, t = 1.0 - 2.0 * (a % 2), S[a // 2], 0
            while t < m and A[t, j] == sign * A[t, s]:
                t += 1
        if t == m:
            g[j] = -np.inf


def is_optimal(rnorm: Any, least: Any, b_norm: Any) -> Any:
    """Whether residual norms are as good as the smallest possible ones."""
    return rnorm <= (1 + OPTIMAL_WITHIN) * least + ZERO_RESIDUAL * b_norm


def is_rough_zero(rnorm: FloatArray, H: FloatArray, b_norm: FloatArray) -> BoolArray:
    """Whether residual norms are near zero and yet larger than rounding explains: errors of the
    coefficients may be the reason."""
    explained = EPS * (4 + np.sqrt((H > 0).sum(axis=1))) * (b_norm + H.sum(axis=1))
    return np.asarray((rnorm <= NEAR_ZERO * b_norm) & (rnorm > explained))
