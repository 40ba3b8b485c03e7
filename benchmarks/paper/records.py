"""Results as JSON lines, one for each run. A killed process leaves at most one incomplete line,
which reading skips."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from conecollapse._errors import InvalidInputError


@dataclass(frozen=True)
class Record:
    """One run of one method on one dataset."""

    dataset: str
    protocol: str
    method: str
    seed: int
    purity: float
    accuracy: float
    nmi: float
    ari: float
    # |X - W H|^2 / |X|^2 of what was factorized; None for the other methods
    objective: float | None
    orthogonality: float | None
    converged: bool | None
    seconds: float
    peak_gib: float | None  # of the process during the run, data included
    note: str  # the chosen view, for our method
    differs: str  # how the copy of the data differs from the paper's

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What identifies a run."""
        return self.dataset, self.protocol, self.method, self.seed


def append(path: Path, record: Record) -> None:
    """Append one line in one write, and wait until it is on the disk."""
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
    """The records of all complete lines; of several with the same key the last. An incomplete line
    is skipped."""
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
            raise InvalidInputError(
                f"line {number} of {path} is not a result of this version ({error}); use another"
                " file."
            ) from error
        found[record.key] = record
    return list(found.values())
