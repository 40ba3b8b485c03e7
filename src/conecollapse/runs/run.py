"""What every kind of run can do, and `save`: a run as a folder of plain files.

A kind of run is one file of this package with a class that derives from `Run`, and a line in
`KINDS`. It says what was found (`Run.facts`), which arrays hold it (`Run.arrays`), which files for
people are made of these (`Run.write`), and how a folder is checked (`Run.verify`). Everything else
is the same for all kinds: the folder, run.json, the certificate where there is a cone, the report,
and the comparison of the files with what the data gives (`conecollapse.runs.verifying`).
"""

from __future__ import annotations

import datetime
import hashlib
import importlib
import json
import os
import platform
import shutil
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import CertificateError, InvalidInputError, RunFolderError
from conecollapse._files import sha256_of
from conecollapse._types import AnyArray, Points, Progress
from conecollapse.io import TableFile
from conecollapse.runs.folder import (
    CERTIFICATE,
    FACTORS,
    FACTS,
    FORMAT,
    MODEL,
    REPORT,
    check_folder,
    staged,
)
from conecollapse.runs.model import model_facts, write_model
from conecollapse.runs.values import plain

if TYPE_CHECKING:
    from conecollapse.certificates import Verdict
    from conecollapse.geometry.cone import Cone

# the class of each kind, imported when it is needed
KINDS = {
    "cluster": ("conecollapse.runs.clustering", "ClusterRun"),
    "rays": ("conecollapse.runs.extreme_rays", "RaysRun"),
    "unmix": ("conecollapse.runs.unmixing", "UnmixRun"),
    "novelty": ("conecollapse.runs.novelty", "NoveltyRun"),
    "programs": ("conecollapse.runs.gene_programs", "ProgramsRun"),
}
PACKAGES = ("conecollapse", "numpy", "scipy", "scikit-learn", "numba", "pandas")
LARGEST_RANK = 10  # that "auto" tries
BLOCK = 256  # columns turned into rows at a time
STABLE_SHARE = 0.8  # of the samples, in the subsamples by which `select_rank` judges


@dataclass(frozen=True, eq=False, repr=False)
class Run(ABC):
    """The result of one of the commands: all that a folder, a report or a test needs of it.

    Attributes
    ----------
    kind : str
        Its name in `KINDS` and in run.json.
    form : mapping
        What run.json holds of it, as `conecollapse.runs.verifying.has_form` takes it.
    table : TableFile
        Prepared, if it was; ``table.raw`` is the table as it was read, where the two differ.
    cone : Cone or None
        With its certificate, where the run claims one.
    parameters : mapping
        What was asked for.
    timings : mapping of stage to seconds
    """

    kind: ClassVar[str]
    form: ClassVar[Mapping[str, Any]] = {}
    table: TableFile
    cone: Cone | None = field(default=None, kw_only=True)
    parameters: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    timings: Mapping[str, float] = field(default_factory=dict, kw_only=True)

    @property
    def fitted(self) -> Any:
        """What says where new samples belong; None where nothing does."""
        return getattr(getattr(self, "model", None), "_fitted", None)

    @property
    def preparation(self) -> Mapping[str, Any]:
        """How the data was read and prepared, which `read` repeats."""
        return {"normalize": None, "tfidf": False, "features": None} | dict(self.table.preparation)

    @property
    def sources(self) -> dict[str, TableFile]:
        """The tables of which run.json says where they are, by its entries."""
        return {"data": self.table}

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """What was found, in numbers."""

    @abstractmethod
    def arrays(self) -> dict[str, Any]:
        """The arrays of factors.npz beside names and hashes: what the run can be put together from
        again."""

    @abstractmethod
    def write(self, folder: Path, arrays: Mapping[str, AnyArray]) -> None:
        """Write the files for people and other programs, from the ``arrays`` of factors.npz."""

    @classmethod
    def read(cls, stored: Stored, source: Any) -> Any:
        """The data that the run was made from, read and prepared as it was then: a `TableFile`, or
        what has one as ``table``."""
        from conecollapse.io import read_table
        from conecollapse.io.formats import same_layout
        from conecollapse.runs.preparing import prepare

        said = stored.facts["data"]
        read = read_table(source, features_in=said["features_in"], **same_layout(source, said))
        return prepare(read, **stored.facts["preparation"])

    @classmethod
    @abstractmethod
    def verify(cls, stored: Stored, read: Any, tol: float | None) -> Checked:
        """Put the run together again from the data that was ``read`` and the stored arrays and
        cone, and prove what of them is not computed again."""


