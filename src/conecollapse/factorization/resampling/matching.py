"""Components of one factorization beside those of another: which is which, and how alike they
are."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from conecollapse._linalg import unit_rows
from conecollapse._types import AnyArray, FloatArray, IntArray


def matched(H: AnyArray, reference: AnyArray) -> tuple[IntArray, FloatArray]:
    """For each row of ``reference`` its row of ``H``, one to one, so that the sum of the cosines is
    largest; and the cosines.

    Examples
    --------
    >>> import numpy as np
    >>> order, cosines = matched(
    ...     np.array([[0.0, 2.0], [1.0, 0.0]]), np.array([[3.0, 0.0], [0.0, 1.0]])
    ... )
    >>> order.tolist(), cosines.tolist()
    ([1, 0], [1.0, 1.0])
    """
    cosines = np.asarray(
        unit_rows(np.asarray(reference, np.float64))[0] @ unit_rows(np.asarray(H, np.float64))[0].T
    )
    rows, order = linear_sum_assignment(cosines, maximize=True)
    return order, cosines[rows, order]
