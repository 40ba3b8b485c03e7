"""Would the paper's CC-NMF as printed do better with more steps than the 100 of the scoreboard?
``python -m benchmarks.paper.printed_longer``

Prints the mean purity after 100 and after 2000 steps, on sets where no run of the scoreboard had
converged. Needs data: docs/datasets.md.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

from benchmarks.paper.methods import TOL
from conecollapse import CCNMF
from conecollapse.datasets import load
from conecollapse.metrics import purity_score


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", default=["ORL", "UMIST"])
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in options.names:
        data = load(name, download=False)
        X = data.X.astype(np.float32) if data.domain == "image" else data.X
        for steps, tol in ((100, TOL), (2000, TOL / 100)):
            models = [
                CCNMF.paper(data.n_classes, random_state=seed)
                .set_params(max_iter=steps, tol=tol)
                .fit(X)
                for seed in range(options.seeds)
            ]
            purities = [purity_score(data.y, model.labels_) for model in models]
            settled = sum(model.converged_ for model in models)
            taken = ", ".join(str(model.n_iter_) for model in models)
            print(
                f"{name}: at most {steps} steps: purity {np.mean(purities):.3f}; {settled} of"
                f" {len(models)} converged, after {taken} steps",
                flush=True,
            )


if __name__ == "__main__":
    main()
