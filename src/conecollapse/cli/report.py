"""``conecollapse report``: the page of an earlier clustering once more, with the names that were
written into names.csv."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from conecollapse.cli import options
from conecollapse.cli.cluster import changed_h5ad, check_h5ad
from conecollapse.cli.terminal import say, say_where, working


def report(
    folder: Annotated[
        Path, typer.Argument(help="A folder of results of cluster.", show_default=False)
    ],
    data: options.MovedData = None,
    write_h5ad: Annotated[
        Path | None, typer.Option(help="Also write an .h5ad file with the names in obs.")
    ] = None,
) -> None:
    """Write report.html and labels.csv of FOLDER again, with the clusters called as names.csv says.

    Edit names.csv in the folder first. The results are checked against the data on the way.
    """
    from conecollapse.runs.renaming import rename

    if write_h5ad is not None:
        check_h5ad(write_h5ad, folder)
    with working("checking"):
        run = rename(folder, data, options.report_writer())
        if write_h5ad is not None:
            _write_names(run, write_h5ad)
    say("; ".join(f"{k}: {name}" for k, name in enumerate(run.names)))
    say_where(folder)


def _write_names(run: Any, path: Path) -> None:
    """The data with the name of each cell's cluster in ``obs["conecollapse"]``."""
    import pandas as pd

    with changed_h5ad(run, Path(run.table.source), path) as (adata, _, _):
        named = run.names
        if len(set(named)) < len(named):
            named = [f"{k}: {name}" for k, name in enumerate(named)]
        adata.obs["conecollapse"] = pd.Categorical.from_codes(run.labels, named)
