"""``conecollapse verify``: does a folder of results still follow from the data?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from conecollapse.cli import options
from conecollapse.cli.terminal import say, say_json, working


def verify(
    folder: Annotated[
        Path, typer.Argument(help="A folder of results of another command.", show_default=False)
    ],
    data: options.MovedData = None,
    tol: Annotated[
        float | None, typer.Option(help="Tolerance to check the proof against; by default its own.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Check the results in FOLDER against the data; what is proven, with code that shares nothing
    with the solvers.

    Exit code 1 if a value, a name, a label or a claim of the certificate does not hold; the message
    names the feature or the sample.
    """
    from conecollapse.runs import verify as check

    with working("checking"):
        found = check(folder, data, tol)
    if as_json:
        say_json({"verified": True, **asdict(found), "notes": found.notes})
    else:
        say(str(found))
