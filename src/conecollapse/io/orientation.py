"""Decide which axis of a table holds the features, and say why.

The package uses scikit-learn's orientation, samples in rows. The first of these rules that applies
decides:

1. the caller: ``features_in="rows"`` or ``"columns"``;
2. the format: AnnData is samples x features; a Matrix Market file beside ``features.tsv`` and
   ``barcodes.tsv`` is features x samples; the ``y`` of an ``.npz`` file has an entry for each
   sample;
3. the size of an image, when exactly one axis has as many entries as it has pixels;
4. the word that heads the column of row names: "gene", "word" or "pixel" name features, "sample",
   "cell" or "document" samples;
5. a first line and a first column that are axes (see `conecollapse.io.headings`): each row is a
   sample;
6. named rows in a table at least five times longer than wide: gene-expression and word
   tables usually look like this, with more features than samples;
7. otherwise samples are rows, as in scikit-learn. An array without names is never transposed
   because of its shape: 1797 images of 64 pixels and 1797 genes of 64 patients have the same shape.
"""

from __future__ import annotations

import math
import re

from conecollapse._errors import InvalidInputError, argument
from conecollapse._types import AnyArray
from conecollapse.io.headings import FEATURE_WORDS, SAMPLE_WORDS, bare
from conecollapse.io.matrix import Matrix

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
