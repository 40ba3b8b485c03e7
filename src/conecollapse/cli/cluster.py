"""``conecollapse cluster``: clusters of the samples of a file, the cone of its features, and a
folder with both."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from conecollapse.cli import options
from conecollapse.cli.terminal import as_options, say, say_json, say_table, working

WORDS = 8  # of a topic that are printed
LISTED = 12  # clusters whose sizes are printed one by one
# as `conecollapse.runs` has them, which takes longer to import
METHODS = ("graph", "features", "knn", "diffusion")


def cluster(
    file: options.File,
    k: Annotated[
        str,
        typer.Option("-k", "--clusters", help="Number of clusters, or auto.", show_default=False),
    ],
    labels: Annotated[
        Path | None,
        typer.Option(help="Known classes, one for each sample: .txt, .csv, .npy, or y of an .npz."),
    ] = None,
    label_column: Annotated[
        str | None,
        typer.Option(
            help=(
                "Known classes: a column of FILE beside --text-column, or of obs in an .h5ad file."
            )
        ),
    ] = None,
    out: options.Out = None,
    features_in: options.FeaturesIn = "auto",
    header: options.Header = None,
    names: options.Names = None,
    layer: options.Layer = None,
    text_column: options.TextColumn = None,
    normalize: options.Normalize = None,
    all_features: options.AllFeatures = False,
    tfidf: options.TfIdf = False,
    method: Annotated[
        str,
        typer.Option(
            help=(
                "What is factorized: graph (chosen from the data), features, knn or diffusion (a"
                " plain graph)."
            )
        ),
    ] = "graph",
    image_shape: options.ImageShape = None,
    prove: options.Prove = False,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Random seed.")] = 0,
    report: options.Report = True,
    write_h5ad: Annotated[
        Path | None, typer.Option(help="Also write an .h5ad file with the data and the results.")
    ] = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Cluster the samples of FILE, and find and prove the rays of its features.

    Writes a folder: labels.csv, rays.csv, factors.npz, certificate.npz, run.json and report.html.
    """
    from conecollapse._errors import InvalidInputError
    from conecollapse.cli.sources import check_h5ad, known_classes, write_results
    from conecollapse.io import read_table
    from conecollapse.io.h5ad import HIGHLY_VARIABLE
    from conecollapse.runs import check_folder, prepare
    from conecollapse.runs.asked import check_clusters, check_image_shape

    n_components, shape = options.number(k, "clusters"), options.image_shape(image_shape)
    if method not in METHODS:
        raise InvalidInputError(f"--method must be one of {', '.join(METHODS)}; got {method!r}.")
    folder = options.out_folder(out, file, "clusters")
    check_folder(folder, force=force)
    options.check_labels(labels, label_column)
    if write_h5ad is not None:
        check_h5ad(write_h5ad, file)
    with working(f"reading {file.name}") as progress:
        reading: dict[str, Any] = {
            "header": header,
            "names": names,
            "layer": layer,
            "text_column": text_column,
        }
        read = read_table(file, features_in=features_in, image_shape=shape, **reading)
        features = None if all_features or read.marked is None else HIGHLY_VARIABLE
        table = prepare(read, normalize, tfidf or read.texts is not None, features)
        target = known_classes(file, table, labels, label_column)
        check_clusters(n_components, table)
        check_image_shape(shape, table.n_features)
        # after the file is read: an error in it does not wait for them
        from conecollapse.runs import Interrupted, results, save
        from conecollapse.runs import cluster as run_cluster

        try:
            run = run_cluster(
                table,
                n_components,
                method=method,
                target=target,
                random_state=seed,
                image_shape=shape,
                prove=prove,
                progress=progress,
            )
        except Interrupted as stop:
            if stop.finished is None:
                raise
            save(stop.finished, folder, force=force)
            raise Interrupted(
                "interrupted while clustering; the cone of the features was finished and is in"
                f" {str(folder)!r}."
            ) from None
        if progress is not None:
            progress("report", 0, 1)
        save(run, folder, options.report_writer(report), force=force)
        if write_h5ad is not None:
            write_results(run, file, write_h5ad)
    found = results(run)
    if as_json:
        say_json(
            {
                "folder": str(folder),
                "orientation": as_options(table.why),
                "read_as": as_options(table.read_as),
                "features": features or "all",
                **({} if write_h5ad is None else {"h5ad": str(write_h5ad)}),
                **found,
                "timings": dict(run.timings),
            }
        )
        return
    say_table_read(file.name, table)
    if features is not None:
        say(
            f"These are the highly variable features that the file marks, of {read.n_features};"
            " --all-features uses all."
        )
    _say_clusters(found)
    if table.texts is not None:
        say_topics(run)
    say_cone(found)
    if write_h5ad is not None:
        say(f"data and results in {write_h5ad}")
    page = folder / "report.html"
    say(f"results in {folder}" + (f", report in {page}" if page.exists() else ""))


def _say_clusters(found: dict[str, Any]) -> None:
    counts = [int(size) for size in found["cluster_sizes"]]
    sizes = (
        ", ".join(str(size) for size in counts)
        if len(counts) <= LISTED
        else f"{min(counts)} to {max(counts)}"
    )
    chosen = f" (chosen: {found['rank_reason']})" if found["rank_reason"] else ""
    scores = (
        f"; purity {found['purity']:.3f}, accuracy {found['accuracy']:.3f}"
        if "purity" in found
        else ""
    )
    if found["rank_curve"]:
        _say_curve(found["rank_curve"], found["n_clusters"])
    say(
        f"{found['n_clusters']} cluster{'s' if found['n_clusters'] != 1 else ''} of {sizes}"
        f" samples{chosen}{scores}."
    )


def _say_curve(curve: dict[str, Any], chosen: int) -> None:
    """The score of each number of clusters that was tried; which was chosen, and which are tied
    with it."""
    rows = [
        [
            str(r),
            f"{score:.3f}",
            f"{error:.3f}",
            "chosen" if r == chosen else "tied" if r in curve["ties"] else "",
        ]
        for r, score, error in zip(
            curve["candidates"], curve["scores"], curve["standard_errors"], strict=True
        )
    ]
    say_table(["clusters", curve["method"], "standard error", ""], rows)


def say_topics(run: Any) -> None:
    """The words of each topic, and documents without known words."""
    for k, words in enumerate(run.top_features(WORDS)):
        say(f"  topic {k}: {', '.join(word.name for word in words if word.lead > 0)}")
    without = int((run.labels < 0).sum())
    if without:
        say(
            f"{without} of {len(run.labels)} documents {'has' if without == 1 else 'have'} no known"
            " words, and so no topic (label -1)."
        )


def say_table_read(name: str, table: Any) -> None:
    """The size of the table, its orientation, and what was taken as heading and names."""
    say(f"{name}: {table.n_samples} samples, {table.n_features} features; {as_options(table.why)}.")
    if table.read_as:
        say(f"{as_options(table.read_as)}.")


def say_cone(found: dict[str, Any]) -> None:
    """One line about the rays."""
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
            " they are needed; --prove decides them."
        )
    say(rays)
