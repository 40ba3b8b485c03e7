"""scikit-learn estimators. They hold no mathematics: that is in `conecollapse.factorization` and `conecollapse.geometry`."""

from conecollapse.estimators.ccnmf import CCNMF
from conecollapse.estimators.cone_collapse import ConeCollapse
from conecollapse.estimators.nmf import (
    AlternatingNMF,
    HierarchicalNMF,
    MultiplicativeNMF,
    OrthogonalNMF,
    ProjectiveNMF,
    SparseNMF,
)
from conecollapse.estimators.rank import RankSelection, select_rank

__all__ = [
    "CCNMF",
    "AlternatingNMF",
    "ConeCollapse",
    "HierarchicalNMF",
    "MultiplicativeNMF",
    "OrthogonalNMF",
    "ProjectiveNMF",
    "RankSelection",
    "SparseNMF",
    "select_rank",
]
