"""From a table to a folder of results that anyone can check.

`prepare` weights and scales a table, `cluster` and `rays` compute, `save` writes a complete folder
or none, `verify` checks a folder against the data. Each is imported when it is first asked for, so
that a mistake in a file is told before the estimators are imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from conecollapse._lookup import on_demand

if TYPE_CHECKING:
    from conecollapse.runs.clustering import cluster, rays
    from conecollapse.runs.facts import results
    from conecollapse.runs.folder import check_folder
    from conecollapse.runs.preparing import NORMALIZATIONS, prepare
    from conecollapse.runs.run import Interrupted, RaysRun, Run
    from conecollapse.runs.saving import save
    from conecollapse.runs.verifying import Verification, verify

_HOMES = {
    "conecollapse.runs.clustering": (
        "cluster",
        "rays",
    ),
    "conecollapse.runs.facts": ("results",),
    "conecollapse.runs.folder": ("check_folder",),
    "conecollapse.runs.preparing": (
        "NORMALIZATIONS",
        "prepare",
    ),
    "conecollapse.runs.run": (
        "Interrupted",
        "RaysRun",
        "Run",
    ),
    "conecollapse.runs.saving": ("save",),
    "conecollapse.runs.verifying": (
        "Verification",
        "verify",
    ),
}

__all__ = [
    "NORMALIZATIONS",
    "Interrupted",
    "RaysRun",
    "Run",
    "Verification",
    "check_folder",
    "cluster",
    "prepare",
    "rays",
    "results",
    "save",
    "verify",
]

__getattr__ = on_demand(__name__, _HOMES)
