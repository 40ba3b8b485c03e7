"""What a cone claims (`claims`), the vectors that prove it (`witnesses`), and the proof (`checker`,
`blocked`); whether points of a cone are the nearest ones (`optimality`)."""

from conecollapse.certificates.blocked import check_blocks
from conecollapse.certificates.checker import check, check_cover, check_sample
from conecollapse.certificates.claims import (
    AnyCertificate,
    ApproximateCertificate,
    Certificate,
    SampledCertificate,
    Verdict,
    plain,
    vectors,
)
from conecollapse.certificates.optimality import (
    allowance,
    departures,
    relative_error,
    weights_of_shares,
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
    "SampledCertificate",
    "SparseVectors",
    "Support",
    "Vectors",
    "Verdict",
    "Witnesses",
    "allowance",
    "check",
    "check_blocks",
    "check_cover",
    "check_sample",
    "departures",
    "plain",
    "relative_error",
    "vectors",
    "weights_of_shares",
]
