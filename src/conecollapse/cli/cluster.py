"""``conecollapse cluster``: clusters of the samples of a file, the cone of its features, and a folder with both."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from conecollapse.cli import options
from conecollapse.cli.terminal import as_options, say, say_json, working

LISTED = 12  # clusters whose sizes are printed one by one
METHODS = ("graph", "features", "knn", "diffusion")  # as `conecollapse.runs` has them, which takes longer to import


def cluster(
    file: options.File,
    k: Annotated[str, typer.Option("-k", "--clusters", help="Number of clusters, or auto.", show_default=False)],
    labels: Annotated[Path | None, typer.Option(help="Known classes, one for each sample: .txt, .csv, .npy, or y of an .npz.")] = None,
    out: options.Out = None,
    features_in: options.FeaturesIn = "auto",
    header: options.Header = None,
    names: options.Names = None,
    normalize: options.Normalize = None,
    tfidf: options.TfIdf = False,
    method: Annotated[
        str, typer.Option(help="What is factorized: graph (chosen from the data), features, knn or diffusion (a plain graph).")
    ] = "graph",
    image_shape: options.ImageShape = None,
    prove: options.Prove = False,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Random seed.")] = 0,
    report: options.Report = True,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Cluster the samples of FILE, and find and prove the rays of its features.

    Writes a folder: labels.csv, rays.csv, factors.npz, certificate.npz, run.json and report.html.
    """
    from conecollapse._errors import InvalidInputError
    from conecollapse.io import read_labels, read_table
    from conecollapse.runs import check_folder, prepare

    n_components, shape = options.clusters(k), options.image_shape(image_shape)
    if method not in METHODS:
        raise InvalidInputError(f"--method must be one of {', '.join(METHODS)}; got {method!r}.")
    folder = options.out_folder(out, file, "clusters")
    check_folder(folder, force=force)
    with working(f"reading {file.name}") as progress:
        read = read_table(file, features_in=features_in, image_shape=shape, header=header, names=names)
        table = prepare(read, normalize, tfidf)
        target = None if labels is None else read_labels(labels, table.sample_names, table.n_samples)
        from conecollapse.runs import Interrupted, results, save  # after the file is read: an error in it does not wait for them
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
            raise Interrupted(f"interrupted while clustering; the cone of the features was finished and is in {str(folder)!r}.") from None
        if progress is not None:
            progress("report", 0, 1)
        save(run, folder, options.report_writer(report), force=force)
    found = results(run)
    if as_json:
        say_json(
            {
                "folder": str(folder),
                "orientation": as_options(table.why),
                "read_as": as_options(table.read_as),
                **found,
                "timings": dict(run.timings),
            }
        )
        return
    say_table_read(file.name, table)
    _say_clusters(found)
    say_cone(found)
    say(f"results in {folder}{', report in ' + str(folder / 'report.html') if (folder / 'report.html').exists() else ''}")


def _say_clusters(found: dict[str, Any]) -> None:
    counts = [int(size) for size in found["cluster_sizes"]]
    sizes = ", ".join(str(size) for size in counts) if len(counts) <= LISTED else f"{min(counts)} to {max(counts)}"
    chosen = f" (chosen: {found['rank_reason']})" if found["rank_reason"] else ""
    scores = f"; purity {found['purity']:.3f}, accuracy {found['accuracy']:.3f}" if "purity" in found else ""
    say(f"{found['n_clusters']} clusters of {sizes} samples{chosen}{scores}.")


def say_table_read(name: str, table: Any) -> None:
    """The size of the table, its orientation, and what was taken as heading and names."""
    say(f"{name}: {table.n_samples} samples, {table.n_features} features; {as_options(table.why)}.")
    if table.read_as:
        say(f"{as_options(table.read_as)}.")


def say_cone(found: dict[str, Any]) -> None:
    """One line about the rays."""
    if not found["exact"]:
        say(f"{found['n_rays']} rays; no feature is further from their cone than {found['largest_residual']:.3g}, proven.")
        return
    zeros = f", {found['n_zero_features']} hold only zeros" if found["n_zero_features"] else ""
    proven, left = found["n_rays"] - found["n_open"], found["n_open"]
    rays = f"{proven} of {found['n_features']} features are extreme rays{zeros}; proven, see certificate.npz."
    if left:
        rays += f" {left} more {'is' if left == 1 else 'are'} open: kept as rays without proof that they are needed; --prove decides them."
    say(rays)
