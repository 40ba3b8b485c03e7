r"""Encodings of samples over a catalogue of components, of which each sample uses few.

For a sample x and components H

.. math:: \min_{w \ge 0}\ \frac{1}{2} \|x - w H\|^2 + \lambda \mu \sum_k \|h_k\| w_k , \qquad
          \mu = \max_k \frac{x \cdot h_k}{\|h_k\|} ,

with at most so many positive entries. With :math:`\lambda = 1` the best w is zero, since no
component gains more than it costs, so that :math:`0 \le \lambda < 1` means the same for samples and
components of any scale. The price only changes the right-hand side of the normal equations,
:math:`c_k = x \cdot h_k - \lambda \mu \|h_k\|`. Few entries are chosen by
`conecollapse._nnls.stepwise`.

Samples and components are brought to lengths near one first, by powers of two, so that no square
leaves the range of floating point.
"""

from __future__ import annotations

import numpy as np

from conecollapse._linalg import row_lengths
from conecollapse._types import AnyArray, FloatArray
from conecollapse.factorization.nmf.anls import solve_rows
from conecollapse.factorization.nmf.stepwise import stepwise
from conecollapse.tables import Table

SELECTIONS = ("forward", "backward")


def refit(
    X: Table, H: FloatArray, *, l1: float, most: int | None, selection: str, least_gain: float
) -> AnyArray:
    """The encodings of the rows of ``X``; ``least_gain`` is a share of the squared length of a row,
    ``most`` None for no limit."""
    powers = np.frexp(row_lengths(H))[1]
    H = np.ldexp(np.asarray(H, np.float64), -powers[:, None])
    lengths_X = X.row_lengths
    shifts = np.frexp(lengths_X)[1]
    equations = X.row_equations(H)
    G, C = (
        np.asarray(equations.G, np.float64),
        np.ldexp(np.asarray(equations.C, np.float64), -shifts[:, None]),
    )
    codes = _few(G, C, np.ldexp(lengths_X, -shifts), l1, most, selection, least_gain, min(H.shape))
    return np.ldexp(codes, shifts[:, None] - powers)


def _few(
    G: FloatArray,
    C: FloatArray,
    lengths_X: FloatArray,
    l1: float,
    most: int | None,
    selection: str,
    least_gain: float,
    rank: int,
) -> FloatArray:
    if l1:
        lengths = np.sqrt(np.diag(G))
        C = (
            C
            - l1
            * np.max(C / np.where(lengths > 0, lengths, np.inf), axis=1, keepdims=True)
            * lengths
        )
    if most is None and not least_gain:
        return solve_rows(G, C)
    gain = least_gain * np.square(lengths_X)
    return stepwise(
        G,
        C,
        most=len(G) if most is None else most,
        gain=gain,
        backward=selection == "backward",
        rank=rank,
    )
