"""Measure the paper's Table 2, or study our own recipe. Runs that are already recorded are not
repeated, so that the same command continues after an interruption.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.paper.methods import PROTOCOLS
from benchmarks.paper.records import Record, read
from benchmarks.paper.runs import run
from benchmarks.paper.studies import STUDIES, draw
from conecollapse import ConeCollapseError, DatasetNotFoundError
from conecollapse.datasets import list_datasets, load

QUICK = ("DIGITS", "AMLALL", "KHAN", "DUKE")


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description=__doc__)
    add = parser.add_argument
    add("names", nargs="*", help="datasets; by default all that are on this machine")
    add("--out", type=Path, default=Path("reproduced"), help="folder of the records")
    add("--study", choices=STUDIES, default="scoreboard", help="scoreboard: the paper's Table 2")
    add("--protocol", action="append", choices=PROTOCOLS, help="of the scoreboard; default: all")
    add("--seeds", type=int, default=10, help="runs of each method on each dataset")
    add("--jobs", type=int, default=os.cpu_count() or 1, help="number of processes")
    add("--quick", action="store_true", help="small datasets, three seeds: about two minutes")
    add("--redraw", action="store_true", help="print the table of the records, and run nothing")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    parser = make_parser()
    options = parser.parse_args(arguments)
    path = options.out / f"{options.study}.jsonl"
    try:
        options.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"cannot write to {options.out}: {error.strerror}")
    try:
        if not options.redraw:
            run_missing(path, options)
    except ConeCollapseError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        sys.exit(f"interrupted; {path} has the runs that ended, and the same command continues.")
    if not read(path):
        parser.error(f"{path} has no records; leave out --redraw.")
    print(draw(options.study, options.out))


def run_missing(path: Path, options: argparse.Namespace) -> None:
    """Run what is not recorded yet, on the datasets that are named, or on all that are here."""
    names = options.names or (QUICK if options.quick else list_datasets())
    methods = STUDIES[options.study]
    run(
        available(names, must_exist=bool(options.names)),
        path,
        seeds=range(3 if options.quick else options.seeds),
        protocols=options.protocol or dict.fromkeys(method.protocol for method in methods),
        methods=methods,
        jobs=options.jobs,
        report=report,
    )


def report(record: Record, count: int, total: int) -> None:
    run_of = f"{record.dataset} {record.protocol} {record.method} seed {record.seed}"
    result = f"purity {record.purity:.3f} in {record.seconds:.1f} s"
    print(f"{count}/{total} {run_of}: {result}", file=sys.stderr)


def available(names: Sequence[str], *, must_exist: bool) -> list[str]:
    """Those of the datasets that are on this machine, smallest first."""
    datasets = []
    for name in names:
        try:
            datasets.append(load(name, download=False))
        except DatasetNotFoundError:
            if must_exist:
                raise
    return [dataset.name for dataset in sorted(datasets, key=lambda dataset: dataset.X.size)]


if __name__ == "__main__":
    main()
