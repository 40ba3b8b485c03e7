"""What a cone claims (`claims`), and the proof of it (`checker`)."""

from conecollapse.certificates.blocked import check_blocks
from conecollapse.certificates.checker import check
from conecollapse.certificates.claims import COMBINED, DENSE, METRIC, SUPPORT, ApproximateCertificate, Certificate, Verdict
from conecollapse.certificates.form import check_form

__all__ = [
    "COMBINED",
    "DENSE",
    "METRIC",
    "SUPPORT",
    "ApproximateCertificate",
    "Certificate",
    "Verdict",
    "check",
    "check_blocks",
    "check_form",
]
