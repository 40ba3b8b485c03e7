"""Do the tests notice when the code is wrong? ``make mutants N=200`` changes one place of the
source at a time and runs its tests.

A mutant is *killed* when a test fails (or runs out of time) and *survives* when all pass. A
survivor is a change that means the same, or a missing test.
``make mutants ONLY=geometry/merging.py:42`` runs every mutant of one line,
``ONLY='geometry/merging.py:42#2'`` one of them.

Lines are drawn evenly over all lines of AREAS that can be changed, then one change of the line.
Each process works in a copy of the repository, so the working tree may be edited meanwhile.

The tests of an area, those of the folders that AREAS names for it, run once without any change
under pytest-cov, which records what executes which lines. A mutant is tried with the tests that
execute its line; where none does (pytest-cov sees neither kernels nor constants) with all of its
area. Short ones come first, and what lies beyond ENOUGH seconds of tests is not tried, though it
might kill the mutant. Only tests that `make test` runs are used.

Time is processor time, so that a busy machine kills no mutant.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from mutant_changes import PACKAGE, Mutant, all_mutants, drawn

ROOT = Path(__file__).resolve().parents[2]
# the folders of the package in which places are changed, and the tests of each
AREAS = {
    "certificates": ["tests/certificates", "tests/geometry"],
    "_nnls": ["tests/nnls"],
    "geometry": ["tests/geometry", "tests/certificates"],
    "io": ["tests/io"],
    "runs": ["tests/runs", "tests/cli"],
}
ENOUGH = 60  # seconds of tests, as they take without a mutant
# a mutant may take this long, compilation included, and this many times what its tests take
SECONDS, TIMES = 120, 5
STILL = 1800  # seconds of the clock: the code waits for something
PYTEST = ("-m", "pytest", "--tb=no", "-p", "no:cacheprovider", "--assert=plain")
# pytest's exit codes where all passed, and where some failed
PASSED, FAILED = 0, 1


class Copy:
    """A copy of the repository in which one file at a time is changed."""

    def __init__(self, source: Path, folder: Path) -> None:
        self.tree = folder / f"copy{os.getpid()}"
        left_out = (".git", ".venv*", "build", ".hypothesis", ".*_cache", "figures", "gallery")
        shutil.copytree(source, self.tree, ignore=shutil.ignore_patterns(*left_out), symlinks=True)

    def run(self, *options: str, seconds: float = resource.RLIM_INFINITY) -> tuple[int | None, str]:
        """Exit code of pytest (None: out of time) and what it printed."""
        environment = os.environ | {
            "PYTHONPATH": str(self.tree / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "CONECOLLAPSE_HYPOTHESIS_PROFILE": "mutants",
            "OPENBLAS_NUM_THREADS": "1",
        }
        limits = (int(seconds),) * 2
        try:
            done = subprocess.run(
                [sys.executable, *PYTEST, "-m", "not full", *options],
                cwd=self.tree,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=None if seconds == resource.RLIM_INFINITY else STILL,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, limits),
            )
        except subprocess.TimeoutExpired:
            return None, ""
        return None if done.returncode < 0 else done.returncode, done.stdout + done.stderr

    def record(self, area: str) -> dict:
        """What the tests of an area take, and which of them execute which lines of it."""
        # not among the oldest dependencies, with which this module is imported by a test
        from coverage import CoverageData

        traced = (f"--cov={PACKAGE / area}", "--cov-context=test", "--cov-report=")
        _, said = self.run("--durations=0", "-vv", *traced, *AREAS[area])
        failed = set(re.findall(r"^FAILED (\S+)", said, re.MULTILINE))
        took = {
            test: float(seconds)
            for seconds, test in re.findall(r"^([\d.]+)s call +(\S+)", said, re.MULTILINE)
        }
        data = CoverageData(str(self.tree / ".coverage"))
        data.read()
        lines = {
            f"{Path(file).relative_to(self.tree / PACKAGE)}:{line}": sorted(
                {context.rpartition("|")[0] for context in contexts} - {""}
            )
            for file in data.measured_files()
            for line, contexts in data.contexts_by_lineno(file).items()
        }
        return {"took": {t: s for t, s in took.items() if t not in failed}, "lines": lines}

    def judge(self, m: Mutant, records: dict) -> tuple[str, str]:
        """Verdict, and the test that failed."""
        tests, seconds = tests_of(m, records)
        path = self.tree / PACKAGE / m.file
        source, kept = path.read_bytes(), path.stat()
        path.write_bytes(m.applied(source))
        try:
            code, said = self.run("-q", "-x", *tests, seconds=SECONDS + TIMES * seconds)
        finally:
            path.write_bytes(source)
            os.utime(path, ns=(kept.st_atime_ns, kept.st_mtime_ns))
        first = re.search(r"^(?:FAILED|ERROR) (\S+)", said, re.MULTILINE)
        verdict = "survived" if code == PASSED else "timeout" if code is None else "killed"
        return verdict, first[1] if first else ""


def tests_of(m: Mutant, records: dict) -> tuple[list[str], float]:
    """The tests that a mutant is tried with, and the seconds that they take."""
    took = records["took"]
    known = [test for test in records["lines"].get(f"{m.file}:{m.line}", ()) if test in took]
    chosen, seconds = [], 0.0
    for test in sorted(known or took, key=took.__getitem__):
        if seconds + took[test] > ENOUGH:
            break
        chosen.append(test)
        seconds += took[test]
    return chosen, seconds


@cache
def copy_of(source: Path, folder: Path) -> Copy:
    """The copy of this process."""
    return Copy(source, folder)


def record(source: Path, folder: Path, area: str) -> None:
    """Write what the tests of an area execute to a file of ``folder``."""
    records = copy_of(source, folder).record(area)
    (folder / f"{area}.json").write_text(json.dumps(records))
    print(f"recorded {len(records['took'])} tests of {area}", flush=True)


def judge(source: Path, folder: Path, m: Mutant) -> str:
    """Try one mutant, and print what became of it."""
    copy = copy_of(source, folder)
    records = json.loads((folder / f"{m.area}.json").read_text())
    verdict, by = copy.judge(m, records)
    diff = m.diff((copy.tree / PACKAGE / m.file).read_bytes())
    print(f"{verdict:8} {m.place}  {diff}" + (f"  [{by}]" if by else ""), flush=True)
    return verdict


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--number", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", metavar="FILE[:LINE[#K]]", help="every mutant of a file or line")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        folder = Path(name)
        pristine = Copy(ROOT, folder).tree
        mutants = all_mutants(pristine, AREAS)
        chosen = (
            [m for m in mutants if options.only in (m.file, f"{m.file}:{m.line}", m.place)]
            if options.only
            else drawn(mutants, options.number, options.seed)
        )
        print(f"mutants: {len(chosen)} of {len(mutants)}, seed {options.seed}", flush=True)
        with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
            areas = sorted({m.area for m in chosen})
            pool.starmap(record, [(pristine, folder, area) for area in areas], 1)
            verdicts = pool.starmap(judge, [(pristine, folder, m) for m in chosen], 1)
    survived = verdicts.count("survived")
    print(
        f"mutants: {len(verdicts)}, survived {survived}, timeout {verdicts.count('timeout')}, seed"
        f" {options.seed}, {1 - survived / max(len(verdicts), 1):.1%} killed"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
