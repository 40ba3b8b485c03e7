"""Many runs side by side, each with its own seed, kept in a folder as they end: a checkpoint.

A run depends on its number and on nothing else: neither on the threads nor on which runs were done
before. So a set of runs that was stopped goes on where it was, and more runs can be asked for
later. The folder holds plain arrays, one ``.npz`` file for each run, and what the runs were made
from, ``runs.json``; files are there whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from conecollapse._errors import CheckpointError, InvalidInputError
from conecollapse._files import whole_file
from conecollapse._progress import teller
from conecollapse._threads import for_ranges
from conecollapse._types import AnyArray, FloatArray, IntArray
from conecollapse.io.npy import load_npz
from conecollapse.tables import Table

FORMAT = 1
ORIGIN = "runs.json"


class Run(NamedTuple):
    """What is kept of a run."""

    H: FloatArray  # (r, n_features)
    labels: IntArray  # (n_samples,)
    objective: float  # as a share of |X|^2, or of the sum of X


class Measured(Protocol):
    """What is known of the result of a run."""

    @property
    def objective(self) -> float: ...


R = TypeVar("R", bound=Measured)


class Store(Protocol[R]):
    """Where results are kept."""

    def read(self, n_runs: int) -> dict[int, R]: ...

    def write(self, i: int, run: R) -> None: ...


def many_runs(
    one: Callable[[int], R],
    n_runs: int,
    checkpoint: Store[R] | None,
    told: Callable[[int, float], object],
) -> dict[int, R]:
    """``one(i)`` for i = 0, 1, ..., on the threads in force; those of the checkpoint are read.

    ``told(n_done, objective)`` is called after each run; a true answer ends the runs, and those
    that are done are returned.
    """
    done: dict[int, R] = {} if checkpoint is None else checkpoint.read(n_runs)
    open_runs = [i for i in range(n_runs) if i not in done]
    lock = Lock()
    stopped: list[int] = []

    def work(start: int, stop: int) -> None:
        for i in open_runs[start:stop]:
            if stopped:
                return
            run = one(i)
            with lock:
                done[i] = run
                if checkpoint is not None:
                    checkpoint.write(i, run)
                if told(len(done), run.objective):
                    stopped.append(i)

    for_ranges(work, len(open_runs))
    return dict(sorted(done.items()))


def reporter(
    name: str,
    what: str,
    n_runs: int,
    verbose: bool | None,
    callback: Callable[[int, float], object] | None,
) -> Callable[[int, float], bool]:
    """What is told after each run: the progress that is shown, with ``verbose`` a line after each
    tenth of the runs, and the callback, whose true answer ends them.
    """
    progress = teller()

    def told(n_done: int, objective: float) -> bool:
        if progress is not None:
            progress(what, n_done, n_runs)
        if verbose and n_done * 10 // n_runs > (n_done - 1) * 10 // n_runs:
            print(
                f"{name}: {n_done} of {n_runs} {what}, the last with a relative objective of"
                f" {objective:.6g}"
            )
        return bool(callback is not None and callback(n_done, objective))

    return told


class Checkpoint:
    """The folder of runs of a table with parameters."""

    def __init__(
        self,
        folder: str | PathLike[str],
        X: Table,
        parameters: dict[str, Any],
        shapes: tuple[tuple[int, ...], tuple[int, ...]],
    ):
        self.folder, self.shapes = Path(folder), shapes
        keys = hashlib.blake2b(b"".join(X.row_keys()), digest_size=16).hexdigest()
        origin = {"format": FORMAT, **parameters, "data": keys}
        file = self.folder / ORIGIN
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            text = file.read_text(encoding="utf-8") if file.is_file() else None
        except OSError as error:
            raise InvalidInputError(
                f"the checkpoint {str(folder)!r} is not a folder that can be used"
                f" ({error.strerror})."
            ) from error
        if text is None:
            with whole_file(file) as temporary:
                temporary.write_text(json.dumps(origin, indent=1), encoding="utf-8")
            return
        self._compare(text, origin)

    def _compare(self, text: str, origin: dict[str, Any]) -> None:
        try:
            found = json.loads(text)
        except ValueError as error:
            raise CheckpointError(
                f"{str(self.folder / ORIGIN)!r} cannot be read; use another folder."
            ) from error
        found = found if isinstance(found, dict) else {}
        for name, value in origin.items():
            if found.get(name) != value:
                what = (
                    "from other data"
                    if name == "data"
                    else f"with {name} = {found.get(name)!r}, not {value!r}"
                )
                raise CheckpointError(
                    f"the runs in {str(self.folder)!r} were made {what}; use another folder."
                )

    def read(self, n_runs: int) -> dict[int, Run]:
        """The runs that are there."""
        return {i: self._run(self._file(i)) for i in range(n_runs) if self._file(i).is_file()}

    def write(self, i: int, run: Run) -> None:
        """Keep a run."""
        with whole_file(self._file(i)) as temporary, open(temporary, "wb") as stream:
            np.savez(stream, H=run.H, labels=run.labels, objective=np.float64(run.objective))

    def _file(self, i: int) -> Path:
        return self.folder / f"run-{i:05d}.npz"

    def _run(self, file: Path) -> Run:
        try:
            arrays = load_npz(file)
        except (InvalidInputError, OSError) as error:
            raise CheckpointError(
                f"{str(file)!r} cannot be read ({str(error).rstrip('.')}); remove it, and this run"
                " is made again."
            ) from error
        H, labels, objective = (
            arrays.get(name, np.zeros(0)) for name in ("H", "labels", "objective")
        )
        if not _is_whole(H, labels, objective, self.shapes):
            raise CheckpointError(
                f"{str(file)!r} does not hold a run of this table; remove it, and this run is made"
                " again."
            )
        return Run(H, labels, float(objective))


def _is_whole(
    H: AnyArray,
    labels: AnyArray,
    objective: AnyArray,
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
) -> bool:
    (r, m), (n,) = shapes
    return bool(
        (H.shape == (r, m) and H.dtype == np.float64 and np.isfinite(H).all() and (H >= 0).all())
        and (
            labels.shape == (n,)
            and labels.dtype == np.int64
            and (labels >= -1).all()
            and (labels < r).all()
        )
        and (objective.shape == () and objective.dtype == np.float64 and np.isfinite(objective))
    )
