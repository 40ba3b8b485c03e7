"""TF-IDF."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._checks import as_points
from conecollapse._linalg import unit_rows
from conecollapse._types import Sparse


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
    n_documents, n_words = C.shape
    df = np.bincount(C.indices, minlength=n_words)
    idf = np.log((1 + n_documents) / (1 + df)) + 1
    weighted = sp.csr_array((C.data * idf[C.indices], C.indices, C.indptr), shape=C.shape)
    return unit_rows(weighted)[0]
