"""Size of certificates against the data: the file that `Cone.save` writes, and the certificate in
memory, over the bytes of the points.

python benchmarks/certificate_size.py [--exact] [--sets MED ORL ...] [--cells 1000x2000 2500x3000]

The points are the features. Their bytes are those of the array, or of the three arrays of a CSR
array with 32-bit indices, in float64. The file holds the rays too, which are most of the points.
Cells are synthetic counts, of which about a tenth are not zero.
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from common import DATA, machine

SETS = (
    "AMLALL",
    "DUKE",
    "KHAN",
    "MED",
    "CITESEER",
    "WEBKB4",
    "7SECTORS",
    "REUTERS",
    "ORL",
    "UMIST",
    "YALEB",
    "SC_POLLEN",
    "WAP",
)
MADE = {
    "dense 300 x 2000": (300, 2000),
    "dense 2000 x 300": (2000, 300),
    "dense 4000 x 10": (4000, 10),
}


def cells(n_cells: int, n_genes: int, seed: int = 0) -> sp.csr_array:
    """Negative-binomial counts (cells, genes) of eight kinds of cells, with library sizes; genes
    that no cell has are left out."""
    rng = np.random.default_rng(seed)
    mean = rng.lognormal(-2.0, 1.6, n_genes)
    fold = np.exp(rng.normal(size=(8, n_genes)) * (rng.random((8, n_genes)) < 0.1))
    kind, depth = rng.integers(8, size=n_cells), 0.35 * rng.lognormal(0, 0.35, n_cells)
    mu = depth[:, None] * mean * fold[kind]
    X = sp.csr_array(rng.poisson(rng.gamma(2.0, mu / 2)).astype(np.float64))
    return sp.csr_array(X[:, np.flatnonzero(X.sum(axis=0))])


def stored(name: str) -> sp.csr_array | np.ndarray:
    """The table (features, samples) of a file of the folder of data, which are in the paper's
    orientation."""
    with np.load(DATA / f"{name}.npz") as file:
        if "X" in file:
            return np.asarray(file["X"], np.float64)
        shape = tuple(file["shape"])
        kind = sp.csr_array if len(file["indptr"]) == shape[0] + 1 else sp.csc_array
        return sp.csr_array(
            kind((file["data"].astype(np.float64), file["indices"], file["indptr"]), shape=shape)
        )


def n_bytes(value: object) -> int:
    """Bytes of an array, of a sparse array, or of all arrays of a certificate."""
    if sp.issparse(value):
        return sum(part.nbytes for part in (value.data, value.indices, value.indptr))
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, tuple):
        return sum(n_bytes(part) for part in value)
    return (
        sum(n_bytes(getattr(value, f.name)) for f in dataclasses.fields(value))
        if dataclasses.is_dataclass(value)
        else 0
    )


def measure(name: str, P: sp.csr_array | np.ndarray, effort: str, folder: Path) -> None:
    """Print the line of the points ``P``."""
    from conecollapse import Cone

    cone = Cone.from_points(P, effort=effort)
    cone.save(folder / "cone.npz")
    data, file = n_bytes(P), (folder / "cone.npz").stat().st_size
    memory = n_bytes(cone.certificate) + n_bytes(cone.rays)
    kinds = ", ".join(sorted({family.kind for family in cone.certificate.witnesses}))
    print(
        f"| {name} | {P.shape[0]} x {P.shape[1]} | {cone.n_rays} | {len(cone.open_points)} |"
        f" {data / 1e6:.2f} | {file / data:.2f} | {memory / data:.2f} |"
        f" {n_bytes(cone.certificate) / data:.2f} | {kinds} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--exact", action="store_true", help="exact cones; quick ones by default")
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--cells", nargs="*", default=["1000x2000", "2500x3000"])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(machine())
    effort = "exact" if options.exact else "quick"
    print(
        f"{effort} cones. Over the bytes of the points: file, memory (rays and certificate),"
        " certificate."
    )
    print("| points | size | rays | open | MB | file | memory | certificate | witnesses |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for name, (m, n) in MADE.items():
            measure(name, np.random.default_rng(0).random((m, n)), effort, Path(folder))
        for name in options.sets:
            if (DATA / f"{name}.npz").is_file():
                measure(name, stored(name), effort, Path(folder))
            else:
                print(f"| {name} | not at hand |")
        for size in options.cells:
            n_cells, n_genes = (int(part) for part in size.split("x"))
            measure(f"cells {size}", sp.csr_array(cells(n_cells, n_genes).T), effort, Path(folder))


if __name__ == "__main__":
    main()
