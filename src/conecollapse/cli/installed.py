"""What is installed: ``conecollapse --version``, with ``--verbose`` also what the report of a
problem needs, and ``conecollapse warm``, which compiles the kernels before they are needed, while a
container image is built or on a cluster's shared disk."""

from __future__ import annotations

import os
import platform
import re
import sys
import tempfile
import time
import warnings
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path

import numpy as np

from conecollapse import __version__
from conecollapse.cli.terminal import say, working

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
    from conecollapse.datasets.files import cache_folder

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


def warm() -> None:
    """Compile the kernels of the usual calls on tables in memory now and keep them on disk: in
    NUMBA_CACHE_DIR, or beside the package."""
    start = time.perf_counter()
    with working("compiling") as progress, warnings.catch_warnings():
        # about the tiny tables; kernels that cannot be kept are told of
        warnings.simplefilter("ignore", UserWarning)
        warnings.filterwarnings("default", message="compiled kernels cannot be kept")
        for done, part in enumerate((_least_squares, _cones, _factorizations)):
            if progress is not None:
                progress("compiling", done, 3)
            part(np.random.default_rng(0))
    say(
        "the kernels of the usual calls on tables in memory are compiled"
        f" ({time.perf_counter() - start:.0f} s)."
    )


def warm_up() -> None:
    """Run what will be timed on tiny tables."""
    from conecollapse import GraphCCNMF, MultiplicativeNMF

    X = np.random.default_rng(0).random((40, 12))
    for model in (MultiplicativeNMF(2, random_state=0), GraphCCNMF(2, random_state=0)):
        model.fit(X)


def _least_squares(rng: np.random.Generator) -> None:
    from conecollapse import nnls

    for m, n, count in ((8, 3, 1), (80, 3, 1), (40, 12, 300), (12, 40, 3), (30, 300, 3)):
        A, B = rng.random((m, n)), rng.random((m, count))
        nnls(A, B)
        nnls(A, B[:, 0])
    # so ill-conditioned that it is solved with care
    nnls(np.vander(np.linspace(0.1, 1, 30), 25), rng.random((30, 3)))
    nnls(rng.random((40, 12)), rng.random((40, 4)), simplex=True)


def _cones(rng: np.random.Generator) -> None:
    import scipy.sparse as sp

    from conecollapse import Cone, collapse

    for n, dim in ((20, 8), (300, 250)):
        corners = rng.random((n, dim))
        points = np.vstack([corners, rng.dirichlet(np.ones(n), 50) @ corners])
        Cone.from_points(points).contains(points[:3])
        Cone.from_points(points, effort="quick")
        Cone.approximate(points, max_residual=0.1)
    collapse(rng.random((60, 8)))
    for density in (0.02, 0.2):
        words = sp.random_array((400, 300), density=density, rng=rng)
        Cone.from_points(sp.vstack([words, words[:40] + words[40:80]], format="csr"))


def _factorizations(rng: np.random.Generator) -> None:
    import scipy.sparse as sp

    import conecollapse as cc
    from conecollapse.tables import as_table

    X = rng.random((40, 12))
    wide = sp.random_array((600, 700), density=0.9, format="csr", rng=rng)
    for dtype in (np.float64, np.float32):
        Y = X.astype(dtype)
        cc.HierarchicalNMF(2, random_state=0).fit(Y).transform(Y)
        cc.AlternatingNMF(8, random_state=0).fit(Y)  # so many components that passive sets differ
        for selection in ("forward", "backward"):
            cc.HierarchicalNMF.from_components(Y[:4]).transform(Y, at_most=2, selection=selection)
        for table in (Y, sp.csr_array(Y)):
            cc.MultiplicativeNMF(2, loss="kullback-leibler", random_state=0).fit(table)
        large = as_table(wide.astype(dtype))
        large @ np.ones((700, 16), dtype)
        large.T @ sp.csr_array(np.eye(600, 2, dtype=dtype))
    for model in (cc.CCNMF(2, random_state=0), cc.MinVolumeNMF(3), cc.GraphCCNMF(2)):
        model.fit(X)
    cc.ConeNovelty().fit(X).score_samples(X)
    cc.GraphCCNMF(2, random_state=0).fit(sp.csr_array(X * (X > 0.7)))
