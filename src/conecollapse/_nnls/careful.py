"""The active set in 32 digits, for right-hand sides whose float64 solution is not shown to be
optimal.

When columns of A are dependent to within 1e-11 or so, float64 cannot tell a direction that lowers
the residual from rounding, and rows of very different sizes make such columns out of harmless ones:
the columns (1, 1e-12) and (-1, 1e-12) differ from multiples of each other by 2e-12, and yet 5e11
times their sum is (0, 1). With 32 digits Lawson and Hanson's method on a QR factorization decides
all of this up to a condition of about 1e25. It starts from the passive set that float64 has found.
Columns and right-hand side are scaled by powers of two only, which changes no digit: the problem
solved is the one that was given.

The final residual y is orthogonal to the passive columns, and ``a_j . y`` is at most zero for the
others. So no ``x >= 0`` has a smaller residual than ``|y|``, because
``|b - A x| |y| >= (b - A x) . y >= b . y = |y|^2``. What is returned is x rounded to float64, its
residual norm, and ``|y|``: the caller sees how much larger rounding x alone has made the residual.

Where float64 can solve for the passive columns at all, it refines x by residuals with 32 digits,
and no factorization with so many digits is needed (`_refine`).

A number with 32 digits is the unevaluated sum of two float64 (`Wide`). The sum and the product of
two float64, and the rounding errors of both, are float64 again, and a few operations find them
(Dekker 1971; Knuth). All of this is numpy on whole arrays: nothing has to be compiled, and the few
problems that come here are small as a rule.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from conecollapse._nnls.bound import (
    EPS,
    OPTIMAL,
    OPTIMAL_WITHIN,
    UNPROVEN,
    ZERO_RESIDUAL,
    Record,
    is_optimal,
)
from conecollapse._types import BoolArray, FloatArray

# a column whose part outside the passive span is smaller, as a share of its length, adds nothing;
# prices below this share of |a_j| |r| are rounding
ZERO = 1e-27
DOUBT = 1e-20  # a price above this share, of a column that cannot enter, leaves the optimum open
RESIDUAL_STOP = 1e-25  # a residual below this share of |b| is rounding
SOLVABLE = 1e-12  # the smallest pivot of unit columns from which float64 corrects x
TURNS = 8  # corrections at most
CONVERGES = 0.1  # each of which must make the prices smaller by this factor
SPLITTER = 134217729.0  # 2^27 + 1 cuts the 53 bits of a float64 into two halves


def two_sum(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """``a + b`` rounded, and the rounding error."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_product(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """``a b`` rounded, and the rounding error."""
    p = a * b
    t, u = SPLITTER * a, SPLITTER * b
    a1, b1 = t - (t - a), u - (u - b)
    a2, b2 = a - a1, b - b1
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


class Wide:
    """An array of numbers with 32 digits: rounded values and remainders."""

    __slots__ = ("hi", "lo")

    def __init__(self, hi: FloatArray, lo: FloatArray | None = None) -> None:
        self.hi = np.asarray(hi, np.float64)
        self.lo = np.zeros_like(self.hi) if lo is None else lo

    def __getitem__(self, at: Any) -> Wide:
        return Wide(self.hi[at], self.lo[at])

    def __setitem__(self, at: Any, value: Wide) -> None:
        self.hi[at], self.lo[at] = value.hi, value.lo

    def __neg__(self) -> Wide:
        return Wide(-self.hi, -self.lo)

    def __add__(self, other: Wide) -> Wide:
        s, e = two_sum(self.hi, other.hi)
        t, f = two_sum(self.lo, other.lo)
        s, e = two_sum(s, e + t)
        return Wide(*two_sum(s, e + f))

    def __sub__(self, other: Wide) -> Wide:
        return self + -other

    def __mul__(self, other: Wide) -> Wide:
        p, e = two_product(self.hi, other.hi)
        return Wide(*two_sum(p, e + (self.hi * other.lo + self.lo * other.hi)))

    def __truediv__(self, other: Wide) -> Wide:
        quotient = Wide(self.hi / other.hi)
        for _ in range(2):
            quotient = quotient + Wide((self - quotient * other).hi / other.hi)
        return quotient

    @property
    def T(self) -> Wide:
        return Wide(self.hi.T, self.lo.T)

    def root(self) -> Wide:
        """The square root, zero for what is not positive."""
        s = np.sqrt(np.maximum(self.hi, 0.0))
        rest = (self - Wide(s) * Wide(s)).hi / (2.0 * np.where(s > 0, s, 1.0))
        return Wide(*two_sum(s, np.where(s > 0, rest, 0.0)))


def dot(a: Wide, b: Wide) -> Wide:
    """Sums of products over the last axis, with broadcasting: halves are added until one number is
    left, and rounding errors apart from the values (Ogita, Rump & Oishi 2005)."""
    s, e = two_product(a.hi, b.hi)
    rest = (e + (a.hi * b.lo + a.lo * b.hi)).sum(axis=-1)
    while (n := s.shape[-1]) > 1:
        t, f = two_sum(s[..., : n // 2], s[..., n // 2 : n // 2 * 2])
        s, rest = np.concatenate([t, s[..., n // 2 * 2 :]], axis=-1), rest + f.sum(axis=-1)
    return Wide(*two_sum(s.sum(axis=-1), rest))


class Passive:
    """The passive ones among the columns ``Z`` (in rows), with ``Z_S = Q' R``, their coefficients h
    and the residual r of a right-hand side."""

    def __init__(self, Z: FloatArray, b: FloatArray) -> None:
        capacity, m = min(Z.shape), Z.shape[1]
        self.Z, self.b, self.r = Z, Wide(b), Wide(b)
        self.S: list[int] = []
        self.h, self.q = Wide(np.zeros(capacity)), Wide(np.zeros(capacity))
        self.Q, self.R = Wide(np.zeros((capacity, m))), Wide(np.zeros((capacity, capacity)))

    def append(self, j: int, h: Wide | None = None) -> bool:
        """Put column ``j`` last, by Gram-Schmidt, twice; False if it depends on the others. The
        residual loses its part along the new direction."""
        k = len(self.S)
        if k == len(self.q.hi):
            return False
        v, along = Wide(self.Z[j]), Wide(np.zeros(k))
        for _ in range(2):
            parts = dot(self.Q[:k], v)
            v, along = v - dot(self.Q[:k].T, parts), along + parts
        length = dot(v, v).root()
        if not length.hi > ZERO:
            return False
        v = v / length
        self.Q[k], self.R[:k, k], self.R[k, k], self.q[k] = v, along, length, dot(v, self.r)
        self.h[k] = Wide(np.zeros(())) if h is None else h
        self.r = self.r - self.q[k] * v
        self.S.append(j)
        return True

    def keep(self, stays: BoolArray) -> None:
        """Let the other columns leave; those after the first of them enter again."""
        first = int(np.flatnonzero(~stays)[0])
        S, h = self.S, Wide(self.h.hi.copy(), self.h.lo.copy())
        self.S = S[:first]
        self.r = self.b - dot(self.Q[:first].T, self.q[:first])
        for a in np.flatnonzero(stays[first:]) + first:
            self.append(S[a], h[a])

    def solution(self) -> Wide:
        """The least-squares coefficients: ``R u = q``."""
        u = Wide(np.zeros(len(self.S)))
        for a in range(len(self.S) - 1, -1, -1):
            rest = self.R[a, a + 1 : len(self.S)]
            u[a] = (self.q[a] - dot(rest, u[a + 1 :])) / self.R[a, a]
        return u

    def restore(self) -> None:
        """Lawson and Hanson's inner loop: walk from h to the least-squares coefficients, dropping
        columns that reach zero. Then the residual from scratch, made orthogonal once more."""
        while self.S:
            k, u = len(self.S), self.solution()
            h, falls = self.h[:k], u.hi <= 0
            if not falls.any():
                self.h[:k] = u
                break
            moves = falls & (h.hi > u.hi)
            steps = np.where(moves, h.hi / np.where(moves, h.hi - u.hi, 1.0), 0.0)
            steps[~falls] = np.inf
            self.h[:k] = h + Wide(steps.min()) * (u - h)
            stays = ~(falls & (self.h.hi[:k] <= 0))
            stays[steps.argmin()] = False
            self.keep(stays)
        k = len(self.S)
        r = self.b - dot(Wide(np.ascontiguousarray(self.Z[self.S].T)), self.h[:k])
        self.r = r - dot(self.Q[:k].T, dot(self.Q[:k], r))


def solve_carefully(A: FloatArray, b: FloatArray, x: FloatArray, max_steps: int) -> Record:
    """A record of ``min |A x - b|, x >= 0``, rounded to float64, from the float64 solution ``x``,
    which stays where its residual is not lowered."""
    # powers of two that give columns a length of 0.5 to 1
    shift = np.frexp(np.sqrt(np.einsum("ij,ij->j", A, A)))[1]
    size, b_shift = np.frexp(np.linalg.norm(b))
    Z, t = np.ascontiguousarray(np.ldexp(A, -shift).T), np.ldexp(b, -b_shift)
    start = np.ldexp(x, shift - b_shift)
    before = residual_norm(Z, t, start)
    h, rnorm, least, steps = start, before, 0.0, 0
    # else what float64 has found is an exact solution but for rounding
    if before > ZERO_RESIDUAL * size:
        refined = _refine(Z, t, start)
        if refined is not None:
            h, least = refined
            rnorm = residual_norm(Z, t, h)
        else:
            h, least, steps = _descend(Z, t, start, before, max_steps)
            rnorm = residual_norm(Z, t, h)
            if not max(rnorm, _seen(Z, t, h)) < (1 - OPTIMAL_WITHIN) * before:
                h, rnorm = start, before
    ending = OPTIMAL if is_optimal(rnorm, least, size) else UNPROVEN
    with np.errstate(over="ignore", under="ignore"):
        x = np.ldexp(h, b_shift - shift)
    norms = np.ldexp([rnorm, least], b_shift)
    return Record.of(np.concatenate([x, norms, [ending, steps]])[None])


def residual_norm(Z: FloatArray, b: FloatArray, h: FloatArray) -> float:
    """``|b - Z' h|`` with 32 digits."""
    used = np.flatnonzero(h)
    r = Wide(b) - dot(Wide(np.ascontiguousarray(Z[used].T)), Wide(h[used]))
    return float(dot(r, r).root().hi)


