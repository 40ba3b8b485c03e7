"""What a cone claims (`claims`), the vectors that prove it (`witnesses`), and the proof (`checker`,
`blocked`)."""

from conecollapse.certificates.blocked import check_blocks
from conecollapse.certificates.checker import check, check_cover
from conecollapse.certificates.claims import (
    AnyCertificate,
    ApproximateCertificate,
    Certificate,
    Verdict,
    plain,
    vectors,
)
from conecollapse.certificates.witnesses import (
    KINDS,
    Combination,
    Metric,
    SparseVectors,
    Support,
    Vectors,
    Witnesses,
)

__all__ = [
    "KINDS",
    "AnyCertificate",
    "ApproximateCertificate",
    "Certificate",
    "Combination",
    "Metric",
    "SparseVectors",
    "Support",
    "Vectors",
    "Verdict",
    "Witnesses",
    "check",
    "check_blocks",
    "check_cover",
    "plain",
    "vectors",
]
