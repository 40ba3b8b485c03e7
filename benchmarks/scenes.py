"""Planted mixtures of many kinds, for choices that must not be made on the measured sets: spectra,
peaks, reflectances, counts, genes."""

from __future__ import annotations

import numpy as np

KINDS = ("smooth", "peaks", "reflectance", "counts", "genes")
CHANNELS = {
    "smooth": (50, 150),
    "peaks": (50, 150),
    "reflectance": (100, 200),
    "counts": (96,),
    "genes": (500, 2000),
}
WIDTHS = {"smooth": (0.05, 0.3), "peaks": (0.02, 0.12), "reflectance": (0.05, 0.4)}
LEAST_SINGULAR_VALUE = 0.05  # of unit components: below that they are not told apart


def scene(seed):
    """Kind, samples, components and shares; with and without pure samples, light, variants and
    double reflection."""
    rng = np.random.default_rng([99, *np.atleast_1d(seed)])
    kind = str(rng.choice(KINDS))
    r, n, m = (
        int(rng.integers(2, 9)),
        int(rng.choice([300, 800, 2000])),
        int(rng.choice(CHANNELS[kind])),
    )
    if kind == "genes":
        r, n = min(r, 5), int(rng.choice([200, 500]))
    H = components(rng, kind, r, m)
    A = shares(rng, r, n)
    X = mixed(rng, kind, A, H)
    X = counted(rng, kind, X) if kind in ("counts", "genes") else noisy(rng, X)
    rows, columns = X.any(axis=1), X.any(axis=0)
    return kind, X[rows][:, columns], H[:, columns], A[rows]


def components(rng, kind, r, m):
    t = np.linspace(0, 1, m)
    while True:
        if kind == "genes":
            H = np.exp(
                rng.normal(0, 1.8, (1, m)) + rng.choice([0.5, 1.0]) * rng.normal(0, 1, (r, m))
            )
        elif kind == "counts":
            H = rng.dirichlet(np.full(m, 0.3), r)
        else:
            bumps = np.exp(
                -(((t - rng.random((r, 4, 1))) / rng.uniform(*WIDTHS[kind], (r, 4, 1))) ** 2)
            )
            H = (rng.uniform(0.1, 1, (r, 4, 1)) * bumps).sum(axis=1) + (
                0.1 if kind == "smooth" else 0.0
            )
            if kind == "reflectance":  # all have a continuum in common
                continuum = 0.3 + np.exp(-(((t - rng.random()) / 0.5) ** 2))
                H = np.maximum(continuum * (1 + 0.8 * (H - H.mean(axis=1, keepdims=True))), 0.02)
        if (
            np.linalg.svd(H / np.linalg.norm(H, axis=1, keepdims=True), compute_uv=False)[-1]
            > LEAST_SINGULAR_VALUE
        ):
            break
    # some are darker than others
    bright = np.exp(rng.choice([0, 0.4, 0.9]) * rng.normal(size=(r, 1)))
    return H if kind in ("counts", "genes") else H * bright


def shares(rng, r, n):
    purest = max(float(rng.choice([1.0, 1.0, 0.9, 0.8])), 1.6 / r)
    # some are rarer than others
    concentration = rng.choice([0.15, 0.3, 0.6, 1.0]) * np.exp(
        rng.choice([0, 0.5]) * rng.normal(size=r)
    )
    A = rng.dirichlet(concentration, 60 * n)
    return A[A.max(axis=1) <= purest][:n]


def mixed(rng, kind, A, H):
    """Samples without noise, of different brightness; components vary smoothly from sample to
    sample, and light is reflected twice."""
    r, m = H.shape
    t = np.linspace(0, 1, m)
    light = rng.choice([0.3, 0.7]) if kind == "genes" else rng.choice([0, 0.3, 0.6])
    W = A * np.exp(light * rng.standard_normal((len(A), 1)))
    if kind == "genes":
        return W @ H
    waves = np.vstack([np.ones(m), np.cos(np.pi * t), np.cos(2 * np.pi * t)])
    size = (
        rng.choice([0, 0.05, 0.15]) if kind in ("smooth", "reflectance") else rng.choice([0, 0.05])
    )
    vary = np.maximum(1 + size * rng.standard_normal((len(A), r, 3)) @ waves, 0)
    X = np.einsum("ik,kj,ikj->ij", W, H, vary)
    twice = rng.choice([0, 0, 0.3]) if kind == "reflectance" else 0
    return X + twice * X**2 / X.max()


def counted(rng, kind, X):
    """Poisson counts of some depth; genes vary more than that, each by its own dispersion."""
    m = X.shape[1]
    depth = rng.choice([300, 2000, 20000]) if kind == "counts" else m * rng.choice([1.0, 5.0, 30.0])
    X = X * depth / X.sum(axis=1).mean()
    if kind == "genes":
        dispersion = rng.choice([0, 0.1, 0.3]) * np.exp(rng.normal(0, 0.7, m))
        if dispersion.max() > 0:
            X = X * rng.gamma(1 / dispersion, dispersion, X.shape)
    return rng.poisson(X).astype(np.float64)


def noisy(rng, X):
    """Noise of 15 to 60 decibels: equal, different in each channel, Poisson, or relative."""
    size = 10 ** (-rng.choice([15, 20, 25, 30, 40, 60]) / 20) * np.sqrt((X**2).mean())
    how = rng.choice(["equal", "channels", "poisson", "relative"])
    if how == "equal":
        X = X + size * rng.standard_normal(X.shape)
    elif how == "channels":
        each = np.exp(rng.choice([0.5, 1.0]) * rng.standard_normal(X.shape[1]))
        X = X + size * each / np.sqrt((each**2).mean()) * rng.standard_normal(X.shape)
    elif how == "poisson":
        X = rng.poisson(X * X.mean() / size**2) * size**2 / X.mean()
    else:
        X = X * (1 + size / np.sqrt((X**2).mean()) * rng.standard_normal(X.shape))
    return np.maximum(X, 0)
