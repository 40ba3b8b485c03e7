"""Graphs of samples, to be factorized in place of the table: `KNN`, `Diffusion`, `Precomputed`.

They are values of the estimators' ``affinity``; "knn", "diffusion" and "precomputed" are shorthands
for them with their defaults.
"""

from conecollapse.affinity.graphs import knn_graph
from conecollapse.affinity.kinds import KNN, Affinity, Diffusion, Precomputed, Source

__all__ = ["KNN", "Affinity", "Diffusion", "Precomputed", "Source", "knn_graph"]
