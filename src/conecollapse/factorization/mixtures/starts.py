r"""From a table to the components of its mixtures: scaling, starts, outliers, and a small set of
samples first.

Components are found on at most `CORE` samples from two starts (samples chosen by the greedy cone
and by SPA); the start with the smaller objective goes on with all samples. Each run begins with
more volume penalty than wanted and lowers it in steps: data with little noise fix the volume only
weakly, and a run that begins with the small penalty hardly moves.

*Scaling the samples.* A sample x is divided by :math:`\sqrt{\|x\|}`, which changes no direction: it
is between leaving samples as they are, where the brightest decide, and unit length, where the
darkest do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np

from conecollapse._iterate import Stopping
from conecollapse._linalg import dense_rows, row_lengths, scaled_rows
from conecollapse._threads import serial_blas
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray, Points
from conecollapse.factorization.mixtures.compressed import Compressed, compressed
from conecollapse.factorization.mixtures.minvolume import minvolume, volume_scale
from conecollapse.factorization.result import Factorization
from conecollapse.geometry.selections import cone, spa
from conecollapse.tables import Table, as_table

CORE = 2000  # samples on which starts are compared
FAINT = 0.02  # samples shorter than this share of the median length are scaled as if they had it
VOLUME = 1.0  # of the noise: what a unit of the logarithm of the volume is worth
LEAST_NOISE = 3e-7  # of the squared norm, for data without noise
# of the squared norm for each component; and the factor of a step
FIRST_PENALTY, LOWERED = 1e-3, 4.0
EARLY_TOL, EARLY_ITER = 1e-4, 60  # before the last penalty
CORE_TOL, CORE_ITER = 1e-5, 250  # with the last penalty, on the few samples
# added to every entry of a start, relative to its largest: what is zero can become positive
PRESENT = 1e-9

STARTS: dict[str, Callable[[Points, int], IntArray]] = {  # samples
    "cone, mass": lambda P, r: cone(P, r, "raw"),
    "SPA, unit length": lambda P, r: spa(P, r, "length"),
}


@dataclass(frozen=True)
class Mixture:
    """Components of unit sum, how the run went, and which start led there."""

    result: Factorization
    start: str
    volume: float  # lambda, over the noise
    noise: float  # N over the squared norm


def root_scaled(points: Points) -> Points:
    """Rows divided by the root of their length, in units of the median length."""
    lengths = row_lengths(points)
    filled = lengths > 0
    middle = float(np.median(lengths[filled])) if filled.any() else 1.0
    return scaled_rows(points, 1 / np.sqrt(np.maximum(lengths, FAINT * middle) * middle))


def unmix(
    points: Points,
    r: int,
    *,
    volume: float = VOLUME,
    held: FloatArray | None = None,
    left_out: BoolArray | None = None,
    **stopping: Unpack[Stopping],
) -> Mixture:
    """Components of float64 rows that are not all zero, by minimum volume; the first ones are
    ``held``."""
    filled = np.asarray((points > 0).sum(axis=0)).ravel() > 0
    if not filled.all():  # the penalty would spread over features that hold nothing
        found = unmix(
            points[:, filled],
            r,
            volume=volume,
            held=None if held is None else held[:, filled],
            left_out=left_out,
            **stopping,
        )
        whole = np.zeros((r, points.shape[1]))
        whole[:, filled] = found.result.H
        return replace(found, result=replace(found.result, H=whole))
    kept = points if left_out is None or not left_out.any() else points[~left_out]
    scaled = root_scaled(kept)
    X = compressed(as_table(scaled), r)
    lam = volume * max(X.noise, LEAST_NOISE * X.norm2)
    core = core_samples(len(X.Z))
    small = X.rows(core)
    share = len(core) / len(X.Z)
    held = np.zeros((0, points.shape[1])) if held is None else held
    with serial_blas():
        runs = []
        for name in STARTS:
            H = _start(kept, name, r, held)
            if H is not None:
                runs.append((name, volume_scale(H), _lowered(small, H, lam * share, len(held))))
        name, delta, best = min(runs, key=lambda run: run[2].objective)
        best = minvolume(
            X,
            best.H,
            lam,
            W=best.W if share == 1 else None,
            n_held=len(held),
            delta=delta,
            **stopping,
        )
    return Mixture(best, name, volume, X.noise / X.norm2)


def _lowered(X: Compressed, H: FloatArray, lam: float, n_held: int) -> Factorization:
    """A run whose penalty falls from `FIRST_PENALTY` to ``lam``."""
    delta = volume_scale(H)
    now = max(FIRST_PENALTY * X.norm2 / len(H), lam)
    run = minvolume(X, H, now, n_held=n_held, delta=delta, tol=EARLY_TOL, max_iter=EARLY_ITER)
    while now > lam:
        now = max(now / LOWERED, lam)
        run = minvolume(
            X, run.H, now, W=run.W, n_held=n_held, delta=delta, tol=EARLY_TOL, max_iter=EARLY_ITER
        )
    return minvolume(
        X, run.H, lam, W=run.W, n_held=n_held, delta=delta, tol=CORE_TOL, max_iter=CORE_ITER
    )


def core_samples(n: int) -> IntArray:
    """At most `CORE` of n samples, the same in every run."""
    return np.arange(n) if n <= CORE else np.sort(np.random.default_rng(0).permutation(n)[:CORE])


def _start(points: Points, name: str, r: int, held: FloatArray) -> FloatArray | None:
    indices = STARTS[name](points, r)
    if len(indices) < r:
        return None
    H = dense_rows(points, indices).astype(np.float64)
    H += PRESENT * H.max(axis=1, keepdims=True)
    if len(held):
        H = np.vstack([held, H[furthest_from(held, H, r - len(held))]])
    return H


def furthest_from(held: FloatArray, H: FloatArray, count: int) -> IntArray:
    """The rows of H that are least like a held component."""
    unit = H / np.linalg.norm(H, axis=1, keepdims=True)
    known = held / np.linalg.norm(held, axis=1, keepdims=True)
    return np.sort(np.argsort((unit @ known.T).max(axis=1), kind="stable")[:count])


def equally_long(X: Table, H: FloatArray) -> FloatArray:
    """The components at the median length of the samples that are not zero."""
    lengths = X.row_lengths
    return H * (float(np.median(lengths[lengths > 0])) / row_lengths(H))[:, None]


def shares(W: AnyArray, H: AnyArray) -> AnyArray:
    """Each component's part of a sample, by the lengths of the contributions ``w_k h_k``; rows sum
    to one, or are zero where W is."""
    parts = W * row_lengths(H)
    total = parts.sum(axis=1, keepdims=True)
    return parts / np.where(total > 0, total, 1.0)
