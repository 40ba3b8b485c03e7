"""`unmix`: from spectra to pure components and abundances."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from conecollapse import estimators
from conecollapse._errors import (
    CertificateError,
    InvalidInputError,
    RunFolderError,
    argument,
    quoted,
)
from conecollapse._linalg import as_dense, row_lengths, scaled_columns, stack_rows
from conecollapse._types import AnyArray, FloatArray, IntArray, Points, Progress
from conecollapse.certificates import (
    ApproximateCertificate,
    allowance,
    departures,
    relative_error,
    weights_of_shares,
)
from conecollapse.io import TableFile
from conecollapse.io.envi import BANDS, find_envi, place_on_earth, write_envi
from conecollapse.io.formats import same_layout
from conecollapse.io.spectra import MASKED, MISSING, Spectra, as_images, read_spectra
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
    SPREAD,
)
from conecollapse.runs.run import Checked, Run, Stored, sizes, timed
from conecollapse.runs.values import write_csv
from conecollapse.runs.verifying import verify_cone
from conecollapse.tables import as_table

if TYPE_CHECKING:
    from conecollapse.geometry.cone import Cone

FUNCTIONALS = 1024  # that the purity of samples is counted with
CHUNK = 4096  # samples that are made dense at a time
# of the noise of a feature: that of the smallest noise that is divided by, about 1e-4 of the data,
# after a few subspaces
NOISE_PRECISION = 1e-6
PARALLEL = 1e-9  # relative, of the entries of two rows of length one


@dataclass(frozen=True, eq=False, repr=False)
class UnmixRun(Run):
    """Pure components and abundances of the samples of a table.

    Attributes
    ----------
    spectra : Spectra
        As they were read.
    components : (r, n_features) array
    H : (r, n_features) array
        The components in the unit of the certificate, in float64.
    unit : float
        ``components`` are ``unit`` times H.
    abundances : (n_samples, r) array
    outliers : (n_samples,) array of bool
        Samples that took no part in the search.
    noise : (n_features,) array
        By which features are divided to have the same noise.
    cone : Cone
        Of the components, with a bound on how far the samples are from it.
    wavelengths : (n_features,) array or None
    rank_reason : str or None
        Why there are so many components, where their number was not given.
    candidates : sequence of (str, float)
        How each was found, and its criterion J; the best first.
    spread : (r, n_features) array
        How far apart the candidates within one unit of J are.
    purity : (n_samples,) array
        How many of `FUNCTIONALS` random functionals are largest at each sample (`Cone.sample`).
    fixed : (k, n_features) array or None
        Known components, which are the first ones.
    """

    kind: ClassVar[str] = "unmix"
    form: ClassVar[Mapping[str, Any]] = {
        "preparation": {
            "clip": bool,
            "shape": (None, [int]),
            "bands": BANDS,
            "variable": (None, str),
        },
        "parameters": {
            "n_components": (int, "auto"),
            "sum_to_one": bool,
            "outliers": (float, int, "auto"),
            "closure": bool,
            "fixed": int,
        },
        "results": {"candidates": [{"name": str, "J": float}]},
    }
    spectra: Spectra
    components: AnyArray
    H: FloatArray
    unit: float
    abundances: AnyArray
    outliers: AnyArray
    noise: AnyArray
    candidates: Sequence[tuple[str, float]]
    spread: AnyArray
    purity: AnyArray
    cone: Cone = field(kw_only=True)
    wavelengths: AnyArray | None = None
    rank_reason: str | None = None
    fixed: AnyArray | None = None
    model: Any = None

    @property
    def shape(self) -> tuple[int, int] | None:
        """(height, width) of the image whose pixels are the samples."""
        return self.spectra.shape

    @property
    def preparation(self) -> dict[str, Any]:
        """How the spectra were read."""
        spectra = self.spectra
        return {
            "clip": spectra.n_clipped > 0,
            "shape": spectra.shape,
            "bands": spectra.bands,
            "variable": spectra.variable,
        }

    @cached_property
    def samples(self) -> Points:
        """The samples in the unit of the certificate, in float64."""
        return self.table.X.astype(np.float64) / self.unit

    @cached_property
    def points(self) -> Points:
        """The points of the certificate: the components, then the samples."""
        return stack_rows(self.H, self.samples, like=self.samples)

    @cached_property
    def nearest(self) -> FloatArray:
        """The weights of the nearest mixture of each of the points, (n_points, r), as the
        certificate has them."""
        weights = self.cone.point_coefficients.toarray()
        return np.asarray(weights * row_lengths(self.points)[:, None] / row_lengths(self.H))

    @cached_property
    def distances(self) -> FloatArray:
        """The distance of each sample from that mixture, as a share of the sample's length."""
        lengths, nearest = row_lengths(self.samples), self.nearest[-self.table.n_samples :]
        parts = (slice(a, a + CHUNK) for a in range(0, len(lengths), CHUNK))
        off = [row_lengths(as_dense(self.samples[rows]) - nearest[rows] @ self.H) for rows in parts]
        return np.concatenate(off) / np.where(lengths > 0, lengths, 1.0)

    @property
    def weights(self) -> FloatArray:
        """The abundances as weights of the components, also where they are given as shares."""
        W = np.asarray(self.abundances, np.float64)
        if not self.parameters["sum_to_one"]:
            return W
        return weights_of_shares(
            scaled_columns(self.samples, 1 / self.noise), self.H / self.noise, W
        )

    @property
    def maps(self) -> FloatArray | None:
        """Abundances, then distances, as images (height, width, r + 1); None where the samples are
        no image."""
        if self.shape is None:
            return None
        values = np.column_stack([self.abundances, self.distances])
        return as_images(values, self.shape, self.spectra.left_out)

    @property
    def purity_map(self) -> FloatArray | None:
        """The purity of the samples as an image (height, width, 1), like `maps`."""
        if self.shape is None:
            return None
        return as_images(self.purity[:, None] * 1.0, self.shape, self.spectra.left_out)

    @property
    def names(self) -> list[str]:
        """ "component 0" and so on."""
        return [f"component {k}" for k in range(len(self.components))]

    @property
    def unit_of_distance(self) -> str:
        """What the certificate's distances are shares of."""
        of_each = getattr(self.cone.certificate, "weighting", "unit") == "unit"
        return "of its length" if of_each else "of the longest sample's length"

    @property
    def openness(self) -> FloatArray:
        """The length of the spread of each component, as a share of the component's length."""
        return row_lengths(self.spread) / row_lengths(self.components)

    @property
    def sureness(self) -> str:
        """What is sure of the components and what is not, in a sentence."""
        order = np.argsort(self.openness, kind="stable")
        said = [f"{self.names[k]} to within {self.openness[k]:.2g}" for k in order]
        return (
            f"Candidates that explain the data about as well agree on {said[0]} of its length"
            f"{f', and on {said[-1]}' if len(said) > 1 else ''}; an error that all of them have is"
            " not in these numbers."
        )

    def facts(self) -> dict[str, Any]:
        """What was found, in numbers."""
        table, far = as_table(self.table.X), self.distances
        left_out = self.spectra.left_out
        return sizes(self.table) | {
            "n_components": len(self.components),
            "rank_reason": self.rank_reason,
            "relative_error": relative_error(self.samples, self.weights, self.H),
            "largest_residual": float(far.max()),
            "median_residual": float(np.median(far)),
            "cone_residual": self.cone.tol,
            "mean_abundances": self.abundances.mean(axis=0, dtype=np.float64),
            "n_outliers": int(np.sum(self.outliers)),
            "n_clipped": self.spectra.n_clipped,
            "n_missing": int(np.count_nonzero(left_out == MISSING)),
            "n_masked": int(np.count_nonzero(left_out == MASKED)),
            "n_empty_samples": int((~table.filled).sum()),
            "n_empty_features": int((~table.filled_columns).sum()),
            "shape": self.shape,
            "candidates": [{"name": name, "J": J} for name, J in self.candidates],
            "spread": self.openness,
        }

    def arrays(self) -> dict[str, Any]:
        """Components, abundances, and what else the search found."""
        optional = {"wavelengths": self.wavelengths, "left_out": self.spectra.left_out}
        optional |= {"fixed": self.fixed}
        return {
            "components": self.components,
            "rays": self.H,
            "unit": np.float64(self.unit),
            "abundances": self.abundances,
            "residuals": self.distances,
            "outliers": self.outliers,
            "feature_noise": self.noise,
            "spread": self.spread,
            "purity": self.purity,
            **{name: array for name, array in optional.items() if array is not None},
        }

    def write(self, folder: Path, arrays: Mapping[str, AnyArray]) -> None:
        """Write the components, and the abundances as maps or as a table."""
        lengths = {"wavelength": arrays["wavelengths"].tolist()} if "wavelengths" in arrays else {}
        heading = ["feature", *lengths, *self.names]
        for name, file in (("components", ENDMEMBERS), ("spread", SPREAD)):
            columns = [self.table.features.tolist(), *lengths.values(), *arrays[name].tolist()]
            write_csv(folder / file, heading, zip(*columns, strict=True))
        values = np.column_stack([arrays["abundances"], arrays["residuals"]])
        names = [*self.names, "distance"]
        if self.shape is not None:
            maps = as_images(values, self.shape, self.spectra.left_out)
            _write_maps(folder, self.table.source, maps, names)
            return
        rows = zip(self.table.samples.tolist(), values.tolist(), strict=True)
        write_csv(folder / ABUNDANCES, ["sample", *names], ([name, *row] for name, row in rows))

    @classmethod
    def read(cls, stored: Stored, source: Any) -> Spectra:
        """The spectra that the run was made from."""
        said, settings = stored.facts["data"], dict(stored.facts["preparation"])
        shape = settings.pop("shape")
        layout = same_layout(source, said | {"words": None})
        layout["features_in"] = said["features_in"]
        left_out = stored.arrays.get("left_out")
        # which pixels have no data is found again; which were masked was the user's choice
        mask = None if left_out is None else left_out != MASKED
        shape = None if shape is None else (*shape,)
        return read_spectra(source, shape=shape, mask=mask, **settings, **layout)

    @classmethod
    def verify(cls, stored: Stored, read: Spectra, tol: float | None) -> Checked:
        """Components, outliers and noise are those of the data and the cone, and the abundances
        those of the nearest mixtures."""
        asked, said = stored.facts["parameters"], stored.facts["results"]
        cone, arrays = stored.needed_cone(), stored.arrays
        was_auto = asked["n_components"] == "auto"
        _check_form(stored, cone, read.table)
        run = cls(
            read.table,
            read,
            components=arrays["components"],
            H=arrays["rays"].astype(np.float64),
            unit=float(arrays["unit"]),
            abundances=arrays["abundances"],
            outliers=arrays["outliers"],
            noise=arrays["feature_noise"],
            cone=cone,
            wavelengths=arrays.get("wavelengths"),
            rank_reason=said.get("rank_reason") if was_auto else None,
            candidates=[(one["name"], one["J"]) for one in said["candidates"]],
            spread=arrays["spread"],
            purity=arrays["purity"],
            fixed=arrays["fixed"] if asked["fixed"] else None,
            parameters={name: asked[name] for name in cls.form["parameters"]},
            timings=stored.facts["timings"],
        )
        _check_search(run)
        samples = run.table.samples
        names = [*run.names, *samples]
        verdict = verify_cone(cone, run.points, names, "sample", tol)
        _check_weights(run, names)
        sentence = (
            f"none of the {len(samples)} samples is further from the cone of the {verdict.n_rays}"
            f" components than {verdict.largest_residual:.3g} of its length (tol ="
            f" {verdict.tol:.3g})."
        )
        unproven: dict[str, tuple[str, ...]] = {
            "the candidates and their spread": ("results.candidates",),
        }
        if was_auto:
            unproven["the choice of the number of components"] = ("results.rank_reason",)
        if asked["outliers"] == "auto":
            unproven["which samples were left out"] = ()
        return Checked(run, sentence, verdict, unproven)

    def __repr__(self) -> str:
        return f"UnmixRun({len(self.components)} components of {self.table.n_samples} samples)"


