"""Reading: every format gives the same table back with its names, and everything that is wrong is
said in one sentence."""

from __future__ import annotations

import contextlib
import gzip
import importlib.util
import os
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp

from conecollapse import InvalidInputError
from conecollapse._errors import ConeCollapseError
from conecollapse.io import FORMATS, read_labels, read_table
from conecollapse.io.delimited import read as read_delimited
from conecollapse.io.frames import from_frame
from conecollapse.io.text import read_rows

X = np.array([[1.0, 0.0, 2.5], [0.25, 3.0, 0.0], [4.0, 0.0, 1.0], [0.0, 1e-3, 7.0]])
ROWS = ["plain", 'a "quoted", name', "<script>alert(1)</script>", "=1+1"]
COLUMNS = ["ünïcode", "two\nlines", "semi;colon"]
FRAME = pd.DataFrame(X, index=ROWS, columns=COLUMNS)
GENES = pd.DataFrame(
    np.arange(24.0).reshape(12, 2) + 1, index=[f"g{i}" for i in range(12)], columns=["s0", "s1"]
)


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def write_npz(path):
    np.savez(path, X=X, sample_names=np.array(ROWS), feature_names=np.array(COLUMNS))


def write_mtx(path):
    scipy.io.mmwrite(path, sp.coo_array(X))
    write(path.with_name("table.rows.txt"), "\n".join(name.replace("\n", " ") for name in ROWS))
    write(path.with_name("table.cols.txt"), "\n".join(name.replace("\n", " ") for name in COLUMNS))


def write_h5ad(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import anndata

        anndata.AnnData(
            sp.csr_matrix(X), obs=pd.DataFrame(index=ROWS), var=pd.DataFrame(index=COLUMNS)
        ).write_h5ad(path)


WRITERS = {
    ".npy": lambda path: np.save(path, X),
    ".npz": write_npz,
    ".csv": FRAME.to_csv,
    ".tsv": lambda path: FRAME.to_csv(path, sep="\t"),
    ".mtx": write_mtx,
    ".parquet": FRAME.to_parquet,
    ".h5ad": write_h5ad,
}


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_gives_the_same_table(kind, tmp_path):
    path = tmp_path / f"table{kind}"
    WRITERS[kind](path)
    table = read_table(path)
    values = table.X.toarray() if sp.issparse(table.X) else table.X
    np.testing.assert_array_equal(values, X)
    assert table.X.dtype == np.float64
    assert table.features_in == "columns"
    assert len(table.sha256) == 64
    assert table.source == str(path)
    if kind == ".npy":
        assert table.sample_names is None
        assert table.features.tolist() == ["x0", "x1", "x2"]
        return
    expected = [name.replace("\n", " ") for name in COLUMNS] if kind == ".mtx" else COLUMNS
    assert table.sample_names.tolist() == ROWS
    assert table.feature_names.tolist() == expected
    turned = read_table(path, features_in="rows")
    assert turned.X.shape == (3, 4)
    assert turned.feature_names.tolist() == ROWS
    assert turned.why == "as requested"


@pytest.mark.parametrize("kind", [".csv", ".tsv", ".mtx"])
def test_gzipped_files_are_read(kind, tmp_path):
    plain = tmp_path / f"table{kind}"
    WRITERS[kind](plain)
    zipped = tmp_path / f"table{kind}.gz"
    zipped.write_bytes(gzip.compress(plain.read_bytes()))
    table = read_table(zipped)
    assert table.sample_names.tolist() == ROWS
    assert table.X.max() == X.max()


@pytest.mark.parametrize("kind", FORMATS)
def test_every_truncation_is_one_sentence(kind, tmp_path):
    path = tmp_path / f"table{kind}"
    WRITERS[kind](path)
    content = path.read_bytes()
    # text cut at the end of a line is a shorter table, so such files are cut inside a number or a
    # quote
    lengths = (
        [len(content) // 3, len(content) * 2 // 3, len(content) - 9]
        if kind not in (".csv", ".tsv")
        else [25, 35]
    )
    for length in lengths:
        path.write_bytes(content[:length])
        with pytest.raises(InvalidInputError) as refused:
            read_table(path)
        assert "\n" not in str(refused.value)
    zipped = tmp_path / f"table{kind}.gz"
    if kind in (".csv", ".tsv", ".mtx"):
        zipped.write_bytes(gzip.compress(content)[:-12])
        with pytest.raises(InvalidInputError, match=r"truncated, damaged or of another kind"):
            read_table(zipped)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    "content",
    [b"\x00\x01\x02\x03" * 50, b"\x80\x04\x95 not a table", b"PK\x03\x04 zip"],
    ids=["zeros", "pickle", "zip"],
)
def test_garbage_is_one_sentence(kind, content, tmp_path):
    path = tmp_path / f"table{kind}"
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match=r"^[^\n]+$"):
        read_table(path)


