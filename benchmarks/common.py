"""Shared by the benchmark scripts: data, clocks, and a line that says what machine this is."""

from __future__ import annotations

import os
import platform
import resource
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy
import scipy.sparse as sp
from threadpoolctl import threadpool_info

from conecollapse._threads import available_threads

DATA = Path(os.environ.get("CONECOLLAPSE_DATA", Path(__file__).parents[2] / "shared" / "data"))


def machine() -> str:
    """Threads and versions, for the head of every table."""
    blas = sorted(
        {f"{lib['internal_api']} {lib['version']} x {lib['num_threads']}" for lib in threadpool_info() if lib["user_api"] == "blas"}
    )
    return (
        f"{available_threads()} threads for kernels, BLAS {', '.join(blas)}; Python {platform.python_version()}, "
        f"NumPy {np.__version__}, SciPy {scipy.__version__}"
    )


def best_of(work: Callable[[], object], repeats: int) -> float:
    """Smallest wall-clock time of several runs, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def peak_gib() -> float:
    """Largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def load_points(name: str):
    """Points of a dataset as rows; text weighted by TF-IDF with unit documents. None where the file is missing."""
    file = DATA / f"{name}.npz"
    if not file.is_file():
        return None
    with np.load(file, allow_pickle=False) as z:
        if "indptr" not in z:
            return z["X"].astype(np.float64)
        X = sp.csc_array((z["data"].astype(np.float64), z["indices"], z["indptr"]), shape=tuple(z["shape"])).tocsr()
    df = np.diff(X.indptr)
    X = sp.diags_array(np.log((1 + X.shape[1]) / (1 + df)) + 1) @ X
    lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=0)).ravel())
    return sp.csr_array(X @ sp.diags_array(1 / np.maximum(lengths, 1e-300)))
