"""What pages are made of. The template `page.html.j2` shows each part by its ``kind``, and escapes
every text that is no `Markup`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import plotly.graph_objects as go

from conecollapse.plots.style import PALETTE

Pair = tuple[str, str]
MAX_ROWS = 5000  # of a table


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    words: str
    style: str = ""
    kind: ClassVar[str] = "text"


@dataclass(frozen=True)
class Chart:
    """A plotly figure with its caption."""

    name: str
    figure: go.Figure
    caption: str = ""
    kind: ClassVar[str] = "chart"


@dataclass(frozen=True)
class Table:
    """A table that the page sorts and searches, ten rows at a time; ``head`` and ``rows`` may hold
    numbers and names from data."""

    name: str
    head: list[str]
    rows: list[list[Any]]
    kind: ClassVar[str] = "table"


@dataclass(frozen=True)
class Pairs:
    """Names and values, all shown."""

    rows: Sequence[Pair]
    kind: ClassVar[str] = "pairs"


@dataclass(frozen=True)
class Picture:
    """An image with its title; ``source`` is a data URI."""

    title: str
    source: str


@dataclass(frozen=True)
class Pictures:
    """Images side by side, as many in a line as there is room for; ``low`` and ``high`` are the
    ends of their common scale of colours."""

    pictures: list[Picture]
    low: str = ""
    high: str = ""
    large: bool = False
    kind: ClassVar[str] = "pictures"


@dataclass(frozen=True)
class Bar:
    """A feature with a value, and one to compare it with, as shares of the width."""

    name: str
    value: str
    share: float
    rival: float = 0.0


@dataclass
class Card:
    """A box with a heading: what is said of one cluster, or of one sample."""

    heading: str
    texts: list[str]
    bars: list[Bar] = field(default_factory=list)
    legend: Pair | None = None  # what the bars are, and what the grey ones are
    pictures: Pictures | None = None
    items: list[Pair] = field(default_factory=list)  # a name and a text each
    colour: str = PALETTE[0]


@dataclass(frozen=True)
class Cards:
    """Cards, as many in a line as there is room for."""

    cards: list[Card]
    kind: ClassVar[str] = "cards"


Part = Text | Chart | Table | Pairs | Pictures | Cards


@dataclass(frozen=True)
class Section:
    """A heading and what follows it; ``name`` is its address on the page and its name in the
    navigation."""

    name: str
    heading: str
    parts: list[Part]


@dataclass(frozen=True)
class Page:
    """A page: what was found in three sentences, one picture, the numbers, and then the
    sections."""

    title: str
    about: str  # what kind of page it is
    sentences: list[str]
    picture: Part
    facts: list[Pair]
    sections: list[Section]

    def all_parts(self) -> list[Part]:
        """The picture and the parts of the sections."""
        return [self.picture, *(part for section in self.sections for part in section.parts)]


def how_it_was_made(parameters: Any, timings: Any, *before: Part) -> Section:
    """The last section: parameters and seconds."""
    rows = [(str(name), str(value)) for name, value in parameters.items()]
    rows += [(f"time, {name}", f"{seconds:.2f} s") for name, seconds in timings.items()]
    return Section("how", "How it was made", [*before, Pairs(rows)])


def in_words(sentence: str, table: Any) -> str:
    """A sentence about samples and features in the words of what they are: texts and words, or
    cells and genes of an ``.h5ad`` file or a folder of 10x Genomics."""
    source = str(table.source).lower()
    names = None
    if table.texts is not None:
        names = ("text", "word")
    elif source.endswith(".h5ad") or "feature_bc_matrix" in source:
        names = ("cell", "gene")
    for word, name in zip(("sample", "feature"), names or (), strict=False):
        sentence = sentence.replace(word, name).replace(word.capitalize(), name.capitalize())
    return sentence


def short(value: float, sign: str = "") -> str:
    """A number in few characters; ``sign="+"`` writes the sign of a positive one too.

    Examples
    --------
    >>> short(16442.1), short(0.012345), short(2.5e9), short(3.0, "+")
    ('16,442', '0.0123', '2.5e+09', '+3')
    """
    return f"{value:{sign},.0f}" if 1e3 <= abs(value) < 1e6 else f"{value:{sign}.3g}"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence.

    Examples
    --------
    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
