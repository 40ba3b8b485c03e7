"""The tool that changes the code: which changes it makes, and which it leaves alone."""

from __future__ import annotations

from collections import defaultdict

import pytest
from mutant_changes import Finder
from mutant_runs import change
from mutant_tests import TESTS
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


def test_the_map_of_tests_names_files_that_exist():
    for prefix, patterns in TESTS.items():
        assert (ROOT / "src" / "conecollapse" / prefix).exists(), prefix
        for pattern in patterns:
            assert list((ROOT / "tests").rglob(f"{pattern}.py")), pattern


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
