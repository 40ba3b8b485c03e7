"""Two Dask workers beside one thread in memory: processor time, and the memory of a worker.

Every worker is a process with one thread, also for BLAS. Workers hold the blocks in turn, and have
their kernels loaded, before anything is measured; the best of several runs counts. Processor time
inside tasks is counted, so that other work on the machine does not matter: that of all tasks says
what dividing the work costs, that of the busiest worker and of the calling thread, together, how
long it takes where each has a core of its own. Messages between the processes come on top: about a
tenth of a second. Memory is the peak of the busiest worker above what it held before, where the
points are large enough to tell.

python benchmarks/workers.py [--only zipf] [--scales 0.5 1 2] [--repeat 2] [--blocks 8] [--stages]
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sparse_scale import zipf_corpus

WARM = 0.1  # scale of the problem from which workers load their kernels
LARGE = 2**21  # entries from which the peak of memory is that of the points
HEAD = (
    "| cone of | in memory | tasks of two workers | busiest, and calling thread | bytes an entry |"
)


def all_rays(scale: float):
    """8000 points in dimension 40, all of them rays."""
    return np.random.default_rng(0).gamma(0.5, size=(int(8000 * scale), 40)) + 1e-3


def few_rays(scale: float):
    """16000 points in dimension 30, 100 of them rays."""
    rng, m = np.random.default_rng(0), int(16_000 * scale)
    rays = rng.gamma(0.5, size=(100, 30)) + 1e-3
    return np.vstack([rays, rng.gamma(0.3, size=(m - 100, 100)) @ rays])[rng.permutation(m)]


def wide(scale: float):
    """6000 points in dimension 400, all of them rays."""
    return np.random.default_rng(0).gamma(0.5, size=(int(6000 * scale), 400)) + 1e-3


def zipf(scale: float):
    """A Zipf corpus of 3 million non-zeros."""
    entries = int(3_000_000 * scale)
    return sp.csr_array(zipf_corpus(entries // 50, entries // 100, entries)[0].T)


PROBLEMS = {"all rays": all_rays, "few rays": few_rays, "wide": wide, "zipf": zipf}


def placed(client, P, n_blocks: int):
    """Points as a Dask array in blocks, which the workers hold in turn."""
    import dask.array as da
    from distributed import wait

    from conecollapse.tables import dask  # noqa: F401 (Dask learns the size of sparse blocks)

    size = -(-P.shape[0] // n_blocks)
    parts = [P[a : a + size] for a in range(0, P.shape[0], size)]
    workers = list(client.run(os.getpid))
    meta = sp.csr_array((0, 0)) if sp.issparse(P) else np.empty((0, 0))
    futures = [
        client.scatter(part, workers=[workers[k % len(workers)]], hash=False)
        for k, part in enumerate(parts)
    ]
    blocks = [
        da.from_delayed(future, part.shape, part.dtype, meta=meta)
        for future, part in zip(futures, parts, strict=True)
    ]
    D = da.concatenate(blocks).persist()
    wait(D)
    return D


def install() -> None:
    """In a worker: count the processor time of tasks by stage."""
    from conecollapse.tables import dask

    uncounted, dask.spent = dask._in_threads, Counter()

    def counting(threads, function, *args):
        from distributed import get_worker

        start = time.thread_time()
        try:
            return uncounted(threads, function, *args)
        finally:
            stage = str(get_worker().get_current_task()).split("-")[1]
            dask.spent[stage] += time.thread_time() - start

    dask._in_threads = counting


def restart() -> int:
    """In a worker: forget what was counted, and the peak of memory; bytes held now."""
    from conecollapse.tables import dask

    dask.spent.clear()
    Path("/proc/self/clear_refs").write_text("5")
    return peak()


def peak() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def counted() -> dict[str, float]:
    from conecollapse.tables import dask

    return dict(dask.spent)


def once(client, D) -> dict:
    """One run: seconds of each worker's tasks and of the calling thread, and the bytes that the
    busiest worker took."""
    from conecollapse import Cone

    held, calling = client.run(restart), time.thread_time()
    cone = Cone.from_points(D)
    calling = time.thread_time() - calling
    peaks, tasks = client.run(peak), client.run(counted)
    return {
        "tasks": sorted((sum(some.values()) for some in tasks.values()), reverse=True),
        "stages": sum((Counter(some) for some in tasks.values()), Counter()),
        "calling": calling,
        "bytes": max(peaks[name] - held[name] for name in held),
        "rays": cone.ray_indices,
    }


def in_memory(P, repeat: int) -> tuple[float, np.ndarray]:
    """Processor time of one thread, and the rays."""
    from conecollapse import Cone
    from conecollapse._threads import limit_threads

    seconds = []
    with limit_threads(1):
        for _ in range(repeat + 1):  # kernels are loaded first
            start = time.process_time()
            rays = Cone.from_points(P).ray_indices
            seconds.append(time.process_time() - start)
    return min(seconds), rays


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=PROBLEMS)
    parser.add_argument("--scales", type=float, nargs="+", default=[0.5, 1.0, 2.0])
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--blocks", type=int, default=8)
    parser.add_argument("--stages", action="store_true", help="also the time of each stage")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    from distributed import Client, LocalCluster

    names = PROBLEMS if options.only is None else [options.only]
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        client.run(install)
        print(f"{HEAD}\n|{' --- |' * 5}")
        for name in names:
            once(client, placed(client, PROBLEMS[name](WARM), 2))
            for scale in options.scales:
                row(client, PROBLEMS[name](scale), options)


def row(client, P, options) -> None:
    """Measure one problem, and print its row."""
    local, rays = in_memory(P, options.repeat)
    D = placed(client, P, options.blocks)
    runs = [once(client, D) for _ in range(options.repeat)]
    assert all(np.array_equal(run["rays"], rays) for run in runs)
    best = min(runs, key=lambda run: sum(run["tasks"]))
    tasks, longest = sum(best["tasks"]), best["tasks"][0] + best["calling"]
    entries = P.nnz if sp.issparse(P) else P.size
    each = f"{max(run['bytes'] for run in runs) / entries:.0f}" if entries >= LARGE else "-"
    size = (
        f"{entries / 1e6:.1f} million non-zeros" if sp.issparse(P) else f"{P.shape[1]} dimensions"
    )
    cells = [
        f"{P.shape[0]} points, {size}, {len(rays)} rays",
        f"{local:.2f} s",
        f"{tasks:.2f} s, {tasks / local:.2f} times as much",
        f"{longest:.2f} s, {local / longest:.2f} times faster",
        each,
    ]
    print(f"| {' | '.join(cells)} |", flush=True)
    if options.stages:
        print({stage: round(some, 3) for stage, some in best["stages"].items()})


if __name__ == "__main__":
    main()
