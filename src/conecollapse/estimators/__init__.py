"""scikit-learn estimators. They hold no mathematics: that is in `conecollapse.factorization` and
`conecollapse.geometry`.

Each is imported when it is first asked for: one estimator does not need the modules of the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from conecollapse._lookup import on_demand

if TYPE_CHECKING:
    from conecollapse.estimators._base import BaseNMF
    from conecollapse.estimators._bootstrap import BootstrapResult, bootstrap
    from conecollapse.estimators._fitted import NovelFeature
    from conecollapse.estimators.ccnmf import CCNMF, GraphCCNMF
    from conecollapse.estimators.cone_collapse import ConeCollapse
    from conecollapse.estimators.consensus import ConsensusNMF
    from conecollapse.estimators.minvolume import MinVolumeNMF
    from conecollapse.estimators.nmf import (
        AlternatingNMF,
        HierarchicalNMF,
        MultiplicativeNMF,
        ProjectiveNMF,
        SparseNMF,
    )
    from conecollapse.estimators.novelty import ConeNovelty
    from conecollapse.estimators.orthogonal import OrthogonalNMF
    from conecollapse.estimators.rank import select_rank
    from conecollapse.estimators.separable import SeparableNMF
    from conecollapse.estimators.unmixing import Explanation, Unmixing
    from conecollapse.factorization.resampling.rank_selection import RankSelection

_HOMES = {
    "conecollapse.estimators._base": ("BaseNMF",),
    "conecollapse.estimators._fitted": ("NovelFeature",),
    "conecollapse.estimators._bootstrap": ("BootstrapResult", "bootstrap"),
    "conecollapse.factorization.resampling.rank_selection": ("RankSelection",),
    "conecollapse.estimators.ccnmf": ("CCNMF", "GraphCCNMF"),
    "conecollapse.estimators.cone_collapse": ("ConeCollapse",),
    "conecollapse.estimators.consensus": ("ConsensusNMF",),
    "conecollapse.estimators.minvolume": ("MinVolumeNMF",),
    "conecollapse.estimators.nmf": (
        "AlternatingNMF",
        "HierarchicalNMF",
        "MultiplicativeNMF",
        "ProjectiveNMF",
        "SparseNMF",
    ),
    "conecollapse.estimators.novelty": ("ConeNovelty",),
    "conecollapse.estimators.orthogonal": ("OrthogonalNMF",),
    "conecollapse.estimators.rank": ("select_rank",),
    "conecollapse.estimators.separable": ("SeparableNMF",),
    "conecollapse.estimators.unmixing": ("Explanation", "Unmixing"),
}

__all__ = [
    "CCNMF",
    "AlternatingNMF",
    "BaseNMF",
    "BootstrapResult",
    "ConeCollapse",
    "ConeNovelty",
    "ConsensusNMF",
    "Explanation",
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
    "Unmixing",
    "bootstrap",
    "select_rank",
]

__getattr__ = on_demand(__name__, _HOMES)
