"""Exact cone and clusters of a table that is read from disk in blocks: time, and peak memory above
the start.

Makes a seeded .npy file with planted clusters in a temporary folder, then works on it in a fresh
process.

python benchmarks/memory_stream.py [--samples 1000000] [--features 500] [--rank 8] [--n-init 1]
[--verify]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from common import machine
from numpy.lib.format import open_memmap

CHUNK = 20_000


def make_file(path: Path, n_samples: int, n_features: int, rank: int, seed: int = 0) -> None:
    """Float32 samples around ``rank`` profiles, with gamma noise; a tenth of the features are
    combinations of two others."""
    rng = np.random.default_rng(seed)
    profiles = rng.gamma(0.3, size=(rank, n_features))
    planted = n_features - n_features // 10
    first, second = rng.integers(planted, size=(2, n_features - planted))
    X = open_memmap(path, mode="w+", dtype=np.float32, shape=(n_samples, n_features))
    truth = rng.integers(rank, size=n_samples)
    for a in range(0, n_samples, CHUNK):
        labels = truth[a : a + CHUNK]
        block = profiles[labels] * rng.gamma(2.0, size=(len(labels), 1)) + rng.gamma(
            0.2, size=(len(labels), n_features)
        )
        block[:, planted:] = block[:, first] + block[:, second]
        X[a : a + CHUNK] = block
    X.flush()
    np.save(path.with_name("truth.npy"), truth)


def peak_gib() -> float:
    """Largest resident memory since this program was loaded; ru_maxrss would inherit that of the
    process which started it."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 2**20


def work(path: Path, rank: int, n_init: int, verify: bool) -> None:
    from conecollapse import CCNMF, Cone
    from conecollapse.io import open_table
    from conecollapse.metrics import purity_score

    table = open_table(path)
    truth = np.load(path.with_name("truth.npy"))
    Cone.from_samples(np.array_split(np.random.default_rng(0).random((400, 30)), 2))  # compile
    print(machine())
    before, start = peak_gib(), time.perf_counter()
    cone = Cone.from_table(table, tol=1e-6)
    what = f"cone of {table.shape[1]} features of {table.shape[0]} samples"
    print(f"{what}: {time.perf_counter() - start:.0f} s, {cone.n_rays} rays", flush=True)
    print(f"peak {peak_gib() - before:.2f} GiB above the start ({before:.2f} GiB)", flush=True)
    start = time.perf_counter()
    model = CCNMF(rank, cone=cone, n_init=n_init, random_state=0).fit(table)
    purity = purity_score(truth, model.labels_)
    print(
        f"clusters: {time.perf_counter() - start:.0f} s, {model.n_iter_} iterations, purity"
        f" {purity:.3f}",
        flush=True,
    )
    print(f"peak {peak_gib() - before:.2f} GiB above the start", flush=True)
    if verify:
        start = time.perf_counter()
        verdict = cone.verify(table)
        print(
            f"verify: {time.perf_counter() - start:.0f} s, peak {peak_gib() - before:.2f} GiB above"
            " the start",
            flush=True,
        )
        print(verdict.sentence("features"), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=500)
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--n-init", type=int, default=1)
    parser.add_argument(
        "--verify", action="store_true", help="check the certificate against the file as well"
    )
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.file is not None:
        work(options.file, options.rank, options.n_init, options.verify)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.npy"
        make_file(path, options.samples, options.features, options.rank)
        print(f"{path.stat().st_size / 2**30:.2f} GiB on disk", flush=True)
        subprocess.run([sys.executable, __file__, *sys.argv[1:], "--file", str(path)], check=True)


if __name__ == "__main__":
    main()
