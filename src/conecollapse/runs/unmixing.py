"""`unmix`: from spectra to pure components and abundances, and the folder of results."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from conecollapse import estimators
from conecollapse._errors import InvalidInputError
from conecollapse._linalg import as_dense, row_lengths, scaled_columns, stack_rows
from conecollapse._types import AnyArray, FloatArray, Points, Progress
from conecollapse.certificates import relative_error, weights_of_shares
from conecollapse.io import TableFile
from conecollapse.io.envi import find_envi, place_on_earth, write_envi
from conecollapse.io.spectra import MASKED, MISSING, Spectra, as_images
from conecollapse.runs.asked import check_components
from conecollapse.runs.facts import head, write_facts
from conecollapse.runs.folder import (
    ABUNDANCES,
    CERTIFICATE,
    ENDMEMBERS,
    FACTORS,
    MAPS,
    MAPS_DATA,
    MAPS_HEADER,
    MAPS_MAT,
    REPORT,
    check_folder,
    staged,
)
from conecollapse.runs.hashes import feature_hashes
from conecollapse.runs.plain import plain
from conecollapse.runs.run import Interrupted
from conecollapse.runs.writing import write_csv, wrote_page
from conecollapse.tables import as_table

METHODS = ("min-volume", "samples")
CHUNK = 4096  # samples that are made dense at a time


@dataclass(frozen=True, eq=False, repr=False)
class UnmixRun:
    """Pure components and abundances of the samples of a table.

    Attributes
    ----------
    table : TableFile
    model : MinVolumeNMF or SeparableNMF
        Fitted.
    shape : (height, width) or None
        Of the image whose pixels are the samples.
    wavelengths : (n_features,) array or None
    n_clipped : int
        Negative values that were set to zero when the table was read.
    bands : str
        Where the bands of a cube were.
    variable : str or None
        The array of a ``.mat`` or ``.npz`` file that was asked for.
    left_out : array or None
        For each pixel of the image 0, or why it is no sample (see `Spectra`).
    parameters, timings : mapping
    kind : "unmix"
    rank_reason : str or None
        Why there are so many components, where their number was not given.
    """

    table: TableFile
    model: Any
    shape: tuple[int, int] | None = None
    wavelengths: AnyArray | None = None
    n_clipped: int = 0
    bands: str = "last"
    variable: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    timings: Mapping[str, float] = field(default_factory=dict)
    kind: str = "unmix"
    left_out: AnyArray | None = None
    rank_reason: str | None = None

    @cached_property
    def samples(self) -> Points:
        """The samples in the unit of the model, in float64."""
        return self.table.X.astype(np.float64) / self.model._fitted.unit

    @cached_property
    def points(self) -> Points:
        """The points of the certificate: the samples, after the components where these are no
        samples."""
        if hasattr(self.model, "ray_indices_"):
            return self.samples
        return stack_rows(self.model._fitted.components, self.samples, like=self.samples)

    @cached_property
    def nearest(self) -> FloatArray:
        """The weights of the nearest mixture of each of the points, (n_points, r), as the
        certificate has them."""
        weights = self.model.cone_.certificate.coefficients.toarray()
        return np.asarray(
            weights * row_lengths(self.points)[:, None] / row_lengths(self.model._fitted.components)
        )

    @cached_property
    def distances(self) -> FloatArray:
        """The distance of each sample from that mixture, as a share of the sample's length."""
        lengths, nearest = row_lengths(self.samples), self.nearest[-self.table.n_samples :]
        parts = (slice(a, a + CHUNK) for a in range(0, len(lengths), CHUNK))
        off = [
            row_lengths(
                as_dense(self.samples[rows]) - nearest[rows] @ self.model._fitted.components
            )
            for rows in parts
        ]
        return np.concatenate(off) / np.where(lengths > 0, lengths, 1.0)

    @property
    def weights(self) -> FloatArray:
        """The abundances as weights of the components, also where they are given as shares."""
        W = np.asarray(self.model.embedding_, np.float64)
        noise = self.model.feature_noise_
        if not self.parameters["sum_to_one"]:
            return W
        return weights_of_shares(
            scaled_columns(self.samples, 1 / noise), self.model._fitted.components / noise, W
        )

    @property
    def maps(self) -> FloatArray | None:
        """Abundances, then distances, as images (height, width, r + 1); None where the samples are
        no image."""
        if self.shape is None:
            return None
        values = np.column_stack([self.model.embedding_, self.distances])
        return as_images(values, self.shape, self.left_out)

    @property
    def unit_of_distance(self) -> str:
        """What the certificate's distances are shares of."""
        return (
            "of its length"
            if self.model.cone_.certificate.weighting == "unit"
            else "of the longest sample's length"
        )

    def __repr__(self) -> str:
        return (
            f"UnmixRun({len(self.model.components_)} components of {self.table.n_samples} samples)"
        )


