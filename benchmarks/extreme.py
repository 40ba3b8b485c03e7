"""The share of points that are extreme, against dimension and noise: the figure and the table of
docs/theory.md.

python benchmarks/extreme.py [--out docs/figures] [--points 1000]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np

from conecollapse import Cone

DIMS = (3, 5, 10, 20, 40, 80, 160)
NOISES = (0.0, 0.001, 0.01, 0.1)  # relative to the root mean square entry
N_SOURCES = 15
RESIDUAL = 0.2  # of the epsilon-cone, of the noisiest points
STYLE = {0.0: "o-", 0.001: "s-", 0.01: "^-", 0.1: "d-"}


def mixtures(dim: int, noise: float, n_points: int) -> np.ndarray:
    """15 sources and mixtures of them, with normal noise on each entry, clipped at zero."""
    rng = np.random.default_rng(dim)
    weights = np.vstack(
        [np.eye(N_SOURCES), rng.dirichlet(np.ones(N_SOURCES), n_points - N_SOURCES)]
    )
    clean = weights @ rng.random((N_SOURCES, dim))
    return np.clip(
        clean + noise * np.sqrt(np.mean(clean**2)) * rng.standard_normal(clean.shape), 0, None
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("docs/figures"))
    parser.add_argument("--points", type=int, default=1000)
    args = parser.parse_args()
    matplotlib.rcParams["svg.hashsalt"] = "conecollapse"  # the same figure gives the same file
    share = {
        noise: [
            Cone.from_points(mixtures(dim, noise, args.points)).n_rays / args.points for dim in DIMS
        ]
        for noise in NOISES
    }
    few = [
        Cone.approximate(mixtures(dim, NOISES[-1], args.points), max_residual=RESIDUAL).n_rays
        / args.points
        for dim in DIMS
    ]
    last = f"noise {NOISES[-1]:g}, epsilon-cone"
    print(
        "| dimension | "
        + " | ".join(f"noise {noise:g}" for noise in NOISES)
        + f" | {last} |\n| --- |"
        + " --- |" * (len(NOISES) + 1)
    )
    for row, dim in enumerate(DIMS):
        print(
            f"| {dim} | "
            + " | ".join(f"{share[noise][row]:.1%}" for noise in NOISES)
            + f" | {few[row]:.1%} |"
        )
    figure, axis = plt.subplots(figsize=(6.5, 3.6))
    for noise, values in share.items():
        axis.plot(DIMS, values, STYLE[noise], label=f"noise {noise:g}", markersize=4)
    axis.plot(DIMS, few, "x--", label=last, markersize=5, color="black")
    axis.set(
        xscale="log",
        xlabel="dimension",
        ylabel="share of the points that are rays",
        ylim=(-0.03, 1.05),
    )
    axis.set_xticks(DIMS, [str(dim) for dim in DIMS])
    axis.minorticks_off()
    axis.grid(alpha=0.3)
    axis.legend()
    figure.tight_layout()
    args.out.mkdir(parents=True, exist_ok=True)
    figure.savefig(args.out / "extreme.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
