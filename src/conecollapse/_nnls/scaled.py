"""Least-squares problems with constraints in scaled columns, and blocks of them that share Gram
matrices.

With a sum of one only differences of columns matter, so A and b are moved by the mean of the
columns first. Otherwise columns are scaled to unit length. Problems that share their weights share
a Gram matrix ``G = A' W A + ridge``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.linalg.lapack as lapack
import scipy.sparse as sp

from conecollapse._checks import check_size
from conecollapse._errors import InvalidInputError
from conecollapse._linalg import power_of_two, row_norms
from conecollapse._nnls.complement import WELL_ENOUGH
from conecollapse._nnls.constraints import Constraints
from conecollapse._nnls.problem import Problem, safe_units
from conecollapse._types import BoolArray, FloatArray, IntArray, Points

GRAM_LIMIT = 16_384  # columns whose Gram matrix takes 2 GiB
GRAMS_AT_ONCE = 2**23  # entries of Gram matrices that are held at once: 64 MiB
# entries up to which products of pairs of columns are kept, to make many Gram matrices by one
# product
PAIRS = 2**22
# columns up to which the smallest singular value of all of them is computed where a proof needs it
HELD_COLUMNS = 512
# reciprocal condition of the Gram matrix from which the solution without bounds is worth a start
START_CONDITION = 1e-10
# the entry by which columns are extended for a sum of one; the columns are scaled to at most this
# length
LIFT = 0.5
LARGEST_RIDGE = 1e100  # how many times longer than a column the root of the ridge may be
# how many times longer than the longest column a right-hand side may be with a sum of one
FARTHEST = 1e140


@dataclass(frozen=True)
class Scaled:
    """The problem in coefficients h of scaled columns: ``x = h * inverse``."""

    A: Points  # columns of length 1, or, with a sum of one, of length at most LIFT
    inverse: FloatArray  # (n,)
    centre: FloatArray  # (m,) or (1,): subtracted from right-hand sides as given
    size: float  # divides right-hand sides after that
    root_weights: FloatArray | None  # (m,): multiplies them
    reach: float  # bound on the sum of h for a right-hand side of length 1, infinite if not known
    constraints: Constraints

    @classmethod
    def of(cls, A: Points, constraints: Constraints) -> Scaled:
        check_size(A, "A")
        A = A.astype(np.float64, copy=False)
        root = None if constraints.row_weights is None else np.sqrt(constraints.row_weights)
        if not constraints.simplex:
            problem = Problem.of(
                A
                if root is None
                else sp.diags_array(root) @ A
                if sp.issparse(A)
                else A * root[:, None]
            )
            unit = problem.unit()
            return cls(
                unit,
                problem.inverse / problem.units,
                np.zeros(1),
                1.0,
                root,
                problem.reach,
                constraints,
            )
        centre = np.zeros(1) if sp.issparse(A) else (A / A.shape[1]).sum(axis=1)
        if root is not None:
            A = (
                sp.diags_array(root) @ A
                if sp.issparse(A)
                else (A - centre[:, None]) * root[:, None]
            )
        elif not sp.issparse(A):
            A = A - centre[:, None]
        peak = power_of_two(np.abs(A).max(axis=None).reshape(1))[0] if A.size else 1.0
        lengths = np.sqrt(
            np.asarray((A / peak).power(2).sum(axis=0)).ravel()
            if sp.issparse(A)
            else np.square(A / peak).sum(axis=0)
        )
        size = float(peak * power_of_two(lengths.max().reshape(1))[0] / LIFT * 2)
        return cls(A / size, np.ones(A.shape[1]), centre, size, root, np.inf, constraints)

    def right_hand_sides(self, Bt: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The rows of ``Bt`` in the scaled problem, and what each was divided by."""
        if self.constraints.simplex:
            Bt = Bt - self.centre
        if self.root_weights is not None:
            Bt = Bt * self.root_weights
        if not self.constraints.simplex:
            return Bt, safe_units(Bt)
        peak = np.abs(Bt).max(axis=1) / self.size
        for i in np.flatnonzero(peak > FARTHEST)[:1]:
            raise InvalidInputError(
                f"a right-hand side is {peak[i]:.1g} times longer than the columns of A; with"
                f" simplex=True {FARTHEST:g} is the limit."
            )
        return Bt / self.size, np.full(len(Bt), self.size)


