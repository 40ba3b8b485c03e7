"""Files made to do harm are refused in one sentence, before memory is taken; and mistakes of ours
are never blamed on a file."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import sys
import tracemalloc
import zipfile
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp
from damaged_files import try_files
from hypothesis import given, settings
from hypothesis import strategies as st
from test_io import WRITERS

from conecollapse import InvalidInputError
from conecollapse._errors import ConeCollapseError
from conecollapse.io import FORMATS, open_table, read_labels, read_spectra, read_table
from conecollapse.io.structure import errors_of_h5py
from conecollapse.io.text import LONGEST_LINE
from conecollapse.runs import cluster, save, verify
from conecollapse.runs.values import SIGNS, harmless, original

MB = 10**6
BANNER = "%%MatrixMarket matrix coordinate real general\n"


def labels_of(path):
    return read_labels(path, None, 3)


def refusal(door, path):
    """The sentence with which a file is refused, and the most memory that was taken meanwhile."""
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInputError) as refused:
            door(path)
        return str(refused.value), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("door", [read_table, open_table])
@pytest.mark.parametrize("sizes", ["100000000 100000000 1", "10 100000000 1", "100000000 3 1"])
def test_a_small_matrix_market_file_that_claims_a_huge_table(door, sizes, tmp_path):
    path = tmp_path / "t.mtx"
    path.write_text(f"{BANNER}{sizes}\n1 1 1\n")
    sentence, peak = refusal(door, path)
    rows, columns = sizes.split()[:2]
    assert f"says that it has {rows} rows and {columns} columns" in sentence
    assert re.search(
        r"takes [0-9.]+ GB of memory; the limit for a file of its size is 1.1 GB", sentence
    )
    assert peak < 4 * MB


def test_raw_tables_of_single_cells_with_millions_of_empty_barcodes_are_read(tmp_path):
    path = tmp_path / "t.mtx"
    path.write_text(f"{BANNER}33000 6800000 2\n1 1 1\n33000 6800000 4\n")
    assert open_table(path).shape == (33000, 6800000)


@pytest.mark.parametrize("sizes", ["9" * 5000 + " 2 1", "2 2 " + "9" * 30, "\u00b2 2 1", "1_0 2 1"])
@pytest.mark.parametrize("door", [read_table, open_table])
def test_sizes_that_are_no_numbers(door, sizes, tmp_path):
    path = tmp_path / "t.mtx"
    path.write_text(f"{BANNER}{sizes}\n1 1 1\n", encoding="latin-1")
    assert refusal(door, path)[1] < 4 * MB


GZIP_BOMBS = {
    "t.csv.gz": b"1,2,3,4,5,6,7,8\n",
    "t.tsv.gz": b"0\t",
    "t.txt.gz": b"label\n",
}


def write_bomb(path, text, size):
    """Members of 16 MB each until ``size`` bytes are reached."""
    member = gzip.compress(text * (2**24 // len(text)))
    path.write_bytes(member * (size // 2**24 + 1))
    return path


@pytest.mark.parametrize("name", GZIP_BOMBS)
def test_gzipped_bombs(name, tmp_path, monkeypatch):
    monkeypatch.setenv("CONECOLLAPSE_UNPACK", str(2**26))
    path = write_bomb(tmp_path / name, GZIP_BOMBS[name], 2**28)
    door = labels_of if name == "t.txt.gz" else read_table
    sentence, peak = refusal(door, path)
    assert re.search(
        r"has [0-9.]+ kB and takes more than [0-9.]+ MB of memory; the limit for a file of its size"
        r" is [0-9.]+ MB",
        sentence,
    )
    assert peak < 2**26  # what is kept of it stays below the limit


@pytest.mark.parametrize(
    ("sizes", "reason"),
    [
        ("1 1 1", "it has 262144 or more entries where it promises 1"),
        ("9000 9000 80000000", "promises 80000000 entries, and has room for at most 11184810"),
    ],
)
def test_a_gzipped_matrix_that_unpacks_to_more_than_it_may(sizes, reason, tmp_path, monkeypatch):
    monkeypatch.setenv("CONECOLLAPSE_UNPACK", str(2**26))
    path = write_bomb(tmp_path / "t.mtx.gz", b"1 1 1\n", 2**28)
    path.write_bytes(gzip.compress(f"{BANNER}{sizes}\n".encode()) + path.read_bytes())
    sentence, peak = refusal(read_table, path)
    assert reason in sentence
    assert peak < 30 * MB


@pytest.mark.slow
def test_a_gzipped_bomb_of_six_gigabytes(tmp_path):
    path = write_bomb(tmp_path / "t.csv.gz", b"0,0,0,0,0,0,0\n", 6_100_000_000)
    sentence, peak = refusal(read_table, path)
    assert "the limit for a file of its size is" in sentence
    # n bytes, 14 for 7 cells, are kept while n + 8 n / 2 is below the limit of 2^30: a fifth of it
    assert peak < 2**30 / 5 + 30 * MB


def test_a_bomb_beside_a_matrix(tmp_path, monkeypatch):
    monkeypatch.setenv("CONECOLLAPSE_UNPACK", str(2**26))
    (tmp_path / "matrix.mtx").write_text(f"{BANNER}2 2 1\n1 1 1\n")
    write_bomb(tmp_path / "barcodes.tsv.gz", b"x\n", 2**28)
    assert refusal(read_table, tmp_path / "matrix.mtx")[1] < 30 * MB


def header(shape, kind="<f8"):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        stream, {"descr": kind, "fortran_order": False, "shape": shape}
    )
    return stream.getvalue()


def write_members(path, members, claimed=None, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        if claimed is not None:
            archive.infolist()[0].file_size = claimed
    return path


@pytest.mark.parametrize("door", [read_table, labels_of])
class TestNpzBombs:
    def test_claimed_by_the_archive(self, door, tmp_path):
        path = write_members(
            tmp_path / "t.npz",
            {"y.npy": header((3 * 10**8,)) + bytes(10**6)},
            claimed=3_000_000_000,
        )
        sentence, peak = refusal(door, path)
        assert "takes 3.0 GB of memory; the limit for a file of its size is 1.1 GB" in sentence
        assert peak < MB

    def test_claimed_by_the_array(self, door, tmp_path):
        path = write_members(
            tmp_path / "t.npz", {"X.npy": header((10**6, 10**6)), "y.npy": header((10**12,))}
        )
        sentence, peak = refusal(door, path)
        assert "but its header promises 8000000000128; it was cut short" in sentence
        assert peak < MB

    def test_really_there(self, door, tmp_path, monkeypatch):
        monkeypatch.setenv("CONECOLLAPSE_UNPACK", str(2**24))
        path = tmp_path / "t.npz"
        np.savez_compressed(path, X=np.zeros((10**4, 10**3)), y=np.zeros(10))
        sentence, peak = refusal(door, path)
        assert "takes 80.0 MB of memory; the limit for a file of its size is" in sentence
        assert peak < MB

    def test_methods_that_unpack_without_a_bound(self, door, tmp_path):
        content = header((10**3,)) + bytes(8 * 10**3)
        for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
            sentence, peak = refusal(
                door, write_members(tmp_path / "t.npz", {"y.npy": content}, method=method)
            )
            assert "compressed by a method that NumPy does not use" in sentence
            assert peak < MB

    def test_the_shape_of_a_sparse_matrix(self, door, tmp_path):
        path = tmp_path / "t.npz"
        np.savez(path, row=[0], col=[0], data=[1.0], shape=[10**8, 10**8], y=np.zeros((2, 2)))
        assert refusal(door, path)[1] < MB


@pytest.mark.parametrize("door", [read_table, open_table, labels_of])
def test_an_array_that_is_not_there(door, tmp_path):
    path = tmp_path / "t.npy"
    path.write_bytes(header((10**6, 10**6)) + bytes(100))
    sentence, peak = refusal(door, path)
    assert "has 228 bytes, but its header promises 8000000000128; it was cut short" in sentence
    assert peak < MB


@pytest.mark.parametrize("door", [read_table, open_table])
def test_an_hdf5_file_that_claims_more_than_it_holds(door, tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "t.h5ad"
    with h5py.File(path, "w") as file:
        if door is read_table:
            file.create_dataset("X", (10**5, 10**5), "f8", chunks=(10, 10))
        else:
            group = file.create_group("X")
            group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", (10**8, 10**8)
            for name, size in (("indptr", 10**8 + 1), ("indices", 10), ("data", 10)):
                group.create_dataset(name, (size,), "i8", chunks=(10,))
    sentence, peak = refusal(door, path)
    assert "the limit for a file of its size is 1.1 GB" in sentence
    assert peak < 20 * MB  # imports


def test_a_sparse_hdf5_file_that_claims_a_huge_table(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "t.h5ad"
    with h5py.File(path, "w") as file:
        group = file.create_group("X")
        group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", (2, 10**12)
        for name, values in (("indptr", [0, 1, 2]), ("indices", [0, 1]), ("data", [1.0, 2.0])):
            group[name] = np.array(values)
    sentence, _ = refusal(read_table, path)
    assert "t.h5ad says that it has 2 rows and 1000000000000 columns: " in sentence


def test_a_parquet_file_of_one_value_a_billion_times(tmp_path, monkeypatch):
    monkeypatch.setenv("CONECOLLAPSE_UNPACK", str(2**22))
    path = tmp_path / "t.parquet"
    pd.DataFrame(np.zeros((10**6, 10))).rename(columns=str).to_parquet(path)
    sentence, peak = refusal(read_table, path)
    assert "takes 80.0 MB of memory; the limit for a file of its size is" in sentence
    assert peak < 4 * MB


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names on this system")
@pytest.mark.parametrize("kind", [*FORMATS, ".txt"])
def test_pipes_and_devices_are_refused_and_not_waited_for(kind, tmp_path):
    pipe, device = tmp_path / f"pipe{kind}", tmp_path / f"device{kind}"
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    doors = [
        door
        for door, kinds in ((read_table, FORMATS), (open_table, (".npy", ".mtx", ".h5ad")))
        if kind in kinds
    ]
    for door in [*doors, *([labels_of] if kind in (".txt", ".csv", ".npy", ".npz") else [])]:
        with pytest.raises(
            InvalidInputError, match=r"is a pipe, not a file; write its content to a file first"
        ):
            door(pipe)
        with pytest.raises(InvalidInputError, match="is a device, not a file"):
            door(device)


def test_links_in_a_circle_and_impossible_names(tmp_path):
    (tmp_path / "a.csv").symlink_to(tmp_path / "b.csv")
    (tmp_path / "b.csv").symlink_to(tmp_path / "a.csv")
    for path in (tmp_path / "a.csv", f"{'x' * 300}.csv", "zero\0byte.csv"):
        with pytest.raises(InvalidInputError, match="cannot be read: "):
            read_table(path)


PIECES = st.sampled_from(
    [
        "'descr': ",
        "'<f8'",
        "'fortran_order': ",
        "'shape': ",
        "(3, 4)",
        "(3,",
        "{",
        "}",
        "(",
        ")",
        ", ",
        "True",
        "False",
    ]
)
NONSENSE = st.sampled_from(
    [
        "None",
        "-1",
        "(-3, 4)",
        "(True, 4)",
        "'O'",
        "'V0'",
        "[('a', 'O')]",
        "'<f8,(2'",
        "''",
        "1e5",
        "(3.0, 4)",
        "\\x00",
        "'\\ud8'",
    ]
)
GOOD = "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }"


def with_header(text, version=b"\x01\x00", length=None):
    content = text.encode("latin-1", "replace")
    content += b" " * (-(len(content) + 11) % 64) + b"\n"
    size = len(content) if length is None else length
    return (
        b"\x93NUMPY"
        + version
        + size.to_bytes(2 if version == b"\x01\x00" else 4, "little")
        + content
        + np.ones((3, 4)).tobytes()
    )


@pytest.mark.slow
@settings(max_examples=300)
@given(
    st.one_of(
        st.lists(st.one_of(PIECES, NONSENSE), max_size=12).map("".join),
        st.tuples(
            st.integers(0, len(GOOD)), st.integers(0, 12), st.one_of(NONSENSE, st.text(max_size=4))
        ).map(lambda cut: GOOD[: cut[0]] + cut[2] + GOOD[cut[0] + cut[1] :]),
    ),
    st.sampled_from([b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x09"]),
    st.one_of(st.none(), st.integers(0, 300)),
)
def test_damaged_headers_of_arrays_are_one_sentence(tmp_path_factory, text, version, length):
    path = tmp_path_factory.getbasetemp() / "header.npy"
    path.write_bytes(with_header(text, version, length))
    for door in (open_table, read_table, labels_of):
        with suppress(ConeCollapseError):
            door(path)


@pytest.mark.parametrize("kind", [".npy", ".mtx", ".h5ad"])
def test_cut_and_flipped_files_opened_in_blocks(kind, tmp_path):
    path = tmp_path / f"t{kind}"
    WRITERS[kind](path)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for k in range(80):
        damaged = bytearray(
            content[: rng.integers(1, len(content))] if k % 2 or kind == ".h5ad" else content
        )
        if kind != ".h5ad":  # HDF5 itself may crash on flipped bytes
            damaged[rng.integers(min(len(damaged), 128))] = rng.integers(256)
        path.write_bytes(bytes(damaged))
        with suppress(ConeCollapseError):
            table = open_table(path)
            assert all(block.shape[1] == table.shape[1] for block in table.samples())


def test_an_unknown_type_of_numbers_in_a_matlab_file_ends_no_process(tmp_path):
    """SciPy reads from an address that is none."""
    scipy.io.savemat(tmp_path / "t.mat", {"Y": np.ones((3, 4, 5))})
    content = bytearray((tmp_path / "t.mat").read_bytes())
    at = content.index((60 * 8).to_bytes(4, "little"), 140) - 4  # the tag before 60 numbers
    content[at : at + 4] = bytes(4)
    (tmp_path / "t.mat").write_bytes(content)
    with pytest.raises(InvalidInputError, match=r"cannot be read \(SciPy fails on its structure\)"):
        read_spectra(tmp_path / "t.mat")


def test_a_look_at_a_file_that_needs_too_much_memory_ends_badly():
    with errors_of_h5py():
        raise OSError("Can't synchronously read data (wrong B-tree signature)")
    with pytest.raises(SystemExit, match="too little memory"), errors_of_h5py():
        raise OSError("Can't synchronously read data (memory allocation failed for chunk)")


def test_missing_parts_of_an_h5ad_file(tmp_path):
    h5py = pytest.importorskip("h5py")
    parts = {"indptr": [0, 1, 2], "indices": [0, 1], "data": [1.0, 2.0]}
    for leave_out in (*parts, "shape", "encoding-type"):
        with h5py.File(tmp_path / "t.h5ad", "w") as file:
            group = file.create_group("X")
            for name, value in {"encoding-type": "csr_matrix", "shape": (2, 2)}.items():
                if name != leave_out:
                    group.attrs[name] = value
            for name, values in parts.items():
                if name != leave_out:
                    group[name] = values
        for door in (open_table, read_table):
            with pytest.raises(InvalidInputError, match=r"^[^\n]+$"):
                door(tmp_path / "t.h5ad")


MISTAKES = [
    *(
        (read_table, kind, f"conecollapse.io.{ours}")
        for kind, ours in (
            (".npy", "npy.check_promise"),
            (".npz", "npy._axis_of_labels"),
            (".npz", "npy._names"),
            (".csv", "delimited.detect_layout"),
            (".csv", "delimited._append_numbers"),
            (".tsv", "delimited.read_text"),
            (".mtx", "market._sizes"),
            (".mtx", "market.MtxSource._entries"),
            (".parquet", "frames.from_frame"),
            (".parquet", "frames._kind"),
            (".h5ad", "h5ad.as_names"),
            (".h5ad", "h5ad.check_room"),
            *((kind, "reading.as_numbers") for kind in FORMATS),
        )
    ),
    (open_table, ".npy", "conecollapse.io.npy.check_promise"),
    (open_table, ".mtx", "conecollapse.io.market.check_extent"),
    (open_table, ".h5ad", "conecollapse.io.h5ad.check_extent"),
    (open_table, ".h5ad", "conecollapse.io.limits.WatchedFile.check"),
    (labels_of, ".csv", "conecollapse.io.labels._is_heading"),
]
OURS = (
    TypeError,
    AttributeError,
    KeyError,
    IndexError,
    ValueError,
    RuntimeError,
    NotImplementedError,
    ZeroDivisionError,
)


@pytest.mark.parametrize(("door", "kind", "ours"), MISTAKES)
def test_a_mistake_of_ours_is_not_blamed_on_the_file(door, kind, ours, tmp_path, monkeypatch):
    path = tmp_path / f"table{kind}"
    WRITERS[kind](path)
    if door is labels_of:
        path.write_text("x\ny\nx\n")
    if ours.endswith("_axis_of_labels"):
        np.savez(path, X=np.eye(3), y=np.zeros(3))
    for mistake in OURS:

        def broken(*_, mistake=mistake, **__):
            raise mistake("a mistake of ours")

        monkeypatch.setattr(ours, broken)
        with pytest.raises(mistake, match="a mistake of ours") as raised:
            door(path)
        assert not isinstance(raised.value, ConeCollapseError)


@pytest.mark.parametrize("kind", FORMATS)
def test_too_little_memory_is_said_with_the_size(kind, tmp_path, monkeypatch):
    path = tmp_path / f"table{kind}"
    WRITERS[kind](path)

    def broken(*_, **__):
        raise MemoryError

    monkeypatch.setattr("conecollapse.io.reading.as_numbers", broken)
    with pytest.raises(
        InvalidInputError,
        match=r"table\.\w+ \([0-9.]+ (bytes|kB)\) is too large for memory: [0-9.]+ [MGT]B are free",
    ):
        read_table(path)


def test_a_table_larger_than_the_free_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("conecollapse.io.limits.free_memory", lambda: 100)
    for kind in (".npy", ".npz", ".csv", ".parquet", ".h5ad"):
        path = tmp_path / f"t{kind}"
        if kind == ".csv":
            path.write_text("1,2\n" * 500)
        elif kind == ".parquet":
            pd.DataFrame(np.ones((200, 2))).rename(columns=str).to_parquet(path)
        elif kind == ".h5ad":
            WRITERS[kind](path)
        else:
            (np.save if kind == ".npy" else np.savez)(path, np.ones((200, 2)))
        assert "too large for the 100 bytes that are free" in refusal(read_table, path)[0]


LIVE = [
    "=1+1",
    "+1",
    "-1+2",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    " =1",
    "'=1",
    "''+1",
    "\n@x",
    "\uff1d1",
    "=cmd|'/c calc'!A1",
]
TAME = ["TP53", "'abc", "a=b", "", "'", "5'-UTR", "x-1"]


@given(st.one_of(st.text(max_size=6), st.text(alphabet="'=+-@ \ta", max_size=6)))
def test_every_name_comes_back(name):
    assert original(harmless(name)) == name
    assert not harmless(name).lstrip().startswith(tuple(SIGNS))
    assert not harmless(name).startswith(("\t", "\r", "\n"))


def test_formulas_in_names_do_not_reach_the_files_live(tmp_path):
    rng = np.random.default_rng(0)
    names = LIVE + TAME
    X = rng.random((len(names), 6)) + np.kron(np.eye(2), np.ones((len(names), 3)))[: len(names)]
    frame = pd.DataFrame(X, index=names, columns=["=1", "+2", "-3", "@4", "five", "'-6"])
    run = cluster(
        read_table(frame, features_in="columns"),
        2,
        target=np.array(names),
        rays=True,
        method="features",
    )
    save(run, tmp_path / "out")
    for file in ("labels.csv", "rays.csv"):
        with open(tmp_path / "out" / file, encoding="utf-8", newline="") as stream:
            cells = [cell for row in csv.reader(stream) for cell in row]
        assert not [
            cell
            for cell in cells
            if cell.lstrip().startswith(tuple(SIGNS)) or cell[:1] in ("\t", "\r", "\n")
        ]
        assert any(cell.startswith("'=") for cell in cells)
    assert verify(tmp_path / "out", frame).n_samples == len(names)


def test_sparse_matrices_with_wrong_parts_are_refused(tmp_path):
    path = tmp_path / "t.npz"
    good = {"data": [1.0, 2.0], "row": [0, 1], "col": [0, 1], "shape": [2, 2]}
    for name, value in [
        ("row", [0.5, 1]),
        ("col", [0, 7]),
        ("row", [-1, 0]),
        ("data", [1.0]),
        ("data", ["a", "b"]),
        ("shape", [2]),
        ("shape", [2.0, 2.0]),
        ("shape", [-2, 2]),
        ("row", [[0, 1]]),
    ]:
        np.savez(path, **good | {name: value})
        with pytest.raises(InvalidInputError, match=r"^[^\n]+$"):
            read_table(path)
    sp.save_npz(path, sp.coo_matrix(np.eye(2)))
    assert read_table(path).X.shape == (2, 2)


@pytest.mark.parametrize("line", ["a,b\n1,2\n3,{}", "a,b\n1,{}\n3,4\n"])
def test_a_line_that_is_too_long_for_a_table_is_refused(line, tmp_path):
    (tmp_path / "t.csv").write_text(line.format("4" * LONGEST_LINE), encoding="utf-8")
    with pytest.raises(InvalidInputError, match=r"line \d of t.csv has more than 33554432 bytes"):
        read_table(tmp_path / "t.csv")


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@pytest.mark.parametrize(
    "number", [pytest.param(30, marks=pytest.mark.slow), pytest.param(2000, marks=pytest.mark.full)]
)
def test_a_damaged_file_of_any_kind_is_read_or_refused_in_one_sentence(number):
    """No reader crashes, hangs, or lets another error out."""
    found = try_files(number, seed=7)
    assert found.wrong == []
    assert found.ends["read"] + found.ends["refused"] == number
