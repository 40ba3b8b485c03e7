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
from collections.abc import Callable, Iterable, Iterator
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
from conecollapse.geometry.cone_file import read_cone, write_cone
from conecollapse.geometry.parts import Part, merge, part_of, warn_if_too_coarse
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

DIGESTS = "blocks.txt"  # in the folder of a checkpoint: the tolerance, and a hash of each block


@dataclass
class _Digit:
    """The cone of blocks ``first`` to ``stop - 1``, merged from ``2**level`` of them."""

    level: int
    first: int
    stop: int
    part: Part

    @property
    def name(self) -> str:
        return f"cone-{self.level:02d}-{self.first:08d}-{self.stop:08d}.npz"


class MergeStack:
    """Cones of neighbouring blocks, the earliest first, merged as soon as two of the same level
    meet."""

    def __init__(self, tol: float, checkpoint: str | PathLike[str] | None = None) -> None:
        self.folder = None if checkpoint is None else Path(checkpoint)
        self.digits: list[_Digit] = []
        self.zeros = Part(0)  # leading points that are zero, before any cone
        self.digests: dict[int, str] = {}  # of the blocks, where a checkpoint holds them
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._check_tol(self.folder / DIGESTS, tol)
            self._restore(self.folder)

    @staticmethod
    def _check_tol(notes: Path, tol: float) -> None:
        """The tolerance asked for is noted: merged cones may state a larger one."""
        asked = (
            [
                line.split()[1]
                for line in notes.read_text(encoding="utf-8").splitlines()
                if line.startswith("tol ")
            ]
            if notes.is_file()
            else []
        )
        if asked and asked[0] != repr(tol):
            raise CheckpointError(
                f"the checkpoint was made with tol = {asked[0]}, not {tol!r}; use another folder."
            )
        if not asked:
            with open(notes, "a", encoding="utf-8") as file:
                file.write(f"tol {tol!r}\n")

    def note(self, k: int, block_digest: str) -> None:
        """Write down what block ``k`` holds, so that another one in its place is refused later."""
        if self.folder is not None:
            self.digests[k] = block_digest
            with open(self.folder / DIGESTS, "a", encoding="utf-8") as file:
                file.write(f"{k} {self.digests[k]}\n")

    @property
    def n_blocks(self) -> int:
        """Blocks in the cones so far."""
        return self.digits[-1].stop if self.digits else 0

    @property
    def n_points(self) -> int:
        """Points in the cones so far."""
        return sum(digit.part.n_points for digit in self.digits)

    def push(self, k: int, part: Part) -> None:
        """Add block ``k``, the next one."""
        if not self.digits:
            part = merge(self.zeros, part)
            if part.certificate is None:
                self.zeros = part
                return
            self._append(_Digit(0, 0, k + 1, part))
        elif part.certificate is not None:
            self._append(_Digit(0, self.n_blocks, k + 1, part))
        else:
            last = self.digits[-1]
            self._replace([last], _Digit(last.level, last.first, k + 1, merge(last.part, part)))
        self._carry()

    def finish(self) -> Part:
        """The part of everything, merged from the latest backwards."""
        if not self.digits:
            return self.zeros
        part = self.digits[-1].part
        for digit in reversed(self.digits[:-1]):
            part = merge(digit.part, part)
        return part

    def _append(self, digit: _Digit) -> None:
        self._replace([], digit)

    def _carry(self) -> None:
        while len(self.digits) > 1 and self.digits[-2].level == self.digits[-1].level:
            a, b = self.digits[-2:]
            self._replace([a, b], _Digit(a.level + 1, a.first, b.stop, merge(a.part, b.part)))

    def _replace(self, old: list[_Digit], new: _Digit) -> None:
        """On disk the new cone is there before the old ones go, so that a run killed in between
        loses nothing."""
        self.digits[len(self.digits) - len(old) :] = [new]
        if self.folder is not None:
            write_cone(self.folder / new.name, *new.part.whole())
            for digit in old:
                (self.folder / digit.name).unlink(missing_ok=True)

    def _restore(self, folder: Path) -> None:
        if (folder / DIGESTS).is_file():
            lines = [
                line.split() for line in (folder / DIGESTS).read_text(encoding="utf-8").splitlines()
            ]
            # the last of two counts
            self.digests = {
                int(line[0]): line[1] for line in lines if len(line) == 2 and line[0].isdecimal()
            }
        named = [
            (re.fullmatch(r"cone-(\d+)-(\d+)-(\d+)\.npz", file.name), file)
            for file in sorted(folder.iterdir())
        ]
        found = sorted((int(m[2]), -int(m[3]), int(m[1]), file) for m, file in named if m)
        for first, minus_stop, level, file in found:
            if first == self.n_blocks:
                rays, certificate, names = read_cone(file)
                if not isinstance(certificate, Certificate):
                    raise CheckpointError(
                        f"{str(file)!r} holds an approximate cone, which no checkpoint has; use"
                        " another folder."
                    )
                self.digits.append(
                    _Digit(
                        level,
                        first,
                        -minus_stop,
                        Part(certificate.n_points, rays, certificate, names),
                    )
                )
            elif first > self.n_blocks:
                raise CheckpointError(
                    f"{str(file)!r} does not follow on block {self.n_blocks - 1}; the checkpoint"
                    " misses a file."
                )
        self._carry()


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
    done = stack.n_blocks
    seen: list[int] = []
    for k, first, points, names in _checked(blocks, tol, _skipping(stack, seen)):
        if stack.folder is not None:
            stack.note(k, digest(points))
        stack.push(k, part_of(points, tol, names, effort))
        if progress is not None:
            progress("blocks", first + points.shape[0], first + points.shape[0])
    if len(seen) < done:
        raise CheckpointError(
            f"the checkpoint holds {done} blocks, but only {len(seen)} were given; use another"
            " folder, or the same blocks."
        )
    return stack.finish()


