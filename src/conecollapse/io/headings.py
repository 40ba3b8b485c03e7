"""Detect whether the first line of a table is a heading, and whether the first column holds names.
Five rules decide; numbers are data where none of them says otherwise.

1. *A heading of text*: at least half of the cells after the first are text, or the first cell is
   empty (pandas' ``to_csv``, R's ``write.csv``), missing (R's ``write.table``), or text above a
   column of numbers.
2. *A heading of numbers*: they are all different, and follow a word for rows such as "gene" or
   "id"; or rise, as two or more years above numbers that are mostly none, or as five or more in
   equal steps or eight or more in any, where at most a tenth of the lines below do so; or are whole
   while every number below is 0 or has a decimal point.
3. *Names of text*: most cells of the first column are text, or the heading's cell above them is
   empty or missing.
4. *Names of numbers*: they are whole, all different, and stand under a word such as "id" or
   "index"; or under a word such as "gene", "patient" or "year", if they count from 0 or 1, are
   eight or more, or have three digits each; or, without a heading, are the only column that counts
   eight rows or more.
5. *Axes*, as of a chromatogram: the first cell is empty or a text that is no word for rows, and the
   numbers after it, and those below it, three or more of each, rise or fall from the first to the
   last. The first line is then a heading and the first column holds names. The numbers of the
   heading may have the same unit after them ("220 nm"), or R's "X" before them ("X220").

Text decides by majority, so that a single text among numbers is an error and not a name.
"""

from __future__ import annotations

import re
import string
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
MIN_ID_ROWS = 8  # rows whose numbers are ids because they are all different, or count the rows
MIN_ID_DIGITS = 3  # digits of every number of a shorter column of ids: smaller numbers are counts
SELDOM = 0.1  # largest share of the lines below that may be such a sequence as the first line
EQUAL = 1e-6  # largest relative difference of steps that count as equal
MARKED_NUMBER = re.compile(r"(X?)(-?[0-9]+(?:\.[0-9]+)?)([ .]?[^\W\d_]{1,3}(?:\^?-?[0-9])?)?")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FEATURE_WORDS = _words(
    "feature variable gene geneid genename genesymbol symbol probe probeid ensembl entrez"
    " transcript protein peptide metabolite marker otu taxon word term token pixel wavelength band"
)
SAMPLE_WORDS = _words(
    "sample sampleid cell cellid barcode document doc docid text patient subject individual image"
    " file filename observation ob specimen user"
)
# for rows whose numbers may be an axis; "Unnamed: 0" is what pandas calls an empty cell
AXIS_WORDS = _words("wavelength band pixel unnamed")
ID_WORDS = _words("id idx index key code accession unnamed rowname rowid")
OTHER_WORDS = _words("no nr number name row item year country region city species")
ROW_WORDS = ID_WORDS | FEATURE_WORDS | SAMPLE_WORDS | OTHER_WORDS

Cells = Sequence[str]


@dataclass(frozen=True)
class Layout:
    """What was taken as a heading and as names."""

    header: bool | None  # None where the columns have names of their own, as in a frame
    names: bool
    word: str = ""  # over the names
    axes: bool = False  # whether both are numbers along which was measured


def detect_layout(
    rows: Sequence[Cells], header: bool | None = None, names: bool | None = None
) -> Layout:
    """The layout of a table that begins with these rows; ``header`` and ``names`` override what is
    detected.

    Examples
    --------
    >>> detect_layout([["gene", "2001", "2002"], ["a", "1", "5"], ["b", "0", "2"]])
    Layout(header=True, names=True, word='gene', axes=False)
    >>> detect_layout([["3", "1"], ["0", "2"]])
    Layout(header=False, names=False, word='', axes=False)
    """
    top, below = rows[0], rows[1:]
    width = len(below[0]) if below else len(top)
    if len(top) == width - 1:
        top = ["", *top]  # a missing cell counts as an empty one
    if header is None:
        header = _is_heading(top, below)
    body = below if header else rows
    first = [row[0] for row in body]
    axes = header and names is not False and are_axes(top, first)
    if names is None:
        names = width > 1 and (axes or _are_names(first, body, top[0] if header else None))
    return Layout(header, names, top[0] if header and names else "", axes)


def are_axes(heading: Cells, column: Cells) -> bool:
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
    if word and not is_text(word):
        return False
    if _is_word(word, ROW_WORDS) and bare(word) not in AXIS_WORDS:
        return False
    axes = [_marked_values(heading[1:]), _values(column)]
    return all(len(axis) >= MIN_AXIS and (_rise(axis) or _rise(axis[::-1])) for axis in axes)


def as_axis(names: Cells, across: Cells) -> list[float]:
    """The numbers of an axis; none where they only count, or are years beside whole numbers."""
    are_years = all(map(_is_year, names)) and all(map(_is_whole, across))
    return [] if are_years or _counts(names) else _marked_values(names)


def are_ids(column: Cells, word: str) -> bool:
    """Whether a column of numbers under a heading's word names the rows."""
    if not all(map(_is_whole, column)) or len(set(column)) < len(column):
        return False
    if not _is_word(word, ROW_WORDS):
        return False
    if _is_word(word, ID_WORDS) or _counts(column):
        return True
    # "users" over numbers that do not count the rows are counts of users
    is_plural = word.strip().lower().endswith("s")
    are_long = all(len(cell.strip()) >= MIN_ID_DIGITS for cell in column)
    return not is_plural and (len(column) >= MIN_ID_ROWS or are_long)