# HDF5 itself may crash on flipped bytes
@pytest.mark.parametrize("kind", [kind for kind in FORMATS if kind != ".h5ad"])
def test_flipped_bytes_are_read_or_refused(kind, tmp_path):
    path = tmp_path / f"table{kind}"
    WRITERS[kind](path)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(60):
        flipped = bytearray(content)
        flipped[rng.integers(len(flipped))] = rng.integers(256)
        path.write_bytes(bytes(flipped))
        with contextlib.suppress(InvalidInputError):
            assert read_table(path).X.shape[0] > 1


class TestFrames:
    def test_pandas(self):
        table = read_table(FRAME)
        assert table.feature_names.tolist() == COLUMNS
        assert table.sha256 == ""
        named = read_table(FRAME.reset_index(names="sample"))
        assert named.sample_names.tolist() == ROWS
        assert "called 'sample'" in named.why

    def test_pandas_nullable_and_sparse_columns(self):
        for frame in (FRAME.convert_dtypes(), FRAME.astype({COLUMNS[1]: "Float64"})):
            np.testing.assert_array_equal(read_table(frame).X, X)
            assert read_table(frame).X.dtype == np.float64
        sparse = read_table(FRAME.astype(pd.SparseDtype(float, 0.0)))
        assert sp.issparse(sparse.X)
        np.testing.assert_array_equal(sparse.X.toarray(), X)

    def test_duplicate_names_are_fine(self):
        assert read_table(FRAME.set_axis(["a", "a", "a"], axis=1)).feature_names.tolist() == [
            "a",
            "a",
            "a",
        ]

    def test_polars(self):
        polars = pytest.importorskip("polars")
        frame = polars.DataFrame({"gene": ["a", "b"], "s1": [1, 2], "s2": [0.5, 0.0]})
        table = read_table(frame)
        assert table.feature_names.tolist() == ["a", "b"]
        np.testing.assert_array_equal(table.X, [[1, 2], [0.5, 0]])
        for column, message in (
            (["u", "v"], r"'u' where a number belongs, in row 1 \('a'\), column 3 \('t'\)"),
            ([1, None], r"missing value \(NaN\) in row 2 \('b'\)"),
        ):
            with pytest.raises(InvalidInputError, match=message):
                read_table(frame.with_columns(t=polars.Series(column)))

    def test_anndata(self):
        anndata = pytest.importorskip("anndata")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data = anndata.AnnData(
                X.astype(np.float32), obs=pd.DataFrame(index=ROWS), var=pd.DataFrame(index=COLUMNS)
            )
            table = read_table(data[:3])
            empty = anndata.AnnData(obs=pd.DataFrame(index=ROWS))
        assert table.X.dtype == np.float32
        assert table.sample_names.tolist() == ROWS[:3]
        assert "obs" in table.why
        with pytest.raises(InvalidInputError, match="has no X"):
            read_table(empty)

    def test_names_that_occur_twice_in_an_h5ad_file_are_fine(self, tmp_path):
        anndata = pytest.importorskip("anndata")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data = anndata.AnnData(
                X.astype(np.float32),
                obs=pd.DataFrame(index=["a"] * len(ROWS)),
                var=pd.DataFrame(index=COLUMNS),
            )
            data.write_h5ad(tmp_path / "t.h5ad")
        assert read_table(tmp_path / "t.h5ad").sample_names.tolist() == ["a"] * len(ROWS)


def npz(**arrays):
    """What writes such arrays."""
    return lambda folder: np.savez(folder / "t.npz", **arrays) or folder / "t.npz"


def content(name, text):
    """What writes a file of this name."""

    def write_it(folder):
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return folder / name

    return write_it


