"""`compare`: two folders of results side by side: parameters, clusters, rays, components."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from conecollapse._errors import InvalidInputError, RunFolderError
from conecollapse._types import AnyArray, FloatArray, IntArray
from conecollapse.metrics import (
    adjusted_rand_score,
    clustering_accuracy,
    contingency,
    normalized_mutual_info_score,
)
from conecollapse.runs.folder import FACTORS
from conecollapse.runs.reading import labels_of, run_arrays, run_facts

ASKED = ("data", "preparation", "parameters")  # groups of run.json: what a run was asked for
# of the data, which may be the same at another place; its checksum is compared
PLACES = ("path", "absolute", "source", "why")
GROUPS = (*ASKED, "model", "versions", "results")  # that are compared


@dataclass(frozen=True)
class Match:
    """Two components that are alike, each the best for the other when all are matched."""

    first: int
    second: int
    angle: float  # between them, in degrees


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Two runs, compared where both have something to compare.

    Attributes
    ----------
    names : pair of str
        The folders.
    facts : pair of mapping
        What their ``run.json`` say.
    samples : array of str
        The samples that both have, by name.
    labels : pair of (len(samples),) arrays, or None
        Their clusters, where both runs are clusterings.
    rays : pair of array of str, or None
        The features that are rays, by name, where both runs have the cone of the features.
    matches : list of Match, or None
        The components of two runs of `unmix`, matched by the angles between them over the features
        that both have.
    kind : "comparison"
    """

    names: tuple[str, str]
    facts: tuple[dict[str, Any], dict[str, Any]]
    samples: AnyArray
    labels: tuple[IntArray, IntArray] | None = None
    rays: tuple[AnyArray, AnyArray] | None = None
    matches: list[Match] | None = None
    kind: str = "comparison"

    def results(self) -> dict[str, Any]:
        """The agreement in numbers."""
        found: dict[str, Any] = {"n_common_samples": len(self.samples)}
        if self.labels is not None:
            first, second = self.labels
            found |= {
                "adjusted_rand": adjusted_rand_score(first, second),
                "normalized_mutual_information": normalized_mutual_info_score(first, second),
                "share_in_matching_clusters": clustering_accuracy(first, second),
            }
        if self.rays is not None:
            common = np.intersect1d(*self.rays)
            found |= {"n_rays": [len(rays) for rays in self.rays], "n_common_rays": len(common)}
        if self.matches is not None:
            found |= {"angles": [match.angle for match in self.matches]}
        return found

    def moved(self) -> IntArray:
        """The places in ``samples`` of those whose clusters do not match, when clusters are matched
        one to one by the most samples."""
        if self.labels is None:
            return np.zeros(0, np.int64)
        counts = contingency(*self.labels)
        (_, row), (_, column) = (np.unique(labels, return_inverse=True) for labels in self.labels)
        partner = np.full(len(counts), -1)
        rows, columns = linear_sum_assignment(-counts)
        partner[rows] = columns
        return np.flatnonzero(partner[row] != column)

    def differences(self, groups: tuple[str, ...] = GROUPS) -> list[tuple[str, str, str]]:
        """What the two ``run.json`` say differently in these groups: the name, and what each
        says."""
        first, second = (_flat(facts, groups) for facts in self.facts)
        names = [
            name for name in dict.fromkeys([*first, *second]) if first.get(name) != second.get(name)
        ]
        return [(name, _said(first.get(name)), _said(second.get(name))) for name in names]


def compare(first: str | os.PathLike[str], second: str | os.PathLike[str]) -> Comparison:
    """Compare the results in two folders that `cluster`, `rays` or `unmix` wrote; the data is not
    read.

    Samples and features are matched by name. Two clusterings are compared by their labels and rays,
    two runs of `unmix` by their components; a clustering and a run of `rays` by their rays.
    """
    paths = Path(first), Path(second)
    facts = run_facts(paths[0]), run_facts(paths[1])
    kinds = tuple(said["kind"] for said in facts)
    if ("unmix" in kinds) and kinds[0] != kinds[1]:
        raise InvalidInputError(
            f"a run of {kinds[0]} and a run of {kinds[1]} have nothing to compare; give two runs of"
            " unmix, or two others."
        )
    arrays = run_arrays(paths[0]), run_arrays(paths[1])
    for path, said, found in zip(paths, facts, arrays, strict=True):
        _check_arrays(path, said, found)
    samples, rows = _common(arrays, "sample_names", paths)
    names = str(first), str(second)
    if kinds == ("unmix", "unmix"):
        return Comparison(names, facts, samples, matches=_matched(arrays, paths))
    rays = (
        arrays[0]["feature_names"][arrays[0]["ray_indices"]],
        arrays[1]["feature_names"][arrays[1]["ray_indices"]],
    )
    if kinds != ("cluster", "cluster"):
        return Comparison(names, facts, samples, None, rays)
    if not len(samples):
        raise InvalidInputError(
            "the two runs have no sample in common; samples are matched by their names."
        )
    return Comparison(
        names, facts, samples, (labels_of(arrays[0])[rows[0]], labels_of(arrays[1])[rows[1]]), rays
    )


