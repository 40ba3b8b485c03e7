"""How every numba kernel of the package is compiled: at its first call, without the GIL, and kept
on disk where a folder can be written.

numba is imported with the first call of a kernel, since that takes as long as importing the rest of
the package. A kernel that another kernel calls becomes part of that one, so it is compiled a second
time, without a wrapper for calls from Python and without a place on disk.

numba keeps compiled kernels in ``NUMBA_CACHE_DIR``, else beside the package, else in the user's
cache folder. Where none of the three can be written, as in a read-only container without a home, or
where a file there is damaged, kernels are compiled again in each process, and one warning says so:
the cache only saves time.

numba takes a kernel from its cache if the file of that kernel is unchanged, whatever has become of
the kernels and constants from other files that are part of it. Here they are part of the name that
a kernel is kept under: `fingerprint` changes with each of them.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterator, Set
from functools import cache, partial, update_wrapper
from pickle import UnpicklingError
from threading import RLock
from types import CodeType, FunctionType
from typing import Any

# for ``fastmath``: sums in any order; nothing is assumed to be finite
FAST = {"reassoc", "contract", "nsz"}
# files that cannot be read or written, or end too early
_UNUSABLE = (OSError, EOFError, UnpicklingError)
_MAKING = RLock()
_said: list[bool] = []


def kernel(
    function: Callable[..., Any] | None = None,
    *,
    fastmath: bool | Set[str] = False,
    error_model: str = "python",
) -> Any:
    """Compile a function when it is first called; use as ``@kernel`` or ``@kernel(fastmath=...)``.

    With ``error_model="numpy"`` a division by zero gives infinity and is not tested for.
    """
    if function is None:
        return partial(kernel, fastmath=fastmath, error_model=error_model)
    return Kernel(function, {"nogil": True, "fastmath": fastmath, "error_model": error_model})


class Kernel:
    """A function that numba compiles when it is first called, from Python or by another kernel.

    Attributes
    ----------
    py_func : callable
        The function as it is written.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self.py_func = function
        self._options = options
        self._compiled: Any = None
        self._inner: Any = None
        update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        """Call the compiled function."""
        try:
            return (self._compiled or self.compiled())(*arguments)
        except _UNUSABLE:
            _say_once()
            self._compiled = self._njit(self.py_func)
            return self._compiled(*arguments)

    def __reduce__(self) -> str:
        return str(self.py_func.__qualname__)

    @property
    def options(self) -> str:
        """How it is compiled, as text."""
        return repr({k: sorted(v) if isinstance(v, Set) else v for k, v in self._options.items()})

    def compiled(self) -> Any:
        """numba's object for calls from Python, made when it is first needed."""
        with _MAKING:
            if self._compiled is None:
                _register()
                try:
                    self._compiled = self._njit(_renamed(self.py_func), cache=True)
                except RuntimeError as error:
                    if "no locator available" not in str(error):
                        raise
                    _say_once()
                    self._compiled = self._njit(self.py_func)
        return self._compiled

    def inner(self) -> Any:
        """What becomes part of other kernels."""
        with _MAKING:
            if self._inner is None:
                self._inner = self._njit(
                    self.py_func, no_cpython_wrapper=True, no_cfunc_wrapper=True
                )
        return self._inner

    def _njit(self, function: Callable[..., Any], **more: Any) -> Any:
        from numba import njit

        return njit(**self._options, **more)(function)


def _renamed(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function under a name that tells what it is made of."""
    copy = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__
    )
    copy.__qualname__ = f"{function.__qualname__}_{fingerprint(function)[:12]}"
    copy.__module__ = function.__module__
    return copy


def borrow(array: Any) -> Any:
    """In a kernel: the same array, without counting references to it, which takes longer than a
    short loop does. Its owner must live until the last use:
    a kernel that has made it uses it once more at its end."""
    return array


@cache
def _register() -> None:
    """Tell numba what the name of a kernel stands for in another one."""
    from numba import carray, typeof, types
    from numba.extending import intrinsic, overload, typeof_impl

    @typeof_impl.register(Kernel)  # type: ignore[untyped-decorator]
    def _(value: Kernel, _context: Any) -> Any:
        return typeof(value.inner())

    @intrinsic  # type: ignore[untyped-decorator]
    def pointer(_typing: Any, place: Any) -> Any:
        address = types.CPointer(place.dtype)

        def cast(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return context.cast(builder, arguments[0], place, address)

        return address(place), cast

    @overload(borrow)
    def _(array):  # type: ignore[no-untyped-def]  # noqa: ARG001
        return lambda array: carray(pointer(array.ctypes), array.shape)


def _say_once() -> None:
    if not _said:
        _said.append(True)
        warnings.warn(
            "compiled kernels cannot be kept on this machine, so that each process takes some"
            " seconds to compile them again; set NUMBA_CACHE_DIR to a folder that can be written.",
            stacklevel=3,
        )


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
