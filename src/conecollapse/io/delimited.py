"""``.csv`` and ``.tsv``: numbers with or without a heading and a column of names, separated by
commas, semicolons or tabs.

`conecollapse.io.layout` decides what is a heading and what is a name. The file is read line by
line; only its numbers and names are kept.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path

import numpy as np

from conecollapse._errors import InvalidInputError
from conecollapse.io.layout import ROWS_JUDGED, Layout, is_number, is_text, layout_of
from conecollapse.io.matrix import Matrix
from conecollapse.io.names import as_names
from conecollapse.io.opening import Line, rows_of, suffix

TEXT = 4  # words that no number has
MAX_CELLS_JUDGED = 2**20  # fewer rows are judged if they have more cells than this


def read_delimited(path: Path, header: bool | None = None, names: bool | None = None) -> Matrix:
    """Read such a table. An error names the line, the column and the value."""
    lines = rows_of(path, suffix(path))
    first = _first(lines)
    if not first:
        raise InvalidInputError(f"{path.name} has no rows.")
    layout = layout_of([cells for _, cells in first], header, names)
    heading = first[0][1] if layout.header else None
    body = first[1:] if layout.header else first
    if not body:
        raise InvalidInputError(f"{path.name} has a heading and no rows of numbers.")
    width = len(body[0][1])
    columns = None if heading is None else _columns(heading, width, layout, path)
    called: list[str] = []
    numbers = array("d")
    for number, cells in chain(body, lines):
        if len(cells) != width:
            raise InvalidInputError(
                f"line {number} of {path.name} has {len(cells)} cells where the lines before have"
                f" {width}; is a separator missing, or a name with a separator not in quotes?"
            )
        if layout.names:
            called.append(cells[0])
        _extend(numbers, cells, number, columns, layout, path)
    values = np.frombuffer(numbers) if len(numbers) else np.empty(0)
    return Matrix(
        values.reshape(-1, width - layout.names) if len(numbers) else np.empty((len(called), 0)),
        as_names(called, "rows") if layout.names else None,
        None if columns is None else as_names(columns, "columns"),
        row_word=layout.word,
        layout=layout,
    )


def _first(lines: Iterator[Line]) -> list[Line]:
    """The rows by which the layout is judged."""
    found: list[Line] = []
    cells = 0
    for line in lines:
        found.append(line)
        cells += len(line[1])
        if len(found) > ROWS_JUDGED or cells > MAX_CELLS_JUDGED:
            break
    return found


def _columns(heading: list[str], width: int, layout: Layout, path: Path) -> list[str]:
    """The names of the columns of numbers: the heading, without the cell over the names if it has
    one."""
    n_columns = width - layout.names
    if len(heading) not in (width, n_columns):
        raise InvalidInputError(
            f"the heading of {path.name} has {len(heading)} cells, but the line below has {width};"
            " give it as many."
        )
    return heading[len(heading) - n_columns :]


def _extend(
    numbers: array[float],
    cells: list[str],
    number: int,
    columns: list[str] | None,
    layout: Layout,
    path: Path,
) -> None:
    skip = int(layout.names)
    line = "".join(cells[skip:])
    # where Python's float is as strict as `is_number`, and faster
    if line.isascii() and "_" not in line:
        with suppress(ValueError):
            numbers.extend(map(float, cells[skip:]))
            return
    j = next(j for j, cell in enumerate(cells) if j >= skip and not is_number(cell))
    row = f" ({cells[0]!r})" if layout.names else ""
    column = "" if columns is None else f" ({columns[j - skip]!r})"
    where = f"line {number}{row}, column {j + 1}{column} of {path.name}"
    if not is_text(cells[j]):
        raise InvalidInputError(
            f"{where} holds no number ({cells[j]!r}); remove or impute missing values first."
        )
    remedy = "correct it, or drop that column"
    if columns is not None and len(cells[j].split()) >= TEXT:
        remedy = f"if these are texts, pass text_column={str(columns[j - skip])!r}"
    raise InvalidInputError(
        f"{where} holds {cells[j][:40]!r} where a number belongs{_hint(cells[j])}; {remedy}."
    )


def _hint(cell: str) -> str:
    if "," in cell and len(cell.split()) < TEXT:
        return ", with a decimal point"
    digits = cell.strip().replace("_", "")
    return (
        ", with only the digits 0 to 9"
        if digits and all(letter.isdigit() or letter in ".+-eE" for letter in digits)
        else ""
    )
