"""The one driver of every iterative method: history, stopping, callback, progress, and a status
that says what to do next.

A method gives a start and a step; a state only has to know its objective. The rule of stopping is
relative, so that scaling the data changes nothing: the run ends when one step changes the objective
by at most ``tol`` of itself. Two limits of arithmetic end it too, each under its own name: an
objective that is zero to rounding, and a change that the data's precision does not resolve.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypedDict, TypeVar

import numpy as np

from conecollapse._progress import teller
from conecollapse._types import FloatArray

# called as callback(n_iter, objective); a true answer stops the run
Callback = Callable[[int, float], object] | None


class Stopping(TypedDict, total=False):
    """When a run ends, and what is called after each step: the keywords that every method passes on
    to `iterate`, which says what they mean."""

    tol: float
    max_iter: int
    callback: Callback


class State(Protocol):
    """What the driver needs to know of a method's state."""

    @property
    def objective(self) -> float: ...


S = TypeVar("S", bound=State)
TOL, MAX_ITER = 1e-5, 500  # by default


@dataclass(frozen=True)
class Trace(Generic[S]):
    """Where a run ended, how it got there, and why it stopped."""

    state: S
    history: FloatArray  # the objective of the start and after every step
    converged: bool
    status: str
    stopped: bool = False  # by the callback

    @property
    def n_iter(self) -> int:
        """Number of steps taken."""
        return len(self.history) - 1


def iterate(
    step: Callable[[S], S],
    start: S,
    *,
    rounding: float,
    tol: float = TOL,
    max_iter: int = MAX_ITER,
    settled: Callable[[S], bool] | None = None,
    callback: Callback = None,
    stage: str = "iterations",
    history: Sequence[float] | FloatArray = (),
) -> Trace[S]:
    """Repeat ``step`` from ``start`` until the objective settles.

    Parameters
    ----------
    step : callable
        From one state to the next.
    start : state
    rounding : float
        What rounding may do to the objective: for a squared error, a few units in the last place of
        the squared norm of the data.
    tol : float
        Relative change of the objective that ends the run. Zero runs to the limit of arithmetic or
        of ``max_iter``.
    max_iter : int
    settled : callable, optional
        For methods whose objective does not fall at every step: takes the place of the rule on the
        objective.
    callback : callable, optional
        Called as ``callback(n_iter, objective)`` after each step; a true answer ends the run.
    history : sequence of float
        Of a run that goes on: its objectives up to ``start``. Its steps count in ``max_iter``.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Halving:
    ...     objective: float
    >>> trace = iterate(
    ...     lambda s: Halving(s.objective / 2), Halving(1.0), tol=0.6, max_iter=9, rounding=0.0
    ... )
    >>> trace.n_iter, trace.converged, trace.history.tolist()
    (1, True, [1.0, 0.5])
    """
    state, report = start, teller()
    objectives = [*map(float, history)] or [state.objective]
    for n_iter in range(len(objectives), max_iter + 1):
        state = step(state)
        objectives.append(state.objective)
        if report is not None:
            report(stage, n_iter, max_iter)
        if callback is not None and callback(n_iter, state.objective):
            return Trace(
                state,
                np.array(objectives),
                False,
                f"stopped by the callback after {_count(n_iter)}",
                stopped=True,
            )
        reason = (
            _why_settled(objectives[-2], objectives[-1], tol, rounding)
            if settled is None
            else _why_method(settled(state))
        )
        if reason:
            return Trace(
                state, np.array(objectives), True, f"converged after {_count(n_iter)}: {reason}"
            )
    return Trace(
        state,
        np.array(objectives),
        False,
        f"stopped at max_iter = {max_iter} before it settled; raise max_iter or tol",
    )


def _why_settled(before: float, now: float, tol: float, rounding: float) -> str:
    if now <= rounding:
        return "the objective is zero to rounding"
    change = abs(before - now)
    if change <= tol * abs(before):
        return f"the last step changed the objective by at most tol = {tol:g} of itself"
    if change <= rounding:
        return "the last step changed the objective by no more than rounding"
    return ""


def _why_method(is_settled: bool) -> str:
    return "the method's own condition holds" if is_settled else ""


def _count(n_iter: int) -> str:
    return f"{n_iter} iteration{'s' if n_iter != 1 else ''}"
