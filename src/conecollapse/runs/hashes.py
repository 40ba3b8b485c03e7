"""A 64-bit hash of every feature, so that a change of the data can be named."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from conecollapse._types import Points

BLOCK = 256  # columns turned into rows at a time


def feature_hashes(X: Points) -> npt.NDArray[np.uint64]:
    """BLAKE2b of the bytes of each column: its values, and where they are if X is sparse.

    Examples
    --------
    >>> import numpy as np
    >>> a, b, c = feature_hashes(np.array([[1.0, 2.0, 1.0], [0.0, 3.0, -0.0]]))
    >>> bool(a == c), bool(a == b)
    (True, False)
    """
    if sp.issparse(X):
        C = sp.csc_array(X)
        C.sort_indices()
        where, data = C.indices.astype(np.int64), C.data
        return np.array(
            [
                _hash(where[a:b].tobytes(), data[a:b].tobytes())
                for a, b in zip(C.indptr[:-1], C.indptr[1:], strict=True)
            ],
            np.uint64,
        )
    found: list[int] = []
    for start in range(0, X.shape[1], BLOCK):
        block = np.ascontiguousarray(X[:, start : start + BLOCK].T) + X.dtype.type(0)  # -0 + 0 is 0
        found += [_hash(column.tobytes()) for column in block]
    return np.array(found, np.uint64)


def _hash(*parts: bytes) -> int:
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        digest.update(part)
    return int.from_bytes(digest.digest(), "little")