def unmix(
    spectra: Spectra,
    n_components: int | Literal["auto"],
    *,
    sum_to_one: bool = False,
    outliers: float | str = "auto",
    closure: bool = False,
    fixed: AnyArray | str | PathLike[str] | None = None,
    wavelengths: AnyArray | None = None,
    progress: Progress = None,
) -> UnmixRun:
    """Find the pure components of mixtures, and how much of each is in every sample.

    Parameters
    ----------
    spectra : Spectra
        From `conecollapse.io.spectra.read_spectra`.
    n_components : int or "auto"
    sum_to_one : bool
        Whether abundances are shares of a sample.
    outliers : float or "auto"
        Share of the samples to leave out because they fit no mixture.
    closure : bool
        Whether the amounts of a sample sum to one, and the lengths of the components are found for
        that.
    fixed : (k, n_features) array or path, optional
        Known components. A file has a row for each, matched by the names of the
        features where both files have them.
    wavelengths : (n_features,) array, optional
        Of the features, for the results; those of the file by default.
    """
    table = spectra.table
    if closure and sum_to_one:
        raise InvalidInputError(
            f"{argument('closure', True)} makes the amounts themselves sum to one; leave"
            f" {argument('sum_to_one', True)} out."
        )
    most = min(table.n_samples, table.n_features)
    if n_components != "auto" and n_components > most:
        what = "samples" if table.n_samples <= table.n_features else "features"
        raise InvalidInputError(
            f"{n_components} components were asked for, but there are only {most} {what}; ask for"
            " at most that many."
        )
    if isinstance(fixed, (str, PathLike)):
        fixed = _read_fixed(Path(fixed), table)
    asked = {
        "n_components": n_components,
        "sum_to_one": sum_to_one,
        "outliers": outliers,
        "closure": closure,
        "fixed": 0 if fixed is None else len(fixed),
    }
    timings: dict[str, float] = {}
    with timed(timings, "unmixing", progress):
        model = estimators.Unmixing(
            n_components, outliers=outliers, closure=closure, fixed_components=fixed
        ).fit(table)
    return UnmixRun(
        table,
        spectra,
        components=model.components_,
        H=model._fitted.components,
        unit=model._fitted.unit,
        abundances=model.shares_ if sum_to_one else model.embedding_,
        outliers=np.asarray(model.outliers_),
        noise=model.feature_noise_,
        cone=model.cone_,
        wavelengths=spectra.table.wavelengths if wavelengths is None else wavelengths,
        rank_reason=model.reason_ if n_components == "auto" else None,
        candidates=model.candidates_,
        spread=model.spread_,
        purity=_count_purity(table.X),
        fixed=fixed,
        parameters=asked,
        timings=timings,
        model=model,
    )


