"""``conecollapse programs``: sets of genes that are expressed together, and how much each cell uses
them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from conecollapse.cli import options
from conecollapse.cli.cluster import changed_h5ad, check_h5ad, labels_from, say_curve
from conecollapse.cli.terminal import (
    note,
    say,
    say_run_as_json,
    say_table_read,
    say_where,
    working,
)

GENES = 8  # of a program that are printed


def programs(
    file: options.File,
    k: Annotated[
        str,
        typer.Option("-k", "--programs", help="Number of programs, or auto.", show_default=False),
    ],
    n_runs: Annotated[
        int, typer.Option("--runs", min=1, help="Runs that are brought to a consensus.")
    ] = 20,
    batches: Annotated[
        str | None,
        typer.Option(
            help=(
                "The batch of each sample: a file as for --labels, or obs:NAME for a column of"
                " obs. Programs that are batches are said so."
            )
        ),
    ] = None,
    out: options.Out = None,
    features_in: options.FeaturesIn = "auto",
    header: options.Header = None,
    names: options.Names = None,
    layer: options.Layer = None,
    all_features: options.AllFeatures = False,
    seed: options.Seed = 0,
    report: options.Report = True,
    model: options.Model = True,
    write_h5ad: options.WriteH5ad = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Find programs of genes that are expressed together in the cells of FILE, which holds counts.

    Writes a folder: programs.csv (genes x programs, in counts per million and as z-scores),
    usages.csv (cells x programs, shares that sum to 1), markers.csv, factors.npz, run.json and
    report.html.
    """
    from conecollapse import runs
    from conecollapse.io import read_table
    from conecollapse.io.matrix import HIGHLY_VARIABLE

    n_programs = options.number(k, "programs")
    folder = options.out_folder(out, file, "programs")
    runs.check_folder(folder, force=force)
    if write_h5ad is not None:
        check_h5ad(write_h5ad, file)
    with working(f"reading {file.name}") as progress:
        read = read_table(file, features_in=features_in, header=header, names=names, layer=layer)
        features = None if all_features or read.marked is None else HIGHLY_VARIABLE
        table = runs.prepare(read, features=features)
        run = runs.programs(
            table,
            n_programs,
            n_runs=n_runs,
            batches=labels_from(file, table, batches, None),
            batch_name=str(batches),
            random_state=seed,
            progress=progress,
        )
        options.save_run(run, folder, report=report, model=model, force=force, progress=progress)
        if write_h5ad is not None:
            _write_h5ad(run, file, write_h5ad)
    for line in run.batch_notes:
        note(f"note: {line}")
    if as_json:
        say_run_as_json(run, folder, features=features or "all")
        return
    say_table_read(file.name, table)
    _say(run)
    if write_h5ad is not None:
        say(f"data and results in {write_h5ad}")
    say_where(folder)


def _say(run: Any) -> None:
    """The number of programs and why, and the genes of each."""
    found = run.facts()
    if found["rank_curve"]:
        say_curve(found["rank_curve"], run.n_programs)
    chosen = f" (chosen: {found['rank_reason']})" if found["rank_reason"] else ""
    say(f"{run.n_programs} programs{chosen}; stability is 1 where every run found a program.")
    for k, top in enumerate(run.top_features(GENES)):
        genes = ", ".join(gene.name for gene in top if gene.lead > 0)
        say(f"  program {k}, stability {run.stability[k]:.2f}: {genes}")


def _write_h5ad(run: Any, file: Path, path: Path) -> None:
    """The data with the programs, as `conecollapse.scverse.programs` writes them."""
    from conecollapse.scverse import write_programs

    with changed_h5ad(run, file, path) as (adata, columns, asked):
        write_programs(adata, run, "programs", columns, asked)
