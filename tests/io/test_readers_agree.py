"""`read_table` and `open_table` read the same files, and refuse the same files."""

from __future__ import annotations

import gzip
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from conecollapse._errors import ConeCollapseError
from conecollapse.io import open_table, read_table
from conecollapse.tables import as_table

X = np.array([[1.0, 0.0, 2.5], [0.0, 3.0, 0.0], [4.0, 0.5, 0.25], [7.0, 0.0, 1.0]])
CELLS, GENES = ["c1", "c2", "c3", "c4"], ["TP53", "=a", "ü"]
ENTRIES = [f"{i + 1} {j + 1} {X[i, j]}" for i, j in zip(*np.nonzero(X), strict=True)]


def npy(change):
    return lambda path: np.save(path, change(X))


def mtx(banner, lines, sizes=None):
    sizes = sizes or f"4 3 {len(ENTRIES)}"
    text = "\n".join([f"%%MatrixMarket matrix {banner}", sizes, *lines]) + "\n"
    return lambda path: path.write_bytes(
        gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode()
    )


def h5ad(X=X, before=None, **more):
    """A file that anndata writes; ``before`` changes it with h5py."""

    def write(path):
        anndata, h5py = pytest.importorskip("anndata"), pytest.importorskip("h5py")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            frames = {"obs": pd.DataFrame(index=CELLS), "var": pd.DataFrame(index=GENES)}
            anndata.AnnData(X, **(frames | more)).write_h5ad(path)
        if before is not None:
            with h5py.File(path, "r+") as file:
                before(file)

    return write


def older_words(file):
    for new, old in (("encoding-type", "h5sparse_format"), ("shape", "h5sparse_shape")):
        value = file["X"].attrs[new]
        file["X"].attrs[old] = "csr" if new == "encoding-type" else value
        del file["X"].attrs[new]


def records(file):
    for frame, names in (("obs", CELLS), ("var", GENES)):
        del file[frame]
        file[frame] = np.array(
            [(name.encode(), 1) for name in names], [("index", "S8"), ("n", int)]
        )


def unknown_encoding(file):
    file["uns/a"].attrs.modify("encoding-type", "b")


def other_order_of_bytes(file):
    for part in ("data", "indices", "indptr"):
        values = file[f"X/{part}"][:]
        del file[f"X/{part}"]
        file[f"X/{part}"] = values.astype(values.dtype.newbyteorder(">"))


def names_beside_a_mask(file):
    values = file["obs/_index"][:]
    del file["obs/_index"]
    file["obs/_index/values"], file["obs/_index/mask"] = values, np.zeros(4, bool)


READ = {
    "rows.npy": npy(np.ascontiguousarray),
    "columns.npy": npy(np.asfortranarray),
    "single.npy": npy(lambda X: X.astype(np.float32)),
    "turned.npy": npy(lambda X: X.astype(">f8")),
    "whole.npy": npy(lambda X: (4 * X).astype(np.int16)),
    "real.mtx": mtx("coordinate real general", ENTRIES),
    "double.mtx": mtx("coordinate double general", ENTRIES),
    "upper.mtx": mtx("COORDINATE Real GENERAL", ENTRIES),
    "comments.mtx": mtx("coordinate real general", [ENTRIES[0], "% ü", "", *ENTRIES[1:], "%"]),
    "whole.mtx": mtx("coordinate unsigned-integer general", ["1 1 3", "4 3 2"], "4 3 2"),
    "pattern.mtx": mtx("coordinate pattern general", ["1 1", "4 3"], "4 3 2"),
    "symmetric.mtx": mtx("coordinate real symmetric", ["1 1 2", "3 1 5"], "3 3 2"),
    "twice.mtx": mtx("coordinate real general", ["1 1 2", "1 1 5"], "4 3 2"),
    "dense.mtx": mtx("array real general", [str(value) for value in X.T.ravel()], "4 3"),
    "zipped.mtx.gz": mtx("coordinate real general", ENTRIES),
    "none.mtx": mtx("coordinate real general", [], "4 3 0"),
    "dense.h5ad": h5ad(),
    "csr.h5ad": h5ad(sp.csr_matrix(X)),
    "csc.h5ad": h5ad(sp.csc_matrix(X)),
    "log1p.h5ad": h5ad(sp.csr_matrix(X), uns={"log1p": {"base": None}}),
    "unknown.h5ad": h5ad(uns={"a": 1}, before=unknown_encoding),
    "turned.h5ad": h5ad(sp.csr_matrix(X), before=other_order_of_bytes),
    "older.h5ad": h5ad(sp.csr_matrix(X), before=older_words),
    "records.h5ad": h5ad(before=records),
    "mask.h5ad": h5ad(before=names_beside_a_mask),
}
REFUSED = {
    "complex.mtx": mtx("coordinate complex general", ["1 1 2 3"], "4 3 1"),
    "skew.mtx": mtx("coordinate real skew-symmetric", ["2 1 3"], "3 3 1"),
    "outside.mtx": mtx("coordinate real general", ["5 1 3"], "4 3 1"),
    "between.mtx": mtx("coordinate real general", ["1.5 1 3"], "4 3 1"),
    "few.mtx": mtx("coordinate real general", ENTRIES[1:]),
    "many.mtx": mtx("coordinate real general", [*ENTRIES, ENTRIES[0]]),
    "wide.mtx": mtx("coordinate real general", [f"{entry} 1" for entry in ENTRIES]),
    "text.mtx": mtx("coordinate real general", ["1 1 one"], "4 3 1"),
    "digits.mtx": mtx("coordinate real general", ["1 1 1_0"], "4 3 1"),
    "negative.mtx": mtx("coordinate real general", ["1 1 -1"], "4 3 1"),
    "nan.npy": npy(lambda X: np.where(X > 3, np.nan, X)),
    "complex.npy": npy(lambda X: X + 1j),
    "three.npy": npy(lambda X: X[None]),
    "text.npy": npy(lambda X: X.astype(str)),
    "empty.h5ad": h5ad(None),
    "null.h5ad": h5ad(before=lambda f: (f.pop("X"), f.create_dataset("X", dtype="f4", shape=None))),
    "pointers.h5ad": h5ad(
        sp.csr_matrix(X), before=lambda f: f["X/indptr"].write_direct(np.array([0, 9, 3, 5, 7]))
    ),
}


