"""`cluster`: clusters of the samples of a table, and with ``rays=True`` the cone of its
features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp

from conecollapse import estimators
from conecollapse._errors import (
    CertificateError,
    InvalidInputError,
    RunFolderError,
    argument,
    quoted,
)
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray, Points, Progress
from conecollapse.clusters import (
    NO_CLUSTER,
    TopFeature,
    cluster_means,
    cluster_sizes,
    top_features,
    topic_words,
)
from conecollapse.io import TableFile
from conecollapse.runs.folder import CERTIFICATE, DOUBTED, FACTORS, FACTS, LABELS, NAMES
from conecollapse.runs.guide import UNLABELED, Guide
from conecollapse.runs.layout import Layout, lay_out
from conecollapse.runs.preparing import FORM_OF_PREPARATION
from conecollapse.runs.run import (
    Checked,
    Interrupted,
    Run,
    Stored,
    rank_candidates,
    sizes,
    timed,
)
from conecollapse.runs.values import write_csv, write_markers

if TYPE_CHECKING:
    from conecollapse.estimators import RankSelection
    from conecollapse.geometry.cone import Cone

NAMED = 3  # features in the name of a cluster
TOP = 50  # features listed for each cluster
# the estimator of each method, and what it is made with
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "graph": ("GraphCCNMF", {}),
    "features": ("CCNMF", {}),
    "knn": ("CCNMF", {"affinity": "knn"}),
    "diffusion": ("CCNMF", {"affinity": "diffusion"}),
}
# how an estimator of the user's own choice of parameters is written
OWN = ("CCNMF(", "GraphCCNMF(")
# what only the search knows
OF_THE_SEARCH = {
    "the random starts": (
        "parameters.random_state",
        "results.converged",
        "results.status",
        "results.view",
    ),
    "what clusters are called": ("results.names",),
    "where samples are drawn": ("results.layout",),
    "the choice of the number of clusters": ("results.rank_reason", "results.rank_curve"),
}


@dataclass(frozen=True, eq=False, repr=False)
class ClusterRun(Run):
    """A clustering of the samples of a table.

    Attributes
    ----------
    table : TableFile
        As clustered, that is prepared.
    A : (n_samples, r) array
        The orthonormal factor.
    labels : (n_samples,) array of int
        The largest entry of each row of A; -1 for a row of zeros.
    shares : (n_samples, r) array
        How much of each sample belongs to each cluster, see `shares_of_clusters`.
    target : (n_samples,) array of str, or None
        Known classes, used only for scoring.
    guide : Guide or None
        Known labels of some samples, which the fit took; they count in no score.
    image_shape : (height, width) or None
        Of a sample, when the features are pixels.
    cone : Cone or None
        Of the features, certified, where it was asked for.
    titles : (r,) array of str
        What the clusters are called: by their features, or by the user.
    layout : Layout or None
        Where samples are drawn, without regard to clusters.
    choice : mapping
        Why there are so many clusters, and the scores of other numbers, when it was "auto".
    status : {"converged": bool, "status": str, "view": str}
        How the iteration ended, and how samples were compared.
    model : estimator or None
        Fitted; None where the run was read from a folder.
    """

    kind: ClassVar[str] = "cluster"
    form: ClassVar[Mapping[str, Any]] = {
        "preparation": FORM_OF_PREPARATION,
        "parameters": {"n_components": (int, "auto"), "method": str, "rays": bool},
        "results": {"image_shape": (None, [int]), "converged": bool, "status": str, "view": str},
    }
    A: AnyArray
    labels: IntArray
    shares: FloatArray
    target: AnyArray | None = None
    guide: Guide | None = None
    image_shape: tuple[int, int] | None = None
    titles: AnyArray | None = None
    layout: Layout | None = None
    choice: Mapping[str, Any] = field(default_factory=dict)
    status: Mapping[str, Any] = field(default_factory=dict)
    model: Any = None

    @property
    def n_clusters(self) -> int:
        """Their number."""
        return self.A.shape[1]

    @cached_property
    def means(self) -> FloatArray:
        """The mean sample of each cluster, (r, n_features)."""
        return cluster_means(self.table.X, self.labels, self.n_clusters)

    @property
    def scored(self) -> BoolArray:
        """Which samples count in a score: those whose label did not guide."""
        return np.ones(len(self.labels), bool) if self.guide is None else ~self.guide.known

    def top_features(self, n_features: int = 10) -> list[list[TopFeature]]:
        """The features that distinguish each cluster, by name."""
        return top_features(self.means, self.table.features, n_features)

    @property
    def names(self) -> list[str]:
        """What the clusters are called: the titles, else the labels that guided, else the features
        that lead them."""
        if self.titles is not None:
            return [str(title) for title in self.titles]
        if self.guide is not None:
            return [str(name) for name in self.guide.names(self.n_clusters)]
        tops = self.markers(NAMED)
        return [", ".join(top.name for top in some) for some in tops]

    def markers(self, count: int = TOP, means: FloatArray | None = None) -> list[list[TopFeature]]:
        """The features that distinguish each cluster by its mean; of texts the words that its
        documents share and others lack, see `conecollapse.texts`."""
        means, names = self.means if means is None else means, self.table.features
        tops = top_features(means, names, means.shape[1] if self.table.texts else count)
        if self.table.texts is None:
            return [[top for top in some if top.lead > 0] for some in tops]
        held = sp.csr_array((self.table.raw or self.table).X)
        words = topic_words(held, self.labels, names, self.n_clusters, count)
        by_name = [{top.name: top for top in some} for some in tops]
        return [[of[word] for word in some] for of, some in zip(by_name, words, strict=True)]

    def facts(self) -> dict[str, Any]:
        """What was found, in numbers."""
        from conecollapse.certificates import relative_error

        A, r = np.asarray(self.A, np.float64), self.n_clusters
        found = sizes(self.table) | {
            "n_clusters": r,
            "cluster_sizes": cluster_sizes(self.labels, r),
            "relative_error": relative_error(self.table.X, A, summed_by_cluster(A, self.table.X)),
            "orthogonality": float(np.abs(A.T @ A - np.eye(r)).max()),
            "image_shape": self.image_shape,
            "names": self.names,
            "layout": self.layout and self.layout.name,
            **self.status,
            **self.choice,
        }
        if self.guide is not None:
            found["guide"] = self.guide.facts(self.labels, self.shares)
        if self.target is not None:
            from conecollapse.metrics import clustering_accuracy, purity_score

            target, labels = self.target[self.scored], self.labels[self.scored]
            found |= {} if self.guide is None else {"n_scored": len(labels)}
            found["purity"] = purity_score(target, labels)
            found["accuracy"] = clustering_accuracy(target, labels)
        if self.cone is None:
            return found
        from conecollapse.runs.extreme_rays import cone_facts

        return found | cone_facts(self.cone)

    def arrays(self) -> dict[str, Any]:
        """The factors, the shares and the known labels; the rays where there is a cone."""
        found = {
            "A": self.A,
            "components": summed_by_cluster(self.A, self.table.X),
            "shares": self.shares,
            "means": self.means,
            "names": np.array(self.names, np.str_),
            **({} if self.layout is None else self.layout.arrays()),
            **({} if self.target is None else {"target": self.target}),
            **({} if self.guide is None else self.guide.arrays()),
        }
        if self.cone is None:
            return found
        from conecollapse.runs.extreme_rays import cone_arrays

        return found | cone_arrays(self.table, self.cone)

    def write(self, folder: Path, arrays: Mapping[str, AnyArray]) -> None:
        """Write labels.csv, names.csv, layout.csv and markers.csv, doubted.csv where labels guided,
        and rays.csv where there is a cone."""
        called = np.append(arrays["names"], "")[self.labels]
        columns = {"sample": self.table.samples, "cluster": self.labels, "name": called}
        write_csv(folder / NAMES, ["cluster", "name"], enumerate(arrays["names"].tolist()))
        if "layout" in arrays:
            Layout.write(folder, arrays, self.table.samples)
        write_markers(folder, "cluster", arrays["means"], self.markers(TOP, arrays["means"]))
        columns |= {} if self.target is None else {"target": self.target}
        if self.guide is not None:
            given = self.guide.y
            columns |= {"label": self.guide.named(self.labels, self.n_clusters), "guide": given}
            names, shares = self.guide.names(self.n_clusters), arrays["shares"]
            doubted = (
                (str(self.table.samples[i]), str(given[i]), str(names[k]), float(shares[i, k]))
                for i, k in self.guide.doubted(self.labels, shares)
            )
            write_csv(folder / DOUBTED, ["sample", "guide", "nearer", "share"], doubted)
        columns |= {f"share_{k}": share for k, share in enumerate(arrays["shares"].T)}
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        write_csv(folder / LABELS, list(columns), rows)
        if self.cone is not None:
            from conecollapse.runs.extreme_rays import write_rays

            write_rays(folder, self.table, self.cone, arrays["masses"])

    @classmethod
    def verify(cls, stored: Stored, read: TableFile, tol: float | None) -> Checked:
        """Labels follow from the factor, shares are those of the nearest mixtures, and the cone,
        if one is claimed, is that of the features."""
        r = stored.width("A")
        stored.check_arrays(dict.fromkeys(("A", "shares"), ("f", (read.n_samples, r))))
        A = stored.arrays["A"]
        _check_claims(stored, A, r)
        shape = stored.facts["results"]["image_shape"]
        run = cls(
            read,
            A,
            labels_of(A),
            stored.arrays["shares"],
            target=stored.arrays.get("target"),
            guide=Guide.stored(stored, read.n_samples),
            image_shape=_stored_shape(shape, read.n_features),
            cone=stored.cone,
            titles=_stored_titles(stored, r),
            layout=_stored_layout(stored, read.n_samples),
            **stored.search,
            **stored.asked,
        )
        verdict, claim = None, "no cone is claimed."
        if run.cone is not None:
            from conecollapse.runs.extreme_rays import check_cone

            verdict = check_cone(run.cone, read, tol)
            claim = verdict.sentence("features")
        _prove_shares(run)
        if run.guide is not None:
            run.guide.check(run.labels, r, read.samples)
        sentence = f"the labels of {read.n_samples} samples follow from the factors; {claim}"
        return Checked(run, sentence, verdict, stored.unproven(OF_THE_SEARCH, "n_components"))

    def __repr__(self) -> str:
        rays = "" if self.cone is None else f", {self.cone.n_rays} rays"
        return f"ClusterRun({self.n_clusters} clusters of {self.table.n_samples} samples{rays})"


def cluster(
    table: TableFile,
    n_components: int | Literal["auto"],
    *,
    method: Any = "graph",
    target: Any = None,
    guide: Any = None,
    unlabeled: str = UNLABELED,
    random_state: int | None = 0,
    image_shape: tuple[int, int] | None = None,
    rays: bool = False,
    layout: bool = False,
    progress: Progress = None,
) -> ClusterRun:
    """Cluster the samples of ``table``.

    Parameters
    ----------
    table : TableFile
        Prepared, if it is to be (`prepare`).
    n_components : int or "auto"
        Number of clusters; "auto" chooses among 2 to 10 by `select_rank`.
    method : {"graph", "features", "knn", "diffusion"} or an estimator
        `GraphCCNMF`, usually the best clustering; `CCNMF` of the features; or `CCNMF` of a graph of
        nearest neighbours, as it is or diffused. Or an estimator of your own choice of parameters,
        of one of these classes.
    target : sequence, optional
        The known class of each sample, used only for scoring: of the samples that do not guide.
    guide : sequence, optional
        Known labels of some samples, which guide the fit and are kept; `Guide` has the rules.
    unlabeled : str
        What ``guide`` has for a sample without a label.
    random_state : int or None
        Random seed.
    image_shape : (height, width), optional
        Of a sample, when the features are pixels; the table's own by default.
    rays : bool
        Also find and certify the cone of the features (`Cone.from_points`).
    layout : bool
        Also find where samples are drawn in a picture that knows nothing of the clusters.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.

    Returns
    -------
    ClusterRun

    Raises
    ------
    Interrupted
        Ctrl-C while the cone was computed; ``finished`` is then the run without it.

    Examples
    --------
    >>> import numpy as np
    >>> from conecollapse.io import read_table
    >>> from conecollapse.runs import cluster
    >>> X = np.kron(np.eye(2), np.ones((4, 3))) + 0.1 * np.random.default_rng(0).random((8, 6))
    >>> run = cluster(read_table(X), 2, rays=True)
    >>> bool((run.labels == np.repeat(run.labels[[0, 7]], 4)).all())
    True
    >>> run.cone.n_rays, run.cone.verify(X.T).n_rays
    (6, 6)
    """
    asked = {
        "n_components": n_components,
        "method": method if isinstance(method, str) else repr(method),
        "random_state": random_state,
        "rays": rays,
    }
    check_clusters(n_components, table)
    classes = _check_target(target, table.n_samples)
    known = (
        None
        if guide is None
        else Guide.of(_check_target(guide, table.n_samples), unlabeled, n_components)
    )
    if classes is not None and known is not None and known.known.all():
        raise InvalidInputError(
            "every sample has a label that guides, so none is left to score; leave out the known"
            " classes."
        )
    shape = check_image_shape(image_shape or table.image_shape, table.n_features)
    model = _estimator_of(method).set_params(random_state=random_state)
    timings: dict[str, float] = {}
    rank = None
    if n_components == "auto":
        with timed(timings, "rank", progress):
            rank = chosen_rank(table.X, random_state)
    with timed(timings, "clusters", progress):
        model.set_params(n_components=n_components if rank is None else rank.rank)
        A = model.fit(table, None if known is None else known.y).embedding_
        labels = model.labels_ if known is None else labels_of(A)
        if known is not None:
            known.check(labels, A.shape[1], table.samples)
        named = None if known is None else known.names(A.shape[1])
        shares = shares_of_clusters(cluster_means(table.X, labels, A.shape[1]), table.X)

    drawn = None
    if layout:
        with timed(timings, "layout", progress):
            drawn = lay_out(table, model)

    def run(cone: Cone | None) -> ClusterRun:
        return ClusterRun(
            table,
            A,
            labels,
            shares,
            target=classes,
            guide=known,
            image_shape=shape,
            cone=cone,
            titles=named,
            layout=drawn,
            choice=facts_of_choice(rank),
            status={
                "converged": bool(model.converged_),
                "status": str(model.status_),
                "view": _view_sentence(model),
            },
            parameters=asked | {"rays": cone is not None},
            timings=timings,
            model=model,
        )

    if not rays:
        return run(None)
    from conecollapse.runs.extreme_rays import cone_of_features

    try:
        return run(cone_of_features(table, "exact", timings, progress))
    except KeyboardInterrupt:
        raise Interrupted(
            "interrupted while the cone was computed; the clusters were finished.", run(None)
        ) from None


def _view_sentence(model: Any) -> str:
    """How samples were compared, and why in this way; empty where they were not."""
    if not hasattr(model, "view_"):
        return ""
    gains, ratios = model.view_gains_, model.eigengap_ratios_
    others = ", ".join(f"{name} {value:.3g}" for name, value in (gains or ratios).items())
    why = (
        "in which clusters predict counts best (nats for each count better than without clusters:"
        f" {others})"
        if gains
        else f"whose graph falls most clearly into clusters (eigengap ratios: {others}; smaller is"
        " clearer)"
    )
    return f"Samples were compared in the view “{model.view_}”, {why}."


def _stored_titles(stored: Stored, r: int) -> AnyArray:
    stored.check_arrays({"names": ("U", (r,))})
    return stored.arrays["names"]


def _stored_layout(stored: Stored, n: int) -> Layout | None:
    name = stored.facts["results"].get("layout")
    if name is None:
        return None
    rows = stored.arrays.get("layout_rows", np.zeros(0, np.int64))
    stored.check_arrays({"layout_rows": ("i", rows.shape), "layout": ("f", (*rows.shape, 2))})
    if rows.ndim != 1 or not (np.diff(rows) > 0).all() or not 0 <= rows.min() <= rows.max() < n:
        raise RunFolderError(f"layout_rows in {FACTORS} are no samples; it is damaged.")
    return Layout(rows, stored.arrays["layout"], str(name))


def labels_of(A: AnyArray) -> IntArray:
    """The largest entry of each row of ``A``; -1 for a row of zeros."""
    return np.where(A.any(axis=1), A.argmax(axis=1), NO_CLUSTER)


def chosen_rank(X: Any, random_state: Any) -> RankSelection:
    """What "auto" clusters means: `select_rank` among 2 to 10."""
    return estimators.select_rank(X, rank_candidates(X.shape[0]), random_state=random_state)


def check_clusters(r: Any, table: TableFile, what: str = "clusters") -> None:
    """Refuse a number of clusters that the table cannot have, before anything is imported that
    takes long."""
    if isinstance(r, str) and r == "auto":
        rank_candidates(table.n_samples)
        return
    if isinstance(r, bool) or not isinstance(r, (int, np.integer)) or r < 1:
        raise InvalidInputError(
            f"{argument('n_components')} must be 'auto' or an integer of at least 1; got {r!r}."
        )
    if r > table.n_samples:
        other = "columns" if table.features_in == "rows" else "rows"
        raise InvalidInputError(
            f"{r} {what} were asked for, but there are only {table.n_samples} samples; ask for at"
            " most that many "
            f"(or, if the {table.n_features} features are in fact the samples, read the table with"
            f" {argument('features_in', other)})."
        )


def check_image_shape(shape: tuple[int, int] | None, n_features: int) -> tuple[int, int] | None:
    """``shape``, refused unless it has a pixel for each feature."""
    if shape is not None and shape[0] * shape[1] != n_features:
        raise InvalidInputError(
            f"images of {shape[0]} x {shape[1]} have {shape[0] * shape[1]} pixels, but the table"
            f" has {n_features} features; give height x width of one sample."
        )
    return shape


def _check_target(target: Any, n_samples: int) -> Any:
    if target is None:
        return None
    classes = np.array([str(label) for label in target], dtype=np.str_)
    if len(classes) != n_samples:
        raise InvalidInputError(
            f"there are {len(classes)} labels for {n_samples} samples; give one for each."
        )
    return classes


def _estimator_of(method: Any) -> Any:
    """The estimator of a method by name, or a copy of the one that is given; not fitted."""
    if isinstance(method, str) and method in METHODS:
        name, parameters = METHODS[method]
        return getattr(estimators, name)(**parameters)
    if isinstance(method, str) or not isinstance(method, (estimators.CCNMF, estimators.GraphCCNMF)):
        raise InvalidInputError(
            f"{argument('method')} must be one of {', '.join(METHODS)}, or a CCNMF or GraphCCNMF;"
            f" got {method!r}."
        )
    from sklearn.base import clone

    return clone(method)


def summed_by_cluster(A: AnyArray, X: Points) -> FloatArray:
    """``A'X``: the components that fit X best for orthonormal columns of A."""
    summed: FloatArray = np.asarray((X.T.astype(np.float64) @ np.asarray(A, np.float64)).T)
    return np.ascontiguousarray(summed)


