"""`verify`: does a folder of results still follow from the data?

The data is read again, a run is put together from it and from what only the search can find (the
factor A, the components, the cone), and all other files must say what this run would write. So each
number has one formula, in the writer, and no file is believed. Whether the abundances are those of
the nearest mixture is decided by the conditions of optimality
(`conecollapse.certificates.optimality`), and the cone by its certificate.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from conecollapse._errors import CertificateError, RunFolderError, quoted
from conecollapse._types import AnyArray
from conecollapse.certificates import Verdict
from conecollapse.geometry.cone import Cone
from conecollapse.io import TableFile
from conecollapse.runs import saving, unmixing
from conecollapse.runs.agreement import agree, agree_files, check_arrays
from conecollapse.runs.facts import checksum, facts, report_checksum
from conecollapse.runs.folder import CERTIFICATE, FACTORS, FACTS, REPORT
from conecollapse.runs.hashes import feature_hashes
from conecollapse.runs.reading import Stored, run_arrays, run_facts
from conecollapse.runs.verifying_clusters import prove_clusters, read_data, rebuild_clusters
from conecollapse.runs.verifying_mixtures import prove_mixtures, read_mixtures, rebuild_mixtures

# what no data and no other file of a run proves
UNCHECKED = {
    "times": ("created", "timings"),
    "versions": ("versions",),
    # other bytes with the same values are noted
    "where the data was": (
        "data.path",
        "data.absolute",
        "data.source",
        "data.why",
        "data.sha256",
    ),
}
# these are facts of a file; data in memory has none of them
OF_FILES = ("data.header", "data.names", "data.layer", "data.text_column")


class Kind(NamedTuple):
    """How one kind of run is checked: by functions of the folder, and by those that wrote it."""

    read: Callable[..., Any]  # the data
    # the run, put together again, and further places of run.json that stay unchecked
    rebuild: Callable[..., tuple[Any, dict[str, tuple[str, ...]]]]
    prove: Callable[..., Verdict]  # what is not computed again
    factors: Callable[..., dict[str, Any]]
    write_copies: Callable[..., None]
    facts: Callable[..., dict[str, Any]]


OF_TABLES = Kind(
    read_data, rebuild_clusters, prove_clusters, saving.factors, saving.write_copies, facts
)
KINDS = {
    "cluster": OF_TABLES,
    "rays": OF_TABLES,
    "unmix": Kind(
        read_mixtures,
        rebuild_mixtures,
        prove_mixtures,
        unmixing.factors,
        unmixing.write_copies,
        unmixing.unmix_facts,
    ),
}


@dataclass(frozen=True)
class Verification:
    """What was checked when every check passed."""

    folder: str
    data: str  # what was read
    n_samples: int
    n_features: int
    verdict: Verdict
    # whether the file has the same bytes; if False, the bytes differ but the values match
    same_bytes: bool
    notes: tuple[str, ...] = ()
    kind: str = "cluster"  # of the run
    not_checked: tuple[str, ...] = ()  # parts of run.json that nothing in the folder proves

    def __str__(self) -> str:
        proven = (
            "verified:"
            f" {self._unmixed() if self.kind == 'unmix' else self.verdict.sentence('features')}"
        )
        left = f"Not checked: {', '.join(self.not_checked)}."
        return " ".join([proven, *(f"Note: {note}." for note in self.notes), left])

    def _unmixed(self) -> str:
        far, tol = self.verdict.largest_residual, self.verdict.tol
        return (
            f"none of the {self.n_samples} samples is further from the cone of the"
            f" {self.verdict.n_rays} components than {far:.3g} of its length (tol = {tol:.3g})."
        )


def verify(
    folder: str | os.PathLike[str], data: Any = None, tol: float | None = None
) -> Verification:
    """Check a folder of results against the data, without any solver.

    The data is read again and prepared as recorded. Every feature must have the recorded values,
    the certificate of the cone must hold, abundances and shares must satisfy the conditions of
    optimality, and every other number of the folder must be the one that follows from the data, the
    factors and the cone. Times, versions, where the data was, and what only the search knows are
    not checked; ``not_checked`` lists them. A checksum tells whether they, or the report, were
    changed later.

    Parameters
    ----------
    folder : path
    data : anything that `read_table` takes, optional
        The file that the run names by default: first by its place relative to the folder, then by
        its absolute path.
    tol : float, optional
        What to judge the claims of the cone against; by default the tolerance that it states, which
        the result repeats.

    Returns
    -------
    Verification

    Raises
    ------
    CertificateError
        A check failed; the message names the feature or the sample.
    RunFolderError
        The folder is damaged, of another version, or its data is missing.
    """
    path = Path(folder)
    said = run_facts(path)
    source, kind = _source(path, said, data), KINDS[said["kind"]]
    stored = Stored(path, said, run_arrays(path), _cone_of(path))
    read = kind.read(stored, source)
    table: TableFile = getattr(read, "table", read)
    table = table.raw or table
    _check_shape(table, said)
    _check_values(path, table, stored.arrays)
    run, left = kind.rebuild(stored, read)
    verdict = kind.prove(stored, run, tol)
    agree(FACTORS, stored.arrays, kind.factors(run))
    agree_files(path, lambda copies: kind.write_copies(copies, run, stored.arrays))
    unchecked = UNCHECKED | left
    places = chain(*unchecked.values(), () if isinstance(source, (str, Path)) else OF_FILES)
    agree(FACTS, said, kind.facts(run, path), {*places, "report", "checksum"})
    _check_checksums(stored)
    same_bytes = table.sha256 == said["data"]["sha256"]
    notes = ("the bytes of the data file changed, but no value did",)
    return Verification(
        str(folder),
        table.source,
        table.n_samples,
        table.n_features,
        verdict,
        same_bytes,
        () if same_bytes or not table.sha256 else notes,
        said["kind"],
        tuple(unchecked),
    )


def _cone_of(path: Path) -> Cone:
    """The cone of certificate.npz; its claims are not checked."""
    if not (path / CERTIFICATE).is_file():
        raise RunFolderError(f"{str(path)!r} has no {CERTIFICATE}; it is incomplete.")
    return Cone.load(path / CERTIFICATE)


def _check_checksums(stored: Stored) -> None:
    """What cannot be computed again is at least what was written."""
    if report_checksum(stored.path) != stored.facts.get("report", ""):
        raise CertificateError(
            f"{REPORT} is missing, or is not the page that was written with this run."
        )
    if stored.facts.get("checksum") != checksum(stored.facts):
        raise CertificateError(
            f"{FACTS} was changed after it was written: its checksum is that of another content."
        )


def _source(path: Path, facts: dict[str, Any], data: Any) -> Any:
    if data is not None:
        return data
    relative, absolute = facts["data"].get("path"), facts["data"].get("absolute")
    places = [path / relative] if isinstance(relative, str) else []
    places += [Path(absolute)] if isinstance(absolute, str) else []
    for place in places:
        # False also for a name that no system could have
        if os.path.isfile(place) or os.path.isdir(place):
            return place
    if not places:
        raise RunFolderError("the run was made from data in memory; pass data=... to verify it.")
    raise RunFolderError(
        f"the data of this run, {quoted(str(places[-1]))}, is not there any more; pass data=..."
        " to say where it is now."
    )


def _check_shape(table: TableFile, facts: dict[str, Any]) -> None:
    n, m = facts["data"]["n_samples"], facts["data"]["n_features"]
    if (table.n_samples, table.n_features) != (n, m):
        raise CertificateError(
            f"the data has {table.n_samples} samples and {table.n_features} features, but the run"
            f" was made from {n} and {m}; it is other data."
        )


def _check_values(path: Path, table: TableFile, arrays: dict[str, AnyArray]) -> None:
    n, m = table.n_samples, table.n_features
    needed = {"sample_names": ("U", (n,)), "feature_names": ("U", (m,))}
    check_arrays(path, arrays, needed | {"data_hashes": ("u", (m,))})
    for names, key, what in (
        (table.features, "feature_names", "feature"),
        (table.samples, "sample_names", "sample"),
    ):
        for i in np.flatnonzero(names != arrays[key])[:1]:
            raise CertificateError(
                f"the {what} {quoted(str(arrays[key][i]))} of the run is called"
                f" {quoted(str(names[i]))} in the data."
            )
    changed = np.flatnonzero(feature_hashes(table.X) != arrays["data_hashes"])
    if len(changed):
        more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
        name = quoted(str(table.features[changed[0]]))
        raise CertificateError(
            f"the feature {name}{more} does not have the values that the run was made from; the"
            " data changed."
        )
