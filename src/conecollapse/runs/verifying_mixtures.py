"""`verify` of a run of `unmix`: outliers, noise and distances are computed again from the data, the
components and the certificate; the abundances are checked by the conditions of optimality."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from conecollapse._arrays import load_npy
from conecollapse._errors import CertificateError, InvalidInputError, RunFolderError, quoted
from conecollapse._linalg import as_dense, row_lengths, scaled_columns
from conecollapse._types import AnyArray, FloatArray
from conecollapse.certificates import (
    ApproximateCertificate,
    allowance,
    departures,
)
from conecollapse.certificates.witnesses import EPS
from conecollapse.io.cube import Spectra, read_spectra
from conecollapse.io.envi import write_envi
from conecollapse.io.matlab import read_cube, read_words
from conecollapse.io.reading import same_layout
from conecollapse.runs.agreement import (
    Checked,
    Stored,
    agree_arrays,
    agree_facts,
    agree_table,
    check_arrays,
    verify_cone,
)
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
)
from conecollapse.runs.unmixing import (
    METHODS,
    UnmixRun,
    abundance_table,
    component_names,
    endmember_table,
    estimator_of,
    factors,
    map_names,
    unmix_facts,
)

# of the noise of a feature: that of the smallest noise that is divided by, about 1e-4 of the data,
# after a few subspaces
NOISE_PRECISION = 1e-6
# of a distance that is a share of a length, for each term of the sums
ROUNDOFFS = 8


def read_mixtures(stored: Stored, source: Any) -> Spectra:
    """The spectra that the run was made from, read as they were then."""
    said, settings = stored.facts["data"], dict(stored.facts["preparation"])
    shape = settings.pop("shape")
    layout = same_layout(source, said | {"text_column": None})
    layout["features_in"] = said["features_in"]
    return read_spectra(source, shape=None if shape is None else tuple(shape), **settings, **layout)


def verify_mixtures(stored: Stored, read: Spectra, tol: float | None) -> Checked:
    """Check a run of `unmix`; what was measured, and what was not checked."""
    run = _run(stored, read)
    samples = run.table.samples
    names = [*(component_names(run) if stored.cone.n_points > len(samples) else []), *samples]
    _check_search(run)
    verdict = verify_cone(stored.cone, run.points, names, "sample", tol)
    agree_table(stored.path / ENDMEMBERS, endmember_table(run))
    H, noise, W = run.model._H, run.model.feature_noise_, run.weights
    _check_nearest(departures(run.points, H, run.nearest), allowance(H), names, CERTIFICATE)
    off = departures(scaled_columns(run.samples, 1 / noise), H / noise, W)
    _check_nearest(off, allowance(H, run.model.embedding_.dtype), samples, FACTORS)
    if run.parameters["sum_to_one"]:
        _check_sums(run)
    agree_arrays(FACTORS, stored.arrays, factors(run), rounding=ROUNDOFFS * sum(H.shape) * EPS)
    # copies of them are compared with what factors.npz has, digit by digit
    run.__dict__["distances"] = stored.arrays["residuals"]
    if run.maps is None:
        agree_table(stored.path / ABUNDANCES, abundance_table(run))
    else:
        _check_maps(stored.path, run)
    agree_facts(stored.said, unmix_facts(run, stored.path), stored.unchecked())
    return verdict, {}


def _run(stored: Stored, read: Spectra) -> UnmixRun:
    """The run put together from the data, the components, the abundances and the cone."""
    arrays, cone, asked = stored.arrays, stored.cone, stored.facts["parameters"]
    n, m, r = read.table.n_samples, read.table.n_features, cone.n_rays
    sizes = {"components": (r, m), "rays": (r, m), "unit": (), "abundances": (n, r)}
    sizes |= {"feature_noise": (m,), "residuals": (n,)}
    needed = {name: ("f", shape) for name, shape in sizes.items()}
    check_arrays(stored.path, arrays, needed | {"outliers": ("b", (n,))})
    known = {"n_components", "method", "sum_to_one", "outliers"}
    if set(asked) != known or asked["method"] not in METHODS or asked["n_components"] != r:
        raise CertificateError(
            f"{FACTS} claims the parameters {quoted(asked)}, but {CERTIFICATE} has {r} components."
        )
    is_chosen = asked["method"] == "samples"
    certificate = cone.certificate
    expected = (n if is_chosen else n + r, m)
    is_whole = isinstance(certificate, ApproximateCertificate) and cone.holds_rays
    if (cone.n_points, cone.dim) != expected or not is_whole:
        raise CertificateError(
            f"{CERTIFICATE} is not about the {n} samples and {r} components of the run."
        )
    model = estimator_of(asked)
    model._H, model._unit = arrays["rays"].astype(np.float64), float(arrays["unit"])
    if not model._unit > 0 or math.frexp(model._unit)[0] != 0.5:
        raise RunFolderError(f"the unit in {FACTORS} is no power of two; it is damaged.")
    model.components_, model.embedding_ = arrays["components"], arrays["abundances"]
    model.outliers_, model.feature_noise_ = arrays["outliers"], arrays["feature_noise"]
    model.cone_ = cone
    if is_chosen:
        model.ray_indices_ = cone.ray_indices
    return UnmixRun(
        read.table,
        model,
        read.shape,
        arrays.get("wavelengths"),
        read.n_clipped,
        read.bands,
        read.variable,
        asked,
        stored.timings,
    )


def _check_search(run: UnmixRun) -> None:
    """The components are those of the certificate; what was left out, and the noise, follow from
    the data."""
    model, samples = run.model, run.samples
    eps = float(np.finfo(model.components_.dtype).eps)
    same = np.allclose(model.components_, model._H * model._unit, rtol=eps, atol=0)
    if run.parameters["method"] == "samples":
        same = same and bool((as_dense(samples[model.ray_indices_]) == model._H).all())
    if not same or not (model._H >= 0).all():
        raise CertificateError(
            f"the components in {FACTORS} are not those that {CERTIFICATE} is about."
        )
    filled = row_lengths(samples) > 0
    away = model._left_out(samples, filled)
    for i in np.flatnonzero(away != model.outliers_)[:1]:
        raise CertificateError(
            f"'outliers' in {FACTORS} is {bool(model.outliers_[i])} for the sample"
            f" {_name(run, i)}, but the data say {bool(away[i])}."
        )
    noise = model._feature_sizes(samples[np.flatnonzero(~away)])
    off = np.abs(model.feature_noise_ / noise - 1)
    for j in np.flatnonzero(~(off <= NOISE_PRECISION))[:1]:
        raise CertificateError(
            f"'feature_noise' in {FACTORS} is {model.feature_noise_[j]:.6g} for the feature"
            f" {quoted(str(run.table.features[j]))}, but the data say {noise[j]:.6g}."
        )


def _check_nearest(off: FloatArray, most: float, names: Any, where: str) -> None:
    """No weights are further from the nearest mixture than rounding explains."""
    for i in np.flatnonzero(~(off <= most))[:1]:
        raise CertificateError(
            f"the abundances of {quoted(str(names[i]))} in {where} are not those of the nearest"
            f" mixture of the components: a condition of optimality is off by {off[i]:.3g} of the"
            f" sample's length, where rounding explains {most:.2g}."
        )


def _check_sums(run: UnmixRun) -> None:
    """Shares sum to one, or to zero for a sample of zeros."""
    shares = np.asarray(run.model.embedding_)
    filled: AnyArray = np.asarray(run.nearest[-len(shares) :].any(axis=1))
    off = np.abs(np.sum(shares, axis=1, dtype=np.float64) - filled)
    for i in np.flatnonzero(~(off <= allowance(shares[:1], shares.dtype)))[:1]:
        raise CertificateError(
            f"the shares of the sample {_name(run, i)} in {FACTORS} do not sum to"
            f" {int(filled[i])}, but to {shares[i].sum():.9g}."
        )


def _check_maps(path: Path, run: UnmixRun) -> None:
    """The maps, in each form that the folder has them, are the abundances and the distances."""
    assert run.maps is not None
    names, place = map_names(run), path / MAPS
    try:
        maps = {"maps": load_npy(place)}
    except (InvalidInputError, OSError) as error:
        raise RunFolderError(f"{MAPS} in {str(path)!r} cannot be read ({error}).") from error
    agree_arrays(MAPS, maps, {"maps": run.maps})
    if (path / MAPS_MAT).exists():
        found = {"maps": read_cube(path / MAPS_MAT, "maps")}
        found["names"] = read_words(path / MAPS_MAT, "names")
        agree_arrays(MAPS_MAT, found, {"maps": run.maps, "names": np.array(names)})
    there = [name for name in (MAPS_HEADER, MAPS_DATA) if (path / name).exists()]
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder)
        write_envi(written / MAPS_HEADER, written / MAPS_DATA, run.maps, names)
        for name in there:
            if (path / name).read_bytes() != (written / name).read_bytes():
                raise CertificateError(f"{name} does not hold the maps of {MAPS}.")


def _name(run: UnmixRun, i: int) -> str:
    return quoted(str(run.table.samples[i]))
