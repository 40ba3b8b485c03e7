"""What all ways of choosing the rank share: the result, and fits of one estimator at several
ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import get_tags

from conecollapse._errors import InvalidInputError
from conecollapse._progress import teller
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


class Fits:
    """Fits of one estimator at several ranks, counted."""

    def __init__(
        self, base: Any, method: str, total: int, callback: Callable[[int, int], object] | None
    ) -> None:
        self.base, self.total, self.callback = base, total, callback
        known = base.get_params()
        self.rank = next((name for name in ("n_components", "n_clusters") if name in known), "")
        if not self.rank or not hasattr(base, "fit_predict"):
            raise InvalidInputError(
                f"{type(base).__name__} is no clusterer with a parameter n_components or n_clusters"
                " and a method fit_predict; pass one."
            )
        self.is_random = "random_state" in known
        self.is_pairwise = bool(get_tags(base).input_tags.pairwise)
        self.done, self.tell, self.method = 0, teller(), method
        self.say()

    def model(self, r: int, rng: np.random.Generator, X: Table) -> Any:
        """Fitted to ``X`` at rank ``r``."""
        model = self._of_rank(r, rng).fit(X.array)
        self.say(done=1)
        return model

    def labels(self, r: int, rng: np.random.Generator, X: Table) -> IntArray:
        """The clusters of ``X`` at rank ``r``."""
        labels = np.asarray(self._of_rank(r, rng).fit_predict(X.array))
        self.say(done=1)
        return labels

    def _of_rank(self, r: int, rng: np.random.Generator) -> Any:
        seed = int(rng.integers(2**31 - 1))
        return clone(self.base).set_params(
            **{self.rank: int(r)}, **({"random_state": seed} if self.is_random else {})
        )

    def say(self, done: int = 0) -> None:
        self.done += done
        if self.tell is not None:
            self.tell(f"{self.method}, fits", self.done, self.total)
        if self.callback is not None and self.done:
            self.callback(self.done, self.total)


def tied(rank: int, ties: tuple[int, ...]) -> str:
    """The other ranks that cannot be told from the best, in words."""
    others = [str(r) for r in ties if r != rank]
    return f"; tied with {', '.join(others)}" if others else ""
