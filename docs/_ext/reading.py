"""The order in which the gallery is read: what most people come for first; examples that are not
listed come last, by name."""

from __future__ import annotations

from pathlib import Path

FIRST = (
    "genes",
    "text",
    "images",
    "mixtures",
    "receptor",
    "missing",
    "known",
    "few_labels",
    "outliers",
)


class Order:
    """A key that sorts the files of examples."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, name):
        stem = Path(name).stem
        return (FIRST.index(stem) if stem in FIRST else len(FIRST)), stem
