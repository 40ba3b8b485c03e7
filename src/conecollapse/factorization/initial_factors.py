"""Where a factorization starts: at random, from singular vectors (NNDSVD), or from clusters of the
spectral embedding.

Every start is a pair (W, H). Methods that begin from clusters read them off as the largest entry in
each row of W.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse.linalg as spla

from conecollapse._checks import as_points
from conecollapse._errors import InvalidInputError
from conecollapse._linalg import SAME, as_dense
from conecollapse._threads import serial_blas
from conecollapse._types import AnyArray, FloatArray, IntArray
from conecollapse.factorization.kmeans import lloyd
from conecollapse.factorization.nmf.row_solver import solve
from conecollapse.tables import DenseTable, Table

INITS = ("random", "nndsvd", "nndsvda", "nndsvdar", "spectral")
# samples or features up to which singular vectors come from the eigenvectors of a Gram matrix
SMALL_SIDE = 600
MOST_OF_THEM = 3  # so they do when more than 1/3 of them are wanted
# share of its length below which what leading singular vectors see of a sample is rounding
UNSEEN = 1e-6
# of a larger Gram matrix, at most 1/8 of the eigenvectors are found one by one (Lanczos)
FEW_SAMPLES, FEW_OF_THEM = 200, 8
# what a cluster start adds to every entry of A, so that multiplicative updates can still move it
# (Ding et al.)
SOFT = 0.2
# a start that is this part of the exponents away from the data is brought near: 1e51 times as large
# in float64
FAR = 6
FILL = 0.01  # NNDSVDar fills zeros with random numbers up to this share of the mean


def initialize(
    X: Table,
    n_components: int,
    init: Any,
    rng: np.random.Generator,
    sample_weight: FloatArray | None = None,
) -> tuple[AnyArray, AnyArray]:
    """A start (W, H) in the precision of X.

    ``init`` is one of `INITS`, a pair of arrays (W, H), the array H alone, or an array of
    ``n_samples`` cluster labels.

    ``sample_weight`` are numbers above zero: a sample of weight two is one that is there twice. A
    row of W then depends on nothing but its sample, and random numbers are drawn for H alone, as
    many of them for any number of samples.
    """
    n, m = X.shape
    if not isinstance(init, str):
        return _custom(X, n_components, init, sample_weight)
    if init == "random":
        W, H = _random(X, n_components, rng, sample_weight)
    elif init == "spectral":
        E = spectral_embedding(X.completed(sample_weight), n_components, rng)
        labels = kmeans_labels(E, n_components, rng, sample_weight)
        return from_labels(X, labels, n_components, sample_weight)
    elif init in INITS:
        if n_components > min(n, m):
            raise InvalidInputError(
                f"init={init!r} needs n_components <= min(n_samples, n_features) = {min(n, m)}; got"
                f" {n_components}. Use init='random'."
            )
        W, H = _nndsvd(X, n_components, init, rng, sample_weight)
    else:
        raise InvalidInputError(
            f"init must be one of {', '.join(INITS)}, a pair (W, H), H alone or an array of labels;"
            f" got {init!r}."
        )
    return W.astype(X.dtype, copy=False), H.astype(X.dtype, copy=False)


def _mean_entry(X: Table, sample_weight: FloatArray | None) -> float:
    if sample_weight is None or (sample_weight == 1).all():
        return X.mean_entry
    sums = X.row_equations(np.ones((1, X.shape[1]), X.dtype))
    counts = sums.applied(np.ones((X.shape[0], 1), X.dtype))
    return float((sample_weight @ sums.C / (sample_weight @ counts))[0])


def _random(
    X: Table, r: int, rng: np.random.Generator, sample_weight: FloatArray | None
) -> tuple[AnyArray, AnyArray]:
    """Half-normal entries whose product has the mean of X; with weights, W is the same number
    everywhere, and all methods that take weights improve it first."""
    scale = np.sqrt(_mean_entry(X, sample_weight) / r)
    W = np.ones((X.shape[0], r))
    if sample_weight is None:
        W = np.abs(rng.standard_normal(W.shape))
    H = np.abs(rng.standard_normal((r, X.shape[1])))
    return X.scaled_start(scale * W, scale * H, sample_weight)


def _nndsvd(
    X: Table,
    r: int,
    variant: str,
    rng: np.random.Generator,
    sample_weight: FloatArray | None,
) -> tuple[AnyArray, AnyArray]:
    """Non-negative double SVD (Boutsidis & Gallopoulos 2008): the larger of the two non-negative
    parts of each singular triplet."""
    X = X.completed(sample_weight)
    U, s, Vt = singular_vectors(X, r, rng)
    W, H = np.zeros((X.shape[0], r)), np.zeros((r, X.shape[1]))
    for k in range(r):
        plus = np.maximum(U[:, k], 0), np.maximum(Vt[k], 0)
        minus = np.maximum(-U[:, k], 0), np.maximum(-Vt[k], 0)
        u, v = max(plus, minus, key=lambda pair: np.linalg.norm(pair[0]) * np.linalg.norm(pair[1]))
        lengths = float(np.linalg.norm(u)), float(np.linalg.norm(v))
        if min(lengths) > 0:
            root = np.sqrt(s[k] * lengths[0] * lengths[1])
            W[:, k], H[k] = root * u / lengths[0], root * v / lengths[1]
    if sample_weight is not None and (sample_weight != 1).any():
        root = np.sqrt(sample_weight)
        X, W = X.row_scaled(1 / root), W / root[:, None]
    # the mean of X in the unit of the factors, which is the root of that of X: for data in [0, 1]
    # it is the mean itself
    mean = _mean_entry(X, sample_weight) / np.sqrt(X.peak)
    for F in (W, H):
        F[1e-12 * F.max(initial=0.0) > F] = 0.0
        zeros = F == 0
        if variant == "nndsvda":
            F[zeros] = mean
        elif variant == "nndsvdar" and F is W and sample_weight is not None:
            F[zeros] = np.broadcast_to(FILL * mean * rng.random(r), F.shape)[zeros]
        elif variant == "nndsvdar":
            F[zeros] = FILL * mean * rng.random(int(zeros.sum()))
    return W, H


def singular_vectors(
    X: Table, r: int, rng: np.random.Generator
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """The r leading singular triplets (U, s, V'), largest first, with signs fixed so that runs
    repeat."""
    n, m = X.shape
    side = min(n, m)
    is_small = side <= SMALL_SIDE or r * MOST_OF_THEM > side
    K = X.gram(cheaply=False) if is_small else None
    if K is not None:
        U, s, Vt = _from_gram(X, K, r)
    elif r >= side:  # no more columns than triplets are wanted: few enough to be formed
        formed = DenseTable(np.asarray(X @ np.eye(m, dtype=X.dtype)))
        U, s, Vt = _from_gram(formed, formed.gram(), r)
    else:
        start = rng.standard_normal(side).astype(X.dtype)
        U, s, Vt = spla.svds(X.operator(), k=r, v0=start)
        U, s, Vt = U[:, ::-1], s[::-1], Vt[::-1]
    sign = np.where(np.abs(U.max(axis=0)) >= np.abs(U.min(axis=0)), 1.0, -1.0)
    return U * sign, s, Vt * sign[:, None]


def _from_gram(X: Table, K: AnyArray, r: int) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Singular vectors of the shorter side from its Gram matrix K, those of the longer by one
    product."""
    is_wide = X.shape[0] <= X.shape[1]
    U, s = _leading(K, r)
    V = X.T @ U.astype(X.dtype) if is_wide else X @ U.astype(X.dtype)
    # below that the Gram matrix holds rounding only
    V = V / np.where(s > 1e-7 * max(s[0], np.finfo(float).tiny), s, np.inf)
    return (U, s, V.T) if is_wide else (V, s, U.T)


def _leading(K: AnyArray, r: int) -> tuple[AnyArray, AnyArray]:
    """The r leading eigenvectors of a Gram matrix, and the roots of their eigenvalues."""
    side = len(K)
    values, U = scipy.linalg.eigh(
        K.astype(np.float64), subset_by_index=[max(side - r, 0), side - 1]
    )
    return U[:, ::-1], np.sqrt(np.maximum(values[::-1], 0.0))


def _one_by_one(K: AnyArray, r: int) -> tuple[AnyArray, AnyArray]:
    """`_leading` of a large matrix. Lanczos finds one copy of a repeated eigenvalue (a graph in
    parts has such), and others by rounding alone: so what is left is searched, until it is less.
    """
    rng = np.random.default_rng(0)
    values, U = spla.eigsh(K, k=r, which="LA", v0=rng.standard_normal(len(K)))
    while True:

        def left(x: AnyArray) -> AnyArray:
            return np.asarray(K @ x - U @ (values * (U.T @ x)))  # noqa: B023

        rest = spla.LinearOperator(K.shape, matvec=left, dtype=np.float64)
        next_value, u = spla.eigsh(rest, k=1, which="LA", v0=rng.standard_normal(len(K)), tol=SAME)
        if next_value[0] <= (1 + SAME) * values[0]:
            return U[:, ::-1], np.sqrt(np.maximum(values[::-1], 0.0))
        order = np.argsort(np.append(values[1:], next_value), kind="stable")
        values = np.append(values[1:], next_value)[order]
        U = np.column_stack([U[:, 1:], u])[:, order]


def spectral_embedding(X: Table, r: int, rng: np.random.Generator) -> AnyArray:
    """Samples in the r leading left singular vectors, weighted by singular values, scaled to unit
    length."""
    return unit_vectors(leading_coordinates(X, r, rng))


def unit_vectors(E: AnyArray) -> AnyArray:
    """The rows at unit length; zero rows stay zero."""
    length = np.linalg.norm(E, axis=1, keepdims=True)
    return np.asarray(E / np.where(length > 0, length, 1.0))


def leading_coordinates(
    X: Table, r: int, rng: np.random.Generator, gram: AnyArray | None = None
) -> AnyArray:
    """Samples in the r leading left singular vectors, weighted by singular values; which sign these
    have does not matter here. Of a sample that these do not see rounding is left, and it is zero.

    ``gram`` is ``X X'`` where it is at hand.
    """
    r = min(r, *X.shape)
    K = (
        X.gram(cheaply=False)
        if gram is None and X.shape[0] <= min(X.shape[1], SMALL_SIDE)
        else gram
    )
    if K is None:
        U, s, _ = singular_vectors(X, r, rng)
    elif len(K) < FEW_SAMPLES or r * FEW_OF_THEM > len(K):
        U, s = _leading(K, r)
    else:
        U, s = _one_by_one(np.asarray(K, np.float64), r)
    Z = np.asarray(U * s)
    Z[np.linalg.norm(Z, axis=1) <= UNSEEN * X.row_lengths] = 0.0
    return Z


def kmeans_labels(
    E: AnyArray, r: int, rng: np.random.Generator, weights: AnyArray | None = None
) -> IntArray:
    """k-means clusters of the rows of ``E``, from one start; fewer than r when rows coincide."""
    from sklearn.cluster import kmeans_plusplus

    weights = np.ones(len(E)) if weights is None else weights
    with serial_blas():  # products this small lose more than they gain by a second thread
        centres, _ = kmeans_plusplus(
            E, r, sample_weight=weights, random_state=int(rng.integers(2**31 - 1))
        )
        return np.asarray(lloyd(E, centres[None], weights)[0][0])


def from_labels(
    X: Table, labels: IntArray, r: int, sample_weight: FloatArray | None = None
) -> tuple[AnyArray, AnyArray]:
    """A softened indicator of the clusters with unit columns, and ``H = W'X``."""
    X = X.completed(sample_weight)
    W = np.full((X.shape[0], r), SOFT, X.dtype)
    W[np.arange(len(labels)), labels] += 1
    root = np.sqrt(np.ones(len(W)) if sample_weight is None else sample_weight)[:, None]
    root = root.astype(X.dtype)
    W /= np.linalg.norm(root * W, axis=0)
    return W, np.asarray((X.T @ (root * W)).T)


def automatic_start(init: Any, X: Table, r: int) -> Any:
    """``init``, or what "auto" means for r components of X."""
    if not isinstance(init, str) or init != "auto":
        return init
    return "nndsvda" if r <= min(X.shape) else "random"


def is_pair(init: Any) -> bool:
    """Whether ``init`` is a pair of matrices."""
    return (
        isinstance(init, tuple | list)
        and len(init) == 2
        and all(len(getattr(part, "shape", np.shape(part))) == 2 for part in init)
    )


def is_components(init: Any) -> bool:
    """Whether ``init`` is one matrix: the components alone."""
    if isinstance(init, str) or is_pair(init):
        return False
    if not isinstance(init, tuple | list):
        return len(getattr(init, "shape", ())) == 2
    try:
        return np.asarray(init).ndim == 2
    except ValueError:  # parts of different shapes
        return False


def _with_codes(
    X: Table, r: int, init: Any, sample_weight: FloatArray | None
) -> tuple[AnyArray, AnyArray]:
    """The start of components H alone: with the least-squares encodings over them, which are not
    let fall to zero."""
    H = as_points(init, "init", needs="a factor must be >= 0")
    if H.shape != (r, X.shape[1]):
        raise InvalidInputError(
            f"init has shape {H.shape}; as components alone it must have {(r, X.shape[1])}."
        )
    H = np.asarray(as_dense(H), np.float64)
    for k in np.flatnonzero(~H.any(axis=1))[:1]:
        raise InvalidInputError(
            f"row {k} of init is zero everywhere, and would stay so; give it positive entries."
        )
    H = np.array(np.ldexp(H, _shifts(H, X)[:, None]), X.dtype)
    W = solve(X.row_equations(H))
    return np.maximum(W, FILL * np.average(W, axis=0, weights=sample_weight)), H


def _exponents(H: AnyArray) -> IntArray:
    """The scale of each row, as a power of two; 0 for a row of zeros."""
    return np.asarray(np.frexp(H.max(axis=1))[1], np.int64)


def _shifts(H: AnyArray, X: Table) -> IntArray:
    """Powers of two that bring rows to the scale of X where they are so far from it that products
    would leave floating point."""
    away = np.where(H.any(axis=1), _exponents(H) - int(np.frexp(X.peak)[1]), 0)
    return np.where(np.abs(away) > np.finfo(X.dtype).maxexp // FAR, -away, 0)


def _custom(
    X: Table, r: int, init: Any, sample_weight: FloatArray | None
) -> tuple[AnyArray, AnyArray]:
    if is_components(init):
        return _with_codes(X, r, init, sample_weight)
    if is_pair(init):
        W, H = (
            as_points(part, name, needs="a factor must be >= 0")
            for part, name in zip(init, ("init[0]", "init[1]"), strict=True)
        )
        expected = (X.shape[0], r), (r, X.shape[1])
        if (W.shape, H.shape) != expected:
            raise InvalidInputError(
                f"init is a pair of shapes {W.shape} and {H.shape}; expected {expected[0]} and"
                f" {expected[1]}."
            )
        W, H = (np.asarray(as_dense(part), np.float64) for part in (W, H))
        shifts = _shifts(H, X)
        scale = _exponents(W.T) - shifts  # of W, if the product is to stay as it is
        is_far = np.abs(scale) > np.finfo(X.dtype).maxexp // FAR  # then the product is far from X
        W, H = (
            np.ldexp(W, np.where(is_far, -_exponents(W.T), -shifts)),
            np.ldexp(H, shifts[:, None]),
        )
        return np.array(W, X.dtype), np.array(H, X.dtype)
    try:
        labels = np.asarray(init)
    except ValueError:  # parts of different shapes
        labels = np.zeros(0, object)
    if (
        labels.shape != (X.shape[0],)
        or labels.dtype.kind not in "iu"
        or labels.min() < 0
        or labels.max() >= r
    ):
        raise InvalidInputError(
            f"init must be one of {', '.join(INITS)}, a pair (W, H), H alone, or {X.shape[0]}"
            f" integer labels from 0 to {r - 1}; got a {type(init).__name__}."
        )
    return from_labels(X, labels.astype(np.int64), r, sample_weight)
