"""Records: what the benchmarks printed, and everything in the documentation that is drawn from it.

python -m benchmarks.records                # draw README.md and the pages of docs anew
python -m benchmarks.records nnls novelty   # run these benchmarks before, and keep what they print

A record is a file ``docs/results/NAME.txt``: the command, the commit that it measured, and what it
printed. (Studies of many runs keep one line of JSON for each instead.) A page names what is drawn
in a comment, ``<!-- drawn: nnls -->``, and what follows up to ``<!-- end -->`` is written by this
module. Numbers are never typed into a page.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Callable

from benchmarks import summaries
from benchmarks.summaries import RESULTS, ROOT, Record, read_record, source

PAGES = ("README.md", "docs/measurements.md", "docs/what-reproduces.md")
COMMANDS = {
    "cones": "python benchmarks/bench_cone.py",
    "awkward": "python benchmarks/awkward_tables.py",
    "hulls": "python benchmarks/bench_hull.py --limit 60",
    "recovery": "python benchmarks/recovery.py",
    "extreme": "python benchmarks/extreme.py",
    "nnls": "python benchmarks/bench_nnls.py",
    "nnls-structured": "python benchmarks/bench_nnls.py --structured",
    "nnls-condition": "python benchmarks/nnls_condition.py",
    "simplex": "python benchmarks/bench_simplex.py",
    "nmf": "python benchmarks/bench_nmf.py",
    "ccnmf": "python benchmarks/bench_ccnmf.py --processor",
    "ccnmf-synthetic": "python benchmarks/bench_ccnmf.py synthetic --processor",
    "mixtures": "python benchmarks/mixtures.py sets",
    "mixtures-bad": "python benchmarks/mixtures.py bad",
    "mixtures-cells": "python benchmarks/mixtures.py cells",
    "mixtures-family": "python benchmarks/mixtures.py family 10",
    "signatures": "python benchmarks/mixtures.py signatures",
    "novelty": "python benchmarks/novelty.py paper scikit-learn",
    "novelty-other": "python benchmarks/novelty.py other planted",
    "few-labels": "python benchmarks/few_labels.py",
    "missing": "python benchmarks/missing.py",
    "receptor": "python benchmarks/receptor.py",
    "ranks": "python benchmarks/ranks.py --families dense counts",
    "catalogue": "python benchmarks/catalogue.py",
    "consensus": "python benchmarks/consensus.py --draws 2",
    "bootstrap": "python benchmarks/bootstrap.py",
    "sample-cones": "python benchmarks/sample.py cones 2000",
    "sample-until": "python benchmarks/sample.py until",
    "sample-amlall": "python benchmarks/sample.py amlall --out docs/figures",
    "sample-samson": "python benchmarks/sample.py samson",
    "sample-memory": "python benchmarks/bench_sample.py",
    "stream": "python benchmarks/memory_stream.py --verify",
    "corpus": "python benchmarks/sparse_scale.py --verify",
    "workers": "python benchmarks/workers.py",
    "first-call": "python benchmarks/bench_first_call.py --repeats 2",
}
WIDTH = 100
BLOCK = re.compile(r"(<!-- drawn: ([\w -]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def run(name: str) -> None:
    """Run a benchmark and keep what it prints."""
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    program, *arguments = shlex.split(COMMANDS[name])
    done = subprocess.run(
        [{"python": sys.executable}[program], *arguments],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    keep(name, commit(), done.stdout)


def keep(name: str, measured: str, printed: str) -> None:
    text = f"$ {COMMANDS[name]}\n# commit {measured}\n{printed.strip()}\n"
    (RESULTS / f"{name}.txt").write_text(text, encoding="utf-8")


def commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


def draw(text: str) -> str:
    """The text of a page with all that is drawn in it."""
    return BLOCK.sub(lambda block: f"{block[1]}{content(block[2]).strip()}\n{block[3]}", text)


def content(words: str) -> str:
    """What stands for ``printed NAME``, all that a benchmark printed; for ``command NAME``; or for
    a function of `summaries`."""
    kind, _, name = words.partition(" ")
    if kind == "printed":
        return f"{source(name)}:\n\n```text\n{read_record(name).results}\n```"
    if kind == "summary":
        summary: Callable[[Record], str] = getattr(summaries, name.replace("-", "_"))
        return f"{source(name)}:\n\n{wrap(summary(read_record(name)))}"
    table: Callable[[], str] = getattr(summaries, kind.replace("-", "_"))
    return wrap(table())


def wrap(text: str) -> str:
    """Lines of sentences at the width of the pages; tables and code stay as they are."""
    return "\n\n".join(
        part
        if part.startswith(("|", "```"))
        else textwrap.fill(part, WIDTH, break_on_hyphens=False)
        for part in text.strip().split("\n\n")
    )


def main() -> None:
    for name in sys.argv[1:]:
        run(name)
    for page in PAGES:
        path = ROOT / page
        text = path.read_text(encoding="utf-8")
        path.write_text(draw(text), encoding="utf-8")


if __name__ == "__main__":
    main()
