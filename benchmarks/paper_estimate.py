"""The paper calculation: a Zipf corpus of 10^9 non-zeros on 100 workers, from counted tasks and
measured costs of one non-zero.

The cost of each step is that of the tasks of one Dask worker with a corpus that is too large to be
copied to every worker (`workers.py --only zipf --scale 2 --records`), the growth of the tiles with
the number of blocks that of the series "blocks" (`scaling.py`). Counts of tasks follow from the
method. Nothing is run here.

python benchmarks/paper_estimate.py --workers workers.jsonl [--scaling docs/results/scaling.jsonl]
[--non-zeros 1e9] [--n-workers 100]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

ENTRIES = 3_000_000  # of the corpus that workers.py measures, at scale 1
TASK = 0.006  # seconds of processor time that Dask needs for a task, half of it in the scheduler
NETWORK = 1.25e9  # bytes in a second: 10 Gbit
BYTES = 12  # of a non-zero: its value and its place
# rounds of a word of nearly every document: four sweeps, and one in which coefficients are raised
TRAVEL = 5


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def growth(records: list[dict]) -> float:
    """Nanoseconds for each non-zero and block, from the time of 1 million non-zeros in 2 to 32
    blocks."""
    some = [record for record in records if record["series"] == "blocks"]
    return (
        1e9
        * float(
            np.polyfit([record["x"] for record in some], [record["seconds"] for record in some], 1)[
                0
            ]
        )
        / 1e6
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--workers", type=Path, required=True, help="records of benchmarks/workers.py"
    )
    parser.add_argument(
        "--scaling",
        type=Path,
        default=Path("docs/results/scaling.jsonl"),
        help="records of benchmarks/scaling.py",
    )
    parser.add_argument("--non-zeros", type=float, default=1e9)
    parser.add_argument("--n-workers", type=int, default=100)
    options = parser.parse_args()
    run = [
        record
        for record in read(options.workers)
        if record["problem"] == "zipf" and record["n"] == 1 and "points" in record["stages"]
    ][-1]
    # ns for a non-zero
    cost = {
        stage: 1e9 * seconds / (ENTRIES * run["scale"])
        for stage, (_, seconds) in run["stages"].items()
    }
    blocks = workers = options.n_workers
    # blocks of that run, from its pairs
    pieces = (np.sqrt(8 * run["stages"]["tiles"][0] + 1) - 1) / 2
    slope = growth(read(options.scaling))
    tiles = cost["tiles"] + slope * (blocks - pieces)
    others = sum(cost.get(stage, 0.0) for stage in ("contained", "lifts", "look"))
    rounds = cost.get("rounds", 0.0)
    pairs = blocks * (blocks + 1) // 2
    tasks = 2 * blocks + pairs + TRAVEL * blocks // 2 + 4 * blocks
    moved = pairs * options.non_zeros / blocks * BYTES

    def row(step: str, count: str, nanoseconds: float) -> str:
        total = nanoseconds * options.non_zeros / 1e9
        return (
            f"| {step} | {count} | {nanoseconds:.0f} ns x {options.non_zeros:.0e} = {total:.0f} s |"
            f" {total / workers:.1f} s |"
        )

    print(
        "| step | tasks | processor time of all | one of the workers |\n| --- | --- | --- | --- |"
    )
    print(row("measure, points", f"2 x {blocks}", cost["measure"] + cost["points"]))
    print(row("tiles", f"{blocks} x {blocks + 1} / 2 = {pairs}", tiles))
    print(row("contained points, lifts, looks", f"4 x {blocks}", others))
    total = rounds * options.non_zeros / 1e9
    chain = f"{TRAVEL} x {blocks}, two blocks in a task"
    print(
        f"| a word of nearly every document | {chain} | {total:.0f} s, one after the other |"
        f" {total:.0f} s |"
    )
    print(
        f"| Dask | about {tasks} | {1000 * TASK:.0f} ms each | scheduler:"
        f" {tasks * TASK / 2:.0f} s |"
    )
    print(
        f"| data moved | a tile needs another block | {moved / 1e9:.0f} GB |"
        f" {moved / workers / NETWORK:.0f} s at 10 Gbit/s |"
    )
    print(
        "| memory | two other blocks and unit points | |"
        f" {3 * options.non_zeros / blocks * BYTES / 1e9:.1f} GB beside its own block |"
    )
    print(
        f"\ntiles: {cost['tiles']:.0f} ns for a non-zero in {pieces:.0f} blocks, and {slope:.1f} ns"
        " more for each block"
    )


if __name__ == "__main__":
    main()
