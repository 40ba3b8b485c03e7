"""``conecollapse predict``: where new samples belong, by the model that a run kept."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from conecollapse.cli import options
from conecollapse.cli.terminal import say, say_json, working
from conecollapse.io.text import stem

KINDS = (".csv", ".npy")


def predict(
    folder: Annotated[
        Path,
        typer.Argument(
            help="A folder of results of cluster, programs or unmix.", show_default=False
        ),
    ],
    new: Annotated[
        Path,
        typer.Argument(
            help="New samples, in a file or a folder of the same kind.", show_default=False
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help=("File of the results: .csv, or .npy for the values alone (of an image as maps)."),
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file.")] = False,
    as_json: options.Json = False,
) -> None:
    """Say where the samples of NEW belong: the cluster or topic of each, the programs that it uses,
    or the components that it is made of.

    Features and words are those of the run, matched by name, and are prepared as they were then.
    """
    from conecollapse._errors import InvalidInputError
    from conecollapse._files import whole_file
    from conecollapse.runs import predict as ask

    path = out if out is not None else Path(f"{stem(new) or new.name}-predicted.csv")
    if path.suffix not in KINDS:
        raise InvalidInputError(f"--out takes a .csv or .npy file; got {str(path)!r}.")
    if path.exists() and not force:
        raise InvalidInputError(f"{str(path)!r} is there already; name another file, or --force.")
    with working(f"reading {new.name}"):
        found = ask(folder, new)
        with whole_file(path) as part:
            found.write(part, path.suffix)
    n, columns = found.table.n_samples, found.columns
    if found.kind == "cluster":
        sizes: dict[str, float] = {
            str(k): int(count) for k, count in zip(*_counted(columns), strict=True)
        }
        said = ", ".join(f"{name} {count}" for name, count in sizes.items())
    else:
        sizes = {name: float(np.mean(values)) for name, values in columns.items()}
        said = ", ".join(f"{name} {value:.3g}" for name, value in sizes.items())
    if as_json:
        say_json({"file": str(path), "kind": found.kind, "n_samples": n, "found": sizes})
        return
    for note in found.notes:
        say(note)
    what = "clusters (-1 is none)" if found.kind == "cluster" else "means"
    say(f"{n} new samples; {what}: {said}; each in {path}")


def _counted(columns: Any) -> Any:
    return np.unique(columns.get("label", columns["cluster"]), return_counts=True)
