"""Ctrl-C while the command imports, or when its results are printed: one line, exit code 130, nothing of Python's."""

from __future__ import annotations

import signal
import subprocess
import sys

import numpy as np
import pytest

# sends this process the signal of Ctrl-C when a module is about to be imported
AT_IMPORT = """
import os, signal, sys
class Finder:
    @staticmethod
    def find_spec(name, *_):
        if name == {name!r}:
            sys.meta_path.remove(Finder)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder)
"""
IN_A_FINALIZER = """
import os, signal, sys
class Finalized:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass
class Finder:
    @staticmethod
    def find_spec(name, *_):
        if name == "conecollapse.runs.saving":
            sys.meta_path.remove(Finder)
            Finalized()
sys.meta_path.insert(0, Finder)
"""
AT_EXIT = """
import atexit, os, signal
atexit.register(os.kill, os.getpid(), signal.SIGINT)
"""
COMMAND = """
from conecollapse.cli import main
main()
"""


@pytest.fixture
def command(tmp_path):
    """Runs `conecollapse rays` after some code; exit code, stdout and stderr."""
    np.save(tmp_path / "table.npy", np.eye(3))

    def run(before, **options):
        arguments = ["rays", "table.npy", "--out", "out"]
        done = subprocess.run(
            [sys.executable, "-c", before + COMMAND, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False, **options
        )
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.mark.parametrize("name", ["typer", "rich.progress", "numpy", "numba", "pandas", "conecollapse.runs.saving"])
def test_while_importing(name, command, tmp_path):
    code, out, err = command(AT_IMPORT.format(name=name))
    assert (code, out) == (130, "")
    assert err.startswith("conecollapse: interrupted; ")
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_where_python_cannot_raise_it(command):
    """In a finalizer, as imports have them: Python would show a traceback there, and go on."""
    code, _, err = command(IN_A_FINALIZER)
    assert code == 130
    assert err.startswith("conecollapse: interrupted; ")
    assert err.count("\n") == 1


def test_after_the_results_are_printed(command, tmp_path):
    code, out, err = command(AT_EXIT)
    assert code == 130
    assert out.endswith("results in out\n")
    assert err == "conecollapse: interrupted; the command had ended, and its results are complete.\n"
    assert (tmp_path / "out" / "run.json").exists()


def test_where_ctrl_c_is_switched_off_it_stays_so(command):
    """As under nohup, or in the background of a script."""
    code, out, err = command("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n" + AT_EXIT)
    assert (code, err) == (0, "")
    assert out.endswith("results in out\n")


def test_a_program_that_calls_the_command_keeps_its_own_ctrl_c(capsys):
    from conecollapse.cli import main

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(SystemExit):
        main(["--version"])
    assert signal.getsignal(signal.SIGINT) is before
    assert capsys.readouterr().out.startswith("conecollapse ")
