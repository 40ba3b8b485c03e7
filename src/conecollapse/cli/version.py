"""``conecollapse --version``; with ``--verbose`` also what the report of a problem needs.

That is: what is installed, threads, and where kernels and datasets are kept."""

from __future__ import annotations

import os
import platform
import re
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path

from conecollapse import __version__
from conecollapse.cli.terminal import say

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def say_version(verbose: bool) -> None:
    """The version, and with ``verbose`` the environment."""
    if not verbose:
        say(f"conecollapse {__version__}")
        return
    say(f"conecollapse {__version__} in {Path(__file__).parents[1]}")
    say(f"Python {platform.python_version()} ({sys.executable}), {platform.platform(terse=True)}")
    for extra in ("", *(metadata("conecollapse").get_all("Provides-Extra") or [])):
        packages = ", ".join(_packages(extra))
        if packages:
            say(f"{f'extra {extra}' if extra else 'packages'}: {packages}")
    _say_threads()
    _say_places()


def _packages(extra: str) -> list[str]:
    """The version of each package that the library, or an extra of it, needs."""
    return [
        _installed(*(*re.findall(r"^[A-Za-z0-9_.-]+|(?<=>=)[0-9.]+", line), "0")[:2])
        for line in requires("conecollapse") or []
        if (f"extra == '{extra}'" in line.replace('"', "'") if extra else "extra ==" not in line)
        and not line.startswith("conecollapse")
    ]


def _installed(name: str, least: str) -> str:
    try:
        found = version(name)
    except PackageNotFoundError:
        return f"{name} missing"
    is_old = _numbers(found) < _numbers(least)
    return f"{name} {found}{f' (older than {least}, the oldest tested)' if is_old else ''}"


def _numbers(text: str) -> tuple[int, ...]:
    """
    Examples
    --------
    >>> _numbers("1.26.4rc1") < _numbers("2.0")
    True
    """
    return tuple(int(part) for part in re.findall(r"\d+", text.split("rc")[0])[:3])


def _say_threads() -> None:
    from conecollapse._threads import available_threads

    said = "".join(f", {name}={os.environ[name]}" for name in THREADS if os.environ.get(name))
    say(f"threads: {available_threads()} of {os.cpu_count() or 1} processors{said}")


def _say_places() -> None:
    """Where compiled kernels are kept, as numba looks for a place, and where datasets are."""
    from conecollapse.datasets.download import cache_folder

    named = os.environ.get("NUMBA_CACHE_DIR")
    package = Path(__file__).parents[1]
    beside = package / "__pycache__"
    folder = (
        Path(named) if named else beside if _is_writable(beside) else Path.home() / ".cache/numba"
    )
    # each folder of the package keeps its own kernels, in its own __pycache__
    count = sum(1 for _ in (package if folder == beside else folder).rglob("*.nbc"))
    closed = "" if _is_writable(folder) else "; cannot be written, set NUMBA_CACHE_DIR"
    say(f"kernels: {folder} ({count} compiled{closed})")
    say(f"datasets: {os.environ.get('CONECOLLAPSE_DATA') or cache_folder()}")


def _is_writable(folder: Path) -> bool:
    """Whether a file can be made in the folder, or in what is there of its parents."""
    there = next((place for place in (folder, *folder.parents) if place.is_dir()), None)
    if there is None:
        return False
    try:
        with tempfile.TemporaryFile(dir=there):
            return True
    except OSError:
        return False
