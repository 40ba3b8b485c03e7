"""How every numba kernel of the package is compiled: at its first call, without the GIL, and kept on disk where a folder can be written.

numba is imported with the first call of a kernel, since that takes as long as importing the rest of the package. A kernel that another
kernel calls is compiled without the wrappers that only calls from Python and from C need; for short kernels they are most of the work.

numba keeps compiled kernels in ``NUMBA_CACHE_DIR``, else beside the package, else in the user's cache folder. Its own ``cache=True`` raises
at import when none of the three can be written, as in a read-only container without a home, and at the first call when the disk is
full or a file is damaged. The cache only saves time, so here a kernel that cannot be kept is compiled again in each process, and one
warning says so when the first one is compiled.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Set
from functools import cache, partial, update_wrapper
from pickle import UnpicklingError
from threading import Lock
from typing import Any

_UNUSABLE = (OSError, EOFError, UnpicklingError)  # files that cannot be read or written, or end too early
_said: list[bool] = []


def kernel(function: Callable[..., Any] | None = None, *, fastmath: bool | Set[str] = False, error_model: str = "python") -> Any:
    """Compile a function when it is first called; use as ``@kernel`` or ``@kernel(fastmath=...)``.

    With ``error_model="numpy"`` a division by zero gives infinity and is not tested for.
    """
    if function is None:
        return partial(kernel, fastmath=fastmath, error_model=error_model)
    return Kernel(function, {"nogil": True, "fastmath": fastmath, "error_model": error_model, "no_cfunc_wrapper": True})


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
        self._making = Lock()
        self._dispatchers: dict[bool, Any] = {}
        update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        """Call the compiled function."""
        try:
            compiled = self._dispatchers[True]
        except KeyError:
            compiled = self.dispatcher(from_python=True)
        return compiled(*arguments)

    def __reduce__(self) -> str:
        return str(self.py_func.__qualname__)

    @property
    def _numba_type_(self) -> Any:
        """numba asks for it where the name of this kernel stands in another one."""
        from numba import types

        return types.Dispatcher(self.dispatcher(from_python=False))

    def dispatcher(self, *, from_python: bool) -> Any:
        """numba's object for this kernel, made when it is first needed; the two kinds of calls have one each."""
        with self._making:
            if from_python not in self._dispatchers:
                from numba import njit

                made = njit(**self._options, no_cpython_wrapper=not from_python)(self.py_func)
                if hasattr(made, "_cache"):  # a plain function where NUMBA_DISABLE_JIT is set
                    made._cache = _cache(self.py_func, from_python)  # what njit(cache=True) does, with a cache that may fail
                self._dispatchers[from_python] = made
            return self._dispatchers[from_python]


def _cache(function: Callable[..., Any], from_python: bool) -> Any:
    kept, not_kept = _caches()
    try:
        made = kept(function)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        return not_kept()
    made.from_python = from_python
    return made


@cache
def _caches() -> tuple[type, type]:
    """The classes of caches, which need numba imported."""
    from numba.core.caching import FunctionCache, NullCache

    class Kept(FunctionCache):  # type: ignore[misc]
        """numba's cache on disk, where a file that cannot be used counts as missing."""

        from_python = True

        def _index_key(self, sig: Any, codegen: Any) -> Any:
            return (*super()._index_key(sig, codegen), self.from_python)

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            try:
                return super().load_overload(sig, target_context)
            except _UNUSABLE:
                return None

        def save_overload(self, sig: Any, data: Any) -> None:
            try:
                super().save_overload(sig, data)
            except _UNUSABLE:
                _say_once()

    class NotKept(NullCache):  # type: ignore[misc]
        """No cache."""

        def save_overload(self, sig: Any, cres: Any) -> None:  # noqa: ARG002
            _say_once()

    return Kept, NotKept


def _say_once() -> None:
    if not _said:
        _said.append(True)
        warnings.warn(
            "compiled kernels cannot be kept on this machine, so that each process takes some seconds to compile them again; "
            "set NUMBA_CACHE_DIR to a folder that can be written.",
            stacklevel=2,
        )
