r"""Candidates for the components of a mixture, and the choice between them without labels.

Candidates begin as samples that the greedy cone, SPA, SNPA and VCA choose, and as the cone of
minimum volume. Each is improved by steps of second order on J
(`conecollapse.factorization.mixtures.distance`), a few steps for all and more for the best; from
the best ones the facets are searched, too (`conecollapse.factorization.mixtures.facets`). All are
judged by J, and the best is improved on all samples. Nothing else chooses.

Where what the subspace leaves has a structure of its own, as in most measured scenes, N is a guess,
and the minimum of J may be far from where it leads to: on parts of two measured scenes it was at
6.4 degrees, the cone of minimum volume at 6.0 (geometric means). There candidates are judged as
they are.

*How sure.* Candidates within one unit of J are about as good; `spread` is how far they are apart.
Two of them are the best one improved with a volume that counts `MORE_OR_LESS` times as much or as
little: samples are not spread evenly over the mixtures, as J assumes, and this is what the
assumption decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from conecollapse._linalg import dense_rows
from conecollapse._types import BoolArray, FloatArray
from conecollapse.factorization.mixtures.distance import Distance, lower_distance
from conecollapse.factorization.mixtures.facets import search_facets
from conecollapse.factorization.mixtures.samples import Samples
from conecollapse.geometry.selections import SELECTIONS

CHOICES = {  # method and scaling
    "cone, mass": ("cone", "raw"),
    "cone, unit length": ("cone", "length"),
    "SPA": ("spa", "raw"),
    "SPA, unit sum": ("spa", "sum"),
    "SPA, unit length": ("spa", "length"),
    "SNPA": ("snpa", "raw"),
    "VCA": ("vca", "raw"),
}
FIRST_STEPS = 15  # of J for every candidate
FINALISTS = 3  # candidates that are improved until they stand, and whose facets are searched
FINAL_STEPS = 100
SAME = 1e-3  # of J: candidates as near as that are one
MOST_FACETS = 15  # components up to which single facets help: of more, samples violate several
UNIT = 1.0  # of J: candidates within it are about as good
MORE_OR_LESS = 4.0


def say_nothing(stage: str) -> None:
    """No progress."""


@dataclass(frozen=True)
class Candidate:
    """Rays, how they were found, and what the criterion says."""

    name: str
    value: float  # J
    B: FloatArray


def search_candidates(
    samples: Samples,
    starts: dict[str, FloatArray],
    *,
    free: BoolArray | None = None,
    told: Callable[[str], object] = say_nothing,
) -> list[Candidate]:
    """Candidates from all ``starts`` (rays), best first; rows that are not ``free`` stay."""
    if samples.is_structured:
        return judge_candidates(samples, starts)
    core = samples.core()
    found: list[Candidate] = []

    def add(name: str, B: FloatArray, steps: int) -> None:
        told(name)
        try:
            state = lower_distance(core, B, free=free, max_iter=steps)
        except np.linalg.LinAlgError:  # two rays became one
            return
        if np.isfinite(state.value):
            found.append(Candidate(name, state.value, state.B))

    for name, B in starts.items():
        add(name, B, FIRST_STEPS)
    finalists = distinct(found)[:FINALISTS]
    for candidate in finalists:
        add(candidate.name, candidate.B, FINAL_STEPS)
        if samples.Z.shape[1] <= MOST_FACETS:
            add_facets(core, starts[candidate.name], candidate.name, add, free)
    found = distinct(found)
    if core is samples:
        return found
    told("all samples")
    best = lower_distance(samples, found[0].B, free=free)
    return [Candidate(found[0].name, best.value, best.B), *found[1:]]


def judge_candidates(samples: Samples, starts: dict[str, FloatArray]) -> list[Candidate]:
    """The starts by what J says of them as they are."""
    objective = Distance(samples)
    found = [Candidate(name, objective.evaluate(B).value, B) for name, B in starts.items()]
    return distinct([candidate for candidate in found if np.isfinite(candidate.value)])


def add_facets(
    core: Samples,
    B: FloatArray,
    name: str,
    add: Callable[[str, FloatArray, int], None],
    free: BoolArray | None,
) -> None:
    try:
        add(f"facets from {name}", search_facets(core, B, free=free), FINAL_STEPS)
    except np.linalg.LinAlgError:
        return


def distinct(found: list[Candidate]) -> list[Candidate]:
    """Best first, one of those that are the same."""
    kept: list[Candidate] = []
    for candidate in sorted(found, key=lambda c: c.value):
        if all(abs(candidate.value - other.value) > SAME for other in kept):
            kept.append(candidate)
    return kept


def chosen_starts(core: Samples) -> dict[str, FloatArray]:
    """Samples chosen by each of the `CHOICES`."""
    r = core.Z.shape[1]
    starts = {}
    for name, (method, scaling) in CHOICES.items():
        rng = np.random.default_rng(0)
        indices = SELECTIONS[method](core.points, r, scaling, rng)
        if len(set(indices.tolist())) == r:
            starts[name] = dense_rows(core.points, indices).astype(np.float64)
    return starts