def shares_of_clusters(means: AnyArray, X: Points) -> FloatArray:
    """How much of each sample belongs to each cluster, (n_samples, r): shares that sum to 1, or 0
    for a sample of zeros.

    A sample is explained by the mean samples of the clusters, with weights >= 0 (least squares); a
    share is the length of what a cluster contributes, over the sum of these lengths.
    """
    from conecollapse.factorization.nmf.anls import solve_rows

    peak = float(means.max(initial=0.0)) or 1.0  # squares of entries of 1e200 are no numbers
    P = np.asarray(means, np.float64) / peak
    products = np.asarray((X.astype(np.float64) / peak) @ P.T)
    parts = solve_rows(P @ P.T, products) * np.linalg.norm(P, axis=1)
    total = parts.sum(axis=1, keepdims=True)
    return np.asarray(parts / np.where(total > 0, total, 1.0))


def _check_claims(stored: Stored, A: AnyArray, r: int) -> None:
    """Refuse a factor that no run has, and parameters that do not fit what the folder holds."""
    asked = stored.facts["parameters"]
    if not A.size or (A < 0).any():
        raise RunFolderError(f"A in {FACTORS} holds no numbers, or negative ones; it is damaged.")
    if asked["method"] not in METHODS and not asked["method"].startswith(OWN):
        raise RunFolderError(
            f"{FACTS} names the method {quoted(asked['method'])}, which is not known."
        )
    stored.check_rank("n_components", "clusters", r)
    if asked["rays"]:
        stored.needed_cone()
    elif stored.cone is not None:
        raise CertificateError(
            f"{CERTIFICATE} is there, but {FACTS} says that no cone was asked for."
        )


