"""What goes to the terminal: results to stdout, notes and progress to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from conecollapse._progress import showing
from conecollapse._types import Progress as Callback
from conecollapse.runs.folder import MODEL, REPORT
from conecollapse.runs.values import plain

PIPE_WIDTH = 160  # characters of a line that goes to a file or a pipe
# options whose name is not that of the argument
OPTIONS = {"n_components": "-k", "download": "conecollapse datasets fetch"}
# as the geometry names its steps
CONE_STAGES = ("cone", "products", "supports", "search", "settle")
STAGES = dict.fromkeys(CONE_STAGES, "finding the rays")
STAGES |= {
    "rank": "choosing the number of clusters",
    "clusters": "clustering",
    "layout": "drawing the samples",
    "programs": "finding the programs",
    "unmixing": "finding the components",
    "novelty": "judging the samples",
    "report": "writing the results",
}


def as_option(name: str, *value: Any) -> str:
    """An argument of the library as messages of the command name it: the option that sets it.

    Examples
    --------
    >>> as_option("features_in", "rows"), as_option("header", False), as_option("n_components")
    ('--features-in rows', '--no-header', '-k')
    """
    option = OPTIONS.get(name, f"--{name.replace('_', '-')}")
    if value in ((), (...,), (True,)):
        return option
    return f"--no-{option[2:]}" if value == (False,) else f"{option} {value[0]}"


def say(text: str) -> None:
    """A line of results."""
    print(text)


def note(text: str) -> None:
    """A line on stderr, as one sentence whatever the width of the terminal."""
    print(f"conecollapse: {text}", file=sys.stderr)


def show_note(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
    """In place of `warnings.showwarning`: only the text, and no deprecations of other packages."""
    if not issubclass(
        category, (DeprecationWarning, FutureWarning, PendingDeprecationWarning, ResourceWarning)
    ):
        note(f"note: {message}")


def say_json(content: dict[str, Any]) -> None:
    """One JSON object."""
    print(json.dumps(plain(content), ensure_ascii=False))


def say_run_as_json(run: Any, folder: Path, **more: Any) -> None:
    """One JSON object about a run that was written to ``folder``."""
    table = run.table
    where = {"folder": str(folder), "orientation": table.why, "read_as": table.read_as}
    say_json({**where, **more, **run.facts(), "timings": run.timings})


def say_table_read(name: str, table: Any, *notes: str) -> None:
    """The size of the table, its orientation, what was taken as heading and names, and notes."""
    say(f"{name}: {table.n_samples} samples, {table.n_features} features; {table.why}.")
    for line in filter(None, (table.read_as, *notes)):
        say(f"{line}.")


def say_where(folder: Path) -> None:
    """Where the results are."""
    page, model = folder / REPORT, folder / MODEL
    if model.is_file():
        size = f"{model.stat().st_size / 1e6:.1f} MB"
        say(
            f"{MODEL} ({size}) is kept for predict: the folder holds data; --no-model leaves it out"
        )
    say(f"results in {folder}{f', report in {page}' if page.exists() else ''}")


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