DATES = pd.to_datetime([None, "2020-05-17", "2021-01-01", "2022-01-01"])
SPARSE = {"data": np.ones(3), "indices": [0, 1, 2], "indptr": [0, 1, 2, 3], "shape": [3, 3]}
SPARSE |= {"format": "csr"}
NEGATIVE = sp.csr_array(np.array([[1.0, 2.0, 0.0], [0.0, 3.0, 0.0], [4.0, 0.0, -5.0]]))
MISSING = sp.csr_array(np.where(NEGATIVE.toarray() < 0, np.nan, NEGATIVE.toarray()))
NO_KIND = r"known are .npy, .npz, .csv, .tsv, .mtx, .parquet, .h5ad, .csv.gz"
# what `read_table` is given, or what writes the file that it is given; and what it says
REFUSED = [
    (pd.DataFrame(index=ROWS), "has no columns of numbers"),
    (
        FRAME.assign(kind=["1", "x", "y", "z"]),
        r"has 'x' where a number belongs, in row 2 .* column 4 \('kind'\)",
    ),
    (FRAME.assign(other=[1, 2, None, 4]), "missing value .* in row 3 "),
    (
        FRAME.assign(b=pd.array([4, pd.NA, 6, 1], dtype="Int64")),
        r"missing value .* in row 2 \('a .quoted., name'\), column 4 \('b'\)",
    ),
    (
        FRAME.assign(when=DATES),  # the first value that is no number, also after a missing one
        r"has '2020-05-17.*' where a number belongs, in row 2 .*, column 4 \('when'\)",
    ),
    ([[1j, 0], [0, 1]], "complex"),
    ([["a", "b"], ["c", "d"]], "text"),
    ([1, 2, 3], "dimensions"),
    ([[1, 2, 3]], "only one row"),
    ([[1], [2]], "only one column"),
    ([[1, 2], [3]], "rectangular"),
    (NEGATIVE, "has 1 negative value, the first in row 3, column 3: -5; "),
    (MISSING, r"has a missing value \(NaN\) in row 3, column 3; "),
    (npz(a=X, b=X), r"holds a \(4, 3\), b \(4, 3\); it should hold one table, or one called X"),
    (npz(**SPARSE | {"indices": [0, 1, 7]}), "t.npz cannot be read"),
    (npz(**SPARSE | {"indices": [0.0, 1, 2]}), r"cannot be read \(.*places.* integers\)"),
    (npz(**SPARSE | {"indptr": [0.0, 1, 2, 3]}), r"cannot be read \(.*places.* integers\)"),
    (
        content("t.csv", "a,b\n1,2\nstraße,3\n".encode("latin-1")),
        r"not UTF-8 text: byte 12 \(line 3\) is 0xdf",
    ),
    (
        content("t.csv", "a,b\n1,2\n3,\0\n"),
        r"t.csv is not a text table: it holds zero bytes \(line 3\)\.",
    ),
    (
        content("t.csv", f"id,a,b\ny,1,2\n{'x' * 2000},3,4\n"),
        "name 2 of the rows has 2000 characters",
    ),
    (lambda folder: folder / "none.csv", "there is no file"),
    (lambda folder: folder, "is a folder"),
    (content("empty.csv", ""), "is empty"),
    (content("t.xlsx", "x"), f"{NO_KIND}.*; save it as one of them"),
    # good files of another kind are called by it, and not damaged
    (content("t.csv", gzip.compress(b"a,b\n1,2\n")), "is gzipped; give it a name that ends in .gz"),
    (content("t.csv", b"PK\x03\x04\x14\0"), "as Excel workbooks are; save the table in it as .csv"),
    (content("t.csv", b"\xd0\xcf\x11\xe0\xa1"), "is an Excel workbook; save the table"),
    (content("t.csv", "a;b\n1;2\n".encode("utf-16")), "is UTF-16 text; save it as UTF-8"),
    (content("t.csv", b"\xfe\xff\0a"), "is UTF-16 text; save it as UTF-8"),
    (content("t.npy.gz", "x"), "no known format"),
    (content("noext", "x"), "no known format"),
]


@pytest.mark.parametrize(("source", "message"), REFUSED)
def test_what_is_no_table_is_refused_with_the_value_at_its_place(source, message, tmp_path):
    with pytest.raises(InvalidInputError, match=message):
        read_table(source(tmp_path) if callable(source) else source)
    with pytest.raises(InvalidInputError, match="features_in must be one of auto, rows, columns;"):
        read_table(X, features_in="left")


