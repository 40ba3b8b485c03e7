"""From a table to a folder of results that anyone can check.

`prepare` weights and scales a table; `cluster`, `programs`, `rays`, `unmix` and `judge` compute a
`Run`; `save` writes a complete folder or none; `verify` checks a folder against the data. Each is
imported when it is first asked for, so that a mistake in a file is told before the estimators are
imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from conecollapse._lookup import on_demand

if TYPE_CHECKING:
    from conecollapse.runs.clustering import ClusterRun, cluster
    from conecollapse.runs.extreme_rays import RaysRun, rays
    from conecollapse.runs.folder import check_folder
    from conecollapse.runs.gene_programs import ProgramsRun, programs
    from conecollapse.runs.novelty import NoveltyRun, judge
    from conecollapse.runs.predicting import Prediction, predict
    from conecollapse.runs.preparing import NORMALIZATIONS, prepare
    from conecollapse.runs.run import Interrupted, Run, save
    from conecollapse.runs.unmixing import UnmixRun, unmix
    from conecollapse.runs.verifying import Verification, verify

_HOMES = {
    "conecollapse.runs.clustering": ("ClusterRun", "cluster"),
    "conecollapse.runs.extreme_rays": ("RaysRun", "rays"),
    "conecollapse.runs.folder": ("check_folder",),
    "conecollapse.runs.novelty": ("NoveltyRun", "judge"),
    "conecollapse.runs.predicting": ("Prediction", "predict"),
    "conecollapse.runs.preparing": ("NORMALIZATIONS", "prepare"),
    "conecollapse.runs.gene_programs": ("ProgramsRun", "programs"),
    "conecollapse.runs.run": ("Interrupted", "Run", "save"),
    "conecollapse.runs.unmixing": ("UnmixRun", "unmix"),
    "conecollapse.runs.verifying": ("Verification", "verify"),
}

__all__ = [
    "NORMALIZATIONS",
    "ClusterRun",
    "Interrupted",
    "NoveltyRun",
    "Prediction",
    "ProgramsRun",
    "RaysRun",
    "Run",
    "UnmixRun",
    "Verification",
    "check_folder",
    "cluster",
    "judge",
    "predict",
    "prepare",
    "programs",
    "rays",
    "save",
    "unmix",
    "verify",
]

__getattr__ = on_demand(__name__, _HOMES)
