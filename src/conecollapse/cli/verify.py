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
        Path, typer.Argument(help="A folder that cluster, rays or unmix wrote.", show_default=False)
    ],
    data: Annotated[Path | None, typer.Option(help="The data, if it was moved.")] = None,
    tol: Annotated[
        float | None, typer.Option(help="Tolerance to check the proof against; by default its own.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Check the results in FOLDER against the data, with code that shares nothing with the solvers.

    Exit code 1 if a value, a name, a label or a claim of the certificate does not hold; the message
    names the feature or the sample.
    """
    from conecollapse.runs.folder import settle
    from conecollapse.runs.reading import run_facts

    settle(folder)
    run_facts(folder)  # what is no run is refused before the checker is imported
    from conecollapse.runs import verify as check

    with working("checking"):
        found = check(folder, data, tol)
    say_json({"verified": True, **asdict(found)}) if as_json else say(str(found))
