"""What a sample of rays costs beside one product of the points with a matrix of as many columns,
read in the same way, and how much memory it takes.

python benchmarks/bench_sample.py [rows]
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from common import machine

from conecollapse import Cone
from conecollapse.io import open_table
from conecollapse.tables import as_blocked

DIM, FUNCTIONALS = 500, 1024
MIB = 2**20


def anonymous() -> int:
    """Bytes of this process that belong to no file."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith("RssAnon"))


def measured(work: object) -> tuple[float, int]:
    """Processor time, and the most memory that is taken meanwhile."""
    before, peak, done = anonymous(), [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            peak[0] = max(peak[0], anonymous() - before)

    watcher = threading.Thread(target=watch)
    watcher.start()
    begin = time.process_time()
    work()  # type: ignore[operator]
    seconds = time.process_time() - begin
    done.set()
    watcher.join()
    return seconds, peak[0]


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 10**6
    rng = np.random.default_rng(0)
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "points.npy"
        P = np.lib.format.open_memmap(path, "w+", np.float32, (n, DIM))
        for a in range(0, n, 10**4):
            P[a : a + 10**4] = rng.random((min(10**4, n - a), DIM), np.float32)
        P.flush()
        del P
        B = rng.standard_normal((DIM, FUNCTIONALS)).astype(np.float32)
        table = as_blocked(open_table(path))
        assert table is not None
        block = max(part.nbytes for part in table.blocks())

        def multiply() -> None:
            for part in table.blocks():
                for a in range(0, len(part), 2048):
                    part[a : a + 2048] @ B

        def sample() -> None:
            Cone.sample(open_table(path), FUNCTIONALS, random_state=0)

        multiply()
        runs = [(measured(multiply), measured(sample)) for _ in range(3)]
        product, sampling = (min(run[k][0] for run in runs) for k in (0, 1))
        peak = max(run[1][1] for run in runs)
        print(f"{n} x {DIM} float32 on disk, {FUNCTIONALS} functionals, processor time")
        print(f"  one product, read in blocks:  {product:8.2f} s")
        print(f"  Cone.sample:                  {sampling:8.2f} s, {sampling / product:.2f} times")
        print(
            f"  memory: {peak / MIB:.0f} MiB; three blocks and 64 MiB are"
            f" {3 * block / MIB + 64:.0f} MiB"
        )


if __name__ == "__main__":
    main()
