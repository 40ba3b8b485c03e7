"""Do the tests notice when the code is wrong? ``make mutants N=200`` changes one place of the source at a time and runs its tests.

A mutant is *killed* when a test fails (or runs out of time) and *survives* when all pass. A survivor is a change that means the same, or a
missing test. ``make mutants ONLY=geometry/merging.py:42`` runs every mutant of one line, ``ONLY='geometry/merging.py:42#2'`` one of them.

Lines are drawn evenly over all lines of AREAS that can be changed, then one change of the line. One copy of the repository is made at
the start, and everything is taken from it: the working tree is never touched, and may be edited meanwhile. Each process runs the tests in
a copy of that copy, the quick ones first. Kernels are compiled anew only where a change can reach them.

A first run without any change records, with pytest-cov, which tests execute which lines. A change is then tried with the tests that
execute it. Lines of kernels, which it does not see, and lines that run at import are tried with all tests of their file (TESTS).

Some changes mean the same in correct code, or only word a message, and are never made:

- sizes: whole numbers of at least 16 in assignments at module level (`is_size`). They bound memory, are limits for which the next number
  would do as well, or choose between ways to the same result;
- arguments and conditions that decide only about speed or checks: SPEED_AND_CHECKS, and conditions of a ``with`` that may be a
  ``nullcontext``;
- texts, annotations, decorators, ``__repr__``, and the choice between two texts of which one is an f-string.
"""

from __future__ import annotations

import argparse
import ast
import os
import queue
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from kernel_caches import PACKAGE, caches, reached_kernels

ROOT = Path(__file__).resolve().parents[1]
AREAS = ("certificates", "_nnls", "geometry", "io", "runs")
# Which tests are about which file: the longest prefix counts. Patterns of files, or one test; fast and telling ones first.
TESTS = {
    "certificates": ["test_certificate*", "test_open*", "test_exact*", "test_streaming*", "test_merge*", "test_epsilon*", "test_cone*"],
    "_nnls": ["test_nnls*", "test_exact*", "test_collapse*"],
    "_nnls/active_set.py": ["test_nnls*", "test_exact*", "test_collapse*", "test_cone*"],
    "_nnls/gram.py": ["test_factorizations*"],
    "_nnls/nearest.py": ["test_hull*", "test_novelty*"],
    "_nnls/stepwise.py": ["test_catalogue*"],
    "_nnls/slots.py": ["test_nnls*", "test_exact*", "test_collapse*", "test_cone*"],
    "geometry": ["test_exact*", "test_merge*", "test_cone*", "test_streaming*", "test_bad_input*", "test_limits*"],
    "geometry/blockwise": ["test_blockwise*", "test_streaming*", "test_dask*"],
    "geometry/certified": ["test_cone_*", "test_open*", "test_certificate_*", "test_exact*", "test_cone*", "test_merge*"],
    "geometry/certified/sweeps.py": ["test_cone_*", "test_cone.py::test_words_that_every_document_has_are_decided_by_sweeps"],
    "geometry/collapse.py": ["test_collapse*", "test_exact*"],
    "geometry/cone.py": [
        *("test_exact*", "test_merge*", "test_cone*", "test_streaming*", "test_bad_input*", "test_limits*"),
        "test_certificates*",
        "test_open*",
        "test_dask.py::test_cones_and_selectors_of_dask_arrays",
    ],
    "geometry/cone_file.py": ["test_merge*", "test_certificate*", "test_streaming*"],
    "geometry/epsilon.py": ["test_epsilon*", "test_bad_input*", "test_cone*", "test_merge*"],
    "geometry/hull.py": ["test_hull*"],
    "geometry/invertible.py": ["test_estimators.py::test_diffusion_of_many_samples_is_applied_and_never_formed"],
    "geometry/merging.py": ["test_merge*", "test_open*", "test_exact*", "test_streaming*"],
    "geometry/nearest.py": ["test_novelty*"],
    "geometry/parts.py": ["test_streaming*", "test_merge*", "test_estimators.py::test_partial_fit_gives_the_rays_of_the_whole"],
    "geometry/recovery.py": ["test_epsilon*"],
    "geometry/scaling.py": ["test_limits*", "test_mixtures*", "test_hull*", "test_cone*"],
    "geometry/separable_bound.py": ["test_mixtures*"],
    "geometry/snpa.py": ["test_mixtures*"],
    "geometry/spa.py": ["test_epsilon*", "test_bad_input*", "test_mixtures*"],
    "geometry/streaming.py": ["test_streaming*", "test_exact*", "test_dask*"],
    "geometry/subspace.py": ["test_mixtures*"],
    "geometry/tall.py": ["test_streaming*", "test_exact*", "test_limits*", "test_dask*"],
    "geometry/vca.py": ["test_mixtures*"],
    "geometry/xray.py": ["test_epsilon*", "test_bad_input*", "test_mixtures*"],
    "io": ["test_io*", "test_layout*", "test_hostile*", "test_bad_input*", "test_runs*"],
    "io/cube.py": ["test_unmix*", "test_io*"],
    "io/plain.py": ["test_io*", "test_runs*", "test_cli*"],
    "runs": ["test_runs*", "test_open*", "test_killed*", "test_cli*"],
    "runs/comparing.py": ["test_compare*"],
    "runs/novelty.py": ["test_novelty*", "test_runs*"],
    "runs/unmixing.py": ["test_unmix*", "test_runs*"],
    "runs/verifying.py": ["test_runs*", "test_open*", "test_unmix*", "test_novelty*", "test_cli*"],
}
LEFT_OUT = ["test_words_that_every_document_has_are_decided_by_sweeps", "screenshot"]  # slow; the first runs where TESTS names it
SECONDS, TIMES = 90, 4  # a mutant's tests may take this long, and this many times what they take without it
STILL = 300  # seconds without a test that ends, compilation included: the code is in a loop
NOT_FOUND, NO_TESTS = 4, 5  # pytest's exit codes where a test is not there, and where nothing was selected
MEMORY = 16 * 2**30  # bytes of address space: a mutant that asks for more fails instead of filling the machine

