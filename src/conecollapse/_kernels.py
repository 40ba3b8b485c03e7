"""How every numba kernel of the package is compiled: without the GIL, and kept on disk where a folder can be written.

numba keeps compiled kernels in ``NUMBA_CACHE_DIR``, else beside the package, else in the user's cache folder. Its own ``cache=True`` raises
at import when none of the three can be written, as in a read-only container without a home, and at the first call when the disk is
full or a file is damaged. The cache only saves time, so here a kernel that cannot be kept is compiled again in each process, and one
warning says so when the first one is compiled.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Set
from functools import partial
from pickle import UnpicklingError
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache, NullCache
from numba.core.dispatcher import Dispatcher

_UNUSABLE = (OSError, EOFError, UnpicklingError)  # files that cannot be read or written, or end too early
_said: list[bool] = []


def kernel(function: Callable[..., Any] | None = None, *, fastmath: bool | Set[str] = False, error_model: str = "python") -> Any:
    """Compile a function when it is first called; use as ``@kernel`` or ``@kernel(fastmath=...)``.

    With ``error_model="numpy"`` a division by zero gives infinity and is not tested for.
    """
    if function is None:
        return partial(kernel, fastmath=fastmath, error_model=error_model)
    compiled = njit(nogil=True, fastmath=fastmath, error_model=error_model)(function)
    if isinstance(compiled, Dispatcher):  # a plain function where NUMBA_DISABLE_JIT is set
        compiled._cache = _cache(function)  # type: ignore[attr-defined]  # what njit(cache=True) does, with a cache that may fail
    return compiled


def _cache(function: Callable[..., Any]) -> Any:
    try:
        return _Kept(function)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        return _NotKept()


class _Kept(FunctionCache):  # type: ignore[misc]
    """numba's cache on disk, where a file that cannot be used counts as missing."""

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


class _NotKept(NullCache):  # type: ignore[misc]
    """No cache."""

    def save_overload(self, sig: Any, cres: Any) -> None:  # noqa: ARG002
        _say_once()


def _say_once() -> None:
    if not _said:
        _said.append(True)
        warnings.warn(
            "compiled kernels cannot be kept on this machine, so that each process takes some seconds to compile them again; "
            "set NUMBA_CACHE_DIR to a folder that can be written.",
            stacklevel=2,
        )