def _check_arrays(path: Path, facts: dict[str, Any], arrays: dict[str, AnyArray]) -> None:
    """What is compared is there and has the sizes of the run; `verify` checks the rest."""
    n, m = facts["data"]["n_samples"], facts["data"]["n_features"]
    whole = {"sample_names": ("U", n), "feature_names": ("U", m)}
    whole |= (
        {"components": ("f", None)} if facts["kind"] == "unmix" else {"ray_indices": ("i", None)}
    )
    whole |= {"A": ("f", n), "components": ("f", None)} if facts["kind"] == "cluster" else {}
    for name, (kind, length) in whole.items():
        if (
            name not in arrays
            or arrays[name].dtype.kind != kind
            or arrays[name].ndim == 0
            or len(arrays[name]) != (length or len(arrays[name]))
        ):
            raise RunFolderError(
                f"{FACTORS} in {str(path)!r} has no {name!r} of this run; it is damaged or of"
                " another run."
            )
    sound: dict[str, Callable[[], bool]] = {
        "cluster": lambda: arrays["A"].shape == (n, len(arrays["components"])) != (n, 0),
        "unmix": lambda: arrays["components"].ndim == 2 and arrays["components"].shape[1] == m,
    }
    rays = arrays.get("ray_indices", np.zeros(0, np.int64))
    if (
        (facts["kind"] in sound and not sound[facts["kind"]]())
        or rays.ndim != 1
        or ((rays < 0) | (rays >= m)).any()
    ):
        raise RunFolderError(
            f"the arrays of {FACTORS} in {str(path)!r} do not fit each other; it is damaged or of"
            " another run."
        )


def _common(
    arrays: Any, key: str, paths: tuple[Path, Path]
) -> tuple[AnyArray, tuple[IntArray, IntArray]]:
    """The names that both have, in the order of the first, and their places in each."""
    first, second = arrays[0][key], arrays[1][key]
    if np.array_equal(first, second):
        return first, (np.arange(len(first)), np.arange(len(first)))
    for path, names in zip(paths, (first, second), strict=True):
        values, counts = np.unique(names, return_counts=True)
        if counts.max(initial=1) > 1:
            what = key.partition("_")[0]
            raise InvalidInputError(
                f"{str(path)!r} has several {what}s called {str(values[counts.argmax()])!r};"
                f" {what}s are matched by name."
            )
    common, one, two = np.intersect1d(first, second, assume_unique=True, return_indices=True)
    order = np.argsort(one, kind="stable")
    return common[order], (one[order], two[order])


def _matched(arrays: Any, paths: tuple[Path, Path]) -> list[Match]:
    """Pairs of components with the largest sum of cosines."""
    features, columns = _common(arrays, "feature_names", paths)
    if not len(features):
        raise InvalidInputError(
            "the two runs have no feature in common; features are matched by their names."
        )
    first, second = (
        _unit(found["components"][:, at]) for found, at in zip(arrays, columns, strict=True)
    )
    cosines = np.clip(first @ second.T, 0.0, 1.0)
    return [
        Match(int(i), int(j), float(np.degrees(np.arccos(cosines[i, j]))))
        for i, j in zip(*linear_sum_assignment(-cosines), strict=True)
    ]


def _unit(rows: AnyArray) -> FloatArray:
    scaled = np.asarray(rows, np.float64) / max(float(rows.max(initial=0.0)), np.finfo(float).tiny)
    lengths = np.linalg.norm(scaled, axis=1, keepdims=True)
    unit: FloatArray = scaled / np.where(lengths > 0, lengths, 1.0)
    return unit


def _flat(facts: dict[str, Any], groups: tuple[str, ...]) -> dict[str, Any]:
    """Names and values of some groups, such as "parameters, method"."""
    found = {"kind": facts["kind"]}
    for group in groups:
        part = facts.get(group)
        part = part if isinstance(part, dict) else {}
        found |= {
            f"{group}, {name}": value
            for name, value in part.items()
            if name not in PLACES and not isinstance(value, dict)
        }
    return found


def _said(value: Any) -> str:
    return "none" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
