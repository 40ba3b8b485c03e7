"""A run of `unmix`, put together again from the data, its components and abundances, and the
cone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from conecollapse._errors import CertificateError, RunFolderError, quoted
from conecollapse._linalg import as_dense, row_lengths, scaled_columns
from conecollapse._types import FloatArray
from conecollapse.certificates import ApproximateCertificate, Verdict, allowance, departures
from conecollapse.estimators._fitted import Fitted
from conecollapse.estimators._mixture import leave_out, read_feature_noise
from conecollapse.factorization.encoders import ScaledLeastSquares
from conecollapse.io.formats import same_layout
from conecollapse.io.spectra import MASKED, Spectra, read_spectra
from conecollapse.runs.agreement import check_arrays, verify_cone
from conecollapse.runs.folder import CERTIFICATE, FACTORS, FACTS
from conecollapse.runs.reading import Stored
from conecollapse.runs.unmixing import METHODS, UnmixRun, component_names, estimator_of

# of the noise of a feature: that of the smallest noise that is divided by, about 1e-4 of the data,
# after a few subspaces
NOISE_PRECISION = 1e-6


def read_mixtures(stored: Stored, source: Any) -> Spectra:
    """The spectra that the run was made from, read as they were then."""
    said, settings = stored.facts["data"], dict(stored.facts["preparation"])
    shape = settings.pop("shape")
    layout = same_layout(source, said | {"text_column": None})
    layout["features_in"] = said["features_in"]
    shape = None if shape is None else tuple(shape)
    left_out = stored.arrays.get("left_out")
    # which pixels have no data is found again; which were masked was the user's choice
    mask = None if left_out is None else left_out != MASKED
    return read_spectra(source, shape=shape, mask=mask, **settings, **layout)


def rebuild_mixtures(stored: Stored, read: Spectra) -> tuple[UnmixRun, dict[str, Any]]:
    """The run put together from the data, the components, the abundances and the cone; nothing of
    its run.json is taken as it stands."""
    arrays, cone, asked = stored.arrays, stored.cone, stored.facts["parameters"]
    n, m, r = read.table.n_samples, read.table.n_features, cone.n_rays
    sizes = {"components": (r, m), "rays": (r, m), "unit": (), "abundances": (n, r)}
    sizes |= {"feature_noise": (m,), "residuals": (n,)}
    needed = {name: ("f", shape) for name, shape in sizes.items()}
    check_arrays(stored.path, arrays, needed | {"outliers": ("b", (n,))})
    known = {"n_components", "method", "sum_to_one", "outliers"}
    if (
        set(asked) != known
        or asked["method"] not in METHODS
        or asked["n_components"] not in (r, "auto")
    ):
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
    was_auto = asked["n_components"] == "auto"
    model = estimator_of(asked | {"n_components": r})
    unit = float(arrays["unit"])
    if not unit > 0 or math.frexp(unit)[0] != 0.5:
        raise RunFolderError(f"the unit in {FACTORS} is no power of two; it is damaged.")
    H, noise = arrays["rays"].astype(np.float64), arrays["feature_noise"]
    model._fitted = Fitted(H, unit, ScaledLeastSquares(H, noise))
    model.components_, model.embedding_ = arrays["components"], arrays["abundances"]
    model.outliers_, model.feature_noise_ = arrays["outliers"], noise
    model.cone_ = cone
    if is_chosen:
        model.ray_indices_ = cone.ray_indices
    run = UnmixRun(
        read.table,
        model,
        read.shape,
        arrays.get("wavelengths"),
        read.n_clipped,
        read.bands,
        read.variable,
        asked,
        stored.facts["timings"],
        left_out=read.left_out,
        rank_reason=stored.facts["results"].get("rank_reason") if was_auto else None,
    )
    unchecked = {"the choice of the number of components": ("results.rank_reason",)}
    return run, unchecked if was_auto else {}


def prove_mixtures(stored: Stored, run: UnmixRun, tol: float | None) -> Verdict:
    """Components, outliers and noise are those of the data and the cone, and the abundances those
    of the nearest mixtures."""
    _check_search(run)
    samples, model = run.table.samples, run.model
    names = [*(component_names(run) if stored.cone.n_points > len(samples) else []), *samples]
    verdict = verify_cone(stored.cone, run.points, names, "sample", tol)
    H, noise = model._fitted.components, model.feature_noise_
    _check_nearest(departures(run.points, H, run.nearest), allowance(H), names, CERTIFICATE)
    off = departures(scaled_columns(run.samples, 1 / noise), H / noise, run.weights)
    most = allowance(H, model.embedding_.dtype)
    if run.parameters["sum_to_one"]:
        sums, filled = np.sum(model.embedding_, axis=1), row_lengths(run.samples) > 0
        off = np.maximum(off, np.abs(sums - (filled & run.nearest[-len(samples) :].any(axis=1))))
    _check_nearest(off, most, samples, FACTORS)
    return verdict


def _check_search(run: UnmixRun) -> None:
    """The components are those of the certificate; what was left out, and the noise, follow from
    the data."""
    model, samples = run.model, run.samples
    eps = float(np.finfo(model.components_.dtype).eps)
    same = np.allclose(
        model.components_, model._fitted.components * model._fitted.unit, rtol=eps, atol=0
    )
    if run.parameters["method"] == "samples":
        same = same and bool(
            (as_dense(samples[model.ray_indices_]) == model._fitted.components).all()
        )
    if not same or not (model._fitted.components >= 0).all():
        raise CertificateError(
            f"the components in {FACTORS} are not those that {CERTIFICATE} is about."
        )
    filled = row_lengths(samples) > 0
    away = leave_out(samples, filled, model.n_components, model.outliers)
    for i in np.flatnonzero(away != model.outliers_)[:1]:
        raise CertificateError(
            f"'outliers' in {FACTORS} is {bool(model.outliers_[i])} for the sample"
            f" {_name(run, i)}, but the data say {bool(away[i])}."
        )
    noise = read_feature_noise(
        samples[np.flatnonzero(~away)], model.n_components, model.feature_noise
    )
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


def _name(run: UnmixRun, i: int) -> str:
    return quoted(str(run.table.samples[i]))
