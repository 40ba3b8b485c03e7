"""What a folder says against what follows from the data: the first difference ends in an error that
names the place.

Names, counts and sizes must be equal. Numbers that are computed again are sums in which nothing
cancels, so they agree to rounding wherever they are computed, far within `PRECISION`. Two numbers
are differences of nearly equal ones and have a rounding of their own, in `ROUNDED`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from conecollapse._errors import CertificateError, RunFolderError, quoted
from conecollapse._types import AnyArray, Points
from conecollapse.certificates import Verdict
from conecollapse.geometry.cone import Cone
from conecollapse.runs.folder import FACTORS, FACTS
from conecollapse.runs.reading import csv_rows
from conecollapse.runs.writing import CsvTable

PRECISION = 1e-9  # relative
# what rounding leaves of a square that is zero, as a share of the squares that cancel
CANCELLED = 1e-12
# for numbers of run.json that are differences: the power in which rounding is of this size
ROUNDED: Mapping[str, tuple[int, float]] = {
    "relative_error": (2, CANCELLED),
    "orthogonality": (1, CANCELLED),
}
SOURCE = "but the data and the other files of the run give"


# parts of run.json that no other file and no data proves
UNCHECKED: dict[str, tuple[str, ...]] = {
    "times": ("created", "timings"),
    "versions": ("versions",),
    "where the data was": (
        "data.path",
        "data.absolute",
        "data.source",
        "data.why",
        "data.sha256",  # other bytes with the same values are noted
    ),
}
# what a kind of run returns: what was measured, and what was not checked
Checked = tuple[Verdict, dict[str, tuple[str, ...]]]
# of the data, where it is given in memory: the file that it was read from had them
OF_FILES = ("data.header", "data.names", "data.layer", "data.text_column")


@dataclass(frozen=True, eq=False)
class Stored:
    """A folder of results as it was read; nothing of it is checked but its form."""

    path: Path
    facts: dict[str, Any]
    arrays: dict[str, AnyArray]
    cone: Cone
    from_file: bool  # whether the data to check it against is a file

    @property
    def said(self) -> dict[str, Any]:
        """run.json without its checksums."""
        return {
            name: value for name, value in self.facts.items() if name not in ("report", "checksum")
        }

    @property
    def timings(self) -> dict[str, float]:
        return dict(self.facts.get("timings") or {})

    def unchecked(self, *more: Iterable[str]) -> frozenset[str]:
        """The places of run.json that are not compared: those of every run, and ``more``."""
        places = chain(*UNCHECKED.values(), *more)
        return frozenset(places) | frozenset(() if self.from_file else OF_FILES)


def agree_facts(said: Any, expected: Any, unchecked: Collection[str], place: str = "") -> None:
    """Refuse run.json where it differs from what it should say, but for the ``unchecked``
    places."""
    if place in unchecked:
        return
    if isinstance(expected, Mapping) and isinstance(said, Mapping):
        for name in [*expected, *(name for name in said if name not in expected)]:
            inner = f"{place}.{name}" if place else str(name)
            if inner not in unchecked and (name not in said or name not in expected):
                has = "lacks" if name in expected else "has an entry"
                raise CertificateError(
                    f"{FACTS} {has} {quoted(inner)}; it was edited or is of another run."
                )
            if inner not in unchecked:
                agree_facts(said[name], expected[name], unchecked, inner)
        return
    power, rounding = ROUNDED.get(place.rpartition(".")[2], (1, 0.0))
    if not _is_same(said, expected, power, rounding):
        raise CertificateError(
            f"{FACTS} claims {place} = {quoted(said)}, {SOURCE} {quoted(expected)}."
        )


def _is_same(said: Any, expected: Any, power: int = 1, rounding: float = 0.0) -> bool:
    if isinstance(expected, list) and isinstance(said, list):
        return len(said) == len(expected) and all(map(_is_same, said, expected))
    if isinstance(expected, float) and type(said) in (float, int):
        allowed = PRECISION * abs(expected) ** power + rounding
        return bool(abs(abs(said) ** power - abs(expected) ** power) <= allowed) and (
            said * expected >= 0
        )
    return type(said) is type(expected) and bool(said == expected)


def agree_table(path: Path, expected: CsvTable) -> None:
    """Refuse a .csv file that differs from this heading and these rows; the first cell of a row
    names it."""
    heading, rows = expected[0], list(expected[1])
    found = csv_rows(path, heading)
    if len(found) != len(rows):
        raise CertificateError(f"{path.name} has {len(found)} rows where the run has {len(rows)}.")
    for line, (cells, wanted) in enumerate(zip(found, rows, strict=True), 1):
        for name, cell, value in zip(heading, cells, wanted, strict=True):
            if not (_is_number(cell, value) if isinstance(value, float) else cell == str(value)):
                row = f"row {line}" if name == heading[0] else f"row {line} ({quoted(cells[0])})"
                raise CertificateError(
                    f"{path.name}, {row}: {quoted(name)} is {quoted(cell)}, {SOURCE}"
                    f" {quoted(str(value))}."
                )


def _is_number(cell: str, value: float) -> bool:
    try:
        said = float(cell)
    except ValueError:
        return False
    return bool(np.isclose(said, value, rtol=PRECISION, atol=0, equal_nan=True))


def verify_cone(cone: Cone, points: Points, names: Any, what: str, tol: float | None) -> Verdict:
    """`Cone.verify`, with the points by name: "point 3" becomes "feature 'TP53'"."""
    try:
        return cone.verify(points, tol)
    except CertificateError as error:
        named = re.sub(
            r"\bpoint (\d+)",
            lambda found: f"{what} {quoted(str(names[int(found[1])]))}",
            str(error),
        )
        raise CertificateError(named) from error


def check_arrays(path: Path, arrays: Mapping[str, AnyArray], needed: Mapping[str, Any]) -> None:
    """Refuse factors.npz unless it has these arrays, each of the kind and the shape given."""
    for name, (kind, shape) in needed.items():
        if name not in arrays or arrays[name].shape != shape or arrays[name].dtype.kind != kind:
            raise RunFolderError(
                f"{FACTORS} in {str(path)!r} has no {name!r} of shape {shape}; it is damaged or of"
                " another run."
            )
        if kind == "f" and not np.isfinite(arrays[name]).all():
            raise RunFolderError(
                f"{name!r} in {FACTORS} in {str(path)!r} has a value that is not finite; it is"
                " damaged."
            )


def agree_arrays(
    name: str, arrays: Mapping[str, AnyArray], expected: Mapping[str, Any], rounding: float = 0.0
) -> None:
    """Refuse a file of arrays that differ from the ``expected`` ones; ``rounding`` is what numbers
    may differ by whatever their size."""
    for key in [*expected, *(key for key in arrays if key not in expected)]:
        if key not in expected or key not in arrays:
            has = "lacks" if key in expected else "has an array"
            raise CertificateError(f"{name} {has} {quoted(key)}; it is of another run.")
        found, wanted = np.asarray(arrays[key]), np.asarray(expected[key])
        if found.shape != wanted.shape or found.dtype.kind != wanted.dtype.kind:
            raise CertificateError(
                f"{quoted(key)} in {name} is of {found.dtype} and shape {found.shape}, {SOURCE}"
                f" {wanted.dtype} and {wanted.shape}."
            )
        is_same = (
            np.isclose(found, wanted, rtol=PRECISION, atol=rounding, equal_nan=True)
            if wanted.dtype.kind == "f"
            else found == wanted
        )
        for at in np.argwhere(~np.atleast_1d(is_same))[:1]:
            place = tuple(at.tolist())[: wanted.ndim]
            raise CertificateError(
                f"{quoted(key)} in {name} is {quoted(found[place].item())} at {place}, {SOURCE}"
                f" {quoted(wanted[place].item())}."
            )