def _seen(Z: FloatArray, b: FloatArray, h: FloatArray) -> float:
    """What float64 makes of the residual norm: the largest one of some orders of the columns, and
    how far these are from each other.

    Where columns depend on each other up to rounding, coefficients of 1e15 lower the residual by
    using up the last digits of A. Whoever computes ``A x`` sees nothing of that, but the rounding
    errors of such sums. One column is added after the other, so that all processors agree.
    """
    S = np.flatnonzero(h)
    middle = len(S) // 2
    orders = (S, S[::-1], np.roll(S, middle), np.r_[S[::2], S[1::2]], S[np.argsort(h[S])])
    sums = np.zeros((len(orders), len(b)))
    for total, order in zip(sums, orders, strict=True):
        for j in order:
            total += h[j] * Z[j]
    apart = np.linalg.norm(sums - sums[0], axis=1).max()
    return float(np.linalg.norm(b - sums, axis=1).max() + apart)


def _refine(Z: FloatArray, b: FloatArray, start: FloatArray) -> tuple[FloatArray, float] | None:
    """The solution over the columns in ``start``, refined by its residual, and a residual norm that
    no other undercuts; None where that is not shown."""
    used = np.flatnonzero(start > 0)
    if not 0 < len(used) <= Z.shape[1]:
        return None
    P, h, before = np.ascontiguousarray(Z[used]), Wide(start[used]), np.inf
    triangle = np.linalg.qr(P.T, mode="r")
    if not np.abs(np.diag(triangle)).min() > SOLVABLE:
        return None
    columns = Wide(np.ascontiguousarray(P.T))
    for _ in range(TURNS):
        y = Wide(b) - dot(columns, h)
        length, own = float(np.linalg.norm(y.hi)), dot(Wide(P), y).hi
        worst = np.abs(own).max()
        if worst <= ZERO * length:
            highest = dot(Wide(Z), y).hi.max()
            if not ((h.hi > 0).all() and highest <= ZERO * length):
                return None
            refined = np.zeros(len(Z))
            refined[used] = h.hi
            return refined, length
        if worst > CONVERGES * before:
            return None
        before = worst
        half = solve_triangular(triangle, own, trans=1, check_finite=False)
        h = h + Wide(solve_triangular(triangle, half, check_finite=False))
    return None


