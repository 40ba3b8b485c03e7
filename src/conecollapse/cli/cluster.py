"""``conecollapse cluster``: clusters of the samples of a file, and with ``--rays`` the cone of its
features."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conecollapse.cli import options
from conecollapse.cli.terminal import (
    say,
    say_run_as_json,
    say_table,
    say_table_read,
    say_where,
    working,
)

if TYPE_CHECKING:
    from conecollapse._types import AnyArray
    from conecollapse.io import TableFile
    from conecollapse.runs import ClusterRun, ProgramsRun

WORDS = 8  # of a topic that are printed
COLUMN = "obs:"  # what begins the name of a column in --guide-from
LISTED = 12  # clusters whose sizes are printed one by one


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
    guide_from: Annotated[
        str | None,
        typer.Option(
            help=(
                "Known labels of some samples, which guide the clusters: a file as for --labels, or"
                " obs:NAME for a column as for --label-column."
            )
        ),
    ] = None,
    unlabeled: Annotated[
        str, typer.Option(help="What --guide-from has for a sample without a label.")
    ] = "unknown",
    out: options.Out = None,
    features_in: options.FeaturesIn = "auto",
    header: options.Header = None,
    names: options.Names = None,
    layer: options.Layer = None,
    text_column: options.TextColumn = None,
    stop_words: options.StopWords = None,
    ngrams: options.Ngrams = 1,
    min_df: options.MinDf = None,
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
    rays: Annotated[
        bool, typer.Option("--rays", help="Also find and prove the rays of the features.")
    ] = False,
    seed: options.Seed = 0,
    report: options.Report = True,
    model: options.Model = True,
    write_h5ad: options.WriteH5ad = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Cluster the samples of FILE.

    Writes a folder: labels.csv, factors.npz, run.json and report.html; with --rays also rays.csv
    and certificate.npz, with --guide-from doubted.csv.
    """
    from conecollapse import runs
    from conecollapse._errors import InvalidInputError
    from conecollapse.io import read_table
    from conecollapse.io.matrix import HIGHLY_VARIABLE

    n_components, shape = options.number(k, "clusters"), options.image_shape(image_shape)
    folder = options.out_folder(out, file, "clusters")
    runs.check_folder(folder, force=force)
    if labels is not None and label_column is not None:
        raise InvalidInputError(
            "--labels and --label-column both name the known classes; give one of them."
        )
    if write_h5ad is not None:
        check_h5ad(write_h5ad, file)
    with working(f"reading {file.name}") as progress:
        reading: dict[str, Any] = {"header": header, "names": names, "layer": layer}
        reading |= {"features_in": features_in, "image_shape": shape}
        counted = options.words(stop_words, ngrams, min_df)
        read = read_table(file, text_column=text_column, words=counted, **reading)
        if counted is not None and read.texts is None:
            raise InvalidInputError(
                "--stop-words, --ngrams and --min-df are for texts; name their column with"
                " --text-column, or leave them out."
            )
        features = None if all_features or read.marked is None else HIGHLY_VARIABLE
        table = runs.prepare(read, normalize, tfidf or read.texts is not None, features)
        target = known_classes(file, table, labels, label_column)
        guide = labels_from(file, table, guide_from, unlabeled)
        try:
            run = runs.cluster(
                table,
                n_components,
                method=method,
                target=target,
                guide=guide,
                unlabeled=unlabeled,
                random_state=seed,
                rays=rays,
                layout=report,
                progress=progress,
            )
        except runs.Interrupted as stop:
            options.save_run(stop.finished, folder, model=model, force=force)
            raise runs.Interrupted(
                f"interrupted while the rays were computed; the clusters are in {str(folder)!r}."
            ) from None
        options.save_run(run, folder, report=report, model=model, force=force, progress=progress)
        if write_h5ad is not None:
            _write_h5ad(run, file, write_h5ad)
    if as_json:
        more = {} if write_h5ad is None else {"h5ad": str(write_h5ad)}
        say_run_as_json(run, folder, features=features or "all", **more)
        return
    _say(run, file.name, read.n_features)
    if write_h5ad is not None:
        say(f"data and results in {write_h5ad}")
    say_where(folder)


def _say(run: ClusterRun, name: str, n_read: int) -> None:
    """The table, the clusters, and what else was asked for."""
    table = run.table
    chosen = (
        f"These are the highly variable features that the file marks, of {n_read};"
        " --all-features uses all"
    )
    say_table_read(name, table, chosen if table.preparation.get("features") else "")
    _say_clusters(run.facts())
    if table.texts is not None:
        _say_topics(run)
    if run.cone is not None:
        from conecollapse.cli.rays import say_cone

        say_cone(run.facts())


def _say_clusters(found: dict[str, Any]) -> None:
    from conecollapse.runs.guide import guide_sentence

    counts = [int(size) for size in found["cluster_sizes"]]
    sizes = (
        ", ".join(str(size) for size in counts)
        if len(counts) <= LISTED
        else f"{min(counts)} to {max(counts)}"
    )
    chosen = f" (chosen: {found['rank_reason']})" if found["rank_reason"] else ""
    guided = found.get("guide")
    among = ""
    if "n_scored" in found:
        among = f" (of the {found['n_scored']} samples without a label that guides)"
    scores = (
        f"; purity {found['purity']:.3f}, accuracy {found['accuracy']:.3f}{among}"
        if "purity" in found
        else ""
    )
    if found["rank_curve"]:
        say_curve(found["rank_curve"], found["n_clusters"])
    say(
        f"{found['n_clusters']} cluster{'s' if found['n_clusters'] != 1 else ''} of {sizes}"
        f" samples{chosen}{scores}."
    )
    if guided:
        say(guide_sentence(guided))


