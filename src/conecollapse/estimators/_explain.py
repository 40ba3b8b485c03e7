"""By which features samples leave a cone: what `ConeNovelty` and models with a catalogue of
components share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conecollapse._types import AnyArray, FloatArray
from conecollapse.geometry.nearest import NOTHING


class NovelFeature(NamedTuple):
    """A feature in which a sample differs from the nearest mixture: of trusted samples, or of the
    components of a model."""

    column: int
    name: str
    amount: float  # the sample's value minus that of the mixture, in the units of the data
    share: float  # of the squared distance


def leading_features(
    witnesses: FloatArray, names: AnyArray, count: int
) -> list[list[NovelFeature]]:
    """For each witness its largest entries, the largest first; none for a witness of zeros."""
    explained = []
    for g in witnesses:
        squares = np.square(g / max(float(np.abs(g).max()), np.finfo(float).tiny))
        top = [int(j) for j in np.argsort(-squares, kind="stable")[:count] if squares[j] > NOTHING]
        explained.append(
            [
                NovelFeature(j, str(names[j]), float(g[j]), float(squares[j] / squares.sum()))
                for j in top
            ]
        )
    return explained
