"""Non-negative matrix factorization through the geometry of the data cone.

- `nnls`: non-negative least squares for any shape and rank, one right-hand side or a million.
- `Cone.from_points`: the extreme rays of a set of points, exactly, with a certificate that
  `Cone.verify` checks.
- `Hull.from_points`: the vertices of points of any sign, in any dimension, with a certificate.
- `Cone.approximate`: few rays with a guaranteed largest residual; `Cone.sample`: those that random
  functionals find in one pass, with a bound on what was missed.
- `Cone.from_table`, `Cone.from_blocks`, `Cone.from_samples`, `conecollapse.io.open_table`: the same
  for data larger than memory, and on Dask.
- `collapse`: Algorithm 1 of the paper, step by step.
- `GraphCCNMF`: clusters of samples over a graph chosen from the data.
- `CCNMF` and the baselines (`MultiplicativeNMF`, `AlternatingNMF`, `HierarchicalNMF`,
  `ProjectiveNMF`, `OrthogonalNMF`, `SparseNMF`): factorizations and clusterings with one interface;
  `ConeCollapse`: the rays as a feature selector; `select_rank`: how many components.
- `Unmixing`: the components of mixtures, with pure samples and without; `MinVolumeNMF` and
  `SeparableNMF` are two of its methods.
- `ConsensusNMF`: the components that many runs agree on.
- `bootstrap`: intervals for components, encodings and labels.
- `ConeNovelty`: is a new sample a mixture of trusted ones, and if not, by which features?
- `conecollapse.metrics`, `conecollapse.affinity`: scores; graphs of samples to factorize.
- `conecollapse.scverse`: clusters and gene programs of AnnData objects.
- `conecollapse.texts`: topics of documents.
- `conecollapse.datasets`: the paper's sixteen datasets, and cones with planted truth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    SlowWarning,
    UnexpectedArgumentError,
)
from conecollapse._lookup import on_demand

if TYPE_CHECKING:
    from conecollapse._nnls import NnlsInfo, nnls
    from conecollapse.certificates import ApproximateCertificate, Certificate, Verdict
    from conecollapse.estimators import (
        CCNMF,
        AlternatingNMF,
        BaseNMF,
        BootstrapResult,
        ConeCollapse,
        ConeNovelty,
        ConsensusNMF,
        Explanation,
        GraphCCNMF,
        HierarchicalNMF,
        MinVolumeNMF,
        MultiplicativeNMF,
        NovelFeature,
        OrthogonalNMF,
        ProjectiveNMF,
        RankSelection,
        SeparableNMF,
        SparseNMF,
        Unmixing,
        bootstrap,
        select_rank,
    )
    from conecollapse.geometry.collapse import Iteration, collapse
    from conecollapse.geometry.cone import Cone
    from conecollapse.geometry.hull import Hull, HullVerdict

__version__ = "0.1.0"

_HOMES = {
    "conecollapse._nnls": ("NnlsInfo", "nnls"),
    "conecollapse.certificates": ("ApproximateCertificate", "Certificate", "Verdict"),
    "conecollapse.geometry.collapse": ("Iteration", "collapse"),
    "conecollapse.geometry.cone": ("Cone",),
    "conecollapse.geometry.hull": ("Hull", "HullVerdict"),
    "conecollapse.estimators": (
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
    ),
}
_MODULES = (
    *("affinity", "certificates", "datasets", "geometry", "io", "metrics", "plots"),
    *("scverse", "texts"),
)

__all__ = [
    "CCNMF",
    "AlternatingNMF",
    "ApproximateCertificate",
    "BaseNMF",
    "BootstrapResult",
    "Certificate",
    "CertificateError",
    "CheckpointError",
    "ClusterError",
    "Cone",
    "ConeCollapse",
    "ConeCollapseError",
    "ConeFileError",
    "ConeNovelty",
    "ConsensusNMF",
    "ConvergenceError",
    "DataChangedError",
    "DatasetError",
    "DatasetNotFoundError",
    "EmptyDataWarning",
    "Explanation",
    "GraphCCNMF",
    "HierarchicalNMF",
    "Hull",
    "HullVerdict",
    "InvalidInputError",
    "Iteration",
    "MinVolumeNMF",
    "MissingDependencyError",
    "MultiplicativeNMF",
    "NnlsInfo",
    "NotOptimalWarning",
    "NovelFeature",
    "OrthogonalNMF",
    "ProjectiveNMF",
    "RankSelection",
    "RunFolderError",
    "SeparableNMF",
    "SlowWarning",
    "SparseNMF",
    "UnexpectedArgumentError",
    "Unmixing",
    "Verdict",
    "bootstrap",
    "collapse",
    "nnls",
    "select_rank",
]


# everything but the exceptions is imported when it is first asked for: numba and scikit-learn take
# longer to import than the rest
__getattr__ = on_demand(__name__, _HOMES, _MODULES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