class Block(NamedTuple):
    """Some problems, in rows, in the units of `Scaled`. Two-dimensional arrays may have a single
    row for all."""

    B: FloatArray
    W: FloatArray | None
    ridge: FloatArray
    l1: FloatArray
    upper: FloatArray
    allowed: BoolArray
    grams: FloatArray  # (g, n, n)
    of: IntArray
    # lengths of the right-hand sides in the weighted norm; with a sum of one, 1 is added: the
    # length of columns
    size: FloatArray


class Shared(NamedTuple):
    """What problems have in common: the Gram matrix without weights of their own, and more where
    its columns are independent and few."""

    gram: FloatArray
    inverse: FloatArray | None
    # the inverse, less its part along the sum if there is one, where it is accurate enough to pivot
    # with
    projected: FloatArray | None
    sigma: float  # an estimate of the smallest singular value of all columns, or 0

    @classmethod
    def of(cls, scaled: Scaled) -> Shared:
        if (n := scaled.A.shape[1]) > GRAM_LIMIT:
            raise InvalidInputError(
                f"A has {n} columns; with bounds, penalties, masks or weights at most {GRAM_LIMIT}"
                " fit into memory."
            )
        gram = _lifted(_product(scaled.A), scaled)
        np.fill_diagonal(gram, np.diag(gram) + _ridge(scaled))
        if len(gram) > HELD_COLUMNS:
            return cls(gram, None, None, 0.0)
        factor, info = lapack.dpotrf(gram, lower=1)
        size = np.abs(gram).sum(axis=0).max()
        rcond = lapack.dpocon(factor, size, uplo="L")[0] if info == 0 else 0.0
        if rcond > START_CONDITION:
            half, _ = lapack.dpotri(factor, lower=1)
            inverse = np.tril(half) + np.tril(half, -1).T
            ones = inverse.sum(axis=0)
            projected = (
                inverse - np.outer(ones, ones) / ones.sum()
                if scaled.constraints.simplex
                else inverse
            )
            return cls(
                gram,
                inverse,
                projected if rcond > WELL_ENOUGH else None,
                float(np.sqrt(rcond * size)),
            )
        return cls(gram, None, None, 0.0)

    def start(self, C: FloatArray, simplex: bool) -> FloatArray:
        """The solutions without bounds: their signs are a good guess at which variables are
        zero."""
        if self.inverse is None:
            return np.zeros_like(C)
        H = C @ self.inverse
        if simplex:
            ones = self.inverse.sum(axis=0)
            H -= (H.sum(axis=1, keepdims=True) - 1) / ones.sum() * ones
        return H


