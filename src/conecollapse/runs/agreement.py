"""What a folder says against what follows from the data: the first difference ends in an error that
names the place.

Names, counts and sizes must be equal. Numbers that are computed again are sums in which nothing
cancels, so they agree to rounding wherever they are computed, far within `PRECISION`. The
differences of nearly equal numbers are in `ROUNDED`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from conecollapse._errors import CertificateError, RunFolderError, quoted
from conecollapse._types import AnyArray, Points
from conecollapse.certificates import Verdict
from conecollapse.geometry.cone import Cone
from conecollapse.runs.folder import COPIES, FACTORS, MAPS_MAT

PRECISION = 1e-9  # relative
# what rounding leaves where a difference is zero, as a share of what is subtracted
CANCELLED = 1e-12
# the power in which it is a difference: an error is the root of one
ROUNDED = {"relative_error": 2, "orthogonality": 1, "residuals": 1}
DATED = 128  # bytes of a .mat file that say when it was written
SOURCE = "but the data and the other files of the run give"


def agree(
    file: str, said: Any, expected: Any, unchecked: Collection[str] = (), place: str = ""
) -> None:
    """Refuse ``file`` where what it said differs from what is expected, but for the ``unchecked``
    places."""
    if isinstance(expected, list) and isinstance(said, list):
        said, expected = dict(enumerate(said)), dict(enumerate(expected))
    if not (isinstance(expected, Mapping) and isinstance(said, Mapping)):
        _agree_values(f"{file}: {place}", np.asarray(said), np.asarray(expected))
        return
    for name in [*expected, *(name for name in said if name not in expected)]:
        inner = f"{place}.{name}" if place else str(name)
        if inner in unchecked:
            continue
        if name not in said or name not in expected:
            has = "lacks" if name in expected else "has an entry"
            raise CertificateError(f"{file} {has} {quoted(inner)}; it was edited.")
        agree(file, said[name], expected[name], unchecked, inner)


def _agree_values(place: str, found: AnyArray, wanted: AnyArray) -> None:
    if (found.shape, found.dtype.kind) != (wanted.shape, wanted.dtype.kind):
        raise CertificateError(f"{place} is {_described(found)}, {SOURCE} {_described(wanted)}.")
    same = found == wanted
    if wanted.dtype.kind == "f":
        power = ROUNDED.get(re.split(r"[. ]", place)[-1], 0)
        a, b = (np.sign(part) * np.abs(part) ** (power or 1) for part in (found, wanted))
        atol = CANCELLED if power else 0.0
        same = np.isclose(a, b, rtol=PRECISION, atol=atol, equal_nan=True)
    for at in np.argwhere(~np.atleast_1d(same))[:1]:
        index = tuple(at.tolist())[: wanted.ndim]
        raise CertificateError(
            f"{place}{list(index) or ''} is {_described(found[index])}, {SOURCE}"
            f" {_described(wanted[index])}."
        )


def _described(value: Any) -> str:
    is_one = np.ndim(value) == 0
    return quoted(value.item()) if is_one else f"an array of {value.dtype} and shape {value.shape}"


def agree_files(path: Path, write: Callable[[Path], None]) -> None:
    """Refuse a folder whose copies of its arrays differ from those that ``write`` makes."""
    with TemporaryDirectory() as folder:
        write(Path(folder))
        for name in sorted(COPIES):
            found, wanted = _lines(path / name), _lines(Path(folder, name))
            if bool(found) != bool(wanted):
                has = "has no" if wanted else "is of a kind of run that has no"
                raise RunFolderError(f"{str(path)!r} {has} {name}; it is incomplete or was edited.")
            for at, (line, true) in enumerate(zip_longest(found, wanted, fillvalue=b""), 1):
                if line != true and not name.endswith(".csv"):
                    raise CertificateError(f"{name} does not hold the maps of {FACTORS}.")
                cells = zip_longest(line.split(b","), true.split(b","), fillvalue=b"")
                for k, pair in enumerate(cells, 1):
                    if pair[0] != pair[1]:
                        said, other = (quoted(cell.decode("utf-8", "replace")) for cell in pair)
                        raise CertificateError(
                            f"{name}, line {at}, cell {k}, is {said}, {SOURCE} {other}."
                        )


def _lines(file: Path) -> list[bytes]:
    """What is compared; nothing where there is no file."""
    content = file.read_bytes()[DATED if file.name == MAPS_MAT else 0 :] if file.is_file() else b""
    return content.splitlines() if file.suffix == ".csv" else [content] if content else []


def check_arrays(path: Path, arrays: Mapping[str, AnyArray], needed: Mapping[str, Any]) -> None:
    """Refuse factors.npz unless it has these arrays, each of the kind and the shape given, and
    finite."""
    for name, (kind, shape) in needed.items():
        is_there = name in arrays and (arrays[name].shape, arrays[name].dtype.kind) == (shape, kind)
        if not is_there or (kind == "f" and not np.isfinite(arrays[name]).all()):
            raise RunFolderError(
                f"{FACTORS} in {str(path)!r} has no {name!r} of shape {shape} and finite values; it"
                " is damaged or of another run."
            )


def verify_cone(cone: Cone, points: Points, names: Any, what: str, tol: float | None) -> Verdict:
    """`Cone.verify`, with the points by name: "point 3" becomes "feature 'TP53'"."""
    try:
        return cone.verify(points, tol)
    except CertificateError as error:
        named = re.sub(
            r"\bpoint (\d+)", lambda at: f"{what} {quoted(str(names[int(at[1])]))}", str(error)
        )
        raise CertificateError(named) from error
