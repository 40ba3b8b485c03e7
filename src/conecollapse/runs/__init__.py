"""From a table to a folder of results that anyone can check.

`prepare` weighs and scales a table, `cluster` and `rays` compute, `save` writes a folder whole or not at all, `verify` checks a folder
against the data.
"""

from conecollapse.runs.clustering import cluster, rays
from conecollapse.runs.preparing import NORMALIZATIONS, prepare
from conecollapse.runs.run import Interrupted, RaysRun, Run

__all__ = ["NORMALIZATIONS", "Interrupted", "RaysRun", "Run", "cluster", "prepare", "rays"]
