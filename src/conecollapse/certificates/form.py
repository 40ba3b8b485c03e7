"""Is it a certificate at all? Shapes, types and ranges of its parts, before any of them is used."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import CertificateError
from conecollapse._types import AnyArray
from conecollapse.certificates.claims import COMBINED, DENSE, METRIC, SUPPORT, ApproximateCertificate, Certificate


def check_form(c: Certificate | ApproximateCertificate) -> None:
    """Refuse a certificate whose parts do not fit together, naming the part."""
    for name in ("n_points", "dim"):
        if not isinstance(getattr(c, name), (int, np.integer)) or getattr(c, name) < 1:
            _refuse(name, f"it must be a positive integer, not {getattr(c, name)!r}")
    if not (isinstance(c.tol, (float, np.floating)) and 0 < c.tol <= 1):
        _refuse("tol", f"it must lie in (0, 1], not {c.tol!r}")
    _indices("rays", c.rays, None, 0, c.n_points)
    if not len(c.rays):
        raise CertificateError("the certificate names no ray; a cone has at least one.")
    n_rays = len(c.rays)
    if isinstance(c, ApproximateCertificate):
        if len(np.unique(c.rays)) != n_rays:
            _refuse("rays", "a point is named twice")
        if not (np.isfinite(c.longest) and c.longest > 0):
            _refuse("longest", f"it must be a positive length, not {c.longest!r}")
    else:
        _check_exact(c, n_rays)
    _sparse("coefficients", c.coefficients, (c.n_points, n_rays))
    for at in np.flatnonzero(~(c.coefficients.data >= 0))[:1]:
        i = int(np.searchsorted(c.coefficients.indptr, at, side="right")) - 1
        value, ray = c.coefficients.data[at], c.coefficients.indices[at]
        raise CertificateError(f"point {i}: its coefficient {value:.6g} on ray {ray} is not a non-negative number.")


def _check_exact(c: Certificate, n_rays: int) -> None:
    if not (isinstance(c.reach, (float, np.floating)) and 0 <= c.reach <= 1):
        _refuse("reach", f"it must lie in [0, 1], not {c.reach!r}")
    if (np.diff(c.rays) <= 0).any():
        _refuse("rays", "the indices must be increasing")
    _indices("leader", c.leader, c.n_points, -1, c.n_points)
    _indices("separated", c.separated, n_rays, 0, c.n_points)
    _indices("kind", c.kind, n_rays, DENSE, COMBINED + 1)
    if not (isinstance(c.rays_only, np.ndarray) and c.rays_only.dtype == bool and c.rays_only.shape == (n_rays,)):
        _refuse("rays_only", f"it must hold {n_rays} booleans")
    dense, metric, support = (int((c.kind == kind).sum()) for kind in (DENSE, METRIC, SUPPORT))
    _floats("G", c.G, (dense, c.dim))
    _floats("T", c.T, (c.dim, c.T.shape[-1] if np.ndim(c.T) == 2 else -1))
    _floats("centre", c.centre, (c.dim,))
    _floats("offset", c.offset, (metric,))
    _floats("lift", c.lift, (support,))
    _sparse("F", c.F, (support, c.dim))
    combined = int((c.kind == COMBINED).sum())
    if combined:
        _floats("W", c.W, (combined, c.n_points))


def _indices(name: str, array: Any, length: int | None, low: int, high: int) -> None:
    if not (isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.kind in "iu"):
        _refuse(name, "it must be a list of integers")
    if length is not None and len(array) != length:
        _refuse(name, f"it has {len(array)} entries where {length} are needed")
    for at in np.flatnonzero((array < low) | (array >= high))[:1]:
        _refuse(name, f"entry {at} is {array[at]}, outside {low}..{high - 1}")


def _floats(name: str, array: AnyArray, shape: tuple[int, ...]) -> None:
    if not (isinstance(array, np.ndarray) and array.dtype.kind == "f" and array.shape == shape):
        _refuse(name, f"it must be a float array of shape {shape}, not {np.shape(array)}")
    if not np.isfinite(array).all():
        _refuse(name, f"it has a value that is not finite, in row {int(np.argwhere(~np.isfinite(array))[0][0])}")


def _sparse(name: str, M: Any, shape: tuple[int, int]) -> None:
    if not (sp.issparse(M) and M.format == "csr" and M.shape == shape):
        _refuse(name, f"it must be a CSR array of shape {shape}, not {getattr(M, 'shape', None)}")
    try:
        M.check_format(full_check=True)
    except ValueError as error:
        _refuse(name, str(error))
    if M.data.dtype.kind != "f":
        _refuse(name, "it must hold floats")
    if name == "F" and not np.isfinite(M.data).all():
        _refuse(name, "it has a value that is not finite")
    if name != "F" and np.isinf(M.data).any():
        _refuse(name, "it has an infinite value")


def _refuse(name: str, why: str) -> None:
    raise CertificateError(f"the certificate's {name!r} is not well formed: {why}.")
