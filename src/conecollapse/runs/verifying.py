"""`verify`: does a folder of results still follow from the data?"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from conecollapse._errors import CertificateError, RunFolderError
from conecollapse._types import AnyArray
from conecollapse.certificates import Certificate, Verdict
from conecollapse.clusters import cluster_sizes
from conecollapse.geometry.cone import Cone
from conecollapse.io import TableFile, read_table
from conecollapse.io.cube import read_spectra
from conecollapse.io.reading import same_layout
from conecollapse.runs.folder import CERTIFICATE, ENDMEMBERS, FACTORS, FACTS, LABELS, RAYS
from conecollapse.runs.hashes import feature_hashes
from conecollapse.runs.preparing import points, prepare
from conecollapse.runs.reading import csv_rows, labels_of, run_arrays, run_facts
from conecollapse.runs.saving import RAY_COLUMNS, ray_rows
from conecollapse.runs.unmixing import check_unmixing, unmixed_points


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

    def __str__(self) -> str:
        proven = (
            "verified:"
            f" {self._unmixed() if self.kind == 'unmix' else self.verdict.sentence('features')}"
        )
        return " ".join([proven, *(f"Note: {note}." for note in self.notes)])

    def _unmixed(self) -> str:
        far, tol = self.verdict.largest_residual, self.verdict.tol
        return (
            f"none of the {self.n_samples} samples is further from the cone of the"
            f" {self.verdict.n_rays} components than {far:.3g} of its length (tol = {tol:.3g})."
        )


def verify(
    folder: str | os.PathLike[str], data: Any = None, tol: float | None = None
) -> Verification:
    """Check a folder written by `save` against the data, without any solver.

    The data is read again and prepared as recorded; every feature must have the recorded values,
    the labels must be those of A, and the certificate of the cone must hold for the features.

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
    facts = run_facts(path)
    arrays = run_arrays(path)
    cone = _cone_of(path)
    if facts["kind"] == "unmix":
        return _verify_unmixing(path, facts, arrays, cone, data, tol)
    _check_folder(path, facts, arrays, cone)
    source = _source(path, facts, data)
    read = read_table(
        source, features_in=facts["data"]["features_in"], **same_layout(source, facts["data"])
    )
    table = prepare(read, **facts["preparation"])
    read = table.raw or table
    _check_shape(read, facts)
    _check_values(read, arrays)
    same_bytes = read.sha256 == facts["data"]["sha256"]
    notes = (
        []
        if same_bytes or not read.sha256
        else ["the bytes of the data file changed, but no value did"]
    )
    if (feature_hashes(table.X) != arrays["feature_hashes"]).any():
        notes.append(
            "the preparation that run.json names gives other numbers here than it gave in the run;"
            " the proof holds for these"
        )
    try:
        verdict = cone.verify(points(table.X), tol)
    except CertificateError as error:
        raise CertificateError(_named(str(error), read.features)) from error
    return Verification(
        str(folder),
        read.source,
        read.n_samples,
        read.n_features,
        verdict,
        same_bytes,
        tuple(notes),
        facts["kind"],
    )


def _cone_of(path: Path) -> Cone:
    """The cone of certificate.npz; its claims are not checked."""
    if not (path / CERTIFICATE).is_file():
        raise RunFolderError(f"{str(path)!r} has no {CERTIFICATE}; it is incomplete.")
    return Cone.load(path / CERTIFICATE)


def _verify_unmixing(
    path: Path,
    facts: dict[str, Any],
    arrays: dict[str, AnyArray],
    cone: Cone,
    data: Any,
    tol: float | None,
) -> Verification:
    """A run of `unmix`: the files agree, the data has the recorded values, and the certificate
    holds for components and samples."""
    check_unmixing(path, facts, arrays, cone)
    listed = csv_rows(path / ENDMEMBERS, ["feature"])
    values = np.array([row[-cone.n_rays :] for row in listed], dtype=object)
    expected = np.array(
        [[repr(float(value)) for value in column] for column in arrays["components"].T],
        dtype=object,
    )
    if (
        [row[0] for row in listed] != arrays["feature_names"].tolist()
        or values.shape != expected.shape
        or (values != expected).any()
    ):
        raise CertificateError(
            f"{ENDMEMBERS} does not list the components of {FACTORS}, with the names of the"
            " features."
        )
    source, settings = _source(path, facts, data), facts["preparation"]
    layout = {"features_in": facts["data"]["features_in"], **same_layout(source, facts["data"])}
    shape = tuple(settings["shape"]) if settings["shape"] is not None else None
    read = read_spectra(
        source,
        shape=shape,
        bands=settings["bands"],
        clip=settings["clip"],
        variable=settings["variable"],
        **layout,
    ).table
    _check_shape(read, facts)
    _check_values(read, arrays)
    same_bytes = read.sha256 == facts["data"]["sha256"]
    notes = () if same_bytes else ("the bytes of the data file changed, but no value did",)
    verdict = cone.verify(unmixed_points(read.X, arrays, facts), tol)
    return Verification(
        str(path),
        read.source,
        read.n_samples,
        read.n_features,
        verdict,
        same_bytes,
        notes,
        facts["kind"],
    )


