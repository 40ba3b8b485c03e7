"""What starting costs: import time beside scikit-learn's, and the first call of each kernel with
and without a cache.

python benchmarks/bench_import.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile

from common import best_of, machine, without_kernels

FIRST_CALLS = {
    "nnls": "import numpy as np; from conecollapse import nnls; nnls(np.eye(3), np.ones(3))",
    "dense cone": (
        "import numpy as np; from conecollapse import Cone;"
        " Cone.from_points(np.random.default_rng(0).random((300, 8)))"
    ),
    "sparse cone": (
        "import numpy as np, scipy.sparse as sp; from conecollapse import Cone; "
        "Cone.from_points(sp.random_array((300, 200), density=0.02, rng=np.random.default_rng(0)))"
    ),
}


def seconds(code: str, repeats: int, environment: dict[str, str] | None = None) -> float:
    def work() -> None:
        subprocess.run([sys.executable, "-c", code], check=True, env=environment)

    return best_of(work, repeats)


def main() -> None:
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        installed = without_kernels(folder)
        nothing = seconds("pass", 5)
        print(
            "import sklearn.decomposition"
            f" {seconds('import sklearn.decomposition', 5) - nothing:.2f} s"
        )
        print(
            "import conecollapse         "
            f" {seconds('import conecollapse', 5, installed) - nothing:.2f} s"
        )
        print(
            "with an estimator           "
            f" {seconds('from conecollapse import CCNMF', 5, installed) - nothing:.2f} s"
        )
    for name, code in FIRST_CALLS.items():
        with tempfile.TemporaryDirectory() as folder:
            environment = without_kernels(folder)
            cold = seconds(code, 1, environment)
            warm = seconds(code, 3, environment)
        print(
            f"{name}: process with the first call ever {cold:.1f} s, with kernels in the cache"
            f" {warm:.1f} s"
        )


if __name__ == "__main__":
    main()
