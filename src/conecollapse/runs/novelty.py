"""`judge`: samples of one file judged by the trusted samples of another, and the file of
results."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from conecollapse import estimators
from conecollapse._errors import InvalidInputError
from conecollapse._files import whole_file
from conecollapse._types import FloatArray, Points
from conecollapse.io import TableFile, read_table
from conecollapse.io.formats import same_layout
from conecollapse.io.names import as_names
from conecollapse.io.reading import read_more
from conecollapse.io.spectra import Spectra, pixel_names, read_spectra
from conecollapse.runs.places import check_place, writing
from conecollapse.runs.preparing import NORMALIZATIONS
from conecollapse.runs.writing import write_csv

if TYPE_CHECKING:
    from conecollapse.estimators import ConeNovelty
    from conecollapse.estimators._explain import NovelFeature

HEADING = ["sample", "distance", "novel", "features"]
HEADING_LINE = ",".join(HEADING)


@dataclass(frozen=True, eq=False, repr=False)
class Judgement:
    """Samples of a table, judged."""

    model: ConeNovelty
    table: TableFile
    distance: FloatArray
    reasons: list[list[NovelFeature]]  # of novel samples; the others have none
    note: str = ""  # what was done to match the features of the two files
    trusted: str = ""  # where the trusted samples are from
    log: bool = False  # whether log(1 + x) was judged
    notes: tuple[str, ...] = ()  # what was taken as heading and names, and what was left out
    kind: str = "novelty"

    def facts(self) -> dict[str, Any]:
        """Numbers about all samples."""
        return {
            "n_trusted": self.model.n_trusted_,
            "n_features": self.table.n_features,
            "n_samples": self.table.n_samples,
            "n_novel": int((self.distance > -self.model.offset_).sum()),
            "threshold": -self.model.offset_,
            "false_alarms": max(self.model._share, 1 / (len(self.model.distances_) + 1)),
            "locality": self.model.locality,
        }

    def rows(self) -> list[dict[str, Any]]:
        """One for each sample."""
        return [
            {
                "sample": str(name),
                "distance": float(distance),
                "novel": bool(distance > -self.model.offset_),
                "features": [
                    {"name": reason.name, "amount": reason.amount, "share": reason.share}
                    for reason in reasons
                ],
            }
            for name, distance, reasons in zip(
                self.table.samples, self.distance, self.reasons, strict=True
            )
        ]


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
) -> Judgement:
    """Judge the samples of ``new`` by the cone of the samples of ``trusted``; both are anything
    that `read_table` or, as a file, `read_spectra` takes.

    Features are matched by their names where both have them, in any order. ``new`` is read in the
    orientation of ``trusted``. With ``locality=None`` it is the default of `ConeNovelty`.
    """
    reading = {"header": header, "names": names, "clip": clip, "bands": bands}
    reading |= {"variable": variable, "features_in": features_in}
    first = _samples(trusted, None, reading)
    second = _samples(new, first.table, reading)
    known, arrived = first.table, second.table
    X, note = _matched(arrived, known)
    given: dict[str, Any] = {} if locality is None else {"locality": locality}
    # imported here: an error in the files does not wait for it
    model = estimators.ConeNovelty(contamination, **given)
    trusted_X = known.X
    if log:
        trusted_X, X = NORMALIZATIONS["log"](trusted_X), NORMALIZATIONS["log"](X)
    model.fit(trusted_X)
    distance = -model.score_samples(X)
    is_novel = distance > -model.offset_
    reasons: list[list[NovelFeature]] = [[] for _ in distance]
    if is_novel.any():
        which = np.flatnonzero(is_novel)
        for i, found in zip(
            which, model.explain(X[which], n_features, names=known.features), strict=True
        ):
            reasons[i] = found
    said = tuple(
        f"{Path(spectra.table.source).name}: {line}."
        for spectra in (first, second)
        for line in (spectra.table.read_as, *spectra.notes)
        if line
    )
    return Judgement(model, arrived, distance, reasons, note, known.source, log, said)


def _samples(source: Any, known: TableFile | None, reading: dict[str, Any]) -> Spectra:
    """What ``source`` holds, with a name for each pixel and the wavelengths as names of channels
    without names; read as the ``known`` table was."""
    layout = {name: reading[name] for name in ("header", "names")}
    if known is not None and known.layout is not None and isinstance(source, (str, PathLike)):
        same = same_layout(source, {"header": known.layout.header, "names": known.layout.names})
        layout = {
            name: same.get(name) if asked is None else asked for name, asked in layout.items()
        }
    if not isinstance(source, (str, PathLike)):
        if known is not None:
            return Spectra(read_more(source, known, **layout), None, 0)
        return Spectra(read_table(source, features_in=reading["features_in"], **layout), None, 0)
    asked = reading if known is None else reading | {"features_in": known.features_in}
    found = read_spectra(source, single=known is not None, **(asked | layout))
    table = found.table
    if found.shape is not None and table.sample_names is None:
        table = replace(table, sample_names=pixel_names(found.shape))
    if found.wavelengths is not None and table.feature_names is None:
        table = replace(table, feature_names=as_names(found.wavelengths.tolist(), "bands"))
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


def save_judgement(found: Judgement, path: str | os.PathLike[str], *, force: bool = False) -> Path:
    """Write the rows of ``found`` to a ``.csv`` file, whole or not at all."""
    place = check_place(path, HEADING_LINE, force=force)
    rows = (
        [
            row["sample"],
            repr(row["distance"]),
            "yes" if row["novel"] else "no",
            "; ".join(f"{feature['name']} {feature['amount']:+.6g}" for feature in row["features"]),
        ]
        for row in found.rows()
    )
    with writing(place), whole_file(place) as part:
        write_csv(part, HEADING, rows)
    return place
