"""What a cone claims (`claims`), and the proof of it (`checker`)."""

from conecollapse.certificates.checker import check
from conecollapse.certificates.claims import DENSE, METRIC, SUPPORT, ApproximateCertificate, Certificate, Verdict
from conecollapse.certificates.form import check_form

__all__ = ["DENSE", "METRIC", "SUPPORT", "ApproximateCertificate", "Certificate", "Verdict", "check", "check_form"]
