"""Kills processes that write runs, and looks at what is there afterwards.

``python tests/kill_runs.py calls`` kills a run before every one of its calls to the file system,
``random 200`` 200 runs at random moments, ``commands 200`` 200 commands `conecollapse rays` at
random moments. Each process is a fork of this one, so that hundreds take seconds. A run that is
lost, half there or a mixture of two, and leftovers that stay, are AssertionErrors.
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

from conecollapse._files import OLD, remove_leftovers
from conecollapse.runs import folder as publishing
from conecollapse.runs import verify

# between audit events nothing happens to files but reading, and writing into files that are open
CALLS = ("open", "os.", "shutil.", "ctypes.")
FILES = (publishing.LABELS, publishing.RAYS, publishing.FACTORS, publishing.CERTIFICATE)


def write(path: Path, name: str) -> None:
    """A run as `save` writes one, whose files all hold its name; a run called "old" has a file that
    "new" has not."""
    with publishing.staged(path, force=True) as staging:
        for file in FILES:
            if (file, name) != (publishing.LABELS, "new"):
                (staging / file).write_text(name)
        facts = {"format": publishing.FORMAT, "name": name}
        (staging / publishing.FACTS).write_text(json.dumps(facts))


def found(path: Path) -> str | None:
    """The name of the run in a folder, None if there is no folder; anything else is an error."""
    if not path.exists():
        return None
    name = json.loads((path / publishing.FACTS).read_text())["name"]
    files = {file.name: file.read_text() for file in path.iterdir()}
    del files[publishing.FACTS]
    expected = set(FILES) - ({publishing.LABELS} if name == "new" else set())
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


def every(earlier: str | None, around: Path) -> int:
    """Kill a run at its call 0, 1, 2, ... until one is not killed; how many were."""
    n = 0
    while once(earlier, around, arm=lambda n=n: at_call(n)):
        n += 1
    return n


def at_random(earlier: str | None, count: int, around: Path, chance: random.Random) -> None:
    """Kill so many runs at random moments."""
    start = time.monotonic()
    killed(lambda: write(around / "timed", "old"))
    usual = time.monotonic() - start
    shutil.rmtree(around / "timed")
    n = 0
    while n < count:
        n += once(earlier, around, after=chance.uniform(0, usual))


def once(earlier: str | None, around: Path, **when: Any) -> bool:
    """Write a run in place of an ``earlier`` one and kill it; whether it was killed. There is the
    earlier run or the new one, and a day later the next run leaves nothing beside it."""
    path = around / "out"
    shutil.rmtree(path, ignore_errors=True)
    if earlier is not None:
        write(path, earlier)
    was_killed = killed(lambda: write(path, "new"), **when)
    assert found(path) in ((earlier, "new") if was_killed else ("new",))
    for temporary in around.glob(".out.*"):
        os.utime(temporary, (0, time.time() - OLD - 1))
    remove_leftovers(path)
    assert os.listdir(around) == (["out"] if path.exists() else [])
    return was_killed


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
            main(["rays", "table.csv", "--out", "out", "--force"])

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
    return kills, replaced


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("how", choices=("calls", "random", "commands"))
    parser.add_argument("count", type=int, nargs="?", default=200, help="of kills")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as name:
        around = Path(name).resolve()
        if options.how == "commands":
            kills, replaced = commands(options.count, around, chance)
            print(f"{kills} commands killed: a whole run each time; {replaced} had replaced it")
        for earlier in (None, "old") if options.how != "commands" else ():
            if options.how == "random":
                at_random(earlier, options.count, around, chance)
                kills = options.count
            else:
                kills = every(earlier, around)
            what = "a new run" if earlier is None else "a run that replaces one"
            print(f"{what}: {kills} killed, and there was a whole run each time or none before")
        os.chdir("/")


if __name__ == "__main__":
    main()
