"""The recipe of `GraphCCNMF` with one part changed at a time, and with other constants.

Each variant is a `Method`, and is run and recorded like any other.
"""

from __future__ import annotations

from typing import Any

import joblib
import numpy as np
import scipy.sparse as sp

from benchmarks.paper.methods import Method
from benchmarks.paper.records import Record
from conecollapse._linalg import unit_rows
from conecollapse._types import IntArray, Points
from conecollapse.estimators import OrthogonalNMF
from conecollapse.factorization.cones.ccnmf import data_cone
from conecollapse.factorization.cones.graph_ccnmf import GraphOptions, graph_ccnmf
from conecollapse.factorization.initial_factors import kmeans_labels
from conecollapse.factorization.restarts import Starts
from conecollapse.tables import Table, as_table

TOL, MAX_ITER = 1e-6, 100  # of stage 2
RAY_COUNTS = (50, 100, 400, 1000)
NEIGHBORS, DAMPINGS, VIEW_RULES = (
    (5, 10),
    (0.6, 0.8),
    {"first view": 0, "second view": 1, "eigengap ratio": "auto"},
)


class Variant:
    """The recipe with arguments of `graph_ccnmf` changed; ``start_only`` leaves the factorization
    out, ``rays`` limits the cone.

    The cone has at least twice as many rays as there are clusters.
    """

    def __init__(
        self,
        n_components: int,
        seed: int,
        *,
        start_only: bool = False,
        rays: int | None = None,
        **arguments: Any,
    ) -> None:
        self.n_components, self.seed, self.start_only, self.arguments = (
            n_components,
            seed,
            start_only,
            arguments,
        )
        self.init = arguments.pop("init", "spectral")
        names = ("view", "n_neighbors", "neighbors", "damping")
        self.graph = GraphOptions(
            **{name: arguments.pop(name) for name in names if name in arguments}
        )
        if rays is not None:
            self.arguments["cone"] = few_rays(max(rays, 2 * n_components))

    def fit_predict(self, X: Points) -> IntArray:
        rng = np.random.default_rng(self.seed)
        starts = Starts(self.n_components, self.init, 10, rng)
        found = graph_ccnmf(
            as_table(X), starts, self.graph, tol=TOL, max_iter=MAX_ITER, **self.arguments
        )
        self.view_ = found.choice.view.name
        if self.start_only:
            masses = np.sqrt(np.bincount(found.group))
            return kmeans_labels(found.embedding, self.n_components, rng, masses)[found.group]
        return found.A.argmax(axis=1)


_cones: dict[tuple[str, int], Any] = {}  # of this process; the seed does not change the cone


def few_rays(count: int) -> Any:
    """A maker of epsilon-cones of at most ``count`` rays, chosen by mass."""

    def make(B: Table) -> Any:
        key = (joblib.hash(B.array), count)
        if key not in _cones:
            _cones[key] = data_cone(
                B, "approximate", max_residual=1e-3, max_rays=count, weighting="mass"
            )
        return _cones[key]

    return make


class EveryColumn:
    """Replaces the cone: every column that is not zero counts as a ray."""

    def __init__(self, B: Table) -> None:
        points = B.points()
        self.ray_indices = np.flatnonzero(B.filled_columns)
        self.n_rays = len(self.ray_indices)
        self.rays = unit_rows(points[self.ray_indices])[0]
        places = (np.ones(self.n_rays), (self.ray_indices, np.arange(self.n_rays)))
        self.point_coefficients = sp.csr_array(places, shape=(B.shape[1], self.n_rays))


class NoGraph:
    """Orthogonal NMF of the samples at unit length: no view, no graph, no cone."""

    def __init__(self, n_components: int, seed: int) -> None:
        self.n_components, self.seed = n_components, seed

    def fit_predict(self, X: Points) -> IntArray:
        from sklearn.preprocessing import normalize

        unit = normalize(X)
        model = OrthogonalNMF(self.n_components, random_state=self.seed)
        return model.fit_predict(sp.csr_array(unit) if sp.issparse(unit) else unit)


def _variant(name: str, **arguments: Any) -> Method:
    return Method("ablation", name, lambda r, seed: Variant(r, seed, **arguments))


ABLATION: tuple[Method, ...] = (
    _variant("recipe"),
    _variant("start only", start_only=True),
    _variant("random start", init="random"),
    _variant("no cone", cone=EveryColumn),
    _variant("unit rays", weighting="unit"),
    _variant("first view", view=0),
    _variant("second view", view=1),
    Method("ablation", "no graph, no cone", NoGraph),
    *(_variant(f"{count} rays", rays=count) for count in RAY_COUNTS),
)

CONSTANTS: tuple[Method, ...] = tuple(
    Method(
        "constants",
        f"K = {k}, a = {a}, {rule}",
        lambda r, seed, k=k, a=a, view=view: Variant(r, seed, n_neighbors=k, damping=a, view=view),  # type: ignore[misc]
    )
    for k in NEIGHBORS
    for a in DAMPINGS
    for rule, view in VIEW_RULES.items()
)


def leave_one_out(
    records: list[Record], score: str = "purity"
) -> tuple[float, dict[str, tuple[str, float]]]:
    """For each dataset the constants that are best on average over the others, with their score on
    it; and the mean of these scores.

    Only datasets that have all settings count. The structure of the recipe was chosen on the same
    datasets, so even this is optimistic.
    """
    names = [method.name for method in CONSTANTS]
    cells: dict[tuple[str, str], list[float]] = {}
    for record in records:
        if record.protocol == "constants":
            cells.setdefault((record.dataset, record.method), []).append(
                float(getattr(record, score))
            )
    sets = [
        s
        for s in sorted({dataset for dataset, _ in cells})
        if all((s, name) in cells for name in names)
    ]
    means = np.array([[np.mean(cells[s, name]) for name in names] for s in sets])
    chosen = {}
    for i, s in enumerate(sets):
        best = int(np.delete(means, i, axis=0).mean(axis=0).argmax()) if len(sets) > 1 else 0
        chosen[s] = (names[best], float(means[i, best]))
    return float(np.mean([value for _, value in chosen.values()])) if chosen else float(
        "nan"
    ), chosen
