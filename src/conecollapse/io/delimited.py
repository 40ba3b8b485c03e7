"""``.csv`` and ``.tsv``: numbers with or without a heading and a column of names, separated by commas, semicolons or tabs.

What is a heading and what a name is decided on the first rows, by majority, so that one stray text is an error and not a name:

- the first line is a heading when at least half of its cells after the first are texts, or its first cell is empty, or it is one cell
  shorter than the lines below (so R writes its tables);
- the first column holds names when most of its cells below the heading are texts, or the heading leaves its cell empty, or the
  heading is one cell shorter.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

import numpy as np

from conecollapse._errors import InvalidInputError
from conecollapse._types import FloatArray
from conecollapse.io.matrix import Matrix
from conecollapse.io.names import as_names
from conecollapse.io.opening import suffix, text_of

SEPARATORS = ",;\t"
LOOKED_AT = 100  # rows by which heading and names are told from numbers
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "-", "?"})

Line = tuple[int, list[str]]


def read_delimited(path: Path) -> Matrix:
    """Read such a table; a row of another length, or a text among the numbers, is named with its line, column and value."""
    text = text_of(path)
    lines = _lines(text, "\t" if suffix(path) == ".tsv" else _separator(text), path)
    first = list(islice(lines, LOOKED_AT + 1))
    if not first:
        raise InvalidInputError(f"{path.name} has no rows.")
    heading, has_names, width = _layout(first)
    body = chain(first[1:] if heading is not None else first, lines)
    names: list[str] = []
    rows = []
    for number, cells in body:
        if len(cells) != width:
            raise InvalidInputError(
                f"line {number} of {path.name} has {len(cells)} cells where the lines before have {width}; "
                "is a separator missing, or a name with a separator not in quotes?"
            )
        if has_names:
            names.append(cells[0])
        rows.append(_numbers(cells, number, heading, has_names, path))
    if not rows:
        raise InvalidInputError(f"{path.name} has a heading and no rows of numbers.")
    word = heading[0] if heading is not None and has_names and len(heading) == width else ""
    heads = None if heading is None else heading[len(heading) - len(rows[0]) :]
    return Matrix(
        np.vstack(rows),
        as_names(names, "rows") if has_names else None,
        None if heads is None else as_names(heads, "columns"),
        row_word=word,
    )


def _separator(text: str) -> str:
    """Of the three, the one that occurs most often in the first line outside quotes."""
    line = text.lstrip("\r\n").split("\n", 1)[0]
    outside = "".join(line.split('"')[::2])
    return max(SEPARATORS, key=outside.count)


def _lines(text: str, separator: str, path: Path) -> Iterator[Line]:
    """Cells of each line that is not empty, with the number of the line that it ends on."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        for cells in reader:
            if cells:
                yield reader.line_num, cells
    except csv.Error as error:
        raise InvalidInputError(f"line {reader.line_num} of {path.name} cannot be read: {error}; is a quote left open?") from None


def _layout(first: list[Line]) -> tuple[list[str] | None, bool, int]:
    """The heading or None, whether the first column holds names, and how many cells a row has."""
    top, below = first[0][1], [cells for _, cells in first[1:]]
    width = len(below[0]) if below else len(top)
    if below and len(top) == width - 1:
        return top, True, width
    texts = sum(_is_text(cell) for cell in top[1:])
    starts = [_is_text(cells[0]) for cells in below]
    is_heading = (
        (len(top) > 1 and 2 * texts >= len(top) - 1)
        or (top[0].strip() == "" and len(top) > 1)
        or (_is_text(top[0]) and bool(starts) and not any(starts))
    )
    if not is_heading:
        starts.append(_is_text(top[0]))
    named = 2 * sum(starts) > len(starts)
    return (top if is_heading else None), (named or (is_heading and top[0].strip() == "")) and width > 1, width


def _is_text(cell: str) -> bool:
    if cell.strip().lower() in MISSING:
        return False
    try:
        float(cell)
    except ValueError:
        return True
    return False


def _numbers(cells: list[str], number: int, heading: list[str] | None, has_names: bool, path: Path) -> FloatArray:
    skip = int(has_names)
    try:
        return np.array([float(cell) for cell in cells[skip:]])
    except ValueError:
        j = next(j for j, cell in enumerate(cells) if j >= skip and (_is_text(cell) or cell.strip().lower() in MISSING - {"nan"}))
    row = f" ({cells[0]!r})" if has_names else ""
    column = "" if heading is None else f" ({heading[len(heading) - len(cells) + j]!r})"
    where = f"line {number}{row}, column {j + 1}{column} of {path.name}"
    if cells[j].strip().lower() in MISSING:
        raise InvalidInputError(f"{where} holds no number ({cells[j]!r}); remove or impute missing values first.")
    hint = ", with a decimal point" if "," in cells[j] else ""
    raise InvalidInputError(f"{where} holds {cells[j][:40]!r} where a number belongs{hint}; correct it, or drop that column.")
