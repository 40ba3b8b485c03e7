"""Peak memory of every method on a sparse table, one process each.

python benchmarks/memory_nmf.py [REUTERS] [--rank 65] [--iterations 5]
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
import warnings

import numpy as np
import scipy.sparse as sp
from common import load_points, peak_gib

MODELS = {
    "MultiplicativeNMF": {},
    "MultiplicativeNMF kullback-leibler": {"loss": "kullback-leibler"},
    "AlternatingNMF": {},
    "HierarchicalNMF": {},
    "SparseNMF": {},
    "ProjectiveNMF": {},
    **{
        f"OrthogonalNMF {solver}": {"solver": solver, "n_init": 1}
        for solver in ("em", "mu", "ding", "choi", "stiefel", "onp-mf")
    },
    "CCNMF": {"n_init": 1},
    "CCNMF unit mu": {"n_init": 1, "weighting": "unit", "solver": "mu"},
    "CCNMF 400 rays": {"n_init": 1, "max_rays": 400},
    "CCNMF knn": {"n_init": 1, "affinity": "knn"},
    "CCNMF diffusion": {"n_init": 1, "affinity": "diffusion"},
    "HierarchicalNMF diffusion": {"affinity": "diffusion"},
}


def measure(label: str, name: str, rank: int, iterations: int, queue) -> None:
    import conecollapse

    warnings.simplefilter("ignore")
    points = load_points(name)
    if points is None:
        queue.put(None)
        return
    X = sp.csr_array(points.T) if sp.issparse(points) else np.ascontiguousarray(points.T)
    before, start = peak_gib(), time.perf_counter()
    model = getattr(conecollapse, label.split()[0])(
        rank, max_iter=iterations, random_state=0, **MODELS[label]
    )
    model.fit(X).predict(X)
    queue.put((before, peak_gib(), time.perf_counter() - start))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", nargs="?", default="REUTERS")
    parser.add_argument("--rank", type=int, default=65)
    parser.add_argument("--iterations", type=int, default=5)
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    for label in MODELS:
        queue = context.Queue()
        process = context.Process(
            target=measure, args=(label, options.name, options.rank, options.iterations, queue)
        )
        process.start()
        result = queue.get()
        process.join()
        if result is None:
            print(f"{options.name}: no data")
            return
        before, peak, seconds = result
        print(
            f"{label:36s} peak {peak:.2f} GiB (data and libraries {before:.2f}), fit and predict"
            f" {seconds:.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
