"""The tool that changes the code: which changes it makes, and which it leaves alone."""

from __future__ import annotations

import pytest
from mutant_changes import PACKAGE, Finder, all_mutants
from mutants import AREAS, ROOT, Copy

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


def test_the_tests_of_each_area_are_folders_that_exist():
    for area, folders in AREAS.items():
        assert (ROOT / PACKAGE / area).is_dir()
        assert all((ROOT / folder).is_dir() for folder in folders)


@pytest.mark.slow
def test_a_mutant_is_killed_by_the_tests_of_its_line(tmp_path):
    source, test = "def half(x):\n    return x / 2\n", "from conecollapse.io.half import half\n"
    test += "def test_half():\n    assert half({}) == {}\n"
    for file, text in {
        "src/conecollapse/__init__.py": "",
        "src/conecollapse/io/__init__.py": "",
        "src/conecollapse/io/half.py": source,
        "tests/io/test_one.py": test.format(4, 2),
        "tests/io/test_zero.py": test.format(0, 0).replace("test_half", "test_zero"),
        "pyproject.toml": "[tool.pytest.ini_options]\nmarkers = ['full']\n",
    }.items():
        (tmp_path / "checkout" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "checkout" / file).write_text(text)
    copy = Copy(tmp_path / "checkout", tmp_path)
    records = copy.record("io")
    tests = ["tests/io/test_one.py::test_half", "tests/io/test_zero.py::test_zero"]
    assert records["lines"]["io/half.py:2"] == sorted(records["took"]) == tests
    first = {m.new: m for m in all_mutants(copy.tree, ["io"])}
    assert copy.judge(first[b"*"], records) == ("killed", tests[0])
    del records["took"][tests[0]]
    assert copy.judge(first[b"*"], records) == ("survived", "")
