"""``conecollapse demo``: what the package does, on included data, in a minute and without the
network."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from conecollapse.cli import options
from conecollapse.cli.installed import warm_up
from conecollapse.cli.terminal import say, say_table, say_where, working


def demo(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder of the data and of the results.")
    ] = Path("conecollapse-demo"),
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Random seed.")] = 0,
    report: options.Report = True,
) -> None:
    """Cluster scikit-learn's digits, compare with two baselines, prove the cone, write a report. No
    network."""
    from conecollapse._errors import RunFolderError
    from conecollapse.runs.folder import check_folder

    check_folder(out / "run", force=True)
    try:
        out.mkdir(parents=True, exist_ok=True)
        _write_digits(out)
    except OSError as error:
        raise RunFolderError(
            f"cannot write to {str(out)!r}: {error.strerror or error}; name another folder with"
            " --out."
        ) from error
    # after the folder is known to be good: an error does not wait for them
    from conecollapse.runs import verify

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # three pixels are always black, as is said below
        with working("clustering the digits") as progress:
            run, rows = _cluster_digits(out, seed, progress)
            folder = out / "run"
            options.save_run(run, folder, report=report, force=True)
            found = verify(folder)
    black = len(run.cone.zero_points)
    say(
        f"Digits: {run.table.n_samples} images of 64 pixels. Each pixel is a point with"
        f" {run.table.n_samples} coordinates."
    )
    say(
        f"  {black} pixels are always black; all {run.cone.n_rays} others are extreme rays, none a"
        " mixture of others."
    )
    say(f"  {found}")
    say("\n  Ten clusters, compared with the true digits (true labels are used only for scoring):")
    say_table(["method", "purity", "seconds"], rows)
    say_where(folder)
    say(
        f"again, from the file: conecollapse cluster {out / 'digits.csv'} -k 10 --labels"
        f" {out / 'labels.txt'} --image-shape 8x8"
    )
    say(f"check it:             conecollapse verify {folder}")


def _cluster_digits(out: Path, seed: int, progress: Any) -> tuple[Any, list[list[str]]]:
    """The digits, read from their files and clustered by CC-NMF and by two baselines; the run and
    the rows of the table."""
    from sklearn.cluster import KMeans

    from conecollapse.estimators import MultiplicativeNMF
    from conecollapse.io import read_labels, read_table
    from conecollapse.metrics import purity_score
    from conecollapse.runs import cluster

    table = read_table(out / "digits.csv", image_shape=(8, 8))
    target = read_labels(out / "labels.txt", None, table.n_samples)
    warm_up()
    run = cluster(table, 10, target=target, random_state=seed, rays=True, progress=progress)
    rows = [["CC-NMF", f"{purity_score(target, run.labels):.3f}", f"{run.timings['clusters']:.1f}"]]
    baselines = {
        "k-means": KMeans(10, n_init=10, random_state=seed),
        "NMF (Lee & Seung)": MultiplicativeNMF(10, random_state=seed),
    }
    for name, model in baselines.items():
        start = time.perf_counter()
        labels = model.fit_predict(table.X)
        rows.append(
            [name, f"{purity_score(target, labels):.3f}", f"{time.perf_counter() - start:.1f}"]
        )
    return run, rows


def _write_digits(out: Path) -> None:
    """As two text files: a table with a heading, and a label in each line."""
    from conecollapse.datasets import load

    digits = load("digits")
    heading = ",".join(["image", *(f"row {j // 8} column {j % 8}" for j in range(64))])
    lines = [
        ",".join([f"digit {i}", *(f"{value:g}" for value in image)])
        for i, image in enumerate(digits.X)
    ]
    (out / "digits.csv").write_text("\n".join([heading, *lines]) + "\n", encoding="utf-8")
    (out / "labels.txt").write_text(
        "\n".join(str(label) for label in digits.y) + "\n", encoding="utf-8"
    )
