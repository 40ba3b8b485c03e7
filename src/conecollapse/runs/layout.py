"""A picture of the samples that knows nothing of their clusters: the UMAP that an ``.h5ad`` file
has, else scikit-learn's t-SNE of the samples as the clustering compares them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._types import AnyArray, FloatArray, IntArray
from conecollapse.io import TableFile
from conecollapse.runs.folder import LAYOUT
from conecollapse.runs.values import write_csv

STORED = "X_umap"  # scanpy's embedding
MOST = 5000  # samples that t-SNE places: about ten seconds
FEWEST = 5
DIRECTIONS = 50  # that t-SNE is given at most, which is common practice
STEPS = 500  # of t-SNE, of which the first 250 separate groups
PERPLEXITY = 30.0  # neighbours that count, scikit-learn's default


@dataclass(frozen=True, eq=False)
class Layout:
    """Where some samples are drawn."""

    rows: IntArray  # the samples, in order
    places: FloatArray  # (n_drawn, 2)
    name: str  # what it is, for a sentence

    def arrays(self) -> dict[str, AnyArray]:
        """What factors.npz keeps."""
        return {"layout_rows": self.rows, "layout": self.places}

    @staticmethod
    def write(folder: Path, arrays: Mapping[str, AnyArray], samples: AnyArray) -> None:
        """Write layout.csv."""
        names = samples[arrays["layout_rows"]].tolist()
        rows = zip(names, *arrays["layout"].T.tolist(), strict=True)
        write_csv(folder / LAYOUT, ["sample", "x", "y"], rows)


def lay_out(table: TableFile, model: Any) -> Layout | None:
    """The layout of the samples of ``table``; None for a handful."""
    from conecollapse.affinity.views import View  # imports scikit-learn
    from conecollapse.io.h5ad import read_embedding

    n = table.n_samples
    stored = read_embedding(table, STORED)
    if stored is not None:
        return Layout(np.arange(n), stored, f"{STORED}, as the file has it")
    if n < FEWEST:
        return None
    rows = np.arange(n)
    if n > MOST:
        rows = np.sort(np.random.default_rng(0).choice(n, MOST, replace=False))
    placement = getattr(model._fitted.encoder, "placement", None)
    view = View("root") if placement is None else placement.choice.view
    X = table.X[rows]
    Y = view.before_projection(X) if isinstance(view, View) else view.of(X)
    return Layout(rows, _tsne(Y), f"t-SNE of the view “{view.name}”")


def _tsne(Y: Any) -> FloatArray:
    from sklearn.decomposition import PCA, TruncatedSVD
    from sklearn.manifold import TSNE

    most: int = min(DIRECTIONS, Y.shape[1] - 1, Y.shape[0] - 1)
    if most > 1 and (sp.issparse(Y) or Y.shape[1] > DIRECTIONS):
        kind = TruncatedSVD if sp.issparse(Y) else PCA
        Y = kind(most, random_state=0).fit_transform(Y)
    Y = np.asarray(Y.toarray() if sp.issparse(Y) else Y, np.float32)
    scale = float(np.abs(Y).max()) or 1.0
    perplexity = min(PERPLEXITY, (len(Y) - 1) / 3)
    start = "pca" if Y.shape[1] > 1 else "random"
    drawn = TSNE(perplexity=perplexity, init=start, max_iter=STEPS, random_state=0)
    return np.asarray(drawn.fit_transform(Y / scale), np.float64)
