"""How many components: planted ranks from 2 to 12, and how often each method of `select_rank` finds
them.

python benchmarks/ranks.py                               # 20 draws of every family and noise, all
methods python benchmarks/ranks.py --draws 4 --methods heldout   # a quick look python
benchmarks/ranks.py --families topics bursts      # some families

A table is 120 x 80 or so; the candidates are 2 to 14. The families:

dense    gamma factors, Gaussian noise of 5, 15 and 40 % of the standard deviation of the model
patches  sparse components (a fifth of the features each), noise in proportion to the model: 10, 30
and 60 % counts   Poisson counts of gamma factors, 5, 1 and 0.3 for each entry on average topics
texts of 300, 100 and 40 words over Dirichlet topics: rows with a fixed sum bursts   counts with a
larger variance than Poisson's (negative binomial, shape 2), 5, 1 and 0.3 for each entry on average

Each line has the draws in which the rank was right, and within one of it. ``--results`` names a
file to which every draw is added; those that it has are not computed again.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import warnings

import numpy as np
import scipy.sparse as sp
from common import machine

from conecollapse import select_rank

METHODS = ("heldout", "stability", "consensus", "residual")
LEVELS = ("low", "middle", "high")
SHAPE = (120, 80)
CANDIDATES = range(2, 15)


def _factors(r, rng):
    W, H = rng.gamma(0.5, 1.0, (SHAPE[0], r)), rng.gamma(0.5, 1.0, (r, SHAPE[1]))
    return W @ H / (W @ H).mean()


def dense(r, level, rng):
    X = _factors(r, rng)
    return np.maximum(X + (0.05, 0.15, 0.4)[level] * X.std() * rng.standard_normal(SHAPE), 0)


def patches(r, level, rng):
    H = np.where(rng.random((r, SHAPE[1])) < 0.2, rng.uniform(0.5, 1.5, (r, SHAPE[1])), 0.0)
    X = rng.exponential(1.0, (SHAPE[0], r)) @ H
    return X * rng.gamma(1 / (noise := (0.1, 0.3, 0.6)[level] ** 2), noise, SHAPE)


def counts(r, level, rng):
    return sp.csr_array(rng.poisson((5, 1, 0.3)[level] * _factors(r, rng)))


def topics(r, level, rng):
    W, H = rng.dirichlet(np.full(r, 0.3), SHAPE[0]), rng.dirichlet(np.full(SHAPE[1], 0.2), r)
    return sp.csr_array(
        np.array([rng.multinomial((300, 100, 40)[level], p / p.sum()) for p in W @ H])
    )


def bursts(r, level, rng):
    return sp.csr_array(
        rng.poisson((5, 1, 0.3)[level] * _factors(r, rng) * rng.gamma(2, 0.5, SHAPE))
    )


FAMILIES = {family.__name__: family for family in (dense, patches, counts, topics, bursts)}


def planted(family, level, draw):
    """The rank of a draw and its table."""
    rng = np.random.default_rng([list(FAMILIES).index(family), level, draw])
    r = int(rng.integers(2, 13))
    return r, FAMILIES[family](r, level, rng)


def run(options):
    path = pathlib.Path(options.results) if options.results else None
    known = (
        [json.loads(line) for line in path.read_text().splitlines()]
        if path is not None and path.exists()
        else []
    )
    found = {(d["family"], d["level"], d["method"], d["draw"]): d for d in known}
    print(f"{'family':8s} {'noise':7s} {'method':10s} right  within one  of")
    for family in options.families:
        for level, noise in enumerate(LEVELS):
            for method in options.methods:
                misses = []
                for draw in range(options.draws):
                    key = (family, level, method, draw)
                    if key not in found:
                        r, X = planted(family, level, draw)
                        choice = select_rank(
                            X,
                            CANDIDATES,
                            method,
                            n_runs=options.runs,
                            random_state=draw,
                            verbose=False,
                        )
                        what = {"family": family, "level": level, "method": method, "draw": draw}
                        found[key] = {
                            **what,
                            "planted": r,
                            "chosen": choice.rank,
                            "scores": choice.scores.tolist(),
                            "ties": choice.ties,
                        }
                        if path is not None:
                            with path.open("a") as file:
                                file.write(json.dumps(found[key]) + "\n")
                    misses.append(abs(found[key]["chosen"] - found[key]["planted"]))
                right, near = sum(m == 0 for m in misses), sum(m <= 1 for m in misses)
                print(
                    f"{family:8s} {noise:7s} {method:10s} {right:5d}  {near:10d}  {len(misses)}",
                    flush=True,
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--runs", type=int, default=5, help="n_runs of select_rank")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=FAMILIES)
    parser.add_argument("--results")
    print(machine())
    warnings.simplefilter("ignore")
    run(parser.parse_args())
