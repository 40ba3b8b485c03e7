"""`conecollapse.nnls` at any condition, against SciPy and exact arithmetic.

    python benchmarks/nnls_condition.py [problems in each family, 143 by default]

Residual norms are computed in whole numbers, without rounding, for our x and for SciPy's; so is the
smallest possible one. An answer is *wrong* when it is called converged and its residual norm is
more than 1.01 times the better of SciPy's and the smallest possible one, plus 1e-12 |b|. The same
is counted for answers without ``full_output``, which may be found in another way. *Beyond rounding*
counts answers that are not called converged although the rounding of the optimal x does not explain
their distance from the optimum.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
from common import machine
from scipy.optimize import nnls as scipy_nnls

from conecollapse import nnls

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from hard_nnls import families, judge

MUST, ZERO = 1.01, 1e-12
COUNTS = (
    "wrong",
    "wrong without full_output",
    "not converged",
    "beyond rounding",
    "bound too high",
    "ours > 1.01 SciPy's",
    "SciPy's > 1.01 ours",
)


def condition(A: np.ndarray) -> float:
    """That of A with unit columns, zero columns left out."""
    lengths = np.linalg.norm(A, axis=0)
    return float(np.linalg.cond(A[:, lengths > 0] / lengths[lengths > 0]))


def plain(A: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, bool]:
    """The solution as most callers ask for it, and whether it comes without a warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        x, _ = nnls(A, b)
    return x, not caught


def examine(A: np.ndarray, b: np.ndarray) -> list[bool]:
    x, _, info = nnls(A, b, full_output=True)
    quick, is_quiet = plain(A, b)
    try:
        theirs = scipy_nnls(A, b, maxiter=100 * A.shape[1])[0]
    except RuntimeError:
        theirs = None
    ours, scipys, optimum, rounding = judge(A, b, x, theirs)
    zero, converged = ZERO * np.linalg.norm(b), bool(info.converged[0])
    return [
        converged and ours > MUST * min(scipys, optimum) + zero,
        is_quiet and judge(A, b, quick, theirs)[0] > MUST * min(scipys, optimum) + zero,
        not converged,
        not converged and ours > optimum + rounding,
        info.least[0] > optimum * (1 + 1e-12),
        ours > MUST * scipys + zero,
        scipys > MUST * ours + zero,
    ]


def main() -> None:
    print(machine())
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 143
    total = np.zeros(len(COUNTS), int)
    for seed, (name, make) in enumerate(families().items()):
        rng = np.random.default_rng([seed, 11])
        problems = [make(rng) for _ in range(count)]
        sums = np.sum([examine(A, b) for A, b in problems], axis=0)
        total += sums
        conditions = [condition(A) for A, _ in problems]
        what = " | ".join(f"{label} {value}" for label, value in zip(COUNTS, sums, strict=True))
        print(
            f"{name:34s} condition {np.median(conditions):.0e}, at most {max(conditions):.0e} |"
            f" {what}",
            flush=True,
        )
    print(
        f"all {count * len(families())} problems: "
        + " | ".join(f"{label} {value}" for label, value in zip(COUNTS, total, strict=True))
    )


if __name__ == "__main__":
    main()
