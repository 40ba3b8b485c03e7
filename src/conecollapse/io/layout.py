"""Detect whether the first line of a table is a heading, and whether the first column holds names.

The first line is a **heading** if

- it is one cell shorter than the lines below (R's ``write.table``), its first cell is empty
  (pandas' ``to_csv``, R's ``write.csv``), at least half of its cells after the first are text, or
  its first cell is text over a column of numbers;
- or it holds numbers that are labels, all different and unlike the numbers below:

  - they follow a word that names rows, such as "gene" or "id";
  - there are two or more, all years in rising order, and most numbers below are no years;
  - there are five or more in equal steps (0, 1, 2, 3, 4), or eight or more in rising order, and
    hardly any line below is like that;
  - they are whole, and every number below is 0 or has a decimal point.

The first column holds **names** if

- most of its cells are text, or the heading leaves its place empty or is one cell shorter;
- or it holds whole numbers, all different, under a word such as "id" or "index";
- or it holds such numbers under a word such as "gene" or "year", and they count from 0 or 1, are
  eight or more, or have at least three digits each;
- or there is no heading, and it alone counts eight or more rows from 0 or 1.

The first line and the first column are **axes**, as of a chromatogram, if the first cell is empty
or a text that is no word for rows such as "id", and the numbers after it, and the numbers below it,
three or more of each, rise or fall from the first to the last. The first column then holds names.

Otherwise numbers are data. Text decides by majority, so that a single text among numbers is an
error and not a name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "-", "?"})
NUMBER = re.compile(
    r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:inf|infinity|nan)",
    re.IGNORECASE,
)
WHOLE_NUMBER = re.compile(r"[0-9]{1,15}")
YEARS = (1500, 2200)
ROWS_JUDGED = 100  # rows by which heading and names are judged
# numbers in equal steps, or in rising order: of the 40320 orders of eight numbers, one rises
MIN_STEPS, MIN_RISING = 5, 8
MIN_AXIS = 3  # numbers of an axis; of text before numbers, fewer could be anything
# rows whose numbers are ids because they are all different, or because they count the rows
MIN_ID_ROWS = 8
MIN_ID_DIGITS = 3  # digits of every number of a shorter column of ids: smaller numbers are counts
SELDOM = 0.1  # largest share of the lines below that may rise like the first if that is a heading
EQUAL = 1e-6  # largest relative difference of steps that count as equal
FEATURE_WORDS = (
    *(
        "feature",
        "variable",
        "gene",
        "geneid",
        "genename",
        "genesymbol",
        "symbol",
        "probe",
        "probeid",
        "ensembl",
        "entrez",
        "transcript",
    ),
    *(
        "protein",
        "peptide",
        "metabolite",
        "marker",
        "otu",
        "taxon",
        "word",
        "term",
        "token",
        "pixel",
        "wavelength",
        "band",
    ),
)
SAMPLE_WORDS = (
    *(
        "sample",
        "sampleid",
        "cell",
        "cellid",
        "barcode",
        "document",
        "doc",
        "docid",
        "text",
        "patient",
        "subject",
        "individual",
    ),
    *("image", "file", "filename", "observation", "ob", "specimen", "user"),
)
AXES = ("wavelength", "band", "pixel")  # words for rows under which numbers may be an axis
ID_WORDS = ("id", "idx", "index", "key", "code", "accession", "unnamed", "rowname", "rowid")
ROW_WORDS = (
    *ID_WORDS,
    *FEATURE_WORDS,
    *SAMPLE_WORDS,
    "no",
    "nr",
    "number",
    "name",
    "row",
    "item",
    "year",
    "country",
    "region",
    "city",
    "species",
)


@dataclass(frozen=True)
class Layout:
    """What was taken as a heading and as names."""

    header: bool | None  # None where the columns have names of their own, as in a frame
    names: bool
    word: str = ""  # over the names
    axes: bool = False  # whether both are numbers along which was measured


def layout_of(
    rows: Sequence[Sequence[str]], header: bool | None = None, names: bool | None = None
) -> Layout:
    """The layout of a table that begins with these rows; ``header`` and ``names`` override what is
    detected.

    Examples
    --------
    >>> layout_of([["gene", "2001", "2002"], ["a", "1", "5"], ["b", "0", "2"]])
    Layout(header=True, names=True, word='gene', axes=False)
    >>> layout_of([["3", "1"], ["0", "2"]])
    Layout(header=False, names=False, word='', axes=False)
    """
    top, below = rows[0], rows[1:]
    width = len(below[0]) if below else len(top)
    is_short = len(top) == width - 1
    if header is None:
        header = is_short or _is_heading(top, below)
    body = below if header else rows
    axes = header and names is not False
    axes = axes and are_axes(["", *top] if is_short else top, [row[0] for row in body])
    if names is None:
        names = width > 1 and (
            axes
            or (header and is_short)
            or _are_names([row[0] for row in body], body, top[0] if header else None)
        )
    return Layout(header, names, top[0] if header and names and not is_short else "", axes)


def are_axes(heading: Sequence[str], column: Sequence[str]) -> bool:
    """Whether the numbers of a heading after its first cell, and those of the column below that
    cell, are axes along which was measured.

    Examples
    --------
    >>> are_axes(["Time (min)", "200", "210", "220"], ["0.1", "0.2", "0.3"])
    True
    >>> are_axes(["id", "200", "210", "220"], ["1", "2", "3"])
    False
    """
    word = heading[0].strip() if heading else "1"
    if word and (not is_text(word) or (_last_word(word, ROW_WORDS) and bare(word) not in AXES)):
        return False
    return all(
        len(cells) >= MIN_AXIS and (_rise(_values(cells)) or _rise(_values(cells)[::-1]))
        for cells in (heading[1:], column)
    )


def as_axis(names: Sequence[str], across: Sequence[str]) -> list[float]:
    """The numbers of an axis; none where they only count, or are years beside whole numbers."""
    if _counts(names):
        return []
    cells = [*names, *across]
    if all(map(_is_year, names)) and all(WHOLE_NUMBER.fullmatch(cell.strip()) for cell in cells):
        return []
    return _values(names)


def are_names(column: Sequence[str], head: str) -> bool:
    """Whether a column of numbers under a heading's word names the rows."""
    if not all(WHOLE_NUMBER.fullmatch(cell.strip()) for cell in column) or len(set(column)) < len(
        column
    ):
        return False
    # "users" over numbers that do not count the rows are counts of users
    is_plural = head.strip().lower().endswith("s")
    are_ids = _counts(column) or (
        not is_plural
        and (
            len(column) >= MIN_ID_ROWS or all(len(cell.strip()) >= MIN_ID_DIGITS for cell in column)
        )
    )
    return _last_word(head, ID_WORDS) or (are_ids and _last_word(head, ROW_WORDS))