def _descend(
    Z: FloatArray, b: FloatArray, start: FloatArray, before: float, max_steps: int
) -> tuple[FloatArray, float, int]:
    """Lawson and Hanson's descent from the columns where ``start`` is positive: coefficients, the
    smallest residual norm, or zero where it is not known beyond doubt, and the number of steps.

    As in `columns`, a column that brings no descent is dead until the residual is next smaller than
    ever before, so that no passive set returns. It gives up when rounding the coefficients would
    cost more than ``before``, the residual norm that float64 has reached: that happens to matrices
    of low rank whose entries are rounded, where only the last digits of columns differ.
    """
    p, dead = Passive(Z, b), np.zeros(len(Z), bool)
    for j in np.flatnonzero(start > 0):
        p.append(int(j), Wide(start[j]))
    p.restore()
    lowest: Wide | None = None
    is_known, steps = False, 0
    while True:
        square = dot(p.r, p.r)
        if lowest is None or (square - lowest).hi < 0:
            lowest, dead[:] = square, False
        length = float(np.sqrt(square.hi))
        if length <= RESIDUAL_STOP * np.linalg.norm(b) or len(p.S) == len(p.q.hi):
            is_known = True
            break
        if EPS * p.h.hi[: len(p.S)].sum() > before:
            break
        at, is_known = _enter(p, dead, length, steps < max_steps)
        if at < 0:
            break
        steps += 1
        p.restore()
    h, y = np.zeros(len(Z)), float(dot(p.r, p.r).root().hi)
    h[p.S] = np.maximum(p.h.hi[: len(p.S)], 0.0)
    is_known = is_known and y > float(RESIDUAL_STOP * np.linalg.norm(b))
    return h, y if is_known else 0.0, steps


def _enter(p: Passive, dead: BoolArray, length: float, may_enter: bool) -> tuple[int, bool]:
    """Append the column with the highest price that can enter; its number, or -1 and whether the
    optimum is reached beyond doubt."""
    prices = dot(Wide(p.Z), p.r).hi
    prices[p.S] = -np.inf
    while True:
        candidates = np.where(dead, -np.inf, prices)
        at = int(candidates.argmax())
        if candidates[at] <= ZERO * length:
            return -1, not (prices[dead] > DOUBT * length).any()
        if not may_enter:
            return -1, False
        dead[at] = True
        if p.append(at):
            return at, False
