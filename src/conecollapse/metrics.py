"""Scores of a clustering against known classes. The names of clusters and classes do not matter;
true labels are used only for scoring."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from conecollapse._errors import InvalidInputError
from conecollapse._types import IntArray

if TYPE_CHECKING:
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

__all__ = [
    "adjusted_rand_score",
    "clustering_accuracy",
    "contingency",
    "normalized_mutual_info_score",
    "purity_score",
]


def purity_score(labels_true: Any, labels_pred: Any) -> float:
    r"""Share of samples that belong to the majority class of their cluster, as the paper has it.

    .. math:: \frac1n \sum_k \max_c |\{i : \text{cluster } k, \text{class } c\}|

    It is 1 when every cluster is of one class, and so it never falls when a cluster is split:
    compare it at equal numbers of clusters.

    Examples
    --------
    >>> purity_score(["a", "a", "b", "b"], [1, 1, 1, 0])
    0.75
    """
    table = contingency(labels_true, labels_pred)
    return float(table.max(axis=0).sum() / table.sum())


def clustering_accuracy(labels_true: Any, labels_pred: Any) -> float:
    """Share of samples classified correctly under the best one-to-one match of clusters and classes
    (Hungarian method).

    Examples
    --------
    >>> clustering_accuracy([0, 0, 1, 1], [1, 1, 0, 2])
    0.75
    """
    table = contingency(labels_true, labels_pred)
    rows, columns = linear_sum_assignment(-table)
    return float(table[rows, columns].sum() / table.sum())


def contingency(labels_true: Any, labels_pred: Any) -> IntArray:
    """Counts of samples by class (rows) and cluster (columns), in sorted order of both."""
    true, predicted = np.asarray(labels_true), np.asarray(labels_pred)
    for labels, name in ((true, "labels_true"), (predicted, "labels_pred")):
        if labels.ndim != 1 or not labels.size:
            raise InvalidInputError(
                f"{name} has shape {labels.shape}; expected one label for each sample."
            )
        # NaN differs from itself
        missing = np.array([value is None or value != value for value in labels.tolist()])
        if missing.any():
            raise InvalidInputError(
                f"{name} has no label for sample {int(missing.argmax())}; drop it first."
            )
    if len(true) != len(predicted):
        counts = f"labels_true has {len(true)} samples and labels_pred {len(predicted)}"
        raise InvalidInputError(
            f"{counts}; they must be of the same samples (if features were clustered, transpose X)."
        )
    classes, row = np.unique(true, return_inverse=True)
    clusters, column = np.unique(predicted, return_inverse=True)
    table = np.zeros((len(classes), len(clusters)), np.int64)
    np.add.at(table, (row, column), 1)
    return table


def __getattr__(name: str) -> Any:
    """NMI and ARI are scikit-learn's own, imported when asked for."""
    if name in ("adjusted_rand_score", "normalized_mutual_info_score"):
        import sklearn.metrics

        return getattr(sklearn.metrics, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
