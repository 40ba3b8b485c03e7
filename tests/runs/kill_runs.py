"""Kills a process that writes a run before every one of its calls to the file system, and looks at
what is there afterwards.

Each process is a fork of this one, so that hundreds take seconds. A run that is lost, half there or
a mixture of two, and leftovers that stay, are AssertionErrors.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from conecollapse._files import OLD, remove_leftovers
from conecollapse.runs import folder as publishing

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


def killed(act: Callable[[], None]) -> bool:
    """Run ``act`` in a fork; whether it was killed."""
    child = os.fork()
    if child == 0:
        code = 70
        try:
            act()
            code = 0
        finally:
            os._exit(code)
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
    while once(earlier, around, n):
        n += 1
    return n


def once(earlier: str | None, around: Path, n: int) -> bool:
    """Write a run in place of an ``earlier`` one and kill it at its n-th call; whether it was
    killed. There is the earlier run or the new one, and a day later nothing is left beside it."""
    path = around / "out"
    shutil.rmtree(path, ignore_errors=True)
    if earlier is not None:
        write(path, earlier)

    def act() -> None:
        at_call(n)
        write(path, "new")

    was_killed = killed(act)
    assert found(path) in ((earlier, "new") if was_killed else ("new",))
    for temporary in around.glob(".out.*"):
        os.utime(temporary, (0, time.time() - OLD - 1))
    remove_leftovers(path)
    assert os.listdir(around) == (["out"] if path.exists() else [])
    return was_killed


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        around = Path(name).resolve()
        for earlier in (None, "old"):
            kills = every(earlier, around)
            what = "a new run" if earlier is None else "a run that replaces one"
            print(f"{what}: {kills} killed, and there was a whole run each time or none before")


if __name__ == "__main__":
    main()