def _count_purity(X: Points) -> IntArray:
    """For each sample the number of random functionals that are largest there."""
    from conecollapse.geometry.cone import Cone

    drawn = Cone.sample(X, FUNCTIONALS, random_state=0)
    purity = np.zeros(X.shape[0], np.int64)
    purity[drawn.ray_indices] = drawn.counts
    return purity


def _read_fixed(file: Path, table: TableFile) -> FloatArray:
    """The known components in a file, for the features of a table."""
    known = read_spectra(file, features_in="columns", single=True).table
    values, name = np.asarray(as_dense(known.X), np.float64), file.name
    if known.feature_names is not None and table.feature_names is not None:
        at = {str(feature): j for j, feature in enumerate(known.features)}
        for feature in table.features:
            if str(feature) not in at:
                raise InvalidInputError(
                    f"{name} has no feature {quoted(str(feature))}, which the data has; a known"
                    " component needs a value for each. If these are the samples, pass"
                    f" {argument('features_in', 'rows')} or {argument('features_in', 'columns')}."
                )
        return values[:, [at[str(feature)] for feature in table.features]]
    if known.n_features != table.n_features:
        raise InvalidInputError(
            f"{name} has {known.n_features} features, but the data has {table.n_features}; give a"
            " row for each known component, with a value for each feature."
        )
    return values


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


