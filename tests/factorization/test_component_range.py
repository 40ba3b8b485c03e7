"""Components of rank two and three that fit equally well: what is listed fits, and what fits is
listed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conecollapse import AlternatingNMF, HierarchicalNMF, InvalidInputError, plots
from conecollapse.factorization.nmf.feasible import _barycentric, _Middle, ranges


def problem(seed, r, m=9, n=30, sparse=False):
    rng = np.random.default_rng(seed)
    H = rng.random((r, m)) + 0.1
    if sparse:
        H *= rng.random((r, m)) < 0.7
        H[np.arange(r), np.arange(r)] += 1.0
    return (
        rng.dirichlet(np.full(r, 2.0), n) * rng.lognormal(0, 1, (n, 1)),
        H * rng.lognormal(0, 1, (r, 1)),
        rng,
    )


@settings(max_examples=10)
@given(seed=st.integers(0, 10**6), r=st.sampled_from([2, 3]), sparse=st.booleans())
def test_whatever_fits_lies_in_the_range(seed, r, sparse):
    W, H, rng = problem(seed, r, sparse=sparse)
    found = ranges(W, H)
    sums = H.sum(axis=1, keepdims=True)
    tolerance = 1e-3 * H.max()  # directions of rank three are looked up on a grid
    for size in np.geomspace(1e-3, 0.2, 40):
        T = np.eye(r) + size * rng.standard_normal((r, r))
        other = T @ H
        if other.min() < 0 or np.linalg.cond(T) > 1e6 or (W @ np.linalg.inv(T)).min() < 0:
            continue
        other = other / other.sum(axis=1, keepdims=True)
        near = other * sums
        assert (found.low - near).max() < tolerance
        assert (near - found.high).max() < tolerance


@settings(max_examples=5)
@given(seed=st.integers(0, 10**6), sparse=st.booleans())
def test_every_point_of_a_region_belongs_to_a_triangle_that_fits(seed, sparse):
    W, H, _ = problem(seed, 3, sparse=sparse)
    found = ranges(W, H)
    between = _Middle(found.outer, found.inner, found.inner.mean(axis=0))
    for region in found.regions:
        some = region[:: max(1, len(region) // 25)]
        for corners in zip(some, *between.others(some), strict=True):
            T = _barycentric(np.array(corners))
            if np.linalg.cond(T) > 1e8:
                continue
            data = W * H.sum(axis=1)
            codes = (data / data.sum(axis=1, keepdims=True)) @ np.linalg.inv(T)
            components = T @ (H / H.sum(axis=1, keepdims=True))
            assert components.min() > -1e-7 * np.abs(T).max()
            assert codes.min() > -1e-5


def test_rank_two_has_a_closed_form():
    W, H = np.array([[0.8, 0.2], [0.3, 0.7]]), np.array([[4.0, 2.0, 0.0], [1.0, 2.0, 3.0]])
    found = ranges(W, H)
    # 4 x + 1 - x >= 0 and 3 (1 - x) >= 0, over 6: x from -1/3 to 1; the data are at 0.3 and 0.8
    np.testing.assert_allclose(found.outer.ravel(), [-1 / 3, 1.0])
    np.testing.assert_allclose(found.inner.ravel(), [0.3, 0.8])
    np.testing.assert_allclose(found.low, [[3.4, 2.0, 0.0], [0.0, 2.0, 2.1]], atol=1e-12)
    np.testing.assert_allclose(found.high, [[4.0, 2.0, 0.6], [1.9, 2.0, 4.0]], atol=1e-12)


def test_pure_samples_and_own_features_leave_no_choice():
    H = np.array([[1.0, 0.0, 0.0, 2.0], [0.0, 1.0, 0.0, 1.0], [0.0, 0.0, 2.0, 1.0]])
    W = np.vstack([np.eye(3), np.random.default_rng(0).dirichlet(np.ones(3), 20)])
    for r in (2, 3):
        keep = [0, 1, 3] if r == 2 else [0, 1, 2, 3]
        rows = W[:, :r][W[:, :r].any(axis=1)]
        found = ranges(rows, H[:r][:, keep])
        np.testing.assert_allclose(found.low, H[:r][:, keep], atol=1e-6)
        np.testing.assert_allclose(found.high, H[:r][:, keep], atol=1e-6)


@pytest.mark.parametrize("r", [2, 3])
def test_models_and_figures(r):
    W, H, _ = problem(3, r)
    model = HierarchicalNMF(r, tol=1e-8, max_iter=2000).fit(W @ H)
    found = model.component_range()
    assert (found.low <= model.components_).all()
    assert (found.high >= model.components_).all()
    drawn = plots.component_range(model)
    assert [trace.name for trace in drawn.data] == [
        "non-negative",
        "data",
        *(f"range of component {k}" for k in range(r)),
        "components",
    ]


def test_bad_models():
    X = np.random.default_rng(0).random((12, 6))
    with pytest.raises(
        InvalidInputError,
        match="component_range is for two or three components, and this model has 4",
    ):
        HierarchicalNMF(4).fit(X).component_range()
    with pytest.raises(InvalidInputError, match="made from a catalogue and knows no samples"):
        AlternatingNMF.from_components(X[:2]).component_range()
    with pytest.raises(InvalidInputError, match="needs a model without affinity"):
        HierarchicalNMF(2, affinity="knn").fit(X).component_range()
    with pytest.raises(
        InvalidInputError,
        match="have a rank below 2, so that there is no range; ask for fewer components",
    ):
        HierarchicalNMF(2).fit(np.outer(np.arange(1.0, 6.0), [1.0, 2.0, 3.0])).component_range()
