"""Processor time and peak memory against points, dimension, samples, non-zeros, rays and blocks,
with fitted exponents and a figure.

Each measurement runs in a process of its own with one thread, after a small one that compiles, and
is one line of JSON. With one thread the processor time is the time on an idle machine, also where
the machine is shared. Workers are measured by `benchmarks/workers.py`.

python benchmarks/scaling.py [--quick] [--records docs/results/scaling.jsonl] [--figure
docs/figures/scaling.svg] [--only non-zeros]
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from common import machine
from memory_stream import peak_gib
from sparse_scale import zipf_corpus

SERIES = {  # what is varied, and over what
    "points": ([1000, 2000, 4000, 8000, 16000], "points in dimension 40, nearly all of them rays"),
    "dimension": ([20, 40, 80, 160, 320], "dimension of 2000 points"),
    "rays": ([50, 100, 200, 400, 800], "rays among 3000 points in dimension 30"),
    "samples": (
        [25_000, 50_000, 100_000, 200_000],
        "samples of 100 features, shortened by QR in blocks",
    ),
    "non-zeros": ([300_000, 1_000_000, 3_000_000], "non-zeros of a Zipf corpus: cone in memory"),
    "non-zeros, 8 blocks": (
        [300_000, 1_000_000, 3_000_000],
        "non-zeros of a Zipf corpus: cone of a file in 8 blocks",
    ),
    "non-zeros, merged": (
        [300_000, 1_000_000, 3_000_000],
        "non-zeros of a Zipf corpus: cone merged from a stream of 8 blocks",
    ),
    "blocks": ([2, 4, 8, 16, 32], "blocks of a Zipf corpus of 1 million non-zeros"),
    "points, 8 blocks": (
        [1000, 2000, 4000, 8000, 16000],
        "points in dimension 40, nearly all of them rays: cone of a file in 8 blocks",
    ),
    "non-zeros, stage 2": (
        [300_000, 1_000_000, 3_000_000],
        "non-zeros of a Zipf corpus: 20 clusters, one start",
    ),
}
# seconds after which a measurement is not repeated again; there are two at least, and the shortest
# counts
ENOUGH = 2.0
WORDS, DOCUMENTS = 50, 100  # non-zeros for each word, and for each document


def corpus(n_entries: int) -> sp.csr_array:
    return zipf_corpus(n_entries // WORDS, n_entries // DOCUMENTS, n_entries)[0]


def prepare(series: str, size: int) -> Callable[[], object]:
    """Data of this size, and the work to be timed."""
    from conecollapse import CCNMF, Cone

    rng = np.random.default_rng(0)
    if series in ("points", "dimension", "points, 8 blocks"):
        P = rng.gamma(0.5, size=(2000, size) if series == "dimension" else (size, 40)) + 1e-3
        if series == "points, 8 blocks":
            return lambda: Cone.from_table(in_blocks(np.ascontiguousarray(P.T), 8))
        return lambda: Cone.from_points(P)
    if series == "rays":
        rays = rng.gamma(0.5, size=(size, 30)) + 1e-3
        P = np.vstack([rays, rng.gamma(0.3, size=(3000 - size, size)) @ rays])
        return lambda: Cone.from_points(P)
    if series == "samples":
        X = rng.gamma(0.5, size=(size, 100)).astype(np.float32)
        return lambda: Cone.from_samples(np.array_split(X, max(1, size // 20_000)), 1e-6)
    X = corpus(1_000_000 if series == "blocks" else size)
    if series in ("blocks", "non-zeros, 8 blocks"):
        return lambda: Cone.from_table(in_blocks(X, size if series == "blocks" else 8))
    P = sp.csr_array(X.T)
    if series == "non-zeros":
        return lambda: Cone.from_points(P)
    if series == "non-zeros, merged":
        ends = np.linspace(0, P.shape[0], 9).astype(int)
        return lambda: Cone.from_blocks(P[a:b] for a, b in itertools.pairwise(ends))
    cone = Cone.from_points(P)
    return lambda: CCNMF(20, cone=cone, n_init=1, random_state=0).fit(X)


def in_blocks(X, n_blocks: int):
    """An opened table in blocks of features."""
    from conecollapse.io import open_table
    from conecollapse.tables.blocks import FileTable

    return FileTable(open_table(X), 1, -(-X.shape[1] // n_blocks))


def measure(series: str, size: int, queue) -> None:
    from conecollapse import CCNMF, Cone
    from conecollapse._threads import limit_threads

    warnings.simplefilter("ignore")
    small = np.random.default_rng(1).gamma(0.5, size=(300, 20))
    Cone.from_points(small)  # compile
    Cone.from_points(sp.csr_array(small * (small > 0.8)) + sp.eye_array(300, 20))
    CCNMF(2, n_init=1, random_state=0).fit(corpus(20_000))
    Cone.from_table(in_blocks(np.ascontiguousarray(small.T), 2))
    Cone.from_table(in_blocks(corpus(20_000), 2))
    with limit_threads(1):
        queue.put(timed(series, size, prepare(series, size)))


def timed(series: str, size: int, work: Callable[[], object]) -> dict:
    """Seconds of processor time, and memory in MiB: what data and libraries held at the start, and
    the peak of the work above it."""
    before = forget_peak()
    seconds, spent, runs = np.inf, 0.0, 0
    while spent < ENOUGH or runs < 2:
        start = time.process_time()
        result = work()
        took = time.process_time() - start
        seconds, spent, runs = min(seconds, took), spent + took, runs + 1
    n_rays = getattr(getattr(result, "cone_", result), "n_rays", None)
    numbers = {
        "seconds": round(seconds, 4),
        "held_mib": round(1024 * before),
        "extra_mib": round(1024 * (peak_gib() - before)),
    }
    return {"series": series, "x": size, **numbers, "rays": n_rays}


def forget_peak() -> float:
    """Start a new peak of resident memory from what is held now, which is returned."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak_gib()


