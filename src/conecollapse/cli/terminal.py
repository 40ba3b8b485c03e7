"""What goes to the terminal: results to stdout, notes and progress to stderr."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from conecollapse._progress import showing
from conecollapse._types import Progress as Callback
from conecollapse.runs.plain import plain

PIPE_WIDTH = 160  # characters of a line that goes to a file or a pipe
ARGUMENTS = (
    *(
        "features_in",
        "header",
        "names",
        "image_shape",
        "normalize",
        "max_residual",
        "max_rays",
        "prove",
        "data",
        "tol",
        "force",
    ),
    *("contamination", "locality", "outliers", "bands", "layer", "text_column", "variable", "clip"),
    *("mask", "label_column"),
)
# that set these arguments of the library
OPTIONS = {name: f"--{name.replace('_', '-')}" for name in ARGUMENTS}
OPTIONS |= {"n_components": "-k", "download": "conecollapse datasets fetch"}
ARGUMENT = re.compile(
    rf"""\b({"|".join(OPTIONS)})\b(?:=("[^"]+"|'[^']+'|True|False|\.\.\.)|(?= must be\b))"""
)
# as the geometry names its steps
CONE_STAGES = ("cone", "products", "supports", "search", "settle")
STAGES = dict.fromkeys(CONE_STAGES, "finding the rays")
STAGES |= {
    "rank": "choosing the number of clusters",
    "clusters": "clustering",
    "unmixing": "finding the components",
    "report": "writing the results",
}


def as_options(text: str) -> str:
    """A message of the library with its arguments replaced by the options of the command.

    The library names an argument with a value (``header=False``, ``data=...``), or in
    "``normalize`` must be ...".

    Examples
    --------
    >>> as_options('pass features_in="rows", header=False or names=True')
    'pass --features-in rows, --no-header or --names'
    >>> as_options("n_components must be 'auto' or an integer of at least 1; got 0.")
    "-k must be 'auto' or an integer of at least 1; got 0."
    """
    return ARGUMENT.sub(_as_option, text)


def _as_option(found: re.Match[str]) -> str:
    name, value = found[1], found[2]
    option = OPTIONS[name]
    if value in (None, "...", "True"):
        return option
    return f"--no-{name}" if value == "False" else f"{option} {value[1:-1]}"


def say(text: str) -> None:
    """A line of results."""
    print(text)


def note(text: str) -> None:
    """A line on stderr, as one sentence whatever the width of the terminal."""
    print(f"conecollapse: {as_options(text)}", file=sys.stderr)


def show_note(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
    """In place of `warnings.showwarning`: only the text, and no deprecations of other packages."""
    if not issubclass(
        category, (DeprecationWarning, FutureWarning, PendingDeprecationWarning, ResourceWarning)
    ):
        note(f"note: {message}")


def say_json(content: dict[str, Any]) -> None:
    """One JSON object."""
    print(json.dumps(plain(content), ensure_ascii=False))


def say_table(heading: list[str], rows: list[list[str]]) -> None:
    """A table; numbers to the right."""
    table = Table(box=SIMPLE)
    for place, name in enumerate(heading):
        numbers = all(row[place].replace(".", "", 1).isdigit() for row in rows if row[place])
        table.add_column(name, justify="right" if numbers else "left")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console = Console()
    (console if console.is_terminal else Console(width=PIPE_WIDTH)).print(table)


@contextmanager
def working(what: str) -> Iterator[Callback]:
    """Shows that work goes on, after two seconds and on a terminal only; gives the callback that
    moves the bar, or None."""
    with showing(what, names=STAGES) as display:
        display.tell(what, 0, 1)
        yield display.tell if display.screen is not None else None
