"""The command. An error is one sentence on stderr and an exit code; ``--debug`` shows where it came
from.

Exit codes: 0 done, 1 an error in the data or the options or a failed verification, 130 interrupted.
`commands` holds the commands. This module imports nothing that takes time, so that Ctrl-C gets an
answer while all else is imported.
"""

from __future__ import annotations

import _thread
import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NoReturn

DONE, FAILED, INTERRUPTED = 0, 1, 130
STOPPED = "interrupted; unfinished results were not written."
SOON = 0.01  # seconds until a Ctrl-C that was lost is sent again


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Entry point: errors in one sentence, warnings as notes. Without ``arguments`` the process is
    the command's own, and so is Ctrl-C."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    owner = (
        arguments is None
        and in_main_thread
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    try:
        if owner:
            # first in, last out: then nothing is left to interrupt
            atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
            _leave_on_ctrl_c("interrupted; nothing was written.")
        run = _commands()
        if owner:
            sys.unraisablehook = _send_again
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code = run(arguments)
    except KeyboardInterrupt:  # while an error or another Ctrl-C was dealt with
        print(f"conecollapse: {STOPPED}", file=sys.stderr)
        code = INTERRUPTED
    if owner:
        _leave_on_ctrl_c("interrupted; the command had ended, and its results are complete.")
    with suppress(OSError):  # the reader of a pipe may be gone
        sys.stdout.flush()
    # sys.exit may end in a signal instead, if the interrupt passed through code in a string
    if owner and code == INTERRUPTED:
        os._exit(code)
    sys.exit(code)


def _commands() -> Callable[[Sequence[str] | None], int]:
    """What runs a command, imported here; without its packages one sentence ends the process."""
    from conecollapse._errors import MissingDependencyError, optional

    try:
        with optional("The command", "cli"):
            from conecollapse.cli.commands import run
    except MissingDependencyError as error:
        print(f"conecollapse: {error}", file=sys.stderr)
        sys.exit(FAILED)
    return run


def _leave_on_ctrl_c(message: str) -> None:
    """Let Ctrl-C end the process at once: others may catch or show a KeyboardInterrupt in an
    import, or while Python shuts down."""

    def leave(*_: object) -> None:
        with suppress(OSError):
            os.write(2, f"conecollapse: {message}\n".encode())
        os._exit(INTERRUPTED)

    signal.signal(signal.SIGINT, leave)


def _send_again(lost: sys.UnraisableHookArgs) -> None:
    """In place of `sys.unraisablehook`: a KeyboardInterrupt in a finalizer cannot stop the command,
    so it is sent again."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        threading.Timer(SOON, _thread.interrupt_main).start()
    else:
        sys.__unraisablehook__(lost)