class TestTypes:
    def test_float32_stays_and_integers_become_float64(self):
        assert read_table(X.astype(np.float32)).X.dtype == np.float32
        for kind in (np.int64, np.uint8, bool, np.float16, ">f8"):
            assert read_table(X.astype(kind)).X.dtype == np.dtype("=f8")

    def test_sparse_is_canonical(self):
        doubled = sp.coo_array(([1.0, 2.0, 0.0, 1.0], ([0, 0, 1, 1], [1, 1, 0, 1])), shape=(2, 2))
        table = read_table(doubled)
        assert table.X.toarray().tolist() == [[0, 3], [0, 1]]
        assert table.X.nnz == 2


class TestNpz:
    def test_scipys_sparse_files(self, tmp_path):
        for make in (sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.csr_array):
            sp.save_npz(tmp_path / "s.npz", make(X))
            np.testing.assert_array_equal(read_table(tmp_path / "s.npz").X.toarray(), X)

    def test_the_layout_of_our_datasets(self, tmp_path):
        y = np.arange(4) % 2
        np.savez(tmp_path / "d.npz", X=X.T, y=y)
        dense = read_table(tmp_path / "d.npz")
        np.testing.assert_array_equal(dense.X, X)
        assert dense.why.startswith("samples are columns and features rows, because y has an entry")
        C = sp.csc_array(X.T)
        np.savez(
            tmp_path / "t.npz",
            data=C.data,
            indices=C.indices,
            indptr=C.indptr,
            shape=C.shape,
            y=y,
            vocab=np.array(["a", "b", "c"]),
        )
        text = read_table(tmp_path / "t.npz")
        np.testing.assert_array_equal(text.X.toarray(), X)
        assert text.feature_names.tolist() == ["a", "b", "c"]
        np.savez(tmp_path / "e.npz", X=X, y=y)
        np.testing.assert_array_equal(read_table(tmp_path / "e.npz").X, X)

    def test_labels_that_fit_neither_axis_say_nothing(self, tmp_path):
        X = np.arange(1.0, 13).reshape(3, 4)
        np.savez(tmp_path / "t.npz", X=X, y=np.zeros(7))
        np.testing.assert_array_equal(read_table(tmp_path / "t.npz").X, X)

    def test_a_pickle_is_refused_and_never_loaded(self, tmp_path):
        fired = tmp_path / "fired"

        class Bomb:
            def __reduce__(self):
                return os.system, (f"touch {fired}",)

        bomb = np.array([[Bomb(), 1], [2, 3]], dtype=object)
        np.save(tmp_path / "b.npy", bomb, allow_pickle=True)
        np.savez(tmp_path / "b.npz", X=bomb)
        for name in ("b.npy", "b.npz"):
            with pytest.raises(InvalidInputError, match="Python objects"):
                read_table(tmp_path / name)
            with pytest.raises(InvalidInputError):
                read_labels(tmp_path / name, None, 2)
        assert not fired.exists()


