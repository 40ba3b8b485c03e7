"""Which tests a mutant is tried with."""

from __future__ import annotations

import ast
import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from kernel_caches import PACKAGE
from mutant_changes import Mutant
from mutant_runs import TIERS, Copy

# Which tests are about which folder: the longest prefix counts. Patterns of files; fast and telling
# ones first. Tests that are named after the changed file come before these.
TESTS = {
    "certificates": ["test_certificate*", "test_open*", "test_exact*", "test_merge*", "test_cone*"],
    "_nnls": ["test_nnls*", "test_exact*", "test_collapse*", "test_cone*", "test_factorizations*"],
    "geometry": [
        *("test_cone*", "test_exact*", "test_merge*", "test_open*", "test_bad_input*"),
        *("test_mixtures*", "test_novelty*", "test_hull*", "test_epsilon*", "test_limits*"),
        *("test_certificate*", "test_streaming*", "test_dask*"),
    ],
    "geometry/blocks.py": ["test_blockwise*", "test_streaming*", "test_dask*"],
    "io": [
        *("test_io*", "test_layout*", "test_hostile*", "test_cubes*", "test_people*"),
        *("test_bad_input*", "test_unmix*", "test_runs*"),
    ],
    "runs": [
        *("test_runs*", "test_open*", "test_unmix*", "test_novelty*"),
        *("test_killed*", "test_cli*"),
    ],
}
ENOUGH, A_LOOK = 60, 6  # seconds of tests, as they take without a mutant; with --quick


def checks_of(tree: Path, file: str) -> list[str]:
    """The doctests of the file, tests named after it, and what TESTS says, each once."""
    best = max(
        (prefix for prefix in TESTS if file == prefix or file.startswith(f"{prefix}/")), key=len
    )
    chosen = [str(PACKAGE / file)] if b">>>" in (tree / PACKAGE / file).read_bytes() else []
    for pattern in [f"test_*{Path(file).stem.strip('_')}*", *TESTS[best]]:
        chosen += [
            path.relative_to(tree).as_posix()
            for path in sorted((tree / "tests").rglob(f"{pattern}.py"))
        ]
    return list(dict.fromkeys(chosen))


@dataclass(frozen=True, eq=False)
class Top:
    """A statement of a module: the names that it defines, and the lines where it uses others."""

    file: str
    node: ast.stmt
    names: frozenset[str]
    uses: dict[str, set[int]]

    @property
    def is_kernel(self) -> bool:
        return isinstance(self.node, ast.FunctionDef) and any(
            "kernel" in ast.unparse(d) for d in self.node.decorator_list
        )

    def function(self, line: int) -> ast.FunctionDef | None:
        """The smallest function around a line."""
        around = [
            n
            for n in ast.walk(self.node)
            if isinstance(n, ast.FunctionDef) and n.lineno <= line <= (n.end_lineno or 0)
        ]
        return max(around, key=lambda n: n.lineno, default=None)

    def lines(self, line: int) -> range | None:
        """The lines that run when this one does: its statement, or the function whose default it
        is; None: it runs at import."""
        function = self.function(line)
        if function is None:
            return None
        first = function.body[0].lineno
        return (
            statement_lines(self.node, line)
            if line >= first
            else range(first, (function.end_lineno or first) + 1)
        )


def statements(file: str, source: bytes, *, with_attributes: bool = False) -> list[Top]:
    """The statements of a module, but for imports; with attributes, ``f`` of ``module.f`` is a name
    that is used."""
    found = []
    for node in ast.parse(source).body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            continue
        names = {node.name} if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else set()
        uses = defaultdict(set)
        for part in ast.walk(node):
            if isinstance(part, ast.Name):
                if isinstance(part.ctx, ast.Load):
                    uses[part.id].add(part.lineno)
                elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                    names.add(part.id)
            elif isinstance(part, ast.Attribute) and with_attributes:
                uses[part.attr].add(part.lineno)
        found.append(Top(file, node, frozenset(names), uses))
    return found


class Uses:
    """Where the names of modules are used. Equal names of two modules are taken for one."""

    def __init__(self, tree: Path) -> None:
        package = tree / PACKAGE
        self.tops = {
            path.relative_to(package).as_posix(): statements(
                path.relative_to(package).as_posix(), path.read_bytes()
            )
            for path in sorted(package.rglob("*.py"))
        }
        self.using: dict[str, list[Top]] = defaultdict(list)
        for top in (top for tops in self.tops.values() for top in tops):
            for name in top.uses:
                self.using[name].append(top)
        self.tests: dict[str, set[str]] = defaultdict(set)  # those that use a name themselves
        for path in sorted((tree / "tests").rglob("test_*.py")):
            for top in statements(path.name, path.read_bytes(), with_attributes=True):
                for name in top.uses:
                    self.tests[name] |= {
                        f"{path.relative_to(tree).as_posix()}::{test}" for test in top.names
                    }

    def top(self, m: Mutant) -> Top | None:
        return next(
            (t for t in self.tops[m.file] if t.node.lineno <= m.line <= (t.node.end_lineno or 0)),
            None,
        )

    def reached(self, m: Mutant) -> list[Top]:
        """What has the mutated kernel, constant or class built into it: itself, and the kernels and
        constants that use it."""
        top = self.top(m)
        if top is None or not (top.is_kernel or top.lines(m.line) is None):
            return []
        found = [top]
        for one in found:
            for other in (other for name in one.names for other in self.using[name]):
                if other not in found and (
                    other.is_kernel or isinstance(other.node, (ast.Assign, ast.AnnAssign))
                ):
                    found.append(other)
        return found

    def is_import(self, m: Mutant) -> bool:
        """Whether the mutated line runs at import: on the level of a module or of a class, or as a
        default."""
        top = self.top(m)
        function = top.function(m.line) if top else None
        return function is None or m.line < function.body[0].lineno

    def kernels(self, m: Mutant) -> list[tuple[str, str]]:
        return [(top.file, name) for top in self.reached(m) if top.is_kernel for name in top.names]

    def lines(self, m: Mutant) -> set[tuple[str, int]]:
        """The lines, outside of kernels, that run the mutated one or use what it defines."""
        reached, top = self.reached(m), self.top(m)
        if top is None:
            return set()
        if not reached:
            return {(m.file, line) for line in top.lines(m.line) or ()}
        return {
            (other.file, line)
            for one in reached
            for name in one.names
            for other in self.using[name]
            if other not in reached
            for use in other.uses[name]
            for line in other.lines(use) or ()
        }

    def named(self, m: Mutant) -> set[str]:
        """The tests that use the mutated function, or what has it built in, by its name."""
        tops = self.reached(m) or [top for top in [self.top(m)] if top]
        return {test for top in tops for name in top.names for test in self.tests[name]}