def exponent(records: list[dict], key: str = "seconds") -> float:
    """Slope of the least-squares line through the logarithms, over the upper half of the sizes (at
    least three)."""
    kept = records[-max(3, (len(records) + 1) // 2) :]
    return float(np.polyfit(np.log([r["x"] for r in kept]), np.log([r[key] for r in kept]), 1)[0])


def draw(records: list[dict], path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    # the same figure from the same records
    plt.rcParams |= {"svg.hashsalt": "scaling", "svg.fonttype": "none"}
    names = [name for name in SERIES if any(r["series"] == name for r in records)]
    figure, axes = plt.subplots(3, -(-len(names) // 3), figsize=(14, 9), layout="constrained")
    for axis, name in zip(axes.flat, names, strict=False):
        some = [r for r in records if r["series"] == name]
        x = [r["x"] for r in some]
        axis.loglog(x, [r["seconds"] for r in some], "o-", label="seconds")
        axis.loglog(x, [max(r["extra_mib"], 1) for r in some], "s--", label="MiB above the data")
        axis.set_title(f"{name}: exponent {exponent(some):.2f}" if len(some) > 2 else name)
        axis.set_xlabel(SERIES[name][1], fontsize=7)
        axis.legend(fontsize=7)
    for axis in axes.flat[len(names) :]:
        axis.set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="the three smallest sizes of each series"
    )
    parser.add_argument("--records", type=Path, default=Path("scaling.jsonl"))
    parser.add_argument("--figure", type=Path, default=Path("scaling.svg"))
    parser.add_argument("--only", choices=SERIES)
    parser.add_argument("--draw", action="store_true", help="draw and fit what was recorded before")
    options = parser.parse_args()
    if options.draw:
        report(
            [json.loads(line) for line in options.records.read_text(encoding="utf-8").splitlines()],
            options.figure,
        )
        return
    context = multiprocessing.get_context("spawn")
    print(machine(), flush=True)
    records = []
    for series, (sizes, _) in SERIES.items():
        if options.only not in (None, series):
            continue
        for size in sizes[:3] if options.quick else sizes:
            queue = context.Queue()
            process = context.Process(target=measure, args=(series, size, queue))
            process.start()
            records.append(queue.get(timeout=1800))
            process.join()
            print(json.dumps(records[-1]), flush=True)
    if options.only is not None and options.records.is_file():  # the other series stay as they were
        kept = [
            json.loads(line) for line in options.records.read_text(encoding="utf-8").splitlines()
        ]
        records = [record for record in kept if record["series"] != options.only] + records
    options.records.parent.mkdir(parents=True, exist_ok=True)
    options.records.write_text(
        "".join(json.dumps(record) + "\n" for record in records), encoding="utf-8"
    )
    report(records, options.figure)


def report(records: list[dict], figure: Path) -> None:
    """The figure, and a table of exponents."""
    draw(records, figure)
    print("\n| varied | time grows like x to the | at the largest |\n| --- | --- | --- |")
    for series in dict.fromkeys(record["series"] for record in records):
        some = [record for record in records if record["series"] == series]
        grows = f"{exponent(some):.2f}" if len(some) > 2 else "-"
        last = some[-1]
        print(
            f"| {SERIES[series][1]} | {grows} | {last['x']}: {last['seconds']:.2f} s,"
            f" {last['extra_mib']} MiB above the data |"
        )


if __name__ == "__main__":
    main()
