"""What a notebook shows of a fitted estimator, below scikit-learn's own diagram."""

from __future__ import annotations

from html import escape
from typing import Any

from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from conecollapse.certificates import ApproximateCertificate
from conecollapse.geometry.cone import Cone


def cone_line(cone: Cone) -> str:
    """The cone in one line: its size, and what is proven about its rays."""
    if isinstance(cone.certificate, ApproximateCertificate):
        return repr(cone).strip("<>")
    left = len(cone.open_points)
    proven = (
        "every ray is proven to be needed"
        if not left
        else f"found quickly: {left} rays are kept without proof, cone_.prove decides"
    )
    return f"{repr(cone).strip('<>')}; {proven}"


class SummaryMixin:
    """Adds a short table of results to the HTML representation. Every text is escaped."""

    def _summary(self) -> dict[str, str]:
        """What was found, by name; only asked of fitted estimators."""
        raise NotImplementedError

    def _html(self) -> str:
        try:
            check_is_fitted(self)
        except Exception:
            return str(estimator_html_repr(self))
        cells = "".join(
            f'<tr><td style="text-align:left">{escape(name)}</td><td'
            f' style="text-align:left">{escape(value)}</td></tr>'
            for name, value in self._summary().items()
        )
        return (
            f"{estimator_html_repr(self)}<table><caption>What was"
            f" found</caption><tbody>{cells}</tbody></table>"
        )

    def _repr_html_inner(self) -> str:
        return self._html()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] = self._html()
        return bundle