@pytest.mark.parametrize("name", READ)
def test_both_read_the_same_table(name, tmp_path):
    path = tmp_path / name
    READ[name](path)
    read, opened = read_table(path), open_table(path, block_size=3)
    whole, blocks = (
        np.vstack([B.toarray() if sp.issparse(B) else B for B in parts])
        for parts in ([read.X], opened.samples())
    )
    np.testing.assert_array_equal(whole, blocks)
    features = np.vstack([B.toarray() if sp.issparse(B) else B for B in opened.features(2)])
    np.testing.assert_array_equal(whole, features.T)
    if "whole" not in name and name.removesuffix(".gz").split(".")[0] not in (
        "pattern",
        "symmetric",
        "twice",
        "none",
    ):
        np.testing.assert_array_equal(whole, X)
    if name.endswith(".h5ad"):
        for table in (read, opened):
            assert table.sample_names.tolist() == CELLS
            assert table.feature_names.tolist() == GENES
    else:
        assert read.sample_names is None
        assert opened.sample_names is None


@pytest.mark.parametrize("name", REFUSED)
def test_both_refuse_in_one_sentence(name, tmp_path):
    path = tmp_path / name
    REFUSED[name](path)
    for door in (read_table, lambda path: as_table(open_table(path)).checked()):
        with pytest.raises(ConeCollapseError, match=r"^[^\n]+$"):
            door(path)


def test_names_beside_a_matrix_are_read_by_both(tmp_path):
    READ["real.mtx"](tmp_path / "t.mtx")
    (tmp_path / "t.rows.txt").write_text("\n".join(CELLS), encoding="utf-8")
    (tmp_path / "t.cols.txt").write_text("\n".join(GENES), encoding="utf-8")
    for table in (read_table(tmp_path / "t.mtx"), open_table(tmp_path / "t.mtx")):
        assert table.sample_names.tolist() == CELLS
        assert table.feature_names.tolist() == GENES


def write_10x(folder):
    """The three files of 10x Genomics, genes in rows."""
    READ["real.mtx"](folder / "matrix.mtx")
    names = "\n".join(f"ENSG{i}\t{name}\tGene" for i, name in enumerate(CELLS))
    (folder / "features.tsv").write_text(names, encoding="utf-8")
    (folder / "barcodes.tsv").write_text("\n".join(GENES), encoding="utf-8")


@pytest.mark.parametrize("name", ["matrix.mtx", ""])
@pytest.mark.parametrize("features_in", ["auto", "rows", "columns"])
def test_both_decide_in_the_same_way_where_the_features_are(name, features_in, tmp_path):
    write_10x(tmp_path)
    read, opened = (
        door(tmp_path / name, features_in=features_in) for door in (read_table, open_table)
    )
    assert read.features_in == ("columns" if features_in == "columns" else "rows")
    assert opened.shape == read.X.shape
    for table in (read, opened):
        names = (table.sample_names.tolist(), table.feature_names.tolist())
        assert names == ((CELLS, GENES) if features_in == "columns" else (GENES, CELLS))
    samples = [block.toarray() for block in opened.samples(2)]
    np.testing.assert_array_equal(np.vstack(samples), read.X.toarray())
    features = [block.toarray() for block in opened.features(2)]
    np.testing.assert_array_equal(np.vstack(features).T, read.X.toarray())
