"""From a table to a folder of results that anyone can check.

`prepare` weights and scales a table, `cluster` and `rays` compute, `save` writes a complete folder or none, `verify` checks a folder
against the data.
"""

from conecollapse.runs.clustering import cluster, rays
from conecollapse.runs.facts import results
from conecollapse.runs.folder import check_folder
from conecollapse.runs.preparing import NORMALIZATIONS, prepare
from conecollapse.runs.run import Interrupted, RaysRun, Run
from conecollapse.runs.saving import save
from conecollapse.runs.verifying import Verification, verify

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
