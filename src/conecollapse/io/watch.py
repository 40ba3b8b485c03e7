"""A file that must stay as it is while it is read."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from conecollapse._errors import DataChangedError
from conecollapse._room import check_file


class WatchedFile:
    """Remembers a file's size, and says so when it is another."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        check_file(self.path)
        self.size = self.path.stat().st_size

    def check(self, where: str) -> None:
        """Raise `DataChangedError` if the size is not what it was; ``where`` says how far reading
        got."""
        now = self.path.stat().st_size if self.path.exists() else 0
        if now != self.size:
            raise DataChangedError(
                f"{str(self.path)!r} changed size while it was read, from {self.size} to {now}"
                f" bytes ({where}); open it again when nobody writes to it. Cones saved before are"
                " of the old file."
            )
