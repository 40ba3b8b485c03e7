"""A run is always there under its name, whenever the process that replaces it is killed; the next
one leaves nothing behind."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from conecollapse import Cone, RunFolderError
from conecollapse._files import exchange, leftovers, temporary_beside, whole_file
from conecollapse.cli import main
from conecollapse.io import read_table
from conecollapse.runs import check_folder, rays, save, verify
from conecollapse.runs import folder as publishing

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
X = np.kron(np.eye(2), np.ones((3, 4))) + 0.1 * np.random.default_rng(0).random((6, 8))


def python(*arguments, **options):
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forks of a process")
class TestKills:
    @pytest.mark.parametrize(
        "how",
        [
            pytest.param(["calls"], marks=pytest.mark.full, id="every call"),
            pytest.param(["random", "5"], marks=pytest.mark.full, id="random moments"),
            pytest.param(["random", "1"], id="a random moment"),
            pytest.param(["commands", "3"], marks=pytest.mark.full, id="commands"),
        ],
    )
    def test_a_whole_run_each_time_and_nothing_left(self, how):
        done = python(ROOT / "tests" / "kill_runs.py", *how)
        assert done.returncode == 0, done.stderr
        if how[0] == "calls":  # replacing is one step: no kill leaves the name without a run
            assert " 0 of them left no run" in done.stdout.splitlines()[1]

    def test_a_file_that_was_being_written(self, tmp_path):
        """The next one that writes the file removes what a killed process left of it, but not what
        a living one is writing."""
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
        assert len(names(tmp_path)) == 2
        assert not file.exists()
        with whole_file(file) as living:
            living.write_text("alive")
            Cone.from_points(X.T).save(file)
            assert living.read_text() == "alive"
            assert len(names(tmp_path)) == 3  # the cone, and the living process' file and lock
        assert names(tmp_path) == ["cone.npz"]
        assert file.read_text() == "alive"


class TestLeftovers:
    def test_a_run_that_is_being_written_stays(self, tmp_path):
        out = tmp_path / "out"
        with publishing.staged(out) as staging:
            (staging / "run.json").write_text("{}")
            save(rays(read_table(X)), out)
            check_folder(out)
            assert (staging / "run.json").exists()
            assert len(names(tmp_path)) == 3
        assert names(tmp_path) == ["out"]
        assert names(out) == ["run.json"]

    def test_files_of_others_with_such_names_stay(self, tmp_path):
        theirs = [
            ".out.tmp",
            ".out.lock",
            f".out.{'a' * 32}.tmp",
            f".out.x.{'b' * 32}.lock",
            f".outer.{'c' * 32}.lock",
        ]
        for name in theirs:
            (tmp_path / name).touch()
        save(rays(read_table(X)), tmp_path / "out")
        assert names(tmp_path) == sorted([*theirs, "out"])

    def test_a_link_is_removed_and_not_what_it_leads_to(self, tmp_path):
        mine = tmp_path / "mine"
        mine.mkdir()
        (mine / "notes.txt").touch()
        (tmp_path / f".out.{'a' * 32}.lock").touch()
        (tmp_path / f".out.{'a' * 32}.tmp").symlink_to(mine)
        assert [path.name for path in leftovers(tmp_path / "out")] == [f".out.{'a' * 32}.tmp"]
        assert names(tmp_path) == ["mine"]
        assert names(mine) == ["notes.txt"]

    def test_without_locks_nothing_is_removed(self, tmp_path, monkeypatch):
        monkeypatch.setattr("conecollapse._files._take", lambda _: False)
        with temporary_beside(tmp_path / "out") as temporary:
            temporary.mkdir()
            assert list(leftovers(tmp_path / "out")) == []
            assert temporary.is_dir()
        assert names(tmp_path) == []


class TestInPlace:
    """Where two folders cannot swap names, the files are copied one by one."""

    @pytest.fixture(autouse=True)
    def earlier(self, tmp_path, monkeypatch):
        monkeypatch.setattr(publishing, "exchange", lambda *_: False)
        save(rays(read_table(X)), tmp_path / "out")
        return tmp_path / "out"

    def test_the_new_run_is_whole(self, earlier, tmp_path):
        save(rays(read_table(2 * X)), earlier)
        assert verify(earlier, 2 * X)
        assert names(tmp_path) == ["out"]

    def test_copies_of_the_earlier_run_by_hard_links_stay(self, earlier, tmp_path):
        backup = tmp_path / "backup"
        backup.mkdir()
        for file in earlier.iterdir():
            os.link(file, backup / file.name)
        save(rays(read_table(2 * X)), earlier)
        assert verify(backup, X)

    def test_a_full_disk_in_between_loses_neither(self, earlier, tmp_path, monkeypatch):
        """Half-way there is no run for anybody; the message names the folder that holds it, and the
        command verify puts it in place."""
        copy = publishing.shutil.copyfile

        def full(source, target):
            if Path(target).name == publishing.RAYS:
                raise OSError(errno.ENOSPC, "No space left on device")
            return copy(source, target)

        monkeypatch.setattr(publishing.shutil, "copyfile", full)
        with pytest.raises(
            RunFolderError, match="No space left on device; they are complete in"
        ) as caught:
            save(rays(read_table(2 * X)), earlier)
        (left,) = tmp_path.glob(".out.*.tmp")
        assert str(left) in str(caught.value)
        with pytest.raises(RunFolderError, match="holds no run"):
            verify(earlier, 2 * X)
        monkeypatch.setattr(publishing.shutil, "copyfile", copy)
        np.save(tmp_path / "data.npy", 2 * X)
        with pytest.raises(SystemExit) as ended:
            main(["verify", str(earlier), "--data", str(tmp_path / "data.npy")])
        assert ended.value.code == 0
        (tmp_path / "data.npy").unlink()
        assert names(tmp_path) == ["out"]

    def test_ctrl_c_in_between_ends_with_the_new_run(self, earlier, tmp_path, monkeypatch):
        copy, stops = publishing.shutil.copyfile, [KeyboardInterrupt]

        def stopped(source, target):
            if stops:
                raise stops.pop()
            return copy(source, target)

        monkeypatch.setattr(publishing.shutil, "copyfile", stopped)
        with pytest.raises(KeyboardInterrupt):
            save(rays(read_table(2 * X)), earlier)
        assert verify(earlier, 2 * X)
        assert names(tmp_path) == ["out"]


def test_the_working_directory_stays_the_same_folder(tmp_path, monkeypatch):
    """A shell that sits in the folder still sits in it afterwards."""
    save(rays(read_table(X)), tmp_path / "out")
    monkeypatch.chdir(tmp_path / "out")
    save(rays(read_table(2 * X)), ".")
    assert os.path.samefile(".", tmp_path / "out")
    assert verify(".", 2 * X)


@pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="the system has no such step")
def test_two_folders_swap_names(tmp_path):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    assert exchange(tmp_path / "one", tmp_path / "other")
    assert (names(tmp_path / "one"), names(tmp_path / "other")) == (["other"], ["one"])
    assert not exchange(tmp_path / "one", tmp_path / "none")
    assert names(tmp_path) == ["one", "other"]
