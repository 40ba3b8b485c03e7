"""Every layout gives its table, and a damaged file one sentence that names it."""

from __future__ import annotations

import struct
import sys
import zipfile
import zlib

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from dataset_files import (
    WRITERS,
    citeseer,
    coil20,
    curetgrey,
    images,
    khan,
    orl,
    pgm,
    text_files,
    zipped,
)

from conecollapse import DatasetError
from conecollapse.datasets import load, registry


def dense(X):
    return X.toarray() if sp.issparse(X) else X


def test_every_set_has_a_small_copy():
    assert list(WRITERS) == list(registry)


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("below", [".", "own"])
def test_original_layout(data_folder, name, below):
    folder = data_folder if below == "." else data_folder / name
    folder.mkdir(exist_ok=True)
    X, y, feature_names, target_names = WRITERS[name](folder)
    data = load(name, weighting="counts", download=False)
    np.testing.assert_allclose(dense(data.X), X, rtol=1e-6)
    assert data.X.dtype == np.float64
    assert data.y.dtype == np.int64
    assert data.y.tolist() == list(y)
    if feature_names is not None:
        assert data.feature_names == feature_names
    if target_names is not None:
        assert data.target_names == target_names
    assert sp.issparse(data.X) == (data.domain == "text")
    assert str(data_folder) in data.source
    assert f"{len(y)} samples where the paper has {registry[name].n_samples}" in data.differs


@pytest.mark.parametrize("name", ["ORL", "UMIST", "YALEB", "COIL-20", "CURETGREY"])
def test_images_have_a_shape(data_folder, name):
    WRITERS[name](data_folder)
    data = load(name, download=False)
    assert data.image_shape == ((2, 3) if name == "CURETGREY" else (4, 6))


@pytest.mark.parametrize("name", WRITERS)
def test_truncated_files_are_refused(data_folder, name):
    """Half of the first file is never data."""
    WRITERS[name](data_folder)
    path = next(
        path
        for path in sorted(data_folder.rglob("*"))
        if path.is_file() and "README" not in path.name
    )
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    if name == "7SECTORS":
        return  # a page that ends early is still a page
    with pytest.raises(
        DatasetError, match=rf"{name} cannot be read from '.*' \(.*replace it with a whole copy"
    ):
        load(name, download=False)


@pytest.mark.parametrize("name", WRITERS)
def test_empty_files_are_refused(data_folder, name):
    WRITERS[name](data_folder)
    for path in data_folder.rglob("*"):
        if path.is_file():
            path.write_bytes(b"")
    with pytest.raises(DatasetError, match=f"{name} cannot be read from"):
        load(name, download=False)


def test_an_unpacked_archive_serves_as_well(data_folder):
    X, y, *_ = coil20(data_folder)
    with zipfile.ZipFile(data_folder / "coil-20-proc.zip") as archive:
        archive.extractall(data_folder)
    (data_folder / "coil-20-proc.zip").unlink()
    data = load("coil-20", download=False)
    np.testing.assert_array_equal(data.X, X)
    assert data.y.tolist() == y


def nothing(_):
    """No other files."""


def chunk(kind, content):
    sums = struct.pack(">I", zlib.crc32(kind + content))
    return struct.pack(">I", len(content)) + kind + content + sums


def archive(name, files):
    return lambda folder: zipped(folder / name, files)


def rcv1(**arrays):
    return lambda folder: scipy.io.savemat(folder / "RCV1_4Class.mat", arrays)


