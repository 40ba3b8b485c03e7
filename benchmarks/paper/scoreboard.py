"""The scoreboard: the scores of recorded runs by dataset and method, in Markdown, beside the
numbers of the paper's Table 2.

Each cell is a mean over seeds with its standard deviation; each row has a rank-sum test of our
method against the best other method.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.stats import ranksums

from benchmarks.paper.methods import PROTOCOLS
from benchmarks.paper.records import Record
from conecollapse.datasets import info, list_datasets

Column = tuple[str, str]  # protocol and method
OURS: Column = ("ours", "GraphCCNMF")
PAPER: Column = ("paper", "CC-NMF")
BRIEF: dict[Column, str] = {
    PAPER: "paper's CC-NMF",
    ("printed", "CC-NMF"): "as printed",
    ("graph", "CC-NMF"): "on a graph",
    ("others", "k-means"): "k-means",
    ("others", "spherical k-means"): "spherical k-means",
    ("others", "spectral"): "spectral",
    OURS: "`GraphCCNMF`",
}
AGAINST = "ours against the best other method (rank-sum test)"


@dataclass(frozen=True)
class Cell:
    """Scores of one method on one dataset, one for each seed."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))

    def __str__(self) -> str:
        spread = f" ± {np.std(self.values):.3f}" if len(self.values) > 1 else ""
        return f"{self.mean:.3f}{spread}"


@dataclass(frozen=True)
class Scoreboard:
    """A row for each dataset, a column for each protocol and method, in the order in which they are
    shown."""

    rows: tuple[str, ...]
    columns: tuple[Column, ...]
    cells: dict[tuple[str, Column], Cell]
    notes: dict[str, str]  # how our copy of a dataset differs from the paper's

    def best(self, row: str) -> float:
        """The best measured mean of a row; the paper's numbers do not count."""
        return max(
            self.cells[row, column].mean
            for column in self.columns
            if (row, column) in self.cells and column[0] != "paper"
        )

    def p_value(self, row: str) -> str:
        """Rank-sum test of ours against the best other method of the row: which is better, and
        p."""
        others = [
            c for c in self.columns if c[0] not in ("ours", "paper") and (row, c) in self.cells
        ]
        if (row, OURS) not in self.cells or not others:
            return ""
        rival = max(others, key=lambda c: self.cells[row, c].mean)
        ours, theirs = self.cells[row, OURS], self.cells[row, rival]
        if len(ours.values) < 2 or len(theirs.values) < 2:
            return ""
        p = float(ranksums(ours.values, theirs.values).pvalue)
        sign = ">" if ours.mean > theirs.mean else "<" if ours.mean < theirs.mean else "="
        return f"{sign} {rival[1]} ({title(rival[0]).lower()}), p = {p:.2g}"

    def means(self) -> dict[Column, float]:
        """Mean over the datasets, for columns that have all of them."""
        return {
            column: float(np.mean([self.cells[row, column].mean for row in self.rows]))
            for column in self.columns
            if all((row, column) in self.cells for row in self.rows)
        }


def make_scoreboard(
    records: Iterable[Record], score: str = "purity", protocols: Iterable[str] | None = None
) -> Scoreboard:
    """The scoreboard of one score, with a column of the paper's numbers if the score is purity."""
    wanted = None if protocols is None else set(protocols)
    values: dict[tuple[str, Column], list[float]] = defaultdict(list)
    notes: dict[str, str] = {}
    for record in records:
        if wanted is None or record.protocol in wanted:
            values[record.dataset, (record.protocol, record.method)].append(
                float(getattr(record, score))
            )
            notes[record.dataset] = record.differs
    cells = {key: Cell(tuple(scores)) for key, scores in values.items()}
    rows = tuple(name for name in list_datasets() if name in notes)
    columns = list(dict.fromkeys(column for _, column in cells))
    if score == "purity":
        for row in rows:
            purity = info(row).purity if row != "DIGITS" else {}
            if PAPER[1] in purity:
                cells[row, PAPER] = Cell((purity[PAPER[1]],))
        columns.insert(0, PAPER)
    return Scoreboard(rows, tuple(columns), cells, notes)


def title(protocol: str) -> str:
    """How a protocol is named in the scoreboard.

    Examples
    --------
    >>> title("printed"), title("paper")
    ('As printed', 'Paper')
    """
    return PROTOCOLS.get(protocol, protocol.capitalize())


def markdown(scoreboard: Scoreboard) -> str:
    """The scoreboard in Markdown: the best measured mean of each row in bold, a star where our data
    differ from the paper's."""
    head = [
        "set",
        *(f"{title(protocol)}: {method}" for protocol, method in scoreboard.columns),
        AGAINST,
    ]
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    for row in scoreboard.rows:
        texts = [row + ("*" if scoreboard.notes[row] else "")]
        texts += [_text(scoreboard, row, column) for column in scoreboard.columns]
        lines.append("| " + " | ".join([*texts, scoreboard.p_value(row)]) + " |")
    means = scoreboard.means()
    lines.append(
        "| mean | "
        + " | ".join(f"{means[c]:.3f}" if c in means else "" for c in scoreboard.columns)
        + " | |"
    )
    lines += ["", *(f"\\* {row}: {note}" for row, note in scoreboard.notes.items() if note)]
    return "\n".join(lines) + "\n"


def brief(scoreboard: Scoreboard) -> str:
    """The scoreboard's seven main columns, means only, for the README; the best measured mean in
    bold."""
    columns = [column for column in BRIEF if column in scoreboard.columns]
    lines = [
        "| set | " + " | ".join(BRIEF[c] for c in columns) + " |",
        "| --- |" + " --- |" * len(columns),
    ]
    means = scoreboard.means()
    scores = {
        row: {c: scoreboard.cells[row, c].mean for c in columns if (row, c) in scoreboard.cells}
        for row in scoreboard.rows
    }
    scores["mean"] = {c: means[c] for c in columns if c in means}
    for row, values in scores.items():
        best = max((value for c, value in values.items() if c[0] != "paper"), default=0.0)
        texts = [
            _brief_text(c, values, best, 2 if c == PAPER and row != "mean" else 3) for c in columns
        ]
        lines.append(
            f"| {row}{'*' if scoreboard.notes.get(row) else ''} | " + " | ".join(texts) + " |"
        )
    return "\n".join(lines) + "\n"


def _brief_text(column: Column, values: dict[Column, float], best: float, digits: int) -> str:
    if column not in values:
        return ""
    text = f"{values[column]:.{digits}f}"
    return f"**{text}**" if column[0] != "paper" and text == f"{best:.{digits}f}" else text


def _text(scoreboard: Scoreboard, row: str, column: Column) -> str:
    cell = scoreboard.cells.get((row, column))
    if cell is None:
        return ""
    if column[0] == "paper":
        return f"{cell.mean:.2f}"
    return f"**{cell}**" if cell.mean >= scoreboard.best(row) - 1e-12 else str(cell)
