r"""What the greedy cone recovers from noisy mixtures that contain nearly pure points: the bound of
a theorem.

Points scaled to sum one, :math:`q_i = \sum_k a_{ik} t_k + n_i` with weights :math:`a_{ik} \ge 0`
that sum to one and :math:`\|n_i\| \le \varepsilon`, and for each k a point within
:math:`\varepsilon` of :math:`t_k`. Let :math:`\sigma` be the smallest singular value of the matrix
with rows :math:`t_k` (how clear each is of the others), :math:`\rho` the largest :math:`\|t_k\|`
and d the largest distance of two of them. If

.. math::

    \delta \ge \varepsilon + d\, \frac{1 - \sqrt{1 - 4 \eta}}{2}, \qquad
    \eta = \frac{4 \rho\, \varepsilon}{\sigma^2 - (r + 1) \delta^2} \in \Big[ 0, \frac{1}{4} \Big],

then the r points that `conecollapse.geometry.epsilon.greedy_rays` chooses lie within :math:`\delta`
of :math:`t_1, \dots, t_r`, each near another one.

*Proof*, by induction on the points chosen. Let :math:`K` be the cone of those chosen so far (the
origin at first), each within :math:`\delta` of its own :math:`t_j`, :math:`j \in F`, and let
:math:`f` be the distance from :math:`K`. It is convex and changes by at most as much as its
argument moves. Put :math:`r_k = t_k - P_K t_k`, so that :math:`f(t_k) = \lVert r_k \rVert`, and let
:math:`D = \max_k \lVert r_k \rVert \le \rho`.

1. The nearly pure point of the furthest :math:`t_k` has :math:`f \ge D - \varepsilon`. So the
   chosen point :math:`q + n` has :math:`f(q) \ge D - 2\varepsilon`. With the weights :math:`a_k` of
   :math:`q`, :math:`\sum_k a_k P_K t_k` is in :math:`K`, hence :math:`f(q) \le \lVert \sum_k a_k
   r_k \rVert`.
2. Since the weights sum to one, :math:`\lVert \sum_k a_k r_k \rVert^2 = \sum_k a_k \lVert r_k
   \rVert^2 - \frac{1}{2} \sum_{k,l} a_k a_l \lVert r_k - r_l \rVert^2`. For :math:`j \in F`,
   :math:`\lVert r_j \rVert \le \delta`; the others are at most :math:`D`. Let :math:`s` be the sum
   of the weights outside :math:`F`, and :math:`m` the largest of them.
3. For :math:`k, l \notin F`, :math:`r_k - r_l` is :math:`t_k - t_l` minus a combination
   :math:`\sum_j b_j (t_j + e_j)` of chosen points, :math:`\lVert e_j \rVert \le \delta`. Its length
   is at least :math:`\sigma \sqrt{2 + \lVert b \rVert^2} - \sqrt r\, \delta \lVert b \rVert \ge
   \sqrt 2\, \sqrt{\sigma^2 - r \delta^2}`. In the same way :math:`D^2 \ge \sigma^2 - r \delta^2`.
   Put :math:`S = \sigma^2 - (r + 1) \delta^2`.
4. Together: :math:`(D - 2\varepsilon)^2 \le D^2 - (1 - s)(D^2 - \delta^2) - (\sigma^2 - r \delta^2)
   \sum_{k \ne l \notin F} a_k a_l`. The last sum is at least :math:`s (s - m)`. Both brackets are
   at least :math:`S`, so :math:`s (1 - m) \le (1 - s) + s (s - m) \le 4 \varepsilon D / S \le
   \eta`.
5. If :math:`m \le \frac{1}{2}`, then :math:`s (1 - m) \ge \frac{1}{2} (1 - \eta) > \eta` because
   :math:`1 - s \le \eta \le \frac{1}{4}`: a contradiction. So :math:`m > \frac{1}{2}`, and :math:`m
   (1 - m) \le s (1 - m) \le \eta` gives :math:`1 - m \le \frac{1}{2} (1 - \sqrt{1 - 4\eta})`. The
   chosen point is within :math:`\varepsilon + (1 - m)\, d \le \delta` of the :math:`t_k` with
   weight :math:`m`, which is not in :math:`F`.

Two orthogonal pure points and a mixture that noise pushes outward reach a third of the bound, so no
better constant than a third is possible for all data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conecollapse._types import FloatArray

ROUNDS = 100  # of the iteration for the smallest delta


@dataclass(frozen=True)
class Guarantee:
    """How near chosen points are to the pure ones, if the data are mixtures of pure points with
    noise of at most ``noise``.

    Lengths are those of points scaled to sum one. ``bound`` is infinite where the theorem says
    nothing, and ``sentence`` says why.
    """

    noise: float  # the largest distance of a point from the cone of the chosen ones
    clearance: float  # the smallest singular value of the chosen points
    bound: float
    sentence: str


def recovery_bound(T: FloatArray, noise: float) -> float:
    """The smallest delta of the theorem for pure points ``T`` (rows that sum to one) and this
    noise; infinite where there is none.

    >>> import numpy as np
    >>> from conecollapse.geometry.separable_bound import recovery_bound
    >>> round(recovery_bound(np.eye(3), 0.001), 4)
    0.0067
    >>> recovery_bound(np.eye(3), 0.1)
    inf
    """
    r = len(T)
    if noise == 0:
        return 0.0
    sigma = float(np.linalg.svd(T, compute_uv=False)[-1]) if r <= T.shape[1] else 0.0
    rho = float(np.linalg.norm(T, axis=1).max())
    diameter = float(np.sqrt(np.square(T[:, None] - T).sum(axis=2).max()))
    delta = noise
    for _ in range(ROUNDS):  # increasing, so that it tends to the smallest solution if there is one
        s = sigma**2 - (r + 1) * delta**2
        if 16 * rho * noise > s:
            return float("inf")
        new = noise + diameter * (1 - np.sqrt(1 - 16 * rho * noise / s)) / 2
        if new <= delta * (1 + 1e-12):
            break
        delta = new
    return float(new)


def guarantee(T: FloatArray, noise: float, *, applies: bool) -> Guarantee:
    """The theorem's answer for chosen points ``T`` that sum to one, as if they were the pure ones;
    empty unless it ``applies``."""
    clearance = float(np.linalg.svd(T, compute_uv=False)[-1]) if len(T) <= T.shape[1] else 0.0
    if not applies:
        return Guarantee(
            noise, clearance, float("inf"), "no bound: it is for method='cone' with scaling='sum'."
        )
    bound = recovery_bound(T, noise)
    if np.isfinite(bound):
        said = (
            f"if the noise is at most {noise:.3g}, each component is within {bound:.3g} of a pure"
            " one (points scaled to sum one)."
        )
    else:
        said = (
            f"no bound: noise of {noise:.3g} is too large for components whose smallest singular"
            f" value is {clearance:.3g}."
        )
    return Guarantee(noise, clearance, bound, said)
