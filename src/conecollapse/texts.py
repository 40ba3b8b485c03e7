r"""Topics of texts: groups of documents that use the same words.

`topics` takes documents as they are: it counts their words, weighs them by how rare they are,
groups the documents with `GraphCCNMF`, and names each group by its words.

**The words of a topic** are those with the largest

.. math:: p \log (p / q) ,

with p the share of the topic's documents that hold the word, and q that of all other documents
(each with half a document added). A word that only few of the documents hold does not tell what
they share, and a word that others hold as often does not tell them apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from conecollapse import estimators
from conecollapse._checks import check_count
from conecollapse._errors import InvalidInputError
from conecollapse._linalg import unit_rows
from conecollapse._types import AnyArray, FloatArray, IntArray, Sparse
from conecollapse.clusters import NO_CLUSTER, topic_words
from conecollapse.datasets.texts import weigh_words, word_weights
from conecollapse.io.documents import Texts, as_texts, count_words
from conecollapse.runs.clustering import chosen_rank

__all__ = ["Topics", "topic_words", "topics"]

NAMED = 3  # words in the name of a topic
PERIODS = ("Y", "Q", "M", "W", "D")  # over which documents are counted


@dataclass(frozen=True, eq=False)
class Topics:
    """Topics, as `topics` found them, or after `merge` and `rename`.

    Attributes
    ----------
    table : (n_documents, n_words) CSR array
        How often each document holds each word.
    vocabulary : (n_words,) array of str
        The words.
    labels : (n_documents,) array of int
        The topic of each document; -1 for a document without any known word.
    words : list of lists of str
        Ten words of each topic, see `conecollapse.texts`.
    names : list of str
        Three words of each topic, or the name that `rename` gave it.
    documents : list of int arrays
        The numbers of each topic's documents, most typical first.
    language : str or None
        The language of the stop words that were left out.
    reason : str
        How the number of topics was chosen; empty where it was given.
    model : GraphCCNMF
        Fitted.
    """

    table: Sparse
    vocabulary: AnyArray
    labels: IntArray
    language: str | None
    reason: str
    model: Any
    idf: FloatArray
    group: IntArray  # (n_clusters of the model,) the topic of each
    dates: Any = None
    given: Mapping[int, str] | None = None
    ngram_range: tuple[int, int] = (1, 1)

    def __repr__(self) -> str:
        titles = "; ".join(f"{k}: {name}" for k, name in enumerate(self.names))
        return f"{self.n_topics} topics of {len(self.labels)} documents ({titles})"

    @property
    def n_topics(self) -> int:
        """How many there are."""
        return int(self.group.max()) + 1

    @property
    def words(self) -> list[list[str]]:
        """Ten words of each topic."""
        return topic_words(self.table, self.labels, self.vocabulary, self.n_topics)

    @property
    def names(self) -> list[str]:
        """Three words of each topic, or the name it was given."""
        given = self.given or {}
        return [given.get(k, ", ".join(words[:NAMED])) for k, words in enumerate(self.words)]

    @property
    def documents(self) -> list[IntArray]:
        """The numbers of each topic's documents, those most like their mean first."""
        X = unit_rows(weigh_words(self.table, self.idf))[0]
        found = []
        for k in range(self.n_topics):
            rows = np.flatnonzero(self.labels == k)
            likeness = np.asarray(X[rows] @ np.asarray(X[rows].sum(axis=0)).ravel())
            found.append(rows[np.argsort(-likeness, kind="stable")])
        return found

    def predict(self, documents: Any) -> IntArray:
        """The topics of new documents; -1 where no word is known."""
        counts = count_words(
            _texts_of(documents),
            "the new documents",
            stop_words=None,
            ngram_range=self.ngram_range,
            vocabulary=self.vocabulary,
        )
        found = np.full(counts.X.shape[0], NO_CLUSTER)
        rows = np.flatnonzero(np.diff(counts.X.indptr))
        if len(rows):
            labels = self.model.predict(weigh_words(counts.X[rows], self.idf))
            found[rows] = np.where(labels == NO_CLUSTER, NO_CLUSTER, self.group[labels])
        return found

    def over_time(self, dates: Any = None, period: str = "Y") -> Any:
        """How the topics change: a frame with a row for each period and a column for each topic,
        the shares of the period's documents.

        ``dates`` has one date for each document, by default those passed to `topics`; ``period`` is
        a period of pandas: "Y", "Q", "M", "W", "D".
        """
        import pandas as pd

        dates = self.dates if dates is None else dates
        if dates is None:
            raise InvalidInputError("there are no dates; pass one for each document.")
        if period not in PERIODS:
            raise InvalidInputError(f"period must be one of {', '.join(PERIODS)}; got {period!r}.")
        when = pd.PeriodIndex(_times(dates, len(self.labels)), freq=period)
        known = (self.labels != NO_CLUSTER) & ~when.isna()
        numbers = range(self.n_topics)
        if not known.any():
            raise InvalidInputError("no document with a topic has a date; give dates.")
        shares = pd.crosstab(when[known], self.labels[known], normalize="index")
        shares = shares.reindex(columns=numbers, fill_value=0.0)
        return shares.set_axis(self.names, axis=1).rename_axis(index="period", columns="topic")

    def merge(self, together: Iterable[int]) -> Topics:
        """The same with these topics as one, in the place of the first of them."""
        chosen = sorted({self._checked(k) for k in together}) if np.iterable(together) else []
        if len(chosen) < 2:
            raise InvalidInputError(
                f"merge needs the numbers of two topics or more, such as [0, 1]; got {together!r}."
            )
        into = np.arange(self.n_topics)
        into[chosen] = chosen[0]
        into = np.unique(into, return_inverse=True)[1]
        given = {
            int(into[k]): name for k, name in (self.given or {}).items() if k not in chosen[1:]
        }
        labels = np.where(self.labels == NO_CLUSTER, NO_CLUSTER, into[self.labels])
        return replace(self, labels=labels, group=into[self.group], given=given)

    def rename(self, names: Mapping[int, str]) -> Topics:
        """The same with these names: ``rename({0: "graphs"})``."""
        if not isinstance(names, Mapping):
            raise InvalidInputError(
                f"names must be a dictionary, such as {{0: 'graphs'}}; got {names!r}."
            )
        new = {self._checked(k): str(name) for k, name in names.items()}
        return replace(self, given=dict(self.given or {}) | new)

    def _checked(self, k: Any) -> int:
        if not isinstance(k, int | np.integer) or not 0 <= k < self.n_topics:
            raise InvalidInputError(
                f"there is no topic {k!r}; topics have the numbers 0 to {self.n_topics - 1}."
            )
        return int(k)


