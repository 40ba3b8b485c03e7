"""Scenes made of measured or physically modelled spectra, and of instruments other than cameras:
what planted bumps do not look like.

- ``canopies``: plants by the model PROSAIL (pip install prosail), soils, road and water; every
  pixel has its own leaves and light.
- ``fields``: mixtures of real pixels of Indian Pines, a scene with known classes (it comes with
  tensorly: pip install tensorly); the variation within a class and the noise are the sensor's.
- ``crops``: parts of SAMSON and JASPER, with those components that cover at least 3 % of the part.
- ``fluorescence``: emission spectra of a few solutions at many excitations, with scattered light.
- ``chromatogram``: spectra of substances that leave a column one after another, with a baseline.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
from common import DATA
from scenes import LEAST_SINGULAR_VALUE, noisy, shares

VARIANTS = 20  # reflectances of each kind of plant or soil
LEAST_COVER = 0.03  # of a part of a scene, for a component to count there


def canopies(seed):
    from prosail import run_prosail, spectral_lib

    rng = np.random.default_rng([3, seed])
    r, n = int(rng.integers(3, 7)), int(rng.choice([1000, 3000]))
    # of 400 to 2500 nm, without those that water vapour takes
    bands = np.r_[0:900:10, 1100:1350:10, 1600:2000:10]
    soils = (spectral_lib.soil.rsoil1, spectral_lib.soil.rsoil2)
    wave = np.linspace(0, 1, len(soils[0]))

    spread = rng.choice([0.05, 0.1, 0.2])

    def plants(kind):
        n_layers, cab, car, brown, water, dry, lai, angle = kind * np.exp(
            spread * rng.standard_normal(len(kind))
        )
        under = {"rsoil": 0.7, "psoil": rng.uniform(0.2, 0.8)}
        return run_prosail(
            n_layers, cab, car, brown, water, dry, lai, angle, 0.01, 30.0, 10.0, 0.0, **under
        )[bands]

    def ground(kind):
        dry, wet, level, slope, water = kind * np.exp(spread * rng.standard_normal(len(kind)))
        return (dry * soils[0] + wet * soils[1] + level + slope * wave + water * np.exp(-6 * wave))[
            bands
        ]

    # soils, road, water
    grounds = np.array(
        [[0.8, 0, 0, 0, 0], [0.2, 0.9, 0, 0, 0], [0, 0, 0.12, 0.08, 0], [0, 0, 0.005, 0, 0.12]]
    )
    low, high = [1.1, 10, 3, 0.0, 0.004, 0.003, 0.5, 30], [2.2, 80, 15, 0.8, 0.03, 0.015, 5, 70]
    while True:
        n_grounds = int(rng.integers(1, min(r, 4)))
        kinds = [
            (ground, grounds[k] * rng.uniform(0.6, 1.4, 5)) for k in rng.permutation(4)[:n_grounds]
        ]
        kinds += [(plants, rng.uniform(low, high)) for _ in range(r - n_grounds)]
        if distinct(np.array([make(kind) for make, kind in kinds]), 0.6):
            break
    draws = np.array([[make(kind) for _ in range(VARIANTS)] for make, kind in kinds])
    H = draws.mean(axis=1)
    A = shares(rng, r, n)
    which = rng.integers(0, VARIANTS, A.shape)
    light = np.exp(rng.choice([0.1, 0.3]) * rng.standard_normal((len(A), 1)))
    X = light * np.einsum("ik,ikj->ij", A, draws[np.arange(r), which])
    return noisy(rng, X), H, A


def fields(seed):
    rng = np.random.default_rng([4, seed])
    folder = Path(importlib.util.find_spec("tensorly").origin).parent / "datasets" / "data"
    cube, truth = (
        np.load(folder / f"Indian_pines_{name}.npy", allow_pickle=False)
        for name in ("corrected", "gt")
    )
    pixels, truth = cube.reshape(-1, cube.shape[2]).astype(float), truth.ravel()
    pixels = pixels - 0.95 * pixels.min(axis=0)  # without most of the light that the air scatters
    large = np.flatnonzero(np.bincount(truth) >= 200)[1:]
    while True:
        r = int(rng.integers(3, 6))
        classes = rng.permutation(large)[:r]
        H = np.array([pixels[truth == c].mean(axis=0) for c in classes])
        if distinct(H):
            break
    A = shares(rng, r, int(rng.choice([800, 3000])))
    drawn = np.stack(
        [pixels[rng.choice(np.flatnonzero(truth == c), len(A))] for c in classes], axis=1
    )
    return np.einsum("ik,ikj->ij", A, drawn), H, A


def crops(seed):
    rng = np.random.default_rng([5, seed])
    name, side = [("SAMSON", 95), ("JASPER", 100)][seed % 2]
    z = np.load(DATA / f"{name}.npz", allow_pickle=False)
    Y, A = np.maximum(z["Y"].T.astype(float), 0), z["A"].T.astype(float)
    while True:
        size = rng.integers(25, 70, 2)
        top, left = (int(rng.integers(0, side - s)) for s in size)
        inside = np.zeros((side, side), bool)
        inside[top : top + size[0], left : left + size[1]] = True
        place = np.flatnonzero(inside.ravel() & Y.any(axis=1))
        covered = A[place].mean(axis=0) > LEAST_COVER
        if covered.sum() >= 2 and A[place].max(axis=0)[covered].min() > 0.6:
            return Y[place], z["M"].T.astype(float)[covered], A[place][:, covered]


def fluorescence(seed):
    rng = np.random.default_rng([6, seed])
    r, m, n_excitations, n_solutions = (
        int(rng.integers(2, 6)),
        int(rng.choice([80, 200])),
        int(rng.choice([30, 60])),
        int(rng.integers(4, 12)),
    )
    t, e = np.linspace(0, 1, m), np.linspace(0, 1, n_excitations)
    while True:
        peaks = rng.uniform(0.2, 0.8, (r, 1))
        H = np.exp(-(((t - peaks) / rng.uniform(0.08, 0.2, (r, 1))) ** 2)) + rng.uniform(
            0, 0.6, (r, 1)
        ) * np.exp(-(((t - peaks - 0.15) / 0.1) ** 2))
        if distinct(H):
            break
    excited = np.exp(-(((e - peaks + 0.2) / rng.uniform(0.06, 0.25, (r, 1))) ** 2)) * np.exp(
        rng.normal(0, 0.7, (r, 1))
    )
    amounts = np.vstack([np.eye(r), rng.dirichlet(np.full(r, 0.7), n_solutions)])[
        r * int(rng.random() < 0.5) :
    ]
    A = np.einsum("sk,ke->sek", amounts, excited).reshape(-1, r)
    scattered = rng.choice([0, 0.02]) * np.exp(-(((t - e[:, None]) / 0.02) ** 2))
    X = A @ H + np.tile(scattered, (len(amounts), 1))
    return noisy(rng, X), H, A


def chromatogram(seed):
    rng = np.random.default_rng([7, seed])
    r, m, n = int(rng.integers(2, 7)), int(rng.choice([60, 200])), int(rng.choice([150, 600]))
    t, time = np.linspace(0, 1, m), np.linspace(0, 1, n)
    while True:
        bumps = np.exp(-(((t - rng.random((r, 3, 1))) / rng.uniform(0.05, 0.25, (r, 3, 1))) ** 2))
        H = (rng.uniform(0.2, 1, (r, 3, 1)) * bumps).sum(axis=1)
        if distinct(H):
            break
    leaves = np.sort(rng.uniform(0.15, 0.85, r))
    width = rng.uniform(0.03, 0.1, r)
    tail = np.where(time[:, None] > leaves, rng.uniform(1, 1.6, r), 1.0)
    A = np.exp(-(((time[:, None] - leaves) / (width * tail)) ** 2)) * rng.uniform(0.3, 1, r)
    X = A @ H + rng.choice([0, 0.01]) * time[:, None] * np.exp(-3 * t)
    X = noisy(rng, X)
    filled = A.sum(axis=1) > 0.02  # where something leaves the column
    return X[filled], H, A[filled]


def distinct(H, share=1.0):
    """Whether unit components can be told apart, with an angle of about 5 degrees and more."""
    return (
        np.linalg.svd(H / np.linalg.norm(H, axis=1, keepdims=True), compute_uv=False)[-1]
        > share * LEAST_SINGULAR_VALUE
    )


MEASURED = {f.__name__: f for f in (canopies, fields, crops, fluorescence, chromatogram)}
