"""`CCNMF` end to end beside scikit-learn's NMF at the rank of each of the paper's datasets, and what giving up starts early costs.

python benchmarks/bench_ccnmf.py [AMLALL ORL ...] [--repeats 3] [--compare]

Times are measured alternately in one run, the best of several. With ``--compare`` also the objective of stage 2 over that of all starts run
to their end, for three seeds: 1 where nothing is lost.
"""

from __future__ import annotations

import argparse
import importlib
import warnings

import numpy as np
from bench_nmf import in_turns
from common import machine
from sklearn.decomposition import NMF

from conecollapse import CCNMF, DatasetNotFoundError
from conecollapse.datasets import load

em = importlib.import_module("conecollapse.factorization.onmf.em")  # the module; the package has a function of this name
SETS = ("AMLALL", "DUKE", "KHAN", "MED", "CITESEER", "WEBKB4", "7SECTORS", "REUTERS", "ORL", "UMIST", "YALEB", "COIL-20")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=SETS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--compare", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(machine())
    for name in options.names:
        try:
            data = load(name, download=False)
        except DatasetNotFoundError:
            print(f"{name}: no data")
            continue
        r = len(np.unique(data.y))
        ours, peer = CCNMF(r, random_state=0), NMF(r, init="nndsvda", random_state=0)
        ours.fit(data.X)
        ours_time, peer_time = in_turns(lambda X=data.X, m=ours: m.fit(X), lambda X=data.X, m=peer: m.fit(X), options.repeats)
        line = f"{name}: {data.X.shape}, rank {r}: CCNMF {ours_time:.2f} s, scikit-learn {peer_time:.2f} s ({peer.n_iter_} iterations)"
        print(f"{line}: {peer_time / ours_time:.1f} times faster", flush=True)
        if options.compare:
            print(f"  objectives against all starts run to their end: {[round(against_all(data.X, r, seed), 6) for seed in range(3)]}")


def against_all(X, r: int, seed: int) -> float:
    """The objective of stage 2 over that without giving up any start."""
    few = CCNMF(r, random_state=seed).fit(X)
    finalists, em.FINALISTS = em.FINALISTS, few.n_init
    try:
        every = CCNMF(r, random_state=seed, cone=few.cone_).fit(X)
    finally:
        em.FINALISTS = finalists
    return float(few.history_[-1] / every.history_[-1])


if __name__ == "__main__":
    main()
