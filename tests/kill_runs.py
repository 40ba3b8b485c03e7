"""Kills processes that replace a run, and looks at what is there afterwards.

``python tests/kill_runs.py calls`` kills a run before every one of its calls to the file system,
``lines`` before every line of the modules that publish a run, ``random 200`` 200 runs at random
moments, ``commands 200`` 200 commands `conecollapse rays` at random moments. Each process is a fork
of this one, so that hundreds take seconds. Anything that is lost or left behind is an
AssertionError.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import conecollapse._files
from conecollapse.runs import folder as publishing
from conecollapse.runs import verify

PUBLISHING = (publishing.__file__, conecollapse._files.__file__)
# of these kinds only the first two are replaced in one step; the others hold no run for a moment,
# but never a mixture of two
KINDS = ("new", "replaced", "beside other files", "working directory", "no exchange")
AT_ONCE = ("new", "replaced")
# between audit events nothing happens to files but reading, and writing into files that are open
CALLS = ("open", "os.", "shutil.", "fcntl.", "ctypes.")


def write(path: Path, name: str, force: bool) -> None:
    """A run as `save` writes one, whose files all hold its name; a run called "old" has a file that
    "new" has not."""
    with publishing.staged(path, force=force) as staging:
        for file in (
            publishing.LABELS,
            publishing.RAYS,
            publishing.FACTORS,
            publishing.CERTIFICATE,
        ):
            if (file, name) != (publishing.LABELS, "new"):
                (staging / file).write_text(name)
        (staging / publishing.FACTS).write_text(
            json.dumps({"format": publishing.FORMAT, "name": name})
        )


def found(path: Path) -> str | None:
    """The name of the run in a folder, None if it holds none; a mixture of two runs is an error."""
    if not publishing.is_run(path):
        return None
    name = json.loads((path / publishing.FACTS).read_text())["name"]
    files = {
        file.name: file.read_text()
        for file in path.iterdir()
        if file.name in publishing.RUN_FILES - {publishing.FACTS}
    }
    expected = {publishing.LABELS, publishing.RAYS, publishing.FACTORS, publishing.CERTIFICATE} - (
        {publishing.LABELS} if name == "new" else set()
    )
    assert files == dict.fromkeys(expected, name), f"a mixture passes as the run {name!r}: {files}"
    return name


def killed(
    act: Callable[[], None], arm: Callable[[], None] = lambda: None, after: float | None = None
) -> bool:
    """Run ``arm`` and ``act`` in a fork, for so many seconds at most; whether it was killed."""
    child = os.fork()
    if child == 0:
        code = 70
        try:
            arm()
            act()
            code = 0
        finally:
            os._exit(code)
    if after is not None:
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, "the run failed"
    return False


def at_call(n: int) -> None:
    """Kill this process before its n-th call to the file system."""
    left = [n]

    def hook(event: str, _: object) -> None:
        if event.startswith(CALLS):
            left[0] -= 1
            if left[0] == -1:  # os.kill is such a call itself
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def at_line(n: int) -> None:
    """Kill this process before the n-th line that it runs of the modules that publish a run."""
    left = [n]

    def trace(frame: object, event: str, _: object) -> object:
        if frame.f_code.co_filename not in PUBLISHING:
            return None
        if event == "line":
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)


def every(kind: str, arm: Callable[[int], None], around: Path) -> tuple[int, int]:
    """Kill a run of a kind at n = 0, 1, 2, ... until one is not killed; how many were, and how many
    of them left no run for the moment."""
    n = without = 0
    while True:
        was_killed, seen = once(kind, around, arm=lambda n=n: arm(n))
        if not was_killed:
            assert seen == "new"
            return n, without
        n, without = n + 1, without + (seen is None)


def at_random(kind: str, count: int, around: Path, chance: random.Random) -> tuple[int, int]:
    """Kill so many runs of a kind at random moments, most of them while they publish; numbers as of
    `every`."""
    start = time.monotonic()
    killed(lambda: write(around / "timed", "old", force=False))
    usual = time.monotonic() - start
    shutil.rmtree(around / "timed")
    n = without = 0
    while n < count:
        was_killed, seen = once(kind, around, after=chance.uniform(0, usual))
        n, without = n + was_killed, without + (seen is None)
    return n, without


def once(kind: str, around: Path, **when: Any) -> tuple[bool, str | None]:
    """Write a run of a kind and kill it; whether it was killed, and the run that was there then.
    After the next run nothing is left."""
    path, force = around / "out", kind == "beside other files"
    publishing.exchange = (
        (lambda *_: False) if kind == "no exchange" else conecollapse._files.exchange
    )
    shutil.rmtree(path, ignore_errors=True)
    if kind != "new":
        write(path, "old", force)
    if force:
        (path / "notes.txt").write_text("mine")
    os.chdir(path if kind == "working directory" else around)
    was_killed = killed(lambda: write(path, "new", force), **when)
    seen = found(path)
    assert seen in (
        (None, "new")
        if kind == "new"
        else ("old", "new")
        if kind in AT_ONCE
        else (None, "old", "new")
    ), seen
    publishing.check_folder(path, force=force)  # as the next command does first
    settled = found(path)
    assert settled == (seen or settled), f"the run {seen!r} became {settled!r}"
    assert settled or kind == "new", "the earlier run is gone, and the new one is not there"
    _check_nothing_left(path, settled, force)
    os.chdir(around)
    write(path, "again", force)
    _check_nothing_left(path, "again", force)
    return was_killed, seen


def _check_nothing_left(path: Path, name: str | None, force: bool) -> None:
    assert sorted(os.listdir(path.parent)) == ["out"] * (name is not None), os.listdir(path.parent)
    if name is not None:
        assert found(path) == name
        assert (path / "notes.txt").exists() == force
        assert set(os.listdir(path)) <= publishing.RUN_FILES | {"notes.txt"}


def commands(n: int, around: Path, chance: random.Random) -> tuple[int, int]:
    """Kill n commands that replace a run, each at a random moment; how many were killed, and how
    many of them had published their run."""
    from conecollapse.cli import main

    table = [[chance.random() for _ in range(12)] for _ in range(8)]
    (around / "table.csv").write_text(
        "\n".join(",".join(f"{x:.3f}" for x in row) for row in table) + "\n"
    )
    os.chdir(around)
    sys.stdout.flush()

    def command() -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        with suppress(SystemExit):
            main(["rays", "table.csv", "--out", "out"])

    killed(command)  # the first run, and kernels
    start = time.monotonic()
    killed(command)
    usual = time.monotonic() - start
    kills = replaced = 0
    while kills < n:
        before = (around / "out" / "run.json").stat().st_ino
        kills += killed(command, after=chance.uniform(0, 1.1 * usual))
        verify(around / "out")
        replaced += before != (around / "out" / "run.json").stat().st_ino
    killed(command)
    verify(around / "out")
    assert sorted(os.listdir(around)) == ["out", "table.csv"], os.listdir(around)
    return kills, replaced


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("how", choices=("calls", "lines", "random", "commands"))
    parser.add_argument(
        "count", type=int, nargs="?", default=200, help="of kills at random moments"
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as name:
        around = Path(name).resolve()
        if options.how == "commands":
            kills, replaced = commands(options.count, around, chance)
            print(
                f"{kills} commands killed: a whole run each time, nothing left after the next;"
                f" {replaced} had replaced it"
            )
        for kind in KINDS if options.how != "commands" else ():
            if options.how == "random":
                kills, without = at_random(kind, options.count, around, chance)
            else:
                kills, without = every(kind, at_call if options.how == "calls" else at_line, around)
            print(
                f"{kind}: {kills} killed, {without} of them left no run until the next command,"
                " nothing is left after it"
            )
        os.chdir("/")


if __name__ == "__main__":
    main()
