"""Clusters and gene programs of AnnData objects, written back in scanpy's manner.

`cluster` groups cells, `select` says how many groups there are, `programs` finds sets of genes that
are expressed together and how much each cell uses them. All take the table as it is (``X`` or a
layer) and write to ``obs``, ``obsm``, ``varm`` and ``uns`` of the object that is passed. Backed
objects are read from their file in blocks; only the chosen genes are held, or nothing where the
method can do without. `draw` draws what they wrote on an embedding that the object has.

Nothing here imports anndata: an object that is passed has done so.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from conecollapse import estimators
from conecollapse._checks import check_count
from conecollapse._errors import EmptyDataWarning, InvalidInputError
from conecollapse._types import AnyArray
from conecollapse.certificates import Certificate
from conecollapse.clusters import NO_CLUSTER, cluster_sizes
from conecollapse.estimators import RankSelection
from conecollapse.factorization.resampling.rank_of_clusters import most_predictive
from conecollapse.io import TableFile, open_table
from conecollapse.io.h5ad import highly_variable, in_memory
from conecollapse.io.matrix import is_anndata, stored_at
from conecollapse.runs.clustering import chosen_rank
from conecollapse.runs.gene_programs import OF_BATCHES, ProgramsRun
from conecollapse.runs.gene_programs import programs as find_programs
from conecollapse.runs.preparing import chosen_features

__all__ = ["cluster", "draw", "programs", "select"]

TOP = 50  # genes listed for each cluster
FIT = 0.8  # share of the cells that the methods of `select_rank` draw
FEWEST = 3  # cells of which two kinds can be asked
LARGEST = 12  # number of kinds that `select` tries


def cluster(
    adata: Any,
    n_clusters: int | Literal["auto"],
    *,
    layer: str | None = None,
    use_raw: bool = False,
    use_highly_variable: bool | None = None,
    guide_key: str | None = None,
    unlabeled: str = "unknown",
    key_added: str = "conecollapse",
    estimator: Any = None,
    random_state: Any = 0,
    verbose: bool | None = None,
    n_jobs: int | None = None,
) -> None:
    """Cluster the cells of ``adata`` and write the result into it.

    Pass raw counts, or what scanpy's ``normalize_total`` and ``log1p`` make of them: both give the
    same clusters.

    Parameters
    ----------
    adata : AnnData
        In memory or backed.
    n_clusters : int or "auto"
        "auto" chooses among 2 to 10 by `select_rank`, see `select`.
    layer : str, optional
        The layer to use instead of ``X``.
    use_raw : bool
        Use the values that ``adata.raw`` has for the genes of ``adata``, instead of ``X``.
    use_highly_variable : bool, optional
        Use only the genes with ``adata.var["highly_variable"]``; by default if there is such a
        column.
    guide_key : str, optional
        A column of ``obs`` with the known types of some cells, which they keep: the other cells
        join them, or clusters without a type if ``n_clusters`` is larger than their number.
    unlabeled : str
        What stands in that column for a cell of unknown type; missing values and "" always do.
    key_added : str
        The name of what is written.
    estimator : estimator, optional
        `GraphCCNMF` by default; any factorization of the package, of which a copy is fitted.
    random_state : int, Generator, RandomState or None
        Random seed.
    verbose, n_jobs
        As in `BaseNMF`.

    Notes
    -----
    Written are ``obs[key_added]`` (categorical labels; a cell without any expression has none),
    ``obsm["X_" + key_added]`` (the embedding, cells x clusters), ``varm[key_added]`` (the
    components, genes x clusters; zero for genes that were not used) and ``uns[key_added]``:
    parameters, sizes, top genes, and of a model with a cone its rays and what is proven of them.
    With ``guide_key`` also ``obsm[key_added + "_probabilities"]``, a frame with a column for each
    type.

    Examples
    --------
    >>> import anndata, numpy as np
    >>> from conecollapse import scverse
    >>> counts = np.kron(np.eye(2), np.ones((5, 3))) + 0.1 * np.random.default_rng(0).random(
    ...     (10, 6)
    ... )
    >>> adata = anndata.AnnData(counts)
    >>> scverse.cluster(adata, 2)
    >>> (
    ...     sorted(adata.obs["conecollapse"].value_counts().tolist()),
    ...     adata.obsm["X_conecollapse"].shape,
    ... )
    ([5, 5], (10, 2))
    """
    _check(adata)
    columns = _columns(adata, use_highly_variable)
    table, names = _table(adata, layer, columns, use_raw=use_raw)
    guide = None if guide_key is None else _guide(adata, guide_key, unlabeled)
    reason = None
    if isinstance(n_clusters, str) and n_clusters == "auto":
        rank = chosen_rank(table, random_state)
        n_clusters, reason = rank.rank, rank.reason
    check_count(n_clusters, "n_clusters", or_auto=True)
    if estimator is not None and not hasattr(estimator, "get_params"):
        raise InvalidInputError(
            f"estimator must be an estimator of the package, such as CCNMF(); got {estimator!r}."
        )
    if guide is not None:
        types = len(set(guide) - {""})
        if types > n_clusters:
            raise InvalidInputError(
                f"obs[{guide_key!r}] names {types} types, more than n_clusters = {n_clusters}; ask"
                f" for {types} or more. unlabeled={unlabeled!r} is what stands for no type."
            )
    model = estimators.GraphCCNMF() if estimator is None else clone(estimator)
    known = {
        "n_components": n_clusters,
        "random_state": random_state,
        "verbose": verbose,
        "n_jobs": n_jobs,
    }
    model.set_params(**{name: value for name, value in known.items() if name in model.get_params()})
    model.fit(table, guide, feature_names=names)
    asked = {
        "n_clusters": n_clusters,
        "reason": reason,
        "guide_key": guide_key,
        "layer": layer,
        "use_raw": use_raw or None,
        "use_highly_variable": columns is not None,
        "random_state": _seed(random_state),
    }
    write_clusters(adata, model, key_added, columns, asked)


def select(
    adata: Any,
    candidates: Iterable[int] | None = None,
    *,
    layer: str | None = None,
    use_raw: bool = False,
    use_highly_variable: bool | None = None,
    batch_key: str | None = None,
    random_state: Any = 0,
    verbose: bool | None = None,
    n_jobs: int | None = None,
) -> RankSelection:
    """Say how many kinds of cells there are.

    Parameters
    ----------
    adata : AnnData
        In memory or backed; counts are judged in seconds, other tables in minutes.
    candidates : iterable of int, optional
        Numbers to try, by default 2 to 12.
    layer, use_raw, use_highly_variable, random_state, verbose, n_jobs
        As in `cluster`.
    batch_key : str, optional
        A column of ``obs``: each batch is asked alone, and their scores are added up. Without it
        directions in which all kinds are drawn out alike count as those of batches.

    Returns
    -------
    RankSelection
        ``rank``, ``reason`` (a sentence with the runner-up), ``scores``;
        ``plots.rank_selection(found)`` draws them.

    Examples
    --------
    >>> import anndata, numpy as np
    >>> from conecollapse import scverse
    >>> rng = np.random.default_rng(0)
    >>> means = np.kron(rng.gamma(1.0, 1.0, (3, 60)), np.ones((40, 1)))
    >>> scverse.select(anndata.AnnData(rng.poisson(means).astype(float)), range(2, 6)).rank
    3
    """
    _check(adata)
    table, _ = _table(adata, layer, _columns(adata, use_highly_variable), use_raw=use_raw)
    if candidates is None and adata.n_obs < FEWEST:
        raise InvalidInputError(
            f"kinds are told apart from {FEWEST} cells on; adata has {adata.n_obs}."
        )
    if candidates is not None and (isinstance(candidates, str) or not np.iterable(candidates)):
        raise InvalidInputError(
            f"candidates must be numbers to try, such as range(2, 9); got {candidates!r}."
        )
    ranks = range(2, min(LARGEST, int(FIT * adata.n_obs)) + 1) if candidates is None else candidates
    ranks = sorted(set(ranks))
    options = {"random_state": random_state, "verbose": verbose, "n_jobs": n_jobs}
    if batch_key is None:
        return estimators.select_rank(table, ranks, **options)
    batches = _batches(adata, batch_key)
    if hasattr(table, "samples"):  # still in its file
        raise InvalidInputError(
            "batch_key needs the cells in memory; call adata.to_memory() first."
        )
    rows = [np.flatnonzero(batches == batch) for batch in np.unique(batches)]
    smallest = min(rows, key=len)
    if ranks and max(ranks) > FIT * len(smallest):
        raise InvalidInputError(
            f"the batch {str(batches[smallest[0]])!r} holds {len(smallest)} of the cells, too few"
            f" for {max(ranks)} kinds; pass fewer candidates, or leave the batch out."
        )
    with warnings.catch_warnings():  # a gene may be silent in one batch
        warnings.simplefilter("ignore", EmptyDataWarning)
        found = [estimators.select_rank(table[some], ranks, **options) for some in rows]
    methods = {one.method for one in found}
    if methods != {"prediction"}:
        raise InvalidInputError(
            "batch_key adds up predictions, which need counts; pass the layer that has them."
        )
    sums = np.array([table[some].sum() for some in rows])
    weights = sums / sums.sum()
    spread = np.sqrt(sum((w * one.spread) ** 2 for w, one in zip(weights, found, strict=True)))
    scores = sum(w * one.scores for w, one in zip(weights, found, strict=True))
    return most_predictive(found[0].candidates, scores, spread)


def programs(
    adata: Any,
    n_programs: int | Literal["auto"],
    *,
    layer: str | None = None,
    use_highly_variable: bool | None = None,
    batch_key: str | None = None,
    key_added: str = "programs",
    n_runs: int = 20,
    random_state: Any = 0,
    verbose: bool | None = None,
    n_jobs: int | None = None,
) -> None:
    """Find gene programs, sets of genes that are expressed together, and how much each cell uses
    them.

    Meant for raw counts: the loss is the Kullback-Leibler divergence, so each cell counts by its
    depth and no logarithm is needed.

    Parameters
    ----------
    adata : AnnData
        In memory or backed.
    n_programs : int or "auto"
        "auto" takes as many as there are kinds of cells, see `select`.
    layer, use_highly_variable, random_state, verbose, n_jobs
        As in `cluster`.
    batch_key : str, optional
        A column of ``obs``: programs whose usage it explains are listed and warned of.
    key_added : str
        The name of what is written.
    n_runs : int
        Runs from random starts whose programs are brought to a consensus by `ConsensusNMF`.

    Notes
    -----
    Written are, for programs called "programs_0", "programs_1", ...

    - ``obsm["X_" + key_added]``: usages, a frame cells x programs of shares that sum to 1, or 0 for
      a cell without any expression; the same as columns of ``obs``, for ``sc.pl.umap(color=...)``,
    - ``varm[key_added]``: spectra, a frame genes x programs in counts per million,
      zero for genes that were not used,
    - ``varm[key_added + "_z"]``: a frame of how a gene's z-score changes with a program's usage,
      the other usages given (least squares, as in cNMF),
    - ``uns[key_added]``: parameters, ``top_genes`` (for each program the names of the genes that
      distinguish it), ``stability`` (how alike the program is in all runs, 1 where every run found
      it; see `ConsensusNMF`), and with ``batch_key`` the share of each usage's variance that lies
      between batches, ``batch_share``.

    Examples
    --------
    >>> import anndata, numpy as np
    >>> from conecollapse import scverse
    >>> counts = np.kron(np.eye(2), np.full((5, 3), 9.0)) + np.random.default_rng(0).poisson(
    ...     1.0, (10, 6)
    ... )
    >>> adata = anndata.AnnData(counts)
    >>> scverse.programs(adata, 2, n_runs=3)
    >>> (
    ...     adata.obsm["X_programs"].shape,
    ...     sorted(map(sorted, adata.uns["programs"]["top_genes"][:, :3].tolist())),
    ... )
    ((10, 2), [['0', '1', '2'], ['3', '4', '5']])
    """
    _check(adata)
    batches = None if batch_key is None else _batches(adata, batch_key)
    columns = _columns(adata, use_highly_variable)
    if not (isinstance(n_programs, str) and n_programs == "auto"):
        check_count(n_programs, "n_programs", or_auto=True)
    values, names = _table(adata, layer, columns, whole=True)
    table = TableFile(
        values, np.asarray(adata.obs_names, str), np.array(names, str), "adata", "", "columns", ""
    )
    options = {"random_state": random_state, "verbose": verbose, "n_jobs": n_jobs}
    run = find_programs(table, n_programs, n_runs=n_runs, batches=batches, **options)
    for k, share in enumerate([] if batches is None else run.batch_share):
        if share >= OF_BATCHES:
            warnings.warn(
                f"{key_added}_{k} is a batch more than a program: {batch_key!r} explains"
                f" {share:.0%} of the variance of its usage.",
                stacklevel=2,
            )
    asked = {
        "n_programs": run.n_programs,
        "layer": layer,
        "use_highly_variable": columns is not None,
        "n_runs": n_runs,
        "batch_key": batch_key,
        "random_state": _seed(random_state),
    }
    write_programs(adata, run, key_added, columns, asked)


def write_programs(
    adata: Any, run: ProgramsRun, key: str, columns: AnyArray | None, parameters: dict[str, Any]
) -> None:
    """The programs of a run in an AnnData object, to whose genes ``columns`` (all by default) it
    belongs: frames with names of cells, genes and programs, and what `programs` lists."""
    import pandas as pd

    names = [f"{key}_{k}" for k in range(run.n_programs)]
    frame = pd.DataFrame(run.usages, index=adata.obs_names, columns=names)
    adata.obsm[f"X_{key}"] = frame
    adata.obs = adata.obs.drop(columns=names, errors="ignore").join(frame)
    for end, values in (("", run.spectra), ("_z", run.z)):
        adata.varm[key + end] = pd.DataFrame(
            _spread(values.T, columns, adata.n_vars), index=adata.var_names, columns=names
        )
    top = [[gene.name for gene in genes] for genes in run.top_features()]
    found = {
        "parameters": _plain(parameters),
        "top_genes": np.array(top, dtype=object).astype(str),
        "stability": run.stability,
    }
    adata.uns[key] = found if run.batches is None else found | {"batch_share": run.batch_share}


def _guide(adata: Any, key: str, unlabeled: str) -> AnyArray:
    """The known types of cells, "" for the others."""
    import pandas as pd

    column = _column(adata, key)
    known = np.array(["" if pd.isna(label) else str(label) for label in column], dtype=object)
    known[known == str(unlabeled)] = ""
    if not (known != "").any():
        raise InvalidInputError(
            f"obs[{key!r}] labels no cell: all are {unlabeled!r} or missing; name another column."
        )
    return known


def _batches(adata: Any, key: str) -> AnyArray:
    """The batch of each cell, as text."""
    import pandas as pd

    batches = _column(adata, key)
    missing = np.flatnonzero(pd.isna(batches))
    if len(missing):
        raise InvalidInputError(
            f"obs[{key!r}] names no batch for {len(missing)} of {len(batches)} cells, the first of"
            f" them cell {missing[0]}; name their batch, or leave these cells out."
        )
    return batches.astype(str)


def _column(adata: Any, key: str) -> AnyArray:
    if not isinstance(key, str) or key not in adata.obs:
        raise InvalidInputError(f"obs has no column {key!r}; it has {_listed(adata.obs)}.")
    return np.asarray(adata.obs[key])


def draw(
    adata: Any, key: str = "conecollapse", *, basis: str = "X_umap", target: str | None = None
) -> Any:
    """Draw what `cluster` or `programs` wrote on an embedding: cells by cluster, or a map of the
    usage of each program.

    Parameters
    ----------
    adata : AnnData
    key : str
        The ``key_added`` of `cluster` or `programs`.
    basis : str
        The embedding, as in scanpy: "X_umap", or "umap" for short.
    target : str, optional
        A column of ``obs`` with known classes, shown on hover over a cell.

    Returns
    -------
    plotly figure
        ``figure.show()``, or ``figure.write_html("map.html")``.

    Examples
    --------
    >>> import anndata, numpy as np
    >>> from conecollapse import scverse
    >>> adata = anndata.AnnData(np.kron(np.eye(2), np.ones((5, 3))))
    >>> adata.obsm["X_umap"] = np.random.default_rng(0).random((10, 2))
    >>> scverse.cluster(adata, 2)
    >>> [trace.name for trace in scverse.draw(adata).data[:2]]
    ['cluster 0', 'cluster 1']
    """
    _check(adata)
    from conecollapse import plots  # draws with plotly, an optional package

    place = next((adata.obsm[name] for name in (basis, f"X_{basis}") if name in adata.obsm), None)
    if place is None:
        raise InvalidInputError(f"obsm has no embedding {basis!r}; it has {_listed(adata.obsm)}.")
    if target is not None and target not in adata.obs:
        raise InvalidInputError(f"obs has no column {target!r}; it has {_listed(adata.obs)}.")
    found = adata.uns.get(key, {})
    names, known = adata.obs_names, None if target is None else adata.obs[target]
    if "sizes" in found:
        labels = np.asarray(adata.obs[key].cat.codes)
        return plots.clusters.on_embedding(labels, len(found["sizes"]), place, names, known)
    if "stability" in found:
        titles = [f"{k}: {', '.join(genes[:2])}" for k, genes in enumerate(found["top_genes"])]
        return plots.shares(np.asarray(adata.obsm[f"X_{key}"]), place, names=names, titles=titles)
    raise InvalidInputError(
        f"uns[{key!r}] holds no result of scverse.cluster or scverse.programs; call one of them, or"
        " pass its key."
    )


def write_clusters(
    adata: Any, model: Any, key: str, columns: AnyArray | None = None, parameters: Any = None
) -> None:
    """The labels, embedding and components of a model in an AnnData object, to whose genes
    ``columns`` (all by default) it was fitted."""
    import pandas as pd

    r = len(model.profiles_)
    titles = getattr(model, "cluster_labels_", np.arange(r))
    place = {title: k for k, title in enumerate(titles)}
    labels = np.array([place.get(label, NO_CLUSTER) for label in np.asarray(model.labels_)])
    names = [str(title) for title in titles]
    adata.obs[key] = pd.Categorical.from_codes(labels, names)
    if hasattr(model, "label_distributions_"):
        adata.obsm[f"{key}_probabilities"] = pd.DataFrame(
            model.label_distributions_, index=adata.obs_names, columns=names
        )
    adata.obsm[f"X_{key}"] = np.asarray(model.embedding_)
    adata.varm[key] = _spread(np.asarray(model.profiles_).T, columns, adata.n_vars)
    top = model.top_features(min(TOP, model.n_features_in_), names=_names(adata, columns))
    found = {
        "parameters": _plain({"method": type(model).__name__, **(parameters or {})}),
        "sizes": cluster_sizes(labels, r),
        "top_genes": (
            np.array([[gene.name for gene in genes] for genes in top], dtype=object).astype(str)
        ),
        "relative_error": float(model.relative_err_),
    }
    if hasattr(model, "cone_"):
        found["cone"] = _cone(model)
    adata.uns[key] = found


def _cone(model: Any) -> dict[str, Any]:
    """The rays, and what is proven of them."""
    cone = model.cone_
    exact = isinstance(cone.certificate, Certificate)
    return {
        "ray_indices": np.asarray(cone.ray_indices),
        "n_rays": int(cone.n_rays),
        "n_open": len(cone.open_points),
        "tol": float(cone.tol),
        "proven": "exact" if exact else "within tol of every point",
    }


def _check(adata: Any) -> None:
    if not is_anndata(adata):
        raise InvalidInputError(
            f"this needs an AnnData object; got {type(adata).__name__}. For arrays use the"
            " estimators themselves."
        )


def _listed(names: Any) -> str:
    return ", ".join(repr(str(name)) for name in names) or "none"


def _columns(adata: Any, use_highly_variable: bool | None) -> AnyArray | None:
    """The genes to use; None for all of them."""
    return chosen_features(highly_variable(adata), use_highly_variable)


def _table(
    adata: Any,
    layer: str | None,
    columns: AnyArray | None,
    *,
    whole: bool = False,
    use_raw: bool = False,
) -> tuple[Any, list[str]]:
    """The table and its names: chosen genes, or a ``whole`` table, in memory; else a file stays
    where it is."""
    names = _names(adata, columns)
    if use_raw or stored_at(adata) is None:
        values = _raw(adata, layer) if use_raw else in_memory(adata, layer)
        values = values if columns is None else values[:, columns]
        if not values.shape[1]:
            raise InvalidInputError("adata has no genes to use; is this the right object?")
        if not use_raw and values.shape[0] and values.min() < 0:
            raw = "" if whole else "use_raw=True for the values in adata.raw, or "
            raise InvalidInputError(
                f"{'X' if layer is None else f'the layer {layer!r}'} has negative values, as"
                f" scanpy's scale leaves them; pass {raw}the layer with those before it was scaled."
            )
        return values, names
    table = open_table(adata, layer=layer)
    if columns is None and not whole:
        return table, names
    parts = [part if columns is None else part[:, columns] for part in table.samples()]
    return (sp.csr_array(sp.vstack(parts)) if table.is_sparse else np.vstack(parts)), names


def _raw(adata: Any, layer: str | None) -> Any:
    """The values that ``adata.raw`` has for the genes of ``adata``."""
    if layer is not None:
        raise InvalidInputError(f"use_raw=True and layer={layer!r} exclude each other; give one.")
    if adata.raw is None:
        raise InvalidInputError(
            "use_raw=True, but there is no adata.raw; keep one by adata.raw = adata before scaling."
        )
    places = {str(name): place for place, name in enumerate(adata.raw.var_names)}
    missing = [name for name in _names(adata, None) if name not in places]
    if missing:
        raise InvalidInputError(
            f"adata.raw has no gene {missing[0]!r}; make it from the genes of adata, or more."
        )
    return adata.raw.X[:, [places[name] for name in _names(adata, None)]]


def _names(adata: Any, columns: AnyArray | None) -> list[str]:
    return [
        str(name) for name in (adata.var_names if columns is None else adata.var_names[columns])
    ]


def _spread(values: AnyArray, columns: AnyArray | None, n_vars: int) -> AnyArray:
    """Rows for all genes; zero for those that were not used."""
    if columns is None:
        return values
    found = np.zeros((n_vars, values.shape[1]), values.dtype)
    found[columns] = values
    return found


def _plain(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters as an ``.h5ad`` file can hold them: what is None is left out."""
    return {
        name: value if isinstance(value, (bool, int, float, str)) else str(value)
        for name, value in parameters.items()
        if value is not None
    }


def _seed(random_state: Any) -> Any:
    return random_state if isinstance(random_state, (int, np.integer)) else None
