"""How the tests of a mutant are run: in a copy of the repository, in forks of a process that has
everything loaded."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING

import pytest
from kernel_caches import PACKAGE, caches
from mutant_changes import AREAS, Mutant

if TYPE_CHECKING:
    from mutant_tests import Records

# slow; the first runs where TESTS names it
LEFT_OUT = ["test_words_that_every_document_has_are_decided_by_sweeps", "screenshot"]
# of the tests of `make test`: mutants are judged by these alone
TIERS = ("not slow and not full", "slow and not full")
# one test may take this long, compilation included, and this many times what it takes without a
# mutant
SECONDS, TIMES = 60, 5
STILL = 900  # seconds of the clock without a test that ends: the code waits for something
# pytest's exit codes where a test is not there, and where nothing was selected
NOT_FOUND, NO_TESTS = 4, 5
# bytes of address space: a mutant that asks for more fails instead of filling the machine
MEMORY = 16 * 2**30
# pytest without asserts that are rewritten for their messages: to do so in every process would take
# longer than most tests
PLAIN = ("-o", "addopts=", "--assert=plain", "-p", "no:cacheprovider")
LIBRARIES = (
    "numpy",
    "scipy.sparse.linalg",
    "scipy.optimize",
    "scipy.spatial",
    "sklearn.cluster",
    "sklearn.decomposition",
    "numba",
    "hypothesis",
    "hypothesis.strategies",
    "pandas",
    "polars",
    "dask.array",
    "typer",
)


class Watch:
    """A plugin of pytest: runs the chosen tests in their order, writes what each takes to a file
    and ends a test that is in a loop."""

    def __init__(self, chosen: dict[str, float] | None, file: Path) -> None:
        self.chosen, self.file = chosen, file

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self.chosen is not None:
            place = {test: k for k, test in enumerate(self.chosen)}
            items[:] = sorted(
                (item for item in items if item.nodeid in place),
                key=lambda item: place[item.nodeid],
            )

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        usual = self.chosen[item.nodeid] if self.chosen else 3600
        signal.signal(signal.SIGPROF, signal.SIG_DFL)  # ends the process, also in a kernel
        signal.setitimer(signal.ITIMER_PROF, SECONDS + TIMES * usual)
        begin = sum(os.times()[:4])
        yield
        with self.file.open("a") as file:
            file.write(json.dumps([item.nodeid, sum(os.times()[:4]) - begin]) + "\n")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            with self.file.with_name("failed").open("a") as file:
                file.write(report.nodeid + "\n")


class Copy:
    """A copy of the repository in which one file at a time is changed."""

    def __init__(self, tree: Path, pristine: Path) -> None:
        self.tree, self.pristine = tree, pristine
        self.loaded: Loaded  # of a copy for mutants

    def run(
        self,
        files: list[str],
        tier: str,
        chosen: dict[str, float] | None,
        record: Path | None = None,
        before: Callable[[], None] = int,
    ) -> tuple[int | None, str]:
        """Exit code (None: out of time) and the test that failed. ``chosen``: the tests and what
        they take; None: all.

        With ``record``, a file there says afterwards which test executed which lines. ``before`` is
        called in the process of the tests.
        """
        left_out = " and ".join(
            f"not {name}" for name in LEFT_OUT if not any(name in file for file in files)
        )
        traced = (
            ["-p", "pytest_cov", f"--cov={PACKAGE}", "--cov-context=test", "--cov-report="]
            if record
            else ["-x"]
        )
        traced += ["--doctest-modules"] * any(file.startswith("src/") for file in files)
        options = [*PLAIN, "-q", "--tb=no", *traced, "-k", left_out, "-m", tier, *files]
        with tempfile.TemporaryDirectory(dir=self.tree) as folder:
            log, took = Path(folder, "log"), Path(folder, "took")
            took.touch()
            child = os.fork()
            if child == 0:
                code: int | None = NOT_FOUND
                try:
                    self.enter(log, folder, record)
                    before()
                    code = int(pytest.main(options, plugins=[Watch(chosen, took)]))
                finally:
                    sys.stdout.flush()
                    os._exit(code)
            code = self.wait(child, took)
            output = log.read_text(errors="replace") if log.exists() else ""
            self.took = dict(map(json.loads, took.read_text().splitlines()))
            failed = (
                took.with_name("failed").read_text().strip()
                if took.with_name("failed").exists()
                else ""
            )
        if code == NOT_FOUND:
            raise RuntimeError(f"mutants: pytest could not be called: {output.strip()[-500:]}")
        return 0 if code == NO_TESTS else code, failed or output.strip()[-200:]

    def enter(self, log: Path, folder: str, record: Path | None) -> None:
        """Make the process that runs the tests one of this copy."""
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        os.chdir(self.tree)
        for stream, path in enumerate(("/dev/null", log, log)):
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND), stream)
        os.environ.pop("CONECOLLAPSE_DATA", None)
        os.environ |= {
            "PYTHONPATH": str(self.tree / "src"),
            "CONECOLLAPSE_HYPOTHESIS_PROFILE": "mutants",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_PLUGINS": "_hypothesis_pytestplugin",
            "TMPDIR": folder,
            "COVERAGE_FILE": str(record),
        }
        tempfile.tempdir = None
        sys.path[:] = [
            str(self.tree / "src"),
            *(path for path in sys.path if path != str(Path(__file__).parent)),
        ]
        from numba.core.caching import _SourceFileBackedLocatorMixin as Locator

        # a change outside of kernels leaves those of its file as they are; what it does reach is
        # dropped by `judge`
        Locator.get_source_stamp = lambda locator: stamp(
            Path(str(locator._py_file).replace(str(self.tree), str(self.pristine), 1))
        )

    def wait(self, child: int, took: Path) -> int | None:
        moved, size = time.monotonic(), 0
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                break
            time.sleep(0.05)
            if took.stat().st_size > size:
                moved, size = time.monotonic(), took.stat().st_size
            if time.monotonic() - moved > STILL:
                os.kill(child, signal.SIGPROF)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # what a test has left
        code = os.waitstatus_to_exitcode(status)
        return None if code == -signal.SIGPROF else code

    def tried(
        self, m: Mutant, tests: dict[str, float], kernels: list[tuple[str, str]], is_import: bool
    ) -> tuple[int | None, str]:
        """Run the tests of a mutant: where the package is loaded already if that can be changed in
        place, else where it is not."""
        files = list(dict.fromkeys(test.split("::")[0] for test in tests))
        if is_import or any(file.startswith("src/") for file in files):
            return self.run(files, " or ".join(TIERS), tests)
        code, failed = self.loaded.run(m, files, tests, kernels)
        # because of what was loaded before
        while code and failed in tests and not self.loaded.passes(failed, tests[failed]):
            tests = {test: took for test, took in tests.items() if test != failed}
            code, failed = self.loaded.run(m, files, tests, kernels)
        return code, failed

    def judge(self, m: Mutant, records: Records, *, quick: bool) -> tuple[str, str]:
        path = self.tree / PACKAGE / m.file
        source, kept = path.read_bytes(), path.stat()
        kernels = records.uses.kernels(m)
        self.take_new_kernels()
        try:
            path.write_bytes(m.applied(source))
            # as old as the original: otherwise numba before 0.68 compiles every kernel of the file
            # anew
            os.utime(path, ns=(kept.st_atime_ns, kept.st_mtime_ns))
            drop_bytecode(path)
            self.drop(kernels)
            for tests in records.batches(m, quick=quick):
                code, failed = self.tried(m, tests, kernels, records.uses.is_import(m))
                if code != 0:
                    return "timeout" if code is None else "killed", failed
        finally:
            path.write_bytes(source)
            os.utime(path, ns=(kept.st_atime_ns, kept.st_mtime_ns))
            drop_bytecode(path)
            self.drop(kernels)
        return "survived", ""

    def take_new_kernels(self) -> None:
        """Those that were compiled in the pristine copy since this one was made."""
        for file in (self.pristine / PACKAGE).rglob("*.nb[ic]"):
            target = self.tree / file.relative_to(self.pristine)
            if not target.exists():
                target.parent.mkdir(exist_ok=True)
                shutil.copy2(file, target)

    def drop(self, kernels: Iterable[tuple[str, str]]) -> None:
        for file in compiled_kernels(self.tree, kernels):
            file.unlink()


class Loaded:
    """A process with the package, the tests and the kernels of a copy loaded; tests run in its
    forks, where one function is changed."""

    def __init__(self, copy: Copy) -> None:
        self.copy, self.sound = copy, {}
        self.connection, other = multiprocessing.Pipe()
        self.process = os.fork()
        if self.process == 0:
            # the other end: without it, this process ends when the one that asks does
            self.connection.close()
            try:
                self.serve(other)
            finally:
                os._exit(1)
        other.close()
        self.connection.recv()  # all is loaded: from now on files may change

    def run(
        self,
        m: Mutant | None,
        files: list[str],
        tests: dict[str, float],
        kernels: list[tuple[str, str]],
    ) -> tuple[int | None, str]:
        self.connection.send((m, files, tests, kernels))
        return self.connection.recv()

    def passes(self, test: str, took: float) -> bool:
        """Whether a test passes here without a mutant."""
        if test not in self.sound:
            self.sound[test] = self.run(None, [test.split("::")[0]], {test: took}, [])[0] == 0
        return self.sound[test]

    def serve(self, connection: Connection) -> None:
        with tempfile.TemporaryDirectory(dir=self.copy.tree) as folder:
            self.copy.enter(Path(folder, "log"), folder, None)
            pytest.main([*PLAIN, "-qq", "--collect-only", "tests"])
            package = self.copy.tree / PACKAGE
            for path in sorted(path for area in AREAS for path in (package / area).rglob("*.py")):
                import_module(module_name(path.relative_to(package).as_posix()))
            load_kernels()
            functions = defaultdict(list)
            for one in gc.get_objects():
                if isinstance(one, FunctionType) and one.__code__.co_filename.startswith(
                    str(package)
                ):
                    functions[
                        one.__code__.co_filename,
                        one.__code__.co_qualname,
                        one.__code__.co_firstlineno,
                    ].append(one)
            gc.collect()
            gc.freeze()
            connection.send(None)
            while True:
                m, files, tests, kernels = connection.recv()
                before = partial(change, self.copy.tree, m, kernels, functions)
                connection.send(self.copy.run(files, " or ".join(TIERS), tests, before=before))


def load_kernels() -> None:
    """Take from disk what numba has compiled for calls from Python."""
    for module in [
        module for name, module in sys.modules.items() if name.startswith("conecollapse")
    ]:
        for kernel in [
            kernel for kernel in vars(module).values() if type(kernel).__name__ == "Kernel"
        ]:
            dispatcher = kernel.dispatcher(from_python=True)
            for signature, *_, from_python in (
                dispatcher._cache._cache_file._load_index() if not dispatcher.overloads else ()
            ):
                if from_python:
                    dispatcher.compile(signature)


def change(
    tree: Path, m: Mutant | None, kernels: Iterable[tuple[str, str]], functions: dict
) -> None:
    """Give the function around the mutant, which is in the file by now, its new code, and forget
    the kernels that have it built in."""
    if m is None:
        return
    path = tree / PACKAGE / m.file
    pending = [compile(path.read_bytes(), str(path), "exec")]
    done = 0
    while pending:
        code = pending.pop()
        pending += [one for one in code.co_consts if isinstance(one, CodeType)]
        for function in functions[code.co_filename, code.co_qualname, code.co_firstlineno]:
            if function.__code__ != code:
                function.__code__ = code
                done += 1
    if not done:
        raise RuntimeError(f"mutants: {m.place} is in no function that is loaded")
    for file, name in kernels:
        getattr(sys.modules[module_name(file)], name)._dispatchers.clear()


def module_name(file: str) -> str:
    """Of a file below the package."""
    return ".".join(Path(PACKAGE.name, file).with_suffix("").parts).removesuffix(".__init__")


def stamp(path: Path) -> tuple[float, int]:
    """What numba compares to see whether a file is the one that it compiled."""
    return path.stat().st_mtime, path.stat().st_size


def drop_bytecode(path: Path) -> None:
    """What Python keeps of a file; it knows a file by its time and size, which a mutant may
    share."""
    for kept in (path.parent / "__pycache__").glob(f"{path.stem}.cpython-*.pyc"):
        kept.unlink()


def compiled_kernels(tree: Path, kernels: Iterable[tuple[str, str]]) -> Iterator[Path]:
    """numba's files for kernels, each given by its file and its name."""
    names = defaultdict(set)
    for file, name in kernels:
        names[file].add(name)
    for file in names:
        yield from (
            cache
            for cache in caches(tree, [file])
            if cache.name.split(".")[1].rpartition("-")[0] in names[file]
        )


def copied(source: Path, target: Path) -> Path:
    ignored = shutil.ignore_patterns(
        ".git", ".venv*", "build", ".hypothesis", ".*_cache", "figures", "gallery"
    )
    shutil.copytree(source, target, ignore=ignored, symlinks=True)
    return target


def prepare() -> None:
    """Import what every test needs, before the process is forked."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    for name in ("NUMBA_CACHE_DIR", "PYTHONDONTWRITEBYTECODE"):
        os.environ.pop(name, None)
    sys.dont_write_bytecode = False
    for library in LIBRARIES:
        import_module(library)
    import_module("numba").njit(lambda x: x + 1)(1.0)
    gc.freeze()
