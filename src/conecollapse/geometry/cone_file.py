"""Cones as ``.npz`` files of plain arrays: never a pickle, never half a file.

The file holds the stored rays, the fields of the certificate under their names, and each family of
witnesses under ``witnesses.0.``, ``witnesses.1.`` and so on, with its ``kind``. Numbers take as few
bytes as hold them exactly. Nothing else that a cone may carry is stored: what `verify` cannot
measure again is not kept.
"""

from __future__ import annotations

from dataclasses import fields
from os import PathLike
from os.path import isfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import (
    CertificateError,
    ConeFileError,
    InvalidInputError,
    MissingFileError,
    quoted,
)
from conecollapse._files import whole_file
from conecollapse._types import AnyArray, Points
from conecollapse.certificates import (
    KINDS,
    AnyCertificate,
    ApproximateCertificate,
    Certificate,
    SampledCertificate,
    Witnesses,
    form,
    plain,
)
from conecollapse.io.limits import check_file
from conecollapse.io.npy import load_npz

FORMAT = "conecollapse-cone-3"
BESIDE = "beside."  # begins the names of arrays that are no part of the cone
FAMILY = "conecollapse-cone-"
_SCALARS = {
    "tol": float,
    "residual": float,
    "longest": float,
    "n_points": int,
    "dim": int,
    "weighting": str,
}


def write_cone(
    path: str | PathLike[str],
    rays: Points | None,
    certificate: AnyCertificate,
    ray_names: AnyArray | None,
    beside: dict[str, AnyArray] | None = None,
) -> None:
    """Write everything to a temporary file beside ``path`` and rename it; ``beside`` are arrays
    that `read_beside` reads."""
    arrays: dict[str, Any] = {
        "format": np.array(FORMAT),
        **{f"{BESIDE}{name}": array for name, array in (beside or {}).items()},
    }
    for field in fields(certificate):
        if field.name != "witnesses":
            arrays |= _pack(field.name, getattr(certificate, field.name))
    if isinstance(certificate, Certificate):
        for k, family in enumerate(certificate.witnesses):
            arrays[f"witnesses.{k}.kind"] = np.array(family.kind)
            for field in fields(family):
                arrays |= _pack(f"witnesses.{k}.{field.name}", getattr(family, field.name))
    if rays is not None:
        arrays |= _pack("unit_rays", rays)
    if ray_names is not None:
        arrays["ray_names"] = np.array([str(name) for name in ray_names], dtype=np.str_)
    target = Path(path)
    if not target.parent.is_dir():
        raise MissingFileError(
            f"there is no folder {str(target.parent)!r} to write {target.name!r} in; make it first."
        )
    with whole_file(target) as temporary, open(temporary, "xb") as file:
        np.savez(file, **arrays)


def read_cone(path: str | PathLike[str]) -> tuple[Points | None, AnyCertificate, AnyArray | None]:
    """Read what `write_cone` wrote; anything else is refused with one sentence."""
    arrays = _load(path)
    found = str(arrays["format"]) if "format" in arrays and arrays["format"].shape == () else ""
    if found != FORMAT and found.startswith(FAMILY):
        raise ConeFileError(
            f"{str(path)!r} is a cone file of another version ({quoted(found)}, not {FORMAT!r});"
            " make and save the cone again."
        )
    if found != FORMAT:
        raise ConeFileError(
            f"{str(path)!r} does not hold a cone ({FORMAT}); write one with Cone.save."
        )
    try:
        certificate = plain(_certificate(arrays))
        # cones in many dimensions leave them with the points
        has_rays = "unit_rays" in arrays or "unit_rays.data" in arrays
        rays = _unpack("unit_rays", arrays) if has_rays else None
        if rays is not None:
            rays = _plain_rays(rays, certificate)
        names = arrays.get("ray_names")
        if names is not None and (names.dtype.kind != "U" or names.shape != certificate.rays.shape):
            raise _Inconsistent(
                f"'ray_names' must hold a text for each of the {len(certificate.rays)} rays"
            )
    except (_Inconsistent, CertificateError) as error:
        raise ConeFileError(
            f"{str(path)!r} is an incomplete or inconsistent cone file: {str(error).rstrip('.')}."
        ) from error
    return rays, certificate, names


