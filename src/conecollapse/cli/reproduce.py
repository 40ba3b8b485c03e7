"""``conecollapse reproduce``: measure the paper's Table 2, and study our own recipe."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from conecollapse._errors import DatasetNotFoundError, InvalidInputError

QUICK = ("DIGITS", "AMLALL", "KHAN", "DUKE")


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(help="Datasets; by default all that are on this machine.")
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder of the results (JSON lines) and of the scoreboards.")
    ] = Path("reproduced"),
    study: Annotated[
        str,
        typer.Option(
            help="scoreboard (the paper's Table 2), ablation or constants (one dataset left out)."
        ),
    ] = "scoreboard",
    protocol: Annotated[
        list[str] | None,
        typer.Option(
            help=(
                "For the scoreboard: ours, others, graph (the paper's methods on a graph) or"
                " printed (the same as printed); default: all."
            )
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each method on each dataset.")] = 10,
    jobs: Annotated[int, typer.Option(min=1, help="Number of processes.")] = os.cpu_count() or 1,
    quick: Annotated[
        bool, typer.Option(help="Four small datasets, three seeds: about two minutes.")
    ] = False,
    redraw: Annotated[
        bool, typer.Option(help="Draw the scoreboard from the recorded results, and run nothing.")
    ] = False,
) -> None:
    """Measure the methods of the paper's Table 2, ours and others on the same datasets. Runs that
    are already recorded are not repeated."""
    from conecollapse.datasets import info
    from conecollapse.experiments import STUDIES, Record, draw, read, run
    from conecollapse.runs import Interrupted

    if study not in STUDIES:
        raise InvalidInputError(f"--study must be one of {', '.join(STUDIES)}; got {study!r}.")
    methods = STUDIES[study]
    protocols = list(dict.fromkeys(method.protocol for method in methods))
    wrong = [name for name in protocol or [] if name not in protocols]
    if wrong:
        raise InvalidInputError(
            f"--protocol must be one of {', '.join(protocols)}; got {wrong[0]!r}."
        )
    chosen = [info(name).name if name.upper() != "DIGITS" else "DIGITS" for name in names or []]
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInputError(
            f"cannot write to {out}: {error.strerror}; name another folder with --out."
        ) from error
    path = out / f"{study}.jsonl"
    console = Console(stderr=True)

    def report(record: Record, count: int, total: int) -> None:
        if console.is_terminal:
            what = f"{record.dataset} {record.protocol} {record.method} seed {record.seed}"
            console.print(
                f"{count}/{total} {what}: purity {record.purity:.3f} in {record.seconds:.1f} s",
                highlight=False,
            )

    if not redraw:
        available = _available(chosen or (QUICK if quick else None), strict=bool(chosen))
        try:
            chosen_seeds = range(3 if quick else seeds)
            run(
                available,
                path,
                seeds=chosen_seeds,
                protocols=protocol or protocols,
                methods=methods,
                jobs=jobs,
                report=report,
            )
        except KeyboardInterrupt:
            raise Interrupted(
                f"interrupted; finished runs are kept in {path}, and the same command continues"
                " from there."
            ) from None
    if not read(path):
        raise InvalidInputError(f"{path} has no results; leave out --redraw.")
    print(draw(study, out))
    console.print(
        f"{len(read(path))} runs in {path}, drawn in {out / study}.md and .html.", highlight=False
    )


def _available(names: tuple[str, ...] | list[str] | None, *, strict: bool) -> list[str]:
    """The datasets that are on this machine, smallest first; with ``strict`` a missing one is an
    error."""
    from conecollapse.datasets import list_datasets, load

    found = []
    for name in names or list_datasets():
        try:
            dataset = load(name, download=False)
        except DatasetNotFoundError:
            if strict:
                raise
            continue
        found.append((dataset.X.nnz if hasattr(dataset.X, "nnz") else dataset.X.size, dataset.name))
    return [name for _, name in sorted(found)]
