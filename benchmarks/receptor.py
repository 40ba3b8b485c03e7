"""Receptor modelling: air samples with an uncertainty for every entry, against ESAT (LS-NMF) where
it is installed.

python benchmarks/receptor.py            # both sets, 4 to 6 factors, ten starts each
python benchmarks/receptor.py 2          # two starts

Q is the weighted squared error, sum ((x - wh) / sigma)^2, of the best of the starts. Both programs
run from random starts of their own, and their processor times are measured in the same run.
"recorded" is what ESAT 2025.0.1 reached on another machine, ten starts.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import pandas as pd
from common import DATA, machine

from conecollapse import HierarchicalNMF

try:
    from esat.model.sa import SA
except ImportError:
    SA = None

SETS = {"st-louis": (21381, 12306, 6591), "baton-rouge": (83785, 74045, 63883)}
FACTORS = (4, 5, 6)


def read(name):
    """Concentrations and uncertainties, samples x species."""
    return (
        pd.read_csv(DATA / "receptor" / f"{name}-{what}.csv", index_col=0)
        for what in ("concentrations", "uncertainties")
    )


def ours(X, sigma, r, n_starts):
    return [
        HierarchicalNMF(r, init="random", random_state=seed, tol=1e-6, max_iter=3000)
        .fit(X, weights=1 / sigma**2)
        .reconstruction_err_
        ** 2
        for seed in range(n_starts)
    ]


def esat(X, sigma, r, n_starts):
    found = []
    for seed in range(n_starts):
        model = SA(X, sigma, r, method="ls-nmf", seed=seed, parallel=False)
        model.initialize()
        model.train()
        found.append(float(model.Qtrue))
    return found


def timed(work, *arguments):
    start = time.process_time()
    return work(*arguments), time.process_time() - start


def main(n_starts):
    print(machine())
    print(
        "set          factors   Q ours     median   seconds   Q ESAT     median   seconds  "
        " recorded   ours / ESAT"
    )
    for name, recorded in SETS.items():
        X, sigma = (table.to_numpy(np.float64) for table in read(name))
        X = np.maximum(X, 0)  # a few concentrations below zero in the files of some networks
        ours(X[:20], sigma[:20], 2, 1)  # compile
        for r, known in zip(FACTORS, recorded, strict=True):
            Q, seconds = timed(ours, X, sigma, r, n_starts)
            line = f"{name:12s} {r:7d} {min(Q):10.1f} {np.median(Q):10.1f} {seconds:8.2f}"
            if SA is not None:
                theirs, taken = timed(esat, X, sigma, r, n_starts)
                line += (
                    f" {min(theirs):10.1f} {np.median(theirs):10.1f} {taken:8.2f} {known:10d}"
                    f" {min(Q) / min(theirs):8.4f}"
                )
            else:
                line += f" {'':30s} {known:10d} {min(Q) / known:8.4f}"
            print(line, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
