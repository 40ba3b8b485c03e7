"""``conecollapse reproduce``: the paper's Table 2 under three protocols, and studies of our own recipe."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from conecollapse._errors import DatasetNotFoundError, InvalidInputError

QUICK = ("DIGITS", "AMLALL", "KHAN", "DUKE")


def reproduce(
    names: Annotated[list[str] | None, typer.Argument(help="Datasets; all that can be found by default.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the results (JSON lines) and of the tables drawn from them.")] = Path("reproduced"),
    study: Annotated[str, typer.Option(help="table (the paper's Table 2), ablation, or constants (leave one dataset out).")] = "table",
    protocol: Annotated[list[str] | None, typer.Option(help="Of the table: ours, outsiders, graph or letter; all by default.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each method.")] = 10,
    jobs: Annotated[int, typer.Option(min=1, help="Processes that share the work.")] = os.cpu_count() or 1,
    quick: Annotated[bool, typer.Option(help="Small sets, three seeds: about two minutes.")] = False,
    redraw: Annotated[bool, typer.Option(help="Draw the tables from the results that are there, and run nothing.")] = False,
) -> None:
    """The paper's Table 2 under three protocols, and studies of our own recipe. Resumable: what is recorded is not run again."""
    from conecollapse.datasets import info
    from conecollapse.experiments import STUDIES, Record, draw, read, run
    from conecollapse.runs import Interrupted

    if study not in STUDIES:
        raise InvalidInputError(f"study must be one of {', '.join(STUDIES)}; got {study!r}.")
    methods = STUDIES[study]
    protocols = list(dict.fromkeys(method.protocol for method in methods))
    wrong = [name for name in protocol or [] if name not in protocols]
    if wrong:
        raise InvalidInputError(f"protocol must be one of {', '.join(protocols)}; got {wrong[0]!r}.")
    chosen = [info(name).name if name.upper() != "DIGITS" else "DIGITS" for name in names or []]
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInputError(f"cannot write to {out}: {error.strerror}; name another folder with --out.") from error
    path = out / f"{study}.jsonl"
    console = Console(stderr=True)

    def report(record: Record, count: int, total: int) -> None:
        if console.is_terminal:
            what = f"{record.dataset} {record.protocol} {record.method} seed {record.seed}"
            console.print(f"{count}/{total} {what}: purity {record.purity:.3f} in {record.seconds:.1f} s", highlight=False)

    if not redraw:
        available = _available(chosen or (QUICK if quick else None), strict=bool(chosen))
        try:
            chosen_seeds = range(3 if quick else seeds)
            run(available, path, seeds=chosen_seeds, protocols=protocol or protocols, methods=methods, jobs=jobs, report=report)
        except KeyboardInterrupt:
            raise Interrupted(f"interrupted; finished runs are kept in {path}, and the same command goes on from there.") from None
    if not read(path):
        raise InvalidInputError(f"{path} has no results; leave out --redraw.")
    print(draw(study, out))
    console.print(f"{len(read(path))} runs in {path}, drawn in {out / study}.md and .html.", highlight=False)


def _available(names: tuple[str, ...] | list[str] | None, *, strict: bool) -> list[str]:
    """The sets that can be had without a download, smallest first; with ``strict`` a missing one is an error."""
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