COMPARISONS = {
    ast.Lt: ("<", ">="), ast.LtE: ("<=", ">"), ast.Gt: (">", "<="), ast.GtE: (">=", "<"), ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"),
}  # fmt: skip
BOUNDARIES = {ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">")}
OPERATORS = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"), ast.FloorDiv: ("//", "*"), ast.Mod: ("%", "//"),
    ast.Pow: ("**", "*"), ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"), ast.BitXor: ("^", "&"), ast.LShift: ("<<", ">>"),
}  # fmt: skip
SPEED_AND_CHECKS = ("check_finite", "copy", "smallest", "stacklevel", "strict")  # arguments that change no result of correct code
SIZE = 16  # from here on a whole number at module level is a size
SMALL, FAR = 1e-3, 1e6  # a tolerance is made this many times larger: twice as large is still one
NAMES = {"min": "max", "minimum": "maximum", "argmin": "argmax", "any": "all", "floor": "ceil"}
NAMES |= {other: name for name, other in NAMES.items()}


@dataclass(frozen=True)
class Mutant:
    """The bytes ``start:stop`` of a file replaced; ``place`` names it for ``--only``."""

    file: str  # below the package
    line: int
    start: int
    stop: int
    new: bytes
    number: int = 0  # among the mutants of its line

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}#{self.number}"

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.new + source[self.stop :]

    def diff(self, source: bytes) -> str:
        """The lines it touches, before and after, in one line."""
        first = source.rfind(b"\n", 0, self.start) + 1
        last = source.find(b"\n", self.stop)
        before, after = source[first:last], source[first : self.start] + self.new + source[self.stop : last]
        return " -> ".join(re.sub(r"\s+", " ", text.decode()).strip() for text in (before, after))


