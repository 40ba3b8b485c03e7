"""``run.json``: what is needed to understand a run, and to repeat it."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from conecollapse._files import sha256_of
from conecollapse._types import AnyArray, FloatArray, Points
from conecollapse.certificates import Certificate, relative_error
from conecollapse.clusters import cluster_sizes
from conecollapse.io import TableFile
from conecollapse.metrics import clustering_accuracy, purity_score
from conecollapse.runs.folder import FACTS, FORMAT, REPORT
from conecollapse.runs.plain import plain
from conecollapse.runs.run import RaysRun, Run

if TYPE_CHECKING:
    from conecollapse.estimators import RankSelection

PACKAGES = ("conecollapse", "numpy", "scipy", "scikit-learn", "numba", "pandas")
PREPARATION: Mapping[str, Any] = {"normalize": None, "tfidf": False}


def facts(run: Run | RaysRun, folder: Path) -> dict[str, Any]:
    """The content of run.json for a run that is saved to ``folder``."""
    return plain(
        {
            **head(run.kind, run.table, folder),
            "preparation": dict(run.table.preparation) or dict(PREPARATION),
            "parameters": dict(run.parameters),
            "model": run.model.get_params() if isinstance(run, Run) else None,
            "image_shape": run.image_shape,
            "timings": dict(run.timings),
            "results": results(run),
        }
    )


def head(kind: str, table: TableFile, folder: Path) -> dict[str, Any]:
    """What run.json says of every kind of run: when and with what it was made, and from which
    data."""
    return {
        "format": FORMAT,
        "kind": kind,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "data": _data(table, folder),
    }


def results(run: Run | RaysRun) -> dict[str, Any]:
    """What was found, in numbers."""
    cone = run.cone
    exact = isinstance(cone.certificate, Certificate)
    found: dict[str, Any] = {
        "n_samples": run.table.n_samples,
        "n_features": run.table.n_features,
        "n_rays": cone.n_rays,
        "n_zero_features": len(cone.zero_points) if exact else None,
        "exact": exact,
        "n_open": len(cone.open_points),
        "tol": cone.tol,
        "largest_residual": None if exact else cone.tol,
    }
    return found if isinstance(run, RaysRun) else found | _clusters(run)


def _clusters(run: Run) -> dict[str, Any]:
    model, A = run.model, np.asarray(run.model.embedding_, np.float64)
    r = A.shape[1]
    found: dict[str, Any] = {
        "n_clusters": r,
        "cluster_sizes": cluster_sizes(run.labels, r),
        "relative_error": relative_error(run.table.X, A, summed_by_cluster(A, run.table.X)),
        "orthogonality": float(np.abs(A.T @ A - np.eye(r)).max()),
        "converged": model.converged_,
        "status": model.status_,
        "rank_reason": None if run.rank is None else run.rank.reason,
        "rank_curve": None if run.rank is None else _curve(run.rank),
    }
    if run.target is not None:
        found |= {
            "purity": purity_score(run.target, run.labels),
            "accuracy": clustering_accuracy(run.target, run.labels),
        }
    return found


def summed_by_cluster(A: AnyArray, X: Points) -> FloatArray:
    """``A'X``: the components that fit X best for orthonormal columns of A."""
    summed: FloatArray = np.asarray((X.T.astype(np.float64) @ np.asarray(A, np.float64)).T)
    return np.ascontiguousarray(summed)


def _curve(found: RankSelection) -> dict[str, Any]:
    """The score of each number of clusters that was tried, its standard error, and those that
    cannot be told from the best."""
    return {
        "method": found.method,
        "candidates": found.candidates.tolist(),
        "scores": found.scores.tolist(),
        "standard_errors": found.spread.tolist(),
        "ties": list(found.ties),
    }


def write_facts(folder: Path, facts: Mapping[str, Any]) -> None:
    """Write run.json, as the last file of a run: it has the checksum of the report and its own."""
    said = {**facts, "report": report_checksum(folder)}
    said["checksum"] = checksum(said)
    (folder / FACTS).write_text(
        json.dumps(said, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )


def report_checksum(folder: Path) -> str | None:
    """The SHA-256 of the report; None where there is none."""
    return sha256_of(folder / REPORT) if (folder / REPORT).is_file() else None


def checksum(facts: Mapping[str, Any]) -> str:
    """The SHA-256 of what run.json says, however it is laid out."""
    said = {name: value for name, value in facts.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _data(table: TableFile, folder: Path) -> dict[str, Any]:
    relative = absolute = None
    if table.sha256:
        path = Path(table.source).resolve()
        absolute = str(path)
        try:
            relative = os.path.relpath(path, folder)
        except ValueError:  # on another drive
            relative = None
    return {
        "path": relative,
        "absolute": absolute,
        "source": table.source,
        "sha256": table.sha256,
        "n_samples": table.n_samples,
        "n_features": table.n_features,
        "dtype": str(table.X.dtype),
        "sparse": bool(sp.issparse(table.X)),
        "features_in": table.features_in,
        "why": table.why,
        "header": None if table.layout is None else table.layout.header,
        "names": None if table.layout is None else table.layout.names,
        "layer": table.layer,
        "text_column": table.text_column,
    }


def versions() -> dict[str, str]:
    """Versions of Python, of the system and of the packages that the numbers depend on."""
    found = {"python": platform.python_version(), "system": platform.platform(terse=True)}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found
