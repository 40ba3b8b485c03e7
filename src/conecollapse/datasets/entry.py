"""What is known about a dataset before it is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from conecollapse.datasets.dataset import Parsed


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
        The set's row of the paper's Table 2.
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
