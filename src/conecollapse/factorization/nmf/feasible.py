r"""All factorizations of rank two or three that fit equally well.

A fit :math:`F = W H` of rank r is also :math:`(W T^{-1}) (T H)` for every invertible T with
:math:`T H \ge 0` and :math:`W T^{-1} \ge 0`. In words: the rows of T span a cone that holds all
rows of W (the data), and lies in the cone :math:`\{t : t H \ge 0\}` (what is non-negative). With
components that sum to one, the rows t of T are points of the plane :math:`t \cdot (H 1) = 1`, of
one dimension less.

*Rank 2* (Lawton & Sylvestre 1971). On a line, the data are an interval inside the interval of what
is non-negative. One component lies in the gap at either side, and anything in the gap will do: the
ranges have closed forms.

*Rank 3* (Borgen & Kowalski 1985). In the plane, the data are a polygon Q inside a polygon P, and
the components are the corners of a triangle between the two. A point p is a corner of such a
triangle if and only if this one closes: from p along the line that touches Q, with Q to the left,
to the border of P; from there along the next line that touches Q, again to the border; and from
there Q must lie to the left of the way back to p. (Whatever lies on the border before the point
reached is reached by less of a turn; see Aggarwal et al. 1985.) If p is possible, then so is every
point of P behind it as seen from inside Q: for such a p' the triangle with the same other two
corners holds p. So in each direction from the middle of Q the possible points are an interval that
ends at the border of P, and its other end is found by bisection. The ends of the sets of directions
are found by bisection, too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial import ConvexHull

from conecollapse._types import AnyArray, BoolArray, FloatArray

# in which the ranges of rank 3 are looked up, beside those of the corners and of the components
DIRECTIONS = 720
STEPS = 50  # of bisection
LEFT = 1e-9  # a cross product of vectors in the unit of P down to minus this counts as zero
# where the plane is cut off before P is: a component this far from the others cannot be told from
# infinity
FAR = 1e7


class Ranges(NamedTuple):
    """Components that fit equally well."""

    # (r, n_features): the smallest value of each entry, of components with the sums of those given
    low: FloatArray
    high: FloatArray  # (r, n_features): the largest
    # for each component the outline of its range, in coordinates of the plane
    regions: list[FloatArray]
    outer: FloatArray  # the corners of P: what is non-negative
    inner: FloatArray  # the corners of Q: the data
    points: FloatArray  # (r, r - 1): the components given


def ranges(W: FloatArray, H: FloatArray) -> Ranges:
    """The ranges of the components of ``W H``, where H has two or three rows of full rank and W has
    full rank, too."""
    sums = H.sum(axis=1)
    unit, data = H / sums[:, None], W * sums
    data = data[data.any(axis=1)]
    # barycentric coordinates: the components given are the unit vectors
    data = data / data.sum(axis=1, keepdims=True)
    find = _rank_two if len(H) == 2 else _rank_three
    outlines, outer, inner = find(data, unit)
    lifted = [_barycentric(outline) @ unit for outline in outlines]
    low = np.array([np.maximum(part.min(axis=0), 0.0) for part in lifted]) * sums[:, None]
    high = np.array([part.max(axis=0) for part in lifted]) * sums[:, None]
    return Ranges(
        np.minimum(low, H), np.maximum(high, H), outlines, outer, inner, np.eye(len(H))[:, :-1]
    )


def _barycentric(points: FloatArray) -> FloatArray:
    return np.column_stack([points, 1 - points.sum(axis=1)])


def _rank_two(
    data: FloatArray, unit: FloatArray
) -> tuple[list[FloatArray], FloatArray, FloatArray]:
    """On the line x e_1 + (1 - x) e_2: x h_1 + (1 - x) h_2 >= 0 bounds x, and the data lie between
    0 and 1."""
    slope, start = unit[0] - unit[1], unit[1]
    with np.errstate(divide="ignore"):
        ends = -start / np.where(slope == 0, np.nan, slope)
    lowest = float(np.nanmax(np.where(slope > 0, ends, -np.inf)))
    highest = float(np.nanmin(np.where(slope < 0, ends, np.inf)))
    first, last = float(data[:, 0].min()), float(data[:, 0].max())
    outlines = [np.array([[last], [highest]]), np.array([[lowest], [first]])]
    return outlines, np.array([[lowest], [highest]]), np.array([[first], [last]])


def _rank_three(
    data: FloatArray, unit: FloatArray
) -> tuple[list[FloatArray], FloatArray, FloatArray]:
    outer, inner = _polygon(unit), data[ConvexHull(data[:, :2]).vertices, :2]
    centre = inner.mean(axis=0)
    middle = _Middle(outer, inner, centre)
    points = np.eye(3)[:, :2]
    angles = _directions(middle, points)
    end = middle.border(np.broadcast_to(centre, (len(angles), 2)), _along(angles))
    possible = middle.is_corner(end)
    own = np.searchsorted(angles, _angle(points - centre))
    possible[own] = True  # the components given are corners, whatever rounding says
    outlines = [_outline(middle, angles, possible, int(k)) for k in own]
    return outlines, outer, inner


class _Middle:
    """Between two polygons, both anticlockwise."""

    def __init__(self, outer: FloatArray, inner: FloatArray, centre: FloatArray) -> None:
        edges = np.roll(outer, -1, axis=0) - outer
        self.outer, self.inner, self.centre = outer, inner, centre
        # inwards
        self.normals = np.column_stack([-edges[:, 1], edges[:, 0]]) / np.linalg.norm(
            edges, axis=1, keepdims=True
        )
        self.offsets = np.einsum("ij,ij->i", self.normals, outer)
        self.size = float(np.abs(outer - centre).max())

    def border(self, start: FloatArray, way: FloatArray, least: float = 0.0) -> FloatArray:
        """Where the way from each start, inside, meets the border of P, after ``least`` lengths of
        the way or more."""
        slack = np.maximum(start @ self.normals.T - self.offsets, 0.0)
        speed = -(way @ self.normals.T)
        is_met = speed > 1e-14 * np.linalg.norm(way, axis=1, keepdims=True)
        steps = np.where(is_met, slack / np.where(is_met, speed, 1.0), np.inf).min(axis=1)
        return np.asarray(
            start + np.maximum(np.where(np.isfinite(steps), steps, 0.0), least)[:, None] * way
        )

    def touching(self, points: FloatArray) -> FloatArray:
        """From each point the way to the corner at which it touches Q, with Q to the left."""
        ways = self.inner[None] - points[:, None]
        ahead = self.centre - points
        turn = ahead[:, None, 0] * ways[..., 1] - ahead[:, None, 1] * ways[..., 0]
        along = np.einsum("ij,ikj->ik", ahead, ways)
        lengths = np.linalg.norm(ways, axis=2)
        angles = np.where(lengths > 1e-13 * self.size, np.arctan2(turn, along), np.inf)
        return np.asarray(ways[np.arange(len(points)), angles.argmin(axis=1)])

    def others(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The other two corners of the triangle that goes as far as possible from each point; they
        lie behind corners of Q."""
        second = self.border(points, self.touching(points), 1.0)
        return second, self.border(second, self.touching(second), 1.0)

    def is_corner(self, points: FloatArray) -> BoolArray:
        """Whether each point of P is a corner of a triangle between Q and P."""
        third = self.others(points)[1]
        back, seen = points - third, self.inner[None] - third[:, None]
        cross = back[:, None, 0] * seen[..., 1] - back[:, None, 1] * seen[..., 0]
        return np.asarray(cross.min(axis=1) >= -LEFT * self.size**2)


