"""What a refused table is told: the value that is wrong, at its place."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from conecollapse import InvalidInputError
from conecollapse.io import open_table, read_labels, read_table


def test_a_missing_value_of_a_nullable_column_is_named():
    frame = pd.DataFrame(
        {"a": [1.5, 2.5, 3.5], "b": pd.array([4, pd.NA, 6], dtype="Int64")}, index=["x", "y", "z"]
    )
    with pytest.raises(InvalidInputError, match=r"NaN|missing") as refused:
        read_table(frame)
    assert "'y'" in str(refused.value)
    assert "'b'" in str(refused.value)


def test_nullable_and_plain_columns_give_the_same_numbers():
    plain = pd.DataFrame({"a": [1, 2, 3], "b": [4.5, 5.5, 6.5]}, index=["x", "y", "z"])
    mixed = plain.astype({"a": "Int64"})
    np.testing.assert_array_equal(read_table(mixed).X, read_table(plain).X)
    assert read_table(mixed).X.dtype == read_table(plain).X.dtype == np.float64


def test_the_first_value_that_is_no_number_is_named_also_after_a_missing_one():
    frame = pd.DataFrame(
        {"a": [1.0, 2.0, 3.0], "when": pd.to_datetime([None, "2020-05-17", "2021-01-01"])},
        index=["x", "y", "z"],
    )
    with pytest.raises(
        InvalidInputError,
        match=r"has '2020-05-17.*' where a number belongs, in row 2 \('y'\), column 2 \('when'\)",
    ):
        read_table(frame)


@pytest.mark.parametrize("part", ["indices", "indptr"])
def test_places_of_entries_that_are_no_integers_are_refused(part, tmp_path):
    arrays = {
        "data": np.ones(3),
        "indices": np.array([0, 1, 2]),
        "indptr": np.array([0, 1, 2, 3]),
        "shape": np.array([3, 3]),
    }
    np.savez(tmp_path / "whole.npz", format=np.array("csr"), **arrays)
    assert read_table(tmp_path / "whole.npz").X.shape == (3, 3)
    np.savez(
        tmp_path / "table.npz",
        format=np.array("csr"),
        **(arrays | {part: arrays[part].astype(float)}),
    )
    with pytest.raises(
        InvalidInputError, match=r"table.npz cannot be read \(.*places.* integers\)"
    ):
        read_table(tmp_path / "table.npz")


def test_zero_bytes_are_named_with_their_line(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"a,b\n1,2\n3,\0\n")
    with pytest.raises(
        InvalidInputError, match=r"t.csv is not a text table: it holds zero bytes \(line 3\)\."
    ):
        read_table(tmp_path / "t.csv")


def test_a_bad_entry_of_a_sparse_table_is_named_with_its_row_and_column():
    X = sp.csr_array(np.array([[1.0, 2.0, 0.0], [0.0, 3.0, 0.0], [4.0, 0.0, -5.0]]))
    with pytest.raises(
        InvalidInputError, match=r"has 1 negative value, the first in row 3, column 3: -5; "
    ):
        read_table(X)
    X.data[X.data < 0] = np.nan
    with pytest.raises(
        InvalidInputError, match=r"has a missing value \(NaN\) in row 3, column 3; "
    ):
        read_table(X)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(b"a,b\n1,2\n3,4\n"), r"is gzipped; give it a name that ends in \.gz"),
        (b"PK\x03\x04\x14\x00\x06\xff", "Excel workbooks are; save the table in it as .csv"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "is an Excel workbook; save the table in it as .csv"),
        ("a;b\n1;2\n".encode("utf-16"), "is UTF-16 text; save it as UTF-8"),
        (b"\xfe\xff\x00a", "is UTF-16 text; save it as UTF-8"),
        ("a,µ\n1,2\n".encode("latin-1"), r"byte 2 \(line 1\) is 0xb5; save it as UTF-8"),
    ],
)
def test_files_of_another_kind_are_called_by_it_and_not_damaged(content, message, tmp_path):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(InvalidInputError, match=message):
        read_table(tmp_path / "t.csv")


def test_a_file_of_no_known_format_says_what_to_do(tmp_path):
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,4\n")
    with pytest.raises(InvalidInputError, match=r"known are .npy.*; save it as one of them"):
        read_table(tmp_path / "t.xlsx")
    with pytest.raises(InvalidInputError, match=r"in blocks.*; read_table reads it whole"):
        open_table(tmp_path / "t.csv")


def test_an_archive_without_labels_says_what_it_has(tmp_path):
    np.savez(tmp_path / "labels.npz", classes=np.arange(3), X=np.eye(3))
    with pytest.raises(
        InvalidInputError,
        match=r"labels.npz has no array y to take labels from; it has classes, X\.",
    ):
        read_labels(tmp_path / "labels.npz", None, 3)
