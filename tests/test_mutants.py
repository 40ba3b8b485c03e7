"""The tool that changes the code: which changes it makes, and which it leaves alone."""

from __future__ import annotations

import ast
import json
from collections import defaultdict
from functools import cache

import pytest
from mutant_changes import AREAS, Finder, all_mutants, drawn, is_whole
from mutant_runs import TIERS, change
from mutant_tests import TESTS, Records, Uses, affordable, checks_of, statement_lines
from mutants import ROOT

pytestmark = pytest.mark.own


def changes(source):
    return [m.applied(source.encode()).decode() for m in Finder("x.py", source.encode()).mutants()]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a < b", ["x = a >= b"]),
        ("x = len(a) < b", ["x = len(a) <= b", "x = len(a) >= b"]),
        ("x = a is not None", ["x = a is None"]),
        ("x = (é) + (b)", ["x = (é) - (b)"]),
        ("x = a and b or c", ["x = a or b or c", "x = a and b and c"]),
        ("x = not a", ["x = (a)"]),
        ("x = a.max(axis=1)", ["x = a.min(axis=1)", "x = a.max(axis=0)"]),
        ("x = a[i:j]", ["x = a[(i) + 1:j]", "x = a[i:(j) - 1]"]),
        (
            "x = 0.5, 1e-9, True",
            ["x = 1.0, 1e-9, True", "x = 0.5, 0.001, True", "x = 0.5, 1e-9, False"],
        ),
        ("x += y", ["pass", "x -= y"]),
        ("f(x)", ["pass"]),
        ("raise E(f'{a + 1}')", ["pass"]),
        ("if a:\n    pass", ["if not a:\n    pass"]),
        (
            "def f(x: int = 1) -> int:\n    '''Adds 1 + 1.'''",
            ["def f(x: int = 0) -> int:\n    '''Adds 1 + 1.'''"],
        ),
        ("def f(x) -> int:\n    return x", ["def f(x) -> int:\n    return None"]),
        ("def __repr__(self):\n    return 'a' if self.b < 1 else 'c'", []),
        ("@njit(cache=True)\ndef f():\n    '''1 + 1'''", []),
        ("LIMIT, BLOCK, FEW = 200 * 2**20, 1024, 3", ["LIMIT, BLOCK, FEW = 200 * 2**20, 1024, 4"]),
        ("def f():\n    LIMIT = 1024", ["def f():\n    LIMIT = 1025"]),
        ("with serial() if a < b else nullcontext():\n    x = a", []),
        ("with opened(a < b):\n    x = a", ["with opened(a >= b):\n    x = a"]),
        ("x = f'and {n} more' if n > 1 else ''", []),
        (
            "x = 'csr' if n > 1 else 'csc'",
            [f"x = 'csr' if {t} else 'csc'" for t in ("n <= 1", "n >= 1", "n > 0", "not (n > 1)")],
        ),
        ("x: Literal[1] = y", []),
        ("x = f'{a + 1}' + 'b'", []),
    ],
)
def test_the_changes_of_a_line(source, expected):
    assert sorted(changes(source)) == sorted(expected)


def test_a_boundary_moves_only_between_whole_numbers():
    assert [
        is_whole(ast.parse(text, mode="eval").body)
        for text in ("len(a)", "A.shape[0]", "a.size", "3", "tol", "0.5", "True")
    ] == [
        True,
        True,
        True,
        True,
        False,
        False,
        False,
    ]


def test_what_is_drawn():
    mutants = all_mutants(ROOT)
    assert {m.file.split("/")[0] for m in mutants} == set(AREAS)
    assert len({m.place for m in mutants}) == len(mutants)
    first = drawn(mutants, 50, 1)
    assert first == drawn(mutants, 50, 1) != drawn(mutants, 50, 2)
    assert len({(m.file, m.line) for m in first}) == 50  # at most one change of a line
    assert all(
        any(test.startswith("tests/") for test in checks_of(ROOT, file))
        for file in {m.file for m in mutants}
    )


def test_the_map_of_tests_names_files_that_exist():
    for prefix, patterns in TESTS.items():
        assert (ROOT / "src" / "conecollapse" / prefix).exists(), prefix
        for pattern in patterns:
            assert list((ROOT / "tests").glob(f"{pattern}.py")), pattern