def _prove_shares(run: ClusterRun) -> None:
    """Every sample has the shares of the nearest mixture of the mean samples."""
    from conecollapse.certificates import allowance, departures, weights_of_shares

    peak = float(run.means.max(initial=0.0)) or 1.0
    X, means = run.table.X.astype(np.float64) / peak, run.means / peak
    most = allowance(means)
    off = departures(X, means, weights_of_shares(X, means, run.shares))
    meets = np.asarray(X @ means.sum(axis=0)).ravel() > 0  # any of them
    is_true = (off <= most) & (np.abs(run.shares.sum(axis=1) - meets) <= most)
    for i in np.flatnonzero(~is_true)[:1]:
        raise CertificateError(
            f"the shares of the sample {quoted(str(run.table.samples[i]))} in {FACTORS} are not"
            " those of the nearest mixture of the mean samples of the clusters."
        )


def _stored_shape(shape: Any, n_features: int) -> tuple[int, int] | None:
    if shape is not None and (len(shape) != 2 or prod(shape) != n_features):
        raise RunFolderError(
            f"{FACTS} gives images of {n_features} features the shape {quoted(shape)}; it is"
            " damaged."
        )
    return shape  # type: ignore[no-any-return]


def facts_of_choice(found: RankSelection | None) -> dict[str, Any]:
    """Why this number of clusters; the score of each number that was tried, its standard error, and
    those that cannot be told from the best."""
    curve = found and {
        "method": found.method,
        "candidates": found.candidates.tolist(),
        "scores": found.scores.tolist(),
        "standard_errors": found.spread.tolist(),
        "ties": list(found.ties),
    }
    return {"rank_reason": found and found.reason, "rank_curve": curve}
