"""``conecollapse doctor``: what is installed, how many threads there are, where things are kept,
and what is missing."""

from __future__ import annotations

import os
import platform
import re
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from conecollapse import __version__
from conecollapse.cli import options
from conecollapse.cli.terminal import say, say_json

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
EXTRAS = {
    "bio": ("anndata", "AnnData objects and .h5ad files"),
    "dask": ("dask", "tables on a cluster"),
    "images": ("PIL", "the paper's sets of images"),
    "parquet": ("pyarrow", ".parquet files"),
}


def doctor(as_json: options.Json = False) -> None:
    """Print versions, threads, caches and what is missing. Exit code 1 if something that is needed
    is missing or too old."""
    from conecollapse._errors import ConeCollapseError

    found = diagnosis()
    if as_json:
        say_json(found)
    else:
        _say(found)
    if found["problems"]:
        raise ConeCollapseError(f"{len(found['problems'])} found: {'; '.join(found['problems'])}.")


def diagnosis() -> dict[str, Any]:
    """What there is, by name."""
    packages, problems = _packages()
    return {
        "conecollapse": __version__,
        "installed in": str(Path(__file__).parents[1]),
        "python": f"{platform.python_version()} ({sys.executable})",
        "system": platform.platform(terse=True),
        "packages": packages,
        "extras": {name: find_spec(module) is not None for name, (module, _) in EXTRAS.items()},
        "threads": _threads(),
        "kernels": _kernels(),
        "datasets": _datasets(),
        "problems": problems,
    }


def _packages() -> tuple[dict[str, str], list[str]]:
    """The version of each dependency, and which are missing or too old."""
    found, problems = {}, []
    for line in requires("conecollapse") or []:
        if "extra ==" in line:
            continue
        name, least = (*re.findall(r"^[A-Za-z0-9_.-]+|(?<=>=)[0-9.]+", line), "0")[:2]
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "missing"
            problems.append(f"{name} is missing")
            continue
        if _numbers(found[name]) < _numbers(least):
            problems.append(
                f"{name} {found[name]} is older than {least}, the oldest that is tested"
            )
    return found, problems


def _numbers(text: str) -> tuple[int, ...]:
    """
    Examples
    --------
    >>> _numbers("1.26.4rc1") < _numbers("2.0")
    True
    """
    return tuple(int(part) for part in re.findall(r"\d+", text.split("rc")[0])[:3])


def _threads() -> dict[str, Any]:
    from conecollapse._threads import available_threads

    said = {name: os.environ[name] for name in THREADS if os.environ.get(name)}
    return {"available": available_threads(), "processors": os.cpu_count() or 1, "variables": said}


def _kernels() -> dict[str, Any]:
    """Where compiled kernels are kept, as numba looks for a place."""
    named = os.environ.get("NUMBA_CACHE_DIR")
    package = Path(__file__).parents[1]
    beside = package / "__pycache__"
    folder = (
        Path(named) if named else beside if _writable(beside) else Path.home() / ".cache" / "numba"
    )
    # each folder of the package keeps its own kernels, in its own __pycache__
    place = package if folder == beside else folder
    compiled = sum(1 for _ in place.rglob("*.nbc")) if place.exists() else 0
    return {"folder": str(folder), "can be written": _writable(folder), "compiled": compiled}


def _datasets() -> dict[str, Any]:
    from conecollapse.datasets.download import cache_folder

    return {"CONECOLLAPSE_DATA": os.environ.get("CONECOLLAPSE_DATA"), "cache": str(cache_folder())}


def _writable(folder: Path) -> bool:
    """Whether a file can be made in the folder, or in what is there of its parents."""
    there = next((place for place in (folder, *folder.parents) if place.is_dir()), None)
    if there is None:
        return False
    try:
        with tempfile.TemporaryFile(dir=there):
            return True
    except OSError:
        return False


def _say(found: dict[str, Any]) -> None:
    say(f"conecollapse {found['conecollapse']} in {found['installed in']}")
    say(f"Python {found['python']}, {found['system']}")
    say(f"packages: {', '.join(f'{name} {number}' for name, number in found['packages'].items())}")
    for name, there in found["extras"].items():
        missing = f'not installed: pip install "conecollapse[{name}]" for {EXTRAS[name][1]}'
        say(f"extra {name}: {'installed' if there else missing}")
    threads = found["threads"]
    said = "".join(f", {name}={value}" for name, value in threads["variables"].items())
    say(f"threads: {threads['available']} of {threads['processors']} processors{said}")
    kernels = found["kernels"]
    state = (
        f"{kernels['compiled']} compiled"
        if kernels["compiled"]
        else "none compiled yet; conecollapse warm does it beforehand"
    )
    others = "cannot be written, so each process compiles the others again; set NUMBA_CACHE_DIR"
    say(
        f"kernels: {kernels['folder']}"
        f" ({state}{'' if kernels['can be written'] else f'; {others}'})"
    )
    data = found["datasets"]
    say(f"datasets: {data['CONECOLLAPSE_DATA'] or data['cache']}")
    if not found["problems"]:
        say("nothing that is needed is missing.")
