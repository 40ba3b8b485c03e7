"""Ctrl-C ends the command with one line and exit code 130, and leaves no half of a run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.slow

# sends Ctrl-C when a module is about to be imported
AT_IMPORT = """
import os, signal, sys
class Finder:
    @staticmethod
    def find_spec(name, *_):
        if name == {name!r}:
            sys.meta_path.remove(Finder)
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(1000):  # Python looks for signals between its instructions
                pass
sys.meta_path.insert(0, Finder)
"""


@pytest.mark.parametrize(
    "name",
    ["numpy", *(pytest.param(name, marks=pytest.mark.full) for name in ("typer", "scipy.sparse"))],
)
def test_while_the_command_imports(name, tmp_path):
    np.save(tmp_path / "table.npy", np.random.default_rng(0).random((6, 40)))
    (tmp_path / "sitecustomize.py").write_text(AT_IMPORT.format(name=name))
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-m", "conecollapse", "rays", "table.npy", "--out", "out"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        # a process that was started in the background may ignore Ctrl-C, and hands that down
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "conecollapse: interrupted; unfinished results were not written.\n"
    assert not (tmp_path / "out").exists()


def test_a_program_that_calls_the_command_keeps_its_own_ctrl_c(capsys):
    from conecollapse.cli import main

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(SystemExit):
        main(["--version"])
    assert signal.getsignal(signal.SIGINT) is before
    assert capsys.readouterr().out.startswith("conecollapse ")
