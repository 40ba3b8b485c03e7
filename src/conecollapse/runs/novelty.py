"""`judge`: samples of one file judged by the trusted samples of another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from conecollapse import estimators
from conecollapse._errors import InvalidInputError
from conecollapse._types import AnyArray, FloatArray, Points, Progress
from conecollapse.io import TableFile, read_table
from conecollapse.io.formats import same_layout
from conecollapse.io.matrix import as_names
from conecollapse.io.reading import read_more
from conecollapse.io.spectra import Spectra, pixel_names, read_spectra
from conecollapse.runs.folder import NOVELTY
from conecollapse.runs.preparing import NORMALIZATIONS
from conecollapse.runs.run import Checked, Run, Stored, feature_hashes, timed
from conecollapse.runs.values import write_csv
from conecollapse.runs.verifying import check_hashes, find_data

if TYPE_CHECKING:
    from conecollapse.estimators import ConeNovelty
    from conecollapse.estimators._fitted import NovelFeature

HEADING = ["sample", "distance", "novel", "features"]
WHERE = ("path", "absolute", "source", "why", "sha256")
NO_FEATURE = -1  # where a sample is told by fewer features than others


@dataclass(frozen=True, eq=False, repr=False)
class NoveltyRun(Run):
    """Samples of a table, judged by trusted ones.

    Attributes
    ----------
    table : TableFile
        The samples that were judged.
    trusted : TableFile
    model : ConeNovelty
        Fitted to the trusted samples.
    distances : (n_samples,) array
    reasons : list of lists of NovelFeature
        Of novel samples; the others have none.
    note : str
        What was done to match the features of the two files.
    notes : tuple of str
        What was taken as heading and names, and what was left out.
    """

    kind: ClassVar[str] = "novelty"
    form: ClassVar[Mapping[str, Any]] = {
        "trusted": {"sha256": str},
        "parameters": {
            "contamination": (float, int, "auto"),
            "locality": (None, float, int),
            "log": bool,
            "n_features": int,
            "features_in": str,
            "header": (None, bool),
            "names": (None, bool),
            "clip": bool,
            "bands": str,
            "variable": (None, str),
        },
    }
    trusted: TableFile
    model: ConeNovelty
    distances: FloatArray
    reasons: list[list[NovelFeature]]
    note: str = ""
    notes: tuple[str, ...] = ()

    @property
    def sources(self) -> dict[str, TableFile]:
        """Both tables."""
        return {"data": self.table, "trusted": self.trusted}

    @property
    def preparation(self) -> dict[str, Any]:
        """All of it is asked for."""
        return {}

    @property
    def is_novel(self) -> AnyArray:
        """Which samples are further away than the threshold."""
        return self.distances > -self.model.offset_

    def facts(self) -> dict[str, Any]:
        """Numbers about all samples."""
        return {
            "n_trusted": self.model.n_trusted_,
            "n_features": self.table.n_features,
            "n_samples": self.table.n_samples,
            "n_novel": int(self.is_novel.sum()),
            "threshold": -self.model.offset_,
            "false_alarms": max(self.model._share, 1 / (len(self.model.distances_) + 1)),
            "locality": self.model.locality,
        }

    def rows(self) -> list[dict[str, Any]]:
        """One for each sample."""
        columns = (self.table.samples, self.distances, self.is_novel, self.reasons)
        return [
            {
                "sample": str(name),
                "distance": float(distance),
                "novel": bool(is_novel),
                "features": [
                    {"name": reason.name, "amount": reason.amount, "share": reason.share}
                    for reason in reasons
                ],
            }
            for name, distance, is_novel, reasons in zip(*columns, strict=True)
        ]

    def arrays(self) -> dict[str, Any]:
        """The distances, and the features by which samples leave the cone, with their amounts."""
        width = max(map(len, self.reasons), default=0)
        columns = np.full((self.table.n_samples, width), NO_FEATURE)
        amounts = np.zeros(columns.shape)
        for i, reasons in enumerate(self.reasons):
            columns[i, : len(reasons)] = [reason.column for reason in reasons]
            amounts[i, : len(reasons)] = [reason.amount for reason in reasons]
        return {
            "trusted_hashes": feature_hashes(self.trusted.X),
            "distances": self.distances,
            "novel": self.is_novel,
            "reason_features": columns,
            "reason_amounts": amounts,
        }

    def write(self, folder: Path, arrays: Mapping[str, AnyArray]) -> None:
        """Write novelty.csv."""
        names = self.trusted.features
        rows = (
            [
                str(sample),
                repr(float(distance)),
                "yes" if is_novel else "no",
                "; ".join(
                    f"{names[j]} {amount:+.6g}"
                    for j, amount in zip(columns, amounts, strict=True)
                    if j != NO_FEATURE
                ),
            ]
            for sample, distance, is_novel, columns, amounts in zip(
                self.table.samples,
                *(arrays[name] for name in ("distances", "novel")),
                *(arrays[name] for name in ("reason_features", "reason_amounts")),
                strict=True,
            )
        )
        write_csv(folder / NOVELTY, HEADING, rows)

    @classmethod
    def read(cls, stored: Stored, source: Any) -> NoveltyRun:
        """The samples judged again, as they were then."""
        said = stored.facts["parameters"]
        trusted = find_data(stored.path, stored.facts["trusted"], None)
        asked = {name: said[name] for name in cls.form["parameters"]}
        return judge(trusted, source, **asked)

    @classmethod
    def verify(cls, stored: Stored, read: NoveltyRun, tol: float | None) -> Checked:  # noqa: ARG003
        """The trusted samples are those of the run; what was judged again is compared."""
        hashes = stored.arrays.get("trusted_hashes", np.zeros(0))
        if len(hashes) == read.trusted.n_features:
            check_hashes(read.trusted, hashes)
        facts = read.facts()
        sentence = (
            f"judged again by the solver, {facts['n_novel']} of the {facts['n_samples']} samples"
            " are"
            f" further than {facts['threshold']:.3g} from the cone of the {facts['n_trusted']}"
            " trusted ones; no cone is claimed."
        )
        unproven = {
            "where the trusted samples were": tuple(f"trusted.{name}" for name in WHERE),
            "what was asked for": ("parameters.clip",),
        }
        run = replace(read, timings=stored.facts["timings"])
        return Checked(run, sentence, None, unproven)


def judge(
    trusted: Any,
    new: Any,
    *,
    contamination: str | float = "auto",
    locality: float | None = None,
    log: bool = False,
    n_features: int = 5,
    features_in: str = "auto",
    header: bool | None = None,
    names: bool | None = None,
    clip: bool = False,
    bands: str = "last",
    variable: str | None = None,
    progress: Progress = None,
) -> NoveltyRun:
    """Judge the samples of ``new`` by the cone of the samples of ``trusted``; both are anything
    that `read_table` or, as a file, `read_spectra` takes.

    Features are matched by their names where both have them, in any order. ``new`` is read in the
    orientation of ``trusted``. With ``locality=None`` it is the default of `ConeNovelty`, and
    ``n_features`` are named for each novel sample.
    """
    reading = {"header": header, "names": names, "clip": clip, "bands": bands}
    reading |= {"variable": variable, "features_in": features_in}
    asked = {"contamination": contamination, "locality": locality, "log": log}
    first = _samples(trusted, None, reading)
    second = _samples(new, first.table, reading)
    known, arrived = first.table, second.table
    X, note = _matched(arrived, known)
    timings: dict[str, float] = {}
    with timed(timings, "novelty", progress):
        given: dict[str, Any] = {} if locality is None else {"locality": locality}
        model = estimators.ConeNovelty(contamination, **given)
        trusted_X = known.X
        if log:
            trusted_X, X = NORMALIZATIONS["log"](trusted_X), NORMALIZATIONS["log"](X)
        model.fit(trusted_X)
        distances = -model.score_samples(X)
        reasons: list[list[NovelFeature]] = [[] for _ in distances]
        which = np.flatnonzero(distances > -model.offset_)
        if len(which):
            explained = model.explain(X[which], n_features, names=known.features)
            for i, found in zip(which, explained, strict=True):
                reasons[i] = found
    said = tuple(
        f"{Path(spectra.table.source).name}: {line}."
        for spectra in (first, second)
        for line in (spectra.table.read_as, *spectra.notes)
        if line
    )
    return NoveltyRun(
        arrived,
        known,
        model,
        distances,
        reasons,
        note,
        said,
        parameters=asked | reading | {"n_features": n_features},
        timings=timings,
    )


def _samples(source: Any, known: TableFile | None, reading: dict[str, Any]) -> Spectra:
    """What ``source`` holds, with a name for each pixel and the wavelengths as names of channels
    without names; read as the ``known`` table was."""
    layout = {name: reading[name] for name in ("header", "names")}
    is_file = isinstance(source, (str, PathLike))
    if known is not None and known.layout is not None and is_file:
        same = same_layout(source, {"header": known.layout.header, "names": known.layout.names})
        layout = {
            name: same.get(name) if asked is None else asked for name, asked in layout.items()
        }
    if not is_file:
        if known is not None:
            return Spectra(read_more(source, known, **layout), None, 0)
        return Spectra(read_table(source, features_in=reading["features_in"], **layout), None, 0)
    asked = reading if known is None else reading | {"features_in": known.features_in}
    found = read_spectra(source, single=known is not None, **(asked | layout))
    table = found.table
    if found.shape is not None and table.sample_names is None:
        table = replace(table, sample_names=pixel_names(found.shape))
    if table.wavelengths is not None and table.feature_names is None:
        table = replace(table, feature_names=as_names(table.wavelengths.tolist(), "bands"))
    return replace(found, table=table)


def _matched(arrived: TableFile, known: TableFile) -> tuple[Points, str]:
    """The new samples with the features in the order of the trusted ones, and a note if that is
    another order."""
    if arrived.feature_names is None or known.feature_names is None:
        if arrived.n_features != known.n_features:
            raise InvalidInputError(
                f"the new samples have {arrived.n_features} features, but the trusted ones"
                f" {known.n_features}; both need the same features in the same order."
            )
        return arrived.X, ""
    have, want = (
        {str(name): j for j, name in enumerate(table.features)} for table in (arrived, known)
    )
    for name in want:
        if name not in have:
            raise InvalidInputError(
                f"the trusted samples have the feature {name!r}, which the new ones lack; both need"
                " the same features."
            )
    for name in have:
        if name not in want:
            raise InvalidInputError(
                f"the new samples have the feature {name!r}, which the trusted ones lack: nothing"
                " is known about it; leave it out, or add it to the trusted samples."
            )
    order = np.array([have[str(name)] for name in known.feature_names])
    if (order == np.arange(len(order))).all():
        return arrived.X, ""
    return arrived.X[:, order], " Features were matched by their names."