def _along(angles: FloatArray) -> FloatArray:
    return np.column_stack([np.cos(angles), np.sin(angles)])


def _angle(ways: FloatArray) -> FloatArray:
    return np.asarray(np.arctan2(ways[:, 1], ways[:, 0]))


def _directions(middle: _Middle, points: FloatArray) -> FloatArray:
    """Angles that are looked at, increasing: evenly spread, and those of corners and components."""
    even = np.linspace(-np.pi, np.pi, DIRECTIONS, endpoint=False)
    corners = [_angle(part - middle.centre) for part in (middle.outer, middle.inner, points)]
    return np.unique(np.concatenate([even, *corners]))


def _outline(middle: _Middle, angles: FloatArray, possible: BoolArray, own: int) -> FloatArray:
    """The border of the range that holds direction number ``own``: out along P, and back along its
    inner side."""
    n = len(angles)
    if possible.all():
        turns = np.append(angles, angles[0] + 2 * np.pi)
    else:
        up, down = own, own
        while possible[(up + 1) % n]:
            up += 1
        while possible[(down - 1) % n]:
            down -= 1
        turns = np.array([angles[k % n] + 2 * np.pi * (k // n) for k in range(down - 1, up + 2)])
        turns[0] = _end(middle, turns[1], turns[0])
        turns[-1] = _end(middle, turns[-2], turns[-1])
    ways = _along(turns)
    far = middle.border(np.broadcast_to(middle.centre, ways.shape), ways)
    return np.concatenate([far, _nearest(middle, far)[::-1]])


def _end(middle: _Middle, good: float, bad: float) -> float:
    """The last possible direction between one that is and one that is not."""
    for _ in range(STEPS):
        half = (good + bad) / 2
        way = _along(np.array([half]))
        if middle.is_corner(middle.border(middle.centre[None], way))[0]:
            good = half
        else:
            bad = half
    return good


def _nearest(middle: _Middle, far: FloatArray) -> FloatArray:
    """The possible points nearest to the centre on the way to each point of the border, all of
    which are possible."""
    good, bad = np.ones(len(far)), np.zeros(len(far))
    for _ in range(STEPS):
        half = (good + bad) / 2
        at = middle.centre + half[:, None] * (far - middle.centre)
        fine = middle.is_corner(at) & ~_inside(middle.inner, at, middle.size)
        good, bad = np.where(fine, half, good), np.where(fine, bad, half)
    return np.asarray(middle.centre + good[:, None] * (far - middle.centre))


def _inside(polygon: FloatArray, points: FloatArray, size: float) -> BoolArray:
    """Which points lie well inside a polygon, where no line through them touches it."""
    edges = np.roll(polygon, -1, axis=0) - polygon
    seen = points[:, None] - polygon[None]
    return np.asarray(
        (edges[:, 0] * seen[..., 1] - edges[:, 1] * seen[..., 0] > LEFT * size**2).all(axis=1)
    )


def _polygon(unit: FloatArray) -> FloatArray:
    """The corners of {(x, y) : x h_1 + y h_2 + (1 - x - y) h_3 >= 0}, anticlockwise."""
    corners = FAR * np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
    for normal, offset in zip((unit[:2] - unit[2]).T, unit[2], strict=True):
        height = corners @ normal + offset
        after, next_height = np.roll(corners, -1, axis=0), np.roll(height, -1)
        kept: list[AnyArray] = []
        for k in range(len(corners)):
            if height[k] >= 0:
                kept.append(corners[k])
            if (height[k] > 0 > next_height[k]) or (height[k] < 0 < next_height[k]):
                kept.append(
                    corners[k] + height[k] / (height[k] - next_height[k]) * (after[k] - corners[k])
                )
        corners = np.array(kept)
    apart = (
        np.linalg.norm(np.roll(corners, -1, axis=0) - corners, axis=1)
        > 1e-12 * np.abs(corners).max()
    )
    return corners[apart]
