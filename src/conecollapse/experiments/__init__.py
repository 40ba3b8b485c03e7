"""The scoreboard: the methods of the paper's Table 2, ours and other methods (k-means, spectral),
run, recorded and compared.

`STUDIES` also has the ablation of our own recipe, and the choice of its constants with one dataset
left out.
"""

from __future__ import annotations

from pathlib import Path

from conecollapse._files import whole_file
from conecollapse.experiments.ablation import ABLATION, CONSTANTS, leave_one_out
from conecollapse.experiments.methods import METHODS, PROTOCOLS, Method
from conecollapse.experiments.records import Record, read
from conecollapse.experiments.runs import run, run_once
from conecollapse.experiments.scoreboard import Scoreboard, brief, html, make_scoreboard, markdown

STUDIES: dict[str, tuple[Method, ...]] = {
    "scoreboard": METHODS,
    "ablation": ABLATION,
    "constants": CONSTANTS,
}

__all__ = [
    "METHODS",
    "PROTOCOLS",
    "STUDIES",
    "Method",
    "Record",
    "Scoreboard",
    "brief",
    "draw",
    "html",
    "leave_one_out",
    "make_scoreboard",
    "markdown",
    "read",
    "run",
    "run_once",
]


def draw(study: str, folder: Path) -> str:
    """Draw ``<study>.md`` and ``<study>.html`` from ``<study>.jsonl`` in the folder; returns the
    Markdown text."""
    records = read(folder / f"{study}.jsonl")
    order = {(method.protocol, method.name): place for place, method in enumerate(STUDIES[study])}
    records.sort(key=lambda record: order.get((record.protocol, record.method), len(order)))
    scoreboard = make_scoreboard(records)
    text = markdown(scoreboard)
    if study == "constants":
        score, chosen = leave_one_out(records)
        lines = [
            f"- {name}: {setting} chosen on the other datasets, purity {value:.3f}"
            for name, (setting, value) in chosen.items()
        ]
        text += (
            "\n".join(
                [
                    "",
                    (
                        f"Leave one dataset out, over the {len(chosen)} datasets that have all"
                        f" settings: mean purity {score:.3f}."
                    ),
                    "",
                    *lines,
                ]
            )
            + "\n"
        )
    for suffix, content in (("md", text), ("html", html(scoreboard))):
        with whole_file(folder / f"{study}.{suffix}") as part:
            part.write_text(content, encoding="utf-8")
    return text
