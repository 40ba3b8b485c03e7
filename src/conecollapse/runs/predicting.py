"""`predict`: where new samples belong, by the model that a run kept."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from conecollapse._errors import InvalidInputError, RunFolderError, argument, first_of, quoted
from conecollapse._types import AnyArray, Points
from conecollapse.io import TableFile, read_table
from conecollapse.io.formats import same_layout
from conecollapse.io.spectra import Spectra, as_images, pixel_names, read_spectra
from conecollapse.runs.gene_programs import as_shares
from conecollapse.runs.model import read_model
from conecollapse.runs.preparing import prepare_new
from conecollapse.runs.run import Stored
from conecollapse.runs.values import write_csv
from conecollapse.runs.verifying import read_run
from conecollapse.tables import as_table

LISTED = 5  # features that a message names


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a model says of new samples.

    Attributes
    ----------
    kind : str
        Of the run: "cluster", "programs" or "unmix".
    table : TableFile
        The new samples, as they were read.
    columns : mapping of name to (n_samples,) array
        ``cluster``, and ``label`` where labels guided; or the share of each program; or the
        abundance of each component.
    notes : list of str
        Features that were not used.
    spectra : Spectra or None
        Of an image, whose pixels are the samples.
    """

    kind: str
    table: TableFile
    columns: Mapping[str, AnyArray]
    notes: list[str]
    spectra: Spectra | None = None

    def write(self, path: Path, kind: str = ".csv") -> None:
        """Write a ``.csv`` file, or the values alone as ``.npy``: of an image as maps."""
        if kind == ".npy":
            values = np.column_stack([*self.columns.values()])
            if self.spectra is not None and self.spectra.shape is not None:
                values = as_images(values, self.spectra.shape, self.spectra.left_out)
            with open(path, "wb") as file:
                np.save(file, values)
            return
        columns = [self.table.samples.tolist(), *(one.tolist() for one in self.columns.values())]
        write_csv(path, ["sample", *self.columns], zip(*columns, strict=True))


def predict(folder: str | os.PathLike[str], new: Any) -> Prediction:
    """Say where the samples of ``new`` belong, by the model in a folder of results.

    Parameters
    ----------
    folder : path
        Of a run of `cluster`, `programs` or `unmix` that was saved with its model.
    new : anything that `read_table` takes, or for `unmix` a cube
        Read as the data of the run was. Features are matched by name where both have names;
        further ones are not used.

    Returns
    -------
    Prediction
    """
    stored = read_run(Path(folder))
    kind, said = stored.facts["kind"], stored.facts.get("model")
    if said is None:
        has = "was saved without its model" if kind in KINDS else f"is of {kind!r}, which has none"
        raise RunFolderError(
            f"the run in {str(folder)!r} {has}; predict needs a run of {', '.join(KINDS)} that"
            f" keeps its model ({argument('model', True)})."
        )
    kept = read_model(stored.path, said)
    spectra, table = _read(stored, new)
    X, notes = _prepared(table, stored, kept)
    codes = kept["fitted"].encode(as_table(X))
    return Prediction(kind, table, KINDS[kind](kept, codes, stored), notes, spectra)


def _read(stored: Stored, new: Any) -> tuple[Spectra | None, TableFile]:
    """The new samples, read as the data of the run was."""
    said, is_file = stored.facts["data"], isinstance(new, (str, os.PathLike))
    layout = same_layout(new, said)
    if said["words"] is not None:
        words = said["words"] | {"vocabulary": stored.arrays["feature_names"], "stop_words": None}
        layout = {name: layout[name] for name in ("text_column",) if name in layout}
        return None, read_table(new, words=words, **layout)
    if not is_file or Path(new).is_dir():
        return None, read_table(new, features_in=said["features_in"], **layout)
    if stored.facts["kind"] == "unmix":
        asked = stored.facts["preparation"]
        layout |= {name: asked[name] for name in ("clip", "bands", "variable")}
    spectra = read_spectra(new, features_in=said["features_in"], single=True, **layout)
    table = spectra.table
    if spectra.shape is not None and table.sample_names is None:
        table = replace(table, sample_names=pixel_names(spectra.shape))
    return spectra, table


def _prepared(table: TableFile, stored: Stored, kept: Any) -> tuple[Points, list[str]]:
    """The new samples with the features of the run, prepared as its data was."""
    asked, constants = stored.facts["preparation"], kept["preparation"]
    settings = {name: asked[name] for name in ("normalize", "tfidf") if name in asked}
    # highly variable features were chosen after normalization
    is_late = asked.get("features") is not None
    if is_late and any(np.ndim(one) for one in constants.values()):
        raise RunFolderError(
            "the run scaled every feature before it chose some, so it cannot predict; make it again"
            f" with {argument('all_features', True)}."
        )
    X = prepare_new(table.X, constants, **settings) if is_late else table.X
    order, notes = _matched(table, stored.arrays["feature_names"])
    X = X if order is None else X[:, order]
    return X if is_late else prepare_new(X, constants, **settings), notes


def _matched(table: TableFile, wanted: AnyArray) -> tuple[AnyArray | None, list[str]]:
    """Where the features of the run stand in the new table; None if all are in their places."""
    unnamed = [f"x{j}" for j in range(len(wanted))]
    if table.feature_names is None or wanted.tolist() == unnamed:
        if table.n_features != len(wanted):
            raise InvalidInputError(
                f"the new samples have {table.n_features} features, but the run {len(wanted)}; both"
                " need the same features in the same order, or names."
            )
        return None, []
    place = {str(name): j for j, name in enumerate(table.feature_names)}
    missing = [str(name) for name in wanted if str(name) not in place]
    if missing:
        named = first_of([quoted(name) for name in missing], LISTED)
        raise InvalidInputError(
            f"the new samples lack {len(missing)} of the {len(wanted)} features of the run"
            f" ({named}); add them, with zeros where nothing was counted."
        )
    order = np.array([place[str(name)] for name in wanted])
    more = len(place) - len(order)
    note = f"{more} features that the run does not have are not used."
    return order, [note] if more else []


def _clusters(kept: Any, codes: AnyArray, stored: Stored) -> dict[str, AnyArray]:  # noqa: ARG001
    from conecollapse.estimators._fitted import labels_of

    fitted = kept["fitted"]
    labels = labels_of(codes, fitted.label_weights)
    return {"cluster": labels} | ({} if fitted.names is None else {"label": fitted.name(labels)})


def _usages(kept: Any, codes: AnyArray, stored: Stored) -> dict[str, AnyArray]:  # noqa: ARG001
    usages = as_shares(codes * np.asarray(kept["fitted"].components, np.float64).sum(axis=1))
    return {f"program_{k}": usage for k, usage in enumerate(usages.T)}


def _abundances(kept: Any, codes: AnyArray, stored: Stored) -> dict[str, AnyArray]:
    from conecollapse.factorization.mixtures.starts import shares

    if stored.facts["parameters"]["sum_to_one"]:
        codes = shares(codes, kept["fitted"].components / stored.arrays["feature_noise"])
    return {f"component {k}": amounts for k, amounts in enumerate(np.asarray(codes).T)}


KINDS = {"cluster": _clusters, "programs": _usages, "unmix": _abundances}
