"""`unmix`: from spectra to pure components and abundances, the folder of results, and its
verification."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from conecollapse import estimators
from conecollapse._errors import CertificateError, InvalidInputError, RunFolderError
from conecollapse._types import AnyArray, FloatArray, Points, Progress
from conecollapse.geometry.cone import Cone
from conecollapse.io import TableFile
from conecollapse.io.cube import Spectra
from conecollapse.io.envi import files_of_envi, write_envi
from conecollapse.io.plain import plain
from conecollapse.runs.asked import check_components
from conecollapse.runs.facts import head
from conecollapse.runs.folder import (
    ABUNDANCES,
    CERTIFICATE,
    ENDMEMBERS,
    FACTORS,
    FACTS,
    MAPS,
    MAPS_DATA,
    MAPS_HEADER,
    MAPS_MAT,
    REPORT,
    check_folder,
    staged,
)
from conecollapse.runs.hashes import feature_hashes
from conecollapse.runs.run import Interrupted
from conecollapse.runs.writing import write_csv, wrote_page
from conecollapse.tables import as_table

METHODS = ("min-volume", "samples")


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
        The array of a ``.mat`` file that was asked for.
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
    rank_reason: str | None = None

    @property
    def maps(self) -> FloatArray | None:
        """Abundances, then distances, as images (height, width, r + 1); None where the samples are
        no image."""
        if self.shape is None:
            return None
        values = np.column_stack([self.model.embedding_, self.model.residuals_])
        return values.reshape(*self.shape, -1)

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
        From `conecollapse.io.cube.read_spectra`.
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
    # imported here: errors do not wait for them
    kind = estimators.MinVolumeNMF if method == "min-volume" else estimators.SeparableNMF
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
    model = kind(ranks[0] if rank is None else rank.rank, sum_to_one=sum_to_one, outliers=outliers)
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
        rank_reason=None if rank is None else rank.reason,
    )


def unmix_results(run: UnmixRun) -> dict[str, Any]:
    """What was found, in numbers."""
    model, table = run.model, as_table(run.table.X)
    return {
        "n_samples": run.table.n_samples,
        "n_features": run.table.n_features,
        "n_components": len(model.components_),
        "rank_reason": run.rank_reason,
        "relative_error": model.relative_err_,
        "largest_residual": float(model.residuals_.max()),
        "median_residual": float(np.median(model.residuals_)),
        "cone_residual": model.cone_.tol,
        "mean_abundances": model.embedding_.mean(axis=0),
        "n_outliers": int(np.sum(model.outliers_)),
        "n_clipped": run.n_clipped,
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
        _write_endmembers(staging / ENDMEMBERS, run)
        if run.maps is None:
            _write_abundances(staging / ABUNDANCES, run)
        else:
            _write_maps(staging, run)
        np.savez(staging / FACTORS, **_factors(run))
        run.model.cone_.save(staging / CERTIFICATE)
        facts = head(run.kind, run.table, path) | {
            "preparation": {
                "clip": run.n_clipped > 0,
                "shape": run.shape,
                "bands": run.bands,
                "variable": run.variable,
            },
            "parameters": dict(run.parameters),
            "model": {
                name: value for name, value in run.model.get_params().items() if not callable(value)
            },
            "timings": dict(run.timings),
            "results": unmix_results(run),
        }
        (staging / FACTS).write_text(
            json.dumps(plain(facts), indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )
        interrupted = not wrote_page(staging / REPORT, run, write_report)
    if interrupted:
        raise Interrupted(
            f"interrupted; the results are in {str(folder)!r}, only the report is missing."
        )
    return path


def component_names(run: UnmixRun) -> list[str]:
    """ "component 0" and so on, or the name of the sample that was chosen."""
    chosen = getattr(run.model, "ray_indices_", None)
    if chosen is None or run.table.sample_names is None:
        return [f"component {k}" for k in range(len(run.model.components_))]
    return [f"component {k}: {run.table.samples[i]}" for k, i in enumerate(chosen)]


def _write_endmembers(path: Path, run: UnmixRun) -> None:
    heading = [
        "feature",
        *([] if run.wavelengths is None else ["wavelength"]),
        *component_names(run),
    ]
    columns: list[Any] = [run.table.features.tolist()]
    columns += [] if run.wavelengths is None else [[repr(float(w)) for w in run.wavelengths]]
    columns += [[repr(float(v)) for v in row] for row in run.model.components_]
    write_csv(path, heading, zip(*columns, strict=True))


def _write_maps(folder: Path, run: UnmixRun) -> None:
    """The maps as NumPy has them, and as the program that wrote the cube does."""
    assert run.maps is not None
    np.save(folder / MAPS, run.maps)
    kind, names = Path(run.table.source).suffix.lower(), [*component_names(run), "distance"]
    if kind == ".mat":
        from scipy.io import savemat

        savemat(folder / MAPS_MAT, {"maps": run.maps, "names": np.array(names, dtype=object)})
    elif kind not in (".npy", ".h5ad") and files_of_envi(Path(run.table.source)) is not None:
        write_envi(folder / MAPS_HEADER, folder / MAPS_DATA, run.maps, names)


def _write_abundances(path: Path, run: UnmixRun) -> None:
    heading = ["sample", *component_names(run), "distance"]
    values = np.column_stack([run.model.embedding_, run.model.residuals_])
    rows = (
        [str(name), *(repr(float(v)) for v in row)]
        for name, row in zip(run.table.samples, values, strict=True)
    )
    write_csv(path, heading, rows)


def _factors(run: UnmixRun) -> dict[str, Any]:
    return {
        "sample_names": run.table.samples,
        "feature_names": run.table.features,
        "data_hashes": feature_hashes(run.table.X),
        "components": run.model.components_,
        # the components as the certificate has them, in the data's unit below
        "rays": run.model._H,
        "unit": np.float64(run.model._unit),
        "abundances": run.model.embedding_,
        "residuals": run.model.residuals_,
        "outliers": np.asarray(run.model.outliers_),
        **({} if run.wavelengths is None else {"wavelengths": run.wavelengths}),
    }


def check_unmixing(
    path: Path, facts: dict[str, Any], arrays: dict[str, AnyArray], cone: Cone
) -> None:
    """The arrays have the shapes that the run and its certificate say, and the certificate claims
    what the run does."""
    n, m, r = facts["data"]["n_samples"], facts["data"]["n_features"], cone.n_rays
    needed = {
        "components": (r, m),
        "rays": (r, m),
        "data_hashes": (m,),
        "feature_names": (m,),
        "sample_names": (n,),
        "unit": (),
    }
    for name, shape in needed.items():
        if name not in arrays or arrays[name].shape != shape:
            raise RunFolderError(
                f"{FACTORS} in {str(path)!r} has no {name!r} of shape {shape}; it is damaged or of"
                " another run."
            )
    claimed = facts["results"] if isinstance(facts.get("results"), dict) else {}
    if claimed.get("cone_residual") != cone.tol or claimed.get("n_components") != r:
        raise CertificateError(
            f"{FACTS} claims {claimed.get('n_components')} components and a distance of"
            f" {claimed.get('cone_residual')}, but {CERTIFICATE} has {r} and {cone.tol}."
        )
    unit = float(arrays["unit"])
    if not (
        unit > 0 and np.allclose(arrays["components"], arrays["rays"] * unit, rtol=1e-6, atol=0)
    ):
        raise CertificateError(
            f"the components in {FACTORS} are not those that {CERTIFICATE} is about."
        )


def unmixed_points(X: Points, arrays: dict[str, AnyArray], facts: dict[str, Any]) -> Points:
    """The points of the certificate: the samples, after the components where these are no
    samples."""
    unit = float(arrays["unit"])
    samples = X.astype(np.float64) / unit
    if facts["parameters"].get("method") == "samples":
        return samples
    rays = arrays["rays"].astype(np.float64)
    return (
        sp.csr_array(sp.vstack([sp.csr_array(rays), samples]))
        if sp.issparse(samples)
        else np.vstack([rays, samples])
    )
