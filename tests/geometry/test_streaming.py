"""Points in blocks: merged cones, files larger than memory, QR over samples, interrupted runs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from certificate_cases import with_twins
from cones import planted
from conftest import seeds

from conecollapse import (
    CCNMF,
    CertificateError,
    CheckpointError,
    Cone,
    ConeCollapse,
    DataChangedError,
    InvalidInputError,
    MultiplicativeNMF,
)
from conecollapse._linalg import unit_rows
from conecollapse.geometry import streaming
from conecollapse.geometry.merging import merge
from conecollapse.geometry.tall import _combined
from conecollapse.io import open_table
from conecollapse.io.market import PIECE_ENTRIES
from conecollapse.io.source import Spill


def cuts(rng, n, pieces):
    return np.sort(rng.choice(np.arange(1, n), size=min(pieces, n) - 1, replace=False))


@pytest.mark.parametrize("seed", seeds(50))
def test_merged_rays_equal_direct_rays_exactly_however_points_are_split(seed):
    """rays(A u B u ...) = rays(rays(A) u rays(B) u ...), with duplicates, zero points, blocks of
    one point and sparse blocks."""
    rng = np.random.default_rng(seed)
    P = planted(
        rng,
        int(rng.integers(2, 14)),
        int(rng.integers(2, 25)),
        int(rng.integers(5, 60)),
        terms=[None, 2][seed % 2],
    )
    P = np.vstack([P, 3 * P[rng.integers(len(P), size=5)], np.zeros((3, P.shape[1]))])[
        rng.permutation(len(P) + 8)
    ]
    if seed % 3 == 0:
        P = sp.csr_array(P)
    direct = Cone.from_points(P)
    ends = [0, *cuts(rng, P.shape[0], int(rng.integers(2, 12))), P.shape[0]]
    merged = Cone.from_blocks(P[a:b] for a, b in itertools.pairwise(ends))
    np.testing.assert_array_equal(merged.ray_indices, direct.ray_indices)
    assert abs(merged.rays - direct.rays).max() == 0
    np.testing.assert_array_equal(merged.zero_points, direct.zero_points)
    assert [group.tolist() for group in merged.groups] == [
        group.tolist() for group in direct.groups
    ]
    merged.verify(P)


def test_partial_fit_over_blocks_of_features_selects_what_fit_does():
    X = planted(np.random.default_rng(0), 9, 14, 60).T
    whole, streamed = ConeCollapse().fit(X), ConeCollapse()
    for block in np.array_split(X, 5, axis=1):
        streamed.partial_fit(block)
    np.testing.assert_array_equal(streamed.get_support(), whole.get_support())
    np.testing.assert_allclose(streamed.rays_ @ streamed.coefficients_, X, atol=1e-6)


class Interrupted(Exception):
    pass


def until(points, stop):
    for k, block in enumerate(points):
        if k == stop:
            raise Interrupted
        yield block


@pytest.mark.parametrize("stop", [1, 2, 5, 6, 9])
def test_a_run_that_was_interrupted_goes_on_from_its_files_to_the_same_result(stop, tmp_path):
    P = planted(np.random.default_rng(stop), 8, 30, 200)
    parts = np.array_split(P, 10)
    with pytest.raises(Interrupted):
        Cone.from_blocks(until(parts, stop), checkpoint=tmp_path / "run")
    seen = []
    cone = Cone.from_blocks(
        parts, checkpoint=tmp_path / "run", progress=lambda _stage, done, _total: seen.append(done)
    )
    assert len(seen) == 10 - stop  # what was done is not done again
    direct = Cone.from_blocks(parts)
    np.testing.assert_array_equal(cone.ray_indices, direct.ray_indices)
    assert abs(cone.point_coefficients - direct.point_coefficients).max() == 0
    assert cone.certificate.residual == direct.certificate.residual
    cone.verify(P)


def test_a_checkpoint_of_other_data_is_refused(tmp_path):
    P = planted(np.random.default_rng(0), 6, 12, 40)
    parts = np.array_split(P, 4)
    Cone.from_blocks(parts, checkpoint=tmp_path)
    with pytest.raises(
        CheckpointError, match="block 1 is not the block that the checkpoint was made from"
    ):
        Cone.from_blocks([parts[0], parts[1][::-1], *parts[2:]], checkpoint=tmp_path)
    inside = np.setdiff1d(np.arange(len(parts[0])), Cone.from_points(parts[0]).ray_indices)[0]
    other = parts[0].copy()
    other[inside] *= 2  # the rays are the same
    with pytest.raises(CheckpointError, match="block 0 is not the block"):
        Cone.from_blocks([other, *parts[1:]], checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match="holds 4 blocks, but only 1 were given"):
        Cone.from_blocks(parts[:1], checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match="made with tol = 1e-08, not 1e-06"):
        Cone.from_blocks(parts, 1e-6, checkpoint=tmp_path)
    (file,) = tmp_path.iterdir()
    Cone.from_points(P).save(file)
    with pytest.raises(CheckpointError, match="holds a cone that no checkpoint wrote"):
        Cone.from_blocks(parts, checkpoint=tmp_path)
    file.unlink()
    Cone.from_blocks(parts, checkpoint=tmp_path)


def test_bad_blocks_are_named():
    P = planted(np.random.default_rng(0), 4, 5, 15)
    spoiled = P.copy()
    spoiled[13, 2] = np.nan
    with pytest.raises(ValueError, match=r"block 2: P has NaN at row 13, column 2"):
        Cone.from_blocks(np.array_split(spoiled, 4))
    with pytest.raises(ValueError, match=r"block 2: X has NaN at row 13, column 2"):
        Cone.from_samples(np.array_split(spoiled, 4))
    with pytest.raises(
        ValueError, match=r"block 2 \(samples 10 to 14\): X has NaN at row 13, column 2"
    ):
        CCNMF(2).fit(open_table(spoiled, block_size=5))
    with pytest.raises(ValueError, match=r"block 1: P has no rows \(shape \(0, 4\)\)"):
        Cone.from_blocks([P, P[:0]])
    with pytest.raises(
        ValueError, match=r"block 1 has points of dimension 3, the ones before had 4"
    ):
        Cone.from_blocks([P, P[:, :3]])
    with pytest.raises(ValueError, match=r"block 1 has 3 features, the ones before had 4"):
        Cone.from_samples([P, P[:, :3]])
    with pytest.raises(ValueError, match=r"all 4 points are zero"):
        Cone.from_blocks([np.zeros((2, 3))] * 2)
    for empty in (Cone.from_blocks, Cone.from_samples):
        with pytest.raises(ValueError, match="there are no blocks"):
            empty([])


def table_files(folder, X):
    """The same table in every kind of file."""
    anndata, h5py = pytest.importorskip("anndata"), pytest.importorskip("h5py")
    np.save(folder / "rows.npy", X)
    np.save(folder / "columns.npy", np.asfortranarray(X))
    scipy.io.mmwrite(folder / "entries.mtx", sp.coo_array(X), precision=17)
    names = ["rows.npy", "columns.npy", "entries.mtx"]
    for name, held in {"dense": X, "csr": sp.csr_matrix(X), "csc": sp.csc_matrix(X)}.items():
        anndata.AnnData(held).write_h5ad(folder / f"{name}.h5ad")
        names.append(f"{name}.h5ad")
    assert h5py.File(folder / "csc.h5ad")["X"].attrs["encoding-type"] == "csc_matrix"
    return names


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning:anndata")
@pytest.mark.parametrize("shape", [(30, 70), (90, 20)])
def test_every_kind_of_file_gives_the_rays_and_clusters_of_the_array(shape, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.random(shape) * (rng.random(shape) < 0.5) + 0.01 * (rng.random(shape) < 0.2)
    X[:, -3:] = X[:, :3] + X[:, 3:6]
    direct, local = Cone.from_points(X.T), CCNMF(3, n_init=2, random_state=0).fit(X)
    for name in table_files(tmp_path, X):
        table = open_table(tmp_path / name, block_size=7)
        np.testing.assert_array_equal(Cone.from_table(table).ray_indices, direct.ray_indices)
        np.testing.assert_array_equal(
            Cone.from_blocks(table.features(9)).ray_indices, direct.ray_indices
        )
        np.testing.assert_array_equal(
            np.vstack([b.toarray() if sp.issparse(b) else b for b in table.samples(4)]), X
        )
        model = CCNMF(3, n_init=2, random_state=0).fit(table)
        np.testing.assert_array_equal(model.labels_, local.labels_)
        np.testing.assert_array_equal(model.predict(table), local.predict(X))
        assert model.reconstruction_err_ == pytest.approx(local.reconstruction_err_, rel=1e-9)
        np.testing.assert_array_equal(ConeCollapse().fit(table).ray_indices_, direct.ray_indices)


@pytest.mark.parametrize("axis", [0, 1])
def test_entries_are_sorted_into_buckets(axis):
    """Those of the same place are added up, from whichever piece and bucket they come."""
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(0, 90, 2000), rng.integers(0, 40, 2000)
    values, shape = rng.random(2000), (90, 40)
    pieces = zip(*(np.split(part, 4) for part in (rows, columns, values)), strict=True)
    spill = Spill(pieces, shape, axis, 2000, bucket_entries=100)
    assert len(spill.bounds) == 21
    whole = sp.csr_array((values, (rows, columns)), shape=shape).toarray()
    for start, stop in ((0, 1), (3, 31), (0, shape[axis])):
        part = np.s_[start:stop] if axis == 0 else np.s_[:, start:stop]
        np.testing.assert_allclose(spill.read(start, stop).toarray(), whole[part], rtol=1e-12)


def test_a_matrix_market_file_is_parsed_in_pieces(tmp_path):
    X = np.random.default_rng(0).integers(1, 9, (PIECE_ENTRIES // 500 + 20, 500))
    scipy.io.mmwrite(tmp_path / "long.mtx", sp.coo_array(X))
    np.testing.assert_array_equal(open_table(tmp_path / "long.mtx").whole().toarray(), X)


def test_an_empty_row_and_large_counts_in_float32(tmp_path):
    X = np.random.default_rng(0).integers(1, 60000, size=(40, 12)).astype(np.float32)
    X[5] = 0
    np.save(tmp_path / "x.npy", X)
    with pytest.warns(UserWarning, match="sample 5 of X holds only zeros"):
        local = CCNMF(2, n_init=2, random_state=0).fit(X)
    with pytest.warns(UserWarning, match="sample 5 of X holds only zeros"):
        model = CCNMF(2, n_init=2, random_state=0).fit(
            open_table(tmp_path / "x.npy", block_size=11)
        )
    np.testing.assert_array_equal(model.labels_, local.labels_)
    np.testing.assert_allclose(model.components_, local.components_, rtol=1e-4)


def test_a_file_that_changes_size_while_it_is_read_is_refused(tmp_path):
    file = tmp_path / "x.npy"
    X = np.random.default_rng(0).random((40, 6))
    np.save(file, X)
    table = open_table(file, block_size=10)
    stream = table.samples(10)
    next(stream)
    with open(file, "r+b") as raw:
        raw.truncate(1000)
    with pytest.raises(
        DataChangedError,
        match=r"x.npy' changed size while it was read, from 2048 to 1000 bytes \(at row 10\)",
    ):
        next(stream)
    with pytest.raises(DataChangedError, match="changed size"):
        Cone.from_table(table)
    with pytest.raises(
        ValueError, match="has 1000 bytes, but its header promises 2048; it was cut short"
    ):
        open_table(file)
    scipy.io.mmwrite(tmp_path / "x.mtx", sp.coo_array(X))
    table = open_table(tmp_path / "x.mtx")
    with open(tmp_path / "x.mtx", "a") as text:
        text.write("1 1 3.0\n")
    with pytest.raises(DataChangedError, match=r"x.mtx' changed size"):
        Cone.from_table(table)


def test_files_that_are_no_tables_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"expected one of .npy, .mtx, .h5ad"):
        open_table(tmp_path / "x.csv")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        open_table(tmp_path / "x.npy")
    np.save(tmp_path / "o.npy", np.array([[None]], dtype=object))
    with pytest.raises(ValueError, match="holds Python objects"):
        open_table(tmp_path / "o.npy")
    np.save(tmp_path / "v.npy", np.ones(3))
    with pytest.raises(ValueError, match=r"has shape \(3,\); expected two dimensions"):
        open_table(tmp_path / "v.npy")
    for text, match in [
        ("hello\n", "does not begin with %%MatrixMarket"),
        (
            "%%MatrixMarket matrix coordinate real general\nnothing\n",
            "its sizes are missing",
        ),
        (
            "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1.0000000\n",
            "has 1 entries where it promises 2",
        ),
        (
            "%%MatrixMarket matrix coordinate real general\n2 2 2000\n1 1 1\n",
            "it promises 2000 entries, and has room for at most",
        ),
        (
            "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 1\n2 2 1\n",
            "has 2 or more entries where it promises 1",
        ),
        (
            "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 1_000\n",
            "could not convert string '1_000' to float64",
        ),
        (
            "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1.5 1\n",
            "entry 1 is at row 1 and column 1.5, which are no places in 2 x 2",
        ),
        (
            "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 nan 1\n",
            "row 1 and column nan, which are no places",
        ),
        (
            "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 one 1\n",
            "could not convert string 'one'",
        ),
        (
            "%%MatrixMarket matrix coordinate real general\n2 2 1\n3 1 1\n",
            "entry 1 is at row 3 and column 1",
        ),
        (
            "%%MatrixMarket matrix coordinate real general\n2000000000 2000000000 1\n1 1 5\n",
            "says that it has",
        ),
        ("%%MatrixMarket matrix coordinate real general\n0 3 1\n1 1 5\n", "says that it has"),
    ]:
        (tmp_path / "x.mtx").write_text(text)
        with pytest.raises(ValueError, match=match):
            Cone.from_table(open_table(tmp_path / "x.mtx"))
    with pytest.raises(
        ValueError,
        match="the Kullback-Leibler loss needs single entries of X, which is an opened file",
    ):
        MultiplicativeNMF(2, loss="kullback-leibler").fit(open_table(np.eye(3)))
    with pytest.raises(
        ValueError,
        match=(
            "needs the whole table in memory, and X is an opened file, read in blocks; use"
            " GraphCCNMF"
        ),
    ):
        CCNMF(2, affinity="knn").fit(open_table(np.eye(3) + 1))


def test_symmetric_and_pattern_matrices(tmp_path):
    (tmp_path / "s.mtx").write_text(
        "%%MatrixMarket matrix coordinate pattern symmetric\n% why\n3 3 3\n2 1\n3 2\n3 3\n"
    )
    X = next(open_table(tmp_path / "s.mtx").samples()).toarray()
    np.testing.assert_array_equal(X, [[0, 1, 0], [1, 0, 1], [0, 1, 1]])


@pytest.mark.parametrize("seed", seeds(10))
def test_the_cone_of_a_tall_table_is_that_of_its_triangle(seed):
    """Same rays as without the reduction, and a certificate about the table itself, checked in
    other blocks than it was made from."""
    rng = np.random.default_rng(seed)
    P = planted(rng, 400, int(rng.integers(3, 25)), int(rng.integers(5, 60)))
    P = np.vstack([P, 2 * P[:2], np.zeros((1, 400))])
    tall, direct = Cone.from_samples(np.array_split(P.T, 7)), Cone.from_points(P)
    np.testing.assert_array_equal(tall.ray_indices, direct.ray_indices)
    assert [g.tolist() for g in tall.groups] == [g.tolist() for g in direct.groups]
    verdict = tall.verify(lambda: np.array_split(P.T, 5))
    assert verdict.smallest_distance == pytest.approx(tall.verify(P).smallest_distance, rel=1e-9)
    assert verdict.largest_residual < 1e-12


def test_the_checker_by_blocks_refuses_what_does_not_hold(tmp_path):
    X = planted(np.random.default_rng(1), 100, 8, 20).T
    cone = Cone.from_samples([X])
    cone.save(tmp_path / "cone.npz")
    cone = Cone.load(tmp_path / "cone.npz")
    with pytest.raises(ValueError, match=r"lives in 100 dimensions and does not hold its 8 rays"):
        _ = cone.rays
    inside = np.setdiff1d(np.arange(28), cone.ray_indices)[0]
    spoiled = X.copy()
    spoiled[0, inside] *= 1.01
    with pytest.raises(
        CertificateError, match=f"point {inside}: it is .* away from its combination of rays"
    ):
        cone.verify(lambda: [spoiled])
    swapped = X.copy()
    swapped[:, cone.ray_indices[:2]] = X[:, cone.ray_indices[1::-1]]
    with pytest.raises(CertificateError):
        cone.verify(lambda: [swapped])
    with pytest.raises(CertificateError, match="dimension 100, but the blocks have 99 rows"):
        cone.verify(lambda: [X[1:]])
    with pytest.raises(CertificateError, match="not made from blocks of coordinates"):
        Cone.from_points(X.T).verify(open_table(X))


@pytest.mark.parametrize("scale", [1e-200, 1e-9, 1e9, 1e200])
def test_the_scale_of_a_tall_table_does_not_matter(scale):
    X = planted(np.random.default_rng(0), 100, 8, 20).T
    cone = Cone.from_samples(np.array_split(scale * X, 3))
    np.testing.assert_array_equal(cone.ray_indices, Cone.from_points(X.T).ray_indices)
    cone.verify(lambda: np.array_split(scale * X, 4))
    np.testing.assert_array_equal(
        Cone.from_table(open_table(scale * X, block_size=33)).ray_indices, cone.ray_indices
    )
    with pytest.raises(ValueError, match="all 3 points are zero"):
        Cone.from_samples([np.zeros((5, 3))])


@pytest.mark.slow
@pytest.mark.parametrize("gap", [1e-3, 1e-5, 1e-6])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_tol_ill_conditioned_points_are_certified_at(gap, dtype):
    """Twin rays a distance ``gap`` apart: the unit points have a condition number of about 1 / gap.
    QR loses nothing, so the rays are found at any tolerance below the gap; witnesses that combine
    the points carry it as long as it is above roundoff times condition."""
    rng = np.random.default_rng(0)
    X = rng.random((5000, 20))
    X[:, 1] = X[:, 0] + gap * rng.random(5000)
    X[:, 2] = X[:, 0] + gap * rng.random(5000)
    X = np.hstack([X, X[:, :5] @ rng.random((5, 10))]).astype(dtype)
    tol = 1e-8 if dtype == np.float64 else 1e-6
    tall, direct = Cone.from_samples(np.array_split(X, 4), tol), Cone.from_points(X.T, tol)
    assert tall.tol == tol
    np.testing.assert_array_equal(tall.ray_indices, direct.ray_indices)
    assert tall.verify(lambda: np.array_split(X, 3)).largest_residual <= tol


def test_beyond_that_a_larger_tol_is_certified_and_a_warning_says_so():
    rng = np.random.default_rng(0)
    X = rng.random((5000, 12))
    X[:, 1] = X[:, 0] + 1e-9 * rng.random(5000)
    with pytest.warns(UserWarning, match=r"certified at tol = 1e-\d+ instead of 1e-10"):
        cone = Cone.from_samples([X], 1e-10)
    assert 1e-10 < cone.tol < 1e-8
    cone.verify(lambda: [X])


@pytest.mark.parametrize("encoding", ["csr_matrix", "csc_matrix"])
@pytest.mark.parametrize(
    ("indptr", "indices"),
    [
        ([0, 1, 2, 3], [0, 1, -1]),
        ([0, 1, 2, 3], [0, 1, 10**8]),
        ([0, 2, 1, 3], [0, 1, 2]),
        ([0, 1, 2], [0, 1, 2]),
    ],
)
def test_damaged_sparse_tables_are_refused_before_they_reach_scipy(
    tmp_path, encoding, indptr, indices
):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "h.h5ad", "w") as file:
        group = file.create_group("X")
        group.attrs["encoding-type"], group.attrs["shape"] = encoding, (3, 3)
        group["indptr"], group["indices"], group["data"] = (
            np.array(indptr),
            np.array(indices),
            np.array([1.0, 2, 3]),
        )
    with pytest.raises(InvalidInputError, match="it is damaged"):
        Cone.from_table(open_table(tmp_path / "h.h5ad"))


def test_a_point_takes_part_in_few_merges(monkeypatch):
    """Of n blocks, merged two by two, each is in log n merges."""
    merged = []

    def counting(a, b):
        merged.append(a.n_points + b.n_points)
        return merge(a, b)

    monkeypatch.setattr(streaming, "merge", counting)
    P = np.random.default_rng(0).random((16, 5))
    np.testing.assert_array_equal(
        Cone.from_blocks(P[k : k + 1] for k in range(16)).ray_indices,
        Cone.from_points(P).ray_indices,
    )
    assert sum(size for size in merged if size > 1) == 16 * 4


@pytest.mark.parametrize("make", [Cone.from_blocks, Cone.from_samples])
def test_blocks_in_float32_are_warned_about_once(make):
    blocks = [np.eye(3, dtype=np.float32)] * 2
    for some in (blocks, blocks[:1]):
        with pytest.warns(UserWarning, match="P is float32") as caught:
            make(some)
        assert len(caught) == 1


def test_rays_that_are_clear_of_other_rays_only_have_finite_weights_in_a_tall_table():
    """Points that are no rays ask nothing of their witnesses."""
    P = with_twins()
    cone = Cone.from_points(P)
    assert cone.certificate.rays_only.any()
    assert np.isfinite(_combined(unit_rows(P)[0], cone.certificate, 5)[0]).all()
