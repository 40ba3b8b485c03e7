"""Cones with certificates of every kind, and ways to spoil any part of one."""

from __future__ import annotations

import dataclasses
from unittest import mock

import numpy as np
import scipy.sparse as sp
from cones import planted, unit
from scipy.optimize import nnls

from conecollapse import ApproximateCertificate, Cone
from conecollapse._linalg import unit_rows
from conecollapse.certificates import SparseVectors
from conecollapse.geometry.certified import certify


def dense_points(seed=0):
    return planted(np.random.default_rng(seed), 8, 40, 30)


def sparse_points(seed=1):
    rng = np.random.default_rng(seed)
    P = sp.random_array(
        (80, 60), density=0.05, rng=rng, data_sampler=lambda size: rng.random(size) + 0.1
    ).tocsr()
    P = P[np.diff(P.indptr) > 0]
    # by points inside their supports, which do not represent them
    covered = sp.csr_array(P[20:30] + P[30:40])
    covered.data *= 0.5 + rng.random(covered.nnz)
    return sp.csr_array(sp.vstack([P, P[:20] + P[20:40], covered]))


def with_twins(seed=2):
    """A flat cone with two points just above it, each within 1e-8 of the cone that has the other:
    one must stay, and claims less.

    Beside them duplicates, near-duplicates, a zero point and points inside.
    """
    rng = np.random.default_rng(seed)
    high = 2e-8 * (1 + 0.1 * rng.random())
    flat = np.array([[1.0, 0, 0], [0, 1, 0]])
    above = np.array([[1.0, 1, high], [1, 1.3, 1.25 * high]])
    near = np.array([[1.0, 0.5, 0], [1, 0.5, 0.7e-8]])
    return np.vstack([flat, above, near, 3 * flat, np.zeros((1, 3)), rng.random((5, 2)) @ flat])


def quick(P):
    """The cone of ``P`` with what its first product, or its supports, leave open; `effort="quick"`
    leaves all of so few points open."""
    U, lengths = unit_rows(P)
    with mock.patch("conecollapse.geometry.certified.cost.PRODUCTS", 1e9):
        certificate = certify(U, lengths, 1e-8, effort="quick")
    return Cone(U[certificate.rays], certificate)


def by_sparse_vectors(seed=3):
    """Sparse points, the first of which go furthest along one axis each: that axis, shifted, is a
    witness."""
    rng = np.random.default_rng(seed)
    first = 2 * np.eye(12) + rng.random((12, 12)) * (rng.random((12, 12)) < 0.3)
    P = sp.csr_array(np.vstack([first, (rng.random((5, 12)) < 0.4) @ first + first[:5]]))
    cone = Cone.from_points(P)
    shares = unit(P.toarray()) / unit(P.toarray()).sum(axis=1)[:, None]
    offset = np.sort(shares, axis=0)[-2:].mean(axis=0)
    family = SparseVectors(np.arange(12), sp.csr_array(sp.eye_array(12, dtype=np.float32)), offset)
    return Cone(cone.rays, dataclasses.replace(cone.certificate, witnesses=(family,))), P


NAMES = (
    "dense",
    "sparse",
    "twins",
    "merged",
    "merged sparse",
    "combination",
    "single",
    "epsilon",
    "epsilon by mass",
    "quick",
    "quick sparse",
    "quick twins",
    "sparse vectors",
)


def cases(seed=0):
    """Name -> (cone, points): every kind of witness and of cone, small enough to be checked
    thousands of times."""
    rng = np.random.default_rng(seed)
    dense, tall = dense_points(seed), planted(rng, 40, 7, 9).T
    sparse, twins = sparse_points(seed + 1), with_twins(seed + 2)
    half = len(dense) // 2
    return {
        "dense": (Cone.from_points(dense), dense),
        "sparse": (Cone.from_points(sparse), sparse),
        "twins": (Cone.from_points(twins), twins),
        "merged": (Cone.from_points(dense[:half]).merge(Cone.from_points(dense[half:])), dense),
        "merged sparse": (
            Cone.from_points(sparse[:30]).merge(Cone.from_points(sparse[30:])),
            sparse,
        ),
        "combination": (Cone.from_samples([tall[:25], tall[25:]]), tall.T),
        "single": (Cone.from_points([[1.0, 2], [2, 4]]), np.array([[1.0, 2], [2, 4]])),
        "epsilon": (Cone.approximate(dense, 0.1), dense),
        "epsilon by mass": (Cone.approximate(sparse, 0.3, weighting="mass"), sparse),
        "quick": (quick(dense), dense),
        "quick sparse": (quick(sparse), sparse),
        "quick twins": (quick(twins), twins),
        "sparse vectors": by_sparse_vectors(seed + 3),
    }


