"""A run is always there under its name, whenever the process that replaces it is killed; leftovers
go a day later."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from conecollapse import Cone, RunFolderError
from conecollapse._files import OLD, can_exchange, exchange, whole_file
from conecollapse.io import read_table
from conecollapse.runs import folder as publishing
from conecollapse.runs import rays, save, verify

ROOT = Path(__file__).parents[2]
X = np.kron(np.eye(2), np.ones((3, 4))) + 0.1 * np.random.default_rng(0).random((6, 8))


def python(*arguments):
    return subprocess.run(
        [sys.executable, *map(str, arguments)], capture_output=True, text=True, check=False
    )


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def grow_old(path):
    os.utime(path, (0, time.time() - OLD - 1), follow_symlinks=False)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forks of a process")
def test_there_is_a_whole_run_whatever_kills_the_next():
    done = python(ROOT / "tests" / "runs" / "kill_runs.py")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_what_a_killed_process_left_of_a_file_goes_a_day_later(tmp_path):
    program = """
import os, signal, sys
from pathlib import Path
from conecollapse._files import whole_file
with whole_file(Path(sys.argv[1])) as part:
    part.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    file = tmp_path / "cone.npz"
    assert python("-c", program, file).returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    with whole_file(file) as living:
        living.write_text("alive")
        grow_old(left)
        Cone.from_points(X.T).save(file)
        assert living.read_text() == "alive"  # another process is writing
        assert len(names(tmp_path)) == 2
    assert names(tmp_path) == ["cone.npz"]
    assert file.read_text() == "alive"


def test_files_of_others_with_such_names_stay(tmp_path):
    theirs = [".out.tmp", f".out.x.{'b' * 32}.tmp", f".outer.{'c' * 32}.tmp"]
    fresh = f".out.{'a' * 32}.tmp"
    for name in (*theirs, fresh):
        (tmp_path / name).touch()
    for name in theirs:
        grow_old(tmp_path / name)
    save(rays(read_table(X)), tmp_path / "out")
    assert names(tmp_path) == sorted([*theirs, fresh, "out"])


def test_a_link_is_removed_and_not_what_it_leads_to(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").touch()
    link = tmp_path / f".out.{'a' * 32}.tmp"
    link.symlink_to(tmp_path / "mine")
    grow_old(link)
    save(rays(read_table(X)), tmp_path / "out")
    assert names(tmp_path) == ["mine", "out"]
    assert names(tmp_path / "mine") == ["notes.txt"]


def test_of_two_runs_at_once_the_last_one_stays(tmp_path):
    out = tmp_path / "out"
    with publishing.staged(out) as staging:
        save(rays(read_table(X)), out)
        assert verify(out, X)
        (staging / publishing.FACTS).write_text(f'{{"format": "{publishing.FORMAT}"}}')
    assert names(out) == ["run.json"]
    assert names(tmp_path) == ["out"]


def test_a_file_system_that_cannot_swap_folders_is_refused_before_any_work(tmp_path, monkeypatch):
    save(rays(read_table(X)), tmp_path / "out")
    monkeypatch.setattr(publishing, "can_exchange", lambda _: False)
    with pytest.raises(RunFolderError, match="cannot replace a folder in one step; name a new one"):
        save(rays(read_table(2 * X)), tmp_path / "out", force=True)
    assert verify(tmp_path / "out", X)


def test_the_working_directory_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RunFolderError, match=r"'.' is the working directory"):
        save(rays(read_table(X)), ".")


@pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="the system has no such step")
def test_two_folders_swap_names(tmp_path):
    assert can_exchange(tmp_path / "out")
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    assert exchange(tmp_path / "one", tmp_path / "other")
    assert (names(tmp_path / "one"), names(tmp_path / "other")) == (["other"], ["one"])
    assert not exchange(tmp_path / "one", tmp_path / "none")
    assert names(tmp_path) == ["one", "other"]