def new_block(
    scaled: Scaled, gram: FloatArray, B: FloatArray, units: FloatArray, columns: slice
) -> tuple[Block, FloatArray]:
    """The problems of a block, and the largest weight of each: weights are relative to it."""
    c, n = scaled.constraints, scaled.A.shape[1]
    scale = np.ones((len(B), 1)) if c.simplex else units[:, None]
    peaks, W, ridge = np.ones(len(B)), None, _ridge(scaled)[None, :]
    if c.weights is not None:
        W = np.ascontiguousarray(c.weights[:, columns].T)
        peaks = W.max(axis=1)
        peaks[peaks == 0] = 1.0
        W /= peaks[:, None]
        ridge = ridge / peaks[:, None]
    l1 = c.l1 * scaled.inverse / (scale * peaks[:, None]) if c.l1 else np.zeros((1, n))
    bounds = (
        np.full((1, n), np.inf)
        if c.upper is None
        else (c.upper if c.upper.shape[1] == 1 else c.upper[:, columns]).T
    )
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        upper = (
            np.where(scaled.inverse > 0, bounds / scaled.inverse / scale, 0.0)
            if c.upper is not None
            else bounds
        )
    allowed = (
        np.ones((1, n), bool)
        if c.allowed is None
        else (c.allowed if c.allowed.shape[1] == 1 else c.allowed[:, columns]).T
    )
    allowed = allowed & (scaled.inverse > 0)  # a column of zeros can only stay at zero
    if W is None:
        grams, of = gram[None], np.zeros(len(B), np.int64)
    else:
        distinct, of = _distinct(W)
        grams = _lifted(_weighted_grams(scaled.A, distinct), scaled)
        # relative to the largest weight, so that problems with equal relative weights may differ in
        # it
        if c.ridge:
            grams, of = grams[of], np.arange(len(B))
            grams[:, np.arange(n), np.arange(n)] += ridge
    size = row_norms(B if W is None else B * np.sqrt(W)) + (1.0 if c.simplex else 0.0)
    return (
        Block(
            B,
            W,
            ridge,
            l1,
            np.ascontiguousarray(upper),
            np.ascontiguousarray(allowed),
            np.ascontiguousarray(grams),
            of,
            size,
        ),
        peaks,
    )


def take(block: Block, rows: IntArray) -> Block:
    def some(array: FloatArray) -> FloatArray:
        return array if len(array) == 1 != len(block.B) else array[rows]

    B, W, ridge, l1, upper, allowed, grams, of, size = block
    return Block(
        B[rows],
        None if W is None else W[rows],
        some(ridge),
        some(l1),
        some(upper),
        some(allowed),  # type: ignore[arg-type]
        grams,
        of[rows],
        size[rows],
    )  # type: ignore[arg-type]


def block_length(scaled: Scaled, entries: int) -> int:
    """How many problems to take at once, so that right-hand sides have about this many entries and
    Gram matrices fit as well."""
    m, n = scaled.A.shape
    step = max(1, entries // max(m, n))
    return step if scaled.constraints.weights is None else max(1, min(step, GRAMS_AT_ONCE // n**2))


def _ridge(scaled: Scaled) -> FloatArray:
    """The ridge on each coefficient: with a sum of one, squares are smaller than those given."""
    # the size is 1 without a sum
    root = np.sqrt(scaled.constraints.ridge) * scaled.inverse / scaled.size
    if root.max() > LARGEST_RIDGE:
        raise InvalidInputError(
            f"ridge = {scaled.constraints.ridge:g} is too large for a matrix of entries this small;"
            " rescale A and b."
        )
    return root**2


def _product(A: Points) -> FloatArray:
    G = A.T @ A
    return np.asarray(G.toarray() if sp.issparse(G) else G)


def _lifted(G: FloatArray, scaled: Scaled) -> FloatArray:
    return G + LIFT**2 if scaled.constraints.simplex else G


def _distinct(W: FloatArray) -> tuple[FloatArray, IntArray]:
    """The different rows of ``W``, and which of them each row is."""
    keys = np.ascontiguousarray(W).view(np.dtype((np.void, W.dtype.itemsize * W.shape[1]))).ravel()
    _, first, of = np.unique(keys, return_index=True, return_inverse=True)
    return W[first], of.ravel().astype(np.int64)


def _weighted_grams(A: Points, W: FloatArray) -> FloatArray:
    """``A' diag(w) A`` for each row w of ``W``."""
    m, n = A.shape
    out = np.empty((len(W), n, n))
    if sp.issparse(A):
        for i, w in enumerate(W):
            out[i] = (A.T @ (sp.diags_array(w) @ A)).toarray()
    elif len(W) > 1 and m * n * (n + 1) // 2 <= PAIRS:
        upper = np.triu_indices(n)
        products = W @ (A[:, upper[0]] * A[:, upper[1]])
        out[:, upper[0], upper[1]] = products
        out[:, upper[1], upper[0]] = products
    else:
        for i, w in enumerate(W):
            out[i] = A.T @ (w[:, None] * A)
    return out
