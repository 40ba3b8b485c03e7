"""Recovery of planted anchors against noise: the figure and the table of docs/epsilon-cone.md.

python benchmarks/recovery.py [--out docs/figures] [--trials 20]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np

from conecollapse import Cone
from conecollapse._types import FloatArray, IntArray
from conecollapse.geometry.selections import spa, xray

METHODS: dict[str, Callable[[FloatArray, int], IntArray]] = {
    "epsilon-cone": lambda P, k: Cone.approximate(P, 1e-6, max_rays=k).ray_indices,
    "epsilon-cone, mass": lambda P, k: (
        Cone.approximate(P, 1e-6, max_rays=k, weighting="mass").ray_indices
    ),
    "SPA": spa,
    "XRAY": xray,
}
NOISES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
SETTINGS = {
    "15 anchors in 20 dimensions": {"dim": 20, "n_rays": 15},
    "20 anchors in 10 dimensions": {"dim": 10, "n_rays": 20},
}
STYLE = {"epsilon-cone": "o-", "epsilon-cone, mass": "s-", "SPA": "^--", "XRAY": "d--"}


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


def main() -> None:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("docs/figures"))
    parser.add_argument("--trials", type=int, default=20)
    args = parser.parse_args()
    matplotlib.rcParams["svg.hashsalt"] = "conecollapse"  # the same figure gives the same file
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
    for axis, (title, setting) in zip(axes, SETTINGS.items(), strict=True):
        table = recovery(NOISES, args.trials, seed=1, **setting)
        print(
            f"\n{title}, {args.trials} trials\n\n| noise | "
            + " | ".join(METHODS)
            + " |\n| --- |"
            + " --- |" * len(METHODS)
        )
        for row, noise in enumerate(NOISES):
            print(
                f"| {noise:g} | " + " | ".join(f"{table[name][row]:.2f}" for name in METHODS) + " |"
            )
        for name, shares in table.items():
            axis.plot(NOISES, shares, STYLE[name], label=name, markersize=4)
        axis.set(
            title=title,
            xlabel="noise, relative to the root mean square entry",
            ylim=(0, 1.05),
            xticks=np.arange(0, 1.1, 0.2),
        )
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("share of the anchors found")
    axes[0].legend()
    figure.tight_layout()
    args.out.mkdir(parents=True, exist_ok=True)
    figure.savefig(args.out / "recovery.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
