"""Merging cones, and cones on disk."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from cones import planted
from conftest import seeds

from conecollapse import CertificateError, Cone, ConeFileError


@pytest.mark.parametrize("seed", seeds(50))
def test_merging_the_cones_of_parts_gives_the_cone_of_the_whole(seed):
    rng = np.random.default_rng(seed)
    P = planted(rng, int(rng.integers(2, 12)), int(rng.integers(2, 20)), int(rng.integers(5, 60)))
    cut = int(rng.integers(1, len(P)))
    if seed % 3 == 2:  # supports decide
        P = P * (rng.random(P.shape) < 0.3)
    A, B = P[:cut], P[cut:]
    if seed % 3:
        A, B = sp.csr_array(A), sp.csr_array(B)
    merged = Cone.from_points(A).merge(Cone.from_points(B))
    assert merged.ray_indices.tolist() == Cone.from_points(P).ray_indices.tolist()
    merged.verify(P)
    merged.verify(sp.csr_array(P))


def test_merging_colinear_rays_and_three_cones():
    P = np.array([[1.0, 0], [1, 1], [2, 0], [0, 3], [0, 1], [3, 1]])
    merged = Cone.from_points(P[:2]).merge(Cone.from_points(P[2:4])).merge(Cone.from_points(P[4:]))
    assert merged.ray_indices.tolist() == [0, 3]
    merged.verify(P)
    sparse, dense = Cone.from_points(sp.csr_array(np.eye(4)[:2])), Cone.from_points(np.eye(4)[2:])
    for both in (sparse.merge(dense), dense.merge(sparse)):
        assert isinstance(both.rays, np.ndarray)
        assert both.n_rays == 4
    with pytest.raises(ValueError, match="cones of dimension 4 and 2 cannot be merged"):
        dense.merge(merged)
    with pytest.raises(ValueError, match="merge takes another Cone; got int"):
        dense.merge(3)


def test_errors_add_up_honestly_when_cones_merge():
    """Two cones whose rays differ by just less than tol: points of the second end up further than
    tol from the merged rays."""
    d = 0.9e-8
    A, B = np.array([[1.0, 0, 0], [0, 1, 0]]), np.array([[1, 0, d], [0, 1, d], [1, 1, 2 * d]])
    merged = Cone.from_points(A).merge(Cone.from_points(B))
    assert merged.n_rays == 2
    verdict = merged.verify(np.vstack([A, B]))
    assert 1e-8 < verdict.largest_residual <= merged.tol == verdict.tol < 3e-8
    with pytest.raises(
        CertificateError,
        match=r"point 4: it is 1\.27e-08 away from its combination of rays, more than tol = 1e-08",
    ):
        merged.verify(np.vstack([A, B]), tol=1e-8)


def cones():
    P = planted(np.random.default_rng(1), 7, 11, 25)
    S = sp.random_array((60, 40), density=0.06, rng=np.random.default_rng(2)).tocsr()
    return [
        (Cone.from_points(P), P),
        (Cone.from_points(S), S),
        (Cone.approximate(P, 0.1), P),
        (Cone.approximate(S, 0.3), S),
    ]


@pytest.mark.parametrize(("cone", "P"), cones())
def test_a_saved_cone_comes_back_and_still_proves_everything(cone, P, tmp_path):
    cone.save(tmp_path / "cone.npz")
    back = Cone.load(tmp_path / "cone.npz")
    assert back.ray_indices.tolist() == cone.ray_indices.tolist()
    assert sp.issparse(back.rays) == sp.issparse(cone.rays)
    assert back.verify(P) == cone.verify(P)
    assert [f.name for f in tmp_path.iterdir()] == ["cone.npz"]
    assert back.path is None  # nobody could check it
    cone.ray_names = np.array([f"<gène {i}>" for i in cone.ray_indices])
    cone.save(tmp_path / "cone.npz")
    assert Cone.load(tmp_path / "cone.npz").ray_names.tolist() == cone.ray_names.tolist()


def test_truncated_files_are_refused(tmp_path):
    file = tmp_path / "cone.npz"
    Cone.from_points(planted(np.random.default_rng(3), 5, 6, 9)).save(file)
    whole = file.read_bytes()
    for size in (0, 10, len(whole) // 2, len(whole) - 30):
        file.write_bytes(whole[:size])
        with pytest.raises(ConeFileError, match="is not a readable cone file"):
            Cone.load(file)


def test_altered_files_are_refused_before_anything_is_used(tmp_path):
    file = tmp_path / "cone.npz"
    P = planted(np.random.default_rng(3), 5, 6, 9)
    Cone.from_points(P).save(file)
    arrays = dict(np.load(file))
    for name, value in [
        ("rays", arrays["rays"] + 100),
        ("coefficients.indices", arrays["coefficients.indices"] + 100),
        ("coefficients.indptr", -arrays["coefficients.indptr"]),
        ("unit_rays", arrays["unit_rays"][:, 1:]),
        ("leader", arrays["leader"] * 1.0),
        ("coefficients.indptr", arrays["coefficients.indptr"] * 1.0),
        ("unit_rays", arrays["unit_rays"] * np.nan),
        ("n_points", np.array(np.inf)),
        ("tol", np.array(np.nan)),
        ("n_points", np.array(10**6)),
        ("dim", np.array(3)),
        ("leader", None),
    ]:
        kept = {k: v for k, v in (arrays | {name: value}).items() if v is not None}
        np.savez(file, **kept)
        with pytest.raises(ConeFileError, match="incomplete or inconsistent cone file"):
            Cone.load(file)


def test_objects_are_refused_not_unpickled(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("a pickle was loaded",))

    file = tmp_path / "cone.npz"
    np.savez(file, format=np.array("conecollapse-cone-3"), rays=np.array([Bomb()], dtype=object))
    with pytest.raises(ConeFileError, match="is not a readable cone file"):
        Cone.load(file)
    np.save(tmp_path / "x.npy", np.eye(2))
    with pytest.raises(ConeFileError):
        Cone.load(tmp_path / "x.npy")
    np.savez(file, a=np.eye(2))
    with pytest.raises(ConeFileError, match="does not hold a cone"):
        Cone.load(file)


def test_files_of_an_earlier_version_are_refused_in_one_sentence(tmp_path):
    file = tmp_path / "cone.npz"
    Cone.from_points(np.eye(2)).save(file)
    np.savez(file, **(dict(np.load(file)) | {"format": np.array("conecollapse-cone-2")}))
    with pytest.raises(
        ConeFileError,
        match=(
            r"is a cone file of another version \('conecollapse-cone-2', not '.*'\); make and save"
            r" the cone again\.$"
        ),
    ):
        Cone.load(file)


def test_a_failed_save_leaves_nothing_behind(tmp_path, monkeypatch):
    cone = Cone.from_points(np.eye(2))
    file = tmp_path / "cone.npz"
    file.write_bytes(b"precious")
    monkeypatch.setattr(
        np, "savez", lambda *_args, **_kwargs: (_ for _ in ()).throw(OSError("disk full"))
    )
    with pytest.raises(OSError, match="disk full"):
        cone.save(file)
    assert file.read_bytes() == b"precious"
    assert len(list(tmp_path.iterdir())) == 1


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"there is no folder .*nowhere.* to write 'c.npz' in"
    ):
        Cone.from_points(np.eye(2)).save(tmp_path / "nowhere" / "c.npz")
    with pytest.raises(FileNotFoundError, match=r"there is no file .*nothing.npz"):
        Cone.load(tmp_path / "nothing.npz")
