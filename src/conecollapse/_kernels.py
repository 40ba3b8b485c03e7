"""How every numba kernel of the package is compiled: at its first call, without the GIL, and kept
on disk where a folder can be written.

numba is imported with the first call of a kernel, since that takes as long as importing the rest of
the package. A kernel that another kernel calls becomes part of that one and is never run on its
own. So it is compiled without wrappers for calls from Python and C, and only as far as that needs
(`_inner_compiler`): optimized and turned into machine code once, as part of the kernel that Python
calls. This halves the time of a first call.

numba keeps compiled kernels in ``NUMBA_CACHE_DIR``, else beside the package, else in the user's
cache folder. Its own ``cache=True`` raises at import when none of the three can be written, as in a
read-only container without a home, and at the first call when the disk is full or a file is
damaged. The cache only saves time, so here a kernel that cannot be kept is compiled again in each
process, and one warning says so when the first one is compiled.

numba takes a kernel from its cache if the file of that kernel is unchanged, whatever has become of
the kernels and constants from other files that are part of it. Here they have to be unchanged, too
(`_fingerprint`).

numba also passes over a folder that can be read and not written, such as that of a container image
in which ``conecollapse warm`` has filled it. Here a kernel that the folder for new kernels does not
have is looked for in all places, whether they can be written or not.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Set
from functools import cache, partial, update_wrapper
from pathlib import Path
from pickle import UnpicklingError
from threading import Lock
from typing import Any, ClassVar, NamedTuple

from conecollapse._fingerprint import fingerprint

# for ``fastmath``: sums in any order; nothing is assumed to be finite
FAST = {"reassoc", "contract", "nsz"}
# files that cannot be read or written, or end too early
_UNUSABLE = (OSError, EOFError, UnpicklingError)
_said: list[bool] = []


def kernel(
    function: Callable[..., Any] | None = None,
    *,
    fastmath: bool | Set[str] = False,
    error_model: str = "python",
    counting: bool = True,
) -> Any:
    """Compile a function when it is first called; use as ``@kernel`` or ``@kernel(fastmath=...)``.

    With ``error_model="numpy"`` a division by zero gives infinity and is not tested for. With
    ``counting=False`` references to arrays are not counted: counting takes longer than a short loop
    does. This is for kernels that make and return no array and are called by others.
    """
    if function is None:
        return partial(kernel, fastmath=fastmath, error_model=error_model, counting=counting)
    options = {
        "nogil": True,
        "fastmath": fastmath,
        "error_model": error_model,
        "no_cfunc_wrapper": True,
    }
    return Kernel(function, options, counting)


class Kernel:
    """A function that numba compiles when it is first called, from Python or by another kernel.

    Attributes
    ----------
    py_func : callable
        The function as it is written.
    """

    def __init__(
        self, function: Callable[..., Any], options: dict[str, Any], counting: bool
    ) -> None:
        self.py_func = function
        self._options = options
        self._counting = counting
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
    def options(self) -> str:
        """How it is compiled, as text."""
        options = self._options | {"counting": self._counting}
        return repr(
            {
                name: sorted(value) if isinstance(value, Set) else value
                for name, value in options.items()
            }
        )

    @property
    def _numba_type_(self) -> Any:
        """numba asks for it where the name of this kernel stands in another one."""
        from numba import types

        return types.Dispatcher(self.dispatcher(from_python=False))

    def dispatcher(self, *, from_python: bool) -> Any:
        """numba's object for this kernel, made when it is first needed; the two kinds of calls have
        one each."""
        with self._making:
            if from_python not in self._dispatchers:
                from numba import njit

                inner = None if from_python else _inner_compiler()
                _pause_collection()
                options = (
                    self._options
                    if inner is None
                    else self._options | {"pipeline_class": inner, "_nrt": self._counting}
                )
                made = njit(**options, no_cpython_wrapper=not from_python)(self.py_func)
                # a plain function where NUMBA_DISABLE_JIT is set
                if hasattr(made, "_cache") and inner is None:
                    # what njit(cache=True) does, with a cache that may fail
                    made._cache = _cache(self.py_func, from_python)
                self._dispatchers[from_python] = made
            return self._dispatchers[from_python]


@cache
def _pause_collection() -> None:
    """Let Python collect no garbage while numba compiles: it makes hundreds of thousands of
    objects, and nearly all of them stay."""
    from numba.core import event

    class Pause(event.Listener):  # type: ignore[misc]
        depth, is_on = 0, True

        def on_start(self, _: Any) -> None:
            if self.depth == 0:
                self.is_on = gc.isenabled()
                gc.disable()
            self.depth += 1

        def on_end(self, _: Any) -> None:
            self.depth -= 1
            if self.depth == 0 and self.is_on:
                gc.enable()

    event.register("numba:compile", Pause())


def _cache(function: Callable[..., Any], from_python: bool) -> Any:
    caches = _caches()
    elsewhere = [
        found for cache in caches.read if (found := _made(cache, function, from_python)) is not None
    ]
    made = _made(caches.kept, function, from_python) or caches.not_kept()
    made.elsewhere = elsewhere
    return made


def _made(cache: type, function: Callable[..., Any], from_python: bool) -> Any:
    """A cache of this function; None where there is no place for it."""
    try:
        made = cache(function)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        return None
    made.from_python = from_python
    return made


class _Caches(NamedTuple):
    """Classes of caches."""

    kept: type
    read: list[type]  # one for each place, whether it can be written or not
    not_kept: type


# environments of kernels that are part of others, by name, until the others are loaded
_waiting: dict[str, Any] = {}


@cache
def _inner_compiler() -> Any:
    """How numba compiles a kernel that only other kernels call; None for a numba whose parts have
    other names."""
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import Compiler

    needed = (
        "_optimize_final_module",
        "_finalize_final_module",
        "_finalize_dynamic_globals",
        "_ensure_finalized",
    )
    if not all(hasattr(JITCodeLibrary, name) for name in needed):
        return None

    class InnerLibrary(JITCodeLibrary):  # type: ignore[misc]
        """Code that is linked into other code, simplified but neither optimized nor loaded."""

        def _optimize_final_module(self) -> None:
            _simplify(self._codegen, self._final_module)

        def _finalize_final_module(self) -> None:
            self._finalize_dynamic_globals()
            self._finalized = True

        def get_pointer_to_function(self, name: str) -> int:  # noqa: ARG002
            self._ensure_finalized()
            return 0

        @property
        def codegen(self) -> Any:
            return self

        def set_env(self, name: str, environment: Any) -> None:
            _waiting[name] = environment

    class InnerCompiler(Compiler):  # type: ignore[misc]
        def define_pipelines(self) -> Any:
            self.state.library = InnerLibrary(
                self.state.targetctx.codegen(), self.state.func_id.func_qualname
            )
            return super().define_pipelines()

    return InnerCompiler


def _simplify(codegen: Any, module: Any) -> None:
    """Run numba's cheap passes over the code of a module."""
    if hasattr(codegen, "_mpm_cheap"):  # numba 0.60
        codegen._mpm_cheap.run(module)
        return
    made = codegen._module_pass_manager(
        loop_vectorize=False, slp_vectorize=False, opt=0, cost="cheap"
    )
    # since numba 0.62 with a builder
    passes, *builder = made if isinstance(made, tuple) else (made,)
    passes.run(module, *builder)


