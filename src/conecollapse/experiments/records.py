"""Results as JSON lines: one run, one line, appended whole. A killed run leaves at most half a line, which is dropped when read."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from conecollapse._errors import InvalidInputError


@dataclass(frozen=True)
class Record:
    """One run of one method on one set."""

    dataset: str
    protocol: str
    method: str
    seed: int
    purity: float
    accuracy: float
    nmi: float
    ari: float
    objective: float | None  # |X - W H|^2 / |X|^2 of what was factorized; None for the outsiders
    orthogonality: float | None
    converged: bool | None
    seconds: float
    peak_gib: float | None  # of the process during the run, data included
    note: str  # the view taken, for ours
    differs: str  # how the copy of the data differs from the paper's

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What makes a run the same run."""
        return self.dataset, self.protocol, self.method, self.seed


def append(path: Path, record: Record) -> None:
    """Add one line, in one write, and have it on the disk before going on."""
    line = (json.dumps(asdict(record), sort_keys=True) + "\n").encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        if path.stat().st_size and not path.read_bytes().endswith(b"\n"):
            line = b"\n" + line  # an earlier run was killed in the middle of a line
        os.write(descriptor, line)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read(path: Path) -> list[Record]:
    """All whole lines; the last of several with the same key. A line that is not a record is dropped when it is the remains of a kill."""
    if not path.exists():
        return []
    found: dict[tuple[str, str, str, int], Record] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            record = Record(**json.loads(line))
        except json.JSONDecodeError:
            continue  # half a line
        except TypeError as error:
            raise InvalidInputError(f"line {number} of {path} is not a result of this version ({error}); use another file.") from error
        found[record.key] = record
    return list(found.values())
