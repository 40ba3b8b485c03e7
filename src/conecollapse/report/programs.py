"""The page of `conecollapse programs`: how stable each program is, its genes, and the batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from conecollapse.plots.style import colour, figure
from conecollapse.report.parts import (
    Bar,
    Card,
    Cards,
    Chart,
    Page,
    Pairs,
    Part,
    Section,
    Text,
    how_it_was_made,
    listed,
    short,
)
from conecollapse.runs.gene_programs import OF_BATCHES

TOP = 10  # genes of a card
LEADING = 3  # genes that name a program
UNSURE = 0.9  # stability below which a program is said to depend on the start
STABILITY = (
    "How alike a program is in all runs from random starts: 1 where every run found it. A program"
    f" below {UNSURE} depends on the start, and with other runs could be another."
)
USAGE = "The mean share of a cell that each program explains."


def contents(run: Any) -> Page:
    """Collect what the page of ``run`` shows."""
    unsure = [k for k, value in enumerate(run.stability) if value < UNSURE]
    certain = (
        f"{listed([f'Program {k}' for k in unsure])} differ from run to run"
        f" (stability below {UNSURE})."
        if unsure
        else f"Every program is found by nearly every run (stability at least {UNSURE})."
    )
    found = f"The genes of {run.table.n_samples:,} cells form {run.n_programs} programs."
    notes = [f"{line[:1].upper()}{line[1:]}" for line in run.batch_notes]
    stability = Chart("stability", _bars(run.stability, "stability"), STABILITY)
    return Page(
        title=Path(str(run.table.source)).name,
        about="gene programs",
        sentences=[found, certain, *notes],
        picture=stability,
        facts=[],
        sections=[
            Section("programs", "The programs", [Cards(_cards(run))]),
            Section("usages", "How much of a cell they are", _usages(run)),
            how_it_was_made(run.parameters, run.timings, *_choice(run)),
        ],
    )


def title(run: Any, k: int) -> str:
    """The number of a program with its leading genes."""
    genes = [gene.name for gene in run.top_features(LEADING)[k] if gene.lead > 0]
    return f"{k}: {', '.join(genes)}"


def _bars(values: Any, what: str) -> go.Figure:
    numbers = list(range(len(values)))
    shades = [colour(k) for k in numbers]
    bars = go.Bar(x=numbers, y=values, marker={"color": shades})
    across = {"title": {"text": "program"}, "dtick": 1}
    down = {"title": {"text": what}, "range": [0, 1.05 * max(values)]}
    return figure([bars], xaxis=across, yaxis=down, height=320)


def _cards(run: Any) -> list[Card]:
    cards = []
    for k, genes in enumerate(run.top_features(TOP)):
        own, most = run.spectra[k], max(gene.lead for gene in genes)
        widest = max(float(own[gene.column]) for gene in genes) or 1.0
        bars = [
            Bar(
                gene.name,
                short(own[gene.column]),
                own[gene.column] / widest,
                (own[gene.column] - gene.lead) / widest,
            )
            for gene in genes
            if most > 0 and gene.lead > 0
        ]
        says = f"Stability {run.stability[k]:.2f}; {run.usages[:, k].mean():.0%} of a mean cell."
        legend = ("counts per million in the program", "largest in another")
        cards.append(Card(f"Program {title(run, k)}", [says], bars, legend, colour=colour(k)))
    return cards


def _usages(run: Any) -> list[Part]:
    parts: list[Part] = [Chart("usages", _bars(run.usages.mean(axis=0), "mean share"), USAGE)]
    if run.batches is not None:
        rows = [(title(run, k), f"{share:.0%}") for k, share in enumerate(run.batch_share)]
        words = (
            f"How much of the variance of each usage lies between batches; from {OF_BATCHES:.0%}"
            " on, the program is a batch more than a program."
        )
        parts += [Text(words), Pairs(rows)]
    return parts


def _choice(run: Any) -> list[Part]:
    from conecollapse.plots.curves import draw_curve

    if not run.choice["rank_curve"]:
        return []
    drawn = draw_curve(run.choice["rank_curve"], run.n_programs)
    return [Chart("rank", drawn, f"The number of programs: {run.choice['rank_reason']}")]
