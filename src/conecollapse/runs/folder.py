"""A folder of results is written completely or not at all, and never replaces other files.

A run is written to a temporary folder beside its place. Then one of three things happens:

- There is no folder of that name: the temporary one is renamed.
- The folder holds an earlier run and nothing else: the two swap names in one step (`exchange`), and
  the earlier run is removed.
- The folder has to stay, because it holds other files, or is the working directory, or because the
  file system cannot swap: the files are copied into it one by one. The old ``run.json`` goes first
  and the new one comes last, so that a mixture of two runs has no ``run.json`` and does not count
  as a run. If the process is killed in between, the new run is whole in the temporary folder, which
  says so by the file `READY`; `settle` copies it again.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conecollapse._errors import RunFolderError
from conecollapse._files import exchange, leftovers, temporary_beside, try_writing

FORMAT = "conecollapse-run-3"
LABELS, RAYS, FACTORS, CERTIFICATE, FACTS, REPORT = (
    "labels.csv",
    "rays.csv",
    "factors.npz",
    "certificate.npz",
    "run.json",
    "report.html",
)
ENDMEMBERS, ABUNDANCES, MAPS = "endmembers.csv", "abundances.csv", "maps.npy"
# the maps as the data was: an ENVI image, or of MATLAB
MAPS_HEADER, MAPS_DATA, MAPS_MAT = "maps.hdr", "maps.img", "maps.mat"
RUN_FILES = frozenset(
    {
        LABELS,
        RAYS,
        FACTORS,
        CERTIFICATE,
        FACTS,
        REPORT,
        ENDMEMBERS,
        ABUNDANCES,
        MAPS,
        MAPS_HEADER,
        MAPS_DATA,
        MAPS_MAT,
    }
)
COPIES = RUN_FILES - {FACTORS, CERTIFICATE, FACTS, REPORT}  # of arrays in these
# in a temporary folder: the run is whole, and its files are being copied into their folder
READY = "ready"


def check_folder(folder: str | os.PathLike[str], *, force: bool = False) -> Path:
    """The folder as an absolute path, refused if it cannot be written to, before any work is done.

    An existing folder is accepted when it is empty or holds an earlier run and nothing else; with
    ``force`` any folder is, and its other files are kept. What killed runs left beside it is
    removed, or put in its place (see `settle`).
    """
    try:
        path = settle(folder)
        _check_content(path, str(folder), force)
        _check_place(path, str(folder))
    except RunFolderError:
        raise
    except OSError as error:
        raise RunFolderError(
            f"cannot write to {str(folder)!r}: {error.strerror or error}; name another folder."
        ) from error
    return path


def settle(folder: str | os.PathLike[str]) -> Path:
    """Remove what killed runs left beside ``folder``; a run whose files were being copied into it
    is copied again. The absolute path."""
    try:
        path = Path(folder).expanduser().resolve()
    except (OSError, RuntimeError, ValueError) as error:
        # pathlib calls a loop of links, and an unknown user, a RuntimeError
        reason = getattr(error, "strerror", None) or str(error)
        raise RunFolderError(
            f"{str(folder)!r} cannot be a folder of results: {reason}; name another one."
        ) from error
    if not path.name:
        raise RunFolderError(
            f"{str(folder)!r} is the root of the file system; name a folder in it."
        )
    for staging in leftovers(path):
        if _is_ready(staging) and not is_run(path):
            _fill(path, staging)
    return path


def _check_content(path: Path, name: str, force: bool) -> None:
    if not path.is_dir():
        if path.exists():
            raise RunFolderError(f"{name!r} is a file; name a folder for the results.")
        return
    others = _others(path)
    if others and not force:
        raise RunFolderError(
            f"the folder {name!r} holds other files ({others[0]!r}); name another one, or pass"
            " force=True to write beside them."
        )
    if any(path.iterdir()) and not is_run(path) and not force:
        raise RunFolderError(
            f"the folder {name!r} is not empty and holds no earlier run; name another one, or pass"
            " force=True to write into it."
        )
    for entry in sorted(RUN_FILES):
        if (path / entry).is_dir() and not (path / entry).is_symlink():
            raise RunFolderError(
                f"{entry!r} in {name!r} is a folder, where a file of the results belongs; name"
                " another folder."
            )


def _check_place(path: Path, name: str) -> None:
    ancestor = next((parent for parent in path.parents if os.path.lexists(parent)), path)
    places = (ancestor, path) if os.path.lexists(path) else (ancestor,)
    for place in places:
        if not place.is_dir():
            raise RunFolderError(
                f"cannot write to {name!r}: {str(place)!r} is not a folder; name another one."
            )
        if not os.access(place, os.W_OK | os.X_OK):
            raise RunFolderError(
                f"cannot write to {name!r}: no permission in {str(place)!r}; name another folder."
            )
        try_writing(place)


def _others(path: Path) -> list[str]:
    return sorted(name for name in os.listdir(path) if name not in RUN_FILES)


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
    staging: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary_beside(path, keep=_is_ready) as staging:
            staging.mkdir()
            yield staging
            _publish(staging, path)
    except RunFolderError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        left = "nothing was left there"
        if staging is not None and _is_ready(staging):
            left = (
                f"they are complete in {str(staging)!r}, and the next run into that folder, or"
                " verify, puts them in place"
            )
        raise RunFolderError(
            f"the results cannot be written to {str(folder)!r}: {reason}; {left}."
        ) from error


def _publish(staging: Path, path: Path) -> None:
    if not path.exists():
        os.rename(staging, path)
        return
    stays = bool(_others(path)) or os.path.samefile(path, os.curdir)
    if not stays and exchange(staging, path):
        return
    (staging / READY).touch()
    try:
        _fill(path, staging)
    except KeyboardInterrupt:
        _fill(path, staging)  # it takes no time, and the earlier run is gone
        raise


def _is_ready(staging: Path) -> bool:
    return (staging / READY).exists()


def _fill(path: Path, staging: Path) -> None:
    """Copy the run into ``path``, in place of an earlier one; it can be stopped anywhere and done
    again."""
    path.mkdir(exist_ok=True)
    # removed and not written over: these may be links to files elsewhere
    for name in (FACTS, *sorted(RUN_FILES - {FACTS})):
        (path / name).unlink(missing_ok=True)
    for name in (*sorted(RUN_FILES - {FACTS}), FACTS):
        if (staging / name).exists():
            shutil.copyfile(staging / name, path / name)
    (staging / READY).unlink(missing_ok=True)
