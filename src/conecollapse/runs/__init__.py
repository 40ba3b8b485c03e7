"""From a table to a folder of results that anyone can check.

`prepare` weights and scales a table, `cluster` and `rays` compute, `save` writes a complete folder or none, `verify` checks a folder
against the data. Each is imported when it is first asked for, so that a mistake in a file is told before the estimators are imported.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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
_HOME = {name: module for module, names in _HOMES.items() for name in names}

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


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
