"""Novelty with one class trusted: areas under the curve of ConeNovelty and of six other detectors;
and its time.

python benchmarks/novelty.py [SET ...] [--trusted 300] [--classes 5] [--settings] [--speed]

For each class of a set, 70 % of its samples (at most ``--trusted``) are trusted, and every detector
scores the rest of the class against samples of all other classes. All detectors see samples of unit
length. True labels are used only for scoring. SET is a set of `novelty_sets.py`, or one of its
groups (paper, scikit-learn, other, planted); all by default. PyOD is optional (pip install pyod).
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec

import numpy as np
import scipy.optimize
import scipy.sparse as sp
from common import DATA, best_of, machine
from novelty_sets import GROUPS, data
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors
from sklearn.svm import OneClassSVM

from conecollapse import ConeNovelty

SETTINGS = {  # what the score is made of
    "Cone alone": {"locality": 0.0, "noise": 0.0},
    "Cone, locality 0.02": {"noise": 0.0},
    "Cone, noise": {"locality": 0.0},
    "Cone, both": {},
    "Cone, both, 0.05": {"locality": 0.05},
    "Cone, both, 0.1": {"locality": 0.1},
    "Cone, both, 0.3": {"locality": 0.3},
}
TESTED = 200  # samples of the class, and of the others, that are scored at most
SMALLEST = 15  # samples of a class that is trusted, where there are such classes
EXPLAINED = 0.95  # of the variance, by the components of PCA


def neighbours(trusted, new):
    found = NearestNeighbors(n_neighbors=min(5, trusted.shape[0])).fit(trusted)
    return found.kneighbors(new)[0].mean(axis=1)


def pca(trusted, new):
    mean = trusted.mean(axis=0)
    _, s, V = np.linalg.svd(trusted - mean, full_matrices=False)
    V = V[: np.searchsorted(np.cumsum(s**2) / max((s**2).sum(), 1e-300), EXPLAINED) + 1]
    return np.linalg.norm((new - mean) - (new - mean) @ V.T @ V, axis=1)


def ecod(trusted, new):
    from pyod.models.ecod import ECOD

    return ECOD().fit(trusted).decision_function(new)


def scored(make: Callable[[int], object]):
    return lambda trusted, new: -make(trusted.shape[0]).fit(trusted).score_samples(new)


DETECTORS = {
    "ConeNovelty": scored(lambda _: ConeNovelty()),
    "5 neighbours": neighbours,
    "PCA": pca,
    "one-class SVM": scored(lambda _: OneClassSVM(gamma="scale")),
    "LOF": scored(lambda n: LocalOutlierFactor(n_neighbors=min(20, n - 1), novelty=True)),
    "isolation forest": scored(lambda _: IsolationForest(random_state=0)),
    "ECOD": ecod,
}


def tasks(X, y, n_trusted: int, n_classes: int) -> Iterator[tuple]:
    """Trusted samples, new samples, and which of these are of other classes."""
    rng = np.random.default_rng(0)
    classes, counts = np.unique(y, return_counts=True)
    large = classes[counts >= SMALLEST]
    classes = large if len(large) else classes[counts >= 4]
    for one in rng.permutation(classes)[:n_classes]:
        own, others = (
            rng.permutation(np.flatnonzero(y == one)),
            rng.permutation(np.flatnonzero(y != one))[:TESTED],
        )
        count = int(0.7 * len(own))
        held = own[count:][:TESTED]
        yield (
            X[own[:count][:n_trusted]],
            X[np.concatenate([held, others])],
            np.repeat([0, 1], [len(held), len(others)]),
        )


def areas(detectors, X, y, n_trusted: int, n_classes: int) -> dict[str, float]:
    found: dict[str, list[float]] = {name: [] for name in detectors}
    for trusted, new, is_other in tasks(X, y, n_trusted, n_classes):
        dense = [part.toarray() if sp.issparse(part) else part for part in (trusted, new)]
        for name, score in detectors.items():
            found[name].append(
                roc_auc_score(is_other, score(*((trusted, new) if "Cone" in name else dense)))
            )
    return {name: float(np.mean(values)) for name, values in found.items()}


def table(detectors, names, args) -> dict[str, dict[str, float]]:
    print(f"\n| set | {' | '.join(detectors)} |\n| --- |{' --- |' * len(detectors)}")
    rows = {}
    for name in names:
        loaded = data(name)
        if loaded is None:
            print(f"(no {name}: set CONECOLLAPSE_DATA)")
            continue
        rows[name] = areas(detectors, *loaded, args.trusted, args.classes)
        print(
            f"| {name} | " + " | ".join(f"{value:.3f}" for value in rows[name].values()) + " |",
            flush=True,
        )
    for label, chosen in GROUPS.items():
        if kept := [row for name, row in rows.items() if name in chosen]:
            print(
                f"| mean, {label} | "
                + " | ".join(f"{np.mean([row[d] for row in kept]):.3f}" for d in detectors)
                + " |"
            )
    return rows


def leave_one_set_out(rows: dict[str, dict[str, float]]) -> None:
    """For each set the setting with the best mean over all other sets."""
    picked = {
        name: max(
            rows[name],
            key=lambda d, name=name: np.mean(
                [row[d] for other, row in rows.items() if other != name]
            ),
        )
        for name in rows
    }
    print(
        "\nchosen on the other sets:",
        "; ".join(f"{name}: {choice}" for name, choice in picked.items()),
    )
    print(
        "mean with these choices:"
        f" {np.mean([rows[name][choice] for name, choice in picked.items()]):.4f}"
    )


def speed() -> None:
    """Many trusted samples: ours, five neighbours by scikit-learn, and SciPy's NNLS for each
    sample."""
    rng = np.random.default_rng(0)
    for n_trusted, n_features in ((1000, 100), (5000, 300)):
        parts = rng.gamma(0.5, size=(40, n_features))
        mixed = rng.dirichlet(np.full(40, 0.1), n_trusted + 500) @ parts
        X = mixed * rng.gamma(20.0, 1 / 20, mixed.shape)
        trusted, new = X[:n_trusted], X[n_trusted:]
        start = time.perf_counter()
        model = ConeNovelty().fit(trusted)
        fitted = time.perf_counter() - start
        model.score_samples(new[:2])
        ours = best_of(lambda model=model, new=new: model.score_samples(new), 3)
        scipy_all = (
            best_of(lambda t=trusted, new=new: [scipy.optimize.nnls(t.T, x)[1] for x in new[:5]], 1)
            * len(new)
            / 5
        )
        near = best_of(lambda t=trusted, new=new: neighbours(t, new), 3)
        start = time.perf_counter()
        offset = model.offset_
        threshold = time.perf_counter() - start
        print(
            f"{n_trusted} trusted, {n_features} features: fit {fitted:.2f} s, threshold"
            f" {threshold:.2f} s ({-offset:.3f}), 500 scores {ours:.2f} s; SciPy's NNLS for each"
            f" {scipy_all / ours:.0f}x that, 5 neighbours {near / ours:.2f}x",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "sets", nargs="*", default=[name for group in GROUPS.values() for name in group]
    )
    parser.add_argument("--trusted", type=int, default=300)
    parser.add_argument("--classes", type=int, default=5)
    parser.add_argument(
        "--settings",
        action="store_true",
        help="compare settings of ConeNovelty instead of detectors",
    )
    parser.add_argument("--speed", action="store_true", help="time it instead")
    args = parser.parse_args()
    groups = {
        asked: [name for label, group in GROUPS.items() if asked in label for name in group]
        for asked in args.sets
    }
    args.sets = [name for asked in args.sets for name in groups[asked] or [asked]]
    warnings.simplefilter("ignore")
    os.environ.setdefault("CONECOLLAPSE_DATA", str(DATA))
    print(machine())
    if args.speed:
        speed()
    elif args.settings:
        leave_one_set_out(
            table(
                {name: scored(lambda _, s=s: ConeNovelty(**s)) for name, s in SETTINGS.items()},
                args.sets,
                args,
            )
        )
    else:
        table(
            {
                name: score
                for name, score in DETECTORS.items()
                if name != "ECOD" or find_spec("pyod")
            },
            args.sets,
            args,
        )


if __name__ == "__main__":
    main()
