"""What is planted is there: the cone's own code finds it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from conecollapse import Cone, InvalidInputError
from conecollapse.datasets import make_cone, make_separable, make_topics


@given(st.integers(3, 30), st.integers(2, 40), st.integers(0, 60), st.integers(0, 2**32 - 1))
def test_planted_rays_are_the_extreme_rays(dim, n_rays, n_inside, seed):
    planted = make_cone(n_rays + n_inside, dim, n_rays, random_state=seed)
    cone = Cone.from_points(planted.points)
    assert set(cone.ray_indices.tolist()) == set(planted.anchors.tolist())
    assert (planted.X >= 0).all()
    np.testing.assert_allclose(planted.W @ planted.H, planted.X)


def test_two_rays_in_the_plane():
    planted = make_cone(9, 2, 2, random_state=0)
    assert set(Cone.from_points(planted.points).ray_indices.tolist()) == set(
        planted.anchors.tolist()
    )


@given(st.integers(1, 6), st.integers(0, 20), st.integers(0, 2**32 - 1))
def test_anchors_of_a_separable_table(r, more, seed):
    table = make_separable(2 * r + more, r + more + 5, r, random_state=seed)
    np.testing.assert_allclose(table.X, table.W @ table.H)
    assert np.array_equal(table.H[:, table.anchors], np.eye(r))
    assert np.array_equal(table.labels, table.W.argmax(axis=1))
    assert len(np.unique(table.labels)) == r
    if r > 1:
        assert set(Cone.from_points(table.points).ray_indices.tolist()) == set(
            table.anchors.tolist()
        )


def test_noise_has_the_size_that_was_asked_for():
    clean, noisy = (
        make_separable(100, 200, 4, noise=noise, random_state=0) for noise in (0.0, 0.05)
    )
    assert np.array_equal(clean.anchors, noisy.anchors)
    ratio = np.sqrt(((noisy.X - clean.X) ** 2).mean() / (clean.X**2).mean())
    assert 0.03 < ratio < 0.055  # clipping at zero takes a little
    assert (noisy.X >= 0).all()


def test_topics():
    topics = make_topics(400, 120, 6, length=200, random_state=1)
    assert isinstance(topics.X, sp.csr_array)
    assert np.array_equal(topics.labels, topics.W.argmax(axis=1))
    assert (topics.X.sum(axis=1) == 200).all()
    only = topics.H[:, topics.anchors]
    assert ((only > 0) == np.eye(6, dtype=bool)).all()
    mean = topics.W @ topics.H
    z = (topics.X.toarray() - mean)[mean > 1] / np.sqrt(mean[mean > 1])
    assert abs(z.mean()) < 0.1  # the counts have the mean that W and H give
    assert 0.8 < z.std() < 1.2


def test_topics_of_anchors_only():
    topics = make_topics(5, 3, 3, random_state=0)
    assert topics.X.shape == (5, 3)


@pytest.mark.parametrize("make", [make_cone, make_separable, make_topics])
def test_a_seed_repeats(make):
    first, again, other = make(random_state=3), make(random_state=3), make(random_state=4)
    assert abs(first.X - again.X).max() == 0
    assert abs(first.X - other.X).max() > 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: make_cone(5, 3, 6), "n_rays = 6 exceeds n_points = 5; use n_rays <= n_points"),
        (lambda: make_cone(5, 2, 3), "3 rays in 2 dimensions are not possible"),
        (lambda: make_cone(5, 3, 1), "1 rays in 3 dimensions are not possible; use n_rays >= 2"),
        (
            lambda: make_cone(5000, 3, 2000),
            "2000 rays in 3 dimensions cannot be kept apart; use fewer rays",
        ),
        (lambda: make_cone(0), "n_points must be an integer of at least 1; got 0"),
        (lambda: make_separable(3, 10, 4), "n_components = 4 exceeds n_samples = 3"),
        (lambda: make_separable(noise=-1), "noise must be a number of at least 0; got -1"),
        (lambda: make_separable(noise="loud"), "noise must be a number of at least 0; got 'loud'"),
        (lambda: make_topics(10, 3, 4), "n_topics = 4 exceeds n_words = 3"),
        (lambda: make_topics(length=0), "length must be an integer of at least 1; got 0"),
    ],
)
def test_impossible_sizes_are_refused(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()