def is_number(cell: str) -> bool:
    """Whether a cell holds a number in ASCII digits; ``1_000`` and other digits are text, although
    Python's float takes them."""
    return NUMBER.fullmatch(cell.strip()) is not None


def is_text(cell: str) -> bool:
    """Whether a cell holds text: neither a number nor a word for a missing value."""
    return not is_number(cell) and cell.strip().lower() not in MISSING


def bare(word: str) -> str:
    """A heading's letters in the singular, with the digits that belong to a word: "Unnamed: 0" is
    "unnamed", but NO2 is not "no"."""
    return "".join(
        part for part in re.findall(r"[a-z0-9]+", word.lower()) if not part.isdecimal()
    ).removesuffix("s")


def _is_heading(top: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    if len(top) > 1 and (not top[0].strip() or 2 * sum(map(is_text, top[1:])) >= len(top) - 1):
        return True
    if not below:
        return False
    starts = [is_text(row[0]) for row in below]
    if is_text(top[0]) and not any(starts):
        return True
    skip = int(2 * sum(starts) > len(starts))  # whether the first column holds names
    labels, lines = top[skip:], [row[skip:] for row in below]
    if skip and not is_text(top[0]):
        return False
    return _are_labels(labels, lines, follow_word=bool(skip) and _last_word(top[0], ROW_WORDS))


def _are_labels(
    labels: Sequence[str], lines: Sequence[Sequence[str]], *, follow_word: bool
) -> bool:
    """Whether these numbers are names of the columns below them."""
    values = _values(labels)
    if not values or len(set(values)) < len(values):
        return False
    if follow_word:
        return True
    if len(values) < 2:
        return False
    cells = [cell.strip() for line in lines for cell in line]
    is_whole = all(WHOLE_NUMBER.fullmatch(label.strip()) for label in labels)
    if (
        is_whole
        and _rise(values)
        and all(map(_is_year, labels))
        and 2 * sum(map(_is_year, cells)) < len(cells)
    ):
        return True
    if (
        len(values) >= MIN_STEPS
        and _in_steps(values)
        and sum(_in_steps(_values(line)) for line in lines) <= SELDOM * len(lines)
    ):
        return True
    if (
        len(values) >= MIN_RISING
        and _rise(values)
        and sum(_rise(_values(line)) for line in lines) <= SELDOM * len(lines)
    ):
        return True
    pointed = sum("." in cell for cell in cells)
    return (
        is_whole
        and len(lines) > 1
        and 2 * pointed >= len(cells)
        and all("." in cell or cell == "0" for cell in cells)
    )


def _are_names(column: Sequence[str], body: Sequence[Sequence[str]], head: str | None) -> bool:
    """Whether the first column, under ``head`` if there is a heading, names the rows."""
    if not column:
        return False
    if 2 * sum(map(is_text, column)) > len(column) or (head is not None and not head.strip()):
        return True
    if head is not None:
        return are_names(column, head)
    alone = not any(
        _counts([row[j] for row in body if len(row) > j]) for j in range(1, len(body[0]))
    )
    return len(column) >= MIN_ID_ROWS and _counts(column) and alone


def _last_word(text: str, words: Sequence[str]) -> bool:
    """Whether ``text``, or its last word as in "sampleID" or "row_index", is one of ``words``."""
    found = re.findall(r"[A-Z]?[a-z]+\d*|[A-Z]+\d*", text)
    return bare(text) in words or (bool(found) and bare(found[-1]) in words)


def _values(cells: Sequence[str]) -> list[float]:
    """The numbers of these cells; none if one of them is no number."""
    return [float(cell) for cell in cells] if all(map(is_number, cells)) else []


def _is_year(cell: str) -> bool:
    return WHOLE_NUMBER.fullmatch(cell.strip()) is not None and YEARS[0] <= int(cell) <= YEARS[1]


def _rise(values: Sequence[float]) -> bool:
    return len(values) > 1 and all(a < b for a, b in pairwise(values))


def _in_steps(values: Sequence[float]) -> bool:
    steps = [b - a for a, b in pairwise(values)]
    return _rise(values) and max(steps) - min(steps) <= EQUAL * max(abs(values[0]), abs(values[-1]))


def _counts(column: Sequence[str]) -> bool:
    """Whether the column is 0, 1, 2, ... or 1, 2, 3, ..."""
    cells = [cell.strip() for cell in column]
    return (
        len(cells) > 1
        and cells[0] in ("0", "1")
        and cells == [str(int(cells[0]) + i) for i in range(len(cells))]
    )
