"""What is known about a dataset before it is loaded, what the parser of its files returns, and what
`load` makes of both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from conecollapse._types import IntArray, Points, TableSizes


@dataclass(frozen=True)
class File:
    """A file, or a folder, of a set's original layout."""

    name: str  # its path below the data folder
    url: str = ""  # empty if it has to be downloaded by hand
    checksum: str = ""  # "sha256:..." or "sha1:...", empty if none was published
    unpacked: str = ""  # a folder that can replace the archive


@dataclass(frozen=True)
class Package:
    """An installable package that contains a set's files; they are read without importing the
    package."""

    name: str
    folder: str  # inside the package


@dataclass(frozen=True)
class DatasetInfo:
    """A row of the registry: what the paper's Tables 1 and 2 say about a dataset, and where to get
    it.

    Attributes
    ----------
    name, domain : str
        The paper's name ("AMLALL") and domain ("gene", "medical", "text" or "image").
    n_samples, n_features, n_classes : int
        As the paper's Table 1 has them.
    files : tuple of File
        The original layout, in the order in which ``parse`` takes the paths.
    parse : callable
        Reads those files.
    page : str
        Where the set is described or can be downloaded by hand.
    citation, licence : str
    differs : str
        How the original files differ from the paper's matrix, its shape apart; empty when they do
        not, as far as is known.
    npz_differs : str or None
        The same for the ``.npz`` copy, where that is another.
    package : Package or None
        An installable package that contains the files.
    image_shape : (height, width) or None
    purity : mapping of method to purity
        The set's row of the paper's Table 2; empty for sets that are not in it.
    """

    name: str
    domain: str
    n_samples: int
    n_features: int
    n_classes: int
    files: tuple[File, ...]
    parse: Callable[..., Parsed]
    page: str
    citation: str
    licence: str
    differs: str = ""
    npz_differs: str | None = None
    package: Package | None = None
    image_shape: tuple[int, int] | None = None
    purity: Mapping[str, float] = field(default_factory=dict)

    @property
    def downloadable(self) -> bool:
        """Whether every file has an address to download it from."""
        return bool(self.files) and all(file.url for file in self.files)


@dataclass(frozen=True, eq=False)
class Parsed:
    """The content of a set's files, in our orientation: samples in rows, counts of words not
    weighted."""

    X: Points
    y: IntArray
    feature_names: tuple[str, ...] | None = None
    target_names: tuple[str, ...] | None = None
    image_shape: tuple[int, int] | None = None

    def check(self) -> None:
        """Raise ValueError, saying what does not fit, unless this is a non-negative table with a
        label for each sample."""
        n_samples, n_features = self.X.shape
        if not n_samples or not n_features:
            raise ValueError(f"it holds {n_samples} samples and {n_features} features")
        if self.y.shape != (n_samples,):
            raise ValueError(f"it has {n_samples} samples but {self.y.size} labels")
        if self.y.dtype.kind not in "iu" or self.y.min() < 0:
            raise ValueError("its labels are not integers from 0")
        if self.target_names is not None and self.y.max() >= len(self.target_names):
            raise ValueError(
                f"it has a label {self.y.max()} but names for {len(self.target_names)} classes"
            )
        if self.feature_names is not None and len(self.feature_names) != n_features:
            raise ValueError(
                f"it has {n_features} features but names for {len(self.feature_names)}"
            )
        values = self.X.data if sp.issparse(self.X) else self.X
        if not np.isfinite(values).all() or values.min(initial=0.0) < 0:
            raise ValueError("it has an entry that is not a non-negative number")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Dataset(TableSizes, Parsed):
    """A labelled non-negative table, and where it comes from.

    Attributes
    ----------
    info : DatasetInfo
        What is known about the set: its citation, licence and row of the paper's Table 2.
    X : (n_samples, n_features) array or CSR array of float64
        Sparse for text, dense for all else.
    y : (n_samples,) array of int64
        Classes, counted from 0.
    feature_names, target_names : tuple of str, or None
        Names of the columns of X and of the classes, where they are known.
    image_shape : (height, width), or None
        ``X[i].reshape(image_shape)`` is image i.
    weighting : "tfidf", "counts" or None
        How words are weighted; None for all that is not text.
    source : str
        Where this copy was found.
    differs : str
        How it differs from the paper's; empty when it does not, as far as is known.
    """

    info: DatasetInfo
    weighting: str | None
    source: str
    differs: str

    @property
    def name(self) -> str:
        """The paper's name."""
        return self.info.name

    @property
    def domain(self) -> str:
        """ "gene", "medical", "text" or "image"."""
        return self.info.domain

    @property
    def n_classes(self) -> int:
        """Number of classes that occur."""
        return len(np.unique(self.y))

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name}: {self.n_samples} samples, {self.n_features} features,"
            f" {self.n_classes} classes, {self.domain})"
        )


def encode(labels: Iterable[str], classes: Sequence[str]) -> IntArray:
    """The place of each label in ``classes``; ValueError names a label that has none."""
    place = {name: index for index, name in enumerate(classes)}
    try:
        return np.array([place[label] for label in labels], dtype=np.int64)
    except KeyError as error:
        raise ValueError(
            f"it has a label {error.args[0]!r}, which is none of {', '.join(classes)}"
        ) from error