def _skipping(stack: MergeStack, seen: list[int]) -> Callable[[int, int, Points], bool]:
    """Whether block k is in the checkpoint already; checks that it is the same block. ``seen`` gets
    the number of every block."""
    done = stack.n_blocks

    def skip(k: int, first: int, points: Points) -> bool:
        seen.append(k)
        if k >= done:
            if k == done and first != stack.n_points:
                raise CheckpointError(
                    f"the checkpoint holds {stack.n_points} points in {done} blocks, but these"
                    f" blocks have {first}."
                )
            return False
        for digit in stack.digits:
            if digit.first <= k < digit.stop:
                _check_same(digit, k, first - _points_before(stack, digit), points)
        if k in stack.digests and stack.digests[k] != digest(points):
            raise _another(k)
        return True

    return skip


def _points_before(stack: MergeStack, digit: _Digit) -> int:
    return sum(other.part.n_points for other in stack.digits if other.first < digit.first)


def _check_same(digit: _Digit, k: int, offset: int, points: Points) -> None:
    """The rays that the saved cone has in this block must be the block's points."""
    all_rays, certificate, _ = digit.part.whole()
    low, high = np.searchsorted(certificate.rays, [offset, offset + points.shape[0]])
    rows = certificate.rays[low:high] - offset
    if not len(rows) or all_rays is None:
        return
    U = unit_rows(points[rows])[0]
    rays = all_rays[low:high]
    same = U.shape == rays.shape and abs(U - rays).max() <= 1e-12
    if not same:
        raise _another(k)


def _another(k: int) -> CheckpointError:
    return CheckpointError(
        f"block {k} is not the block that the checkpoint was made from; use another folder, or the"
        " same blocks."
    )


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
    blocks: Iterable[Any], tol: float, skip: Callable[[int, int, Points], bool]
) -> Iterator[tuple[int, int, Points, AnyArray | None]]:
    """Number of each block, number of its first point, its points and their labels; blocks that are
    done are left out."""
    first, dim, count = 0, None, 0
    for k, block in enumerate(blocks):
        points = check_block(block, (first, 0), f"block {k}", "P")
        if k == 0:
            warn_if_too_coarse(points.dtype, tol)
        if dim is not None and points.shape[1] != dim:
            raise InvalidInputError(
                f"block {k} has points of dimension {points.shape[1]}, the ones before had {dim}."
            )
        dim, count = points.shape[1], k + 1
        if not skip(k, first, points):
            yield k, first, points, np.asarray(block.index) if hasattr(block, "iloc") else None
        first += points.shape[0]
    if not count:
        raise InvalidInputError("there are no blocks; at least one is needed.")


def part_of_samples(blocks: Iterable[Any], tol: float, effort: Effort = "exact") -> Part:
    """See `Cone.from_samples`."""
    rows: list[int] = []
    R = triangular_of(_dense_samples(blocks, rows, tol))
    return Part(R.shape[1], None, tall_certificate(R, sum(rows), tol, effort))


def _dense_samples(blocks: Iterable[Any], rows: list[int], tol: float) -> Iterator[AnyArray]:
    """Checked blocks; ``rows`` gets the number of samples of each."""
    width: int | None = None
    for k, block in enumerate(blocks):
        checked = check_block(block, (sum(rows), 0), f"block {k}")
        if k == 0:
            warn_if_too_coarse(checked.dtype, tol)
        if width is not None and checked.shape[1] != width:
            raise InvalidInputError(
                f"block {k} has {checked.shape[1]} features, the ones before had {width}."
            )
        width = checked.shape[1]
        rows.append(checked.shape[0])
        yield as_dense(checked)


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
        if stack.digests.get(k, found) != found:
            raise _another(k)
    try:
        for k, (found, part) in enumerate(
            table.visit_from(done, _noted_part, None, (tol, effort), stage="rays"), start=done
        ):
            stack.note(k, found)
            stack.push(k, part)
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
