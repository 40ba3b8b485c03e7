"""The tool that changes the code: which changes it makes, and which it leaves alone."""

from __future__ import annotations

import ast

import pytest
from kernel_caches import reached_kernels
from mutants import AREAS, ROOT, TESTS, Coverage, Finder, all_mutants, checks_of, drawn, is_whole, statement_lines


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
        ("x = 0.5, 1e-9, True", ["x = 1.0, 1e-9, True", "x = 0.5, 0.001, True", "x = 0.5, 1e-9, False"]),
        ("x += y", ["pass", "x -= y"]),
        ("f(x)", ["pass"]),
        ("raise E(f'{a + 1}')", ["pass"]),
        ("if a:\n    pass", ["if not a:\n    pass"]),
        ("def f(x: int = 1) -> int:\n    '''Adds 1 + 1.'''", ["def f(x: int = 0) -> int:\n    '''Adds 1 + 1.'''"]),
        ("def f(x) -> int:\n    return x", ["def f(x) -> int:\n    return None"]),
        ("def __repr__(self):\n    return 'a' if self.b < 1 else 'c'", []),
        ("@njit(cache=True)\ndef f():\n    '''1 + 1'''", []),
        ("LIMIT, BLOCK, FEW = 200 * 2**20, 1024, 3", ["LIMIT, BLOCK, FEW = 200 * 2**20, 1024, 4"]),
        ("def f():\n    LIMIT = 1024", ["def f():\n    LIMIT = 1025"]),
        ("with serial() if a < b else nullcontext():\n    x = a", []),
        ("with opened(a < b):\n    x = a", ["with opened(a >= b):\n    x = a"]),
        ("x = f'and {n} more' if n > 1 else ''", []),
        ("x = 'csr' if n > 1 else 'csc'", [f"x = 'csr' if {t} else 'csc'" for t in ("n <= 1", "n >= 1", "n > 0", "not (n > 1)")]),
        ("x: Literal[1] = y", []),
        ("x = f'{a + 1}' + 'b'", []),
    ],
)
def test_the_changes_of_a_line(source, expected):
    assert sorted(changes(source)) == sorted(expected)


def test_a_boundary_moves_only_between_whole_numbers():
    assert [is_whole(ast.parse(text, mode="eval").body) for text in ("len(a)", "A.shape[0]", "a.size", "3", "tol", "0.5", "True")] == [
        True, True, True, True, False, False, False,
    ]  # fmt: skip


def test_what_is_drawn():
    mutants = all_mutants(ROOT)
    assert {m.file.split("/")[0] for m in mutants} == set(AREAS)
    assert len({m.place for m in mutants}) == len(mutants)
    first = drawn(mutants, 50, 1)
    assert first == drawn(mutants, 50, 1) != drawn(mutants, 50, 2)
    assert len({(m.file, m.line) for m in first}) == 50  # at most one change of a line
    assert all(any(test.startswith("tests/") for test in checks_of(ROOT, file)) for file in {m.file for m in mutants})


def test_the_map_of_tests_names_files_that_exist():
    for prefix, patterns in TESTS.items():
        assert (ROOT / "src" / "conecollapse" / prefix).exists(), prefix
        for pattern in patterns:
            name, _, test = pattern.partition("::")
            found = list((ROOT / "tests").glob(name if test else f"{name}.py"))
            assert found, pattern
            assert all(f"def {test}" in file.read_text(encoding="utf-8") for file in found), pattern


def test_kernels_that_a_change_can_reach_are_compiled_anew():
    assert {"_nnls/kernels.py", "_nnls/slots.py", "geometry/certified/small.py"} <= set(reached_kernels(ROOT, "_nnls/kernels.py"))
    assert reached_kernels(ROOT, "io/names.py") == []


@pytest.mark.parametrize(
    ("line", "lines"),
    [(1, range(1, 3)), (2, range(1, 3)), (3, range(3, 4)), (4, range(4, 6)), (5, range(4, 6))],
)
def test_a_change_is_tried_with_the_tests_of_its_statement(line, lines):
    source = b"def f(a,\n      b):\n    if a:\n        return (a\n          + b)\n"
    assert statement_lines(source, line) == lines


def test_lines_that_no_test_was_seen_to_execute_are_tried_with_all():
    m = next(m for m in all_mutants(ROOT) if m.file == "geometry/merging.py")
    coverage = Coverage(ROOT, ROOT)
    assert coverage.tests(m) == checks_of(ROOT, m.file)
    coverage.tests_of[m.file][m.line] = {"tests/test_exact.py::test_x", "tests/test_merge_and_files.py::test_y"}
    assert coverage.tests(m)[-2:] == ["tests/test_merge_and_files.py::test_y", "tests/test_exact.py::test_x"]
    assert all(test.startswith("src/") for test in coverage.tests(m)[:-2])
