r"""What the greedy cone recovers from noisy mixtures that contain nearly pure points: the bound of
the theorem in ``docs/theory.md``.

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