def _check_form(stored: Stored, cone: Cone, table: TableFile) -> None:
    """Refuse a folder whose arrays and cone are not those of an unmixing of the table."""
    arrays, asked = stored.arrays, stored.facts["parameters"]
    n, m, r = table.n_samples, table.n_features, cone.n_rays
    shapes = {"components": (r, m), "rays": (r, m), "unit": (), "abundances": (n, r)}
    shapes |= {"feature_noise": (m,), "residuals": (n,), "spread": (r, m)}
    needed = {name: ("f", shape) for name, shape in shapes.items()}
    if asked["fixed"]:
        needed["fixed"] = "f", (asked["fixed"], m)
    stored.check_arrays(needed | {"outliers": ("b", (n,)), "purity": ("i", (n,))})
    if asked["n_components"] not in (r, "auto") or (asked["closure"] and asked["sum_to_one"]):
        raise CertificateError(
            f"{FACTS} claims the parameters {quoted(asked)}, which no run has that ends with"
            f" the {r} components of {CERTIFICATE}."
        )
    is_whole = isinstance(cone.certificate, ApproximateCertificate) and cone.holds_rays
    if (cone.n_points, cone.dim) != (n + r, m) or not is_whole:
        raise CertificateError(
            f"{CERTIFICATE} is not about the {n} samples and {r} components of the run."
        )
    unit = float(arrays["unit"])
    if not unit > 0 or math.frexp(unit)[0] != 0.5:
        raise RunFolderError(f"the unit in {FACTORS} is no power of two; it is damaged.")


