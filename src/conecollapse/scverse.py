"""Clusters and gene programs of AnnData objects, written back in scanpy's manner.

`cluster` groups cells, `programs` finds sets of genes that are expressed together and how much each
cell uses them. Both take the table as it is (``X`` or a layer) and write to ``obs``, ``obsm``,
``varm`` and ``uns`` of the object that is passed. Backed objects are read from their file in
blocks; only the chosen genes are held, or nothing where the method can do without. `draw` draws
what they wrote on an embedding that the object has.

Nothing here imports anndata: an object that is passed has done so.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from conecollapse import estimators
from conecollapse._errors import InvalidInputError
from conecollapse._types import AnyArray
from conecollapse.certificates import Certificate
from conecollapse.clusters import NO_CLUSTER
from conecollapse.io import open_table
from conecollapse.io.annotated import highly_variable, in_memory, is_anndata, stored_at
from conecollapse.runs.clustering import chosen_rank
from conecollapse.runs.preparing import chosen_features

__all__ = ["cluster", "draw", "programs"]

TOP = 50  # genes listed for each program
COUNTED = "kullback-leibler"  # the loss for counts


def cluster(
    adata: Any,
    n_clusters: int | Literal["auto"],
    *,
    layer: str | None = None,
    use_raw: bool = False,
    use_highly_variable: bool | None = None,
    key_added: str = "conecollapse",
    estimator: Any = None,
    random_state: Any = 0,
    verbose: bool | None = None,
    n_jobs: int | None = None,
) -> None:
    """Cluster the cells of ``adata`` and write the result into it.

    Counts should have the same depth and be logarithms (scanpy's ``normalize_total`` and
    ``log1p``), as for any clustering of cells.

    Parameters
    ----------
    adata : AnnData
        In memory or backed.
    n_clusters : int or "auto"
        "auto" chooses among 2 to 10 by `select_rank`.
    layer : str, optional
        The layer to use instead of ``X``.
    use_raw : bool
        Use the values that ``adata.raw`` has for the genes of ``adata``, instead of ``X``.
    use_highly_variable : bool, optional
        Use only the genes with ``adata.var["highly_variable"]``; by default if there is such a
        column.
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
    if isinstance(n_clusters, str) and n_clusters == "auto":
        n_clusters = chosen_rank(table, random_state).rank
    model = estimators.GraphCCNMF() if estimator is None else clone(estimator)
    known = {
        "n_components": n_clusters,
        "random_state": random_state,
        "verbose": verbose,
        "n_jobs": n_jobs,
    }
    model.set_params(**{name: value for name, value in known.items() if name in model.get_params()})
    model.fit(table, feature_names=names)
    asked = {
        "n_clusters": n_clusters,
        "layer": layer,
        "use_raw": use_raw or None,
        "use_highly_variable": columns is not None,
        "random_state": _seed(random_state),
    }
    write_clusters(adata, model, key_added, columns, asked)


def programs(
    adata: Any,
    n_programs: int,
    *,
    layer: str | None = None,
    use_highly_variable: bool | None = None,
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
    n_programs : int
    layer, use_highly_variable, random_state, verbose, n_jobs
        As in `cluster`.
    key_added : str
        The name of what is written.
    n_runs : int
        Runs from random starts whose programs are brought to a consensus by `ConsensusNMF`.

    Notes
    -----
    Written are ``obsm["X_" + key_added]`` (usages, cells x programs: shares that sum to 1, or 0 for
    a cell without any expression), ``varm[key_added]`` (genes x programs, each with a sum of 1;
    zero for genes that were not used) and ``uns[key_added]``: parameters, ``top_genes`` (for each
    program the names of the genes that distinguish it) and ``stability`` (how alike the program is
    in all runs, 1 where every run found it; see `ConsensusNMF`).

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
    columns = _columns(adata, use_highly_variable)
    table, names = _table(adata, layer, columns, whole=True)
    options = {"random_state": random_state, "verbose": verbose, "n_jobs": n_jobs}
    model = estimators.ConsensusNMF(n_programs, n_runs=n_runs, loss=COUNTED, **options).fit(
        table, feature_names=names
    )
    H, W = np.asarray(model.components_, np.float64), np.asarray(model.transform(table), np.float64)
    sums = H.sum(axis=1)
    usage = W * sums
    total = usage.sum(axis=1, keepdims=True)
    H = H / np.where(sums > 0, sums, 1.0)[:, None]
    adata.obsm[f"X_{key_added}"] = usage / np.where(total > 0, total, 1.0)
    adata.varm[key_added] = _spread(H.T, columns, adata.n_vars)
    asked = {
        "n_programs": n_programs,
        "layer": layer,
        "use_highly_variable": columns is not None,
        "n_runs": n_runs,
    }
    found: dict[str, Any] = {
        "parameters": _plain(asked | {"random_state": _seed(random_state)}),
        "top_genes": _distinctive(H, names),
    }
    adata.uns[key_added] = found | {"stability": np.asarray(model.stability_)}


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
        labels = np.array(
            [
                NO_CLUSTER if label is None or label != label else int(label)
                for label in adata.obs[key]
            ]
        )
        return plots.clusters.on_embedding(labels, len(found["sizes"]), place, names, known)
    if "stability" in found:
        titles = [f"{k}: {', '.join(genes[:2])}" for k, genes in enumerate(found["top_genes"])]
        return plots.shares(adata.obsm[f"X_{key}"], place, names=names, titles=titles)
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

    labels = np.asarray(model.labels_)
    names = [str(k) for k in range(len(model.profiles_))]
    adata.obs[key] = pd.Categorical.from_codes(np.where(labels == NO_CLUSTER, -1, labels), names)
    adata.obsm[f"X_{key}"] = np.asarray(model.embedding_)
    adata.varm[key] = _spread(np.asarray(model.profiles_).T, columns, adata.n_vars)
    top = model.top_features(min(TOP, model.n_features_in_), names=_names(adata, columns))
    found = {
        "parameters": _plain({"method": type(model).__name__, **(parameters or {})}),
        "sizes": np.bincount(labels[labels != NO_CLUSTER], minlength=len(names)),
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
        if not use_raw and values.shape[0] and values.min() < 0:
            raise InvalidInputError(
                f"{'X' if layer is None else f'the layer {layer!r}'} has negative values, as"
                " scanpy's scale leaves them; pass use_raw=True for the values in adata.raw, or the"
                " layer with those before it was scaled."
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


def _distinctive(H: AnyArray, names: list[str]) -> AnyArray:
    """For each program its genes, those first whose share of it exceeds their share of every other
    program most."""
    lead = np.array([h - np.delete(H, k, axis=0).max(axis=0, initial=0.0) for k, h in enumerate(H)])
    order = np.argsort(-lead, axis=1, kind="stable")[:, :TOP]
    return np.asarray(names, dtype=str)[order]


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
