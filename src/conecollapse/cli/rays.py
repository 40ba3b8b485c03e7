"""``conecollapse rays``: the extreme rays of the features of a file, exact or few."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from conecollapse.cli import options
from conecollapse.cli.terminal import say, say_run_as_json, say_table_read, say_where, working

SHOWN = 10


def rays(
    file: options.File,
    max_residual: Annotated[
        float | None,
        typer.Option(help="Few rays: every feature is within this distance of their cone."),
    ] = None,
    max_rays: Annotated[
        int | None, typer.Option(min=1, help="Few rays: at most this many.")
    ] = None,
    mass: Annotated[
        bool,
        typer.Option(
            "--mass",
            help="Measure distances relative to the longest feature, not between directions.",
        ),
    ] = False,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Leave rays open that would take long to decide."),
    ] = False,
    sample: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Only the rays at which so many random functionals are largest, in one pass.",
        ),
    ] = None,
    seed: options.Seed = 0,
    out: options.Out = None,
    features_in: options.FeaturesIn = "auto",
    header: options.Header = None,
    names: options.Names = None,
    layer: options.Layer = None,
    text_column: options.TextColumn = None,
    normalize: options.Normalize = None,
    tfidf: options.TfIdf = False,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Find and prove the rays of the features of FILE: which of them generate all others.

    Exact, unless --max-residual or --max-rays asks for an epsilon-cone of few rays, or --sample for
    those that random functionals find, with a bound on what was missed. Writes a folder: rays.csv,
    factors.npz, certificate.npz and run.json.
    """
    from conecollapse import runs
    from conecollapse._errors import first_of
    from conecollapse.io import read_table

    _check_options(max_residual, max_rays, mass, quick, sample)
    folder = options.out_folder(out, file, "rays")
    runs.check_folder(folder, force=force)
    with working(f"reading {file.name}") as progress:
        reading: dict[str, Any] = {"header": header, "names": names, "layer": layer}
        read = read_table(file, features_in=features_in, text_column=text_column, **reading)
        run = runs.rays(
            runs.prepare(read, normalize, tfidf or read.texts is not None),
            max_residual=max_residual,
            max_rays=max_rays,
            weighting="mass" if mass else "unit",
            effort="quick" if quick else "exact",
            sample=sample,
            random_state=seed,
            progress=progress,
        )
        options.save_run(run, folder, force=force)
    called = [str(name) for name in run.table.features[run.cone.ray_indices]]
    if as_json:
        say_run_as_json(run, folder, rays=called)
        return
    say_table_read(file.name, run.table)
    say_cone(run.facts())
    say(f"rays: {first_of(called, SHOWN, 'more, in rays.csv')}")
    say_where(folder)


def _check_options(
    max_residual: float | None, max_rays: int | None, mass: bool, quick: bool, sample: int | None
) -> None:
    """Refuse options that do not go together, before the file is read."""
    from conecollapse._checks import check_positive
    from conecollapse._errors import InvalidInputError

    few = max_rays is not None or max_residual is not None
    if (mass and not few) or (quick and few) or (sample is not None and (few or quick)):
        raise InvalidInputError(
            "--mass is for few rays, which --max-rays or --max-residual asks for, --quick is for"
            " all of them, and --sample for some; leave one out."
        )
    if max_residual is not None:
        check_positive(max_residual, "max_residual", below=1.0)


def say_cone(found: dict[str, Any]) -> None:
    """One line about the rays."""
    if "missed" in found:
        say(
            f"{found['n_rays']} of {found['n_features']} features are rays, proven; a random"
            f" functional is largest at another one with at most {found['missed']:.2g} probability,"
            f" at 95 % confidence (estimate: {found['missed_estimate']:.2g})."
        )
        return
    if not found["exact"]:
        say(
            f"{found['n_rays']} rays; no feature is further from their cone than"
            f" {found['largest_residual']:.3g}, proven."
        )
        return
    zeros = f", {found['n_zero_features']} hold only zeros" if found["n_zero_features"] else ""
    proven, left = found["n_rays"] - found["n_open"], found["n_open"]
    rays = (
        f"{proven} of {found['n_features']} features are extreme rays{zeros}; proven, see"
        " certificate.npz."
    )
    if left:
        rays += (
            f" {left} more {'is' if left == 1 else 'are'} open: kept as rays without proof that"
            " they are needed; without --quick they are decided."
        )
    say(rays)
