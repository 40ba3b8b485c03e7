"""Progress of long work: one line that says what is done, how far it is and how long it may still
take.

`showing` opens it around a piece of work, and `teller` gives the function that moves it. It appears
after two seconds, on a terminal (a bar, by rich) or in a notebook (a line of text that changes),
and is gone when the work ends. Elsewhere, in a worker process and in a thread there is none. Of
nested pieces of work only the outermost that counts something is shown: a choice of a rank counts
its fits, and a fit inside it says nothing.
"""

from __future__ import annotations

import multiprocessing
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from conecollapse._types import Progress

AFTER = 2.0  # seconds of work before progress is shown
REFRESH = 0.2  # seconds between two changes of the line in a notebook


class Screen(Protocol):
    """Where progress is shown. `update` may come before `show`, and from any thread."""

    def update(self, text: str, done: int, total: int) -> None: ...
    def show(self) -> None: ...
    def close(self) -> None: ...


class Display:
    """One piece of work, and what hears of it: a screen, the work around it, and a callback."""

    def __init__(
        self,
        what: str,
        screen: Screen | None,
        outer: Display | None = None,
        callback: Progress = None,
    ) -> None:
        self.what, self.screen, self.outer, self.callback = what, screen, outer, callback
        self.counts = False  # whether it is known how much there is to do
        self.names: dict[str, str] = {}  # what stages are called on the screen

    def tell(self, stage: str, done: int, total: int) -> None:
        """So much of a stage is done."""
        self.counts = total > 1
        # a method of an estimator that calls another one has the same callback
        if self.callback is not None and not (self.outer and self.outer.callback is self.callback):
            self.callback(stage, done, total)
        if self.outer is not None:
            self.outer.tell(stage, done, total)
        if self.screen is not None:
            self.screen.update(
                self.names.get(stage, stage if stage == self.what else f"{self.what}: {stage}"),
                done,
                total,
            )


_SHOWN: ContextVar[Display | None] = ContextVar("conecollapse_progress", default=None)


@contextmanager
def showing(
    what: str,
    verbose: bool | None = None,
    *,
    names: dict[str, str] | None = None,
    callback: Progress = None,
) -> Iterator[Display]:
    """Show the progress of the work in this block.

    Parameters
    ----------
    what : str
        What is done: the name of an estimator or a function.
    verbose : bool, optional
        None shows it after two seconds where somebody may be looking; True prints a line for each
        step; False shows nothing.
    names : mapping, optional
        What stages are called, instead of ``what: stage``.
    callback : callable, optional
        Called as ``callback(stage, done, total)``, whether anything is shown or not.

    Examples
    --------
    >>> with showing("squares", verbose=True):
    ...     for done in (1, 2):
    ...         teller()("numbers", done, 2)
    squares: numbers, 1 of 2
    squares: numbers, 2 of 2
    """
    outer = _SHOWN.get()
    screen = None if verbose is False or outer is not None else _lines() if verbose else _screen()
    is_heard = outer is not None and not outer.counts and verbose is not False
    display = Display(what, screen, outer if is_heard else None, callback)
    (outer if is_heard and outer is not None else display).names.update(names or {})
    token = _SHOWN.set(display)
    timer = _shown_later(screen) if screen is not None and not verbose else None
    try:
        yield display
    finally:
        _SHOWN.reset(token)
        if timer is not None:
            timer.cancel()
            timer.join()
        if screen is not None:
            screen.close()


def teller() -> Progress:
    """What moves the progress that is shown here, called as ``progress(stage, done, total)``; None
    where nothing is."""
    display = _SHOWN.get()
    return None if display is None else display.tell


def report(stage: str, done: int, total: int) -> None:
    """Move the progress that is shown here, if any is."""
    display = _SHOWN.get()
    if display is not None:
        display.tell(stage, done, total)


def is_notebook() -> bool:
    """Whether this runs in a Jupyter kernel."""
    shell = sys.modules.get("IPython")
    running = None if shell is None else shell.get_ipython()
    return running is not None and hasattr(running, "kernel")


def _shown_later(screen: Screen, seconds: float = AFTER) -> threading.Timer:
    timer = threading.Timer(seconds, screen.show)
    timer.daemon = True
    timer.start()
    return timer


def _screen() -> Screen | None:
    """Where somebody may be looking; None in worker processes, threads and where errors go to a
    file."""
    if (
        multiprocessing.current_process().name != "MainProcess"
        or threading.current_thread() is not threading.main_thread()
    ):
        return None
    if is_notebook():
        return _Notebook()
    return _Terminal() if sys.stderr is not None and sys.stderr.isatty() else None


def _lines() -> Screen:
    return _Lines()


class _Lines:
    """A line for every step, as it is."""

    def update(self, text: str, done: int, total: int) -> None:
        print(f"{text}, {done} of {total}" if total > 1 else text)

    def show(self) -> None: ...

    def close(self) -> None: ...


class _Terminal:
    """A bar of rich, which is imported when it is first needed."""

    def __init__(self) -> None:
        self.last: tuple[str, int, int] = ("", 0, 0)
        self.bar: Any = None
        self.lock = threading.Lock()

    def update(self, text: str, done: int, total: int) -> None:
        with self.lock:
            self.last = (text, done, total)
            if self.bar is not None:
                self.bar.update(
                    self.task, description=text, completed=done, total=total if total > 1 else None
                )

    def show(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        console = Console(stderr=True)
        if not console.is_terminal:
            return
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TimeElapsedColumn(),
        )
        bar = Progress(
            *columns,
            TextColumn("at most"),
            TimeRemainingColumn(compact=True),
            console=console,
            transient=True,
        )
        with self.lock:
            text, done, total = self.last
            self.task = bar.add_task(text, completed=done, total=total if total > 1 else None)
            bar.start()
            self.bar = bar

    def close(self) -> None:
        with self.lock:
            if self.bar is not None:
                self.bar.stop()


class _Notebook:
    """A line of text below the cell, which the next one replaces."""

    def __init__(self, refresh: float = REFRESH) -> None:
        self.refresh = refresh
        self.start = time.monotonic()
        self.last, self.since = ("", 0, 0), self.start
        self.began = self.start  # of the stage
        self.handle: Any = None

    def update(self, text: str, done: int, total: int) -> None:
        now = time.monotonic()
        if text != self.last[0] or done < self.last[1]:
            self.began = now
        self.last = (text, done, total)
        if self.handle is not None and now - self.since >= self.refresh:
            self.since = now
            self.handle.update({"text/plain": self.line(now)}, raw=True)

    def line(self, now: float) -> str:
        """What is done, since when, and how long it takes at most if it goes on like this."""
        text, done, total = self.last
        counted = f", {done} of {total}" if total > 1 else ""
        left = (
            f", at most {_clock((now - self.began) * (total - done) / done)} more"
            if total > 1 and done
            else ""
        )
        return f"{text}{counted} ({_clock(now - self.start)}{left})"

    def show(self) -> None:
        from IPython.display import display

        self.handle = display(
            {"text/plain": self.line(time.monotonic())}, raw=True, display_id=True
        )

    def close(self) -> None:
        if self.handle is not None:
            self.handle.update({"text/plain": ""}, raw=True)


def _clock(seconds: float) -> str:
    """
    Examples
    --------
    >>> _clock(75.2)
    '1:15'
    """
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