def say_curve(curve: dict[str, Any], chosen: int) -> None:
    """The score of each number of clusters that was tried; which was chosen, and which are tied
    with it."""
    columns = (curve[name] for name in ("candidates", "scores", "standard_errors"))
    rows = [
        [
            str(r),
            f"{score:.3f}",
            f"{error:.3f}",
            "chosen" if r == chosen else "tied" if r in curve["ties"] else "",
        ]
        for r, score, error in zip(*columns, strict=True)
    ]
    say_table(["clusters", curve["method"], "standard error", ""], rows)


def _say_topics(run: ClusterRun) -> None:
    """The words of each topic, and documents without known words."""
    for k, words in enumerate(run.markers(WORDS)):
        say(f"  topic {k}: {', '.join(word.name for word in words)}")
    without = int((run.labels < 0).sum())
    if without:
        say(
            f"{without} of {len(run.labels)} documents {'has' if without == 1 else 'have'} no known"
            " words, and so no topic (label -1)."
        )


def known_classes(
    file: Path,
    table: TableFile,
    labels: Path | None,
    column: str | None,
    missing: str | None = None,
) -> AnyArray | None:
    """The known class of each sample: from a file, from a column beside the texts or of ``obs``, or
    none. ``missing`` is written for missing values of ``obs``."""
    import numpy as np

    from conecollapse._errors import InvalidInputError, argument

    if labels is not None:
        from conecollapse.io import read_labels

        return read_labels(labels, table.sample_names, table.n_samples)
    if column is None:
        return None
    if table.text_column is not None:
        from conecollapse.io.documents import read_column

        return np.array(read_column(file, column).texts, dtype=np.str_)
    if file.suffix.lower() != ".h5ad":
        guides = missing is not None
        given = f"--guide-from {COLUMN}{column}" if guides else argument("label_column", column)
        raise InvalidInputError(
            f"{given} is for .h5ad files and beside {argument('text_column', ...)}; name a file"
            f" with {'--guide-from' if guides else '--labels'}."
        )
    from conecollapse.io.h5ad import obs_column, whole_h5ad

    return obs_column(whole_h5ad(file), column, file.name, missing)


def labels_from(
    file: Path, table: TableFile, source: str | None, missing: str | None
) -> AnyArray | None:
    """A label for each sample: from ``obs:`` and a column, or from a file; None without a
    source."""
    if source is None:
        return None
    if source.startswith(COLUMN):
        return known_classes(file, table, None, source.removeprefix(COLUMN), missing)
    return known_classes(file, table, Path(source), None)


def check_h5ad(path: Path, file: Path) -> None:
    """Refuse a place for the results before any work is done."""
    from conecollapse._errors import InvalidInputError, RunFolderError

    if path.suffix.lower() != ".h5ad":
        raise InvalidInputError(f"--write-h5ad takes the name of an .h5ad file; got {str(path)!r}.")
    if path.exists() and file.exists() and path.samefile(file):
        raise InvalidInputError(
            f"--write-h5ad would replace the data in {str(file)!r}; name another file."
        )
    if not path.absolute().parent.is_dir():
        raise RunFolderError(
            f"cannot write {str(path)!r}: there is no folder {str(path.absolute().parent)!r}."
        )


def _write_h5ad(run: ClusterRun, file: Path, path: Path) -> None:
    """The data with the results of ``run`` in ``obs``, ``obsm``, ``varm`` and ``uns``, as
    `conecollapse.scverse.cluster` writes them."""
    from conecollapse.scverse import write_clusters

    with changed_h5ad(run, file, path) as (adata, columns, asked):
        write_clusters(adata, run.model, "conecollapse", columns, asked)
        if run.target is not None and file.suffix.lower() != ".h5ad":
            adata.obs["target"] = run.target


@contextmanager
def changed_h5ad(
    run: ClusterRun | ProgramsRun, file: Path, path: Path
) -> Iterator[tuple[Any, Any, Any]]:
    """The data of a run as an AnnData object, the genes that were used, and the parameters; when
    the block ends, the object is written to ``path``."""
    from conecollapse._files import whole_file
    from conecollapse.io.h5ad import highly_variable, new_anndata, whole_h5ad
    from conecollapse.runs.preparing import chosen_features

    raw = run.table.raw or run.table
    is_h5ad = file.suffix.lower() == ".h5ad" and not file.is_dir()
    adata = whole_h5ad(file) if is_h5ad else new_anndata(raw.X, raw.samples, raw.features)
    columns = chosen_features(highly_variable(adata), bool(run.table.preparation.get("features")))
    yield adata, columns, dict(run.parameters) | {"layer": run.table.layer}
    with whole_file(path) as temporary:
        adata.write_h5ad(temporary)
