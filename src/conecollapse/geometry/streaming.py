"""The cone of points that are never held together: block by block, merged as they come, or
shortened by QR.

Blocks are merged like the digits of a binary counter: two cones of equally many blocks become one
at once, so that every point takes part in a logarithmic number of merges, and neighbours stay
neighbours, so that points keep their numbers. With a checkpoint every cone of that counter is a
file; what is on disk is the state of the run, and nothing else is.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._checks import check_callable
from conecollapse._errors import CheckpointError, ClusterError, InvalidInputError
from conecollapse._linalg import as_dense, unit_rows
from conecollapse._types import AnyArray, Effort, FloatArray, IntArray, Points, Progress
from conecollapse.certificates import Certificate
from conecollapse.geometry.blocks import HELD_RAYS, part_of_features, points_of
from conecollapse.geometry.cone_file import read_beside, read_cone, write_cone
from conecollapse.geometry.merging import Part, merge, part_of, warn_if_too_coarse
from conecollapse.geometry.tall import (
    column_units,
    in_units,
    stacked,
    tall_certificate,
    triangular,
    triangular_of,
)
from conecollapse.tables import BlockedTable
from conecollapse.tables.survey import check_block


@dataclass(frozen=True)
class _Digit:
    """The cone of neighbouring blocks, merged from ``2**level`` of them, with a digest of each."""

    level: int
    first: int  # number of the first block
    part: Part
    digests: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"cone-{self.level:02d}-{self.first:08d}-{len(self.digests):08d}.npz"

    def joined(self, other: _Digit, level: int) -> _Digit:
        """This one and the next as one."""
        part = merge(self.part, other.part)
        return _Digit(level, self.first, part, self.digests + other.digests)


class MergeStack:
    """Cones of neighbouring blocks, the earliest first, merged as soon as two of the same level
    meet; with a folder each is kept as a file, beside the digests of its blocks and ``tol``."""

    def __init__(self, tol: float, checkpoint: str | PathLike[str] | None = None) -> None:
        self.tol = tol
        self.folder = None if checkpoint is None else Path(checkpoint)
        self.digits: list[_Digit] = []
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._restore(self.folder)

    @property
    def n_blocks(self) -> int:
        """Blocks in the cones so far."""
        return sum(len(digit.digests) for digit in self.digits)

    @property
    def n_points(self) -> int:
        """Points in the cones so far."""
        return sum(digit.part.n_points for digit in self.digits)

    def check(self, k: int, found: str) -> None:
        """Refuse another block in the place of block ``k``, which is done."""
        digests = [made for digit in self.digits for made in digit.digests]
        if digests[k] != found:
            raise CheckpointError(
                f"block {k} is not the block that the checkpoint was made from; use another folder,"
                " or the same blocks."
            )

    def push(self, part: Part, block_digest: str = "") -> None:
        """Add the next block. Points that are zero have no cone: they join the block before, or
        after."""
        last = self.digits[-1] if self.digits else None
        new = _Digit(0, self.n_blocks, part, (block_digest,))
        if last is not None and None in (part.certificate, last.part.certificate):
            self._replace([last], last.joined(new, last.level))
        else:
            self._replace([], new)
        self._carry()

    def finish(self) -> Part:
        """The part of everything, merged from the latest backwards."""
        part = self.digits[-1].part
        for digit in reversed(self.digits[:-1]):
            part = merge(digit.part, part)
        return part

    def _carry(self) -> None:
        while len(self.digits) > 1 and self.digits[-2].level == self.digits[-1].level:
            a, b = self.digits[-2:]
            self._replace([a, b], a.joined(b, a.level + 1))

    def _replace(self, old: list[_Digit], new: _Digit) -> None:
        """On disk the new cone is there before the old ones go, so that a run killed in between
        loses nothing."""
        self.digits[len(self.digits) - len(old) :] = [new]
        if self.folder is None or new.part.certificate is None:
            return
        beside = {"digests": np.array(new.digests), "tol": np.array(self.tol)}
        write_cone(self.folder / new.name, *new.part.whole(), beside)
        for digit in old:
            (self.folder / digit.name).unlink(missing_ok=True)

    def _restore(self, folder: Path) -> None:
        named = [
            (re.fullmatch(r"cone-(\d+)-(\d+)-(\d+)\.npz", file.name), file)
            for file in sorted(folder.iterdir())
        ]
        found = sorted((int(m[2]), -int(m[3]), int(m[1]), file) for m, file in named if m)
        for first, minus_count, level, file in found:
            if first == self.n_blocks:
                self.digits.append(_Digit(level, first, *self._read(file, -minus_count)))
            elif first > self.n_blocks:
                raise CheckpointError(
                    f"{str(file)!r} does not follow on block {self.n_blocks - 1}; the checkpoint"
                    " misses a file."
                )
        self._carry()

    def _read(self, file: Path, n_blocks: int) -> tuple[Part, tuple[str, ...]]:
        """The cone of so many blocks, and their digests."""
        rays, certificate, names = read_cone(file)
        beside = read_beside(file)
        digests, tol = beside.get("digests", np.zeros(0)), beside.get("tol", np.zeros(0))
        if (
            not isinstance(certificate, Certificate)
            or digests.shape != (n_blocks,)
            or tol.dtype != np.float64
            or tol.ndim
        ):
            raise CheckpointError(
                f"{str(file)!r} holds a cone that no checkpoint wrote; use another folder."
            )
        # merged cones may state a larger tolerance than was asked for
        if float(tol) != self.tol:
            raise CheckpointError(
                f"the checkpoint was made with tol = {float(tol)!r}, not {self.tol!r}; use another"
                " folder."
            )
        return Part(certificate.n_points, rays, certificate, names), tuple(map(str, digests))


def part_of_blocks(
    blocks: Iterable[Any],
    tol: float,
    checkpoint: str | PathLike[str] | None,
    progress: Progress,
    effort: Effort = "exact",
) -> Part:
    """See `Cone.from_blocks`."""
    check_callable(progress, "progress")
    stack = MergeStack(tol, checkpoint)
    done, count, first = stack.n_blocks, 0, 0
    for points, names in _checked(blocks, tol, "P", "points of dimension {}"):
        block_digest = "" if stack.folder is None else digest(points)
        count, first = count + 1, first + points.shape[0]
        if count <= done:
            stack.check(count - 1, block_digest)
            continue
        stack.push(part_of(points, tol, names, effort), block_digest)
        if progress is not None:
            progress("blocks", first, first)
    if count < done:
        raise CheckpointError(
            f"the checkpoint holds {done} blocks, but only {count} were given; use another"
            " folder, or the same blocks."
        )
    return stack.finish()


def digest(points: Points) -> str:
    """A hash of the values of a block, whatever its layout."""
    parts = (
        (points.indptr, points.indices, points.data)
        if sp.issparse(points)
        else (np.ascontiguousarray(points),)
    )
    found = hashlib.blake2b(repr((points.shape, sp.issparse(points))).encode(), digest_size=16)
    for part in parts:
        found.update(np.ascontiguousarray(part).data)
    return found.hexdigest()


def _checked(
    blocks: Iterable[Any], tol: float, name: str, width_is: str
) -> Iterator[tuple[Points, AnyArray | None]]:
    """The blocks, each checked, and the labels of their rows."""
    first, width = 0, None
    for k, block in enumerate(blocks):
        checked = check_block(block, (first, 0), f"block {k}", name)
        if width is None:
            warn_if_too_coarse(checked.dtype, tol)
            width = checked.shape[1]
        if checked.shape[1] != width:
            raise InvalidInputError(
                f"block {k} has {width_is.format(checked.shape[1])}, the ones before had {width}."
            )
        yield checked, np.asarray(block.index) if hasattr(block, "iloc") else None
        first += checked.shape[0]
    if width is None:
        raise InvalidInputError("there are no blocks; at least one is needed.")


def part_of_samples(blocks: Iterable[Any], tol: float, effort: Effort = "exact") -> Part:
    """See `Cone.from_samples`."""
    counts: list[int] = []

    def counted() -> Iterator[AnyArray]:
        for block, _ in _checked(blocks, tol, "X", "{} features"):
            counts.append(block.shape[0])
            yield as_dense(block)

    R = triangular_of(counted())
    return Part(R.shape[1], None, tall_certificate(R, sum(counts), tol, effort))


def part_of_table(
    table: BlockedTable,
    tol: float,
    checkpoint: str | PathLike[str] | None = None,
    effort: Effort = "exact",
) -> Part:
    """See `Cone.from_table`."""
    _ = table.survey  # refuses what cannot be used
    table = table.oriented()
    warn_if_too_coarse(table.dtype, tol)
    if table.axis == 0:
        return with_held_rays(
            table, tall_certificate(triangular_of_table(table), table.shape[0], tol, effort)
        )
    if checkpoint is not None:
        return _resumable(table, tol, checkpoint, effort)
    try:
        part = part_of_features(table, tol, effort)
        return part_of_merges(table, tol, effort) if part is None else part
    except ClusterError as error:
        raise ClusterError(
            error.what,
            "The rays of its blocks are lost and nothing was saved; start a cluster and call again."
            " Cone.from_table(X, checkpoint=folder) keeps them as they come.",
        ) from error


def part_of_merges(table: BlockedTable, tol: float, effort: Effort) -> Part:
    """The part of a table in blocks of features: each block by itself, then merged in pairs."""
    part: Part = table.reduce(_part_of_columns, merge, (tol, effort), stage="rays")
    return part


def triangular_of_table(table: BlockedTable) -> FloatArray:
    """The R of a table in blocks of samples, with each column in a unit of its own."""
    return np.asarray(
        table.reduce(_triangular_of, stacked, column_units(table.survey.peaks), stage="qr")
    )


def _resumable(
    table: BlockedTable, tol: float, checkpoint: str | PathLike[str], effort: Effort
) -> Part:
    """The parts of blocks of features merged here as they come, each merge saved."""
    stack = MergeStack(tol, checkpoint)
    done = stack.n_blocks
    if done > table.n_blocks or (done and stack.n_points != table.bounds[done]):
        raise CheckpointError(
            f"the checkpoint holds {stack.n_points} points in {done} blocks, which are not the"
            " first of this table."
        )
    for k, found in enumerate(islice(table.visit_from(0, _digest_of, stage="digests"), done)):
        stack.check(k, found)
    asked = (tol, effort)
    try:
        for found, part in table.visit_from(done, _noted_part, None, asked, stage="rays"):
            stack.push(part, found)
    except ClusterError as error:
        raise ClusterError(
            error.what,
            f"The cones of the first {stack.n_blocks} of {table.n_blocks} blocks are saved in"
            f" {str(checkpoint)!r}; start a cluster and make the same call to go on from there.",
        ) from error
    return stack.finish()


def with_held_rays(
    table: BlockedTable, certificate: Certificate, held_rays: int = HELD_RAYS
) -> Part:
    """The part of a table in blocks of samples, with its rays if these have at most ``held_rays``
    entries."""
    indices = certificate.rays
    if len(indices) * table.shape[0] > held_rays:
        return Part(certificate.n_points, None, certificate)
    columns = np.concatenate(table.visit(take_columns, shared=indices)).astype(np.float64)
    return Part(certificate.n_points, unit_rows(np.ascontiguousarray(columns.T))[0], certificate)


def take_columns(block: Points, _: Any, indices: IntArray) -> AnyArray:
    """These columns of a dense block."""
    return np.asarray(block[:, indices])


def _part_of_columns(block: Points, _: Any, asked: tuple[float, Effort]) -> Part:
    tol, effort = asked
    return part_of(points_of(block), tol, effort=effort)


def _noted_part(block: Points, _: Any, asked: tuple[float, Effort]) -> tuple[str, Part]:
    points, (tol, effort) = points_of(block), asked
    return digest(points), part_of(points, tol, effort=effort)


def _digest_of(block: Points, _: Any, __: Any) -> str:
    return digest(points_of(block))


def _triangular_of(block: AnyArray, _: Any, units: FloatArray) -> FloatArray:
    return triangular(in_units(block, units))
