"""`read_labels`: the known class of each sample."""

from __future__ import annotations

import csv
import io
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from conecollapse._errors import InvalidInputError
from conecollapse._types import AnyArray
from conecollapse.io.names import as_names
from conecollapse.io.npz import load_arrays
from conecollapse.io.opening import suffix, text_of
from conecollapse.io.reading import UNREADABLE, check_file, unreadable

KINDS = (".txt", ".csv", ".tsv", ".npy", ".npz")
HEADINGS = frozenset(["label", "labels", "class", "classes", "target", "y", "cluster", "type", "group", "diagnosis"])


def read_labels(path: str | PathLike[str], sample_names: AnyArray | None, n: int) -> AnyArray:
    """One label for each of the ``n`` samples, as text.

    Parameters
    ----------
    path : path
        ``.txt`` (a label in each line), ``.csv`` or ``.tsv`` (a label in each line, or a name and a label, with or without a heading),
        ``.npy``, or ``.npz`` (its array ``y``).
    sample_names : array of str or None
        Labels of a file that has names are matched by name, if every sample's name is known; all others go by order.
    n : int
        Number of samples.

    Returns
    -------
    labels : (n,) array of str
    """
    path = Path(fspath(path))
    check_file(path)
    kind = suffix(path)
    if kind not in KINDS:
        raise InvalidInputError(f"labels are read from {', '.join(KINDS)} files; got {path.name}.")
    try:
        names, labels = _arrays(path) if kind in (".npy", ".npz") else _lines(path, kind, n)
    except InvalidInputError:
        raise
    except UNREADABLE as error:
        raise unreadable(path, error) from error
    if names is not None and sample_names is not None:
        return as_names(_matched(names, labels, sample_names, path), "labels")
    if len(labels) != n:
        raise InvalidInputError(f"{path.name} has {len(labels)} labels for {n} samples; give one for each.")
    return as_names(labels, "labels")


def _arrays(path: Path) -> tuple[None, list[Any]]:
    if suffix(path) == ".npz":
        arrays = load_arrays(path)
        if "y" not in arrays:
            raise InvalidInputError(f"{path.name} has no array y to take labels from; it has {', '.join(arrays) or 'none'}.")
        labels = arrays["y"]
    else:
        try:
            labels = np.load(path, allow_pickle=False)
        except ValueError as error:
            if "pickle" in str(error):
                raise InvalidInputError(f"{path.name} holds Python objects, or no array; save labels as a plain array.") from None
            raise
    if labels.ndim != 1:
        raise InvalidInputError(f"the labels in {path.name} have shape {labels.shape}; expected one for each sample.")
    return None, labels.tolist()


def _lines(path: Path, kind: str, n: int) -> tuple[list[str] | None, list[str]]:
    """Names, if there is a column of them, and labels."""
    text = text_of(path)
    if kind == ".txt":
        rows = [[line] for line in text.splitlines() if line.strip()]
    else:
        first = text.split("\n", 1)[0]
        separator = "\t" if kind == ".tsv" else max(",;\t", key=first.count)
        try:
            rows = [cells for cells in csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True) if cells]
        except csv.Error as error:
            raise InvalidInputError(f"{path.name} cannot be read: {error}.") from None
    width = len(rows[0]) if rows else 1
    for number, cells in enumerate(rows, 1):
        if len(cells) != width:
            raise InvalidInputError(f"row {number} of {path.name} has {len(cells)} cells where the first has {width}.")
        if not cells[-1].strip():
            raise InvalidInputError(f"row {number} of {path.name} has no label.")
    if width > 2:
        raise InvalidInputError(f"{path.name} has {width} columns; labels have one, or two with names first.")
    is_heading = kind != ".txt" and bool(rows) and (rows[0][-1].strip().lower() in HEADINGS or (width == 1 and len(rows) == n + 1))
    body = rows[1:] if is_heading else rows
    return ([cells[0] for cells in body] if width == 2 else None), [cells[-1].strip() for cells in body]


def _matched(names: list[str], labels: list[str], sample_names: AnyArray, path: Path) -> list[str]:
    known: dict[str, str] = {}
    for name, label in zip(names, labels, strict=True):
        if name in known:
            raise InvalidInputError(f"{path.name} has two labels for {name!r}; keep one.")
        known[name] = label
    missing = [str(name) for name in sample_names if str(name) not in known]
    # a heading that is not one of the usual words shows by the only name that no sample has
    strangers = set(known) - {str(name) for name in sample_names}
    if missing:
        more = f" (and for {len(missing) - 1} more)" if len(missing) > 1 else ""
        turned = "; if the samples are on the other side of the table, say --features-in" if len(missing) == len(sample_names) else ""
        raise InvalidInputError(f"{path.name} has no label for the sample {missing[0]!r}{more}{turned}.")
    if strangers - {names[0]}:
        stranger = next(name for name in names[1:] if name in strangers)
        raise InvalidInputError(f"{path.name} has a label for {stranger!r}, which is no sample of the table.")
    return [known[str(name)] for name in sample_names]
