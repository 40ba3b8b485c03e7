"""Random non-negative problems for the factorizations, with everything the theorems quantify
over."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st


@st.composite
def problems(draw, *, dtypes=(np.float64,)):
    """A table, a rank and a positive start: zeros, repeated rows, rank deficiency, any scale, dense
    or sparse."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    n, m, r = draw(st.integers(3, 14)), draw(st.integers(3, 14)), draw(st.integers(1, 3))
    kind = draw(st.sampled_from(["dense", "low rank", "sparse", "repeated", "zero row"]))
    X = rng.random((n, m))
    if kind == "low rank":
        X = rng.random((n, r)) @ rng.random((r, m))
    elif kind == "sparse":
        X *= rng.random((n, m)) < 0.3
        X[rng.integers(n), rng.integers(m)] = 1.0
    elif kind == "repeated":
        X[: n // 2] = X[0]
    elif kind == "zero row":
        X[0] = 0.0
        X[:, 0] = 0.0
    dtype = draw(st.sampled_from(dtypes))
    X *= draw(
        st.sampled_from([1e-9, 1e-3, 1.0, 1e3, 1e9] if dtype == np.float64 else [1e-3, 1.0, 1e3])
    )
    X = X.astype(dtype)
    scale = np.sqrt(X.mean() / r)
    W, H = (scale * (rng.random(shape) + 0.1) for shape in ((n, r), (r, m)))
    is_sparse = draw(st.booleans())
    return (sp.csr_array(X) if is_sparse else X), W.astype(X.dtype), H.astype(X.dtype)


def dense(X):
    return X.toarray() if sp.issparse(X) else np.asarray(X)


def squared_error(X, W, H):
    return float(
        np.square(dense(X).astype(np.float64) - W.astype(np.float64) @ H.astype(np.float64)).sum()
    )


def clusters(rng, sizes=(20, 15, 25), n_features=30, noise=0.05):
    """Samples that are multiples of one direction each, with noise, shuffled; and their classes."""
    y = np.repeat(np.arange(len(sizes)), sizes)
    directions = (
        rng.random((len(sizes), n_features)) * (rng.random((len(sizes), n_features)) < 0.4) + 1e-3
    )
    X = (0.5 + rng.random((len(y), 1))) * directions[y] + noise * rng.random((len(y), n_features))
    order = rng.permutation(len(y))
    return X[order], y[order]