OUTSIDE = sp.csc_matrix(np.eye(3))
OUTSIDE.indices[0] = 7
HEAD = chunk(b"IHDR", struct.pack(">IIBBBBB", 50_000, 50_000, 8, 0, 0, 0, 0))
HUGE = b"\x89PNG\r\n\x1a\n" + HEAD + chunk(b"IDAT", zlib.compress(b""))
SMALL, LARGE = (pgm(images(1, *shape)[0]) for shape in ((), ((5, 5),)))
# a set, what writes it, files that are then written, and what is said
DAMAGED = [
    ("KHAN", khan, {"Khan_ytest.csv": '"x"\n1\n2\n'}, "it has 3 samples but 4 labels"),
    ("KHAN", khan, {"Khan_ytest.csv": '"x"\n9\n'}, "it has a label 8 but names for 4 classes"),
    ("KHAN", khan, {"Khan_ytest.csv": '"x"\n0\n'}, "its labels are not integers from 0"),
    (
        *("KHAN", khan, {"Khan_ytest.csv": '"x"\n1.5\n'}),
        "Khan_ytest.csv holds a label that is not an integer",
    ),
    (
        *("KHAN", khan, {"Khan_xtest.csv": '"V1","V2","V3"\n1,2,oops\n'}),
        "Khan_xtest.csv is not a table of numbers: .*oops",
    ),
    (
        *("KHAN", khan, {"Khan_xtest.csv": '"V1","V2","V3"\n1,2,nan\n'}),
        "it has an entry that is not a non-negative number",
    ),
    ("KHAN", khan, {"Khan_xtest.csv": '"V1","V2"\n1,2\n'}, "dimension"),
    (
        *("CITESEER", nothing, {"citeseer/citeseer.content": "p1 0 1 XY\n"}),
        "it has a label 'XY', which is none of Agents, AI",
    ),
    (
        *("CITESEER", nothing, {"citeseer/citeseer.content": "p1 0 1 DB\np2 0 1 1 DB\n"}),
        "the lines of citeseer.content have different lengths",
    ),
    (
        *("ROSETTA", nothing),
        {"rosetta.txt": "a\t1\t2\nb\t1\n", "rosetta-labels.txt": "x\ny\n"},
        "the rows of rosetta.txt have different lengths",
    ),
    (
        *("YALEB", archive("CroppedYale.zip", {"holiday/beach.pgm": SMALL}), {}),
        "no file inside has the name that is expected",
    ),
    (
        *("YALEB", archive("CroppedYale.zip", {"yaleB01/yaleB01_P00A+110E+00.pgm": SMALL}), {}),
        "none of its images is one of those that are used",
    ),
    (
        *("ORL", orl, {"ORL_faces/s2/2.pgm": LARGE}),
        r"s2/2.pgm has \(5, 5\) pixels, the images before it \(4, 6\)",
    ),
    (
        *("ORL", orl, {"ORL_faces/s2/2.pgm": b"P5 4 6 65535\n"}),
        "s2/2.pgm is not a PGM image of 8 bits",
    ),
    (
        *("COIL-20", archive("coil-20-proc.zip", {"obj1__0.png": HUGE}), {}),
        "obj1__0.png is not an image that can be read",
    ),
    ("RCV1", rcv1(fea=np.eye(3)), {}, "it has no variable 'gnd'"),
    ("RCV1", rcv1(fea=OUTSIDE, gnd=np.ones((3, 1))), {}, r"\("),
]


@pytest.mark.parametrize(("name", "write", "files", "message"), DAMAGED)
def test_what_is_wrong_with_a_file_is_said(data_folder, name, write, files, message):
    write(data_folder)
    text_files(data_folder, files)
    with pytest.raises(DatasetError, match=rf"{name} cannot be read from .*{message}"):
        load(name, download=False)


def test_a_table_without_names_and_header(data_folder):
    text_files(data_folder, {"rosetta.txt": "1\t-2\n0\t3\n", "rosetta-labels.txt": "1\n2\n"})
    data = load("ROSETTA", download=False)
    assert data.X.tolist() == [[1, 0, 0, 0], [0, 3, 2, 0]]
    assert data.feature_names == ("0 up", "1 up", "0 down", "1 down")


def test_without_pillow(data_folder, monkeypatch):
    curetgrey(data_folder)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(
        DatasetError,
        match=r"01-01.png is an image that only pillow reads; install it: pip install pillow",
    ):
        load("CURETGREY", download=False)


def test_words_are_weighted_by_default(data_folder):
    X, *_ = citeseer(data_folder)
    data = load("citeseer", download=False)
    assert data.weighting == "tfidf"
    np.testing.assert_allclose(np.linalg.norm(data.X.toarray(), axis=1), 1.0)
    assert ((data.X.toarray() > 0) == (np.array(X) > 0)).all()
