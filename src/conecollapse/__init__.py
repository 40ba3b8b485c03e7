"""Non-negative matrix factorization through the geometry of the data cone.

- `nnls`: non-negative least squares for any shape and rank, one right-hand side or a million.
- `Cone.from_points`: the extreme rays of a set of points, exactly, with a certificate that `Cone.verify` checks.
- `Cone.approximate`: few rays with a guaranteed largest residual.
- `Cone.from_table`, `Cone.from_blocks`, `Cone.from_samples`, `conecollapse.blocks`: the same for data larger than memory, and on Dask.
- `collapse`: Algorithm 1 of the paper, step by step.
- `CCNMF` and the baselines (`MultiplicativeNMF`, `AlternatingNMF`, `HierarchicalNMF`, `ProjectiveNMF`, `OrthogonalNMF`, `SparseNMF`):
  factorizations and clusterings with one interface; `ConeCollapse`: the rays as a feature selector; `select_rank`: how many components.
- `conecollapse.metrics`, `conecollapse.graphs`, `conecollapse.factorization`: scores, graph inputs, the methods as pure functions.
- `conecollapse.datasets`: the paper's sixteen datasets, and cones with planted truth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conecollapse._errors import (
    CertificateError,
    CheckpointError,
    ClusterError,
    ConeCollapseError,
    ConeFileError,
    ConvergenceError,
    DataChangedError,
    DatasetError,
    DatasetNotFoundError,
    EmptyDataWarning,
    InvalidInputError,
    MissingDependencyError,
    NotOptimalWarning,
    RunFolderError,
)
from conecollapse._nnls import NnlsInfo, nnls
from conecollapse.certificates import ApproximateCertificate, Certificate, Verdict
from conecollapse.geometry.collapse import Iteration, collapse
from conecollapse.geometry.cone import Cone

if TYPE_CHECKING:
    from conecollapse.estimators import (
        CCNMF,
        AlternatingNMF,
        ConeCollapse,
        HierarchicalNMF,
        MultiplicativeNMF,
        OrthogonalNMF,
        ProjectiveNMF,
        RankSelection,
        SparseNMF,
        select_rank,
    )

__version__ = "0.1.0"

_ESTIMATORS = (
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
)

__all__ = [
    "CCNMF",
    "AlternatingNMF",
    "ApproximateCertificate",
    "Certificate",
    "CertificateError",
    "CheckpointError",
    "ClusterError",
    "Cone",
    "ConeCollapse",
    "ConeCollapseError",
    "ConeFileError",
    "ConvergenceError",
    "DataChangedError",
    "DatasetError",
    "DatasetNotFoundError",
    "EmptyDataWarning",
    "HierarchicalNMF",
    "InvalidInputError",
    "Iteration",
    "MissingDependencyError",
    "MultiplicativeNMF",
    "NnlsInfo",
    "NotOptimalWarning",
    "OrthogonalNMF",
    "ProjectiveNMF",
    "RankSelection",
    "RunFolderError",
    "SparseNMF",
    "Verdict",
    "collapse",
    "nnls",
    "select_rank",
]


def __getattr__(name: str) -> Any:
    """Estimators are imported when first asked for: scikit-learn takes longer to import than everything else here."""
    if name in _ESTIMATORS:
        import conecollapse.estimators

        return getattr(conecollapse.estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_ESTIMATORS])
