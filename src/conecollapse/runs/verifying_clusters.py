"""`verify` of a clustering, and of a run of rays: labels, masses, errors and scores are computed
again from the data, the factor A and the cone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from conecollapse import estimators
from conecollapse._errors import CertificateError, InvalidInputError, RunFolderError, quoted
from conecollapse._types import FloatArray
from conecollapse.certificates import (
    ApproximateCertificate,
    Verdict,
    allowance,
    departures,
    weights_of_shares,
)
from conecollapse.estimators._rank_clusters import most_stable
from conecollapse.io import TableFile
from conecollapse.io.reading import read_table, same_layout
from conecollapse.runs.agreement import (
    Checked,
    Stored,
    agree_arrays,
    agree_facts,
    agree_table,
    check_arrays,
    verify_cone,
)
from conecollapse.runs.asked import check_image_shape
from conecollapse.runs.clustering import METHODS, estimator_of
from conecollapse.runs.facts import facts
from conecollapse.runs.folder import CERTIFICATE, FACTORS, FACTS, LABELS, RAYS
from conecollapse.runs.preparing import points, prepare
from conecollapse.runs.reading import csv_rows, labels_of
from conecollapse.runs.run import RaysRun, Run
from conecollapse.runs.saving import factors, label_table, ray_table, topic_means

SEARCH = (
    "results.converged",
    "results.status",
    "results.rank_curve.scores",
    "results.rank_curve.standard_errors",
)
# of a residual, relative and absolute: it is measured twice
RESIDUAL_PRECISION = 1e-6
PARAMETERS = {
    "cluster": {"n_components", "method", "random_state", "prove"},
    "rays": {"max_residual", "max_rays", "weighting", "prove"},
}


def read_data(stored: Stored, source: Any) -> TableFile:
    """The table that the run was made from, read as it was then."""
    said = stored.facts["data"]
    return read_table(source, features_in=said["features_in"], **same_layout(source, said))


def verify_rays(stored: Stored, read: TableFile, tol: float | None) -> Checked:
    """Check a run of `rays`; what was measured, and what was not checked."""
    if (stored.path / LABELS).exists() or "A" in stored.arrays:
        raise CertificateError(
            f"{FACTS} calls this a run of rays, but the folder holds clusters too."
        )
    table = prepare(read, **stored.facts["preparation"])
    run = RaysRun(table, stored.cone, _image_shape(stored, table), _asked(stored), stored.timings)
    verdict = _verify_cone(stored, run, tol)
    agree_facts(stored.said, facts(run, stored.path), stored.unchecked())
    return verdict, {}


def verify_clusters(stored: Stored, read: TableFile, tol: float | None) -> Checked:
    """Check a run of `cluster`; what was measured, and what was not checked."""
    arrays, n = stored.arrays, read.n_samples
    r = arrays["A"].shape[1] if "A" in arrays and arrays["A"].ndim == 2 else 0
    needed = {"A": ("f", (n, r)), "components": ("f", (r, read.n_features))}
    check_arrays(stored.path, arrays, needed)
    if not arrays["A"].size or (arrays["A"] < 0).any():
        raise RunFolderError(f"A in {FACTORS} holds no numbers, or negative ones; it is damaged.")
    table = prepare(read, **stored.facts["preparation"])
    results = stored.facts["results"]
    rank = _rank(results.get("rank_curve"))
    asked = _asked(stored) | {"n_components": r if rank is None else "auto"}
    model, is_own = _model(stored, r)
    fitted = SimpleNamespace(
        embedding_=arrays["A"],
        converged_=results.get("converged"),
        status_=results.get("status"),
        get_params=model.get_params,
    )
    run = Run(
        table,
        fitted,
        labels_of(arrays),
        stored.cone,
        arrays.get("target"),
        _image_shape(stored, table),
        asked,
        stored.timings,
        rank,
    )
    unchecked: dict[str, tuple[str, ...]] = {"random starts": ("parameters.random_state", *SEARCH)}
    unchecked |= {"parameters of an estimator of your own": ("model",)} if is_own else {}
    shares = None if table.texts is None else _checked_shares(stored, run)
    agree_table(stored.path / LABELS, label_table(run, shares))
    if rank is not None and rank.rank != r:
        raise CertificateError(
            f"{FACTS} says that {rank.rank} clusters are best, but A in {FACTORS} has {r}."
        )
    verdict = _verify_cone(stored, run, tol)
    agree_facts(stored.said, facts(run, stored.path), stored.unchecked(*unchecked.values()))
    return verdict, unchecked


def _image_shape(stored: Stored, table: TableFile) -> tuple[int, int] | None:
    said = stored.facts.get("image_shape")
    if said is None:
        return None
    if not (isinstance(said, list) and len(said) == 2 and all(type(side) is int for side in said)):
        raise RunFolderError(
            f"{FACTS} in {str(stored.path)!r} has the image shape {quoted(said)}; it is damaged."
        )
    return check_image_shape((said[0], said[1]), table.n_features)


def _asked(stored: Stored) -> dict[str, Any]:
    """The parameters, refused where they could not have led to this cone."""
    said, cone = dict(stored.facts["parameters"]), stored.cone
    fits = PARAMETERS[stored.facts["kind"]] <= set(said)
    fits = fits and not (said["prove"] and len(cone.open_points))
    if stored.facts["kind"] == "rays":
        c, few, near = cone.certificate, said.get("max_rays"), said.get("max_residual")
        is_few = isinstance(few, int) and cone.n_rays <= few
        is_near = isinstance(near, float) and cone.tol <= near + RESIDUAL_PRECISION * (1 + near)
        if isinstance(c, ApproximateCertificate):
            stops = is_near or (is_few and (near is None or cone.n_rays == few))
            fits = fits and (few is None or is_few) and stops and said["weighting"] == c.weighting
        else:
            fits = fits and few is None and near is None and said["weighting"] in ("unit", "mass")
    if not fits:
        raise CertificateError(
            f"the parameters in {FACTS}, {quoted(said)}, do not lead to the cone of"
            f" {cone.n_rays} rays in {CERTIFICATE}."
        )
    return said


def _model(stored: Stored, r: int) -> tuple[Any, bool]:
    """The estimator with the parameters of the run, and whether it is one of the user's own."""
    asked = stored.facts["parameters"]
    method, seed = asked["method"], asked["random_state"]
    if isinstance(method, str) and method in METHODS:
        return estimator_of(method).set_params(random_state=seed, n_components=r), False
    called = str(method).partition("(")[0]
    own = {"CCNMF": estimators.CCNMF, "GraphCCNMF": estimators.GraphCCNMF}.get(called)
    try:
        return (own or estimator_of)(**stored.facts["model"]), True
    except (TypeError, InvalidInputError) as error:
        raise CertificateError(
            f"{FACTS} names the method {quoted(method)}, which has not the parameters"
            f" {quoted(stored.facts['model'])}."
        ) from error


