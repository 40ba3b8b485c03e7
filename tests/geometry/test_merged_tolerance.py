"""What a merged cone states as its tolerance holds for every point behind it, also where the errors
of the two cones add up."""

from __future__ import annotations

import numpy as np
import pytest
from cones import unit
from scipy.optimize import nnls

from conecollapse import Cone

TOL = 1e-6
STEP = 0.95 * TOL / 2  # half of the distance of two points that still form one group


def stacked(height):
    """A unit point above the edge between the first two axes; steps in height are distances between
    such points."""
    return np.array([np.sqrt(0.5), np.sqrt(0.5), 1e-4 + height])


def furthest(cone, P):
    """The largest distance of a unit point from the cone of the rays."""
    rays = unit(P[cone.ray_indices])
    return max(nnls(rays.T, u)[1] for u in unit(P))


def stated(cone):
    return cone.tol


def parts():
    """The leader of the second cone's group joins a point of the first on the other side of the
    face, and its member lies further out.

    The point and the leader are a step above and a step below the face between ``edge``; the member
    is three steps below it, so four from the point that now leads its group: more than either
    tolerance, and more than expressing the old rays by the new ones costs.
    """
    edge = np.array([[1.0, 0.0, 1e-4 * np.sqrt(0.5)], [0.0, 1.0, 1e-4 * np.sqrt(0.5)]])
    return np.vstack([edge[0], stacked(STEP)]), np.vstack(
        [edge[1], stacked(-STEP), stacked(-3 * STEP)]
    )


@pytest.mark.parametrize("is_swapped", [False, True])
def test_a_group_that_joins_the_group_of_another_cone_stays_within_the_stated_tolerance(is_swapped):
    A, B = parts()[::-1] if is_swapped else parts()
    first, second = Cone.from_points(A, TOL), Cone.from_points(B, TOL)
    assert first.n_rays == second.n_rays == 2
    merged = first.merge(second)
    assert merged.n_rays == 2
    P = np.vstack([A, B])
    merged.verify(P)
    assert TOL < furthest(merged, P) <= stated(merged)


def test_a_chain_of_merges_states_what_its_points_need():
    """Each block repeats three rays, a little further along the face: what was left of a block is
    expressed again by the next."""
    rng = np.random.default_rng(0)
    blocks = [np.abs(np.eye(3) + 0.45 * k * TOL * rng.random((3, 3))) for k in range(6)]
    cone = Cone.from_points(blocks[0], TOL)
    for block in blocks[1:]:
        cone = cone.merge(Cone.from_points(block, TOL))
    P = np.vstack(blocks)
    cone.verify(P)
    assert furthest(cone, P) <= stated(cone)
