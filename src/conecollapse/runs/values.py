"""Values as JSON and spreadsheets can hold them.

A spreadsheet takes a cell that begins with ``=``, ``+``, ``-`` or ``@`` for a formula, also after
white space; a quote ``'`` before it makes it text. Names that begin with quotes before such a sign
get one more, so that `original` gives every name back as it was.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from conecollapse.runs.folder import MARKERS

SIGNS = "=+-@＝＋－＠"  # noqa: RUF001 - some spreadsheets take the wide signs for the plain ones
QUOTE = "'"


def plain(value: Any) -> Any:
    """``value`` as JSON can hold it: arrays become lists, numbers that are not finite None, other
    objects text.

    Examples
    --------
    >>> import numpy as np
    >>> plain({"a": np.float32(0.5), "b": (1, np.inf)})
    {'a': 0.5, 'b': [1, None]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):  # an array or a number of NumPy's
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else repr(value)


def harmless(text: str) -> str:
    """``text`` as it is safe in a cell of a spreadsheet.

    Examples
    --------
    >>> harmless("=1+1"), harmless("TP53"), original(harmless("=1+1"))
    ("'=1+1", 'TP53', '=1+1')
    """
    return QUOTE + text if _is_formula(text) else text


def original(text: str) -> str:
    """The text before `harmless`."""
    return text[1:] if text.startswith(QUOTE) and _is_formula(text) else text


def _is_formula(text: str) -> bool:
    """Whether a sign, or a tab or the end of a line, comes first; quotes before it do not count."""
    rest = text.lstrip(QUOTE)
    return rest[:1] in ("\t", "\r", "\n") or rest.lstrip()[:1] in tuple(SIGNS)


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


def write_markers(folder: Path, what: str, profiles: Any, lists: Sequence[Sequence[Any]]) -> None:
    """Write markers.csv: for each row of ``profiles`` the features that distinguish it (`lists` of
    `TopFeature`), with its value and the largest elsewhere."""
    heading = [what, "rank", "feature", "value", "largest elsewhere"]
    rows = (
        (k, place, top.name, float(profiles[k, top.column]), _elsewhere(profiles, k, top.column))
        for k, tops in enumerate(lists)
        for place, top in enumerate(tops, 1)
    )
    write_csv(folder / MARKERS, heading, rows)


def _elsewhere(profiles: Any, k: int, column: int) -> float:
    return max((float(row[column]) for j, row in enumerate(profiles) if j != k), default=0.0)
