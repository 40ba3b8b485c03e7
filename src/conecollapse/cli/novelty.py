"""``conecollapse novelty``: which samples of a file are new, judged by a file of trusted samples,
and by which features."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from conecollapse.cli import options
from conecollapse.cli.terminal import as_options, say, say_json, working

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
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The .csv file of results; named after NEW by default."),
    ] = None,
    features_in: options.FeaturesIn = "auto",
    header: options.Header = None,
    names: options.Names = None,
    report: Annotated[
        bool, typer.Option(help="Write a page of the results beside the .csv file.")
    ] = True,
    force: options.Replace = False,
    as_json: options.Json = False,
) -> None:
    """Judge the samples of NEW by the cone of the samples of TRUSTED: are they mixtures of these?

    Writes a .csv file: for each sample its distance from the cone (0 to 1), whether it is novel,
    and the features by which it leaves the cone, with amounts. Beside it a page (.html) shows the
    same.
    """
    from conecollapse._errors import InvalidInputError
    from conecollapse.runs.novelty import HEADING_LINE, judge, save_judgement
    from conecollapse.runs.places import PAGE_MARK, check_place, writing
    from conecollapse.runs.writing import wrote_page

    place = options.out_folder(out, new, "novelty.csv")
    share = options.share(contamination, "--contamination", "a number above 0 and at most 0.5")
    check_place(place, HEADING_LINE, force=force)
    if place.suffix.lower() == ".html":
        raise InvalidInputError(
            "--out takes the name of the .csv file, and the page is written beside it; got"
            f" {str(place)!r}."
        )
    page = check_place(place.with_suffix(".html"), PAGE_MARK, force=force) if report else None
    with working(f"reading {trusted.name}"):
        found = judge(
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
        )
        save_judgement(found, place, force=force)
        if page is not None:
            with writing(page):
                wrote = wrote_page(page, found, options.report_writer(report))
            if not wrote:
                raise KeyboardInterrupt(
                    f"interrupted; the results are in {str(place)!r}, only the page is missing."
                )
        page = page if page is not None and page.exists() else None
    if as_json:
        say_json(
            {
                "file": str(place),
                "report": None if page is None else str(page),
                "notes": [as_options(line) for line in found.notes],
                **found.facts(),
                "samples": found.rows(),
            }
        )
        return
    _say(found, new.name)
    say(f"results in {place}{'' if page is None else f', report in {page}'}")


def _say(found: Any, name: str) -> None:
    facts = found.facts()
    say(
        f"{facts['n_trusted']} trusted samples, {facts['n_features']} features; {name}:"
        f" {facts['n_samples']} samples.{found.note}"
    )
    for line in found.notes:
        say(as_options(line))
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