class Records:
    """Which tests execute which lines, and what they take: a file in a folder for each file of
    tests and each tier."""

    def __init__(self, pristine: Path, folder: Path) -> None:
        self.pristine, self.folder = pristine, folder
        self.loaded: dict[tuple[str, str], dict] = {}

    @cached_property
    def uses(self) -> Uses:
        return Uses(self.pristine)

    def path(self, file: str, tier: str) -> Path:
        return self.folder / f"{re.sub(r'[^a-z0-9]+', '-', f'{file} {tier}')}.json"

    def record(self, file: str, tier: str) -> dict:
        """Run a file of tests without a mutant, unless an earlier run did. It must pass."""
        path = self.path(file, tier)
        if (file, tier) not in self.loaded:
            if not path.exists():
                path.write_text(json.dumps(self.new(file, tier)))
            self.loaded[file, tier] = json.loads(path.read_text())
        return self.loaded[file, tier]

    def new(self, file: str, tier: str) -> dict:
        # not among the oldest dependencies, with which this module is imported by a test
        from coverage import CoverageData

        copy, lines = Copy(self.pristine, self.pristine), defaultdict(list)
        with tempfile.TemporaryDirectory() as folder:
            traces = Path(folder, "traces")
            code, failed = copy.run([file], tier, None, traces)
            # such as those that measure memory, and see that of the recording
            for test in failed.splitlines() if code else ():
                copy.took.pop(test, None)
                print(f"left out {test}, which fails here without any mutant", flush=True)
            if traces.is_file():
                data = CoverageData(str(traces))
                data.read()
                for measured in data.measured_files():
                    name = measured.split(f"/{PACKAGE}/")[-1]
                    for line, contexts in data.contexts_by_lineno(measured).items():
                        lines[f"{name}:{line}"] = sorted(
                            {context.rpartition("|")[0] for context in contexts} - {""}
                        )
        print(f"recorded {file} ({tier}): {sum(copy.took.values()):.0f} s", flush=True)
        return {"took": copy.took, "lines": lines}

    def batches(self, m: Mutant, *, quick: bool = False) -> Iterator[dict[str, float]]:
        """The tests of a mutant and what they take: first those on record, then those that are
        recorded for it."""
        wanted = [
            (file, tier)
            for tier in TIERS[: 1 if quick else 2]
            for file in checks_of(self.pristine, m.file)
        ]
        named = {test.split("::")[0] for test in self.uses.named(m)}
        known = [one for one in wanted if self.path(*one).exists() or one[0] in named]
        left, some = float(A_LOOK if quick else ENOUGH), False
        for group in [known, *([one] for one in wanted if one not in known)]:
            every = self.tests(m, group)
            tests = affordable(every, left)
            left -= sum(tests.values())
            if tests:
                some = True
                yield tests
            if len(tests) < len(every) or (tests and quick):
                return
        if not some:  # perhaps in other processes, where no line is seen
            yield affordable(
                {test: took for one in wanted for test, took in self.record(*one)["took"].items()},
                left,
            )

    def tests(self, m: Mutant, group: list[tuple[str, str]]) -> dict[str, float]:
        """Tests that execute a line that runs the mutant, or name it: those that name it first,
        then short ones, in the order of files."""
        lines, named = {f"{file}:{line}" for file, line in self.uses.lines(m)}, self.uses.named(m)
        found = []
        for place, one in enumerate(group):
            record = self.record(*one)
            covering = {test for line in lines for test in record["lines"].get(line, ())}
            for test, took in record["took"].items():
                if test in covering or test.split("[")[0] in named:
                    found.append(
                        (
                            one[1],
                            test.split("[")[0] not in named,
                            [took > s for s in (0.1, 1, 5)],
                            place,
                            took,
                            test,
                        )
                    )
        return {test: took for *_, took, test in sorted(found)}


def affordable(tests: dict[str, float], seconds: float) -> dict[str, float]:
    """The first tests that take no more than this together."""
    chosen = {}
    for test, took in tests.items():
        seconds -= took
        if seconds < 0:
            break
        chosen[test] = took
    return chosen


def statement_lines(tree: ast.AST, line: int) -> range:
    """The lines of the smallest statement around a line; of a statement with a body, those before
    the body."""
    found = range(line, line + 1)
    size = None
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
            body = getattr(node, "body", None)
            stop = (
                body[0].lineno
                if body and body[0].lineno > node.lineno
                else (node.end_lineno or node.lineno) + 1
            )
            if node.lineno <= line < stop and (size is None or stop - node.lineno < size):
                found, size = range(node.lineno, stop), stop - node.lineno
    return found