def _hand_out_environments() -> None:
    """Give the parts of a kernel that has just been loaded their environments, which numba does
    where it loads each on its own."""
    from numba.core.registry import cpu_target

    codegen = cpu_target.target_context.codegen()
    for name in [name for name in _waiting if codegen._engine.is_symbol_defined(name)]:
        codegen.set_env(name, _waiting.pop(name))


@cache
def _caches() -> _Caches:
    """The classes of caches, which need numba imported."""
    from numba.core.caching import FunctionCache, NullCache

    class Fresh(FunctionCache._impl_class):  # type: ignore[misc,name-defined]
        """Where the kernels of a function are kept, and what they are made of."""

        def __init__(self, function: Callable[..., Any]) -> None:
            super().__init__(function)
            stamp = (self.locator.get_source_stamp(), fingerprint(function))
            self.locator.get_source_stamp = lambda: stamp

    class Read(FunctionCache):  # type: ignore[misc]
        """numba's cache on disk, where a file that cannot be used counts as missing."""

        from_python = True
        _impl_class = Fresh

        def _index_key(self, sig: Any, codegen: Any) -> Any:
            return (*super()._index_key(sig, codegen), self.from_python)

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            try:
                return super().load_overload(sig, target_context)
            except _UNUSABLE:
                return None

    class Kept(Read):
        """The cache that new kernels are saved in."""

        elsewhere: ClassVar[list[Any]] = []

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            return super().load_overload(sig, target_context) or _first(
                self.elsewhere, sig, target_context
            )

        def save_overload(self, sig: Any, data: Any) -> None:
            _hand_out_environments()
            try:
                super().save_overload(sig, data)
            except _UNUSABLE:
                _say_once()

    class NotKept(NullCache):  # type: ignore[misc]
        """No place for new kernels."""

        elsewhere: ClassVar[list[Any]] = []

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            return _first(self.elsewhere, sig, target_context)

        def save_overload(self, sig: Any, cres: Any) -> None:  # noqa: ARG002
            _hand_out_environments()
            _say_once()

    def reader(place: type) -> type:
        there = type(place.__name__, (place,), {"ensure_cache_path": _check_folder})
        return type(
            "Read", (Read,), {"_impl_class": type("Impl", (Fresh,), {"_locator_classes": [there]})}
        )

    return _Caches(Kept, [reader(place) for place in Fresh._locator_classes], NotKept)


def _check_folder(locator: Any) -> None:
    """In place of numba's check that a folder of kernels can be written."""
    if not Path(locator.get_cache_path()).is_dir():
        raise FileNotFoundError(locator.get_cache_path())


def _first(caches: list[Any], sig: Any, target_context: Any) -> Any:
    """The kernel from the first cache that has it; None if none has."""
    return next(
        (
            found
            for cache in caches
            if (found := cache.load_overload(sig, target_context)) is not None
        ),
        None,
    )


def _say_once() -> None:
    if not _said:
        _said.append(True)
        warnings.warn(
            "compiled kernels cannot be kept on this machine, so that each process takes some"
            " seconds to compile them again; set NUMBA_CACHE_DIR to a folder that can be written.",
            stacklevel=2,
        )