def _rank(curve: Any) -> Any:
    """The choice that follows from the scores of the candidates."""
    if curve is None:
        return None
    try:
        numbers = [
            np.array(curve[name], np.float64)
            for name in ("candidates", "scores", "standard_errors")
        ]
        return most_stable(numbers[0].astype(np.int64), *numbers[1:])
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise CertificateError(
            f"rank_curve in {FACTS} does not hold a score for each candidate ({error})."
        ) from error


def _verify_cone(stored: Stored, run: Run | RaysRun, tol: float | None) -> Verdict:
    """The rays are those of the certificate, which holds for the features."""
    cone, arrays, table = stored.cone, stored.arrays, run.table
    if cone.n_points != table.n_features:
        raise CertificateError(
            f"{CERTIFICATE} is about {cone.n_points} features, but the run has {table.n_features}."
        )
    names = table.features[cone.ray_indices]
    verdict = verify_cone(cone, points(table.X), table.features, "feature", tol)
    if cone.ray_names is None or not cone.holds_rays or (cone.ray_names != names).any():
        raise CertificateError(
            f"{CERTIFICATE} does not give the rays the names that {FACTORS} gives the features."
        )
    check_arrays(stored.path, arrays, {"ray_indices": ("i", (cone.n_rays,))})
    agree_arrays(FACTORS, arrays, factors(run))
    agree_table(stored.path / RAYS, ray_table(run))
    return verdict


def _checked_shares(stored: Stored, run: Run) -> FloatArray:
    """The shares of topics in labels.csv, refused unless they are those of the nearest
    mixtures."""
    means, X = topic_means(run), run.table.X
    heading, _ = label_table(run, np.zeros((len(run.labels), len(means))))
    try:
        cells = [row[-len(means) :] for row in csv_rows(stored.path / LABELS, heading)]
        shares = np.array(cells, np.float64).reshape(len(run.labels), len(means))
    except ValueError as error:
        raise CertificateError(f"{LABELS} has shares that are no numbers ({error}).") from error
    most = allowance(means)
    off = departures(X, means, weights_of_shares(X, means, shares))
    meets = np.asarray(X @ means.sum(axis=0)).ravel() > 0
    is_true = (off <= most) & (np.abs(shares.sum(axis=1) - meets) <= most)
    for i in np.flatnonzero(~is_true)[:1]:
        raise CertificateError(
            f"the shares of the sample {quoted(str(run.table.samples[i]))} in {LABELS} are not"
            " those of the nearest mixture of the mean samples of the clusters."
        )
    return shares
