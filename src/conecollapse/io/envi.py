"""ENVI images: a text header (``.hdr``) beside a file of plain numbers, in any of the three orders
of bands, rows and columns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from conecollapse._errors import InvalidInputError
from conecollapse._types import AnyArray, BoolArray
from conecollapse.io.limits import (
    LONGEST_NUMBER,
    NUMBER_BYTES,
    check_file,
    check_room,
    unreadable,
)

HEADER = ".hdr"
# endings of the file of numbers
DATA = ("", ".img", ".dat", ".raw", ".bsq", ".bil", ".bip", ".bin")
TYPES = {1: "u1", 2: "i2", 3: "i4", 4: "f4", 5: "f8", 12: "u2", 13: "u4", 14: "i8", 15: "u8"}
# from the order in the file to rows, columns, bands
ORDERS = {"bsq": (1, 2, 0), "bil": (0, 2, 1), "bip": (0, 1, 2)}
BANDS = ("last", "first")  # where the bands of a cube may be
LONGEST_HEADER = 2**24  # bytes
PLACE = ("map info", "coordinate system string", "projection info")


def find_envi(path: Path) -> list[Path]:
    """The header and the numbers of an image, of which ``path`` names either; none if this is no
    ENVI image."""
    if path.suffix.lower() == HEADER:
        stem = path.with_suffix("")
        endings = [end for ending in DATA for end in (ending, ending.upper())]
        data = _first_file([stem.with_name(stem.name + end) for end in endings])
        if data is None:
            raise InvalidInputError(
                f"there is no file of numbers beside {path.name}, such as {stem.name}.img or"
                f" {stem.name}.dat."
            )
        return [path, data]
    if path.suffix.lower() not in DATA[1:]:
        return []
    header = _first_file([path.with_suffix(HEADER), path.with_name(path.name + HEADER)])
    if header is None:
        raise InvalidInputError(
            f"{path.name} needs a header beside it, {path.stem}{HEADER}, which says how many bands"
            " and pixels it has."
        )
    return [header, path]


def _first_file(paths: list[Path]) -> Path | None:
    return next((path for path in paths if path.is_file()), None)


class Image(NamedTuple):
    """What the file of an image holds."""

    cube: AnyArray  # height x width x bands, the bad ones too
    wavelengths: AnyArray | None = None  # of the good bands
    missing: float | None = None  # the value that stands for no data
    good_bands: BoolArray | None = None  # None if the header lists no bad ones


def read_envi(header: Path, data: Path) -> Image:
    """The cube and what the header says about it."""
    for path in (header, data):
        check_file(path)
    said = _fields(header)
    cube = _read_cube(header, data, said)
    n_bands = cube.shape[2]
    missing = _number(said["data ignore value"], header) if "data ignore value" in said else None
    lengths, good = (_for_each(said, name, n_bands, header) for name in ("wavelength", "bbl"))
    if good is None or good.all():
        return Image(cube, lengths, missing)
    if not good.any():
        raise InvalidInputError(f"{header.name} lists all {n_bands} bands as bad (bbl).")
    return Image(cube, None if lengths is None else lengths[good != 0], missing, good != 0)


def _read_cube(header: Path, data: Path, said: dict[str, str]) -> AnyArray:
    """Height x width x bands."""
    n_columns, n_rows, n_bands, code = (
        _whole(said, name, header) for name in ("samples", "lines", "bands", "data type")
    )
    offset = _whole(said, "header offset", header, 0)
    order = said.get("interleave", "bsq").lower()
    if order not in ORDERS or code not in TYPES or min(n_columns, n_rows, n_bands) < 1:
        raise InvalidInputError(
            f"{header.name} says data type {code} and interleave {order!r}; what can be read are"
            f" real numbers (data types {', '.join(map(str, TYPES))}) in the order"
            f" {', '.join(ORDERS)}."
        )
    is_big_endian = bool(_whole(said, "byte order", header, 0))
    dtype = np.dtype(TYPES[code]).newbyteorder(">" if is_big_endian else "<")
    count = n_bands * n_rows * n_columns
    check_room(NUMBER_BYTES * count, data)
    size, promised = data.stat().st_size, offset + count * dtype.itemsize
    if size < promised:
        raise InvalidInputError(
            f"{data.name} has {size} bytes, but {header.name} promises {promised}; it may be cut"
            " short."
        )
    sides = [(n_rows, n_columns, n_bands)[ORDERS[order].index(axis)] for axis in range(3)]
    values = np.fromfile(data, dtype, count, offset=offset).reshape(sides).transpose(ORDERS[order])
    return np.ascontiguousarray(values.astype(dtype.newbyteorder("=")))


def place_on_earth(header: Path) -> dict[str, str]:
    """The lines of a header that say where the image lies."""
    said = _fields(header)
    return {name: said[name] for name in PLACE if name in said}


def write_envi(
    header: Path,
    data: Path,
    maps: AnyArray,
    names: list[str],
    more: Mapping[str, str] | None = None,
) -> None:
    """Maps, height x width x number of maps, as an image of 32-bit numbers, a map after the other;
    ``more`` are further lines of the header."""
    height, width, count = maps.shape
    np.ascontiguousarray(maps.transpose(2, 0, 1), "<f4").tofile(data)
    called = ", ".join(re.sub(r"[{},\s]+", " ", name) for name in names)
    said = {"samples": width, "lines": height, "bands": count, "header offset": 0}
    said |= {"file type": "ENVI Standard", "data type": 4, "interleave": "bsq", "byte order": 0}
    said |= {"band names": f"{{{called}}}", **(more or {})}
    lines = ["ENVI", *(f"{name} = {value}" for name, value in said.items())]
    header.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _fields(header: Path) -> dict[str, str]:
    """The lines ``name = value`` of a header; a value in braces may have several lines."""
    if header.stat().st_size > LONGEST_HEADER:
        raise InvalidInputError(
            f"{header.name} has {header.stat().st_size} bytes, too many for a header."
        )
    text = header.read_text(encoding="latin-1")
    if not text.lstrip("\ufeffï»¿").startswith("ENVI"):
        raise InvalidInputError(f"{header.name} is no header of ENVI: its first line is not ENVI.")
    lines = re.findall(
        r"^[ \t]*([^=\n;{}]+?)[ \t]*=[ \t]*(\{[^}]*\}|[^\n{]*)", text, flags=re.MULTILINE
    )
    return {name.strip().lower(): value.strip() for name, value in lines}


def _whole(said: dict[str, str], name: str, header: Path, default: int | None = None) -> int:
    text = said.get(name, "")
    if not text and default is not None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER):
        raise InvalidInputError(
            f"{header.name} has no whole number for {name!r}{f' ({text[:40]!r})' if text else ''};"
            " it is needed."
        )
    return int(text)


def _number(text: str, header: Path) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise unreadable(header, error) from error


def _for_each(said: dict[str, str], name: str, n_bands: int, header: Path) -> AnyArray | None:
    """A number for each band; a list of another length is left out."""
    words = said.get(name, "").strip("{} \n").replace(",", " ").split()
    if len(words) != n_bands:
        return None
    numbers = np.array([_number(word, header) for word in words])
    return numbers if np.isfinite(numbers).all() else None