def unmix(
    spectra: Spectra,
    n_components: int | Literal["auto"],
    *,
    method: str = "min-volume",
    sum_to_one: bool = False,
    outliers: float | str = "auto",
    wavelengths: AnyArray | None = None,
    progress: Progress = None,
) -> UnmixRun:
    """Find the pure components of mixtures, and how much of each is in every sample.

    Parameters
    ----------
    spectra : Spectra
        From `conecollapse.io.spectra.read_spectra`.
    n_components : int or "auto"
        "auto" chooses among 2 to 10 by `select_rank` with the method "mixture".
    method : {"min-volume", "samples"}
        `MinVolumeNMF`, which needs no pure samples, or `SeparableNMF`, which chooses the purest
        samples as components.
    sum_to_one : bool
        Whether abundances are shares of a sample.
    outliers : float or "auto"
        Share of the samples to leave out because they fit no mixture.
    wavelengths : (n_features,) array, optional
        Of the features, for the results; those of the file by default.
    """
    table = spectra.table
    if method not in METHODS:
        raise InvalidInputError(f"`method` must be one of {', '.join(METHODS)}; got {method!r}.")
    ranks = check_components(n_components, table)
    asked = {
        "n_components": n_components,
        "method": method,
        "sum_to_one": sum_to_one,
        "outliers": outliers,
    }
    if progress is not None:
        progress("unmixing", 0, 1)
    start = time.perf_counter()
    rank = estimators.select_rank(table.X, ranks, "mixture") if n_components == "auto" else None
    model = estimator_of(asked | {"n_components": ranks[0] if rank is None else rank.rank})
    model.fit(table)
    timings = {"unmixing": time.perf_counter() - start}
    lengths = spectra.wavelengths if wavelengths is None else wavelengths
    return UnmixRun(
        table,
        model,
        spectra.shape,
        lengths,
        spectra.n_clipped,
        spectra.bands,
        spectra.variable,
        asked,
        timings,
        left_out=spectra.left_out,
        rank_reason=None if rank is None else rank.reason,
    )


def estimator_of(asked: Mapping[str, Any]) -> Any:
    """The estimator, not fitted, of a run's ``parameters``."""
    # imported here: errors do not wait for them
    kind = estimators.MinVolumeNMF if asked["method"] == "min-volume" else estimators.SeparableNMF
    return kind(asked["n_components"], sum_to_one=asked["sum_to_one"], outliers=asked["outliers"])


def unmix_results(run: UnmixRun) -> dict[str, Any]:
    """What was found, in numbers."""
    model, table, far = run.model, as_table(run.table.X), run.distances
    return {
        "n_samples": run.table.n_samples,
        "n_features": run.table.n_features,
        "n_components": len(model.components_),
        "rank_reason": run.rank_reason,
        "relative_error": relative_error(run.samples, run.weights, model._fitted.components),
        "largest_residual": float(far.max()),
        "median_residual": float(np.median(far)),
        "cone_residual": model.cone_.tol,
        "mean_abundances": model.embedding_.mean(axis=0, dtype=np.float64),
        "n_outliers": int(np.sum(model.outliers_)),
        "n_clipped": run.n_clipped,
        "n_missing": int(np.count_nonzero(run.left_out == MISSING)),
        "n_masked": int(np.count_nonzero(run.left_out == MASKED)),
        "n_empty_samples": int((~table.filled).sum()),
        "n_empty_features": int((~table.filled_columns).sum()),
        "shape": run.shape,
    }