def topics(
    documents: Any,
    n_topics: int | Literal["auto"] = "auto",
    *,
    stop_words: Any = "auto",
    ngram_range: tuple[int, int] = (1, 1),
    min_df: int | float | None = None,
    dates: Any = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> Topics:
    """Group documents by topic.

    Parameters
    ----------
    documents : list of str, or a column of a frame
    n_topics : int or "auto"
        "auto" chooses among 2 to 10 by `select_rank`.
    stop_words : "auto", "english", "german", "french", "spanish", "italian", "portuguese", a list \
or None
        Words to leave out. "auto" takes the function words of the language of which the documents
        have most.
    ngram_range : (int, int)
        Least and most words of what is counted: (1, 2) counts pairs of words too.
    min_df : int or float, optional
        Documents, or their share, that must hold a word; by default 2, or one in a thousand if that
        is more.
    dates : sequence, optional
        A date for each document, for `Topics.over_time`.
    random_state : int, Generator, RandomState or None
        Random seed.
    n_jobs : int, optional
        Most threads to use; all by default.

    Returns
    -------
    Topics

    Examples
    --------
    >>> from conecollapse import texts
    >>> documents = ["cats chase mice", "cats like milk", "mice fear cats", "milk for cats"] * 3
    >>> documents += ["stocks fell", "bonds and stocks", "markets fell", "stocks rose"] * 3
    >>> found = texts.topics(documents, 2)
    >>> sorted(words[0] for words in found.words), found.language
    (['cats', 'stocks'], 'english')
    >>> int(found.predict(["the cats are back"])[0]) == int(found.labels[0])
    True
    """
    known = _texts_of(documents)
    if dates is not None:
        _times(dates, len(known.texts))
    counts = count_words(
        known, "the data", stop_words=stop_words, ngram_range=ngram_range, min_df=min_df
    )
    n, idf = counts.X.shape[0], word_weights(counts.X)
    rows = np.flatnonzero(np.diff(counts.X.indptr))
    X, reason = weigh_words(counts.X[rows], idf), ""
    if isinstance(n_topics, str) and n_topics == "auto":
        rank = chosen_rank(X, random_state)
        n_topics, reason = rank.rank, rank.reason
    r = check_count(n_topics, "n_topics", or_auto=True)
    if r > len(rows):
        raise InvalidInputError(
            f"n_topics = {r}, but only {len(rows)} documents hold a known word; ask for at most"
            " that many."
        )
    model = estimators.GraphCCNMF(r, random_state=random_state, n_jobs=n_jobs).fit(X)
    labels = np.full(n, NO_CLUSTER)
    labels[rows] = np.asarray(model.labels_)
    return Topics(
        counts.X,
        counts.words,
        labels,
        counts.language,
        reason,
        model,
        idf,
        np.arange(r),
        dates,
        None,
        ngram_range,
    )


def _texts_of(documents: Any) -> Texts:
    if isinstance(documents, (list, tuple)) and not documents:
        raise InvalidInputError("documents is empty; pass one text or more.")
    texts = None if isinstance(documents, str) else as_texts(documents)
    if texts is None:
        missing = _first_that_is_no_text(documents)
        raise InvalidInputError(
            "documents must be a list of strings, or a column of a frame; got"
            f" {type(documents).__name__}{missing}."
        )
    return texts


def _times(dates: Any, n: int) -> Any:
    """Times of pandas, one for each of ``n`` documents; missing dates stay missing."""
    import pandas as pd

    if isinstance(dates, str) or not hasattr(dates, "__len__"):
        raise InvalidInputError(
            f"dates must be a list with one date for each document; got {dates!r}."
        )
    if len(dates) != n:
        raise InvalidInputError(
            f"there are {len(dates)} dates for {n} documents; give one for each."
        )
    # a whole number is a year; pandas would take it for nanoseconds
    years = [
        str(date) if isinstance(date, (int, np.integer)) and 1000 <= date <= 9999 else date
        for date in dates
    ]
    try:
        times = pd.to_datetime(pd.Series(years, dtype=object))
    except (ValueError, TypeError) as error:
        raise InvalidInputError(
            f"dates cannot be read as dates of one form ({str(error).split('. You ')[0]}); write"
            " them as 2024-05-31, or pass dates of pandas."
        ) from error
    if times.dt.tz is not None:
        times = times.dt.tz_localize(None)
    return pd.DatetimeIndex(times)


def _first_that_is_no_text(documents: Any) -> str:
    if isinstance(documents, str) or not hasattr(documents, "__iter__"):
        return ""
    for i, text in enumerate(documents):
        if not isinstance(text, str):
            return f", whose entry {i} is {str(text)[:40]!r}; leave such entries out"
    return ""
