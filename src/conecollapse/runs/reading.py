"""The files of a folder of results, read back: each is whole and has the form of a run, or the
error says which is damaged."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from conecollapse._errors import InvalidInputError, RunFolderError, quoted
from conecollapse._types import AnyArray
from conecollapse.clusters import NO_CLUSTER
from conecollapse.io.envi import BANDS
from conecollapse.io.h5ad import HIGHLY_VARIABLE
from conecollapse.io.npz import load_npz
from conecollapse.runs.folder import FACTORS, FACTS, FORMAT

if TYPE_CHECKING:
    from conecollapse.geometry.cone import Cone


@dataclass(frozen=True, eq=False)
class Stored:
    """A folder of results as it was read; nothing of it is checked but its form."""

    path: Path
    facts: dict[str, Any]
    arrays: dict[str, AnyArray]
    cone: Cone


def run_facts(path: Path) -> dict[str, Any]:
    """The content of run.json, refused unless it is whole and of this version."""
    if not path.is_dir():
        raise RunFolderError(f"there is no folder {str(path)!r}.")
    try:
        facts = json.loads((path / FACTS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunFolderError(f"{str(path)!r} holds no run: it has no {FACTS}.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise RunFolderError(
            f"{FACTS} in {str(path)!r} cannot be read ({error}); it is truncated or damaged."
        ) from error
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        found = facts.get("format") if isinstance(facts, dict) else None
        raise RunFolderError(
            f"{str(path)!r} holds a run of another version ({quoted(found)}, not {FORMAT!r}); use"
            " that version."
        )
    try:
        wanted = facts["data"]["features_in"] in ("rows", "columns") and isinstance(
            facts["data"]["sha256"], str
        )
        wanted = (
            wanted
            and isinstance(facts["preparation"], dict)
            and facts["kind"] in ("cluster", "rays", "unmix")
        )
        wanted = wanted and (_is_unmixing if facts["kind"] == "unmix" else _is_preparation)(
            facts["preparation"]
        )
        wanted = wanted and all(
            isinstance(facts["data"][size], int) for size in ("n_samples", "n_features")
        )
        wanted = wanted and all(
            isinstance(facts[name], dict) for name in ("parameters", "results", "timings")
        )
    except (KeyError, TypeError):
        wanted = False
    if not wanted:
        raise RunFolderError(
            f"{FACTS} in {str(path)!r} is incomplete; it is damaged or was edited."
        )
    return facts


def _is_preparation(said: dict[str, Any]) -> bool:
    steps = said.get("normalize")
    steps = steps if isinstance(steps, list) else [steps or ""]
    return (
        {"normalize", "tfidf"} <= set(said) <= {"normalize", "tfidf", "features"}
        and said.get("features") in (None, HIGHLY_VARIABLE)
        and isinstance(said["tfidf"], bool)
        and all(isinstance(step, str) for step in steps)
    )


def _is_unmixing(said: dict[str, Any]) -> bool:
    """Whether run.json says how the data of an unmixing was read."""
    shape = said.get("shape")
    is_shape = shape is None or (
        isinstance(shape, list) and len(shape) == 2 and all(isinstance(side, int) for side in shape)
    )
    is_known = set(said) == {"clip", "shape", "bands", "variable"} and isinstance(
        said["variable"], str | None
    )
    return is_known and isinstance(said["clip"], bool) and said["bands"] in BANDS and is_shape


def run_arrays(path: Path) -> dict[str, AnyArray]:
    """The arrays of factors.npz."""
    file = path / FACTORS
    if not file.is_file():
        raise RunFolderError(f"{str(path)!r} has no {FACTORS}; it is incomplete.")
    try:
        return load_npz(file)
    except InvalidInputError as error:
        raise RunFolderError(
            f"{FACTORS} in {str(path)!r} cannot be read; it is truncated or damaged."
        ) from error


def labels_of(arrays: dict[str, AnyArray]) -> AnyArray:
    """The cluster of each sample, from the factors: the largest entry of its row of A, or none for
    a row of zeros."""
    A = arrays["A"]
    return np.where(A.any(axis=1), A.argmax(axis=1), NO_CLUSTER)
