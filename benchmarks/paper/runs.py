"""Run methods on datasets and record every run; a run that is already recorded is not repeated."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

from benchmarks.paper.methods import METHODS, PROTOCOLS, Method
from benchmarks.paper.records import Record, append, read
from conecollapse.datasets import Dataset, load
from conecollapse.metrics import (
    adjusted_rand_score,
    clustering_accuracy,
    normalized_mutual_info_score,
    purity_score,
)

SCORE_DIGITS = 6  # decimals recorded of a score
Report = Callable[[Record, int, int], object] | None


def run(
    names: Iterable[str],
    path: Path,
    *,
    seeds: Iterable[int] = range(10),
    protocols: Iterable[str] = PROTOCOLS,
    methods: Sequence[Method] = METHODS,
    jobs: int = 1,
    report: Report = None,
) -> list[Record]:
    """Run every method of the protocols on every dataset with every seed, append the records to
    ``path``, and return all records there.

    ``report(record, done, total)`` is called after each new run; ``jobs`` processes share the work
    and the cores.
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
    results = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)(
        delayed(_load_and_run)(*task) for task in todo
    )
    for count, record in enumerate(results, 1):
        append(path, record)
        if report is not None:
            report(record, count, len(todo))
    return read(path)


_loaded: dict[str, Dataset] = {}  # the last set of this process


def _load_and_run(name: str, method: Method, seed: int) -> Record:
    if name not in _loaded:
        _loaded.clear()
        _loaded[name] = load(name, download=False)
    return run_once(_loaded[name], method, seed)


def run_once(dataset: Dataset, method: Method, seed: int) -> Record:
    """One run. The true labels are used only for scoring, after it."""
    model = method.make(dataset.n_classes, seed)
    # whole numbers up to 255: exact in float32
    X = dataset.X.astype(np.float32) if dataset.domain == "image" else dataset.X
    _forget_peak()
    start = time.perf_counter()
    with warnings.catch_warnings():
        # about runs that did not converge, which `converged` records, and words that no document
        # has
        warnings.simplefilter("ignore")
        labels = np.asarray(model.fit_predict(X))
    seconds = time.perf_counter() - start
    error = getattr(model, "relative_err_", None)
    orthogonality = getattr(model, "orthogonality_", None)
    return Record(
        dataset=dataset.name,
        protocol=method.protocol,
        method=method.name,
        seed=seed,
        purity=round(purity_score(dataset.y, labels), SCORE_DIGITS),
        accuracy=round(clustering_accuracy(dataset.y, labels), SCORE_DIGITS),
        nmi=round(float(normalized_mutual_info_score(dataset.y, labels)), SCORE_DIGITS),
        ari=round(float(adjusted_rand_score(dataset.y, labels)), SCORE_DIGITS),
        objective=None if error is None else round(float(error) ** 2, SCORE_DIGITS),
        orthogonality=None if orthogonality is None else float(f"{orthogonality:.3g}"),
        converged=getattr(model, "converged_", None),
        seconds=round(seconds, 3),
        peak_gib=_peak_gib(),
        note=getattr(model, "view_", ""),
        differs=dataset.differs,
    )


def _forget_peak() -> None:
    """Reset the system's record of this process' peak memory, where that is possible (Linux)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak_gib() -> float | None:
    """Peak memory of the process since `_forget_peak`, or since it began; None where the system
    does not tell."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return None
    return round(int(status.split("VmHWM:")[1].split()[0]) / 2**20, 3)
