"""Exceptions, and the words that messages share. Each exception also derives from the builtin that
a caller would expect to catch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

LONGEST_QUOTE = 80  # characters of a value from a file that a message repeats


def quoted(value: Any) -> str:
    """``value`` as a message shows it: what a file holds may be as long as the file.

    Examples
    --------
    >>> quoted("a" * 9), len(quoted("a" * 999))
    ("'aaaaaaaaa'", 80)
    """
    text = repr(value)
    half = (LONGEST_QUOTE - 3) // 2
    return text if len(text) <= LONGEST_QUOTE else f"{text[: half + 1]}...{text[-half:]}"


def first_of(names: Any, most: int, what: str = "more") -> str:
    """The first names in a sentence, and how many follow.

    Examples
    --------
    >>> first_of(["a", "b", "c"], 3), first_of(["a", "b", "c"], 1)
    ('a, b, c', 'a and 2 more')
    """
    left = len(names) - most
    return ", ".join(map(str, names[:most])) + (f" and {left} {what}" if left > 0 else "")


def _in_python(name: str, *value: Any) -> str:
    if not value:
        return name
    word = value[0]
    return f"{name}={'...' if word is ... else _in_quotes(word)}"


def _in_quotes(word: Any) -> str:
    is_short = isinstance(word, str) and len(word) < LONGEST_QUOTE
    return f'"{word}"' if is_short else quoted(word)


_spelling: ContextVar[Callable[..., str]] = ContextVar("spelling", default=_in_python)
_naming: ContextVar[Callable[[Any], str]] = ContextVar("naming", default=lambda i: f"point {i}")


def argument(name: str, *value: Any) -> str:
    """An argument as a message names it: alone, with a value, or with ``...`` for any value. In
    the command it is spelled as the option that sets it.

    Examples
    --------
    >>> argument("header"), argument("header", False), argument("data", ...)
    ('header', 'header=False', 'data=...')
    """
    return _spelling.get()(name, *value)


def point_name(index: Any) -> str:
    """How a message calls a point of a cone: by its number, or by the name that the data has."""
    return _naming.get()(index)


@contextmanager
def messages(
    *, spell: Callable[..., str] | None = None, name: Callable[[Any], str] | None = None
) -> Iterator[None]:
    """Inside, messages spell arguments as `argument` would with ``spell``, and points with
    ``name``."""
    before = _spelling.set(spell or _spelling.get()), _naming.set(name or _naming.get())
    try:
        yield
    finally:
        _spelling.reset(before[0])
        _naming.reset(before[1])


class ConeCollapseError(Exception):
    """Base of every error that this package raises on purpose."""


class InvalidInputError(ConeCollapseError, ValueError):
    """The data or a parameter cannot be used; the message says what, where, the value and the
    remedy."""


class UnexpectedArgumentError(ConeCollapseError, TypeError):
    """An argument is not known, or of a type that cannot be used; the message says which can."""


class MissingFileError(InvalidInputError, FileNotFoundError):
    """There is no file of that name."""


class CertificateError(ConeCollapseError, ValueError):
    """A claim of a certificate does not hold; the message names the point, the claim and the
    number."""


class ConeFileError(ConeCollapseError, ValueError):
    """A file does not hold a cone that can be read safely."""


class EmptyDataWarning(UserWarning):
    """Samples or features hold only zeros; the message names them."""


class NotOptimalWarning(UserWarning):
    """A solution is not shown to be optimal; the message says how far from optimal it may be, and
    what to do."""


class SlowWarning(UserWarning):
    """Work that begins now will take more than ten seconds; the message says about how long, and
    how to ask for less."""


class ConvergenceError(ConeCollapseError, RuntimeError):
    """An iteration limit was reached before the answer was."""


class RunFolderError(ConeCollapseError, OSError):
    """A folder of results cannot be written, or does not hold a run that can be read; the message
    names the folder and the remedy."""


class DatasetError(ConeCollapseError, OSError):
    """A dataset cannot be read, downloaded or stored; the message names the file and the remedy."""


class DatasetNotFoundError(DatasetError, FileNotFoundError):
    """A dataset is not on this machine; the message says which file to put where."""


class DataChangedError(ConeCollapseError, OSError):
    """A file is not what it was when reading began; the message says how far reading got."""


class CheckpointError(ConeCollapseError, ValueError):
    """Saved cones do not fit the data that a run is to be resumed on; the message says in what."""


class MissingDependencyError(ConeCollapseError, ImportError):
    """An optional package is needed; the message names the extra that brings it."""


@contextmanager
def optional(what: str, extra: str) -> Iterator[None]:
    """Around imports of optional packages: where one is missing, the error names the extra of this
    package that brings it.

    Examples
    --------
    >>> with optional("A picture", "report"):
    ...     import a_package_that_nobody_has
    Traceback (most recent call last):
    conecollapse._errors.MissingDependencyError: A picture needs the package \
a_package_that_nobody_has: pip install "conecollapse[report]".
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f'{what} needs the package {error.name}: pip install "conecollapse[{extra}]".'
        ) from error


class ClusterError(ConeCollapseError, RuntimeError):
    """A cluster or its scheduler went away; the message says what was lost and what can be resumed.

    ``cone`` is the cone of stage 1 when that was finished, else None.
    """

    cone: object = None

    def __init__(
        self,
        what: str,
        remedy: str = "What its workers held is lost; start a cluster and call again.",
    ) -> None:
        super().__init__(f"{what} {remedy}")
        self.what = what
