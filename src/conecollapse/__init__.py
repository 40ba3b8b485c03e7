"""Non-negative matrix factorization through the geometry of the data cone.

- `nnls`: non-negative least squares for any shape and rank, one right-hand side or a million.
- `Cone.from_points`: the extreme rays of a set of points, exactly, with a certificate that `Cone.verify` checks.
- `Cone.approximate`: few rays with a guaranteed largest residual.
- `collapse`: Algorithm 1 of the paper, step by step.
- `conecollapse.datasets`: the paper's sixteen datasets, and cones with planted truth.
"""

from conecollapse._errors import (
    CertificateError,
    ConeCollapseError,
    ConeFileError,
    ConvergenceError,
    DatasetError,
    DatasetNotFoundError,
    InvalidInputError,
)
from conecollapse._nnls import NnlsInfo, nnls
from conecollapse.certificates import ApproximateCertificate, Certificate, Verdict
from conecollapse.geometry.collapse import Iteration, collapse
from conecollapse.geometry.cone import Cone

__version__ = "0.1.0"

__all__ = [
    "ApproximateCertificate",
    "Certificate",
    "CertificateError",
    "Cone",
    "ConeCollapseError",
    "ConeFileError",
    "ConvergenceError",
    "DatasetError",
    "DatasetNotFoundError",
    "InvalidInputError",
    "Iteration",
    "NnlsInfo",
    "Verdict",
    "collapse",
    "nnls",
]
