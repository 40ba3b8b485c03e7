"""Cones as ``.npz`` files of plain arrays: never a pickle, never half a file."""

from __future__ import annotations

import zipfile
import zlib
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import ConeFileError
from conecollapse._files import whole_file
from conecollapse._types import AnyArray, Points, Sparse
from conecollapse.certificates import ApproximateCertificate, Certificate, check_form
from conecollapse.geometry.epsilon import EpsilonPath

FORMAT = "conecollapse-cone-1"
_EXACT = ("rays", "leader", "rays_only", "separated", "kind", "G", "T", "centre", "offset", "lift")
_SCALARS = ("tol", "n_points", "dim")


def write_cone(
    path: str | PathLike[str],
    rays: Points | None,
    certificate: Certificate | ApproximateCertificate,
    ray_names: AnyArray | None,
    epsilon_path: EpsilonPath | None,
) -> None:
    """Write everything to a temporary file beside ``path`` and rename it."""
    arrays: dict[str, Any] = {"format": np.array(FORMAT)}
    arrays |= {name: np.array(getattr(certificate, name)) for name in _SCALARS}
    arrays |= _pack("coefficients", certificate.coefficients)
    if rays is not None:
        arrays |= _pack("unit_rays", rays)
    if isinstance(certificate, Certificate):
        arrays |= {name: getattr(certificate, name) for name in _EXACT} | _pack("F", certificate.F)
        arrays["reach"] = np.array(certificate.reach)
        if len(certificate.W):
            arrays["W"] = certificate.W
    else:
        arrays |= {"rays": certificate.rays, "mass": np.array(certificate.mass), "longest": np.array(certificate.longest)}
    if ray_names is not None:
        arrays["ray_names"] = np.array([str(name) for name in ray_names], dtype=np.str_)
    if epsilon_path is not None:
        arrays["path_residuals"] = epsilon_path.residuals
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {str(target.parent)!r} to write {target.name!r} in; make it first.")
    with whole_file(target) as temporary, open(temporary, "xb") as file:
        np.savez(file, **arrays)


def read_cone(
    path: str | PathLike[str],
) -> tuple[Points, Certificate | ApproximateCertificate, AnyArray | None, EpsilonPath | None]:
    """Read what `write_cone` wrote; anything else is refused with one sentence."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r} to read a cone from.")
    try:
        with open(path, "rb") as stream:
            if not zipfile.is_zipfile(stream):
                raise ValueError("not a whole .npz archive")
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise ConeFileError(
            f"{str(path)!r} is not a readable cone file ({error}); it may be truncated, damaged or of another kind."
        ) from error
    if str(arrays.get("format", "")) != FORMAT:
        raise ConeFileError(f"{str(path)!r} does not hold a cone ({FORMAT}); write one with Cone.save.")
    try:
        return _unpack_cone(arrays)
    except (KeyError, ValueError, TypeError, IndexError, OverflowError) as error:
        raise ConeFileError(f"{str(path)!r} is an incomplete or inconsistent cone file ({str(error).rstrip('.')}).") from error


def _unpack_cone(
    arrays: dict[str, AnyArray],
) -> tuple[Points, Certificate | ApproximateCertificate, AnyArray | None, EpsilonPath | None]:
    common: dict[str, Any] = {
        "tol": float(arrays["tol"]),
        "n_points": int(arrays["n_points"]),
        "dim": int(arrays["dim"]),
        "coefficients": _unpack("coefficients", arrays),
    }
    held = any(name.startswith("unit_rays") for name in arrays)  # cones in very many dimensions leave their rays where the points are
    rays = _unpack("unit_rays", arrays) if held else None
    certificate: Certificate | ApproximateCertificate
    if "mass" in arrays:
        certificate = ApproximateCertificate(rays=arrays["rays"], mass=bool(arrays["mass"]), longest=float(arrays["longest"]), **common)
    else:
        exact: dict[str, Any] = {name: arrays[name] for name in _EXACT}
        if "W" in arrays:
            exact["W"] = arrays["W"]
        certificate = Certificate(**exact, reach=float(arrays["reach"]), F=_unpack("F", arrays), **common)
    check_form(certificate)
    if rays is not None:
        _check_rays(rays, certificate)
    residuals = arrays.get("path_residuals")
    if residuals is not None and (residuals.shape != certificate.rays.shape or residuals.dtype.kind != "f"):
        raise ValueError(f"the path has residuals of shape {residuals.shape} for {len(certificate.rays)} rays")
    path = None if residuals is None else EpsilonPath(certificate.rays, residuals)
    return rays, certificate, arrays.get("ray_names"), path


def _check_rays(rays: Points, certificate: Certificate | ApproximateCertificate) -> None:
    if rays.shape != (len(certificate.rays), certificate.dim) or rays.dtype.kind != "f":
        raise ValueError(f"rays of shape {rays.shape} do not fit {len(certificate.rays)} rays in dimension {certificate.dim}")
    values = rays.data if sp.issparse(rays) else rays
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise ValueError("a ray has an entry that is not a non-negative number")


def _pack(name: str, M: Points) -> dict[str, AnyArray]:
    if not sp.issparse(M):
        return {name: np.asarray(M)}
    return {
        f"{name}.data": M.data,
        f"{name}.indices": M.indices,
        f"{name}.indptr": M.indptr,
        f"{name}.shape": np.array(M.shape),
    }


def _unpack(name: str, arrays: dict[str, AnyArray]) -> Any:
    if name in arrays:
        return arrays[name]
    parts = [arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr")]
    data, indices, indptr = parts
    if indptr.dtype not in (np.int32, np.int64) or indices.dtype not in (np.int32, np.int64) or data.dtype.kind != "f":
        raise ValueError(f"the entries of {name!r} are not numbers of the right kind")
    if indptr.ndim != 1 or indptr[0] != 0 or (np.diff(indptr) < 0).any() or not indptr[-1] == len(data) == len(indices):
        raise ValueError(f"the row pointers of {name!r} do not fit its entries")
    M: Sparse = sp.csr_array(tuple(parts), shape=tuple(int(s) for s in arrays[f"{name}.shape"]))
    M.check_format(full_check=True)
    return M
