"""`rename`: a clustering is saved again with the names that its user wrote into names.csv."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from conecollapse._errors import RunFolderError
from conecollapse._types import AnyArray
from conecollapse.runs.clustering import ClusterRun
from conecollapse.runs.folder import MODEL, NAMES
from conecollapse.runs.run import save
from conecollapse.runs.values import original
from conecollapse.runs.verifying import find_data, read_run, verify


def rename(
    folder: str | os.PathLike[str],
    data: Any = None,
    write_report: Callable[[Path, Any], None] | None = None,
) -> ClusterRun:
    """Verify the clustering in ``folder``, and replace the folder by one in which clusters are
    called as its names.csv says.

    Parameters
    ----------
    folder : path
    data, write_report
        As in `verify` and `save`.
    """
    path = Path(folder)
    stored = read_run(path)
    if stored.facts["kind"] != ClusterRun.kind:
        raise RunFolderError(
            f"{str(folder)!r} holds a run of {stored.facts['kind']!r}; only clusters have names."
        )
    verify(path, data)
    read = ClusterRun.read(stored, find_data(path, stored.facts["data"], data))
    run = ClusterRun.verify(stored, read, None).run
    assert isinstance(run, ClusterRun)
    run = replace(run, titles=_read_names(path / NAMES, run.n_clusters))
    save(run, path, write_report, force=True, model=path / MODEL)
    return run


def _read_names(file: Path, r: int) -> AnyArray:
    """A name for each of r clusters."""
    try:
        with open(file, encoding="utf-8-sig", newline="") as lines:
            rows = [row for row in list(csv.reader(lines))[1:] if row]
        found = {int(number): original(name) for number, name in rows}
    except (OSError, ValueError) as error:
        raise RunFolderError(
            f"{str(file)!r} cannot be read; it needs a heading and then lines with two cells, the"
            " number of a cluster and its name."
        ) from error
    if sorted(found) != list(range(r)) or len(rows) != r:
        raise RunFolderError(
            f"{str(file)!r} names the clusters {sorted(found)}; the run has 0 to {r - 1}, each of"
            " which needs one line."
        )
    return np.array([found[k] for k in range(r)], np.str_)
