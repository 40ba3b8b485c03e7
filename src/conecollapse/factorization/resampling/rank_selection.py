"""What all ways of choosing the rank share: the answer, and what they need of an estimator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from conecollapse._types import FloatArray, IntArray
from conecollapse.tables import Table


@dataclass(frozen=True)
class RankSelection:
    """The rank chosen and what a figure of the choice needs."""

    rank: int
    method: str
    candidates: IntArray
    # one for each candidate; larger is better, except that "residual" and "heldout" list errors
    scores: FloatArray
    # standard error of each score; for "heldout" of its difference from the best
    spread: FloatArray
    reference: FloatArray | None  # "residual": the relative errors for shuffled data
    reason: str
    # that cannot be told from the best, the rank chosen among them; for "stability", "consensus",
    # "heldout"
    ties: tuple[int, ...] = ()


class Fits(Protocol):
    """Fits of one estimator at several ranks, counted."""

    is_pairwise: bool  # whether tables are graphs of samples

    def model(self, r: int, rng: np.random.Generator, X: Table) -> Any:
        """Fitted to ``X`` at rank ``r``."""

    def labels(self, r: int, rng: np.random.Generator, X: Table) -> IntArray:
        """The clusters of ``X`` at rank ``r``."""

    def say(self, done: int = 0) -> None:
        """So many more fits are done."""


def tied(rank: int, ties: tuple[int, ...]) -> str:
    """The other ranks that cannot be told from the best, in words."""
    others = [str(r) for r in ties if r != rank]
    return f"; tied with {', '.join(others)}" if others else ""
