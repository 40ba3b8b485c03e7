r"""`programs`: sets of genes that are expressed together, and how much each cell uses them.

The model of a cell is a mixture: its counts are drawn from :math:`p = \sum_k u_k h_k`, where
:math:`h_k` are the shares of the genes in program k and :math:`u_k \ge 0` sum to 1. The usages u
are those under which the counts x are likeliest. With s the sum of x, no other usages are likelier
by more than

.. math:: \max_k \sum_j h_{kj} \frac{x_j}{s\, p_j} - 1

nats for each count, because the logarithm of the likelihood is concave. `verify` computes this for
every cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp

from conecollapse import estimators
from conecollapse._errors import (
    CertificateError,
    InvalidInputError,
    RunFolderError,
    quoted,
)
from conecollapse._types import AnyArray, FloatArray, Progress
from conecollapse.clusters import TopFeature, top_features
from conecollapse.io import TableFile
from conecollapse.runs.clustering import check_clusters, chosen_rank, facts_of_choice
from conecollapse.runs.folder import FACTORS, PROGRAMS, USAGES
from conecollapse.runs.preparing import FORM_OF_PREPARATION
from conecollapse.runs.run import Checked, Run, Stored, sizes, timed
from conecollapse.runs.values import write_csv, write_markers

LOSS = "kullback-leibler"  # the loss for counts
N_RUNS = 20
PER_MILLION = 1e6
TOP = 50  # genes listed for each program
# share of a usage's variance between batches from which the program is called a batch
OF_BATCHES = 0.5
CHUNK = 1024  # cells whose expected counts are formed at a time
IMPOSSIBLE = 1e-100  # the share that is expected of a feature that no used program has
# nats for each count that other usages may gain; for some hundred cells the fit leaves 1e-8
GAIN = 1e-2


@dataclass(frozen=True, eq=False, repr=False)
class ProgramsRun(Run):
    """Programs of the features of a table of counts, which many runs agree on.

    Attributes
    ----------
    components : (r, n_features) array
        As `ConsensusNMF` found them.
    usages : (n_samples, r) array
        Shares that sum to 1, or 0 for a sample of zeros.
    stability : (r,) array
        How alike each program is in all runs; 1 where every run found it.
    batches : (n_samples,) array of str, or None
        With which the usages are compared.
    choice, status : mapping
        As in `ClusterRun`.
    model : ConsensusNMF or None
        Fitted; None where the run was read from a folder.
    """

    kind: ClassVar[str] = "programs"
    form: ClassVar[Mapping[str, Any]] = {
        "preparation": FORM_OF_PREPARATION,
        "parameters": {"n_programs": (int, "auto"), "n_runs": int},
        "results": {"converged": bool, "status": str},
    }
    components: AnyArray
    usages: FloatArray
    stability: FloatArray
    batches: AnyArray | None = None
    choice: Mapping[str, Any] = field(default_factory=dict)
    status: Mapping[str, Any] = field(default_factory=dict)
    model: Any = None

    @property
    def n_programs(self) -> int:
        """Their number."""
        return len(self.components)

    @cached_property
    def spectra(self) -> FloatArray:
        """The features of each program in counts per million, (r, n_features)."""
        return PER_MILLION * as_shares(np.asarray(self.components, np.float64))

    @cached_property
    def z(self) -> FloatArray:
        """`z_scores`, (r, n_features)."""
        return np.ascontiguousarray(z_scores(self.table.X, self.usages).T)

    @property
    def batch_share(self) -> FloatArray:
        """The share of the variance of each usage that lies between batches."""
        assert self.batches is not None
        return between(self.usages, self.batches)

    @property
    def batch_notes(self) -> list[str]:
        """A sentence for each program that is a batch more than a program."""
        if self.batches is None:
            return []
        shares, name = self.batch_share, self.parameters["batches"]
        return [
            f"program {k} is a batch more than a program: {name} explains {shares[k]:.0%} of the"
            " variance of its usage."
            for k in np.flatnonzero(shares >= OF_BATCHES)
        ]

    def top_features(self, n_features: int = TOP) -> list[list[TopFeature]]:
        """The features that distinguish each program, by name; leads are in counts per million."""
        return top_features(self.spectra, self.table.features, n_features)

    def facts(self) -> dict[str, Any]:
        """What was found, in numbers."""
        found = sizes(self.table) | {
            "n_programs": self.n_programs,
            "stability": self.stability,
            "mean_usages": self.usages.mean(axis=0),
            **self.status,
            **self.choice,
        }
        return found if self.batches is None else found | {"batch_share": self.batch_share}

    def arrays(self) -> dict[str, Any]:
        """Components and usages, with the spectra in the units of programs.csv."""
        return {
            "components": self.components,
            "usages": self.usages,
            "stability": self.stability,
            "spectra": self.spectra,
            "z_scores": self.z,
            **({} if self.batches is None else {"batches": self.batches}),
        }

    def write(self, folder: Path, arrays: Mapping[str, AnyArray]) -> None:
        """Write programs.csv (features x programs), usages.csv (samples x programs, and the batch
        where it is known) and markers.csv."""
        names = [f"program_{k}" for k in range(self.n_programs)]
        columns = [*arrays["spectra"].tolist(), *arrays["z_scores"].tolist()]
        heading = ["feature", *names, *(f"{name}_z" for name in names)]
        features = self.table.features.tolist()
        write_csv(folder / PROGRAMS, heading, zip(features, *columns, strict=True))
        cells = [self.table.samples.tolist(), *arrays["usages"].T.tolist()]
        heading = ["sample", *names]
        if self.batches is not None:
            heading, cells = [*heading, "batch"], [*cells, self.batches.tolist()]
        write_csv(folder / USAGES, heading, zip(*cells, strict=True))
        tops = top_features(arrays["spectra"], self.table.features, TOP)
        leading = [[top for top in some if top.lead > 0] for some in tops]
        write_markers(folder, "program", arrays["spectra"], leading)

    @classmethod
    def verify(cls, stored: Stored, read: TableFile, tol: float | None) -> Checked:  # noqa: ARG003
        """No other usages of the programs explain the counts clearly better."""
        arrays, r = stored.arrays, stored.width("usages")
        n, m = read.n_samples, read.n_features
        shapes = {"components": (r, m), "usages": (n, r), "stability": (r,)}
        needed = {name: ("f", shape) for name, shape in shapes.items()}
        stored.check_arrays(needed | ({"batches": ("U", (n,))} if "batches" in arrays else {}))
        if not r or min(arrays["components"].min(), arrays["usages"].min()) < 0:
            raise RunFolderError(f"{FACTORS} holds no programs, or negative ones; it is damaged.")
        stored.check_rank("n_programs", "programs", r)
        run = cls(
            read,
            arrays["components"],
            arrays["usages"],
            arrays["stability"],
            batches=arrays.get("batches"),
            **stored.search,
            **stored.asked,
        )
        gains = gains_of_other_usages(read.X, run.spectra / PER_MILLION, run.usages)
        sums = np.abs(run.usages.sum(axis=1) - (gains > -1))
        for i in np.flatnonzero((gains > GAIN) | (sums > GAIN))[:1]:
            raise CertificateError(
                f"the usages of {quoted(str(read.samples[i]))} in {FACTORS} are not those under"
                f" which its counts are likeliest: others gain up to {gains[i]:.2g} nats for each"
                " count."
            )
        sentence = (
            f"no other usages of the {r} programs make the counts of any of the {n} samples"
            f" likelier by more than {max(float(gains.max()), 0.0):.2g} nats for each count."
        )
        unproven = {
            "that many runs agree on the programs": (
                "parameters.random_state",
                "parameters.n_runs",
                "parameters.batches",
                "results.converged",
                "results.status",
            ),
            "the choice of the number of programs": ("results.rank_reason", "results.rank_curve"),
        }
        return Checked(run, sentence, None, stored.unproven(unproven, "n_programs"))

    def __repr__(self) -> str:
        return f"ProgramsRun({self.n_programs} programs of {self.table.n_samples} samples)"


def programs(
    table: TableFile,
    n_programs: int | Literal["auto"],
    *,
    n_runs: int = N_RUNS,
    batches: Any = None,
    batch_name: str = "the batch",
    random_state: Any = 0,
    progress: Progress = None,
    **options: Any,
) -> ProgramsRun:
    """Find programs of the features of a table of counts, and how much each sample uses them.

    Parameters
    ----------
    table : TableFile
        Counts as they are.
    n_programs : int or "auto"
        "auto" takes as many as there are kinds of samples, by `select_rank`.
    n_runs : int
        Runs from random starts whose programs are brought to a consensus by `ConsensusNMF`.
    batches : (n_samples,) sequence, optional
        The batch of each sample: programs whose usage it explains are said to be batches.
    batch_name : str
        What a sentence calls them.
    random_state : int, Generator, RandomState or None
        Random seed.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.
    **options
        Of `ConsensusNMF`, such as ``n_jobs``.

    Examples
    --------
    >>> from conecollapse.io import read_table
    >>> counts = np.kron(np.eye(2), np.full((5, 3), 9.0)) + np.random.default_rng(0).poisson(
    ...     1.0, (10, 6)
    ... )
    >>> run = programs(read_table(counts), 2, n_runs=3)
    >>> sorted(sorted(gene.name for gene in top) for top in run.top_features(3))
    [['x0', 'x1', 'x2'], ['x3', 'x4', 'x5']]
    """
    check_clusters(n_programs, table, "programs")
    known = None if batches is None else np.array([str(one) for one in batches], np.str_)
    if known is not None and len(known) != table.n_samples:
        raise InvalidInputError(
            f"there are {len(known)} batches for {table.n_samples} samples; give one for each."
        )
    timings: dict[str, float] = {}
    rank = None
    if n_programs == "auto":
        with timed(timings, "rank", progress):
            rank = chosen_rank(table.X, random_state)
    r: Any = n_programs if rank is None else rank.rank
    with timed(timings, "programs", progress):
        model = estimators.ConsensusNMF(
            r, n_runs=n_runs, loss=LOSS, random_state=random_state, **options
        ).fit(table.X, feature_names=table.features)
        W = np.asarray(model.transform(table.X), np.float64)
    H = np.asarray(model.components_, np.float64)
    seed = random_state if isinstance(random_state, (int, np.integer)) else None
    asked = {"n_programs": n_programs, "n_runs": n_runs, "random_state": seed}
    return ProgramsRun(
        table,
        H,
        as_shares(W * H.sum(axis=1)),
        np.asarray(model.stability_, np.float64),
        batches=known,
        choice=facts_of_choice(rank),
        status={"converged": bool(model.converged_), "status": str(model.status_)},
        parameters=asked | ({} if known is None else {"batches": batch_name}),
        timings=timings,
        model=model,
    )


def as_shares(values: FloatArray) -> FloatArray:
    """Each row divided by its sum; rows of zeros stay."""
    total = values.sum(axis=1, keepdims=True)
    return np.asarray(values / np.where(total > 0, total, 1.0))


def z_scores(counts: Any, usage: FloatArray) -> FloatArray:
    """How the z-score of each gene changes with the usage of each program, the others given:
    coefficients of least squares, (n_genes, n_programs).

    Genes are in counts per million, and all cells have the same sum, so that their depth does not
    count.
    """
    X = sp.csr_array(counts, dtype=np.float64)
    total = np.asarray(X.sum(axis=1)).ravel()
    X = sp.csr_array(sp.diags_array(PER_MILLION / np.where(total > 0, total, 1.0)) @ X)
    mean = np.asarray(X.mean(axis=0)).ravel()
    squares = np.asarray((X * X).mean(axis=0)).ravel()
    deviation = np.sqrt(np.maximum(squares - mean**2, 0.0))
    centred = usage - usage.mean(axis=0)
    # centred usages are orthogonal to constants, so the mean of a gene drops out
    slopes = np.asarray(X.T @ np.linalg.pinv(centred).T)
    return np.asarray(slopes / np.where(deviation > 0, deviation, 1.0)[:, None])


def between(usage: FloatArray, batches: AnyArray) -> FloatArray:
    """The share of the variance of each column that lies between batches."""
    _, batch = np.unique(batches, return_inverse=True)
    size = np.bincount(batch)
    means = np.stack([np.bincount(batch, column) / size for column in usage.T])
    variance = usage.var(axis=0)
    apart = ((means - usage.mean(axis=0)[:, None]) ** 2 @ size) / len(usage)
    return np.asarray(apart / np.where(variance > 0, variance, 1.0))


def gains_of_other_usages(X: Any, spectra: FloatArray, usages: FloatArray) -> FloatArray:
    """For each sample a bound on the nats for each count that other usages could gain; -1 for one
    that no program explains anything of."""
    gains = np.full(X.shape[0], -1.0)
    for first in range(0, X.shape[0], CHUNK):
        rows = slice(first, first + CHUNK)
        some = sp.csr_array(X[rows], dtype=np.float64)
        sums = np.asarray(some @ spectra.any(axis=0).astype(np.float64))
        expected = usages[rows] @ spectra
        at = np.repeat(np.arange(some.shape[0]), np.diff(some.indptr)), some.indices
        ratios = some.data / np.maximum(expected[at], IMPOSSIBLE)
        some = sp.csr_array((ratios, some.indices, some.indptr), shape=some.shape)
        best = np.asarray(some @ spectra.T).max(axis=1)
        gains[rows] = best / np.where(sums > 0, sums, 1.0) - 1
    return gains
