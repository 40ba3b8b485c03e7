"""``conecollapse rays``: the extreme rays of the features of a file, exact or few."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from conecollapse.cli import options
from conecollapse.cli.cluster import say_cone, say_table_read
from conecollapse.cli.terminal import as_options, say, say_json, working

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
    out: options.Out = None,
    features_in: options.FeaturesIn = "auto",
    header: options.Header = None,
    names: options.Names = None,
    layer: options.Layer = None,
    text_column: options.TextColumn = None,
    normalize: options.Normalize = None,
    tfidf: options.TfIdf = False,
    image_shape: options.ImageShape = None,
    prove: options.Prove = False,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Find and prove the rays of the features of FILE: which of them generate all others.

    Exact, unless --max-residual or --max-rays asks for an epsilon-cone of few rays. Writes a
    folder: rays.csv, factors.npz, certificate.npz and run.json.
    """
    from conecollapse._checks import check_positive
    from conecollapse._errors import InvalidInputError
    from conecollapse.io import read_table
    from conecollapse.runs import check_folder, prepare
    from conecollapse.runs.asked import check_image_shape

    if mass and max_rays is None and max_residual is None:
        raise InvalidInputError(
            "--mass is for few rays, and all are asked for; add --max-rays or --max-residual, or"
            " leave it out."
        )
    if max_residual is not None:
        check_positive(max_residual, "max_residual", below=1.0)
    shape = options.image_shape(image_shape)
    folder = options.out_folder(out, file, "rays")
    check_folder(folder, force=force)
    with working(f"reading {file.name}") as progress:
        reading: dict[str, Any] = {
            "header": header,
            "names": names,
            "layer": layer,
            "text_column": text_column,
        }
        read = read_table(file, features_in=features_in, image_shape=shape, **reading)
        table = prepare(read, normalize, tfidf or read.texts is not None)
        check_image_shape(shape, table.n_features)
        # after the file is read: an error in it does not wait for them
        from conecollapse.runs import rays as run_rays
        from conecollapse.runs import results, save

        run = run_rays(
            table,
            max_residual=max_residual,
            max_rays=max_rays,
            weighting="mass" if mass else "unit",
            image_shape=shape,
            prove=prove,
            progress=progress,
        )
        save(run, folder, force=force)
    found = results(run)
    called = [str(name) for name in table.features[run.cone.ray_indices]]
    if as_json:
        say_json(
            {
                "folder": str(folder),
                "orientation": as_options(table.why),
                "read_as": as_options(table.read_as),
                **found,
                "rays": called,
                "timings": dict(run.timings),
            }
        )
        return
    say_table_read(file.name, table)
    say_cone(found)
    more = f" and {len(called) - SHOWN} more, in rays.csv" if len(called) > SHOWN else ""
    say(f"rays: {', '.join(called[:SHOWN])}{more}")
    say(f"results in {folder}")
