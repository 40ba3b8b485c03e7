"""Synthetic tables with known answers: planted rays, anchors, topics.

In all of them the points of the cone are the features, the columns of X; `Planted.points` is their
transpose, as `Cone.from_points` takes it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from conecollapse._checks import check_count
from conecollapse._errors import InvalidInputError
from conecollapse._types import FloatArray, IntArray, Points

# two planted rays have a cosine of at most 1 - this, seen from the axis: what keeps each well off
# the cone of the others
_SMALLEST_GAP = 1e-3
_MAX_ROUNDS = 20
_INSIDE = 0.05  # share of every mixture that is spread evenly over all rays: no mixture is a ray
_MAIN_TOPIC = 0.7


@dataclass(frozen=True, eq=False)
class Planted:
    """A table and the truth that was planted in it: ``X = W H``, up to noise.

    Attributes
    ----------
    X : (n_samples, n_features) array or CSR array
    anchors : (n_components,) array of int
        Features that are extreme rays, in the order of the columns of W.
    W : (n_samples, n_components) array
    H : (n_components, n_features) array
    labels : (n_samples,) array of int
        The component with the largest weight in each sample.
    """

    X: Points
    anchors: IntArray
    W: FloatArray
    H: FloatArray
    labels: IntArray

    @property
    def points(self) -> Points:
        """The features as rows."""
        return self.X.T


def make_cone(
    n_points: int = 200, dim: int = 6, n_rays: int = 12, *, random_state: int | None = None
) -> Planted:
    """Points in a cone with exactly ``n_rays`` extreme rays, all of which are among the points.

    Rays are drawn on a sphere in the slice sum(x) = 1 of the positive orthant. A sphere is strictly
    convex, so every one of them is extreme, also when there are more rays than dimensions. All
    other points are mixtures of all rays; lengths differ.

    Parameters
    ----------
    n_points, dim, n_rays : int
        ``2 <= n_rays <= n_points``; two dimensions hold two rays, more dimensions hold as many as
        can be kept apart.
    random_state : int or None
        Seed.

    Returns
    -------
    Planted
        X of shape (dim, n_points).

    Examples
    --------
    >>> cone = make_cone(50, dim=3, n_rays=5, random_state=0)
    >>> cone.X.shape, len(cone.anchors)
    ((3, 50), 5)
    >>> from conecollapse import Cone
    >>> set(Cone.from_points(cone.points).ray_indices) == set(cone.anchors)
    True
    """
    n_points, dim, n_rays = (
        check_count(value, name)
        for value, name in ((n_points, "n_points"), (dim, "dim"), (n_rays, "n_rays"))
    )
    _check_order("n_rays", n_rays, "n_points", n_points)
    if min(dim, n_rays) < 2 or (dim == 2 and n_rays > 2):
        raise InvalidInputError(
            f"{n_rays} rays in {dim} dimensions are not possible; use n_rays >= 2 and dim >= 3, or"
            " two rays in two dimensions."
        )
    rng = np.random.default_rng(random_state)
    radius = 0.9 / np.sqrt(dim * (dim - 1))  # of the largest ball in the slice, less a tenth
    rays = 1.0 / dim + radius * _apart(rng, dim, n_rays)
    weights = (1 - _INSIDE) * rng.dirichlet(
        np.full(n_rays, 0.5), size=n_points - n_rays
    ) + _INSIDE / n_rays
    lengths = rng.lognormal(size=n_points)
    return _planted(rng, rays.T, np.vstack([np.eye(n_rays), weights]).T * lengths)


def make_separable(
    n_samples: int = 60,
    n_features: int = 200,
    n_components: int = 5,
    *,
    noise: float = 0.0,
    random_state: int | None = None,
) -> Planted:
    """A separable table: ``n_components`` of the features are anchors, all others mixtures of them.

    Parameters
    ----------
    n_samples, n_features, n_components : int
        ``n_components <= n_samples`` and ``n_components <= n_features``.
    noise : float
        Standard deviation of normal noise, in units of the root mean square entry; X stays >= 0.
    random_state : int or None
        Seed.

    Returns
    -------
    Planted
        Without noise the anchors are the extreme rays of the features.

    Examples
    --------
    >>> table = make_separable(20, 30, 3, random_state=0)
    >>> (
    ...     bool(np.allclose(table.X, table.W @ table.H)),
    ...     table.H[:, table.anchors].astype(int).tolist(),
    ... )
    (True, [[1, 0, 0], [0, 1, 0], [0, 0, 1]])
    """
    n_samples, n_features, r = _check_sizes(
        n_samples=n_samples, n_features=n_features, n_components=n_components
    )
    if not isinstance(noise, (int, float, np.number)) or not 0 <= noise < np.inf:
        raise InvalidInputError(f"noise must be a number of at least 0; got {noise!r}.")
    rng = np.random.default_rng(random_state)
    labels = _every_class(rng, n_samples, r)
    W = 0.3 * rng.dirichlet(np.ones(r), size=n_samples)
    W[np.arange(n_samples), labels] += _MAIN_TOPIC
    weights = (1 - _INSIDE) * rng.dirichlet(np.full(r, 0.5), size=n_features - r) + _INSIDE / r
    clean = _planted(rng, W, np.vstack([np.eye(r), weights]).T)
    noisy = clean.X + noise * np.sqrt((clean.X**2).mean()) * rng.standard_normal(clean.X.shape)
    return Planted(np.maximum(noisy, 0.0), clean.anchors, clean.W, clean.H, clean.labels)


def make_topics(
    n_documents: int = 300,
    n_words: int = 500,
    n_topics: int = 5,
    *,
    length: int = 80,
    random_state: int | None = None,
) -> Planted:
    """Counts of words in documents about a main topic and, in part, others; each topic has an
    anchor word that no other topic uses.

    Parameters
    ----------
    n_documents, n_words, n_topics : int
        ``n_topics <= n_documents`` and ``n_topics <= n_words``.
    length : int
        Words in each document.
    random_state : int or None
        Seed.

    Returns
    -------
    Planted
        X is a CSR array of counts, drawn with mean ``W H``; row k of H holds topic k's shares of
        words, times ``length``.

    Examples
    --------
    >>> topics = make_topics(100, 50, 4, length=30, random_state=0)
    >>> topics.X.shape, set(topics.X.sum(axis=1).tolist()), len(set(topics.labels.tolist()))
    ((100, 50), {30.0}, 4)
    """
    n_documents, n_words, r = _check_sizes(
        n_documents=n_documents, n_words=n_words, n_topics=n_topics
    )
    length = check_count(length, "length")
    rng = np.random.default_rng(random_state)
    labels = _every_class(rng, n_documents, r)
    W = (1 - _MAIN_TOPIC) * rng.dirichlet(np.ones(r), size=n_documents)
    W[np.arange(n_documents), labels] += _MAIN_TOPIC
    shared = rng.dirichlet(np.full(n_words - r, 0.1), size=r) if n_words > r else np.zeros((r, 0))
    share = 0.1 if n_words > r else 1.0  # of each topic that its anchor takes
    mean = _planted(rng, W, np.hstack([share * np.eye(r), (1 - share) * shared]))
    chances = mean.X / mean.X.sum(axis=1, keepdims=True)
    counts = sp.csr_array(rng.multinomial(length, chances).astype(np.float64))
    return Planted(counts, mean.anchors, mean.W, length * mean.H, labels)


def _planted(rng: np.random.Generator, W: FloatArray, H: FloatArray) -> Planted:
    """``W H`` with its columns shuffled; the first columns of H are the anchors."""
    order = rng.permutation(H.shape[1])
    anchors = np.argsort(order)[: W.shape[1]]
    H = H[:, order]
    return Planted(W @ H, anchors, W, H, W.argmax(axis=1))


def _apart(rng: np.random.Generator, dim: int, count: int) -> FloatArray:
    """Random unit vectors orthogonal to (1, ..., 1), no two of which nearly agree."""
    kept, n_kept = np.empty((count, dim)), 0
    for _ in range(_MAX_ROUNDS):
        drawn = rng.standard_normal((count, dim))
        drawn -= drawn.mean(axis=1, keepdims=True)
        drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
        for u in drawn:
            if (kept[:n_kept] @ u).max(initial=-1.0) <= 1 - _SMALLEST_GAP:
                kept[n_kept] = u
                n_kept += 1
            if n_kept == count:
                return kept
    raise InvalidInputError(
        f"{count} rays in {dim} dimensions cannot be kept apart; use fewer rays or more dimensions."
    )


def _every_class(rng: np.random.Generator, n: int, n_classes: int) -> IntArray:
    """Labels in which every class occurs."""
    return rng.permutation(
        np.concatenate([np.arange(n_classes), rng.integers(n_classes, size=n - n_classes)])
    )


def _check_sizes(**sizes: int) -> list[int]:
    """The sizes as integers, the last at most as large as any other."""
    checked = {name: check_count(value, name) for name, value in sizes.items()}
    *others, last = checked
    for other in others:
        _check_order(last, checked[last], other, checked[other])
    return list(checked.values())


def _check_order(small: str, low: int, large: str, high: int) -> None:
    if low > high:
        raise InvalidInputError(
            f"{small} = {low} exceeds {large} = {high}; use {small} <= {large}."
        )
