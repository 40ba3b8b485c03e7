"""From a table to a folder of results that anyone can check.

`prepare` weighs and scales a table, `cluster` and `rays` compute, `save` writes a folder whole or not at all, `verify` checks a folder
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
