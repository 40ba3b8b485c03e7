"""The benchmark scripts as asv benchmarks, so that commits can be compared: `make asv`, then
`make asv-compare`.

`time_*` are seconds; `track_*` are our time over that of a named peer in the same process, or a
count. Smaller is better for all. Each class takes one of the problems of its module. The problem
"tiny" is for the tests; a dataset that is not on this machine is skipped.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the scripts, and what they share
