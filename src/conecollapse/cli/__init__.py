"""The command. An error is one sentence on stderr and an exit code; ``--debug`` shows where it came
from.

Exit codes: 0 done, 1 an error in the data or the options or a failed verification, 130 interrupted.
`commands` holds the commands. This module imports nothing that takes time, so that Ctrl-C gets an
answer while all else is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

DONE, FAILED, INTERRUPTED = 0, 1, 130
STOPPED = "interrupted; unfinished results were not written."


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Entry point: errors in one sentence, warnings as notes."""
    from conecollapse._errors import MissingDependencyError, optional

    try:
        with optional("The command", "cli"):
            from conecollapse.cli.commands import run
        code = run(arguments)
    except MissingDependencyError as error:
        print(f"conecollapse: {error}", file=sys.stderr)
        code = FAILED
    except KeyboardInterrupt:  # in an import, or while another Ctrl-C was dealt with
        print(f"conecollapse: {STOPPED}", file=sys.stderr)
        code = INTERRUPTED
    with suppress(OSError):  # the reader of a pipe may be gone
        sys.stdout.flush()
    sys.exit(code)
