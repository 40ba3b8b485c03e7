"""A clustering, or a run of rays, put together again from the data, the factor A and the cone."""

from __future__ import annotations

from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np

from conecollapse._errors import CertificateError, RunFolderError, quoted
from conecollapse.certificates import Certificate, Verdict, allowance, departures, weights_of_shares
from conecollapse.estimators._rank_clusters import most_stable
from conecollapse.geometry.cone import Cone
from conecollapse.io import TableFile
from conecollapse.io.formats import same_layout
from conecollapse.io.reading import read_table
from conecollapse.runs.agreement import check_arrays, verify_cone
from conecollapse.runs.asked import candidates
from conecollapse.runs.clustering import METHODS, estimator_of
from conecollapse.runs.folder import CERTIFICATE, FACTORS, FACTS
from conecollapse.runs.preparing import points, prepare
from conecollapse.runs.reading import Stored, labels_of
from conecollapse.runs.run import RaysRun, Run
from conecollapse.runs.saving import topic_means

# how an estimator of the user's own choice of parameters is written
OWN = ("CCNMF(", "GraphCCNMF(")
UNCHECKED: dict[str, tuple[str, ...]] = {
    "the random starts": (
        "parameters.random_state",
        "results.converged",
        "results.status",
        "results.rank_curve.scores",
        "results.rank_curve.standard_errors",
    )
}


def read_data(stored: Stored, source: Any) -> TableFile:
    """The table that the run was made from, read and prepared as it was then."""
    said = stored.facts["data"]
    read = read_table(source, features_in=said["features_in"], **same_layout(source, said))
    return prepare(read, **stored.facts["preparation"])


def rebuild_clusters(stored: Stored, table: TableFile) -> tuple[Run | RaysRun, dict[str, Any]]:
    """The run, and what of run.json was taken as it stands."""
    facts, arrays, cone = stored.facts, stored.arrays, stored.cone
    shape = facts.get("image_shape")
    sides = [side for side in shape if type(side) is int] if isinstance(shape, list) else [0, 0]
    if shape is not None and (len(sides) != 2 or prod(sides) != table.n_features):
        raise RunFolderError(
            f"{FACTS} gives images of {table.n_features} features the shape {quoted(shape)}; it is"
            " damaged."
        )
    if facts["kind"] == "rays":
        asked, unchecked = _asked_of_rays(cone, facts["parameters"])
        return RaysRun(table, cone, shape, asked, facts["timings"]), unchecked
    r = arrays["A"].shape[-1] if "A" in arrays and arrays["A"].ndim else 0
    check_arrays(stored.path, arrays, {"A": ("f", (table.n_samples, r))})
    if not arrays["A"].size or (arrays["A"] < 0).any():
        raise RunFolderError(f"A in {FACTORS} holds no numbers, or negative ones; it is damaged.")
    rank = _rank(facts["results"].get("rank_curve"), r, table.n_samples)
    asked, unchecked = facts["parameters"], UNCHECKED
    method = str(asked.get("method"))
    if method in METHODS:
        own = estimator_of(method).set_params(
            random_state=asked.get("random_state"), n_components=r
        )
    elif not method.startswith(OWN):
        raise RunFolderError(f"{FACTS} names the method {quoted(method)}, which is not known.")
    else:
        own = SimpleNamespace(get_params=lambda: facts["model"])
        unchecked = UNCHECKED | {"the parameters of your own estimator": ("model",)}
    model = SimpleNamespace(
        embedding_=arrays["A"],
        converged_=facts["results"].get("converged"),
        status_=facts["results"].get("status"),
        get_params=own.get_params,
    )
    asked = asked | {"n_components": r if rank is None else "auto"}
    known, labels = arrays.get("target"), labels_of(arrays)
    run = Run(table, model, labels, cone, known, shape, asked, facts["timings"], rank)
    return run, unchecked


def _asked_of_rays(
    cone: Cone, said: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, tuple[str, ...]]]:
    """The parameters that fit the certificate, and those that are taken as they stand."""
    asked = dict.fromkeys(("max_residual", "max_rays")) | {"weighting": "unit", "prove": False}
    if isinstance(cone.certificate, Certificate):
        return asked, {"what was asked for": ("parameters.prove",)}
    most = said.get("max_rays")
    if type(most) is int and most >= cone.n_rays:
        asked["max_rays"] = most
    asked["weighting"] = getattr(cone.certificate, "weighting", "unit")
    return asked, {"what was asked for": ("parameters.max_residual",)}


def _rank(curve: Any, r: int, n_samples: int) -> Any:
    """The choice of the number of clusters that follows from the scores of the candidates."""
    if curve is None:
        return None
    try:
        ranks = np.array(curve["candidates"], np.int64)
        found = most_stable(
            ranks, *(np.array(curve[name], np.float64) for name in ("scores", "standard_errors"))
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise RunFolderError(f"rank_curve in {FACTS} is damaged ({error}).") from error
    if ranks.tolist() != list(candidates(n_samples)):
        raise CertificateError(f"{FACTS} does not name the numbers of clusters that are tried.")
    if found.rank != r:
        raise CertificateError(
            f"{FACTS} says that {found.rank} clusters are best, but A in {FACTORS} has {r}."
        )
    return found


def prove_clusters(stored: Stored, run: Run | RaysRun, tol: float | None) -> Verdict:
    """The cone is that of the features, and shares of topics are those of the nearest mixtures."""
    cone, table = stored.cone, run.table
    if cone.n_points != table.n_features:
        raise CertificateError(
            f"{CERTIFICATE} is about {cone.n_points} features, but the run has {table.n_features}."
        )
    verdict = verify_cone(cone, points(table.X), table.features, "feature", tol)
    names = table.features[cone.ray_indices]
    if cone.ray_names is None or not cone.holds_rays or (cone.ray_names != names).any():
        raise CertificateError(
            f"{CERTIFICATE} does not give the rays the names that {FACTORS} gives the features."
        )
    if isinstance(run, Run) and table.texts is not None:
        _prove_shares(stored, run)
    return verdict


def _prove_shares(stored: Stored, run: Run) -> None:
    """Every sample has the shares of the nearest mixture of the mean samples."""
    X, means = run.table.X, topic_means(run)
    check_arrays(stored.path, stored.arrays, {"shares": ("f", (len(run.labels), len(means)))})
    shares, most = stored.arrays["shares"], allowance(means)
    off = departures(X, means, weights_of_shares(X, means, shares))
    meets = np.asarray(X @ means.sum(axis=0)).ravel() > 0  # any of them
    is_true = (off <= most) & (np.abs(shares.sum(axis=1) - meets) <= most)
    for i in np.flatnonzero(~is_true)[:1]:
        raise CertificateError(
            f"the shares of the sample {quoted(str(run.table.samples[i]))} in {FACTORS} are not"
            " those of the nearest mixture of the mean samples of the clusters."
        )