@pytest.mark.parametrize(
    ("line", "lines"),
    [(1, range(1, 3)), (2, range(1, 3)), (3, range(3, 4)), (4, range(4, 6)), (5, range(4, 6))],
)
def test_a_change_is_tried_with_the_tests_of_its_statement(line, lines):
    source = b"def f(a,\n      b):\n    if a:\n        return (a\n          + b)\n"
    assert statement_lines(ast.parse(source), line) == lines


@pytest.fixture(scope="module")
def uses():
    return Uses(ROOT)


@cache
def mutants_of(file):
    return Finder(file, (ROOT / "src" / "conecollapse" / file).read_bytes()).mutants()


def mutant(text, file):
    """The first one of the line that has this text."""
    line = (ROOT / "src" / "conecollapse" / file).read_text(encoding="utf-8").splitlines().index(
        text
    ) + 1
    return next(m for m in mutants_of(file) if m.line == line)


@pytest.mark.slow
def test_kernels_are_tried_with_what_calls_them_and_constants_with_what_reads_them(uses):
    m = mutant("                    candidates.dead[q] = True", "_nnls/columns.py")
    assert {
        ("_nnls/columns.py", "revive"),
        ("_nnls/columns.py", "descend"),
        ("_nnls/slots.py", "_advance"),
    } <= set(uses.kernels(m))
    assert ("_nnls/factor.py", "dot") not in uses.kernels(m)
    assert any(file == "_nnls/slots.py" for file, _ in uses.lines(m))
    assert not any(file == "_nnls/columns.py" for file, _ in uses.lines(m))
    assert any(test.startswith("tests/test_nnls_factors.py::") for test in uses.named(m))
    constant = next(m for m in mutants_of("geometry/subspace.py") if uses.is_import(m))
    assert uses.kernels(constant) == []
    assert "geometry/subspace.py" in {file for file, _ in uses.lines(constant)}


def test_records_say_which_tests_a_mutant_is_tried_with(tmp_path, uses):
    m = next(m for m in mutants_of("geometry/merging.py") if not uses.is_import(m))
    records = Records(ROOT, tmp_path)
    records.uses = uses
    files = checks_of(ROOT, m.file)
    wanted = {"tests/test_exact.py::test_x[a]": 0.5, "tests/test_merge_and_files.py::test_y": 0.01}
    for file in files:
        took = {test: seconds for test, seconds in wanted.items() if test.startswith(file)} | {
            f"{file}::test_other": 0.001
        }
        lines = {f"{m.file}:{m.line}": [test for test in took if test in wanted]}
        for tier in TIERS:
            records.path(file, tier).write_text(
                json.dumps({"took": took if tier == TIERS[0] else {}, "lines": lines})
            )
    (tests,) = records.batches(m)
    assert list(tests) == [
        "tests/test_merge_and_files.py::test_y",
        "tests/test_exact.py::test_x[a]",
    ]
    for file in files:
        records.loaded[file, TIERS[0]]["lines"] = {}
    (tests,) = records.batches(m, quick=True)  # where no test was seen, all are tried
    assert {f"{file}::test_other" for file in files} <= set(tests)


def test_tests_are_tried_until_they_take_too_long():
    assert affordable({"a": 1.0, "b": 2.0, "c": 1.0}, 2.5) == {"a": 1.0}


def test_the_code_of_a_loaded_function_is_changed(tmp_path):
    (tmp_path / "src" / "conecollapse").mkdir(parents=True)
    path, space = tmp_path / "src" / "conecollapse" / "x.py", {}
    source = (
        b"class A:\n    def f(self, a):\n        return a + 1\n\n\ndef g(a):\n    return a + 1\n"
    )
    exec(compile(source, str(path), "exec"), space)
    functions = defaultdict(list)
    for one in (space["A"].f, space["g"]):
        functions[str(path), one.__qualname__, one.__code__.co_firstlineno].append(one)
    m = next(m for m in Finder("x.py", source).mutants() if m.new == b"-" and m.line == 3)
    path.write_bytes(m.applied(source))
    change(tmp_path, m, [], functions)
    assert (space["A"]().f(3), space["g"](3)) == (2, 4)
