"""Run methods on datasets and record every run; what is recorded already is not run again."""

from __future__ import annotations

import resource
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from conecollapse.datasets import Dataset, load
from conecollapse.experiments.methods import METHODS, Method
from conecollapse.experiments.records import Record, append, read
from conecollapse.metrics import adjusted_rand_score, clustering_accuracy, normalized_mutual_info_score, purity_score

DIGITS = 6  # that are recorded of a score
Report = Callable[[Record, int, int], object] | None


def run(
    names: Iterable[str],
    path: Path,
    *,
    seeds: Iterable[int] = range(10),
    protocols: Sequence[str] = ("ours", "outsiders", "graph", "letter"),
    methods: Sequence[Method] = METHODS,
    report: Report = None,
) -> list[Record]:
    """Every method of the protocols on every set with every seed, appended to ``path``; all records there at the end.

    ``report(record, done, total)`` is called after each new run.
    """
    names, seeds = list(names), list(seeds)
    done = {record.key for record in read(path)}
    todo = [
        (name, method, seed)
        for protocol in protocols
        for name in names
        for method in methods
        if method.protocol == protocol
        for seed in seeds
        if (name, method.protocol, method.name, seed) not in done
    ]
    dataset: Dataset | None = None
    for count, (name, method, seed) in enumerate(todo, 1):
        if dataset is None or dataset.name != name:
            dataset = load(name, download=False)
        record = run_once(dataset, method, seed)
        append(path, record)
        if report is not None:
            report(record, count, len(todo))
    return read(path)


def run_once(dataset: Dataset, method: Method, seed: int) -> Record:
    """One run. The labels of the set are used after it, to score."""
    model = method.make(dataset.n_classes, seed)
    X = dataset.X.astype(np.float32) if dataset.domain == "image" else dataset.X  # whole numbers up to 255: exact in float32
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # unsettled runs and empty words: `converged` has the one, the data the other
        labels = np.asarray(model.fit_predict(X))
    seconds = time.perf_counter() - start
    error = getattr(model, "relative_err_", None)
    orthogonality = getattr(model, "orthogonality_", None)
    return Record(
        dataset=dataset.name,
        protocol=method.protocol,
        method=method.name,
        seed=seed,
        purity=round(purity_score(dataset.y, labels), DIGITS),
        accuracy=round(clustering_accuracy(dataset.y, labels), DIGITS),
        nmi=round(float(normalized_mutual_info_score(dataset.y, labels)), DIGITS),
        ari=round(float(adjusted_rand_score(dataset.y, labels)), DIGITS),
        objective=None if error is None else round(float(error) ** 2, DIGITS),
        orthogonality=None if orthogonality is None else float(f"{orthogonality:.3g}"),
        converged=getattr(model, "converged_", None),
        seconds=round(seconds, 3),
        peak_gib=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 3),
        note=getattr(model, "view_", ""),
        differs=dataset.differs,
    )
