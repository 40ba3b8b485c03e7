"""`save`: a run as a folder of plain files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._types import AnyArray, FloatArray
from conecollapse.certificates import Certificate
from conecollapse.clusters import cluster_means
from conecollapse.factorization.anls import solve_rows
from conecollapse.factorization.ccnmf import mass
from conecollapse.geometry.cone import Cone
from conecollapse.io import TableFile
from conecollapse.runs.facts import facts, summed_by_cluster, write_facts
from conecollapse.runs.folder import (
    CERTIFICATE,
    FACTORS,
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

RAY_COLUMNS = ["ray", "feature", "name", "group_size", "colinear_features", "open", "mass"]


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
        arrays = factors(run)
        np.savez(staging / FACTORS, **arrays)
        write_copies(staging, run, arrays)
        run.cone.save(staging / CERTIFICATE)
        interrupted = not wrote_page(staging / REPORT, run, write_report)
        write_facts(staging, facts(run, path))
    if interrupted:
        raise Interrupted(
            f"interrupted; the results are in {str(folder)!r}, only the report is missing."
        )
    return path


def factors(run: Run | RaysRun) -> dict[str, Any]:
    """The arrays of factors.npz: names, hashes of the features as they were read, rays and
    their masses; of a clustering its factors, the known labels, and the shares of topics."""
    table = run.table
    arrays: dict[str, Any] = {
        "sample_names": table.samples,
        "feature_names": table.features,
        "data_hashes": feature_hashes((table.raw or table).X),
        "ray_indices": run.cone.ray_indices,
        "masses": ray_masses(table, run),
    }
    if isinstance(run, Run):
        A = np.asarray(run.model.embedding_)
        arrays |= {"A": A, "components": summed_by_cluster(A, table.X)}
        arrays |= {} if run.target is None else {"target": run.target}
        if table.texts is not None:
            arrays["shares"] = topic_shares(topic_means(run), table.X)
    return arrays


def ray_masses(table: TableFile, run: Run | RaysRun) -> FloatArray:
    """The mass of each ray: the length of the features on it taken together, see
    `conecollapse.factorization.ccnmf`."""
    unit = float(table.X.max())  # squares of entries of 1e200 are no numbers
    lengths = as_table(table.X.astype(np.float64) / unit).column_lengths
    return unit * mass(sp.csr_array(run.cone.point_coefficients.T @ sp.diags_array(lengths)))


def topic_means(run: Run) -> FloatArray:
    """The mean sample of each cluster, (r, n_features)."""
    return cluster_means(run.table.X, run.labels, np.shape(run.model.embedding_)[1])


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


def write_copies(folder: Path, run: Run | RaysRun, arrays: Mapping[str, AnyArray]) -> None:
    """Write labels.csv and rays.csv, from the run and the ``arrays`` of factors.npz."""
    rays = zip(ray_rows(run.cone, run.table.features), arrays["masses"].tolist(), strict=True)
    write_csv(folder / RAYS, RAY_COLUMNS, ((*row, mass) for row, mass in rays))
    if isinstance(run, RaysRun):
        return
    columns = {"sample": run.table.samples, "cluster": run.labels}
    columns |= {} if run.target is None else {"target": run.target}
    columns |= {
        f"share_{k}": share for k, share in enumerate(arrays.get("shares", run.labels[:0]).T)
    }
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    write_csv(folder / LABELS, list(columns), rows)
