"""A folder of results appears whole or not at all, and never takes the place of someone else's files."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conecollapse._errors import RunFolderError

FORMAT = "conecollapse-run-1"
LABELS, RAYS, FACTORS, CERTIFICATE, FACTS, REPORT = "labels.csv", "rays.csv", "factors.npz", "certificate.npz", "run.json", "report.html"
OURS = frozenset({LABELS, RAYS, FACTORS, CERTIFICATE, FACTS, REPORT})


def check_folder(folder: str | os.PathLike[str], *, force: bool = False) -> Path:
    """The folder as an absolute path, refused if it could not be written: better before an hour of work than after it.

    An existing folder is accepted when it is empty or holds an earlier run and nothing else; with ``force`` any folder is, and its other
    files stay.
    """
    path = Path(folder).expanduser().resolve()
    if path.exists() and not path.is_dir():
        raise RunFolderError(f"{str(folder)!r} is a file; name a folder for the results.")
    if path.is_dir() and not force:
        others = sorted(entry.name for entry in path.iterdir() if entry.name not in OURS)
        if others:
            raise RunFolderError(
                f"the folder {str(folder)!r} holds other files ({others[0]!r}); name another one, or use force to write beside them."
            )
        if any(path.iterdir()) and not is_run(path):
            raise RunFolderError(f"the folder {str(folder)!r} is not empty and no earlier run; name another one, or use force.")
    ancestor = next(parent for parent in path.parents if parent.is_dir())
    if not os.access(ancestor, os.W_OK | os.X_OK):
        raise RunFolderError(f"cannot write to {str(folder)!r}: no permission in {str(ancestor)!r}; name another folder.")
    return path


def is_run(path: Path) -> bool:
    """Whether this is a folder that we wrote, of whatever version."""
    try:
        facts = json.loads((path / FACTS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(facts, dict) and str(facts.get("format", "")).startswith("conecollapse-run-")


@contextmanager
def staged(folder: str | os.PathLike[str], *, force: bool = False) -> Iterator[Path]:
    """A temporary folder beside ``folder`` that takes its place when the block ends, and vanishes when it fails."""
    path = check_folder(folder, force=force)
    staging = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            staging.mkdir()
            yield staging
            _publish(staging, path)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    except RunFolderError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise RunFolderError(f"the results cannot be written to {str(folder)!r}: {reason}; nothing was left there.") from error


def _publish(staging: Path, path: Path) -> None:
    if not path.exists():
        os.rename(staging, path)
        return
    if path == Path.cwd() or any(entry.name not in OURS for entry in path.iterdir()):
        _move_into(staging, path)
        return
    old = path.with_name(f".{path.name}.{uuid.uuid4().hex}.old")
    os.rename(path, old)
    try:
        os.rename(staging, path)
    except BaseException:
        os.rename(old, path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _move_into(staging: Path, path: Path) -> None:
    """File by file into a folder that holds more than ours; run.json comes last, and nothing of an earlier run stays."""
    for name in OURS:
        if not (staging / name).exists():
            (path / name).unlink(missing_ok=True)
    for name in sorted(OURS - {FACTS}):
        if (staging / name).exists():
            os.replace(staging / name, path / name)
    os.replace(staging / FACTS, path / FACTS)
