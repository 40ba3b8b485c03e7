"""What every estimator takes to say how it goes and to keep to its share of the machine:
``verbose``, ``callback`` and ``n_jobs``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from typing import Any, TypeVar, cast

from conecollapse._checks import check_callable
from conecollapse._errors import InvalidInputError, UnexpectedArgumentError
from conecollapse._progress import showing, teller
from conecollapse._threads import limit_threads
from conecollapse._types import Progress

EVERY = 10  # iterations for which verbose=True prints one line

Method = TypeVar("Method", bound=Callable[..., Any])


WITH_WEIGHTS = "HierarchicalNMF, AlternatingNMF, MultiplicativeNMF and SparseNMF"


def running(method: Method) -> Method:
    """A method of an estimator that shows its progress, and uses at most ``n_jobs`` threads.
    Arguments that only other estimators take are refused."""
    known = signature(method).parameters

    @wraps(method)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        check_callable(self.callback, "callback")
        for name in kwargs.keys() - known:
            _refuse(type(self).__name__, method.__name__, name, kwargs.pop(name))
        with showing(type(self).__name__, self._shows), limit_threads(self.n_jobs):
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


@dataclass(eq=False, repr=False, kw_only=True)
class Running:
    """Estimators that work in stages: ``callback(stage, done, total)`` is called now and then."""

    verbose: bool | None = None
    callback: Any = None
    n_jobs: int | None = None

    @property
    def _shows(self) -> bool | None:
        """Whether progress is shown, as `conecollapse._progress.showing` takes it."""
        return None if self.verbose is None else bool(self.verbose)

    def _progress(self) -> Progress:
        """What is told how the work goes: the progress that is shown here and the callback; None if
        there is neither."""
        shown, callback = teller(), self.callback
        if shown is None or callback is None:
            return callback if shown is None else shown

        def tell(stage: str, done: int, total: int) -> None:
            shown(stage, done, total)
            callback(stage, done, total)

        return tell

    def _tell(self, stage: str, done: int, total: int) -> None:
        progress = self._progress()
        if progress is not None:
            progress(stage, done, total)

    def __sklearn_clone__(self) -> Any:
        """A copy without what was learned. It knows of what the user was warned already, so that
        folds do not repeat it."""
        copy = super().__sklearn_clone__()  # type: ignore[misc]
        if not hasattr(self, "_warned"):
            self._warned: set[tuple[str, int]] = set()
        copy._warned = self._warned
        return copy

    def _is_told(self, of: str, n_features: int) -> bool:
        """Whether a copy of this model has warned of the same in a table of so many features; it is
        noted."""
        known = getattr(self, "_warned", None)
        if known is None:
            return False
        told = (of, n_features) in known
        known.add((of, n_features))
        return told


@dataclass(eq=False, repr=False, kw_only=True)
class Iterating(Running):
    """Estimators that iterate: ``callback(n_iter, objective)`` is called after every iteration, and
    a true answer ends the run."""

    @property
    def _shows(self) -> bool | None:
        return None if self.verbose is None else False  # `_told` prints

    def _told(self, n_iter: int, objective: float) -> object:
        if self.verbose and n_iter % EVERY == 0:
            print(f"{type(self).__name__}: iteration {n_iter}, objective {objective:.6g}")
        return self.callback(n_iter, objective) if self.callback is not None else None