class TestDelimited:
    @pytest.mark.parametrize(
        ("text", "rows", "columns", "values"),
        [
            ("1,2\n3,4\n", None, None, [[1, 2], [3, 4]]),
            ("a,b\n1,2\n3,4\n", None, ["a", "b"], [[1, 2], [3, 4]]),
            ("id,a,b\nx,1,2\ny,3,4\n", ["x", "y"], ["a", "b"], [[1, 2], [3, 4]]),
            ("x,1,2\ny,3,4\n", ["x", "y"], None, [[1, 2], [3, 4]]),
            (",2001,2002\nx,1,2\ny,3,4\n", ["x", "y"], ["2001", "2002"], [[1, 2], [3, 4]]),
            (",a,b\n0,1,2\n1,3,4\n", ["0", "1"], ["a", "b"], [[1, 2], [3, 4]]),
            ("a,b\nx,1,2\ny,3,4\n", ["x", "y"], ["a", "b"], [[1, 2], [3, 4]]),  # as R writes them
            ("a;b\n1;2\n3;4\n", None, ["a", "b"], [[1, 2], [3, 4]]),
            ("a\tb\n1\t2\n3\t4\n", None, ["a", "b"], [[1, 2], [3, 4]]),
            ('"a,b","c ""d"""\n1,2\n\n3,1e-2', None, ["a,b", 'c "d"'], [[1, 2], [3, 0.01]]),
            # commas in quotes separate nothing
            ('"a,b,c";"d,e,f,g"\n1;2\n3;4\n', None, ["a,b,c", "d,e,f,g"], [[1, 2], [3, 4]]),
            ("\ufeffa,b\r\n1,2\r\n3,4\r\n", None, ["a", "b"], [[1, 2], [3, 4]]),
        ],
    )
    def test_headings_and_names(self, text, rows, columns, values, tmp_path):
        path = tmp_path / "t.csv"
        path.write_bytes(text.encode())
        matrix = read_delimited(path)
        assert matrix.values.tolist() == values
        assert (None if matrix.row_names is None else matrix.row_names.tolist()) == rows
        assert (None if matrix.column_names is None else matrix.column_names.tolist()) == columns

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("a,b\n1,2\n3\n", "line 3 of t.csv has 1 cells where the lines before have 2"),
            ("a,b,c\n1,2,3\n4,5\n", "line 3"),
            (
                "g,a,b\nx,1,2\ny,3,oops\nz,1,1\n",
                r"line 3 \('y'\), column 3 \('b'\) of t.csv holds 'oops' where a number belongs",
            ),
            ("1,2\n3,4\n5,x\n", "line 3, column 2 of t.csv holds 'x'"),
            ("1,2\nx,4\n5,6\n5,6\n", "line 2, column 1 of t.csv holds 'x'"),
            (
                "a;b\n1,5;2\n3;4\n",
                (
                    r"line 2, column 1 \('a'\) of t.csv holds '1,5' where a number belongs, with a"
                    r" decimal point"
                ),
            ),
            ("a,b\n1,\n3,4\n", r"line 2, column 2 \('b'\) of t.csv holds no number \(''\)"),
            ("a,b\n1,2\n3,4\n5,\x1e6\n", r"line 4, column 2 \('b'\) of t.csv holds '\\x1e6' where"),
            ("a,b\n1,NA\n3,4\n", r"holds no number \('NA'\)"),
            ("a,b\n1,nan\n3,4\n", r"missing value \(NaN\) in row 1, column 2 \('b'\)"),
            ("a,b\n1,inf\n3,4\n", r"infinite value in row 1, column 2 \('b'\)"),
            (
                "g,a,b\nx,1,2\ny,-3,4\nz,1,-1\n",
                r"2 negative values, the first in row 2 \('y'\), column 1 \('a'\): -3",
            ),
            ("a\n1\n2\n3\n", "only one column of numbers; .*separator"),
            ("a,b\n", "has a heading and no rows"),
            ("\n\n", "has no rows"),
            ('a,b\n1,"2\n3,4\n', "is a quote left open"),
            ("a,b\n1,1e400\n3,4\n", "infinite"),
        ],
    )
    def test_errors_name_the_place_and_the_value(self, text, message, tmp_path):
        with pytest.raises(InvalidInputError, match=message):
            read_table(write(tmp_path / "t.csv", text))


class TestMatrixMarket:
    def test_ten_x_names(self, tmp_path):
        scipy.io.mmwrite(tmp_path / "matrix.mtx", sp.coo_array(X.T))
        write(tmp_path / "features.tsv", "ENSG1\tA\tGene\nENSG2\tB\tGene\nENSG3\tC\tGene\n")
        (tmp_path / "barcodes.tsv.gz").write_bytes(gzip.compress(b"c1\nc2\nc3\nc4\n"))
        table = read_table(tmp_path / "matrix.mtx")
        np.testing.assert_array_equal(table.X.toarray(), X)
        assert table.feature_names.tolist() == ["A", "B", "C"]
        assert table.sample_names.tolist() == ["c1", "c2", "c3", "c4"]
        write(tmp_path / "features.tsv", "A\nB\n")
        with pytest.raises(
            InvalidInputError, match=r"features.tsv has 2 names, but matrix.mtx has 3"
        ):
            read_table(tmp_path / "matrix.mtx")


class TestOrientation:
    def test_gene_tables_are_transposed(self, tmp_path):
        GENES.to_csv(tmp_path / "genes.csv")
        table = read_table(tmp_path / "genes.csv")
        assert table.X.shape == (2, 12)
        assert "the 12 rows have names" in table.why
        assert 'if that is wrong, pass features_in="columns"' in table.why

    def test_arrays_are_never_transposed(self):
        assert read_table(GENES.to_numpy()).X.shape == (12, 2)
        assert read_table(GENES.reset_index(drop=True)).X.shape == (12, 2)
        # numbers are no names
        assert read_table(GENES.set_axis(range(100, 112))).X.shape == (12, 2)

    @pytest.mark.parametrize(
        ("word", "shape"),
        [
            ("Gene_ID", (3, 4)),
            ("words", (3, 4)),
            ("sample", (4, 3)),
            ("Cells", (4, 3)),
            ("what", (4, 3)),
        ],
    )
    def test_the_word_over_the_names_decides(self, word, shape):
        assert read_table(FRAME.rename_axis(word)).X.shape == shape

    def test_the_size_of_an_image_decides(self):
        table = read_table(np.ones((6, 4)), image_shape=(2, 3))
        assert table.X.shape == (4, 6)
        assert table.image_shape == (2, 3)
        assert "an image has 6 pixels" in table.why


