"""Shared by the benchmark scripts: data, clocks, and a line that says what machine this is."""

from __future__ import annotations

import compileall
import ctypes
import gc
import os
import platform
import resource
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy
import scipy.sparse as sp
from threadpoolctl import threadpool_info

import conecollapse
from conecollapse._threads import available_threads

DATA = Path(os.environ.get("CONECOLLAPSE_DATA", Path(__file__).parents[2] / "shared" / "data"))
if DATA.is_dir():
    os.environ.setdefault("CONECOLLAPSE_DATA", str(DATA))  # for `conecollapse.datasets`


def machine() -> str:
    """Threads and versions, for the head of every table."""
    blas = sorted(
        {
            f"{lib['internal_api']} {lib['version']} x {lib['num_threads']}"
            for lib in threadpool_info()
            if lib["user_api"] == "blas"
        }
    )
    return (
        f"{available_threads()} threads for kernels, BLAS {', '.join(blas)}; Python"
        f" {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}"
    )


def best_of(
    work: Callable[[], object], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Smallest time of several runs, in seconds, by the wall clock or another."""
    times = []
    for _ in range(repeats):
        start = clock()
        work()
        times.append(clock() - start)
    return min(times)


def without_kernels(folder: str) -> dict[str, str]:
    """The environment of a process that finds no compiled kernel: it runs on a copy of the package
    in ``folder`` and keeps its own there.

    Kernels that are kept beside the package are used whatever NUMBA_CACHE_DIR says. As after an
    installation, the bytecode of the modules is there.
    """
    package = Path(conecollapse.__file__).parent
    shutil.copytree(package, Path(folder, package.name), ignore=shutil.ignore_patterns("*.nb[ic]"))
    compileall.compile_dir(folder, quiet=2)
    return os.environ | {
        "PYTHONPATH": folder,
        "NUMBA_CACHE_DIR": f"{folder}/kernels",
        "XDG_CACHE_HOME": f"{folder}/cache",
    }


def peak_gib() -> float:
    """Largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def start_of_growth() -> float:
    """Resident memory now, in GiB, from which `growth_gib` counts: what earlier work has freed is
    given back, and its peak is forgotten.

    Both need Linux; elsewhere growth is counted from the largest resident memory so far, which may
    hide a part of it.
    """
    try:
        gc.collect()
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    except (OSError, AttributeError):
        return peak_gib()
    return _status("VmRSS")


def growth_gib(before: float) -> float:
    """How far the resident memory has risen above ``before`` since `start_of_growth`, at its
    highest."""
    return (_status("VmHWM") if Path("/proc/self/status").is_file() else peak_gib()) - before


def _status(field: str) -> float:
    """A field of /proc/self/status, in GiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 2**20


def load_points(name: str):
    """Points of a dataset as rows; text weighted by TF-IDF with unit documents. None where the file
    is missing."""
    file = DATA / f"{name}.npz"
    if not file.is_file():
        return None
    with np.load(file, allow_pickle=False) as z:
        if "indptr" not in z:
            return z["X"].astype(np.float64)
        X = sp.csc_array(
            (z["data"].astype(np.float64), z["indices"], z["indptr"]), shape=tuple(z["shape"])
        ).tocsr()
    df = np.diff(X.indptr)
    X = sp.diags_array(np.log((1 + X.shape[1]) / (1 + df)) + 1) @ X
    lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=0)).ravel())
    return sp.csr_array(X @ sp.diags_array(1 / np.maximum(lengths, 1e-300)))


def cell_counts(n_cells: int, n_genes: int, depth: float) -> tuple[sp.csr_array, np.ndarray]:
    """Gamma-Poisson counts (cells x genes) with eight programs and cells of different depth, and
    the program of each cell."""
    rng = np.random.default_rng(0)
    mean = rng.lognormal(-2.0, 1.6, n_genes)
    programs = np.exp(rng.normal(0, 1, (8, n_genes)) * (rng.random((8, n_genes)) < 0.1))
    kind, size = rng.integers(8, size=n_cells), rng.lognormal(0, 0.35, n_cells)
    blocks = []
    for a in range(0, n_cells, 500):
        mu = depth * size[a : a + 500, None] * mean * programs[kind[a : a + 500]]
        blocks.append(sp.csr_array(rng.poisson(rng.gamma(2.0, mu / 2.0)).astype(np.float64)))
    return sp.csr_array(sp.vstack(blocks)), kind
