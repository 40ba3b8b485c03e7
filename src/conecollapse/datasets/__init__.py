"""The paper's sixteen datasets, and synthetic tables whose truth is known.

`load` finds a set in the folder that ``CONECOLLAPSE_DATA`` names, in an installed package, in the
cache, or downloads it. `registry` holds what the paper's Tables 1 and 2 say about each set and
where to get it; `info` looks up one. `make_cone`, `make_separable` and `make_topics` plant rays,
anchors and topics.
"""

from conecollapse.datasets.dataset import Dataset, DatasetInfo, File, Package
from conecollapse.datasets.loading import info, list_datasets, load
from conecollapse.datasets.paper_sets import METHODS, registry
from conecollapse.datasets.synthetic import Planted, make_cone, make_separable, make_topics
from conecollapse.datasets.texts import tfidf

__all__ = [
    "METHODS",
    "Dataset",
    "DatasetInfo",
    "File",
    "Package",
    "Planted",
    "info",
    "list_datasets",
    "load",
    "make_cone",
    "make_separable",
    "make_topics",
    "registry",
    "tfidf",
]
