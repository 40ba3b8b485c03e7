"""`rays`: the extreme rays of the features of a table, all of them or few, and what every run with
such a cone writes and checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import CertificateError, InvalidInputError, argument
from conecollapse._types import AnyArray, Effort, FloatArray, IntArray, Progress
from conecollapse.certificates import Certificate, SampledCertificate
from conecollapse.io import TableFile
from conecollapse.runs.folder import CERTIFICATE, FACTORS, RAYS
from conecollapse.runs.preparing import FORM_OF_PREPARATION
from conecollapse.runs.run import Checked, Run, Stored, points, sizes, timed
from conecollapse.runs.values import write_csv

if TYPE_CHECKING:
    from conecollapse.certificates import Verdict
    from conecollapse.geometry.cone import Cone

SMALL_RESIDUAL = 1e-3  # with max_rays alone the number of rays decides
FLOAT32_TOL = 1e-6  # of a cone of points that were rounded to float32
EFFORTS = ("exact", "quick")
SAMPLE_COLUMNS = ["ray", "feature", "name", "functionals"]
RAY_COLUMNS = ["ray", "feature", "name", "group_size", "colinear_features", "open", "mass"]


@dataclass(frozen=True, eq=False, repr=False)
class RaysRun(Run):
    """The rays of the features of a table. ``cone`` is an epsilon-cone when ``max_residual`` or
    ``max_rays`` was asked for, and a sample of the rays when ``sample`` was: then ``winners`` has
    the feature at which each functional is largest, or -1."""

    kind: ClassVar[str] = "rays"
    form: ClassVar[Mapping[str, Any]] = {
        "preparation": FORM_OF_PREPARATION,
        "parameters": {
            "max_residual": (None, float, int),
            "max_rays": (None, int),
            "weighting": ("unit", "mass"),
            "effort": EFFORTS,
            "sample": (None, int),
            "random_state": (None, int),
        },
    }
    cone: Cone = field(kw_only=True)
    winners: IntArray | None = None

    def facts(self) -> dict[str, Any]:
        """What was found, in numbers."""
        found = sizes(self.table) | cone_facts(self.cone)
        if self.winners is None:
            return found
        from conecollapse.geometry.sample import bound, estimate

        missed = {"missed": bound(self.winners), "missed_estimate": estimate(self.winners)}
        return found | missed | {"largest_residual": None}

    def arrays(self) -> dict[str, Any]:
        """The rays and their masses; those of a sample have none, as its rays do not generate the
        other features."""
        if self.winners is None:
            return cone_arrays(self.table, self.cone)
        return {"ray_indices": self.cone.ray_indices, "winners": self.winners}

    def write(self, folder: Path, arrays: Mapping[str, AnyArray]) -> None:
        """Write rays.csv."""
        if self.winners is None:
            return write_rays(folder, self.table, self.cone, arrays["masses"])
        rays, counts = np.unique(self.winners[self.winners >= 0], return_counts=True)
        columns = (np.arange(len(rays)), rays, self.table.features[rays], counts)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return write_csv(folder / RAYS, SAMPLE_COLUMNS, rows)

    @classmethod
    def verify(cls, stored: Stored, read: TableFile, tol: float | None) -> Checked:
        """Check the cone of the features."""
        cone = stored.needed_cone()
        verdict = check_cone(cone, read, tol)
        said = stored.facts["parameters"]
        asked = dict.fromkeys(("max_residual", "max_rays", "sample", "random_state"))
        asked, winners = asked | {"weighting": "unit"}, None
        if isinstance(cone.certificate, SampledCertificate):
            winners = _stored_winners(stored, cone)
            asked["sample"] = len(winners)
            unproven = {"the random functionals": ("parameters.random_state",)}
        elif isinstance(cone.certificate, Certificate):
            unproven = {"what was asked for": ("parameters.effort",)}
        else:
            unproven = {"what was asked for": ("parameters.max_residual",)}
            asked["weighting"] = cone.certificate.weighting
            if type(said["max_rays"]) is int and said["max_rays"] >= cone.n_rays:
                asked["max_rays"] = said["max_rays"]
        asked["effort"] = "exact"
        run = cls(read, winners, cone=cone, parameters=asked, timings=stored.facts["timings"])
        return Checked(run, verdict.sentence("features"), verdict, unproven)

    def __repr__(self) -> str:
        return f"RaysRun({self.cone.n_rays} rays of {self.table.n_features} features)"


def rays(
    table: TableFile,
    *,
    max_residual: float | None = None,
    max_rays: int | None = None,
    weighting: Literal["unit", "mass"] = "unit",
    effort: Effort = "exact",
    sample: int | None = None,
    random_state: int = 0,
    progress: Progress = None,
) -> RaysRun:
    """The extreme rays of the features of ``table``, or an epsilon-cone when ``max_residual`` or
    ``max_rays`` is given, or those at which random functionals are largest when ``sample`` is.

    Parameters
    ----------
    table : TableFile
        Prepared, if it is to be (`prepare`).
    max_residual, max_rays, weighting
        As in `Cone.approximate`; with ``max_rays`` alone rays are added until there are that many.
    effort : {"exact", "quick"}
        Of all rays: "quick" leaves rays open that would take long to decide, see
        `Cone.from_points`.
    sample, random_state : int
        The number of functionals, and their seed; see `Cone.sample`.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.
    """
    if effort not in EFFORTS:
        raise InvalidInputError(
            f"{argument('effort')} must be one of {', '.join(EFFORTS)}; got {effort!r}."
        )
    asked = {
        "max_residual": max_residual,
        "max_rays": max_rays,
        "weighting": weighting,
        "effort": effort,
        "sample": sample,
        "random_state": None if sample is None else random_state,
    }
    timings: dict[str, float] = {}
    if sample is not None:
        if max_residual is not None or max_rays is not None or effort != "exact":
            raise InvalidInputError(
                f"{argument('sample', sample)} is another way than {argument('max_residual', ...)},"
                f" {argument('max_rays', ...)} and {argument('effort', 'quick')}; leave one out."
            )
        return _sampled_rays(table, asked, timings, progress)
    if max_residual is None and max_rays is None:
        cone = cone_of_features(table, effort, timings, progress)
        return RaysRun(table, cone=cone, parameters=asked, timings=timings)
    if effort != "exact":
        raise InvalidInputError(
            f"{argument('effort', effort)} is for the cone of all rays; leave it out, or leave out"
            f" {argument('max_residual', ...)} and {argument('max_rays', ...)}."
        )
    from conecollapse.geometry.cone import Cone

    def added(n_rays: int, residual: float) -> None:  # noqa: ARG001
        if progress is not None:
            progress("cone", n_rays, max_rays or table.n_features)

    with timed(timings, "cone", progress):
        residual = SMALL_RESIDUAL if max_residual is None else max_residual
        cone = Cone.approximate(points(table.X), residual, max_rays, weighting, callback=added)
    cone.ray_names = table.features[cone.ray_indices]
    return RaysRun(table, cone=cone, parameters=asked, timings=timings)


def _sampled_rays(
    table: TableFile, asked: dict[str, Any], timings: dict[str, float], progress: Progress
) -> RaysRun:
    from conecollapse.geometry.cone import Cone

    with timed(timings, "cone", progress):
        cone = Cone.sample(
            points(table.X),
            asked["sample"],
            tol=_tol(table),
            random_state=asked["random_state"],
        )
    cone.ray_names = table.features[cone.ray_indices]
    return RaysRun(table, cone.winners, cone=cone, parameters=asked, timings=timings)


def _stored_winners(stored: Stored, cone: Cone) -> IntArray:
    """The ray at which each functional is largest; every ray of the cone is one of these."""
    winners: IntArray = stored.arrays.get("winners", np.zeros(0))
    stored.check_arrays({"winners": ("i", (winners.size,))})
    if not np.array_equal(np.unique(winners[winners >= 0]), cone.ray_indices):
        raise CertificateError(
            f"'winners' in {FACTORS} are not the rays that {CERTIFICATE} is about."
        )
    return winners


def _tol(table: TableFile) -> float:
    return 1e-8 if table.X.dtype == np.float64 else FLOAT32_TOL


def cone_of_features(
    table: TableFile, effort: Effort, timings: dict[str, float], progress: Progress
) -> Cone:
    """The certified cone of the features, with their names."""
    from conecollapse.geometry.cone import Cone

    with timed(timings, "cone", progress):
        cone = Cone.from_points(points(table.X), _tol(table), effort, progress=progress)
    cone.ray_names = table.features[cone.ray_indices]
    return cone


def cone_facts(cone: Cone) -> dict[str, Any]:
    """What run.json says of a cone of features."""
    exact = isinstance(cone.certificate, Certificate)
    return {
        "n_rays": cone.n_rays,
        "n_zero_features": len(cone.zero_points) if exact else None,
        "exact": exact,
        "n_open": len(cone.open_points),
        "tol": cone.tol,
        "largest_residual": None if exact else cone.tol,
    }


def cone_arrays(table: TableFile, cone: Cone) -> dict[str, Any]:
    """What factors.npz holds of a cone of features."""
    return {"ray_indices": cone.ray_indices, "masses": ray_masses(table, cone)}


def ray_masses(table: TableFile, cone: Cone) -> FloatArray:
    """The mass of each ray: the length of the features on it taken together, see
    `conecollapse.factorization.cones.ccnmf`."""
    from conecollapse.factorization.cones.ccnmf import mass
    from conecollapse.tables import as_table

    unit = float(table.X.max())  # squares of entries of 1e200 are no numbers
    lengths = as_table(table.X.astype(np.float64) / unit).column_lengths
    return unit * mass(sp.csr_array(cone.point_coefficients.T @ sp.diags_array(lengths)))


def write_rays(folder: Path, table: TableFile, cone: Cone, masses: AnyArray) -> None:
    """Write rays.csv."""
    rows = ((*row, mass) for row, mass in zip(_ray_rows(table, cone), masses.tolist(), strict=True))
    write_csv(folder / RAYS, RAY_COLUMNS, rows)


def _ray_rows(table: TableFile, cone: Cone) -> Iterator[tuple[Any, ...]]:
    """For each ray its number, its feature by index and name, how many and which features are
    colinear with it, and whether it is open."""
    is_open = np.isin(cone.ray_indices, cone.open_points).astype(int)
    exact = isinstance(cone.certificate, Certificate)
    groups: list[Any] = cone.groups if exact else [[j] for j in cone.ray_indices]
    for k, (j, group) in enumerate(zip(cone.ray_indices, groups, strict=True)):
        others = " ".join(str(i) for i in group if i != j)
        yield k, int(j), str(table.features[j]), len(group), others, int(is_open[k])


def check_cone(cone: Cone, table: TableFile, tol: float | None) -> Verdict:
    """The verdict on the cone of the features of ``table``; an error if it is another cone."""
    if cone.n_points != table.n_features:
        raise CertificateError(
            f"{CERTIFICATE} is about {cone.n_points} features, but the run has {table.n_features}."
        )
    from conecollapse.runs.verifying import verify_cone

    verdict = verify_cone(cone, points(table.X), table.features, "feature", tol)
    names = table.features[cone.ray_indices]
    if cone.ray_names is None or not cone.holds_rays or (cone.ray_names != names).any():
        raise CertificateError(
            f"{CERTIFICATE} does not give the rays the names that {FACTORS} gives the features."
        )
    return verdict