def _check_search(run: UnmixRun) -> None:
    """The components are those of the certificate; what was left out, and the noise, follow from
    the data."""
    from conecollapse.factorization.mixtures.unmixing import leave_out, noise_of_features

    samples, r = run.samples, len(run.components)
    eps = float(np.finfo(run.components.dtype).eps)
    same = np.allclose(run.components, run.H * run.unit, rtol=eps, atol=0)
    if run.fixed is not None:
        same = same and _are_parallel(run.H[: len(run.fixed)], run.fixed)
    if not same or not (run.H >= 0).all():
        raise CertificateError(
            f"the components in {FACTORS} are not those that {CERTIFICATE} is about."
        )
    filled, asked = row_lengths(samples) > 0, run.parameters
    # with "auto" the choice itself says which samples stand out
    away = run.outliers | ~filled
    if asked["outliers"] != "auto":
        away = leave_out(samples, filled, r, asked["outliers"])
    for i in np.flatnonzero(away != run.outliers)[:1]:
        raise CertificateError(
            f"'outliers' in {FACTORS} is {bool(run.outliers[i])} for the sample"
            f" {quoted(str(run.table.samples[i]))}, but the data say {bool(away[i])}."
        )
    kept = samples[np.flatnonzero(~away)]
    noise = noise_of_features(kept, r)
    purity = _count_purity(run.table.X)
    for i in np.flatnonzero(purity != run.purity)[:1]:
        raise CertificateError(
            f"'purity' in {FACTORS} is {run.purity[i]} for the sample"
            f" {quoted(str(run.table.samples[i]))}, but {FUNCTIONALS} functionals say {purity[i]}."
        )
    off = np.abs(run.noise / noise - 1)
    for j in np.flatnonzero(~(off <= NOISE_PRECISION))[:1]:
        raise CertificateError(
            f"'feature_noise' in {FACTORS} is {run.noise[j]:.6g} for the feature"
            f" {quoted(str(run.table.features[j]))}, but the data say {noise[j]:.6g}."
        )


def _are_parallel(H: FloatArray, fixed: AnyArray) -> bool:
    """Whether the rows have the same directions."""
    known = fixed / row_lengths(fixed)[:, None]
    return np.allclose(H / row_lengths(H)[:, None], known, rtol=PARALLEL, atol=0)


def _check_weights(run: UnmixRun, names: list[str]) -> None:
    """The weights in the certificate and the abundances are those of the nearest mixtures."""
    H, samples = run.H, run.table.samples
    _check_nearest(departures(run.points, H, run.nearest), allowance(H), names, CERTIFICATE)
    is_closed, filled = run.parameters["closure"], row_lengths(run.samples) > 0
    scaled = scaled_columns(run.samples, 1 / run.noise)
    off = departures(scaled, H / run.noise, run.weights, closed=is_closed)
    if is_closed or run.parameters["sum_to_one"]:
        has_sum = filled if is_closed else filled & run.nearest[-len(samples) :].any(axis=1)
        off = np.maximum(off, np.abs(np.sum(run.abundances, axis=1) - has_sum))
    _check_nearest(off, allowance(H, run.abundances.dtype), samples, FACTORS)


def _check_nearest(off: FloatArray, most: float, names: Any, where: str) -> None:
    """No weights are further from the nearest mixture than rounding explains."""
    for i in np.flatnonzero(~(off <= most))[:1]:
        raise CertificateError(
            f"the abundances of {quoted(str(names[i]))} in {where} are not those of the nearest"
            f" mixture of the components: a condition of optimality is off by {off[i]:.3g} of the"
            f" sample's length, where rounding explains {most:.2g}."
        )
