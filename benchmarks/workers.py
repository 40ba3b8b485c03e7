"""Two Dask workers against one, and against the method in memory: wall and processor time, balance and memory.

Every worker is a process with one thread. The runs with one worker and with two alternate, and the shortest of each counts. Processor
time is what the operating system counts for the worker processes; that inside tasks is counted apart, so that on a busy machine the time
of a quiet one can be judged: the busiest worker's tasks, and what the client does meanwhile.

python benchmarks/workers.py [--only zipf] [--repeat 3] [--blocks 8] [--scale 1] [--records workers.jsonl]
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sparse_scale import zipf_corpus

PROBLEMS = {
    "all rays": "8000 points in dimension 40, all rays",
    "few rays": "16000 points in dimension 30, 100 rays",
    "zipf": "a Zipf corpus of 3 million non-zeros",
}


def problem(name: str, scale: float):
    rng = np.random.default_rng(0)
    if name == "all rays":
        return rng.gamma(0.5, size=(int(8000 * scale), 40)) + 1e-3
    if name == "few rays":
        rays = rng.gamma(0.5, size=(100, 30)) + 1e-3
        m = int(16_000 * scale)
        return np.vstack([rays, rng.gamma(0.3, size=(m - 100, 100)) @ rays])[rng.permutation(m)]
    entries = int(3_000_000 * scale)
    return sp.csr_array(zipf_corpus(entries // 50, entries // 100, entries)[0].T)


def chunked(P, n_blocks: int):
    """Points as a Dask array in blocks."""
    import dask
    import dask.array as da

    size = -(-P.shape[0] // n_blocks)
    if not sp.issparse(P):
        return da.from_array(P, chunks=(size, -1))
    parts = [P[a : a + size] for a in range(0, P.shape[0], size)]
    return da.concatenate([da.from_delayed(dask.delayed(part), part.shape, P.dtype, meta=sp.csr_array((0, 0))) for part in parts])


def used() -> float:
    """Processor time of this process so far."""
    times = os.times()
    return times.user + times.system


def install() -> None:
    """In a worker: count the processor time of tasks, and let the peak of memory begin anew."""
    from conecollapse.tables import dask_tasks

    if not hasattr(dask_tasks, "uncounted"):
        dask_tasks.uncounted, dask_tasks.spent = dask_tasks._one_thread, Counter()

        def counting(function, *args):
            from distributed import get_worker

            start = time.thread_time()
            try:
                return dask_tasks.uncounted(function, *args)
            finally:
                stage = str(get_worker().get_current_task()).split("-")[1]
                dask_tasks.spent[stage] += time.thread_time() - start
                dask_tasks.spent[f"{stage} tasks"] += 1

        dask_tasks._one_thread = counting


def restart() -> float:
    """In a worker: forget what was counted, and the peak of memory; what is held now, in MiB."""
    from conecollapse.tables import dask_tasks

    dask_tasks.spent.clear()
    Path("/proc/self/clear_refs").write_text("5")
    return peak_mib()


def peak_mib() -> float:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def counted() -> dict[str, float]:
    from conecollapse.tables import dask_tasks

    return dict(dask_tasks.spent)


def once(client, D) -> dict:
    """One run: seconds, and what each worker and this process spent."""
    from conecollapse import Cone

    held, before, mine = client.run(restart), client.run(used), used()
    start = time.perf_counter()
    cone = Cone.from_points(D)
    seconds = time.perf_counter() - start
    mine = used() - mine
    after, tasks, peaks = client.run(used), client.run(counted), client.run(peak_mib)
    by_stage = Counter()
    for some in tasks.values():
        by_stage.update(some)
    stages = [name for name in by_stage if not name.endswith(" tasks")]
    return {
        "seconds": round(seconds, 2),
        "workers": [round(after[name] - before[name], 2) for name in before],
        "in tasks": [round(sum(some.get(stage, 0.0) for stage in stages), 2) for some in tasks.values()],
        "client": round(mine, 2),
        "extra mib": [round(peaks[name] - held[name]) for name in held],
        "stages": {stage: [int(by_stage[f"{stage} tasks"]), round(by_stage[stage], 3)] for stage in stages},
        "rays": cone.n_rays,
        "open": int(cone.certificate.open.sum()),
    }


def measure(name: str, n_blocks: int, repeat: int, scale: float) -> list[dict]:
    from distributed import Client, LocalCluster

    from conecollapse import Cone
    from conecollapse._threads import limit_threads

    P = problem(name, scale)
    with limit_threads(1):
        Cone.from_points(P)
        local = []
        for _ in range(repeat):
            start = used()
            rays = Cone.from_points(P).ray_indices
            local.append(used() - start)
    best: dict[int, dict] = {}
    for _ in range(repeat):
        for n_workers in (1, 2):
            with LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster) as client:
                client.run(install)
                D = chunked(P, n_blocks)
                np.testing.assert_array_equal(Cone.from_points(D).ray_indices, rays)  # workers load their kernels
                run = once(client, D)
            if n_workers not in best or run["seconds"] < best[n_workers]["seconds"]:
                best[n_workers] = run
    entries = P.nnz if sp.issparse(P) else P.size
    block_mib = entries * (12 if sp.issparse(P) else 8) / n_blocks / 2**20
    common = {"problem": name, "scale": scale, "blocks": n_blocks, "local": round(min(local), 2), "block mib": round(block_mib, 1)}
    return [common | {"n": n} | run for n, run in best.items()]


def report(one: dict, two: dict) -> None:
    """The ratios, as measured and as the counted processor time promises on an idle machine."""
    print(f"\n{PROBLEMS[one['problem']]} (scale {one['scale']}), {one['blocks']} blocks of {one['block mib']} MiB: {one['rays']} rays")
    print(f"  in memory: {one['local']} s of processor time")
    for run in (one, two):
        busy = f"{run['workers']} s of processor time, {run['in tasks']} s of it in tasks, client {run['client']} s"
        print(f"  {run['n']} workers: {run['seconds']} s; {busy}; at most {max(run['extra mib'])} MiB above the start")
    promised = (max(one["in tasks"]) + one["client"]) / (max(two["in tasks"]) + two["client"])
    print(
        f"  wall {one['seconds'] / two['seconds']:.2f}x; busiest worker's tasks {max(one['in tasks']) / max(two['in tasks']):.2f}x fewer;"
    )
    print(f"  with the client's work, which does not split, {promised:.2f}x; tasks / in memory {sum(two['in tasks']) / one['local']:.2f}x")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=PROBLEMS)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--blocks", type=int, default=8)
    parser.add_argument("--scale", type=float, default=1.0, help="times as many points or non-zeros")
    parser.add_argument("--records", type=Path, help="add a line of JSON for each")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in PROBLEMS if options.only is None else [options.only]:
        runs = measure(name, options.blocks, options.repeat, options.scale)
        report(*runs)
        if options.records is not None:
            with open(options.records, "a", encoding="utf-8") as file:
                file.writelines(json.dumps(run) + "\n" for run in runs)


if __name__ == "__main__":
    main()