def is_number(cell: str) -> bool:
    """Whether a cell holds a number in ASCII digits; ``1_000`` and other digits are text, although
    Python's float takes them, and so are numbers beside a separator of records, which it refuses.
    """
    return NUMBER.fullmatch(cell.strip(string.whitespace)) is not None


def is_text(cell: str) -> bool:
    """Whether a cell holds text: neither a number nor a word for a missing value."""
    return not is_number(cell) and cell.strip().lower() not in MISSING


def bare(word: str) -> str:
    """A heading's letters in the singular, with the digits that belong to a word: "Unnamed: 0" is
    "unnamed", but NO2 is not "no"."""
    parts = re.findall(r"[a-z0-9]+", word.lower())
    return "".join(part for part in parts if not part.isdecimal()).removesuffix("s")


def _is_heading(top: Cells, below: Sequence[Cells]) -> bool:
    """Rules 1 and 2."""
    if len(top) > 1 and (not top[0].strip() or 2 * sum(map(is_text, top[1:])) >= len(top) - 1):
        return True
    if not below:
        return False
    starts = sum(is_text(row[0]) for row in below)
    if is_text(top[0]) and not starts:
        return True
    if 2 * starts <= len(below):
        return _are_labels(top, below)
    if not is_text(top[0]):
        return False
    return _are_labels(top[1:], [row[1:] for row in below], _is_word(top[0], ROW_WORDS))


def _are_labels(labels: Cells, lines: Sequence[Cells], follow_word: bool = False) -> bool:
    """Whether these numbers are names of the columns below them."""
    values = _values(labels)
    if not values or len(set(values)) < len(values):
        return False
    if follow_word or len(values) < 2:
        return follow_word
    cells = [cell.strip() for line in lines for cell in line]
    if all(map(_is_year, labels)) and _rise(values) and 2 * sum(map(_is_year, cells)) < len(cells):
        return True
    return _are_sequence(values, lines) or (
        len(lines) > 1 and all(map(_is_whole, labels)) and _are_pointed(cells)
    )


def _are_sequence(values: list[float], lines: Sequence[Cells]) -> bool:
    """Whether the numbers rise as hardly any line below does."""
    return any(
        len(values) >= least
        and is_such(values)
        and sum(is_such(_values(line)) for line in lines) <= SELDOM * len(lines)
        for least, is_such in ((MIN_STEPS, _in_steps), (MIN_RISING, _rise))
    )


def _are_pointed(cells: Cells) -> bool:
    """Whether every number is 0 or has a decimal point, and at least half of them have one."""
    n_pointed = sum("." in cell for cell in cells)
    return n_pointed + cells.count("0") == len(cells) <= 2 * n_pointed


def _are_names(column: Cells, body: Sequence[Cells], word: str | None) -> bool:
    """Rules 3 and 4, under ``word`` if there is a heading."""
    if 2 * sum(map(is_text, column)) > len(column) or (word is not None and not word.strip()):
        return True
    if word is not None:
        return are_ids(column, word)
    counting = [j for j, cells in enumerate(zip(*body, strict=False)) if _counts(cells)]
    return len(body) >= MIN_ID_ROWS and counting == [0]


def _values(cells: Cells) -> list[float]:
    """The numbers of these cells; none if one of them is no number."""
    return [float(cell) for cell in cells] if all(map(is_number, cells)) else []


def _marked_values(cells: Cells) -> list[float]:
    """The numbers of these cells, which may all have the same unit or R's "X" unless they only
    count; none otherwise."""
    parts = [MARKED_NUMBER.fullmatch(cell.strip()) for cell in cells]
    numbers = [part[2] for part in parts if part]
    are_alike = len({(part[1], part[3]) if part else None for part in parts}) == 1
    return _values(cells) or (_values(numbers) if are_alike and not _counts(numbers) else [])


def _is_word(text: str, words: frozenset[str]) -> bool:
    """Whether ``text``, or its last word as in "sampleID" or "row_index", is one of ``words``."""
    parts = re.findall(r"[A-Z]?[a-z]+\d*|[A-Z]+\d*", text)
    return any(bare(part) in words for part in (text, *parts[-1:]))


def _is_whole(cell: str) -> bool:
    return WHOLE_NUMBER.fullmatch(cell.strip()) is not None


def _is_year(cell: str) -> bool:
    return _is_whole(cell) and YEARS[0] <= int(cell) <= YEARS[1]


def _in_steps(values: Sequence[float]) -> bool:
    steps = [b - a for a, b in pairwise(values)]
    return _rise(values) and max(steps) - min(steps) <= EQUAL * max(abs(values[0]), abs(values[-1]))


def _rise(values: Sequence[float]) -> bool:
    return len(values) > 1 and all(a < b for a, b in pairwise(values))


def _counts(column: Cells) -> bool:
    """Whether the column is 0, 1, 2, ... or 1, 2, 3, ..."""
    cells = [cell.strip() for cell in column]
    start = 0 if cells[:1] == ["0"] else 1
    return len(cells) > 1 and cells == [str(start + i) for i in range(len(cells))]