def read_beside(path: str | PathLike[str]) -> dict[str, AnyArray]:
    """The arrays that were written beside a cone, by name."""
    return {
        name.removeprefix(BESIDE): array
        for name, array in _load(path).items()
        if name.startswith(BESIDE)
    }


class _Inconsistent(Exception):
    """What the arrays of a file lack, or where they contradict each other."""


def _load(path: str | PathLike[str]) -> dict[str, AnyArray]:
    if not isfile(path):  # False also for a name that no system could have
        check_file(Path(path))
    try:
        return load_npz(Path(path))
    except InvalidInputError as error:
        raise ConeFileError(f"{str(path)!r} is not a readable cone file: {error}") from error


def _certificate(arrays: dict[str, AnyArray]) -> AnyCertificate:
    kind: Any = ApproximateCertificate if "weighting" in arrays else Certificate
    kind = SampledCertificate if "G" in arrays else kind
    parts: dict[str, Any] = {
        field.name: _part(field.name, arrays) for field in fields(kind) if field.name != "witnesses"
    }
    if kind is Certificate:
        parts["witnesses"] = _families(arrays)
    return kind(**parts)


def _families(arrays: dict[str, AnyArray]) -> tuple[Witnesses, ...]:
    kinds = {kind.kind: kind for kind in KINDS}
    found: list[Witnesses] = []
    while f"witnesses.{len(found)}.kind" in arrays:
        prefix = f"witnesses.{len(found)}"
        kind = kinds.get(str(arrays[f"{prefix}.kind"]))
        if kind is None:
            raise _Inconsistent(f"{prefix} is of no kind that is known")
        parts: dict[str, Any] = {
            field.name: _unpack(f"{prefix}.{field.name}", arrays) for field in fields(kind)
        }
        found.append(kind(**parts))
    return tuple(found)


def _part(name: str, arrays: dict[str, AnyArray]) -> Any:
    """A field of the certificate: a number, a text, an array or a sparse array."""
    if name not in _SCALARS:
        return _unpack(name, arrays)
    value = _unpack(name, arrays)
    kinds = {float: "f", int: "iu", str: "U"}[_SCALARS[name]]
    if sp.issparse(value) or value.shape != () or value.dtype.kind not in kinds:
        raise _Inconsistent(f"{name!r} is not a single {_SCALARS[name].__name__}")
    return _SCALARS[name](value)


def _plain_rays(rays: Points, certificate: AnyCertificate) -> Points:
    shape = (len(certificate.rays), certificate.dim)
    rays = (
        form.sparse("unit_rays", rays, shape)
        if sp.issparse(rays)
        else form.floats("unit_rays", rays, shape)
    )
    if not ((rays.data if sp.issparse(rays) else rays) >= 0).all():
        raise _Inconsistent("a ray has an entry that is not a non-negative number")
    return rays


def _pack(name: str, value: Any) -> dict[str, AnyArray]:
    if not sp.issparse(value):
        return {name: _narrow(np.asarray(value))}
    return {
        f"{name}.data": _narrow(value.data),
        f"{name}.indices": _narrow(value.indices),
        f"{name}.indptr": _narrow(value.indptr),
        f"{name}.shape": np.array(value.shape),
    }


def _narrow(array: AnyArray) -> AnyArray:
    """Lists of integers in the fewest bytes that hold them; anything else as it is."""
    array = np.asarray(array)  # a masked array has no largest entry where all are masked
    if array.ndim != 1 or array.dtype.kind != "i" or not len(array):
        return array
    largest = min(max(-int(array.min()), int(array.max())), np.iinfo(np.int64).max)
    return array.astype(np.min_scalar_type(-1 - largest))


def _unpack(name: str, arrays: dict[str, AnyArray]) -> Any:
    """The array of this name, dense or sparse."""
    if name in arrays:
        return arrays[name]
    missing = [
        part for part in ("data", "indices", "indptr", "shape") if f"{name}.{part}" not in arrays
    ]
    if missing:
        raise _Inconsistent(f"it has no {name!r}")
    data, columns, starts, shape = (
        arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr", "shape")
    )
    if shape.shape != (2,) or shape.dtype.kind != "i" or not (shape >= 0).all():
        raise _Inconsistent(f"the shape of {name!r} is not two sizes")
    return form.csr(name, data, columns, starts, (int(shape[0]), int(shape[1])), single=True)
