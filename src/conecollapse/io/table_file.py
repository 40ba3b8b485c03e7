"""`TableFile`: what every reader returns, in our orientation, with its names and where it came
from."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from conecollapse._errors import InvalidInputError, argument
from conecollapse._types import AnyArray, Points, TableSizes
from conecollapse.io.headings import FEATURE_WORDS, SAMPLE_WORDS, Layout, bare
from conecollapse.io.matrix import Matrix


@dataclass(frozen=True, eq=False, repr=False)
class TableFile(TableSizes):
    """A non-negative table, samples in rows.

    Attributes
    ----------
    X : (n_samples, n_features) array or CSR array
        Non-negative and finite, float32 or float64.
    sample_names, feature_names : arrays of str, or None
        None where the source has no names; `samples` and `features` then number them.
    source : str
        The path of the file, or what kind of object was passed.
    sha256 : str
        Of the file's bytes; empty for an object in memory.
    features_in : {"rows", "columns"}
        Where the features were in the source.
    why : str
        How that was decided, and which argument changes it.
    image_shape : (height, width) or None
        Of a sample, when the features are pixels.
    preparation : mapping
        What `conecollapse.runs.prepare` did; empty for a table as it was read.
    raw : TableFile or None
        The table before it was prepared.
    layout : Layout or None
        Whether the first line of a text file was taken as its heading (``layout.header``), and the
        first column of a text file or a frame as names (``layout.names``); `read_as` says it in
        words. None if the format itself says it.
    layer, text_column : str or None
        The layer of an ``.h5ad`` file, or the column of texts, that was read.
    texts : tuple of str, or None
        The documents, where the features are their words.
    constants : mapping
        What `conecollapse.runs.preparing.prepare_new` needs to prepare new samples in the same way.
    words : mapping, or None
        How the words of texts were counted: arguments of `conecollapse.io.documents.count_words`.
    wavelengths : (n_features,) array, or None
        The numbers along the features, where the source has an axis of numbers.
    marked : (n_features,) array of bool, or None
        Which features the source marks as highly variable.

    Examples
    --------
    >>> import numpy as np
    >>> TableFile(np.eye(2), None, np.array(["a", "b"]), "example", "", "columns", "as said")
    TableFile(2 samples, 2 features, from example)
    """

    X: Points
    sample_names: AnyArray | None
    feature_names: AnyArray | None
    source: str
    sha256: str
    features_in: str
    why: str
    image_shape: tuple[int, int] | None = None
    preparation: Mapping[str, Any] = field(default_factory=dict)
    raw: TableFile | None = None
    layout: Layout | None = None
    layer: str | None = None
    text_column: str | None = None
    texts: tuple[str, ...] | None = None
    words: Mapping[str, Any] | None = None
    constants: Mapping[str, AnyArray] = field(default_factory=dict)
    wavelengths: AnyArray | None = None
    marked: AnyArray | None = None

    @property
    def samples(self) -> AnyArray:
        """A name for each sample: its own, or its number."""
        return (
            np.arange(self.n_samples).astype(np.str_)
            if self.sample_names is None
            else self.sample_names
        )

    @property
    def features(self) -> AnyArray:
        """A name for each feature: its own, or scikit-learn's ``x0``, ``x1``, ..."""
        return (
            np.array([f"x{j}" for j in range(self.n_features)])
            if self.feature_names is None
            else self.feature_names
        )

    @property
    def read_as(self) -> str:
        """What was taken as heading and as names, and which arguments change it; empty if the
        format itself says it."""
        if self.layout is None:
            return ""
        across, count = (
            ("sample", self.n_samples)
            if self.features_in == "rows"
            else ("feature", self.n_features)
        )
        word = f" {self.layout.word.strip()!r}" if self.layout.word.strip() else ""
        kind = f"{count} {across} names"
        names = f"names: first column{word}" if self.layout.names else "names: none"
        if self.layout.axes:
            kind, names = f"an axis of {count} {across}s", f"{names}, an axis too"
        other = argument("names", not self.layout.names)
        if self.layout.header is not None:
            names = f"heading: {f'first line ({kind})' if self.layout.header else 'none'}; {names}"
            other = f"{argument('header', not self.layout.header)} or {other}"
        return f"{names}; if that is wrong, pass {other}"

    def __repr__(self) -> str:
        return (
            f"TableFile({self.n_samples} samples, {self.n_features} features, from {self.source})"
        )


CHOICES = ("auto", "rows", "columns")
TALL_RATIO = 5  # times longer than wide


def decide_orientation(
    matrix: Matrix, features_in: str, image_shape: tuple[int, int] | None
) -> tuple[str, str]:
    """Where the features are, "rows" or "columns", and why.

    Examples
    --------
    >>> import numpy as np
    >>> decide_orientation(Matrix(np.ones((10, 4))), "auto", None)[0]
    'columns'
    >>> decide_orientation(Matrix(np.ones((10, 4)), row_word="Gene ID"), "auto", None)[0]
    'rows'
    """
    if features_in not in CHOICES:
        raise InvalidInputError(
            f"{argument('features_in')} must be one of {', '.join(CHOICES)}; got {features_in!r}."
        )
    if features_in != "auto":
        return features_in, "as requested"
    chosen, reason = _evidence(matrix, image_shape)
    other = "columns" if chosen == "rows" else "rows"
    samples = "columns" if chosen == "rows" else "rows"
    return (
        chosen,
        (
            f"samples are {samples} and features {chosen}, because {reason}; if that is wrong, pass"
            f" {argument('features_in', other)}"
        ),
    )


def _evidence(matrix: Matrix, image_shape: tuple[int, int] | None) -> tuple[str, str]:
    if len(matrix.values.shape) != 2:  # which is refused later
        return "columns", "it is no table"
    n_rows, n_columns = matrix.values.shape
    if matrix.features_in:
        return matrix.features_in, matrix.because
    if image_shape is not None:
        pixels = math.prod(image_shape)
        if (n_rows == pixels) != (n_columns == pixels):
            return ("rows" if n_rows == pixels else "columns"), f"an image has {pixels} pixels"
    word = bare(matrix.row_word)
    if word in FEATURE_WORDS:
        return "rows", f"the rows are called {matrix.row_word.strip()!r}"
    if word in SAMPLE_WORDS:
        return "columns", f"the rows are called {matrix.row_word.strip()!r}"
    if matrix.layout is not None and matrix.layout.axes:
        return "columns", "the first line and the first column are axes"
    if _are_names(matrix.row_names) and n_rows >= TALL_RATIO * n_columns:
        return (
            "rows",
            (
                f"the {n_rows} rows have names and are at least {TALL_RATIO} times as many as the"
                f" {n_columns} columns"
            ),
        )
    return "columns", "nothing suggests otherwise"


def _are_names(names: AnyArray | None) -> bool:
    """Whether any name is more than a number: the default index of a frame is not a name."""
    return names is not None and any(not re.fullmatch(r"\d+", name) for name in names)
