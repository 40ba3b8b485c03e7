"""From the shell: few labels to labels for all cells and new ones, programs, topics of texts and of
new texts. Each line that begins with $ is a command as it is typed.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from pathlib import Path

import numpy as np
import pandas as pd

from conecollapse.cli import main as command

CELLS = """
$ conecollapse cluster cells.csv -k 3 --guide-from few.csv --out typed
$ conecollapse predict typed new.csv --out types.csv
$ conecollapse programs cells.csv -k 3 --runs 5 --out programs
$ conecollapse predict programs new.csv --out usages.csv
$ conecollapse verify typed
"""
TEXTS = """
$ conecollapse cluster reviews.csv -k 2 --text-column body --ngrams 2 --out topics
$ conecollapse predict topics later.csv --out later-topics.csv
"""
WORDS = ("soup bread waiter menu dinner", "train airport ticket luggage station")


def data(folder: Path) -> None:
    """Cells of three types, of which nine are labelled; reviews of two kinds."""
    rng = np.random.default_rng(0)
    types = np.arange(90) % 3
    rates = 0.3 + 4.0 * (np.arange(45) // 15 == types[:, None])
    cells = pd.DataFrame(rng.poisson(rates), columns=[f"GENE{j}" for j in range(45)])
    cells.index = pd.Index([f"cell{i}" for i in range(90)], name="cell")
    cells[:75].to_csv(folder / "cells.csv")
    cells[75:].to_csv(folder / "new.csv")
    known = ["ABC"[k] if i < 9 else "unknown" for i, k in enumerate(types[:75])]
    few = pd.DataFrame({"cell": cells.index[:75], "type": known})
    few.to_csv(folder / "few.csv", index=False)
    texts = [" ".join(rng.choice(WORDS[i % 2].split(), 5)) for i in range(44)]
    pd.DataFrame({"body": texts[:40]}).to_csv(folder / "reviews.csv", index=False)
    pd.DataFrame({"body": texts[40:]}).to_csv(folder / "later.csv", index=False)


def main(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    data(folder)
    with contextlib.chdir(folder):
        for line in (CELLS + TEXTS).splitlines():
            if line:
                try:
                    command(shlex.split(line)[2:])
                except SystemExit as ended:  # a command ends its process
                    if ended.code:
                        raise
    names = ("types.csv", "later-topics.csv")
    types, topics = (pd.read_csv(os.path.join(folder, name)) for name in names)
    return types, topics


if __name__ == "__main__":
    main(Path())
