"""The benchmarks that asv runs can be imported and run: each once, on its tiny problem."""

from __future__ import annotations

import importlib
import inspect
import json
import math
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.own

FOLDER = Path(__file__).parents[2] / "benchmarks"
MODULES = ("cone", "nmf", "nnls")


@pytest.fixture
def suite(monkeypatch):
    """A function that gives a module of the suite; imports leave no trace."""
    monkeypatch.syspath_prepend(FOLDER)
    before = set(sys.modules)
    yield lambda name: importlib.import_module(f"asv_suite.{name}")
    for name in set(sys.modules) - before:
        if name.split(".")[0] in {"asv_suite", "common"} or name.startswith("bench_"):
            del sys.modules[name]


def test_the_suite_is_where_asv_looks():
    conf = json.loads((FOLDER / "asv.conf.json").read_text(encoding="utf-8"))
    folder = FOLDER / conf["benchmark_dir"]
    assert {file.stem for file in folder.glob("*.py")} == {"__init__", *MODULES}
    assert (FOLDER / conf["repo"] / "pyproject.toml").is_file()


@pytest.mark.parametrize("module", MODULES)
def test_every_benchmark_runs_on_its_tiny_problem(suite, module):
    module = suite(module)
    benchmarks = [
        (kind, name)
        for kind in vars(module).values()
        if inspect.isclass(kind) and kind.__module__ == module.__name__
        for name in vars(kind)
        if name.startswith(("time_", "track_"))
    ]
    assert benchmarks
    for kind, name in benchmarks:
        assert set(kind.params[0]) <= module.PROBLEMS.keys() - {"tiny"}
        made = kind()
        made.setup("tiny")
        value = getattr(made, name)("tiny")
        assert name.startswith("time_") or (value > 0 and math.isfinite(value)), name


@pytest.mark.parametrize("module", ["cone", "nmf"])
def test_a_missing_dataset_is_skipped(suite, module, monkeypatch, tmp_path):
    monkeypatch.setenv("CONECOLLAPSE_DATA", str(tmp_path))
    module = suite(module)
    kind = next(
        kind
        for kind in vars(module).values()
        if inspect.isclass(kind) and kind.__module__ == module.__name__
    )
    with pytest.raises(NotImplementedError, match="AMLALL is not on this machine"):
        kind().setup("AMLALL")  # asv takes this exception for a benchmark that does not apply
