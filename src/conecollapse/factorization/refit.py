r"""Encodings of samples over a catalogue of components, of which each sample uses few.

For a sample x and components H

.. math:: \min_{w \ge 0}\ \frac{1}{2} \|x - w H\|^2 + \lambda \mu \sum_k \|h_k\| w_k , \qquad
          \mu = \max_k \frac{x \cdot h_k}{\|h_k\|} ,

with at most so many positive entries. With :math:`\lambda = 1` the best w is zero, since no component gains more than it costs, so
that :math:`0 \le \lambda < 1` means the same for samples and components of any scale. The price only changes the right-hand side of the
normal equations, :math:`c_k = x \cdot h_k - \lambda \mu \|h_k\|`. Few entries are chosen by `conecollapse._nnls.stepwise`.
"""

from __future__ import annotations

import numpy as np

from conecollapse._nnls.stepwise import stepwise
from conecollapse._types import AnyArray, FloatArray
from conecollapse.factorization.anls import solve_rows
from conecollapse.tables import Table

SELECTIONS = ("forward", "backward")


def refit(X: Table, H: FloatArray, *, l1: float, most: int | None, selection: str, least_gain: float) -> AnyArray:
    """The encodings of the rows of ``X``; ``least_gain`` is a share of the squared length of a row, ``most`` None for no limit."""
    equations = X.row_equations(H)
    G, C = np.asarray(equations.G, np.float64), np.asarray(equations.C, np.float64)
    if l1:
        lengths = np.sqrt(np.diag(G))
        C = C - l1 * np.max(C / np.where(lengths > 0, lengths, np.inf), axis=1, keepdims=True) * lengths
    if most is None and not least_gain:
        return solve_rows(G, C)
    gain = least_gain * np.square(X.row_lengths)
    return stepwise(G, C, most=len(H) if most is None else most, gain=gain, backward=selection == "backward", rank=min(H.shape))
