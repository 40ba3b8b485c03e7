"""Cells from an ``.h5ad`` file: the command, and `conecollapse.scverse` on a backed file; seconds,
processor time and memory of each.

``python benchmarks/cells.py [--cells 8000] [--genes 15000] [--folder F]``, with
``--only command,scverse,programs,fit`` for some of its parts.
The counts are gamma-Poisson with eight programs and cells of different depth, about 11 % of them
not zero. Each part runs in a process of its own, whose peak memory is that of the whole process.
The last part compares ``fit(adata)`` with ``fit(adata.X)`` in one process.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import scipy.sparse as sp
from common import cell_counts

SCVERSE = """
import anndata, sys
from conecollapse import scverse
adata = anndata.read_h5ad(sys.argv[1], backed="r")
scverse.{what}
"""
FIT = """
import anndata, sys, time, warnings
from conecollapse import CCNMF
warnings.simplefilter("ignore")
adata = anndata.read_h5ad(sys.argv[1])[:1000, :3000].copy()
CCNMF(6, random_state=0).fit(adata.X)
for table in (adata.X, adata):
    times = []
    for _ in range(3):
        start = time.process_time()
        CCNMF(6, random_state=0).fit(table)
        times.append(time.process_time() - start)
    print(f"fit({type(table).__name__}): {min(times):.2f} s of processor time")
"""


def write_cells(path: Path, n_cells: int, n_genes: int) -> None:
    """Counts in float32, as most files have them."""
    counts, kind = cell_counts(n_cells, n_genes, 0.35)
    X = sp.csr_matrix(counts.astype(np.float32))
    obs = pd.DataFrame({"kind": kind.astype(str)}, index=[f"cell{i}" for i in range(n_cells)])
    anndata.AnnData(
        X, obs=obs, var=pd.DataFrame(index=[f"gene{j}" for j in range(n_genes)])
    ).write_h5ad(path)
    print(f"{n_cells} cells x {n_genes} genes, {X.nnz / n_cells / n_genes:.1%} not zero")


def measured(name: str, arguments: list[str]) -> None:
    """Run a command; its wall time, processor time and peak memory."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run([sys.executable, *arguments], check=False, capture_output=True, text=True)
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(
        f"{name}: {seconds:.0f} s, {spent:.0f} s of processor time, peak"
        f" {after.ru_maxrss / 2**20:.2f} GiB (largest so far)"
    )
    print(
        "  " + (done.stdout if done.returncode == 0 else done.stderr).strip().replace("\n", "\n  ")
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", type=int, default=8000)
    parser.add_argument("--genes", type=int, default=15000)
    parser.add_argument(
        "--only", default="scverse,command,fit", help="parts, with commas between them"
    )
    parser.add_argument(
        "--folder", type=Path, help="where the file is kept; a temporary folder by default"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        file = folder / f"cells-{arguments.cells}-{arguments.genes}.h5ad"
        if not file.exists():
            write_cells(file, arguments.cells, arguments.genes)
        command = [
            "-m",
            "conecollapse",
            "cluster",
            str(file),
            "-k",
            "8",
            "--normalize",
            "cells",
            "--labels-from",
            "obs:kind",
        ]
        parts = {
            "scverse": lambda: measured(
                "scverse.cluster, backed",
                ["-c", SCVERSE.format(what="cluster(adata, 8)"), str(file)],
            ),
            "programs": lambda: measured(
                "scverse.programs, backed",
                ["-c", SCVERSE.format(what="programs(adata, 8)"), str(file)],
            ),
            "command": lambda: measured("command", [*command, "--out", str(folder / "clusters")]),
            "fit": lambda: measured("fit", ["-c", FIT, str(file)]),
        }
        for name in arguments.only.split(","):
            parts[name]()


if __name__ == "__main__":
    main()
