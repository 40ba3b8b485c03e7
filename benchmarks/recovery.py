"""Recovery of planted anchors against noise: the figure and the table of docs/epsilon-cone.md.

python benchmarks/recovery.py [--out docs/figures] [--trials 20]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np

from conecollapse.geometry.recovery import METHODS, recovery

NOISES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
SETTINGS = {
    "15 anchors in 20 dimensions": {"dim": 20, "n_rays": 15},
    "20 anchors in 10 dimensions": {"dim": 10, "n_rays": 20},
}
STYLE = {"epsilon-cone": "o-", "epsilon-cone, mass": "s-", "SPA": "^--", "XRAY": "d--"}


def main() -> None:
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