@dataclass(frozen=True, eq=False)
class Stored:
    """A folder of results as it was read; nothing of it is checked but its form."""

    path: Path
    facts: dict[str, Any]
    arrays: dict[str, AnyArray]
    cone: Cone | None

    @property
    def asked(self) -> dict[str, Any]:
        """What run.json says was asked for, and how long it took, as a run takes them."""
        return {name: self.facts[name] for name in ("parameters", "timings")}

    @property
    def search(self) -> dict[str, Any]:
        """What run.json says of the search: why there are so many clusters, and how it ended."""
        said = self.facts["results"]
        return {
            "choice": {name: said.get(name) for name in ("rank_reason", "rank_curve")},
            "status": {key: said[key] for key in ("converged", "status", "view") if key in said},
        }

    def width(self, name: str) -> int:
        """The number of columns of an array; 0 where there are none."""
        array = self.arrays.get(name, np.zeros(()))
        return array.shape[-1] if array.ndim else 0

    def check_arrays(self, needed: Mapping[str, Any]) -> None:
        """Refuse factors.npz unless it has these arrays, each of the kind and the shape given, and
        finite."""
        for name, (kind, shape) in needed.items():
            array = self.arrays.get(name, np.zeros(0))
            is_there = name in self.arrays and (array.shape, array.dtype.kind) == (shape, kind)
            if not is_there or (kind == "f" and not np.isfinite(array).all()):
                raise RunFolderError(
                    f"{FACTORS} in {str(self.path)!r} has no {name!r} of shape {shape} and finite"
                    " values; it is damaged or of another run."
                )

    def check_rank(self, name: str, what: str, r: int) -> None:
        """Refuse another number than the parameter ``name`` says, unless that is "auto"."""
        said = self.facts["parameters"][name]
        if said not in (r, "auto"):
            raise CertificateError(f"{FACTS} names {said} {what}, but {FACTORS} has {r}.")
        if said != "auto" and any(self.search["choice"].values()):
            raise CertificateError(
                f"{FACTS} says why there are {r} {what}, but {said} were asked for."
            )

    def unproven(
        self, places: Mapping[str, tuple[str, ...]], number: str
    ) -> dict[str, tuple[str, ...]]:
        """``places`` of run.json by what they are about; the choice of a number is one of them only
        where the parameter ``number`` is "auto"."""
        is_chosen = self.facts["parameters"][number] == "auto"
        return {
            what: where
            for what, where in places.items()
            if is_chosen or "results.rank_reason" not in where
        }

    def needed_cone(self) -> Cone:
        """The cone, of a run that has to have one."""
        if self.cone is None:
            raise RunFolderError(f"{str(self.path)!r} has no {CERTIFICATE}; it is incomplete.")
        return self.cone


