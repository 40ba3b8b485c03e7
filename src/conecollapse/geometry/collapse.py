r"""Cone Collapse, Algorithm 1 of the paper, step by step.

Start from the orthant, tilt every free ray a little towards the mean of the data, add the points
that fall outside, prune what has become redundant; stop when every ray is a data point. It is the
readable method, for small data and for pictures; `Cone.from_points` gives the same rays fast.

Where the printed algorithm needs settling:

- **Pruning.** As printed, rays are pruned only after a point was added. Once all extreme rays are
  in U no point is outside any more, so free rays that still lie outside the data cone tilt for ever
  and are never pruned: it does not stop. Here rays are pruned at the end of *every* iteration
  (``prune="printed"`` keeps the printed rule, to show the gap).
- ``U0 = I_m`` must be ``I_n``: the orthant of the space the points live in. The loops "for i in
  [n]" run over all m points.
- "cos = 1" is decided as ``|u - x| <= tol`` for unit vectors; a cosine cannot resolve angles below
  1e-8.
- The theorem assumes that the free rays enter the data cone. If it has no interior (rank-deficient
  data) they only approach it; they are pruned when they come within ``tol``, after about
  ``log(tol) / log(1 - eta)`` iterations.
- c may exceed n: there can be more extreme rays than dimensions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from conecollapse._checks import (
    as_points,
    check_callable,
    check_count,
    check_positive,
    check_tol,
    row_labels,
)
from conecollapse._errors import ConvergenceError, InvalidInputError
from conecollapse._linalg import dense_rows, row_norms, unit_rows
from conecollapse._nnls.active_set import active_set
from conecollapse._types import BoolArray, FloatArray, IntArray
from conecollapse.geometry.certified import certify, group
from conecollapse.geometry.cone import Cone


@dataclass(frozen=True)
class Iteration:
    """What one iteration did; enough to draw it.

    Rays keep an identity: -1 - j for the one that started as the unit vector e_j, i for data point
    i.
    """

    t: int
    tilted: FloatArray  # (c_t, n) rays after the tilt
    tilted_ids: IntArray
    frozen: BoolArray  # (c_t,) which of them did not tilt, because they are data points
    outside: IntArray  # points found outside the tilted cone, in the order they were added
    pruned: IntArray  # identities of the rays removed
    rays: FloatArray  # (c_{t+1}, n) rays at the end
    ids: IntArray


def collapse(
    P: Any,
    eta: float = 0.25,
    tol: float = 1e-8,
    callback: Callable[[Iteration], None] | None = None,
    *,
    max_iter: int = 10_000,
    prune: str = "always",
) -> Cone:
    r"""The cone of the rows of ``P`` by Algorithm 1:
    :math:`u \leftarrow \widehat{(1 - \eta) u + \eta \hat\mu}`, add, prune.

    Parameters
    ----------
    P : (n_points, dim) array, sparse array or data frame
        Non-negative and finite; small, since every iteration solves an NNLS problem for each point
        and each ray.
    eta : float in (0, 1)
        Learning rate of the tilt. It changes the number of iterations, not the result.
    tol : float
        Tolerance on distances between unit vectors.
    callback : callable, optional
        Called with each `Iteration` as it ends.
    max_iter : int
        Limit on the iterations.
    prune : {"always", "printed"}
        When to prune: at the end of every iteration, or only after a point was added, as printed.

    Returns
    -------
    Cone
        With ``history``, one `Iteration` each, and the same certificate as `Cone.from_points`.

    Raises
    ------
    ConvergenceError
        When ``max_iter`` is reached: with ``prune="printed"`` this is the rule, not the exception.

    Examples
    --------
    >>> from conecollapse import collapse
    >>> cone = collapse([[4, 1], [1, 1], [1, 3]])
    >>> cone.ray_indices
    array([0, 2])
    >>> cone.history[0].ids  # nothing is outside the orthant tilted once: both unit vectors remain
    array([-1, -2])
    """
    eta = check_positive(eta, "eta", below=1.0)
    tol = check_tol(tol)
    max_iter = check_count(max_iter, "max_iter")
    if prune not in ("always", "printed"):
        raise InvalidInputError(f'prune must be "always" or "printed"; got {prune!r}.')
    check_callable(callback, "callback")
    points = as_points(P)
    U, lengths = unit_rows(points)
    leader, _ = group(U, lengths, tol)
    leaders = np.flatnonzero(leader == np.arange(len(leader)))
    X = dense_rows(U, leaders)
    # the direction of the mean, whatever the scale of the points
    mean = np.asarray(U.T @ (lengths / lengths.max())).ravel()
    mean /= np.linalg.norm(mean)

    n = X.shape[1]
    state = State(np.eye(n), -1 - np.arange(n), X, leaders, tol)
    history: list[Iteration] = []
    while True:
        history.append(state.iterate(mean, eta, len(history), prune == "printed"))
        if callback is not None:
            callback(history[-1])
        frozen, at = state.on_data()
        if frozen.all():
            break
        if len(history) == max_iter:
            raise ConvergenceError(
                f"Cone Collapse did not stop within {max_iter} iterations ({int((~frozen).sum())}"
                " rays are still free); "
                + (
                    "raise max_iter."
                    if prune == "always"
                    else 'the printed rule rarely does; use prune="always".'
                )
            )
    certificate = certify(U, lengths, tol, rays=np.unique(leaders[at]))
    return Cone(
        U[certificate.rays], certificate, ray_names=row_labels(P, certificate.rays), history=history
    )


class State:
    """The rays U of one run (as rows) with their identities, and the unit points X."""

    def __init__(
        self, U: FloatArray, ids: IntArray, X: FloatArray, index: IntArray, tol: float
    ) -> None:
        self.U, self.ids, self.X, self.index, self.tol = U, ids, X, index, tol

    def on_data(self) -> tuple[BoolArray, IntArray]:
        """Which rays are colinear with a data point, and the nearest point of each (a place in
        X)."""
        # a cosine would not resolve tol
        nearest = np.array([row_norms(self.X - u).argmin() for u in self.U])
        return (self.ids >= 0) | (row_norms(self.U - self.X[nearest]) <= self.tol), nearest

    def iterate(self, mean: FloatArray, eta: float, t: int, printed: bool) -> Iteration:
        frozen, _ = self.on_data()
        tilted = (1 - eta) * self.U + eta * mean  # lines 3-5: mean tilt
        tilted /= row_norms(tilted)[:, None]
        self.U = np.where(frozen[:, None], self.U, tilted)
        start, start_ids = self.U, self.ids
        # lines 7-8
        residual = row_norms(self.X - active_set(self.U, self.X).dense(len(self.U)) @ self.U)
        outside = np.flatnonzero(residual > self.tol)
        pruned: list[int] = []
        for i in outside:  # lines 9-18: add, then prune
            self.U = np.vstack([self.U, self.X[i]])
            self.ids = np.append(self.ids, self.index[i])
            pruned += self.prune()
        if not printed:
            pruned += self.prune()
        return Iteration(
            t,
            start,
            start_ids,
            frozen,
            self.index[outside],
            np.array(pruned, np.int64),
            self.U,
            self.ids,
        )

    def prune(self) -> list[int]:
        """Remove each ray that the others represent, one after the other (lines 12-17); their
        identities."""
        gone = []
        k = 0
        while k < len(self.U) and len(self.U) > 1:
            others = np.delete(self.U, k, axis=0)
            solved = active_set(others, self.U[k : k + 1])
            if (
                row_norms(self.U[k : k + 1] - solved.values[0] @ others[solved.passive[0]])[0]
                <= self.tol
            ):
                gone.append(int(self.ids[k]))
                self.U, self.ids = others, np.delete(self.ids, k)
            else:
                k += 1
        return gone
