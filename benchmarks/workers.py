"""Two Dask workers against one, and against the method in memory: wall and processor time, balance
and memory.

Every worker is a process with one thread, also for BLAS (Dask sets this when it starts one), so
that one worker uses one core and two use two. Workers hold the blocks in turn, and have their
kernels loaded, when the clock starts. The runs with one worker and with two alternate, and the
shortest of each counts. Client and scheduler run in this process, on the same machine: where it has
two cores, the second one is free for them beside one worker and not beside two. Processor time is
what the operating system counts for the worker processes; that inside tasks is counted apart, so
that on a busy machine the time of a quiet one can be judged: the busiest worker's tasks, and what
the calling thread does meanwhile. Two cores need not be twice as fast as one, since they share
caches, memory and perhaps more: a line says how much faster two workers are than one if each finds
the whole cone in memory, for itself. No way to divide the work can be expected to do better. A line
says "yes" or "no" to each thing that is asked for: 1.6 times faster with two workers, at most 1.5
times the processor time of the method in memory, and at most three blocks of memory beside a
worker's own blocks.

With ``--memory`` only the memory is measured, with large blocks and one block for each worker: the
peak of the busiest worker above what it held with its block. At most three blocks are asked for,
and `FLOOR` for what does not grow with them.

python benchmarks/workers.py [--only zipf] [--repeat 3] [--blocks 8] [--scale 1] [--records
workers.jsonl] python benchmarks/workers.py --memory [--only zipf] [--blocks 4] [--block-mib 64]
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

FASTER, MORE_WORK, MORE_BLOCKS = 1.6, 1.5, 3.0  # what is asked for
# MiB of a worker that do not grow with its blocks: freed memory that is kept while a task runs
# (64), slices of points, results
FLOOR = 96
WARM = 0.06  # share of a problem for each worker that is enough work for all of them
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


def in_parts(P, n_blocks: int) -> list:
    size = -(-P.shape[0] // n_blocks)
    return [P[a : a + size] for a in range(0, P.shape[0], size)]


def placed(client, parts: list):
    """Points as a Dask array in blocks, which the workers hold in turn."""
    import dask.array as da
    from distributed import wait

    from conecollapse.tables import dask  # noqa: F401 (Dask learns the size of sparse blocks)

    workers = list(client.run(os.getpid))
    meta = sp.csr_array((0, 0)) if sp.issparse(parts[0]) else np.empty((0, 0))
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


def moved_mib(dask_worker) -> float:
    """What this worker received from others so far, in MiB."""
    return sum(entry["total"] for entry in dask_worker.transfer_incoming_log) / 2**20


def used() -> float:
    """Processor time of this process so far."""
    times = os.times()
    return times.user + times.system


def install() -> None:
    """In a worker: count the processor time of tasks, and let the peak of memory begin anew."""
    from conecollapse.tables import dask

    if not hasattr(dask, "uncounted"):
        dask.uncounted, dask.spent = dask._in_threads, Counter()

        def counting(threads, function, *args):
            from distributed import get_worker

            start = time.thread_time()
            try:
                return dask.uncounted(threads, function, *args)
            finally:
                stage = str(get_worker().get_current_task()).split("-")[1]
                dask.spent[stage] += time.thread_time() - start
                dask.spent[f"{stage} tasks"] += 1

        dask._in_threads = counting


def restart() -> float:
    """In a worker: forget what was counted, and the peak of memory; what is held now, in MiB."""
    from conecollapse.tables import dask

    dask.spent.clear()
    Path("/proc/self/clear_refs").write_text("5")
    return peak_mib()


def peak_mib() -> float:
    line = next(
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM")
    )
    return int(line.split()[1]) / 1024


def counted() -> dict[str, float]:
    from conecollapse.tables import dask

    return dict(dask.spent)


def once(client, D) -> dict:
    """One run: seconds, and what each worker, this process (the scheduler is a thread of it) and
    the calling thread spent."""
    from conecollapse import Cone
    from conecollapse.tables import dask

    held, moved = client.run(restart), client.run(moved_mib)
    before = client.run(used)
    rounds, on_cluster = [], dask._on_cluster
    dask._on_cluster = lambda tasks: rounds.append(len(tasks)) or on_cluster(tasks)
    start, mine, calling = time.perf_counter(), used(), time.thread_time()
    cone = Cone.from_points(D)
    seconds, mine, calling = (
        time.perf_counter() - start,
        used() - mine,
        time.thread_time() - calling,
    )
    dask._on_cluster = on_cluster
    after, tasks, peaks = client.run(used), client.run(counted), client.run(peak_mib)
    by_stage = Counter()
    for some in tasks.values():
        by_stage.update(some)
    stages = [name for name in by_stage if not name.endswith(" tasks")]
    return {
        "seconds": round(seconds, 3),
        "workers": [round(after[name] - before[name], 2) for name in before],
        "in tasks": [
            round(sum(some.get(stage, 0.0) for stage in stages), 3) for some in tasks.values()
        ],
        "client": round(mine, 2),
        "calling": round(calling, 3),
        "extra mib": [round(peaks[name] - held[name]) for name in held],
        "moved mib": round(sum(client.run(moved_mib).values()) - sum(moved.values()), 1),
        "rounds": len(rounds),
        "stages": {
            stage: [int(by_stage[f"{stage} tasks"]), round(by_stage[stage], 3)] for stage in stages
        },
        "rays": cone.n_rays,
        "open": int(cone.certificate.open.sum()),
    }


def in_memory(P) -> int:
    """In a worker, with one thread as all tasks: the number of rays of the points, found in
    memory."""
    from conecollapse import Cone
    from conecollapse._threads import limit_threads

    with limit_threads(1):
        return Cone.from_points(P).n_rays


def two_at_once(client, P) -> float:
    """How much faster both workers are than one, if each finds the whole cone by itself."""
    workers = list(client.run(os.getpid))
    points = client.scatter(P, broadcast=True, hash=False)
    seconds = []
    for some in (workers, workers[:1], workers):  # kernels are loaded first
        start = time.perf_counter()
        client.gather(
            [client.submit(in_memory, points, workers=[worker], pure=False) for worker in some]
        )
        seconds.append(time.perf_counter() - start)
    return 2 * seconds[1] / seconds[2]


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
    at_once = []
    for _ in range(repeat):
        for n_workers in (1, 2):
            with (
                LocalCluster(
                    n_workers=n_workers, threads_per_worker=1, dashboard_address=":0"
                ) as cluster,
                Client(cluster) as client,
            ):
                client.run(install)
                D = placed(client, in_parts(P, n_blocks))
                # workers load their kernels
                np.testing.assert_array_equal(Cone.from_points(D).ray_indices, rays)
                run = once(client, D)
                if n_workers == 2:
                    at_once.append(two_at_once(client, P))
            if n_workers not in best or run["seconds"] < best[n_workers]["seconds"]:
                best[n_workers] = run
    entries = P.nnz if sp.issparse(P) else P.size
    block_mib = entries * (12 if sp.issparse(P) else 8) / n_blocks / 2**20
    common = {
        "problem": name,
        "scale": scale,
        "blocks": n_blocks,
        "local": round(min(local), 2),
        "block mib": round(block_mib, 1),
    }
    common["two at once"] = round(max(at_once), 2)
    return [common | {"n": n} | run for n, run in best.items()]


def large(name: str, mib: float, n_blocks: int) -> list:
    """Points in blocks of ``mib`` MiB on average."""
    rng = np.random.default_rng(0)
    if name == "zipf":
        entries = int(mib * 2**20 / 12 * n_blocks)
        P = sp.csr_array(zipf_corpus(entries // 50, entries // 100, entries)[0].T)
        P.indices, P.indptr = P.indices.astype(np.int32), P.indptr.astype(np.int32)
        return in_parts(P, n_blocks)
    dim = 800
    points = int(mib * 2**20 / 8 / dim)
    if name == "all rays":
        return [rng.gamma(0.5, size=(points, dim)) + 1e-3 for _ in range(n_blocks)]
    rays = rng.gamma(0.5, size=(100, dim)) + 1e-3
    return [
        np.vstack(
            [rays[k::n_blocks], rng.gamma(0.3, size=(points - len(rays[k::n_blocks]), 100)) @ rays]
        )
        for k in range(n_blocks)
    ]


def memory(name: str, n_blocks: int, mib: float) -> None:
    """The largest peak of a worker with one large block of its own, in blocks above the floor."""
    from distributed import Client, LocalCluster

    from conecollapse import Cone

    blocks = large(name, mib, n_blocks)
    sizes = [
        (block.data.nbytes + block.indices.nbytes if sp.issparse(block) else block.nbytes) / 2**20
        for block in blocks
    ]
    with (
        LocalCluster(n_workers=n_blocks, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        client.run(install)
        # every worker loads its kernels
        Cone.from_points(placed(client, in_parts(problem(name, WARM * n_blocks), n_blocks)))
        D = placed(client, blocks)
        own = client.run(restart)
        start = time.perf_counter()
        cone = Cone.from_points(D)
        seconds = time.perf_counter() - start
        peaks = client.run(peak_mib)
        stages = Counter()
        for some in client.run(counted).values():
            stages.update(some)
    block = sum(sizes) / n_blocks
    worst = max(peaks[worker] - own[worker] for worker in own)
    print(
        f"\n{name}: {n_blocks} workers with a block of {block:.0f} MiB each (the largest has"
        f" {max(sizes):.0f})"
    )
    print(f"  {cone.n_rays} rays in {seconds:.0f} s; at most {worst:.0f} MiB beside its own block")
    print(
        f"  tasks: { ({stage: int(n) for stage, n in stages.items() if stage.endswith(' tasks')}) }"
    )
    print(
        f"  beside its own block, above {FLOOR} MiB, in blocks:"
        f" {_asked(max(worst - FLOOR, 0) / block, MORE_BLOCKS, at_least=False)}"
    )


def report(one: dict, two: dict) -> None:
    """The ratios, as measured and as the counted processor time promises on an idle machine, and
    whether they are as asked for."""
    print(
        f"\n{PROBLEMS[one['problem']]} (scale {one['scale']}), {one['blocks']} blocks of"
        f" {one['block mib']} MiB: {one['rays']} rays"
    )
    print(f"  in memory: {one['local']} s of processor time")
    for run in (one, two):
        n_tasks = sum(count for count, _ in run["stages"].values())
        print(
            f"  {run['n']} workers: {run['seconds']} s; {run['workers']} s of processor time,"
            f" {run['in tasks']} s of it in tasks; client and scheduler {run['client']} s,"
            f" {run['calling']} s of it in the calling thread; {n_tasks} tasks in {run['rounds']}"
            f" rounds, {run['moved mib']} MiB moved; at most {max(run['extra mib'])} MiB above the"
            " start"
        )
    promised = (max(one["in tasks"]) + one["calling"]) / (max(two["in tasks"]) + two["calling"])
    print(
        f"  two workers that each find the whole cone: {one['two at once']} times faster than one"
        " that does so twice"
    )
    print(
        "  two workers, wall clock:"
        f" {_asked(one['seconds'] / two['seconds'], FASTER, at_least=True)}"
    )
    print(
        "  two workers, the busiest one's tasks:"
        f" {_asked(max(one['in tasks']) / max(two['in tasks']), FASTER, at_least=True)}"
    )
    print(
        "  two workers, these and the calling thread, which does not split:"
        f" {_asked(promised, FASTER, at_least=True)}"
    )
    print(
        "  processor time in tasks / in memory:"
        f" {_asked(sum(two['in tasks']) / one['local'], MORE_WORK, at_least=False)}"
    )
    print(
        "  processor time of the workers / in memory:"
        f" {_asked(sum(two['workers']) / one['local'], MORE_WORK, at_least=False)}"
    )
    extra = max(max(two["extra mib"]) - FLOOR, 0.0)
    print(
        f"  memory beside its own blocks, above {FLOOR} MiB, in blocks:"
        f" {_asked(extra / one['block mib'], MORE_BLOCKS, at_least=False)}"
    )


def _asked(found: float, bound: float, *, at_least: bool) -> str:
    good = found >= bound if at_least else found <= bound
    return (
        f"{found:.2f} ({'at least' if at_least else 'at most'} {bound:g}:"
        f" {'yes' if good else 'no'})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=PROBLEMS)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--blocks", type=int, help="8, or 4 with --memory")
    parser.add_argument("--memory", action="store_true", help="only memory, with large blocks")
    parser.add_argument("--block-mib", type=float, default=64.0)
    parser.add_argument(
        "--scale", type=float, default=1.0, help="times as many points or non-zeros"
    )
    parser.add_argument("--records", type=Path, help="add a line of JSON for each")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in PROBLEMS if options.only is None else [options.only]:
        if options.memory:
            memory(name, options.blocks or 4, options.block_mib)
            continue
        runs = measure(name, options.blocks or 8, options.repeat, options.scale)
        report(*runs)
        if options.records is not None:
            with open(options.records, "a", encoding="utf-8") as file:
                file.writelines(json.dumps(run) + "\n" for run in runs)


if __name__ == "__main__":
    main()
