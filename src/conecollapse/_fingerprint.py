"""What a kernel is made of: its own code, and the kernels and constants that are built into it.

numba keeps a compiled kernel as long as the file that it is written in has the same text. Kernels
and constants from other files are part of the machine code too, so a new version of the package in
which only these changed would go on with the old code. The fingerprint changes with each of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import cache
from types import CodeType
from typing import Any


@cache
def fingerprint(function: Callable[..., Any]) -> str:
    """A hash of the code of a function, of the kernels that it calls, and of the constants that
    they use.

    Examples
    --------
    >>> (
    ...     fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 1),
    ...     fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 2),
    ... )
    (True, False)
    """
    parts, seen, waiting = [], {function}, [function]
    while waiting:
        now = waiting.pop()
        parts.append(_code(now.__code__))
        for name in sorted(set(_names(now.__code__)) & now.__globals__.keys()):
            value = now.__globals__[name]
            parts.append(f"{name} = {_value(value)}")
            inner = getattr(value, "py_func", None)
            if inner is not None and inner not in seen:
                seen.add(inner)
                waiting.append(inner)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _nested(code: CodeType) -> Iterator[CodeType]:
    return (constant for constant in code.co_consts if isinstance(constant, CodeType))


def _names(code: CodeType) -> Iterator[str]:
    """What a function may look up in its module."""
    yield from code.co_names
    for inner in _nested(code):
        yield from _names(inner)


def _code(code: CodeType) -> str:
    """The instructions of a function as text, without the place of its file."""
    constants = [
        _value(constant) for constant in code.co_consts if not isinstance(constant, CodeType)
    ]
    parts = [
        code.co_name,
        code.co_code.hex(),
        repr(code.co_names),
        repr(code.co_varnames),
        *constants,
    ]
    return "\n".join([*parts, *map(_code, _nested(code))])


def _value(value: Any) -> str:
    """A text that differs for values that compile to different code."""
    if isinstance(value, frozenset):
        return repr(sorted(map(repr, value)))
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | tuple):
        return repr(value)
    if hasattr(value, "py_func"):
        return f"kernel {value.__module__}.{value.__qualname__} {value.options!r}"
    return (
        f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__name__)}"
        f" {getattr(value, '_fields', '')}"
    )
