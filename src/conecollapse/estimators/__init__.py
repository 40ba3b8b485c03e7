"""scikit-learn estimators. They hold no mathematics: that is in `conecollapse.factorization` and `conecollapse.geometry`."""

from conecollapse.estimators._base import BaseNMF
from conecollapse.estimators.ccnmf import CCNMF
from conecollapse.estimators.cone_collapse import ConeCollapse
from conecollapse.estimators.graph_ccnmf import GraphCCNMF
from conecollapse.estimators.minvolume import MinVolumeNMF
from conecollapse.estimators.nmf import (
    AlternatingNMF,
    HierarchicalNMF,
    MultiplicativeNMF,
    OrthogonalNMF,
    ProjectiveNMF,
    SparseNMF,
)
from conecollapse.estimators.novelty import ConeNovelty, NovelFeature
from conecollapse.estimators.rank import RankSelection, select_rank
from conecollapse.estimators.separable import SeparableNMF

__all__ = [
    "CCNMF",
    "AlternatingNMF",
    "BaseNMF",
    "ConeCollapse",
    "ConeNovelty",
    "GraphCCNMF",
    "HierarchicalNMF",
    "MinVolumeNMF",
    "MultiplicativeNMF",
    "NovelFeature",
    "OrthogonalNMF",
    "ProjectiveNMF",
    "RankSelection",
    "SeparableNMF",
    "SparseNMF",
    "select_rank",
]
