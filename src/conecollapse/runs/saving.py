"""`save`: a run as a folder of plain files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._types import AnyArray, FloatArray
from conecollapse.certificates import Certificate
from conecollapse.factorization.anls import solve_rows
from conecollapse.factorization.ccnmf import mass
from conecollapse.geometry.cone import Cone
from conecollapse.io import TableFile
from conecollapse.runs.facts import facts
from conecollapse.runs.folder import (
    CERTIFICATE,
    FACTORS,
    FACTS,
    LABELS,
    RAYS,
    REPORT,
    check_folder,
    staged,
)
from conecollapse.runs.hashes import feature_hashes
from conecollapse.runs.run import Interrupted, RaysRun, Run
from conecollapse.runs.writing import write_csv, wrote_page
from conecollapse.tables import as_table

# of rays.csv, which `verify` checks; mass follows
RAY_COLUMNS = ["ray", "feature", "name", "group_size", "colinear_features", "open"]


def save(
    run: Run | RaysRun,
    folder: str | os.PathLike[str],
    write_report: Callable[[Path, Any], None] | None = None,
    *,
    force: bool = False,
) -> Path:
    """Write ``run`` to ``folder``, all of it or nothing.

    Parameters
    ----------
    run : Run or RaysRun
    folder : path
        Made if it is missing; an earlier run in it is replaced.
    write_report : callable, optional
        Called as ``write_report(path, run)`` to write ``report.html``.
    force : bool
        Write into a folder that holds other files, which are kept.

    Returns
    -------
    Path
        The folder, absolute.

    Raises
    ------
    RunFolderError
        The folder holds other files, or cannot be written; nothing is left behind.
    Interrupted
        Ctrl-C while the report was written; all other results are in the folder.
    """
    path = check_folder(folder, force=force)
    with staged(folder, force=force) as staging:
        if isinstance(run, Run):
            _write_labels(staging / LABELS, run)
        _write_rays(staging / RAYS, run)
        np.savez(staging / FACTORS, **factors(run))
        run.cone.save(staging / CERTIFICATE)
        (staging / FACTS).write_text(
            json.dumps(facts(run, path), indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )
        interrupted = not wrote_page(staging / REPORT, run, write_report)
    if interrupted:
        raise Interrupted(
            f"interrupted; the results are in {str(folder)!r}, only the report is missing."
        )
    return path


def factors(run: Run | RaysRun) -> dict[str, Any]:
    """The arrays of factors.npz: names, hashes of the features as read and as prepared, rays; of a
    clustering its factors."""
    table = run.table
    prepared = feature_hashes(table.X)
    arrays: dict[str, Any] = {
        "sample_names": table.samples,
        "feature_names": table.features,
        "feature_hashes": prepared,
        "data_hashes": prepared if table.raw is None else feature_hashes(table.raw.X),
        "ray_indices": run.cone.ray_indices,
    }
    if isinstance(run, Run):
        model = run.model
        arrays |= {
            "A": model.embedding_,
            "label_weights": np.asarray(model.label_weights_, dtype=np.float64),
            "components": model.components_,
            "loadings": np.asarray(model.loadings_),
            "loading_indices": np.asarray(model.ray_indices_),
        }
    return arrays


def ray_masses(table: TableFile, run: Run | RaysRun) -> FloatArray:
    """The mass of each ray: the length of the features on it taken together, see
    `conecollapse.factorization.ccnmf`."""
    unit = float(table.X.max())  # squares of entries of 1e200 are no numbers
    lengths = as_table(table.X.astype(np.float64) / unit).column_lengths
    return unit * mass(sp.csr_array(run.cone.point_coefficients.T @ sp.diags_array(lengths)))


def _write_labels(path: Path, run: Run) -> None:
    columns: list[Sequence[Any]] = [run.table.samples.tolist(), run.labels.tolist()]
    heading = ["sample", "cluster"]
    if run.target is not None:
        heading, columns = [*heading, "target"], [*columns, run.target.tolist()]
    if run.table.texts is not None:
        heading = [*heading, *(f"share_{k}" for k in range(len(run.model.profiles_)))]
        columns += [
            [repr(float(share)) for share in column]
            for column in topic_shares(run.model.profiles_, run.table.X).T
        ]
    write_csv(path, heading, zip(*columns, strict=True))


def topic_shares(profiles: AnyArray, X: Any) -> FloatArray:
    """How much of each sample belongs to each cluster, (n_samples, r): shares that sum to 1, or 0
    for a sample of zeros.

    A sample is explained by the mean samples of the clusters, with weights >= 0 (least squares); a
    share is the length of what a cluster contributes, over the sum of these lengths.
    """
    P = np.asarray(profiles, np.float64)
    parts = solve_rows(P @ P.T, np.asarray(X @ P.T, np.float64)) * np.linalg.norm(P, axis=1)
    total = parts.sum(axis=1, keepdims=True)
    return np.asarray(parts / np.where(total > 0, total, 1.0))


def ray_rows(cone: Cone, names: AnyArray) -> Iterator[tuple[Any, ...]]:
    """For each ray its number, its feature by index and name, how many and which features are
    colinear with it, and whether it is open."""
    is_open = np.isin(cone.ray_indices, cone.open_points).astype(int)
    groups: list[Any] = (
        cone.groups
        if isinstance(cone.certificate, Certificate)
        else [[j] for j in cone.ray_indices]
    )
    for k, (j, group) in enumerate(zip(cone.ray_indices, groups, strict=True)):
        yield (
            k,
            int(j),
            str(names[j]),
            len(group),
            " ".join(str(i) for i in group if i != j),
            int(is_open[k]),
        )


def _write_rays(path: Path, run: Run | RaysRun) -> None:
    masses = ray_masses(run.table, run)
    rows = (
        (*row, repr(float(mass)))
        for row, mass in zip(ray_rows(run.cone, run.table.features), masses, strict=True)
    )
    write_csv(path, [*RAY_COLUMNS, "mass"], rows)
