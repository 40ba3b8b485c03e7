"""`GraphCCNMF`: clusters of samples from a graph that is chosen from the data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from conecollapse._checks import check_positive
from conecollapse._errors import InvalidInputError
from conecollapse._types import AnyArray, IntArray
from conecollapse.affinity.kinds import find, known_samples
from conecollapse.affinity.views import N_NEIGHBORS
from conecollapse.estimators._summary import cone_line
from conecollapse.estimators.orthogonal import OrthogonalNMF
from conecollapse.factorization.ccnmf import check_weighting
from conecollapse.factorization.data import Factorization, squared_error
from conecollapse.factorization.graph_ccnmf import DAMPING, graph_ccnmf
from conecollapse.factorization.inits import is_components, is_pair
from conecollapse.tables import Equations, Table


@dataclass(eq=False, repr=False, kw_only=True)
class GraphCCNMF(OrthogonalNMF):
    """CC-NMF of samples diffused over a graph of their neighbours: usually the best clustering, and
    the command's default.

    Two ways of comparing samples (*views*) give two graphs; the one that falls more clearly into r
    clusters is taken, without any labels. Counts, such as those of molecules in cells, are
    recognised: pass them as they are. The recipe, step by step, is in
    `conecollapse.factorization.graph_ccnmf`.

    Parameters
    ----------
    view : {"auto", "root", "centred", "cosine", "root cosine", "residuals", "log pcs"}
        How samples are compared: by Euclidean distances of square roots, the same after centring
        unit rows, by cosines, by cosines of square roots, or by principal components of counts
        (`conecollapse.affinity.counts`). "auto" takes the better of the last two for counts of
        cells, of the first two for other dense tables, of the cosines for other tables with at most
        10 % of non-zero entries.
    n_neighbors : int
        Neighbours of each sample in the graph.
    neighbors : {"auto", "exact", "approximate"}
        How they are found. "auto" is exact for sparse X and up to 20,000 samples, and approximate
        for more (about 97 % of them are found).
    damping : float
        The share, in (0, 1), that each further step over the graph keeps.
    weighting : {"mass", "unit"}
        How much each ray counts, as in `CCNMF`.
    solver, init, n_init, unlabeled
        Of stage 2, see `OrthogonalNMF`. ``init`` may be an array of labels, but no factors.
    n_components, tol, max_iter, random_state
        As in every factorization, see `BaseNMF`, which also lists further attributes.

    Attributes
    ----------
    embedding_ : (n_samples, r) array
        The orthonormal factor A; `labels_` are the largest entries of its rows.
    components_ : (r, n_features) array
        A'X, the features of each cluster.
    view_ : str
        The view taken.
    eigengap_ratios_ : dict
        For each view tried how far its graph is from falling into r clusters: 0 if it does, near 1
        if nothing distinguishes r from 2 r.
    view_gains_ : dict
        Of counts, for which it decides: for each view by how many nats clusters predict a count
        better than all samples do. Empty for other tables.
    cone_ : Cone
        The cone of the points that are diffused: the features of the view where these are cosines
        of a table that is mostly zeros, else one axis for each sample. The diffusion is invertible,
        so the rays of the diffused points are the images of these. It is a quick cone
        (`Cone.from_points`): points that it leaves open are kept as rays.
    ray_indices_ : (c,) array
        Which of these points are rays, or open.
    classes_, cluster_labels_, label_distributions_
        After `fit` with labels, see `OrthogonalNMF`.
    loadings_ : (r, c) array
        S, the loadings of the clusters on the diffused, weighted rays.

    Notes
    -----
    `predict` and `transform` give a sample that is identical to a training sample that sample's
    label and row of `embedding_`; a new one is joined to its nearest training samples.

    Examples
    --------
    >>> import numpy as np
    >>> from conecollapse import GraphCCNMF
    >>> X = np.kron(np.eye(2), np.ones((6, 3))) + 0.1 * np.random.default_rng(0).random((12, 6))
    >>> model = GraphCCNMF(2, random_state=0).fit(X)
    >>> bool((model.labels_ == np.repeat(model.labels_[[0, 11]], 6)).all())
    True
    >>> bool((model.predict(X) == model.labels_).all())
    True
    """

    affinity: Any = field(default=None, init=False)
    view: str = "auto"
    n_neighbors: int = N_NEIGHBORS
    neighbors: str = "auto"
    damping: float = DAMPING
    weighting: str = "mass"

    _reads_blocks = True

    @property
    def _compares_samples(self) -> bool:
        return True

    def _factorize(self, table: Table, rng: np.random.Generator) -> Factorization:
        check_weighting(self.weighting)
        damping = check_positive(self.damping, "damping", below=1.0)
        graph: dict[str, Any] = {
            "view": self.view,
            "n_neighbors": self.n_neighbors,
            "neighbors": self.neighbors,
        }
        found = graph_ccnmf(
            table,
            self.n_components,
            damping=damping,
            weighting=self.weighting,
            **graph,
            **self._stage2(table, rng),
        )
        self.view_, self.eigengap_ratios_ = found.choice.view.name, found.choice.eigengap_ratios
        self.view_gains_ = found.choice.gains
        self.cone_, self.ray_indices_ = found.cone, found.cone.ray_indices
        self._placement, self.loadings_ = found.placement, found.S
        self._places, self._rows = known_samples(table), found.A
        self._judgement = found.judgement
        self._group = found.group
        H = np.asarray((table.T @ found.A).T)
        return replace(found.stage2, W=found.A, H=H, error=squared_error(table, found.A, H))

    def _encode(self, rows: Table) -> AnyArray:
        return np.concatenate([self._encode_part(part) for part in rows.in_parts()])

    def _encode_part(self, rows: Table) -> AnyArray:
        index = find(rows, self._places)
        codes = np.zeros((len(index), len(self.loadings_)))
        codes[index >= 0] = self._rows[index[index >= 0]]
        new = np.flatnonzero(index < 0)
        if len(new):
            S = self.loadings_.astype(np.float64)
            products, near = self._placement.placed(rows.rows(new))
            decide = None if self._judgement is None else partial(self._placement.decide, near=near)
            codes[new] = self._codes(Equations(S @ S.T, products), decide=decide)
        return codes

    def _of_samples(self, judged: AnyArray) -> AnyArray:
        return np.asarray(judged[self._group])

    def _renumber(self, order: IntArray) -> None:
        super()._renumber(order)
        self.loadings_, self._rows = self.loadings_[order], self._rows[:, order]
        placed = self._placement
        loads = None if placed.loads is None else placed.loads[:, order]
        self._placement = replace(
            placed, images=placed.images[:, order], loads=loads, judgement=self._judgement
        )

    def _label_weights(self) -> AnyArray:
        return self._comparable(self.loadings_)

    def _start(self, table: Table) -> Any:  # noqa: ARG002 - starts are of the diffused rays
        if is_pair(self.init) or is_components(self.init):
            raise InvalidInputError(
                "init of GraphCCNMF cannot be factors, as its rays are found in the fit; pass a"
                " label for each sample."
            )
        return (
            "spectral"
            if isinstance(self.init, str) and self.init == "auto"
            else self._init_on_graph()
        )

    def _summary(self) -> dict[str, str]:
        what, values = "eigengap ratios", self.eigengap_ratios_
        if self.view_gains_:
            what, values = "nats by which clusters predict a count better", self.view_gains_
        listed = ", ".join(f"{name} {value:.3g}" for name, value in values.items())
        return {
            "cone": cone_line(self.cone_),
            "view": f"{self.view_}; {what}: {listed}",
            **super()._summary(),
        }
