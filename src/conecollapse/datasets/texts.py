"""Text: counts of words in documents, as CSR arrays, and their weighting by TF-IDF."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._checks import as_points
from conecollapse._linalg import unit_rows
from conecollapse._types import FloatArray, Points, Sparse
from conecollapse.datasets.dataset import Parsed, encode
from conecollapse.datasets.files import read_mat, read_members

MED_WORDS = 5831
PAGE_WORDS = 10_000
CITESEER_CLASSES = ("Agents", "AI", "DB", "IR", "ML", "HCI")
WEBKB_CLASSES = ("student", "faculty", "course", "project")
SECTORS = (
    "basic.materials",
    "energy",
    "financial",
    "healthcare",
    "technology",
    "transportation",
    "utilities",
)


def med(path: Path) -> Parsed:
    """``MED.ALL`` and ``MED.REL``: abstracts and the queries they are relevant to.

    A document's class is the first query it answers; the documents of no query are the last class.
    """
    files = {
        match[1]: content.decode("latin-1")
        for match, content in read_members(path, r"(?:^|/)MED\.(ALL|REL)$")
    }
    parts = re.split(r"^\.I\s+(\d+)\s*$", files["ALL"], flags=re.MULTILINE)
    place = {int(number): at for at, number in enumerate(parts[1::2])}
    pairs = [
        (int(fields[0]), int(fields[2]))
        for fields in map(str.split, files["REL"].splitlines())
        if fields
    ]
    n_queries = max(query for query, _ in pairs)
    y = np.full(len(place), n_queries)
    for query, document in pairs:
        y[place[document]] = min(y[place[document]], query - 1)
    counts, words, filled = bag_of_words(
        [part.replace(".W", " ", 1) for part in parts[2::2]], MED_WORDS, min_documents=2
    )
    return Parsed(
        counts,
        y[filled],
        words,
        (*(f"query {query}" for query in range(1, n_queries + 1)), "no query"),
    )


def citeseer(path: Path) -> Parsed:
    """``citeseer.content``: a paper's name, 0 or 1 for each word, and its class, in one line
    each."""
    [(_, content)] = read_members(path, r"(?:^|/)citeseer\.content$")
    rows = [line.split() for line in content.decode("utf-8").splitlines()]
    if len({len(row) for row in rows}) != 1:
        raise ValueError("the lines of citeseer.content have different lengths")
    present = [np.flatnonzero([cell != "0" for cell in row[1:-1]]) for row in rows]
    indptr = np.cumsum([0, *map(len, present)])
    counts = sp.csr_array(
        (np.ones(indptr[-1]), np.concatenate(present), indptr), shape=(len(rows), len(rows[0]) - 2)
    )
    return Parsed(
        counts, encode([row[-1] for row in rows], CITESEER_CLASSES), None, CITESEER_CLASSES
    )


def webkb4(path: Path) -> Parsed:
    """Pages in folders class/university: four of the seven classes."""
    return _pages(path, rf"(?:^|/)({'|'.join(WEBKB_CLASSES)})/[^/]+/[^/]+$", WEBKB_CLASSES)


def sectors(path: Path) -> Parsed:
    """Pages in folders by sector of industry, at any depth below it."""
    names = "|".join(map(re.escape, SECTORS))
    return _pages(path, rf"(?:^|/)({names})(?:[._]sector)?/.+$", SECTORS)


def cai(path: Path) -> Parsed:
    """A MATLAB file of Deng Cai's page: ``fea``, documents x words, and ``gnd``, classes from 1."""
    fea, gnd = read_mat(path, "fea", "gnd")
    counts: Sparse = sp.csr_array(fea, dtype=np.float64)
    return Parsed(counts, np.unique(gnd.ravel(), return_inverse=True)[1].astype(np.int64))


def bag_of_words(
    documents: list[str], n_words: int, min_documents: int = 1
) -> tuple[Sparse, tuple[str, ...], np.ndarray]:
    """Counts of the most frequent words, the words in alphabetic order, and which documents hold
    any of them; the others are left out.

    A word is a run of two or more letters a-z in lower case that is not one of scikit-learn's
    English stop words.
    """
    from sklearn.feature_extraction.text import CountVectorizer

    counter = CountVectorizer(
        token_pattern="[a-z]{2,}",
        stop_words="english",
        max_features=n_words,
        min_df=min_documents,
        dtype=np.float64,
    )
    counts = sp.csr_array(counter.fit_transform(documents))
    filled = np.flatnonzero(np.diff(counts.indptr))
    return counts[filled], tuple(map(str, counter.get_feature_names_out())), filled


def plain_text(page: str) -> str:
    """A web page without the header of its transfer, its tags and its entities."""
    body = re.sub(r"\A(?:(?:HTTP/|[\w-]+:).*\r?\n)+\s*", "", page)
    return html.unescape(re.sub(r"<[^>]*>", " ", body))


def _pages(path: Path, pattern: str, classes: tuple[str, ...]) -> Parsed:
    found = read_members(path, pattern)
    counts, words, filled = bag_of_words(
        [plain_text(content.decode("latin-1")) for _, content in found], PAGE_WORDS
    )
    return Parsed(counts, encode([match[1] for match, _ in found], classes)[filled], words, classes)


def tfidf(counts: Any) -> Sparse:
    """Counts of words weighted by TF-IDF, documents scaled to unit length.

    With n documents, df_w of which hold word w, the weight of w is
    ``idf_w = log((1 + n) / (1 + df_w)) + 1``, and row d of the result is ``counts[d] * idf``
    divided by its Euclidean length. A word of no document keeps its zero column, so that columns
    stay in step with the vocabulary, and a document without words its zero row.

    Parameters
    ----------
    counts : (n_documents, n_words) array or sparse array, >= 0

    Returns
    -------
    X : (n_documents, n_words) CSR array of float64

    Examples
    --------
    >>> tfidf([[2, 0, 0], [3, 4, 0]]).toarray().round(3)
    array([[1.   , 0.   , 0.   ],
           [0.471, 0.882, 0.   ]])
    """
    C = sp.csr_array(as_points(counts, "counts", needs="counts of words are never negative"))
    return weigh_words(C, word_weights(C))


def word_weights(counts: Points) -> FloatArray:
    """``idf_w`` of each word, see `tfidf`."""
    C = sp.csr_array(counts)
    df = np.bincount(C.indices, minlength=C.shape[1])
    return np.asarray(np.log((1 + C.shape[0]) / (1 + df)) + 1)


def weigh_words(counts: Points, idf: FloatArray) -> Sparse:
    """Counts of words times the weights of the words, documents at unit length."""
    C = sp.csr_array(counts)
    weighted = sp.csr_array((C.data * idf[C.indices], C.indices, C.indptr), shape=C.shape)
    return unit_rows(weighted)[0]