def save_unmixing(
    run: UnmixRun, folder: str | os.PathLike[str], write_report: Any = None, *, force: bool = False
) -> Path:
    """Write ``run`` to ``folder``, all of it or nothing: see `conecollapse.runs.folder`."""
    path = check_folder(folder, force=force)
    with staged(folder, force=force) as staging:
        arrays = factors(run)
        np.savez(staging / FACTORS, **arrays)
        write_copies(staging, run, arrays)
        run.model.cone_.save(staging / CERTIFICATE)
        interrupted = not wrote_page(staging / REPORT, run, write_report)
        write_facts(staging, unmix_facts(run, path))
    if interrupted:
        raise Interrupted(
            f"interrupted; the results are in {str(folder)!r}, only the report is missing."
        )
    return path


def unmix_facts(run: UnmixRun, folder: Path) -> dict[str, Any]:
    """The content of run.json for a run that is saved to ``folder``."""
    model = run.model.get_params()
    facts: dict[str, Any] = plain(
        {
            **head(run.kind, run.table, folder),
            "preparation": {
                "clip": run.n_clipped > 0,
                "shape": run.shape,
                "bands": run.bands,
                "variable": run.variable,
            },
            "parameters": dict(run.parameters),
            "model": {name: value for name, value in model.items() if not callable(value)},
            "timings": dict(run.timings),
            "results": unmix_results(run),
        }
    )
    return facts


def component_names(run: UnmixRun) -> list[str]:
    """ "component 0" and so on, or the name of the sample that was chosen."""
    chosen = getattr(run.model, "ray_indices_", None)
    if chosen is None or run.table.sample_names is None:
        return [f"component {k}" for k in range(len(run.model.components_))]
    return [f"component {k}: {run.table.samples[i]}" for k, i in enumerate(chosen)]


def write_copies(folder: Path, run: UnmixRun, arrays: Mapping[str, AnyArray]) -> None:
    """Write the components, and the abundances as maps or as a table, from the ``arrays`` of
    factors.npz."""
    lengths = {"wavelength": arrays["wavelengths"].tolist()} if "wavelengths" in arrays else {}
    columns = [run.table.features.tolist(), *lengths.values(), *arrays["components"].tolist()]
    heading = ["feature", *lengths, *component_names(run)]
    write_csv(folder / ENDMEMBERS, heading, zip(*columns, strict=True))
    values = np.column_stack([arrays["abundances"], arrays["residuals"]])
    names = [*component_names(run), "distance"]
    if run.shape is not None:
        _write_maps(folder, run.table.source, as_images(values, run.shape, run.left_out), names)
        return
    rows = zip(run.table.samples.tolist(), values.tolist(), strict=True)
    write_csv(folder / ABUNDANCES, ["sample", *names], ([name, *row] for name, row in rows))


def _write_maps(folder: Path, source: str, maps: FloatArray, names: list[str]) -> None:
    """The maps as NumPy has them, and as the program that wrote the cube does."""
    np.save(folder / MAPS, maps)
    kind = Path(source).suffix.lower()
    if kind == ".mat":
        from scipy.io import savemat

        savemat(folder / MAPS_MAT, {"maps": maps, "names": np.array(names, dtype=object)})
    elif not Path(source).is_dir() and (envi := find_envi(Path(source))):
        place = place_on_earth(envi[0])
        write_envi(folder / MAPS_HEADER, folder / MAPS_DATA, maps, names, place)


def factors(run: UnmixRun) -> dict[str, Any]:
    """The arrays of factors.npz."""
    return {
        "sample_names": run.table.samples,
        "feature_names": run.table.features,
        "data_hashes": feature_hashes(run.table.X),
        "components": run.model.components_,
        # the components as the certificate has them, in the data's unit below
        "rays": run.model._fitted.components,
        "unit": np.float64(run.model._fitted.unit),
        "abundances": run.model.embedding_,
        "residuals": run.distances,
        "outliers": np.asarray(run.model.outliers_),
        "feature_noise": run.model.feature_noise_,
        **({} if run.wavelengths is None else {"wavelengths": run.wavelengths}),
        **({} if run.left_out is None else {"left_out": run.left_out}),
    }
