"""``conecollapse datasets``: list the datasets, and fetch them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from conecollapse._files import whole_file
from conecollapse.cli import options
from conecollapse.cli.terminal import say, say_json, say_table, working

app = typer.Typer(
    help="The paper's sixteen datasets and scikit-learn's digits.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("list")
def list_all(as_json: options.Json = False) -> None:
    """List all datasets: shape, classes, and where to get each."""
    from conecollapse.datasets import info, list_datasets

    entries = [info(name) for name in list_datasets()]
    found = [
        {
            "name": entry.name,
            "domain": entry.domain,
            "n_samples": entry.n_samples,
            "n_features": entry.n_features,
            "n_classes": entry.n_classes,
            "where": _where(entry),
        }
        for entry in entries
    ]
    if as_json:
        say_json({"datasets": found})
        return
    say_table(
        ["name", "domain", "samples", "features", "classes", "where"],
        [[str(cell) for cell in row.values()] for row in found],
    )


@app.command()
def fetch(
    name: Annotated[
        str,
        typer.Argument(help="A name from the list, in upper or lower case.", show_default=False),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Write it to this .npz file, which cluster and rays read."
        ),
    ] = None,
    counts: Annotated[
        bool, typer.Option("--counts", help="For text: counts of words instead of TF-IDF weights.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Find or download a dataset; with --out, write it to a file for the other commands (its y
    serves as --labels)."""
    from conecollapse._errors import InvalidInputError
    from conecollapse.datasets import load

    if out is not None and out.suffix != ".npz":
        raise InvalidInputError(f"--out takes a file that ends in .npz; got {str(out)!r}.")
    with working(f"looking for {name}"):
        dataset = load(name, weighting="counts" if counts else "tfidf")
        if out is not None:
            _write(out, dataset)
    if as_json:
        shape = {
            "n_samples": dataset.n_samples,
            "n_features": dataset.n_features,
            "n_classes": dataset.n_classes,
        }
        say_json(
            {
                "name": dataset.name,
                **shape,
                "source": dataset.source,
                "differs": dataset.differs,
                "file": None if out is None else str(out),
            }
        )
        return
    say(
        f"{dataset.name}: {dataset.n_samples} samples, {dataset.n_features} features,"
        f" {dataset.n_classes} classes; {dataset.source}."
    )
    if dataset.differs:
        say(f"differs from the paper's: {dataset.differs}.")
    say(f"cite: {dataset.info.citation}")
    if out is not None:
        images = (
            ""
            if dataset.image_shape is None
            else f" --image-shape {dataset.image_shape[0]}x{dataset.image_shape[1]}"
        )
        say(
            f"written to {out}; for instance: conecollapse cluster {out} -k {dataset.n_classes}"
            f" --labels {out}{images}"
        )


def _where(entry: Any) -> str:
    from conecollapse.datasets.files import find_sets

    if not entry.files:
        return "installed"
    if next(find_sets(entry), None) is not None:
        return "on this machine"
    return "can be fetched" if entry.downloadable else f"by hand: {entry.page}"


def _write(path: Path, dataset: Any) -> None:
    """As the datasets' own layout: features x samples, plain arrays; under a temporary name
    first."""
    import numpy as np
    import scipy.sparse as sp

    arrays: dict[str, Any] = {"y": dataset.y}
    if sp.issparse(dataset.X):  # the CSR parts of X are the CSC parts of its transpose
        X = dataset.X
        arrays |= {
            "data": X.data,
            "indices": X.indices,
            "indptr": X.indptr,
            "shape": np.array(X.shape[::-1]),
        }
    else:
        arrays["X"] = dataset.X.T
    if dataset.feature_names is not None:
        arrays["vocab"] = np.array(dataset.feature_names, dtype=np.str_)
    if dataset.target_names is not None:
        arrays["class_names"] = np.array(dataset.target_names, dtype=np.str_)
    with whole_file(path) as temporary, open(temporary, "xb") as file:
        np.savez_compressed(file, **arrays)
