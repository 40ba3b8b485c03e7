"""Point sets with known cones, and the slow oracle: one SciPy NNLS for each point over all
others."""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

from conecollapse import Cone
from conecollapse._linalg import unit_rows
from conecollapse.geometry.certified import Decisions, group
from conecollapse.geometry.certified.settle import settle
from conecollapse.geometry.certified.supports import decide_by_supports


def unit(P):
    P = np.asarray(P, float)
    return P / np.linalg.norm(P, axis=1, keepdims=True)


def brute_force(P, tol=1e-8):
    """Indices of the extreme rays by definition: distance of each point from the cone of all others
    above tol."""
    U = unit(P)
    return np.array([i for i in range(len(U)) if nnls(np.delete(U, i, axis=0).T, U[i])[1] > tol])


def planted(rng, dim, n_rays, n_inside, *, spread=1.0, terms=None):
    """Random rays followed by random combinations of ``terms`` of them, shuffled; the rays may
    exceed the dimension."""
    rays = rng.gamma(spread, size=(n_rays, dim)) + 1e-3
    inside = np.zeros((n_inside, n_rays))
    for row in inside:
        count = terms or int(rng.integers(min(2, n_rays), n_rays + 1))
        chosen = rng.choice(n_rays, size=min(count, n_rays), replace=False)
        row[chosen] = rng.random(len(chosen)) + 0.05
    P = np.vstack([rays, inside @ rays])
    return P[rng.permutation(len(P))]


def cone_by_supports(P, tol=1e-8):
    """The cone of sparse points by the method for supports, however full they are."""
    U, lengths = unit_rows(P)
    leader, apart = group(U, lengths, tol)
    leaders = np.flatnonzero(leader == np.arange(len(leader)))
    V = U[leaders]
    found = decide_by_supports(V, tol, Decisions.nothing(len(leaders)), most_dense=0)
    proof = settle(V, tol, found)
    return Cone(V[proof.rays], proof.certificate(V, leaders, leader, apart, tol))