def parts(cone):
    """Every array, sparse array and number that a certificate holds, as (path, value)."""
    found = [("rays held", cone._rays)] if cone.holds_rays else []
    for field in dataclasses.fields(cone.certificate):
        value = getattr(cone.certificate, field.name)
        if field.name != "witnesses":
            found.append((field.name, value))
            continue
        for k, family in enumerate(value):
            found += [
                (f"witnesses.{k}.{part.name}", getattr(family, part.name))
                for part in dataclasses.fields(family)
            ]
    return found


def with_part(cone, path, value):
    """The cone with one part exchanged."""
    if path == "rays held":
        return Cone(value, cone.certificate)
    c = cone.certificate
    if path.startswith("witnesses."):
        _, k, name = path.split(".")
        families = list(c.witnesses)
        families[int(k)] = dataclasses.replace(families[int(k)], **{name: value})
        return Cone(cone._rays, dataclasses.replace(c, witnesses=tuple(families)))
    return Cone(cone._rays, dataclasses.replace(c, **{path: value}))


def spoil(rng, value):
    """A random change of a number, a text, an array or a sparse array."""
    if sp.issparse(value):
        return _spoil_sparse(rng, value)
    if isinstance(value, np.ndarray):
        return _spoil_array(rng, value)
    if isinstance(value, str):
        return rng.choice(["unit", "mass", "", "Mass"]).item()
    if isinstance(value, (int, np.integer)):
        return int(rng.choice([value + 1, value - 1, 0, -value, 2 * value]))
    return float(
        rng.choice(
            [value * 10, value / 10, 0.0, -value, np.nan, np.inf, 1.0, 0.97, value * (1 + 1e-3)]
        )
    )


def _spoil_array(rng, array):
    changed = array.copy()
    kind = rng.integers(9)
    if kind == 0:
        return np.ma.masked_array(changed, mask=rng.random(changed.shape) < 0.7)
    if kind == 1:
        return changed[:-1] if len(changed) else changed
    if kind == 2:
        return changed[::-1].copy()
    if kind == 3:
        return changed.astype(np.float64 if changed.dtype.kind in "iub" else np.int64)
    if not changed.size:
        return np.zeros(changed.shape, complex)
    at = tuple(rng.integers(size) for size in changed.shape)
    if changed.dtype.kind == "b":
        changed[at] = not changed[at]
    elif changed.dtype.kind in "iu":
        changed[at] = rng.choice(
            [changed[at] + 1, changed[at] - 1, -1, 0, len(changed), rng.integers(len(changed) + 3)]
        )
    else:
        with np.errstate(over="ignore"):  # in float32 the largest is infinite
            changed[at] = rng.choice(
                [
                    -changed[at],
                    0.0,
                    np.nan,
                    np.inf,
                    1e300,
                    changed[at] * (1 + 1e-4),
                    changed[at] + rng.normal(),
                ]
            )
    return changed


def _spoil_sparse(rng, M):
    changed = M.copy()
    part = ["data", "indices", "indptr"][rng.integers(3)]
    if rng.integers(8) == 0:
        return [changed.tocsc(), changed.toarray(), changed[:-1], changed * 2.0, changed * 1j][
            rng.integers(5)
        ]
    setattr(changed, part, _spoil_array(rng, getattr(changed, part)))
    changed.has_canonical_format = True  # a flag that says what is not so
    return changed


def is_true(verdict, cone, P):
    """Whether what a verdict says holds by SciPy's NNLS, one point at a time: nothing of the
    checker is used."""
    P = P.toarray() if sp.issparse(P) else np.asarray(P)
    lengths = np.linalg.norm(P, axis=1)
    U = unit(P[lengths > 0])
    if any(i >= len(P) or lengths[i] == 0 for i in cone.ray_indices):
        return False
    R = unit(P[cone.ray_indices])
    share = lengths[lengths > 0] / lengths.max() if verdict.weighting == "mass" else np.ones(len(U))
    slack = 1e-12
    worst = max(weight * nnls(R.T, u)[1] for weight, u in zip(share, U, strict=True))
    if worst > verdict.largest_residual + slack:
        return False
    if isinstance(cone.certificate, ApproximateCertificate) or len(R) == 1:
        return True
    # without ray k some point is further from the others than tol: the point that its witness is
    # about
    for k, (i, j) in enumerate(zip(cone.ray_indices, cone.certificate.separated, strict=True)):
        if cone.certificate.open[k]:
            continue
        needed = verdict.tol if i != j else verdict.smallest_distance
        if lengths[j] == 0 or nnls(np.delete(R, k, axis=0).T, unit(P[[j]])[0])[1] < needed - slack:
            return False
    return verdict.smallest_distance is None or verdict.smallest_distance > 0.98 * verdict.tol
