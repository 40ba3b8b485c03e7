"""A folder of results is written completely or not at all, and holds nothing else.

A run is written to a temporary folder beside its place, which then takes the name: by a rename
where nothing has it, and where an earlier run has it, by swapping the two names in one step
(`exchange`), after which the earlier run is removed. So there is a run under the name whenever
there was one, whatever stops the process.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from conecollapse._errors import RunFolderError, argument
from conecollapse._files import can_exchange, exchange, temporary_beside

FORMAT = "conecollapse-run-5"
LAYOUT, NAMES = "layout.csv", "names.csv"  # where samples are drawn; what clusters are called
MODEL = "model.npz"  # what `predict` needs
LABELS, RAYS, FACTORS, CERTIFICATE, FACTS, REPORT = (
    "labels.csv",
    "rays.csv",
    "factors.npz",
    "certificate.npz",
    "run.json",
    "report.html",
)
ENDMEMBERS, SPREAD = "endmembers.csv", "spread.csv"
ABUNDANCES, NOVELTY = "abundances.csv", "novelty.csv"
PROGRAMS, USAGES, MARKERS = "programs.csv", "usages.csv", "markers.csv"
DOUBTED = "doubted.csv"  # labels that guided, and that the data speak against
# the maps as NumPy has them, and as the data was: an ENVI image, or of MATLAB
MAPS, MAPS_HEADER, MAPS_DATA, MAPS_MAT = "maps.npy", "maps.hdr", "maps.img", "maps.mat"
# arrays of factors.npz once more, in files for people and other programs
COPIES = frozenset(
    {
        LABELS,
        DOUBTED,
        RAYS,
        ENDMEMBERS,
        SPREAD,
        ABUNDANCES,
        NOVELTY,
        LAYOUT,
        PROGRAMS,
        USAGES,
        MARKERS,
    }
    | {MAPS, MAPS_HEADER, MAPS_DATA, MAPS_MAT}
)
RUN_FILES = COPIES | {FACTORS, CERTIFICATE, FACTS, REPORT, MODEL, NAMES}


def check_folder(folder: str | os.PathLike[str], *, force: bool = False) -> Path:
    """The folder as an absolute path, refused before any work is done if no run can be written
    there.

    It may be missing or empty; with ``force`` it may hold an earlier run and nothing else, which is
    replaced.
    """
    try:
        path = Path(folder).expanduser().resolve()
    except (OSError, RuntimeError, ValueError) as error:
        # pathlib calls a loop of links, and an unknown user, a RuntimeError
        reason = getattr(error, "strerror", None) or str(error)
        raise RunFolderError(
            f"{str(folder)!r} cannot be a folder of results: {reason}; name another one."
        ) from error
    try:
        _check_place(path, str(folder))
        _check_content(path, str(folder), force)
    except RunFolderError:
        raise
    except OSError as error:
        raise RunFolderError(
            f"cannot write to {str(folder)!r}: {error.strerror or error}; name another folder."
        ) from error
    return path


def _check_place(path: Path, name: str) -> None:
    if not path.name:
        raise RunFolderError(f"{name!r} is the root of the file system; name a folder in it.")
    if path == Path.cwd():
        raise RunFolderError(
            f"{name!r} is the working directory, and a run takes the place of its folder; name"
            " another one."
        )
    if path.exists() and not path.is_dir():
        raise RunFolderError(f"{name!r} is a file; name a folder for the results.")
    above = next(parent for parent in path.parents if os.path.lexists(parent))
    if not above.is_dir():
        raise RunFolderError(
            f"cannot write to {name!r}: {str(above)!r} is not a folder; name another one."
        )
    if not os.access(above, os.W_OK | os.X_OK):
        raise RunFolderError(
            f"cannot write to {name!r}: no permission in {str(above)!r}; name another folder."
        )
    with tempfile.TemporaryFile(dir=above):  # permissions alone do not tell
        pass


def _check_content(path: Path, name: str, force: bool) -> None:
    if not path.is_dir() or not any(path.iterdir()):
        return
    others = sorted(
        entry.name for entry in path.iterdir() if entry.name not in RUN_FILES or entry.is_dir()
    )
    if others:
        raise RunFolderError(
            f"the folder {name!r} holds other files ({others[0]!r}), which are never replaced; name"
            " another one."
        )
    if not is_run(path):
        raise RunFolderError(
            f"the folder {name!r} is not empty and holds no earlier run; name another one."
        )
    if not force:
        raise RunFolderError(
            f"the folder {name!r} holds an earlier run; name another one, or pass"
            f" {argument('force', True)} to replace it."
        )
    if not can_exchange(path):
        raise RunFolderError(
            f"the file system of {name!r} cannot replace a folder in one step; name a new one."
        )


def is_run(path: Path) -> bool:
    """Whether this is a folder of results, of any version."""
    try:
        facts = json.loads((path / FACTS).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(facts, dict) and str(facts.get("format", "")).startswith("conecollapse-run-")


@contextmanager
def staged(folder: str | os.PathLike[str], *, force: bool = False) -> Iterator[Path]:
    """A temporary folder beside ``folder`` that takes its place when the block ends, and vanishes
    when it fails."""
    path = check_folder(folder, force=force)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary_beside(path) as staging:
            staging.mkdir()
            yield staging
            _publish(staging, path)
    except RunFolderError:
        raise
    except OSError as error:
        raise RunFolderError(
            f"the results cannot be written to {str(folder)!r}: {error.strerror or error}; nothing"
            " was left there."
        ) from error


def _publish(staging: Path, path: Path) -> None:
    with suppress(OSError):
        path.rmdir()  # an empty folder only
    try:
        os.rename(staging, path)
    except OSError:
        if not is_run(path) or not exchange(staging, path):
            raise
