"""``conecollapse novelty``: which samples of a file are new, judged by a file of trusted samples,
and by which features."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from conecollapse.cli import options
from conecollapse.cli.terminal import say, say_run_as_json, say_where, working

SHOWN = 10


def novelty(
    trusted: Annotated[
        Path,
        typer.Argument(
            help=(
                "Trusted samples: .npy, .npz, .csv, .tsv, .mtx, .parquet or .h5ad, or a cube (.npy,"
                " .npz, .mat, ENVI)."
            ),
            show_default=False,
        ),
    ],
    new: Annotated[
        Path, typer.Argument(help="Samples to judge, with the same features.", show_default=False)
    ],
    contamination: Annotated[
        str, typer.Option(help="Share of ordinary samples that may be called novel; auto is 0.05.")
    ] = "auto",
    locality: Annotated[
        float, typer.Option(help="Price of mixing; 0 measures the distance from the cone itself.")
    ] = 0.02,
    log: Annotated[bool, typer.Option("--log", help="Judge log(1 + x) instead of x.")] = False,
    clip: options.Clip = False,
    bands: options.Bands = "last",
    variable: options.Variable = None,
    reasons: Annotated[int, typer.Option(min=1, help="Features named for each novel sample.")] = 5,
    out: options.Out = None,
    features_in: options.FeaturesIn = "auto",
    header: options.Header = None,
    names: options.Names = None,
    report: options.Report = True,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Judge the samples of NEW by the cone of the samples of TRUSTED: are they mixtures of these?

    Writes a folder: novelty.csv, with the distance of each sample from the cone (0 to 1), whether
    it is novel, and the features by which it leaves the cone, with amounts; factors.npz, run.json
    and report.html.
    """
    from conecollapse import runs

    folder = options.out_folder(out, new, "novelty")
    share = options.share(contamination, "--contamination", "a number above 0 and at most 0.5")
    runs.check_folder(folder, force=force)
    with working(f"reading {trusted.name}") as progress:
        run = runs.judge(
            trusted,
            new,
            contamination=share,
            locality=locality,
            log=log,
            n_features=reasons,
            features_in=features_in,
            header=header,
            names=names,
            clip=clip,
            bands=bands,
            variable=variable,
            progress=progress,
        )
        options.save_run(run, folder, report=report, force=force, progress=progress)
    if as_json:
        say_run_as_json(run, folder, notes=run.notes, samples=run.rows())
        return
    _say(run, new.name)
    say_where(folder)


def _say(found: Any, name: str) -> None:
    facts = found.facts()
    say(
        f"{facts['n_trusted']} trusted samples, {facts['n_features']} features; {name}:"
        f" {facts['n_samples']} samples.{found.note}"
    )
    for line in found.notes:
        say(line)
    say(
        f"{facts['n_novel']} novel: further than {facts['threshold']:.3g} from the cone of the"
        f" trusted samples. Of ordinary samples at most {facts['false_alarms']:.1%} are expected"
        " beyond that."
    )
    order = sorted((row for row in found.rows() if row["novel"]), key=lambda row: -row["distance"])
    for row in order[:SHOWN]:
        why = ", ".join(f"{f['name']} {f['amount']:+.3g}" for f in row["features"])
        say(f"  {row['sample']}: {row['distance']:.3f}{f'; {why}' if why else ''}")
    if len(order) > SHOWN:
        say(f"  and {len(order) - SHOWN} more")
