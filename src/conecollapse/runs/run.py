"""What a run holds: everything that a folder, a report or a test needs of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from conecollapse._types import AnyArray, IntArray
from conecollapse.clusters import TopFeature
from conecollapse.geometry.cone import Cone
from conecollapse.io import TableFile

if TYPE_CHECKING:
    from conecollapse.estimators import RankSelection


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """A clustering, and the cone of the features of the same table.

    Attributes
    ----------
    table : TableFile
        As clustered, that is prepared; ``table.raw`` is the table as it was read, where the two
        differ.
    model : estimator
        Fitted; `GraphCCNMF` or `CCNMF`.
    labels : (n_samples,) array of int
        ``model.labels_``.
    cone : Cone
        ``Cone.from_points(table.X.T)``: certified, of the features whatever the method, with
        ``ray_names``. Rays may be open where they would take long to decide.
    target : (n_samples,) array of str, or None
        Known classes, used only for scoring.
    image_shape : (height, width) or None
        Of a sample, when the features are pixels.
    parameters : mapping
        What was asked for: ``n_components`` (an int or "auto"), ``method``, ``random_state`` and
        ``prove``.
    timings : mapping of stage to seconds
        "rank" (when it was chosen), "cone" and "clusters".
    rank : RankSelection or None
        How the number of clusters was chosen, when it was "auto".
    kind : "cluster"
    """

    table: TableFile
    model: Any
    labels: IntArray
    cone: Cone
    target: AnyArray | None = None
    image_shape: tuple[int, int] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    timings: Mapping[str, float] = field(default_factory=dict)
    rank: RankSelection | None = None
    kind: str = "cluster"

    def top_features(self, n_features: int = 10) -> list[list[TopFeature]]:
        """``model.top_features`` with the names of the table."""
        found: list[list[TopFeature]] = self.model.top_features(
            n_features, names=self.table.features
        )
        return found

    def __repr__(self) -> str:
        return (
            f"Run({self.model.n_components} clusters of {self.table.n_samples} samples,"
            f" {self.cone.n_rays} rays)"
        )


@dataclass(frozen=True, eq=False, repr=False)
class RaysRun:
    """The rays of the features of a table, exact or few.

    Attributes
    ----------
    table, cone, image_shape, parameters, timings
        As in `Run`; ``cone`` is an epsilon-cone when ``max_residual`` or ``max_rays`` was asked
        for.
    kind : "rays"
    """

    table: TableFile
    cone: Cone
    image_shape: tuple[int, int] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    timings: Mapping[str, float] = field(default_factory=dict)
    kind: str = "rays"

    def __repr__(self) -> str:
        return f"RaysRun({self.cone.n_rays} rays of {self.table.n_features} features)"


class Interrupted(KeyboardInterrupt):
    """Ctrl-C came when part of the work was done; ``finished`` holds that part."""

    def __init__(self, message: str, finished: RaysRun | None = None) -> None:
        super().__init__(message)
        self.finished = finished