def _check_folder(
    path: Path, facts: dict[str, Any], arrays: dict[str, AnyArray], cone: Cone
) -> None:
    """The files of the folder agree with each other."""
    n, m = facts["data"]["n_samples"], facts["data"]["n_features"]
    needed: dict[str, tuple[str, tuple[int, ...]]] = {
        "sample_names": ("U", (n,)),
        "feature_names": ("U", (m,)),
    }
    needed |= {
        "feature_hashes": ("u", (m,)),
        "data_hashes": ("u", (m,)),
        "ray_indices": ("i", (cone.n_rays,)),
    }
    if facts["kind"] == "cluster":
        r = arrays["A"].shape[1] if "A" in arrays and arrays["A"].ndim == 2 else 0
        needed |= {"A": ("f", (n, r)), "label_weights": ("f", (r,))}
    for name, (kind, shape) in needed.items():
        if name not in arrays or arrays[name].shape != shape or arrays[name].dtype.kind != kind:
            raise RunFolderError(
                f"{FACTORS} in {str(path)!r} has no {name!r} of shape {shape}; it is damaged or of"
                " another run."
            )
    if (arrays["ray_indices"] != cone.ray_indices).any():
        raise CertificateError(
            f"{FACTORS} and {CERTIFICATE} name different rays; they are not of the same run."
        )
    names = arrays["feature_names"][cone.ray_indices] if cone.n_points == m else None
    if cone.ray_names is not None and names is not None and (cone.ray_names != names).any():
        raise CertificateError(
            f"{CERTIFICATE} gives the rays other names than {FACTORS} gives the features."
        )
    _check_claims(facts, cone)
    listed = [row[: len(RAY_COLUMNS)] for row in csv_rows(path / RAYS, RAY_COLUMNS)]
    if listed != [[str(cell) for cell in row] for row in ray_rows(cone, arrays["feature_names"])]:
        raise CertificateError(
            f"{RAYS} does not list the rays of {CERTIFICATE}, with their names, groups and open"
            " points."
        )
    if facts["kind"] == "cluster":
        _check_labels(path, facts, arrays)
    elif (path / LABELS).exists() or "A" in arrays:
        raise CertificateError(
            f"{FACTS} calls this a run of rays, but the folder holds clusters too."
        )


def _check_claims(facts: dict[str, Any], cone: Cone) -> None:
    """The certificate is of the kind, the size and the tolerance that the run claims."""
    claimed = facts.get("results")
    claimed = claimed if isinstance(claimed, dict) else {}
    exact = isinstance(cone.certificate, Certificate)
    found = {
        "exact": exact,
        "n_open": len(cone.open_points),
        "n_rays": cone.n_rays,
        "tol": cone.tol,
        "n_zero_features": len(cone.zero_points) if exact else None,
        "largest_residual": None if exact else cone.tol,
    } | {size: facts["data"][size] for size in ("n_samples", "n_features")}
    if cone.n_points != found["n_features"]:
        raise CertificateError(
            f"{CERTIFICATE} is about {cone.n_points} features, but the run has"
            f" {found['n_features']}."
        )
    for name, value in found.items():
        if claimed.get(name) != value:
            raise CertificateError(
                f"{FACTS} claims {name} = {claimed.get(name)!r}, but {CERTIFICATE} has {value!r}."
            )


def _check_labels(path: Path, facts: dict[str, Any], arrays: dict[str, AnyArray]) -> None:
    rows = csv_rows(path / LABELS, ["sample", "cluster"])
    names = arrays["sample_names"]
    if len(rows) != len(names):
        raise CertificateError(f"{LABELS} has {len(rows)} samples where the run has {len(names)}.")
    if not arrays["A"].size:
        raise RunFolderError(f"A in {FACTORS} holds no numbers; it is damaged.")
    labels = labels_of(arrays)
    sizes = cluster_sizes(labels, arrays["A"].shape[1]).tolist()
    if facts["results"].get("cluster_sizes") != sizes:
        raise CertificateError(
            f"{FACTS} claims clusters of {facts['results'].get('cluster_sizes')} samples, but A in"
            f" {FACTORS} has {sizes}."
        )
    for row, name, label in zip(rows, names, labels, strict=True):
        if row[0] != str(name):
            raise CertificateError(
                f"{LABELS} names the sample {row[0]!r} where the run has {str(name)!r}."
            )
        if row[1] != str(label):
            raise CertificateError(
                f"{LABELS} puts the sample {str(name)!r} into cluster {row[1]}, but A in {FACTORS}"
                f" into {label}."
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
        f"the data of this run, {str(places[-1])!r}, is not there any more; pass data=... to say"
        " where it is now."
    )


def _check_shape(table: TableFile, facts: dict[str, Any]) -> None:
    n, m = facts["data"]["n_samples"], facts["data"]["n_features"]
    if (table.n_samples, table.n_features) != (n, m):
        raise CertificateError(
            f"the data has {table.n_samples} samples and {table.n_features} features, but the run"
            f" was made from {n} and {m}; it is other data."
        )


def _check_values(table: TableFile, arrays: dict[str, AnyArray]) -> None:
    for names, key, what in (
        (table.features, "feature_names", "feature"),
        (table.samples, "sample_names", "sample"),
    ):
        for i in np.flatnonzero(names != arrays[key])[:1]:
            raise CertificateError(
                f"the {what} {str(arrays[key][i])!r} of the run is called {str(names[i])!r} in the"
                " data."
            )
    changed = np.flatnonzero(feature_hashes(table.X) != arrays["data_hashes"])
    if len(changed):
        more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
        name = str(table.features[changed[0]])
        raise CertificateError(
            f"the feature {name!r}{more} does not have the values that the run was made from; the"
            " data changed."
        )


def _named(message: str, features: AnyArray) -> str:
    """The message of the checker with features by name: "point 3" becomes "feature 'TP53'"."""
    return re.sub(
        r"\bpoint (\d+)", lambda found: f"feature {str(features[int(found[1])])!r}", message
    )
