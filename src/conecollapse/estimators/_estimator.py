"""What every estimator of this package has: how it reports its progress and uses the machine, what
scikit-learn is told about it, and what a notebook shows of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from html import escape
from inspect import signature
from typing import Any, ClassVar, Self, TypeVar, cast

from sklearn import exceptions
from sklearn.utils import estimator_html_repr, validation

from conecollapse._checks import check_callable
from conecollapse._errors import ConeCollapseError, InvalidInputError, UnexpectedArgumentError
from conecollapse._progress import showing
from conecollapse._threads import limit_threads
from conecollapse.certificates import ApproximateCertificate
from conecollapse.estimators._sklearn import Cooperative
from conecollapse.geometry.cone import Cone

EVERY = 10  # iterations for which verbose=True prints one line
WITH_WEIGHTS = "HierarchicalNMF, AlternatingNMF, MultiplicativeNMF and SparseNMF"

Method = TypeVar("Method", bound=Callable[..., Any])


class NotFittedError(ConeCollapseError, exceptions.NotFittedError):  # type: ignore[misc]
    """A model is asked for what only `fit` finds."""


def check_is_fitted(model: Any, attributes: str | None = None) -> None:
    """scikit-learn's check, with an error of this package."""
    try:
        validation.check_is_fitted(model, attributes)
    except exceptions.NotFittedError as error:
        raise NotFittedError(str(error)) from None


@dataclass(eq=False, repr=False, kw_only=True)
class Estimator(Cooperative):
    """An estimator of tables that are not negative, dense or sparse.

    ``callback`` of one that works in stages is called as ``callback(stage, done, total)`` now and
    then; of one that iterates, as ``callback(n_iter, objective)`` after every iteration, and a true
    answer ends the run.
    """

    verbose: bool | None = None
    callback: Any = None
    n_jobs: int | None = None

    _iterates: ClassVar[bool] = False

    @property
    def _shows(self) -> bool | None:
        """Whether progress is shown, as `conecollapse._progress.showing` takes it; iterations are
        printed by `_report_iteration` instead."""
        return None if self.verbose is None else bool(self.verbose) and not self._iterates

    def _report_iteration(self, n_iter: int, objective: float) -> object:
        if self.verbose and n_iter % EVERY == 0:
            print(f"{type(self).__name__}: iteration {n_iter}, objective {objective:.6g}")
        return self.callback(n_iter, objective) if self.callback is not None else None

    def __sklearn_clone__(self) -> Self:
        """A copy without what was learned. It knows what was already warned about, so that the
        folds of a search do not repeat it."""
        copy = super().__sklearn_clone__()
        if not hasattr(self, "_warned"):
            self._warned: set[tuple[str, int]] = set()
        copy._warned = self._warned
        return copy

    def _note_warning(self, subject: str, n_features: int) -> bool:
        """Whether a copy of this model has warned of the same in a table of so many features; it is
        noted."""
        warned = getattr(self, "_warned", None)
        if warned is None:
            return False
        is_known = (subject, n_features) in warned
        warned.add((subject, n_features))
        return is_known

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.input_tags.sparse = True
        if tags.transformer_tags is not None:
            tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _summary(self) -> dict[str, str]:
        """Results by name, for a notebook; only called for fitted estimators."""
        raise NotImplementedError

    def _html(self) -> str:
        """scikit-learn's diagram with a table of results below it; every text is escaped."""
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
        bundle = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] = self._html()
        return bundle


def running(method: Method) -> Method:
    """A method of an estimator that shows its progress, and uses at most ``n_jobs`` threads.
    Arguments that only other estimators take are refused."""
    known = signature(method).parameters

    @wraps(method)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        check_callable(self.callback, "callback")
        for name in kwargs.keys() - known:
            _refuse(type(self).__name__, method.__name__, name, kwargs.pop(name))
        callback = None if self._iterates else self.callback
        with (
            showing(type(self).__name__, self._shows, callback=callback),
            limit_threads(self.n_jobs),
        ):
            return method(self, *args, **kwargs)

    return cast("Method", run)


def _refuse(estimator: str, method: str, name: str, value: Any) -> None:
    if name not in ("weights", "sample_weight"):
        is_pairs = name in ("must_link", "cannot_link")
        hint = "; OrthogonalNMF, CCNMF and GraphCCNMF take it" if is_pairs else ""
        raise UnexpectedArgumentError(
            f"{estimator}.{method}() got an unexpected keyword argument {name!r}{hint}"
        )
    if value is not None:
        raise InvalidInputError(
            f"{estimator} does not take {name} in {method}; {WITH_WEIGHTS} do in fit."
        )


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
