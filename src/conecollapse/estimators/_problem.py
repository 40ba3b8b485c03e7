"""What a factorization solves, and what its one call returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from conecollapse._checks import as_matrix
from conecollapse._types import AnyArray, IntArray
from conecollapse.affinity import Source
from conecollapse.estimators._labels import Names
from conecollapse.estimators._prepared import Prepared
from conecollapse.factorization.initial_factors import automatic_start, is_components, is_pair
from conecollapse.factorization.nmf.encoders import Encoder
from conecollapse.factorization.nmf.fixed import Fixed
from conecollapse.factorization.orthogonal.constraints import Constraints
from conecollapse.factorization.result import Factorization
from conecollapse.tables import Table


@dataclass(frozen=True)
class Problem:
    """The table that is factorized: X in its working unit, or a graph of its samples."""

    data: Prepared
    source: Source
    kept: IntArray | None = None  # the samples of a graph; None where all samples take part
    constraints: Constraints | None = None  # of the samples that take part: labels and pairs
    known_labels: IntArray | None = None  # of all samples
    names: Names | None = None  # of clusters, where there are labels

    @property
    def table(self) -> Table:
        assert self.source.table is not None
        return self.source.table

    def among_all(self, columns: AnyArray) -> AnyArray:
        """Columns for the samples of the graph, with zeros for those that are left out of it."""
        n = self.data.n_samples
        if self.kept is None or len(self.kept) == n:
            return columns
        whole = np.zeros((len(columns), n), columns.dtype)
        whole[:, self.kept] = columns
        return whole

    def start(self, init: Any, r: int, *, codes_scale: bool = False) -> Any:
        """The argument ``init`` for this table: a pair (W, H) in its unit, and without the samples
        that are left out."""
        if isinstance(init, str):
            return automatic_start(init, self.table, r)
        if self.kept is None:
            if not is_pair(init) or self.data.unit == 1:
                return init
            W, H = (np.asarray(part) for part in init)
            return (W / self.data.unit, H) if codes_scale else (W, H / self.data.unit)
        return start_of_samples(init, self.kept, self.data.n_samples, columns=True)


@dataclass(frozen=True)
class Solution:
    """The factors of a `Problem`, and how further samples are encoded."""

    result: Factorization  # W as `embedding_` has it
    encoder: Encoder
    label_weights: AnyArray  # (r,): what makes the columns of W comparable
    is_encoding: bool = True  # whether W is what the encoder gives for the samples
    code_unit: float = 1.0  # by which W is multiplied for the user, and H is not
    n_first: int = 0  # components that keep their places before the others
    fixed: Fixed | None = None
    order: IntArray | None = None  # of the components; None: by the number of their samples
    own: Any = None  # what the estimator makes further attributes of


def start_of_samples(init: Any, kept: IntArray, n_samples: int, *, columns: bool = False) -> Any:
    """A start for these samples: factors or labels; H too has samples as ``columns`` on a graph.
    One of another shape is refused later."""
    if isinstance(init, str):
        return init

    def some(part: Any) -> Any:
        return part[kept] if part.ndim and part.shape[0] == n_samples else part

    if is_pair(init):
        W, H = (as_matrix(part, "init") for part in init)
        return some(W), some(H.T).T if columns else init[1]
    if is_components(init):
        return some(as_matrix(init, "init").T).T if columns else init
    return some(np.asarray(init))
