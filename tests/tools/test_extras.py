"""The library runs with its own dependencies alone; where an extra is missing, one sentence names
it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

OPTIONAL = {
    "cli": ["rich", "typer"],
    "report": ["jinja2", "plotly"],
    "datasets": ["pooch"],
}
TABLE = "a,b,c\n" + "".join(f"{i % 3},{(i + 1) % 3},{1 + i % 2}\n" for i in range(12))


def python_without(extras, code, folder):
    """A new process in ``folder`` in which the packages of the extras cannot be imported."""
    missing = [name for extra in extras for name in OPTIONAL[extra]]
    block = f"import sys; sys.modules |= dict.fromkeys({missing!r})\n"
    environment = {**os.environ, "CONECOLLAPSE_CACHE": ""}
    environment.pop("CONECOLLAPSE_DATA", None)
    return subprocess.run(
        [sys.executable, "-c", block + code],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_library_needs_no_extra(tmp_path):
    code = """
import importlib, pkgutil, conecollapse
from conecollapse import Cone, HierarchicalNMF, datasets, scverse
X = datasets.load("digits").X[:40] + 1.0
HierarchicalNMF(2, random_state=0).fit(X)
Cone.from_points(X).verify(X)
for part in pkgutil.walk_packages(conecollapse.__path__, "conecollapse."):
    if part.name.split(".")[1] not in ("cli", "__main__", "report", "plots"):
        importlib.import_module(part.name)
"""
    done = python_without(OPTIONAL, code, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("extra", "code", "what"),
    [
        ("report", "from conecollapse import plots", "A figure needs the package plotly"),
        ("report", "import conecollapse.report", "A figure needs the package plotly"),
        (
            "datasets",
            "from conecollapse import datasets; datasets.load('REUTERS', download=True)",
            "Downloading datasets needs the package pooch",
        ),
    ],
)
def test_a_missing_extra_is_named_in_one_sentence(extra, code, what, tmp_path):
    caught = f"""
from conecollapse._errors import MissingDependencyError
try:
    {code}
except MissingDependencyError as error:
    print(error)
"""
    done = python_without([extra], caught, tmp_path)
    assert done.stdout == f'{what}: pip install "conecollapse[{extra}]".\n', done.stderr


def test_the_command_without_its_packages_is_one_sentence(tmp_path):
    code = "from conecollapse.cli import main; main(['--version'])"
    done = python_without(["cli"], code, tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        'conecollapse: The command needs the package typer: pip install "conecollapse[cli]".\n'
    )


def test_the_command_without_the_report_s_packages_writes_everything_else(tmp_path):
    (tmp_path / "table.csv").write_text(TABLE)
    code = "from conecollapse.cli import main; main('cluster table.csv -k 2 --out out'.split())"
    done = python_without(["report"], code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert 'no report is written. A figure needs the package plotly: pip install "' in done.stderr
    assert (tmp_path / "out" / "labels.csv").exists()
    assert not (tmp_path / "out" / "report.html").exists()
