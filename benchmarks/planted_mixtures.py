"""Planted mixtures, one family for each way in which tables of mixtures differ: pure samples or
none, noise, light, outliers, few samples, sparse shares, elution, signatures, tissues.

A family is a function of a seed that returns a `Mixture`. ``spread_out`` draws shares that are
sufficiently scattered: see there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

LEAST_SINGULAR_VALUE = 0.05  # of unit components: below that they are not told apart


@dataclass(frozen=True)
class Mixture:
    X: np.ndarray
    H: np.ndarray  # the true components
    A: np.ndarray  # the true amounts
    options: dict = field(default_factory=dict)  # of `Unmixing`: what a user would know


def spectra(rng, r, m, width=(0.03, 0.2), base=0.0):
    """Non-negative spectra of a few peaks each, which differ in brightness."""
    t = np.linspace(0, 1, m)
    while True:
        peaks = np.exp(-(((t - rng.random((r, 5, 1))) / rng.uniform(*width, (r, 5, 1))) ** 2))
        H = (rng.uniform(0, 1, (r, 5, 1)) * peaks).sum(axis=1) + base
        if distinct(H):
            return H * np.exp(rng.choice([0, 0.4]) * rng.standard_normal((r, 1)))


def minerals(rng, r, m):
    """Reflectances: a common continuum with absorption bands."""
    t = np.linspace(0, 1, m)
    while True:
        bands = np.exp(-(((t - rng.random((r, 6, 1))) / rng.uniform(0.02, 0.1, (r, 6, 1))) ** 2))
        slope = rng.uniform(0.3, 0.8, (r, 1)) + rng.uniform(-0.3, 0.3, (r, 1)) * t
        H = slope * np.exp(-(rng.uniform(0, 1.2, (r, 6, 1)) * bands).sum(axis=1))
        if distinct(H):
            return H


def distinct(H):
    unit = H / np.linalg.norm(H, axis=1, keepdims=True)
    return np.linalg.svd(unit, compute_uv=False)[-1] > LEAST_SINGULAR_VALUE


def some(rng):
    """How many components, bands and samples."""
    return int(rng.integers(3, 10)), int(rng.choice([60, 120, 200])), int(rng.choice([600, 2000]))


def shares(rng, r, n, purest=1.0, concentration=None):
    concentration = rng.choice([0.3, 0.6, 1.0]) if concentration is None else concentration
    kept = []
    while sum(map(len, kept)) < n:
        A = rng.dirichlet(np.full(r, concentration), 4 * n)
        kept.append(A[A.max(axis=1) <= purest])
    return np.vstack(kept)[:n]


def spread_out(rng, r, n):
    """Shares of which none is above 0.8 and which are sufficiently scattered: each facet of the
    simplex has a twentieth of the samples on it, drawn evenly, and the rest are anywhere.

    With ever more samples the hull of a facet's samples is the facet without the corners beyond
    0.8, and the cone of all of them holds the cone that touches every facet of the simplex, of
    which each facet is then known.
    """
    A = rng.dirichlet(np.full(r, 1.0 if r < 6 else 0.6), 40 * n)
    facet = np.arange(len(A)) % (20 if r <= 10 else 30)
    for k in range(r):
        A[facet == k, k] = 0
    A /= A.sum(axis=1, keepdims=True)
    return A[A.max(axis=1) <= 0.8][:n]


def light(rng, A):
    """Amounts: shares times the brightness of the sample."""
    return A * np.exp(rng.choice([0.1, 0.4]) * rng.standard_normal((len(A), 1)))


def noisy(rng, X, decibels):
    if decibels is None:
        return X
    size = 10 ** (-decibels / 20) * np.sqrt((X**2).mean())
    return np.maximum(X + size * rng.standard_normal(X.shape), 0)


def pure(seed):
    rng = np.random.default_rng([20, seed])
    r, m, n = some(rng)
    A = np.vstack([np.eye(r), shares(rng, r, n)])
    H = minerals(rng, r, m)
    return Mixture(noisy(rng, light(rng, A) @ H, rng.choice([20, 30, 40, 60])), H, A)


def mixed(seed):
    rng = np.random.default_rng([21, seed])
    r, m, n = some(rng)
    A, H = shares(rng, r, n, rng.choice([0.7, 0.8, 0.9])), spectra(rng, r, m)
    return Mixture(noisy(rng, light(rng, A) @ H, rng.choice([20, 30, 40, 60])), H, A)


def exact(seed):
    """No noise, no pure samples, sufficiently scattered, 3 to 12 components."""
    rng = np.random.default_rng([22, seed])
    r, m, n = int(rng.integers(3, 13)), int(rng.choice([60, 120, 200])), 2000
    H = spectra(rng, r, m) if rng.random() < 0.5 else minerals(rng, r, m)
    A = spread_out(rng, r, n)
    return Mixture(light(rng, A) @ H, H, A)


def photons(seed):
    rng = np.random.default_rng([23, seed])
    r, m, n = some(rng)
    A = shares(rng, r, n, rng.choice([0.8, 1.0]))
    H = spectra(rng, r, m, base=0.05)
    X = light(rng, A) @ H
    depth = rng.choice([10, 100, 1000]) / X.mean()
    return Mixture(rng.poisson(X * depth).astype(float), H, A)


def shadows(seed):
    """Some samples are ten to a hundred times darker, and some fit no mixture."""
    rng = np.random.default_rng([24, seed])
    r, m, n = some(rng)
    A = light(rng, shares(rng, r, n, rng.choice([0.8, 1.0])))
    dark = rng.random(n) < rng.choice([0.1, 0.3])
    A[dark] *= 10 ** -rng.uniform(1, 2, (int(dark.sum()), 1))
    H = minerals(rng, r, m) if rng.random() < 0.5 else spectra(rng, r, m)
    return Mixture(noisy(rng, A @ H, rng.choice([25, 30, 40])), H, A)


def outliers(seed):
    rng = np.random.default_rng([25, seed])
    r, m, n = some(rng)
    A = light(rng, shares(rng, r, n, rng.choice([0.8, 1.0])))
    H = minerals(rng, r, m) if rng.random() < 0.5 else spectra(rng, r, m)
    X = noisy(rng, A @ H, rng.choice([25, 35, 60, None]))
    bad = rng.random(n) < rng.choice([0.002, 0.01, 0.03])
    kind = rng.choice(3)
    if kind == 0:  # bad pixels
        X[bad] = rng.random((int(bad.sum()), m)) * X.max()
    elif kind == 1:  # another material in a few samples
        X[bad] += rng.uniform(0.2, 1, (int(bad.sum()), 1)) * spectra(rng, r, m)[:1] * 0.7
    else:  # hot bands
        rows = np.flatnonzero(bad)
        X[rows, rng.integers(0, m, len(rows))] *= rng.uniform(3, 20, len(rows))
    return Mixture(X, H, A)


def bands(seed):
    """Noise that differs by a factor of ten from band to band."""
    rng = np.random.default_rng([26, seed])
    r, m, n = some(rng)
    A, H = shares(rng, r, n, rng.choice([0.8, 1.0])), spectra(rng, r, m)
    X = light(rng, A) @ H
    size = 10 ** (-rng.choice([20, 30, 40]) / 20) * np.sqrt((X**2).mean())
    each = np.exp(rng.choice([0.7, 1.2]) * rng.standard_normal(m))
    return Mixture(np.maximum(X + size * each * rng.standard_normal(X.shape), 0), H, A)


def similar(seed):
    """Smooth spectra that have most in common."""
    rng = np.random.default_rng([27, seed])
    r, m, n = int(rng.integers(3, 6)), 120, int(rng.choice([600, 2000]))
    while True:
        H = 0.5 * spectra(rng, 1, m, (0.2, 0.5)) + rng.choice([0.3, 0.6]) * spectra(
            rng, r, m, (0.08, 0.3)
        )
        if distinct(H):
            break
    A = shares(rng, r, n, rng.choice([0.8, 1.0]))
    return Mixture(noisy(rng, light(rng, A) @ H, rng.choice([30, 40, 60])), H, A)


def few(seed):
    rng = np.random.default_rng([28, seed])
    r = int(rng.integers(2, 5))
    n, m = int(rng.integers(4 * r, 12 * r)), int(rng.choice([60, 200, 500]))
    A, H = shares(rng, r, n, rng.choice([0.8, 1.0])), spectra(rng, r, m)
    return Mixture(noisy(rng, light(rng, A) @ H, rng.choice([25, 35, 60, None])), H, A)


def sparse(seed):
    """Two or three components in each sample."""
    rng = np.random.default_rng([29, seed])
    r, m, n = (
        int(rng.integers(4, 13)),
        int(rng.choice([60, 120, 200])),
        int(rng.choice([600, 2000])),
    )
    present = np.argsort(rng.random((n, r)), axis=1) < rng.integers(2, 4, (n, 1))
    A = rng.dirichlet(np.ones(r), n) * present
    A /= A.sum(axis=1, keepdims=True)
    A = A[A.max(axis=1) < rng.choice([0.8, 1.0])]
    H = spectra(rng, r, m)
    return Mixture(noisy(rng, light(rng, A) @ H, rng.choice([20, 30, 40, None])), H, A)


def elution(seed):
    """A chromatogram: substances leave a column one after another."""
    rng = np.random.default_rng([30, seed])
    r, m, n = int(rng.integers(3, 6)), int(rng.choice([60, 120])), int(rng.choice([120, 400]))
    t = np.linspace(0, 1, n)[:, None]
    top = np.sort(rng.uniform(0.15, 0.85, r))
    width = rng.uniform(0.04, 0.1, r)
    tail = np.where(t > top, rng.uniform(1, 1.6, r), 1.0)
    A = np.exp(-(((t - top) / (width * tail)) ** 2)) * rng.uniform(0.3, 1, r)
    A = A[A.sum(axis=1) > 0.02]
    H = spectra(rng, r, m, (0.1, 0.3))
    return Mixture(noisy(rng, A @ H, rng.choice([30, 40, 50])), H, A)


def signatures(seed):
    """Counts of mutations: rare and common signatures, many zeros; rounded, or drawn."""
    rng = np.random.default_rng([31, seed])
    r, n = int(rng.integers(3, 16)), int(rng.choice([300, 700]))
    H = rng.dirichlet(np.full(96, rng.choice([0.1, 0.3])), r)
    frequency = np.clip(rng.beta(1, 1.5, r), 0.08, 1)
    frequency[:2] = 1
    present = rng.random((n, r)) < frequency
    present[~present.any(axis=1), 0] = True
    A = np.exp(rng.normal(6, 1, r) + rng.choice([0.5, 1.0]) * rng.standard_normal((n, r))) * present
    X = A @ H
    X = np.rint(X) if rng.random() < 0.5 else rng.poisson(X).astype(float)
    filled = X.any(axis=1)
    return Mixture(X[filled], H, A[filled], {"loss": "kullback-leibler"})


def tissues(seed):
    """Few samples, many genes, marker genes; no sample is pure."""
    rng = np.random.default_rng([32, seed])
    r, m = int(rng.integers(2, 5)), int(rng.choice([2000, 8000]))
    n = int(rng.integers(5 * r, 12 * r))
    common = np.exp(rng.normal(5, 1.5, (1, m)))
    H = common * np.exp(rng.choice([0.3, 0.7]) * rng.standard_normal((r, m)))
    marker = rng.random(m) < rng.choice([0.02, 0.1])
    H[:, marker] *= rng.choice([0.003, 0.03])
    places = np.flatnonzero(marker)
    owner = rng.integers(0, r, len(places))
    H[owner, places] = common[0, marker] * rng.uniform(0.3, 3, len(places))
    A = shares(rng, r, n, 0.85, 1.0)
    X = A @ H * np.exp(rng.choice([0.05, 0.15]) * rng.standard_normal((n, m)))
    return Mixture(X + rng.choice([0, 5]), H, A)


def well_posed(seed):
    """Few components and samples, for intervals: either each component has a pure sample, or shares
    are sufficiently scattered."""
    rng = np.random.default_rng([77, seed])
    r, m, n = int(rng.integers(2, 6)), int(rng.choice([60, 120])), int(rng.choice([200, 400]))
    if r > 2 and rng.random() < 0.5:
        A = spread_out(rng, r, n)
    else:
        A = np.vstack([np.eye(r), shares(rng, r, n, 1.0, rng.choice([0.3, 0.6]))])
    H = spectra(rng, r, m, base=0.05) if rng.random() < 0.5 else minerals(rng, r, m)
    X = light(rng, A) @ H
    if rng.random() < 0.3:
        return Mixture(rng.poisson(X * rng.choice([100, 1000]) / X.mean()).astype(float), H, A)
    return Mixture(noisy(rng, X, rng.choice([25, 30, 40])), H, A)


FAMILIES = {
    f.__name__: f
    for f in (
        pure,
        mixed,
        exact,
        photons,
        shadows,
        outliers,
        bands,
        similar,
        few,
        sparse,
        elution,
        signatures,
        tissues,
    )
}
