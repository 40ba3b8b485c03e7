"""The three studies, and the table of each."""

from __future__ import annotations

from pathlib import Path

from benchmarks.paper.ablation import ABLATION, CONSTANTS, leave_one_out
from benchmarks.paper.methods import METHODS, Method
from benchmarks.paper.records import Record, read
from benchmarks.paper.scoreboard import make_scoreboard, markdown

STUDIES: dict[str, tuple[Method, ...]] = {
    "scoreboard": METHODS,
    "ablation": ABLATION,
    "constants": CONSTANTS,
}


def draw(study: str, folder: Path) -> str:
    """The table of the records ``<study>.jsonl`` in the folder."""
    records = read(folder / f"{study}.jsonl")
    order = {(method.protocol, method.name): place for place, method in enumerate(STUDIES[study])}
    records.sort(key=lambda record: order.get((record.protocol, record.method), len(order)))
    text = markdown(make_scoreboard(records))
    if study == "constants":
        text += describe_left_out(records)
    return text


def describe_left_out(records: list[Record]) -> str:
    """What the constants that are chosen on the other datasets give on each."""
    score, chosen = leave_one_out(records)
    lines = [
        "",
        f"Leave one dataset out, over the {len(chosen)} datasets that have all settings: mean"
        f" purity {score:.3f}.",
        "",
        *(
            f"- {name}: {setting} chosen on the other datasets, purity {value:.3f}"
            for name, (setting, value) in chosen.items()
        ),
    ]
    return "\n".join(lines) + "\n"
