"""Do the tests notice when the code is wrong? ``make mutants N=200`` changes one place of the
source at a time and runs its tests.

A mutant is *killed* when a test fails (or runs out of time) and *survives* when all pass. A
survivor is a change that means the same, or a missing test.
``make mutants ONLY=geometry/merging.py:42`` runs every mutant of one line,
``ONLY='geometry/merging.py:42#2'`` one of them.

Lines are drawn evenly over all lines of AREAS that can be changed, then one change of the line. One
copy of the repository is made at the start, and everything is taken from it: the working tree is
never touched, and may be edited meanwhile. Each process runs the tests in a copy of that copy.

What makes it fast (each test run is a fork of a process that has imported the large libraries):

- a change is tried only with the tests that execute it, the short ones first, until one fails. A
  run of each file of tests without any change, made when a mutant first needs it, records with
  pytest-cov which test executes which lines (`Records`);
- pytest-cov does not see kernels. A kernel, a constant of a module and a default are tried with the
  tests of the lines that use them (`Uses`);
- only the kernels that a change can reach are compiled anew;
- the package, the tests and the compiled kernels are loaded before the process is forked, and the
  fork gives the changed function its new code (`Loaded`). A test that kills a mutant there must
  pass there without it. Only what runs at import is loaded anew;
- a mutant that has outlived ENOUGH seconds of tests counts as survived, though a later test might
  kill it.

Time is processor time, so that a busy machine kills no mutant.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
from pathlib import Path

from kernel_caches import PACKAGE
from mutant_changes import AREAS, Mutant, all_mutants, drawn
from mutant_runs import Copy, Loaded, copied, prepare
from mutant_tests import A_LOOK, Records

ROOT = Path(__file__).resolve().parents[2]


class Judge:
    """Judges mutants in a copy of its own; each process has one."""

    def __init__(self, pristine: Path, records: Path, quick: bool) -> None:
        self.records, self.quick = Records(pristine, records), quick
        self.copy = Copy(copied(pristine, pristine.with_name(f"copy{os.getpid()}")), pristine)
        self.copy.loaded = Loaded(self.copy)

    def __call__(self, m: Mutant) -> str:
        verdict, by = self.copy.judge(m, self.records, quick=self.quick)
        source = (self.records.pristine / PACKAGE / m.file).read_bytes()
        print(f"{verdict:8} {m.place}  {m.diff(source)}" + (f"  [{by}]" if by else ""), flush=True)
        return verdict


judges: list[Judge] = []


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--number", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--skip",
        type=int,
        default=0,
        help="leave out the first ones that are drawn, to go on with an interrupted run",
    )
    parser.add_argument(
        "--within",
        metavar="PATH",
        action="append",
        help="draw from these folders and files of the package only",
    )
    parser.add_argument(
        "--only",
        metavar="FILE[:LINE[#K]]",
        help="every mutant of a file, of a line, or the one that was printed so",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"a first look: {A_LOOK} seconds of quick tests; try survivors without it",
    )
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument(
        "--records",
        type=Path,
        metavar="FOLDER",
        help="keep there which tests execute which lines, for another run",
    )
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        pristine = copied(ROOT, Path(folder, "pristine"))
        mutants = [
            m
            for m in all_mutants(pristine)
            if any(is_within(m.file, path) for path in options.within or AREAS)
        ]
        if options.only:
            chosen = [m for m in mutants if options.only in (m.file, f"{m.file}:{m.line}", m.place)]
        else:
            chosen = drawn(mutants, options.number, options.seed)[options.skip :]
        print(f"mutants: {len(chosen)} of {len(mutants)}, seed {options.seed}", flush=True)
        if options.list:
            for m in chosen:
                print(f"{m.place}  {m.diff((pristine / PACKAGE / m.file).read_bytes())}")
            return 0
        prepare()
        records = options.records or Path(folder, "records")
        records.mkdir(parents=True, exist_ok=True)
        judge = (pristine, records.resolve(), options.quick)
        with multiprocessing.get_context("fork").Pool(
            options.jobs, lambda: judges.append(Judge(*judge))
        ) as pool:
            verdicts = list(pool.imap(judged, chosen))
    survived = verdicts.count("survived")
    print(
        f"mutants: {len(verdicts)}, survived {survived}, timeout {verdicts.count('timeout')}, seed"
        f" {options.seed}",
        end=", ",
    )
    print(f"{1 - survived / max(len(verdicts), 1):.1%} killed")
    return 0


def judged(m: Mutant) -> str:
    return judges[0](m)


def is_within(file: str, path: str) -> bool:
    return file == path or file.startswith(f"{path}/")


if __name__ == "__main__":
    sys.exit(main())
