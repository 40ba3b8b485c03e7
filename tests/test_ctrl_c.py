"""Ctrl-C while the command imports, or when its results are printed: one line, exit code 130,
nothing of Python's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.slow

# runs some code when a module is about to be imported
AT_IMPORT = """
import atexit, os, signal, sys
class Finder:
    @staticmethod
    def find_spec(name, *_):
        if name == {name!r}:
            sys.meta_path.remove(Finder)
            {code}
class Finalized:
    def __del__(self):
        ctrl_c()
def ctrl_c():
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000):  # Python looks for signals between its instructions
        pass
sys.meta_path.insert(0, Finder)
"""
LAST = "conecollapse.runs.saving"  # imported when the command has begun


def heed_ctrl_c():
    """A process that was started in the background may ignore Ctrl-C, and hands that down."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def command(tmp_path):
    """Runs `conecollapse rays` after some code, which Python runs when it starts; exit code, stdout
    and stderr."""
    # whose rays take a kernel
    np.save(tmp_path / "table.npy", np.random.default_rng(0).random((6, 400)))
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])

    def run(before):
        (tmp_path / "sitecustomize.py").write_text(before)
        arguments = [sys.executable, "-m", "conecollapse.cli", "rays", "table.npy", "--out", "out"]
        environment = os.environ | {"PYTHONPATH": path}
        done = subprocess.run(
            arguments,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=heed_ctrl_c,
        )
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.mark.parametrize(
    "name",
    [
        *(
            pytest.param(name, marks=pytest.mark.full)
            for name in ("typer", "rich.console", "scipy.sparse", "scipy.optimize", "numba", LAST)
        ),
        "numpy",
    ],
)
def test_while_importing(name, command, tmp_path):
    code, out, err = command(AT_IMPORT.format(name=name, code="ctrl_c()"))
    assert (code, out) == (130, "")
    assert err.startswith("conecollapse: interrupted; ")
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("code", ["Finalized()", "exec('ctrl_c()')"], ids=["finalizer", "string"])
def test_where_python_treats_it_in_its_own_way(code, command):
    """In a finalizer Python shows a traceback and goes on; if it came in code from a string, it
    ends by the signal. Imports have both."""
    code, _, err = command(AT_IMPORT.format(name=LAST, code=code))
    assert code == 130
    assert err.startswith("conecollapse: interrupted; ")
    assert err.count("\n") == 1


def test_after_the_results_are_printed(command, tmp_path):
    code, out, err = command(AT_IMPORT.format(name=LAST, code="atexit.register(ctrl_c)"))
    assert code == 130
    assert out.endswith("results in out\n")
    assert (
        err == "conecollapse: interrupted; the command had ended, and its results are complete.\n"
    )
    assert (tmp_path / "out" / "run.json").exists()


def test_when_nothing_is_left_to_interrupt(command):
    code, out, err = command(
        "import atexit, os, signal\natexit.register(os.kill, os.getpid(), signal.SIGINT)\n"
    )
    assert (code, err) == (0, "")
    assert out.endswith("results in out\n")


def test_where_ctrl_c_is_switched_off_it_stays_so(command):
    """As under nohup, or in the background of a script."""
    switched_off = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    code, out, err = command(switched_off + AT_IMPORT.format(name=LAST, code="ctrl_c()"))
    assert (code, err) == (0, "")
    assert out.endswith("results in out\n")


def test_a_program_that_calls_the_command_keeps_its_own_ctrl_c(capsys):
    from conecollapse.cli import main

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(SystemExit):
        main(["--version"])
    assert signal.getsignal(signal.SIGINT) is before
    assert capsys.readouterr().out.startswith("conecollapse ")
