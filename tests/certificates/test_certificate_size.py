"""Certificates are small: float32 where the proof allows, narrow integers, sparse witnesses."""

from __future__ import annotations

import numpy as np
import pytest
from certificate_cases import cases, dense_points, sparse_points
from cones import planted

from conecollapse import Cone
from conecollapse.certificates import SparseVectors, Vectors
from conecollapse.geometry.certified.proof import in_least_room, narrow
from conecollapse.geometry.certified.witness import confirm


def test_witnesses_that_are_far_from_the_tolerance_are_float32_and_the_checker_judges_these():
    P = dense_points()
    cone = Cone.from_points(P)
    (found,) = (family for family in cone.certificate.witnesses if isinstance(family, Vectors))
    assert found.G.dtype == np.float32
    cone.verify(P)


def test_witnesses_that_need_more_digits_keep_float64():
    """A point 3e-8 above the plane of the others: it leads upwards by less than 22 binary digits
    resolve."""
    flat = np.array([[1.0, 0, 0], [0, 1, 0]])
    P = np.vstack([flat, [[1, 1, 3e-8 * np.sqrt(2)]]])
    U = P / np.linalg.norm(P, axis=1, keepdims=True)
    A = np.array([[0.0, 0.0, 1.0], [1.0, -1.0, 0.0]])
    G, proven = confirm(A, np.array([2, 0]), U, U.sum(axis=1), 1e-8)
    assert proven.all()
    assert (G.astype(np.float32) == G).all(axis=1).tolist() == [False, True]
    Cone.from_points(P).verify(P)


@pytest.mark.parametrize("name", ["dense", "sparse", "twins", "quick", "combination"])
def test_a_file_that_is_read_and_written_again_has_the_same_size(name, tmp_path):
    cone, P = cases()[name]
    cone.save(tmp_path / "first.npz")
    again = Cone.load(tmp_path / "first.npz")
    again.save(tmp_path / "second.npz")
    assert (tmp_path / "first.npz").stat().st_size == (tmp_path / "second.npz").stat().st_size
    again.verify(P)


def test_files_are_at_most_twice_the_data(tmp_path):
    rng = np.random.default_rng(0)
    for P in (planted(rng, 20, 300, 300), rng.random((500, 100)), sparse_points()):
        Cone.from_points(P).save(tmp_path / "cone.npz")
        size = (
            P.nbytes
            if isinstance(P, np.ndarray)
            else P.data.nbytes + P.indices.nbytes + P.indptr.nbytes
        )
        headers = 300 * len(np.load(tmp_path / "cone.npz").files)  # of the arrays in the archive
        assert (tmp_path / "cone.npz").stat().st_size - headers <= 2 * size


def test_integers_in_a_file_take_few_bytes_and_come_back_as_they_were(tmp_path):
    cone = Cone.from_points(dense_points())
    cone.save(tmp_path / "cone.npz")
    stored = np.load(tmp_path / "cone.npz")
    assert {
        stored[name].dtype for name in ("rays", "leader", "separated", "coefficients.indices")
    } == {np.dtype(np.int8)}
    again = Cone.load(tmp_path / "cone.npz").certificate
    assert again.leader.dtype == np.int64
    assert again.leader.tolist() == cone.certificate.leader.tolist()


def test_indices_of_32_bits_hold_the_same_array():
    M = sparse_points().astype(np.float64)
    M.indices, M.indptr = M.indices.astype(np.int64), M.indptr.astype(np.int64)
    assert narrow(M).indices.dtype == narrow(M).indptr.dtype == np.int32
    assert abs(narrow(M) - M).max() == 0


def test_vectors_that_are_one_number_nearly_everywhere_are_stored_sparse():
    """A functional on few coordinates, shifted: the sparse part and the offset make the same vector
    again."""
    G = np.full((3, 40), -0.25)
    G[0, 3], G[1] = 0.5, np.arange(40) / 64
    G[2, 5] = 0.1  # needs more digits than float32 has
    families = in_least_room(np.arange(3), G)
    assert [(type(family), family.of.tolist()) for family in families] == [
        (SparseVectors, [0]),
        (Vectors, [1]),
        (Vectors, [2]),
    ]
    for family in families:
        assert (family.vectors(None, None, np.arange(1)) == G[family.of]).all()


def test_witnesses_of_sparse_points_are_sparse():
    cone = Cone.from_points(sparse_points())
    assert not any(isinstance(family, Vectors) for family in cone.certificate.witnesses)