@dataclass(frozen=True, eq=False)
class Checked:
    """A run that was put together again from its folder and the data."""

    run: Run
    sentence: str  # what is proven
    verdict: Verdict | None = None  # on the cone
    # places of run.json that were taken as they stand, by what they are about
    unchecked: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C came when part of the work was done; ``finished`` holds that part."""

    def __init__(self, message: str, finished: Run | None = None) -> None:
        super().__init__(message)
        self.finished = finished


def kind_of(name: str) -> type[Run]:
    """The class of a kind of run."""
    module, attribute = KINDS[name]
    found: type[Run] = getattr(importlib.import_module(module), attribute)
    return found


def save(
    run: Run,
    folder: str | os.PathLike[str],
    write_report: Callable[[Path, Any], None] | None = None,
    *,
    force: bool = False,
    model: bool | Path = True,
) -> Path:
    """Write ``run`` to ``folder``, all of it or nothing.

    Parameters
    ----------
    run : Run
    folder : path
        Made if it is missing.
    write_report : callable, optional
        Called as ``write_report(path, run)`` to write ``report.html``.
    force : bool
        Replace an earlier run; a folder that holds anything else is refused all the same.
    model : bool or path
        Keep what `predict` needs, where the kind of run has a model; or the file of an earlier run
        that has it. The folder then holds data: samples that new ones are compared with, or
        components.

    Returns
    -------
    Path
        The folder, absolute.

    Raises
    ------
    RunFolderError
        The folder holds something, or cannot be written; nothing is left behind.
    Interrupted
        Ctrl-C while the report was written; all other results are in the folder.
    """
    path = check_folder(folder, force=force)
    with staged(folder, force=force) as staging:
        arrays = all_arrays(run)
        np.savez(staging / FACTORS, **arrays)
        run.write(staging, arrays)
        if run.cone is not None:
            run.cone.save(staging / CERTIFICATE)
        is_finished = _write_page(staging / REPORT, run, write_report)
        if isinstance(model, Path) and model.is_file():
            shutil.copy(model, staging / MODEL)
        elif model and run.fitted is not None:
            kept = {"fitted": run.fitted, "preparation": dict(run.table.constants)}
            write_model(staging, kept)
        said = facts_of(run, path)
        said |= {"report": report_checksum(staging), "model": model_facts(staging)}
        said["checksum"] = checksum(said)
        text = json.dumps(said, indent=2, ensure_ascii=False) + "\n"
        (staging / FACTS).write_text(text, encoding="utf-8")
    if not is_finished:
        raise Interrupted(
            f"interrupted; the results are in {str(folder)!r}, only the report is missing."
        )
    return path


def _write_page(path: Path, run: Run, write_report: Callable[[Path, Any], None] | None) -> bool:
    """Write the report; False if Ctrl-C came. A report that fails must not lose the results, so
    there is a warning instead."""
    try:
        if write_report is not None:
            write_report(path, run)
        return True
    except KeyboardInterrupt:
        path.unlink(missing_ok=True)
        return False
    except OSError:
        raise
    except Exception as error:
        path.unlink(missing_ok=True)
        warnings.warn(
            f"the report could not be made ({type(error).__name__}: {error}); the other results"
            " were written.",
            UserWarning,
            stacklevel=3,
        )
        return True


def all_arrays(run: Run) -> dict[str, Any]:
    """The content of factors.npz: names, hashes of the features as they were read, and what the
    kind of run adds."""
    table = run.table
    return {
        "sample_names": table.samples,
        "feature_names": table.features,
        "data_hashes": feature_hashes((table.raw or table).X),
        **run.arrays(),
    }


def facts_of(run: Run, folder: Path) -> dict[str, Any]:
    """The content of run.json for a run that is saved to ``folder``, without checksums: what is
    needed to understand the run, and to repeat it."""
    found: dict[str, Any] = plain(
        {
            "format": FORMAT,
            "kind": run.kind,
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "versions": versions(),
            **{name: data_facts(table, folder) for name, table in run.sources.items()},
            "preparation": run.preparation,
            "parameters": run.parameters,
            "timings": run.timings,
            "results": run.facts(),
        }
    )
    return found


def data_facts(table: TableFile, folder: Path) -> dict[str, Any]:
    """Where the data is, seen from ``folder`` too, and how it was read."""
    relative = absolute = None
    if table.sha256:
        path = Path(table.source).resolve()
        absolute = str(path)
        try:
            relative = os.path.relpath(path, folder)
        except ValueError:  # on another drive
            relative = None
    return {
        "path": relative,
        "absolute": absolute,
        "source": table.source,
        "sha256": table.sha256,
        "n_samples": table.n_samples,
        "n_features": table.n_features,
        "dtype": str(table.X.dtype),
        "sparse": bool(sp.issparse(table.X)),
        "features_in": table.features_in,
        "why": table.why,
        "header": None if table.layout is None else table.layout.header,
        "names": None if table.layout is None else table.layout.names,
        "layer": table.layer,
        "text_column": table.text_column,
        "words": table.words,
    }


def versions() -> dict[str, str]:
    """Versions of Python, of the system and of the packages that the numbers depend on."""
    found = {"python": platform.python_version(), "system": platform.platform(terse=True)}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found


def report_checksum(folder: Path) -> str | None:
    """The SHA-256 of the report; None where there is none."""
    return sha256_of(folder / REPORT) if (folder / REPORT).is_file() else None


def checksum(facts: Mapping[str, Any]) -> str:
    """The SHA-256 of what run.json says, however it is laid out."""
    said = {name: value for name, value in facts.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


@contextmanager
def timed(timings: dict[str, float], stage: str, progress: Progress) -> Iterator[None]:
    """Records the seconds of a stage, and says that it begins and ends."""
    start = time.perf_counter()
    if progress is not None:
        progress(stage, 0, 1)
    try:
        yield
    finally:
        timings[stage] = time.perf_counter() - start
    if progress is not None:
        progress(stage, 1, 1)


def sizes(table: TableFile) -> dict[str, int]:
    """The numbers of samples and features."""
    return {"n_samples": table.n_samples, "n_features": table.n_features}


def points(X: Points) -> Points:
    """The features as rows."""
    return sp.csr_array(X.T) if sp.issparse(X) else X.T


def rank_candidates(count: int, what: str = "samples") -> range:
    """The numbers of clusters, or of components, that "auto" tries for so many samples (features,
    if these are fewer)."""
    most = min(LARGEST_RANK, int(STABLE_SHARE * count))
    if most < 2:
        raise InvalidInputError(
            f'n_components="auto" needs at least 3 {what}, but there are {count}; pass a number.'
        )
    return range(2, most + 1)


def feature_hashes(X: Points) -> AnyArray:
    """A 64-bit hash of every feature, so that a change of the data can be named: BLAKE2b of its
    values, and of where they are if X is sparse.

    Examples
    --------
    >>> import numpy as np
    >>> a, b, c = feature_hashes(np.array([[1.0, 2.0, 1.0], [0.0, 3.0, -0.0]]))
    >>> bool(a == c), bool(a == b)
    (True, False)
    """
    if sp.issparse(X):
        C = sp.csc_array(X)
        C.sort_indices()
        where, data = C.indices.astype(np.int64), C.data
        return np.array(
            [
                _hash(where[a:b].tobytes(), data[a:b].tobytes())
                for a, b in zip(C.indptr[:-1], C.indptr[1:], strict=True)
            ],
            np.uint64,
        )
    found: list[int] = []
    for start in range(0, X.shape[1], BLOCK):
        block = np.ascontiguousarray(X[:, start : start + BLOCK].T) + X.dtype.type(0)  # -0 + 0 is 0
        found += [_hash(column.tobytes()) for column in block]
    return np.array(found, np.uint64)


def _hash(*parts: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(b"".join(parts), digest_size=8).digest(), "little")
