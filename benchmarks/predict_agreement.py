"""How often `predict` of the training samples differs from `labels_`, method by method, in percent
of the samples.

``python benchmarks/predict_agreement.py [DATASET ...]``; by default those of the paper's small sets
that are on this machine.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np

from conecollapse import (
    CCNMF,
    AlternatingNMF,
    DatasetNotFoundError,
    GraphCCNMF,
    HierarchicalNMF,
    MultiplicativeNMF,
    OrthogonalNMF,
    ProjectiveNMF,
    SparseNMF,
)
from conecollapse.datasets import load

DEFAULT = ("AMLALL", "KHAN", "DUKE", "MED")
MODELS = {
    "MultiplicativeNMF": MultiplicativeNMF(),
    "MultiplicativeNMF, Kullback-Leibler": MultiplicativeNMF(loss="kullback-leibler", max_iter=100),
    "AlternatingNMF": AlternatingNMF(max_iter=50),
    "HierarchicalNMF": HierarchicalNMF(),
    "SparseNMF": SparseNMF(max_iter=50),
    "OrthogonalNMF, em": OrthogonalNMF(n_init=1),
    "CCNMF": CCNMF(n_init=1),
    "CCNMF, knn": CCNMF(affinity="knn", n_init=1),
    "GraphCCNMF": GraphCCNMF(n_init=1),
    "ProjectiveNMF": ProjectiveNMF(),
    "OrthogonalNMF, mu": OrthogonalNMF(solver="mu", n_init=1),
    "OrthogonalNMF, ding": OrthogonalNMF(solver="ding", n_init=1),
    "OrthogonalNMF, choi": OrthogonalNMF(solver="choi", n_init=1),
    "OrthogonalNMF, stiefel": OrthogonalNMF(solver="stiefel", n_init=1),
    "OrthogonalNMF, onp-mf": OrthogonalNMF(solver="onp-mf", n_init=1),
}


def main() -> None:
    sets = {}
    for name in sys.argv[1:] or DEFAULT:
        try:
            sets[name] = load(name)
        except DatasetNotFoundError:
            print(f"{name} is not on this machine.")
    print(" | ".join(["method", *sets]))
    for title, model in MODELS.items():
        cells = []
        for data in sets.values():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.set_params(n_components=len(np.unique(data.y)), random_state=0).fit(data.X)
                cells.append(f"{100 * np.mean(model.predict(data.X) != model.labels_):.1f}")
        print(" | ".join([title, *cells]), flush=True)


if __name__ == "__main__":
    main()