class TestFiles:
    @pytest.mark.parametrize(
        ("kind", "package", "extra"),
        [(".parquet", "pyarrow", "parquet"), (".h5ad", "h5py", "bio")],
    )
    def test_a_missing_package_is_named_with_its_extra(
        self, kind, package, extra, tmp_path, monkeypatch
    ):
        found = importlib.util.find_spec
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name: None if name == package else found(name)
        )
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(
            ConeCollapseError, match=rf"needs the package {package}; .*conecollapse\[{extra}\]"
        ):
            read_table(write(tmp_path / f"t{kind}", "x"))

    @pytest.mark.parametrize("kind", [".txt", ".csv"])
    def test_lines_are_numbered_from_one_and_empty_lines_count(self, kind, tmp_path):
        assert list(read_rows(write(tmp_path / f"t{kind}", "a\n\nb\n"))) == [
            (1, ["a"]),
            (3, ["b"]),
        ]


class TestLabels:
    def test_by_order_and_by_name(self, tmp_path):
        names = np.array(["a", "b", "c"])
        for name, text in [
            ("l.txt", "x\ny\nx\n"),
            ("l.csv", "label\nx\ny\nx\n"),
            ("l.csv", "anything\nx\ny\nx\n"),
            ("l.csv", "c,x\nb,y\na,x\n"),
            ("l.csv", "sample,kind\nb,y\na,x\nc,x\n"),
            ("l.tsv", "sample\tclass\nb\ty\na\tx\nc\tx\n"),
        ]:
            assert read_labels(write(tmp_path / name, text), names, 3).tolist() == ["x", "y", "x"]
        np.save(tmp_path / "l.npy", [2, 0, 2])
        assert read_labels(tmp_path / "l.npy", names, 3).tolist() == ["2", "0", "2"]
        np.savez(tmp_path / "l.npz", X=X, y=[2, 0, 2])
        assert read_labels(tmp_path / "l.npz", None, 3).tolist() == ["2", "0", "2"]
        np.savez(tmp_path / "l.npz", classes=np.arange(3), X=X)
        with pytest.raises(
            InvalidInputError,
            match=r"l.npz has no array y to take labels from; it has classes, X\.",
        ):
            read_labels(tmp_path / "l.npz", None, 3)

    @pytest.mark.parametrize(
        ("name", "text", "message"),
        [
            ("l.txt", "x\ny\n", "l.txt has 2 labels for 3 samples"),
            ("l.csv", "a,x\nb,y\n", "has no label for the sample 'c'; give one for each"),
            ("l.csv", "a,x\nb,y\nc,x\nd,x\n", "has a label for 'd', which is no sample"),
            ("l.csv", "a,x\nb,y\na,x\n", "has two labels for 'a'"),
            ("l.csv", "a,x\nb\nc,x\n", "line 2 of l.csv has 1 cells where the lines before have 2"),
            ("l.csv", "a,x\nb,\nc,x\n", "line 2 of l.csv has no label"),
            ("l.csv", "a,x,1\nb,y,1\nc,x,1\n", "3 columns"),
            ("l.npy", "not an array", "is not a .npy file"),
            ("l.doc", "x", "labels are read from"),
            ("l.txt", "", "is empty"),
            ("l.txt", "\n\n", "l.txt has no labels"),
        ],
    )
    def test_wrong_label_files_are_refused(self, name, text, message, tmp_path):
        with pytest.raises(InvalidInputError, match=message):
            read_labels(write(tmp_path / name, text), np.array(["a", "b", "c"]), 3)


def test_numbers_of_pandas_own_types_are_floats_and_what_is_missing_is_nan():
    frame = pd.DataFrame(
        {"a": pd.array([1, 2], dtype="Int64"), "b": pd.array([1.5, None], dtype="Float64")}
    )
    values = from_frame(frame, wanted=False).values
    assert values.dtype == np.float64
    np.testing.assert_array_equal(values, [[1, 1.5], [2, np.nan]])
