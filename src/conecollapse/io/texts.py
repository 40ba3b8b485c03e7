"""Texts: a column of a ``.csv`` or ``.tsv`` file, or a folder of ``.txt`` files, as counts of
words.

A word is a run of at least two letters (marks and apostrophes inside included), in lower case. Left
out are English stop words, words of fewer than two documents (of fewer than one in a thousand,
where that is more) and words of more than half of the documents. With fewer than `FEW` documents,
words of a single document are kept. A document without any word that is left keeps its row, of
zeros.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import InvalidInputError, argument
from conecollapse._types import AnyArray
from conecollapse.io.limits import check_file
from conecollapse.io.names import as_names
from conecollapse.io.text import read_rows, read_text, suffix

WORD = r"(?u)\b[^\W\d_]{2,}(?:['\u2019][^\W\d_]+)?\b"
FEW = 10  # documents
LEAST_SHARE, MOST_SHARE = 0.001, 0.5  # of the documents that hold a word
LEAST = 2  # documents that hold a word
# headings of columns that name documents
ID_WORDS = frozenset(["id", "name", "title", "document", "doc", "key"])
KINDS = (".csv", ".tsv")
NAME = 200  # characters of a document's name that are kept


@dataclass(frozen=True)
class Texts:
    """Documents with their names."""

    names: AnyArray
    texts: list[str]


def read_column(path: Path, column: str) -> Texts:
    """The texts in the column with the heading ``column``; another column called id, name or title
    names them, else their numbers."""
    if suffix(path) not in KINDS:
        raise InvalidInputError(
            f"{argument('text_column', column)} is for {' and '.join(KINDS)} files; {path.name} is"
            " none."
        )
    rows = read_rows(read_text(path), suffix(path))
    heading = next(rows, (1, []))[1]
    if column not in heading:
        raise InvalidInputError(
            f"{path.name} has no column {column!r}; its heading is"
            f" {', '.join(map(repr, heading[:8]))}."
        )
    at = heading.index(column)
    names_at = next(
        (j for j, word in enumerate(heading) if j != at and word.strip().lower() in ID_WORDS), None
    )
    texts: list[str] = []
    names: list[str] = []
    for number, cells in rows:
        if len(cells) != len(heading):
            raise InvalidInputError(
                f"line {number} of {path.name} has {len(cells)} cells, but the heading"
                f" {len(heading)}; put texts with commas or line ends into quotes."
            )
        texts.append(cells[at])
        names.append(cells[names_at] if names_at is not None else str(len(names)))
    if not texts:
        raise InvalidInputError(f"{path.name} has a heading and no texts.")
    return Texts(as_names((name[:NAME] for name in names), "documents"), texts)


def as_texts(source: Any) -> Texts | None:
    """The texts that a list, a tuple, an array of one dimension or a series holds; None for
    anything else."""
    if isinstance(source, (list, tuple)) or (
        getattr(source, "ndim", 0) == 1 and getattr(source, "dtype", None) is not None
    ):
        texts = list(source)
        if texts and all(isinstance(text, str) for text in texts):
            return Texts(as_names(range(len(texts)), "documents"), [str(text) for text in texts])
    return None


def text_files(folder: Path) -> list[Path]:
    """The ``.txt`` files of a folder, by name."""
    return sorted(
        path
        for path in folder.iterdir()
        if path.suffix.lower() == ".txt" and not path.name.startswith(".") and path.is_file()
    )


def read_folder(folder: Path) -> Texts:
    """Each ``.txt`` file of a folder as a document, named after the file."""
    texts = []
    for path in (files := text_files(folder)):
        content = b""
        if path.stat().st_size:
            check_file(path)
            content = read_text(path).content
        texts.append(content.decode("utf-8-sig"))
    return Texts(as_names((path.stem for path in files), "documents"), texts)


def count_words(documents: Texts, source: str) -> tuple[Any, AnyArray]:
    """Counts of words (n_documents, n_words), and the words.

    Examples
    --------
    >>> texts = Texts(
    ...     np.array(["a", "b", "c"]), ["Red apples, red!", "The apples were green.", "42"]
    ... )
    >>> X, words = count_words(texts, "example")
    >>> words.tolist(), X.toarray().tolist()
    (['apples', 'green', 'red'], [[1.0, 0.0, 2.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    """
    from sklearn.feature_extraction.text import CountVectorizer

    n = len(documents.texts)
    least = 1 if n < FEW else max(LEAST, int(np.ceil(LEAST_SHARE * n)))
    most = n if n < FEW else max(int(MOST_SHARE * n), least)
    words = CountVectorizer(stop_words="english", token_pattern=WORD, min_df=least, max_df=most)
    try:
        counts = words.fit_transform(documents.texts)
    except ValueError as error:  # no word is left
        raise InvalidInputError(
            f"{source} has no word that occurs in {least} or more of its {n} documents; is this the"
            " right text?"
        ) from error
    return sp.csr_array(counts).astype(np.float64), as_names(words.get_feature_names_out(), "words")
