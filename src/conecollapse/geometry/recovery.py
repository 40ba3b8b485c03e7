"""How well planted anchors are found when the data are noisy: the epsilon-cone beside SPA and
XRAY."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from conecollapse._types import FloatArray, IntArray
from conecollapse.geometry.cone import Cone
from conecollapse.geometry.spa import spa
from conecollapse.geometry.xray import xray

METHODS: dict[str, Callable[[FloatArray, int], IntArray]] = {
    "epsilon-cone": lambda P, k: Cone.approximate(P, 1e-6, max_rays=k).ray_indices,
    "epsilon-cone, mass": lambda P, k: (
        Cone.approximate(P, 1e-6, max_rays=k, weighting="mass").ray_indices
    ),
    "SPA": spa,
    "XRAY": xray,
}


def separable(
    rng: np.random.Generator, *, dim: int, n_rays: int, n_points: int, noise: float
) -> tuple[FloatArray, IntArray]:
    """Points in the cone of ``n_rays`` of them (the anchors), plus non-negative noise; and the
    places of the anchors.

    Points are mixtures with Dirichlet weights; the noise is ``noise`` times the root mean square
    entry, clipped to stay >= 0.
    """
    rays = rng.gamma(1.0, size=(n_rays, dim))
    rays /= rays.sum(axis=1, keepdims=True)
    weights = rng.dirichlet(np.full(n_rays, 0.5), size=n_points - n_rays)
    clean = np.vstack([rays, weights @ rays])
    noisy = np.maximum(
        clean + noise * np.sqrt((clean**2).mean()) * rng.standard_normal(clean.shape), 0.0
    )
    order = rng.permutation(n_points)
    return noisy[order], np.flatnonzero(order < n_rays)


def recovery(
    noises: tuple[float, ...],
    n_trials: int,
    seed: int,
    *,
    dim: int = 20,
    n_rays: int = 15,
    n_points: int = 200,
) -> dict[str, list[float]]:
    """Mean share of the anchors among the first ``n_rays`` rays that each method finds, for each
    noise level."""
    table: dict[str, list[float]] = {name: [] for name in METHODS}
    for noise in noises:
        hits: dict[str, list[float]] = {name: [] for name in METHODS}
        for trial in range(n_trials):
            rng = np.random.default_rng([seed, trial])
            P, anchors = separable(rng, dim=dim, n_rays=n_rays, n_points=n_points, noise=noise)
            for name, find in METHODS.items():
                hits[name].append(len(np.intersect1d(find(P, n_rays), anchors)) / n_rays)
        for name in METHODS:
            table[name].append(float(np.mean(hits[name])))
    return table