class Finder(ast.NodeVisitor):
    """Every change of one file, but for those that the text of this module leaves out."""

    def __init__(self, file: str, source: bytes) -> None:
        self.file, self.source = file, source
        lines = source.splitlines(keepends=True)
        self.starts = [0]
        for line in lines:
            self.starts.append(self.starts[-1] + len(line))
        self.found: list[Mutant] = []

    def mutants(self) -> list[Mutant]:
        self.visit(ast.parse(self.source))
        count: dict[int, int] = defaultdict(int)
        numbered = []
        for m in sorted(set(self.found), key=lambda m: (m.start, m.stop, m.new)):
            numbered.append(replace(m, number=count[m.line]))
            count[m.line] += 1
        return numbered

    def span(self, node: ast.AST) -> tuple[int, int]:
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[node.end_lineno - 1] + node.end_col_offset

    def change(self, start: int, stop: int, new: str) -> None:
        self.found.append(Mutant(self.file, self.source.count(b"\n", 0, start) + 1, start, stop, new.encode()))

    def replace(self, node: ast.AST, new: str) -> None:
        self.change(*self.span(node), new)

    def operator(self, left: ast.AST, right: ast.AST, old: str, new: str) -> None:
        """Exchange the operator between two nodes."""
        start, stop = self.span(left)[1], self.span(right)[0]
        pattern = (
            rb"(?<!\w)" + re.escape(old.encode()).replace(rb"\ ", rb"\s+") + rb"(?!\w)" if old[0].isalpha() else re.escape(old.encode())
        )
        at = re.search(pattern, self.source[start:stop])
        if at:
            self.change(start + at.start(), start + at.end(), new)

    def text(self, node: ast.AST) -> str:
        start, stop = self.span(node)
        return self.source[start:stop].decode()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name == "__repr__":
            return
        for default in [*node.args.defaults, *filter(None, node.args.kw_defaults)]:
            self.visit(default)
        for statement in node.body:
            self.visit(statement)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for statement in node.body:
            self.visit(statement)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value:
            self.visit(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Text for readers."""

    def visit_Raise(self, node: ast.Raise) -> None:
        self.replace(node, "pass")

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self.replace(node, "pass")
            self.visit(node.value)
        elif isinstance(node.value, (ast.Yield, ast.YieldFrom)):
            self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value:
            if not (isinstance(node.value, ast.Constant) and node.value.value in (None, False)):
                self.replace(node.value, "None")
            self.visit(node.value)

    def visit_Continue(self, node: ast.Continue) -> None:
        self.replace(node, "break")

    def visit_Break(self, node: ast.Break) -> None:
        self.replace(node, "continue")

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.replace(node, "pass")
        if type(node.op) in OPERATORS:
            old, new = OPERATORS[type(node.op)]
            self.operator(node.target, node.value, old, new)
        self.visit(node.value)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in OPERATORS and not is_text(node.left) and not is_text(node.right):
            self.operator(node.left, node.right, *OPERATORS[type(node.op)])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.operator(left, right, old, new)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        for left, op, right in zip(sides, node.ops, sides[1:], strict=False):
            self.operator(left, right, *COMPARISONS[type(op)])
            if type(op) in BOUNDARIES and (is_whole(left) or is_whole(right)):
                self.operator(left, right, *BOUNDARIES[type(op)])
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        self.replace(node, f"({self.text(node.operand)})")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func
        if isinstance(name, ast.Name) and name.id in NAMES:
            self.replace(name, NAMES[name.id])
        elif isinstance(name, ast.Attribute) and name.attr in NAMES:
            stop = self.span(name)[1]
            self.change(stop - len(name.attr), stop, NAMES[name.attr])
        self.visit(name)
        for argument in [*node.args, *(k.value for k in node.keywords if k.arg not in SPEED_AND_CHECKS)]:
            self.visit(argument)

    def visit_Slice(self, node: ast.Slice) -> None:
        for bound, shift in ((node.lower, "+ 1"), (node.upper, "- 1")):
            if bound is not None and not isinstance(bound, (ast.Constant, ast.UnaryOp)):
                self.replace(bound, f"({self.text(bound)}) {shift}")
        self.generic_visit(node)

    def visit_With(self, node: ast.With) -> None:
        for item in node.items:
            if not (isinstance(item.context_expr, ast.IfExp) and "nullcontext()" in self.text(item.context_expr)):
                self.visit(item.context_expr)
        for statement in node.body:
            self.visit(statement)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        branches = (node.body, node.orelse)
        if all(map(is_text, branches)) and any(isinstance(branch, ast.JoinedStr) for branch in branches):
            return
        self.replace(node.test, f"not ({self.text(node.test)})")
        self.generic_visit(node)

    def visit_If(self, node: ast.If | ast.While) -> None:
        if isinstance(node.test, (ast.Name, ast.Call, ast.Attribute)):
            self.replace(node.test, f"not {self.text(node.test)}")
        self.generic_visit(node)

    visit_While = visit_If

    def visit_Assign(self, node: ast.Assign) -> None:
        for value in node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]:
            if not (node.col_offset == 0 and is_size(value)):
                self.visit(value)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self.replace(node, str(not value))
        elif isinstance(value, int):
            self.replace(node, str(0 if value == 1 else value + 1))
        elif isinstance(value, float):
            self.replace(node, repr(value * (FAR if value < SMALL else 2) if value else 1.0))


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def is_size(node: ast.expr) -> bool:
    """Whether an expression is made of whole numbers alone, and its value at least SIZE: ``1024``, ``200 * 2**20``."""
    for part in ast.walk(node):
        if (
            isinstance(part, ast.expr)
            and not isinstance(part, ast.BinOp)
            and not (isinstance(part, ast.Constant) and type(part.value) is int)
        ):
            return False
    return eval(compile(ast.Expression(node), "size", "eval")) >= SIZE


def is_whole(node: ast.AST) -> bool:
    """Whether a side of a comparison is plainly a whole number: among floats, equality hardly ever decides."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "len"
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
    if isinstance(node, ast.Attribute):
        return node.attr in ("size", "ndim", "nnz")
    return isinstance(node, ast.Constant) and type(node.value) is int


def all_mutants(tree: Path) -> list[Mutant]:
    package = tree / PACKAGE
    files = sorted(path for area in AREAS for path in (package / area).rglob("*.py"))
    return [m for path in files for m in Finder(path.relative_to(package).as_posix(), path.read_bytes()).mutants()]


def drawn(mutants: list[Mutant], number: int, seed: int) -> list[Mutant]:
    lines = defaultdict(list)
    for m in mutants:
        lines[m.file, m.line].append(m)
    dice = random.Random(seed)
    return [dice.choice(lines[line]) for line in dice.sample(sorted(lines), min(number, len(lines)))]


def checks_of(tree: Path, file: str) -> list[str]:
    """The doctests of the file and what TESTS says, in order, without repetition."""
    best = max((prefix for prefix in TESTS if file == prefix or file.startswith(f"{prefix}/")), key=len)
    chosen = [str(PACKAGE / file)] if b">>>" in (tree / PACKAGE / file).read_bytes() else []
    for pattern in TESTS[best]:
        if "::" in pattern:
            chosen.append(f"tests/{pattern}")
        else:
            chosen += [f"tests/{path.name}" for path in sorted((tree / "tests").glob(f"{pattern}.py"))]
    return list(dict.fromkeys(chosen))


class Copy:
    """A copy of the repository in which one file at a time is changed."""

    def __init__(self, tree: Path, pristine: Path) -> None:
        self.tree, self.pristine = tree, pristine

    def run(self, tests: list[str], tier: str, seconds: float, record: Path | None = None) -> tuple[int | None, str]:
        """Exit code (None: out of time) and the test that failed. ``tier`` is an expression of marks, as for pytest's ``-m``.

        With ``record``, a file there says afterwards which test executed which lines.
        """
        left_out = " and ".join(f"not {name}" for name in LEFT_OUT if not any(name in test for test in tests))
        traced = [f"--cov={PACKAGE}", "--cov-context=test", "--cov-report="] if record else ["-p", "no:cov", "-x"]
        options = ["-q", "--tb=no", "-p", "no:cacheprovider", "-k", left_out, "-m", tier, *traced]
        command = [sys.executable, "-m", "pytest", *options, *tests]
        environment = {k: v for k, v in os.environ.items() if k not in ("CONECOLLAPSE_DATA", "NUMBA_CACHE_DIR")}
        environment |= {
            "PYTHONPATH": str(self.tree / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "CONECOLLAPSE_HYPOTHESIS_PROFILE": "mutants",
            "OPENBLAS_NUM_THREADS": "1",
            "TMPDIR": str(self.tree),
            "COVERAGE_FILE": str(record),
        }
        with tempfile.TemporaryFile(dir=self.tree) as log:
            process = subprocess.Popen(
                command, cwd=self.tree, env=environment, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                start_new_session=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
            )  # fmt: skip
            begun = moved = time.monotonic()
            size = 0
            while process.poll() is None:
                time.sleep(0.1)
                now, written = time.monotonic(), os.fstat(log.fileno()).st_size
                size, moved = written, now if written > size else moved
                if now - begun > seconds or now - moved > STILL:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                    return None, ""
            log.seek(0)
            output = log.read().decode(errors="replace")
        failed = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
        if process.returncode == NOT_FOUND:
            raise SystemExit(f"mutants: pytest could not be called: {output.strip()[-500:]}")
        code = 0 if process.returncode == NO_TESTS else process.returncode
        return code, failed.group(1) if failed else output.strip()[-200:]

    def judge(self, m: Mutant, tests: list[str], seconds: float) -> tuple[str, str]:
        path = self.tree / PACKAGE / m.file
        source, stamp = path.read_bytes(), path.stat()
        kernels = reached_kernels(self.pristine, m.file)
        try:
            path.write_bytes(m.applied(source))
            # as old as the original: otherwise the tests' set-up drops every kernel
            os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
            for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.cpython-*.pyc"):
                compiled.unlink()
            self.drop(kernels)
            for tier in ("not slow", "slow"):
                code, failed = self.run(tests, tier, seconds)
                if code != 0:
                    break
        finally:
            path.write_bytes(source)
            os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
            self.restore(kernels)
        return {0: "survived", None: "timeout"}.get(code, "killed"), failed if code else ""

    def drop(self, kernels: Iterable[str]) -> None:
        for file in caches(self.tree, kernels):
            file.unlink()

    def restore(self, kernels: Iterable[str]) -> None:
        self.drop(kernels)
        for file in caches(self.pristine, kernels):
            shutil.copy2(file, self.tree / file.relative_to(self.pristine))


def copied(source: Path, target: Path) -> Path:
    ignored = shutil.ignore_patterns(".git", ".venv", "build", ".hypothesis", ".*_cache", "figures", "gallery")
    shutil.copytree(source, target, ignore=ignored, symlinks=True)
    return target


class Coverage:
    """Which tests execute which lines, as recorded in the files of a folder, one for each file of tests."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self.tree, self.folder = tree, folder
        self.took: dict[str, float] = {}
        self.tests_of: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))

    def record(self, copy: Copy, tests: list[str], jobs: int) -> None:
        """Run each file of tests without a mutant, which also compiles the kernels. They must pass."""

        def recorded(test: str) -> Path:
            data = self.folder / re.sub(r"\W", "-", test)
            seconds = data.with_suffix(".seconds")
            if seconds.is_file():  # by an earlier run of the same version
                return data
            begin = time.monotonic()
            code, failed = copy.run([test], "slow or not slow", 3600, data)
            if code != 0:  # tests that measure memory see that of the recording
                code, failed = copy.run([test], "slow or not slow", 3600)
            if code != 0:
                raise SystemExit(f"mutants: {test} fails without any mutant: {failed}")
            seconds.write_text(str(time.monotonic() - begin))
            return data

        with ThreadPoolExecutor(jobs) as pool:
            for test, data in zip(tests, pool.map(recorded, tests), strict=True):
                self.took[test] = float(data.with_suffix(".seconds").read_text())
                if data.is_file():
                    self.add(data)

    def add(self, record: Path) -> None:
        """Contexts are tests, as pytest-cov names them: ``tests/test_a.py::test_b[1]|run``."""
        from coverage import CoverageData  # not among the oldest dependencies, with which this module is imported by a test

        data = CoverageData(str(record))
        data.read()
        for path in data.measured_files():
            lines = self.tests_of[path.split(f"/{PACKAGE}/")[-1]]
            for line, contexts in data.contexts_by_lineno(path).items():
                lines[line] |= {re.split(r"[\[|]", context)[0] for context in contexts if context.startswith("tests/")}

    def tests(self, m: Mutant) -> list[str]:
        """The doctests of the file and the tests that execute the statement, in the order of TESTS; where none does, all of TESTS."""
        files = checks_of(self.tree, m.file)
        covering = {
            test for line in statement_lines((self.tree / PACKAGE / m.file).read_bytes(), m.line) for test in self.tests_of[m.file][line]
        }
        chosen = [test for file in files for test in sorted(covering) if test == file or test.split("::")[0] == file]
        return [file for file in files if file.startswith("src/")] + chosen if chosen else files

    def seconds(self, tests: list[str]) -> float:
        """What the files of these tests take without a mutant."""
        files = {test.split("::")[0] for test in tests}
        return sum(seconds for test, seconds in self.took.items() if test.split("::")[0] in files)


def statement_lines(source: bytes, line: int) -> range:
    """The lines of the smallest statement around a line; of a statement with a body, those before the body."""
    found = range(line, line + 1)
    size = None
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
            body = getattr(node, "body", None)
            stop = body[0].lineno if body and body[0].lineno > node.lineno else node.end_lineno + 1
            if node.lineno <= line < stop and (size is None or stop - node.lineno < size):
                found, size = range(node.lineno, stop), stop - node.lineno
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--skip", type=int, default=0, help="leave out the first ones that are drawn, to go on with an interrupted run")
    parser.add_argument("--area", choices=AREAS, action="append", help="draw from these only")
    parser.add_argument("--only", metavar="FILE[:LINE[#K]]", help="every mutant of a file, of a line, or the one that was printed so")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--records", type=Path, metavar="FOLDER", help="keep there which tests execute which lines, for another run")
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        pristine = copied(ROOT, Path(folder, "pristine"))
        mutants = [m for m in all_mutants(pristine) if not options.area or m.file.split("/")[0] in options.area]
        if options.only:
            chosen = [m for m in mutants if options.only in (m.file, f"{m.file}:{m.line}", m.place)]
        else:
            chosen = drawn(mutants, options.number, options.seed)[options.skip :]
        sources = {m.file: (pristine / PACKAGE / m.file).read_bytes() for m in chosen}
        print(f"mutants: {len(chosen)} of {len(mutants)}, seed {options.seed}", flush=True)
        if options.list:
            for m in chosen:
                print(f"{m.place}  {m.diff(sources[m.file])}")
            return 0
        coverage = Coverage(pristine, options.records or Path(folder))
        coverage.record(Copy(pristine, pristine), sorted({test for m in chosen for test in checks_of(pristine, m.file)}), options.jobs)
        print(f"mutants: the tests take {sum(coverage.took.values()):.0f} s without a mutant", flush=True)
        copies: queue.Queue[Copy] = queue.Queue()
        for k in range(options.jobs):
            copies.put(Copy(copied(pristine, Path(folder, f"copy{k}")), pristine))

        def judge(m: Mutant) -> str:
            copy, tests = copies.get(), coverage.tests(m)
            try:
                verdict, by = copy.judge(m, tests, SECONDS + TIMES * coverage.seconds(tests))
            finally:
                copies.put(copy)
            print(f"{verdict:8} {m.place}  {m.diff(sources[m.file])}" + (f"  [{by}]" if by else ""), flush=True)
            return verdict

        with ThreadPoolExecutor(options.jobs) as pool:
            verdicts = list(pool.map(judge, chosen))
    survived = verdicts.count("survived")
    print(f"mutants: {len(verdicts)}, survived {survived}, timeout {verdicts.count('timeout')}, seed {options.seed}", end=", ")
    print(f"{1 - survived / max(len(verdicts), 1):.1%} killed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
