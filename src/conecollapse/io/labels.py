"""`read_labels`: the known class of each sample."""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path
from typing import Any

from conecollapse._errors import InvalidInputError, argument, quoted
from conecollapse._types import AnyArray
from conecollapse.io.limits import check_file, too_large
from conecollapse.io.matrix import as_names
from conecollapse.io.npy import load_npy, load_npz
from conecollapse.io.text import check_width, read_rows, suffix

LABEL_FORMATS = (".txt", ".csv", ".tsv", ".npy", ".npz")
HEADINGS = frozenset(
    ["label", "labels", "class", "classes", "target", "y", "cluster", "type", "group", "diagnosis"]
)


def read_labels(
    path: str | PathLike[str],
    sample_names: AnyArray | None,
    n: int,
    *,
    header: bool | None = None,
    names: bool | None = None,
) -> AnyArray:
    """One label for each of the ``n`` samples, as text.

    Parameters
    ----------
    path : path
        ``.txt`` (a label in each line), ``.csv`` or ``.tsv`` (a label in each line, or a name and a
        label, with or without a heading), ``.npy``, or ``.npz`` (its array ``y``; where that holds
        numbers of classes, ``class_names`` says what they are called).
    sample_names : array of str or None
        Labels of a file that has names are matched by name, if every sample's name is known; all
        others go by order.
    n : int
        Number of samples.
    header : bool, optional
        Whether the first line of a text file is a heading. By default it is one if the name in it
        is no sample's; without names, if the file has one line more than there are samples and no
        other line has the same label.
    names : bool, optional
        Whether the first of two columns holds names to match by; by default it does. If False, the
        labels go by order.

    Returns
    -------
    labels : (n,) array of str
    """
    path = Path(fspath(path))
    kind = suffix(path)
    if kind not in LABEL_FORMATS:
        raise InvalidInputError(
            f"labels are read from {', '.join(LABEL_FORMATS)} files; got {quoted(path.name)}."
        )
    check_file(path)
    is_array = kind in (".npy", ".npz")
    try:
        rows = _array(path, kind) if is_array else _rows(path)
    except MemoryError as error:
        raise too_large(path) from error
    has_names = len(rows[0]) == 2 if names is None else names
    if has_names and len(rows[0]) != 2:
        raise InvalidInputError(
            f"{argument('names', names)}, but {path.name} has one column; give names and labels in"
            " two."
        )
    known = sample_names if has_names else None
    if header is None:
        header = not is_array and _is_heading(rows, known, n)
    body = rows[1:] if header else rows
    if known is not None:
        labels = _match_names(body, [str(name) for name in known], path)
    elif len(body) == n:
        labels = [cells[-1] for cells in body]
    else:
        raise InvalidInputError(
            f"{path.name} has {len(body)} labels for {n} samples; give one for each."
        )
    return as_names(labels, "labels")


def _array(path: Path, kind: str) -> list[list[Any]]:
    arrays = load_npz(path) if kind == ".npz" else {"y": load_npy(path)}
    if "y" not in arrays:
        raise InvalidInputError(
            f"{path.name} has no array y to take labels from; it has {', '.join(arrays) or 'none'}."
        )
    labels = _name_classes(arrays["y"], arrays.get("class_names"))
    if labels.ndim != 1 or not labels.size:
        raise InvalidInputError(
            f"the labels in {path.name} have shape {labels.shape}; expected one for each sample."
        )
    return [[label] for label in labels.tolist()]


def _name_classes(labels: AnyArray, names: AnyArray | None) -> AnyArray:
    """The names of the classes in place of their numbers, where each number has a name."""
    if names is None or names.ndim != 1 or names.dtype.kind != "U":
        return labels
    if labels.dtype.kind not in "iu" or not labels.size:
        return labels
    return names[labels] if labels.min() >= 0 and labels.max() < len(names) else labels


def _rows(path: Path) -> list[list[str]]:
    """A label in each, or a name and a label."""
    lines = list(read_rows(path))
    if not lines:
        raise InvalidInputError(f"{path.name} has no labels.")
    width = len(lines[0][1])
    if width > 2:
        raise InvalidInputError(
            f"{path.name} has {width} columns; labels have one, or two with names first."
        )
    for line in lines:
        check_width(line, width, path)
        if not line[1][-1].strip():
            raise InvalidInputError(f"line {line[0]} of {path.name} has no label.")
    return [[*cells[:-1], cells[-1].strip()] for _, cells in lines]


def _is_heading(rows: list[list[str]], sample_names: AnyArray | None, n: int) -> bool:
    """Whether the first row is a heading: its name is no sample's, or, without names, there is one
    row more than samples."""
    if sample_names is not None:
        return rows[0][0] not in {str(name) for name in sample_names}
    if len(rows) == n or len(rows) == 1:
        return False
    word, below = rows[0][-1], {cells[-1] for cells in rows[1:]}
    return word.lower() in HEADINGS or (len(rows) == n + 1 and word not in below)


def _match_names(rows: list[list[str]], names: list[str], path: Path) -> list[str]:
    """The labels in the order of the samples' ``names``."""
    labels: dict[str, str] = {}
    for name, label in rows:
        if name in labels:
            raise InvalidInputError(f"{path.name} has two labels for {name!r}; keep one.")
        labels[name] = label
    missing = [name for name in names if name not in labels]
    if missing:
        more = f" (and for {len(missing) - 1} more)" if len(missing) > 1 else ""
        turned = (
            "; if the samples are on the other axis of the table, pass"
            f" {argument('features_in', 'rows')} or {argument('features_in', 'columns')}"
        )
        hint = turned if len(missing) == len(names) else "; give one for each"
        raise InvalidInputError(
            f"{path.name} has no label for the sample {missing[0]!r}{more}{hint}."
        )
    for stranger in sorted(set(labels) - set(names))[:1]:
        raise InvalidInputError(
            f"{path.name} has a label for {stranger!r}, which is no sample of the table."
        )
    return [labels[name] for name in names]
