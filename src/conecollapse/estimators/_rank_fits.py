"""Fits of one estimator at several ranks, for the choice of a rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import get_tags

from conecollapse._errors import InvalidInputError
from conecollapse._progress import teller
from conecollapse._types import IntArray
from conecollapse.tables import Table


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
