"""Files of results that every command writes: a table as .csv, and the page of a report."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from conecollapse.runs.formulas import harmless


def write_csv(path: Path, heading: list[str], rows: Iterable[Sequence[Any]]) -> None:
    """Text that a spreadsheet would run is written as text; a row with a carriage return in it
    needs quotes, which Python leaves out."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        plain, quoted = (
            csv.writer(file, lineterminator="\n", quoting=kind)
            for kind in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL)
        )
        plain.writerow(heading)
        for row in rows:
            cells = [harmless(cell) if isinstance(cell, str) else repr(cell) for cell in row]
            (quoted if any("\r" in str(cell) for cell in cells) else plain).writerow(cells)


def wrote_page(path: Path, run: Any, write_report: Callable[[Path, Any], None] | None) -> bool:
    """Write the report; False if Ctrl-C came. A report that fails must not lose the results, so
    there is a warning instead."""
    if write_report is None:
        return True
    try:
        write_report(path, run)
    except KeyboardInterrupt:
        path.unlink(missing_ok=True)
        return False
    except OSError:
        raise
    except Exception as error:
        path.unlink(missing_ok=True)
        warnings.warn(
            f"the report could not be made ({type(error).__name__}: {error}); the other results"
            " were written.",
            UserWarning,
            stacklevel=3,
        )
    return True
