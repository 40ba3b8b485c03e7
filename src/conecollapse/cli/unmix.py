"""``conecollapse unmix``: the pure components of mixtures, and how much of each is where."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from conecollapse.cli import options
from conecollapse.cli.terminal import say, say_run_as_json, say_where, working


def unmix(
    file: Annotated[
        Path,
        typer.Argument(
            help=(
                "A cube (.npy, .npz or .mat, or ENVI), a table of samples x channels, or a folder"
                " of spectra."
            ),
            show_default=False,
        ),
    ],
    k: Annotated[
        str,
        typer.Option(
            "-k", "--components", help="Number of components, or auto.", show_default=False
        ),
    ],
    shape: Annotated[
        str | None,
        typer.Option(
            help="Height x width of the image whose pixels are the samples, such as 95x95."
        ),
    ] = None,
    bands: options.Bands = "last",
    variable: options.Variable = None,
    mask: Annotated[
        Path | None,
        typer.Option(help="A number for each pixel, in a file; pixels where it is 0 are left out."),
    ] = None,
    wavelengths: Annotated[
        Path | None, typer.Option(help="A number for each channel: text or .npy.")
    ] = None,
    sum_to_one: Annotated[
        bool, typer.Option("--sum-to-one", help="Abundances are shares that sum to one.")
    ] = False,
    outliers: Annotated[
        str,
        typer.Option(
            help="Share of the samples to leave out because they fit no mixture, or auto."
        ),
    ] = "auto",
    closure: Annotated[
        bool,
        typer.Option(
            "--closure",
            help="Amounts sum to one, with the lengths of the components found for that.",
        ),
    ] = False,
    fixed: Annotated[
        Path | None,
        typer.Option(
            help=(
                "A file of known components, a row for each; matched by the names of the channels"
                " where both files have them."
            )
        ),
    ] = None,
    clip: options.Clip = False,
    out: options.Out = None,
    features_in: options.FeaturesIn = "auto",
    header: options.Header = None,
    names: options.Names = None,
    layer: options.Layer = None,
    report: options.Report = True,
    model: options.Model = True,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Find the pure components of the mixtures in FILE, and how much of each is in every sample.

    Writes a folder: endmembers.csv, spread.csv, maps.npy (of an image; also as FILE is: maps.mat,
    maps.hdr and maps.img) or abundances.csv, factors.npz, certificate.npz, run.json and
    report.html.
    """
    from conecollapse import runs
    from conecollapse.io.spectra import read_spectra, read_wavelengths

    n_components = options.number(k, "components")
    size = options.image_shape(shape, "--shape")
    share = options.share(outliers, "--outliers", "a share of at least 0 and below 1")
    folder = options.out_folder(out, file, "unmixed")
    runs.check_folder(folder, force=force)
    with working(f"reading {file.name}") as progress:
        reading: dict[str, Any] = {"header": header, "names": names, "layer": layer}
        reading |= {"features_in": features_in, "variable": variable, "bands": bands}
        spectra = read_spectra(file, shape=size, clip=clip, mask=mask, **reading)
        count, good = spectra.table.n_features, spectra.good_bands
        run = runs.unmix(
            spectra,
            n_components,
            sum_to_one=sum_to_one,
            outliers=share,
            closure=closure,
            fixed=fixed,
            wavelengths=None if wavelengths is None else read_wavelengths(wavelengths, count, good),
            progress=progress,
        )
        options.save_run(run, folder, report=report, model=model, force=force, progress=progress)
    if as_json:
        say_run_as_json(run, folder)
        return
    _say(run, file.name)
    say_where(folder)


def _say(run: Any, name: str) -> None:
    found, table = run.facts(), run.table
    image = (
        f", an image of {found['shape'][0]} x {found['shape'][1]} pixels" if found["shape"] else ""
    )
    say(f"{name}: {table.n_samples} samples, {table.n_features} channels{image}; {table.why}.")
    for line in filter(None, (table.read_as, *run.spectra.notes)):
        say(f"{line}.")
    abundances = ", ".join(f"{value:.3g}" for value in found["mean_abundances"])
    count = found["n_outliers"]
    left = (
        f"; {count} {'sample' if count == 1 else 'samples'} left out as outliers or empty"
        if count
        else ""
    )
    chosen = f" (chosen: {found['rank_reason']})" if found["rank_reason"] else ""
    say(f"{found['n_components']} components{chosen} with mean abundances {abundances}{left}.")
    say(
        f"error {found['relative_error']:.3g} of the data; no sample is further from the cone of"
        f" the components than {found['cone_residual']:.3g} {run.unit_of_distance}, proven."
    )
    say(run.sureness)
