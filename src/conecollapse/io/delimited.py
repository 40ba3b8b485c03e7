"""``.csv`` and ``.tsv``: numbers with or without a heading and a column of names, separated by
commas, semicolons or tabs.

`conecollapse.io.headings` decides what is a heading and what is a name. The file is read line by
line; only its numbers and names are kept.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from itertools import chain
from pathlib import Path

import numpy as np

from conecollapse._errors import InvalidInputError, argument
from conecollapse.io.headings import ROWS_JUDGED, detect_layout, is_number, is_text
from conecollapse.io.matrix import Matrix, as_names
from conecollapse.io.text import Line, check_width, is_gzipped, read_text, rows_of

MIN_TEXT = 4  # words of a cell that is more than a name
MAX_CELLS_JUDGED = 2**20  # fewer rows are judged if they have more cells than this


def read(path: Path, header: bool | None = None, names: bool | None = None) -> Matrix:
    """Read such a table. An error names the line, the column and the value."""
    content = read_text(path)
    lines = rows_of(content, path)
    first = _first_lines(lines)
    if not first:
        raise InvalidInputError(f"{path.name} has no rows.")
    layout = detect_layout([cells for _, cells in first], header, names)
    heading = first.pop(0)[1] if layout.header else None
    if not first:
        raise InvalidInputError(f"{path.name} has a heading and no rows of numbers.")
    width, skip = len(first[0][1]), int(layout.names)
    if heading is not None and len(heading) not in (width, width - skip):
        raise InvalidInputError(
            f"the heading of {path.name} has {len(heading)} cells, but the line below has {width};"
            " give it as many."
        )
    columns = None if heading is None else heading[len(heading) - width + skip :]
    row_names: list[str] = []
    numbers = array("d")
    for line in chain(first, lines):
        check_width(line, width, path)
        row_names += line[1][:skip]
        _append_numbers(numbers, line, skip, columns, path)
    n_numbers = width - skip
    values = np.frombuffer(numbers) if numbers else np.empty((len(row_names), 0))
    return Matrix(
        values.reshape(-1, n_numbers) if numbers else values,
        as_names(row_names, "rows") if layout.names else None,
        None if columns is None else as_names(columns, "columns"),
        row_word=layout.word,
        layout=layout,
        sha256="" if is_gzipped(path) else sha256(content).hexdigest(),
    )


def _first_lines(lines: Iterator[Line]) -> list[Line]:
    """The lines by which the layout is judged."""
    first: list[Line] = []
    n_cells = 0
    for line in lines:
        first.append(line)
        n_cells += len(line[1])
        if len(first) > ROWS_JUDGED or n_cells > MAX_CELLS_JUDGED:
            break
    return first


def _append_numbers(
    numbers: array[float], line: Line, skip: int, columns: list[str] | None, path: Path
) -> None:
    """Append the numbers of a line after the first ``skip`` cells, or say which cell holds none."""
    number, cells = line
    text = "".join(cells[skip:])
    # where Python's float is as strict as `is_number`, and faster
    if text.isascii() and "_" not in text:
        with suppress(ValueError):
            numbers.extend(map(float, cells[skip:]))
            return
    j = next(j for j, cell in enumerate(cells) if j >= skip and not is_number(cell))
    row = f" ({cells[0]!r})" if skip else ""
    column = "" if columns is None else f" ({columns[j - skip]!r})"
    where = f"line {number}{row}, column {j + 1}{column} of {path.name}"
    if not is_text(cells[j]):
        raise InvalidInputError(
            f"{where} holds no number ({cells[j]!r}); remove or impute missing values first."
        )
    remedy = "correct it, or drop that column"
    if columns is not None and len(cells[j].split()) >= MIN_TEXT:
        remedy = f"if these are texts, pass {argument('text_column', str(columns[j - skip]))}"
    raise InvalidInputError(
        f"{where} holds {cells[j][:40]!r} where a number belongs{_hint(cells[j])}; {remedy}."
    )


def _hint(cell: str) -> str:
    if "," in cell and len(cell.split()) < MIN_TEXT:
        return ", with a decimal point"
    digits = cell.strip().replace("_", "")
    if digits and all(letter.isdigit() or letter in ".+-eE" for letter in digits):
        return ", with only the digits 0 to 9"
    return ""
