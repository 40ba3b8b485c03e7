"""``conecollapse bench``: a comparison with other packages that are installed, on this machine, in
one run."""

from __future__ import annotations

import importlib.util
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
import typer

from conecollapse._types import Points
from conecollapse.cli import options
from conecollapse.cli.terminal import say, say_json, say_table, working
from conecollapse.cli.warm import warm_up

EQUATIONS, UNKNOWNS, RIGHT_SIDES = 200, 20, 500  # of the NNLS problem
MAX_ITER, TOL = 200, 1e-4  # of every NMF, ours and theirs, from the same kind of start


@dataclass(frozen=True)
class Measured:
    """One row: what was done by whom, how long it took, how good it is. The first row of a task is
    ours, and is the unit of `ratio`."""

    task: str
    method: str
    seconds: float | None
    ratio: float | None  # time, in units of ours
    quality: str  # which number
    value: float | None
    remark: str = ""


def bench(
    names: Annotated[
        list[str] | None, typer.Argument(help="Datasets; the included digits by default.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Random seed.")] = 0,
    as_json: options.Json = False,
) -> None:
    """Compare time and quality with SciPy's nnls, scikit-learn's NMF and k-means, and nimfa if it
    is installed."""
    from conecollapse.datasets import info, load

    for name in names or []:
        info(name)  # refuses unknown names before anything takes time
    with working("warming up") as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the limit of iterations, which is intended here
        warm_up()
        rows: list[Measured] = []
        datasets = [load(name) for name in names or ["DIGITS"]]
        tasks: list[tuple[str, Callable[[], list[Measured]]]] = [("nnls", partial(_nnls, seed))]
        tasks += [(dataset.name, partial(_dataset, dataset, seed)) for dataset in datasets]
        for count, (name, measure) in enumerate(tasks):
            if progress is not None:
                progress(name, count, len(tasks))
            rows += measure()
    if as_json:
        say_json({"rows": [asdict(row) for row in rows]})
        return
    heading = ["task", "method", "seconds", "ratio", "quality", ""]
    say_table(heading, [_cells(row) for row in rows])
    say(
        "ratio: time in units of ours, in the same run; every NMF stops by its own rule, within the"
        " same number of iterations."
    )


def _cells(row: Measured) -> list[str]:
    seconds = "" if row.seconds is None else f"{row.seconds:.3f}"
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    quality = "" if row.value is None else f"{row.quality} {row.value:.4g}"
    return [row.task, row.method, seconds, ratio, quality, row.remark]


def _nnls(seed: int) -> list[Measured]:
    from scipy.optimize import nnls as theirs

    from conecollapse import nnls

    rng = np.random.default_rng(seed)
    A, B = rng.random((EQUATIONS, UNKNOWNS)), rng.random((EQUATIONS, RIGHT_SIDES))

    def residual(x: Any) -> float:
        return float(np.linalg.norm(A @ x - B) / np.linalg.norm(B))

    methods = {
        "conecollapse nnls": lambda: residual(nnls(A, B)[0]),
        "SciPy nnls, in a loop": lambda: residual(np.column_stack([theirs(A, b)[0] for b in B.T])),
    }
    return list(
        _compared(
            f"NNLS {EQUATIONS} x {UNKNOWNS}, {RIGHT_SIDES} times", "relative residual", methods
        )
    )


def _dataset(dataset: Any, seed: int) -> list[Measured]:
    from sklearn.cluster import KMeans
    from sklearn.decomposition import NMF

    from conecollapse.estimators import GraphCCNMF, HierarchicalNMF
    from conecollapse.metrics import purity_score

    X, r = dataset.X, dataset.n_classes
    length = float(np.linalg.norm(X.data if hasattr(X, "indptr") else X))
    start: dict[str, Any] = {
        "init": "nndsvda",
        "max_iter": MAX_ITER,
        "tol": TOL,
        "random_state": seed,
    }

    def error(model: Any) -> float:
        return float(model.fit(X).reconstruction_err_) / length

    nmf = {
        "conecollapse HierarchicalNMF": lambda: error(HierarchicalNMF(r, **start)),
        "scikit-learn NMF": lambda: error(NMF(r, **start)),
        "nimfa Nmf": lambda: _nimfa(X, r) / length,
    }
    clusters = {
        "conecollapse GraphCCNMF": lambda: purity_score(
            dataset.y, GraphCCNMF(r, random_state=seed).fit_predict(X)
        ),
        "scikit-learn k-means": lambda: purity_score(
            dataset.y, KMeans(r, n_init=10, random_state=seed).fit_predict(X)
        ),
        "scikit-learn NMF, argmax": lambda: purity_score(
            dataset.y, NMF(r, **start).fit_transform(X).argmax(axis=1)
        ),
    }
    found = list(_compared(f"{dataset.name}, NMF of rank {r}", "relative error", nmf))
    return [*found, *_compared(f"{dataset.name}, {r} clusters", "purity", clusters)]


def _nimfa(X: Points, r: int) -> float:
    import nimfa

    fitted = nimfa.Nmf(
        X.toarray() if hasattr(X, "toarray") else X, rank=r, max_iter=MAX_ITER, seed="nndsvd"
    )()
    return float(np.sqrt(fitted.distance(metric="euclidean")))


def _compared(
    task: str, quality: str, methods: dict[str, Callable[[], float]]
) -> Iterator[Measured]:
    """The methods in turn; the first is ours. A peer that is not installed is left out, one that
    fails is named with the reason."""
    ours = 0.0
    for name, measure in methods.items():
        if name.startswith("nimfa") and importlib.util.find_spec("nimfa") is None:
            continue
        start = time.perf_counter()
        try:
            value = measure()
        except Exception as failure:
            if not name.startswith("nimfa"):  # whose last release knows no NumPy 2
                raise
            yield Measured(
                task, name, None, None, quality, None, f"fails here ({type(failure).__name__})"
            )
            continue
        seconds = time.perf_counter() - start
        ours = ours or seconds
        yield Measured(task, name, seconds, seconds / ours, quality, value)
