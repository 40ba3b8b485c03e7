"""The cone of points that are never held together: block by block, merged as they come, or shortened by QR.

Blocks are merged like the digits of a binary counter: two cones of equally many blocks become one at once, so that every point takes part
in a logarithmic number of merges, and neighbours stay neighbours, so that points keep their numbers. With a checkpoint every cone of
that counter is a file; what is on disk is the state of the run, and nothing else is.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._checks import check_callable
from conecollapse._errors import CheckpointError, InvalidInputError
from conecollapse._linalg import unit_rows
from conecollapse._types import AnyArray, IntArray, Points, Progress
from conecollapse.blocks import BlockedTable
from conecollapse.blocks.survey import check_block
from conecollapse.certificates import Certificate
from conecollapse.geometry.cone import Cone, warn_if_too_coarse
from conecollapse.geometry.tall import tall_certificate, triangular_of

HELD_RAYS = 2**24  # entries up to which a cone in many dimensions holds its rays: 128 MiB
Part = Cone | int  # the cone of some blocks, or how many points they have if all are zero
DIGESTS = "blocks.txt"  # in the folder of a checkpoint: the tolerance, and a hash of each block


def cone_of_part(points: Points, tol: float) -> Part:
    """The cone of checked points, or their number if all are zero."""
    filled = points.nnz if sp.issparse(points) else points.any()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*rounded to about")  # said once, about the whole
        return Cone.from_points(points, tol) if filled else int(points.shape[0])


def merge_parts(a: Part, b: Part) -> Part:
    """The cone of the points of ``a`` followed by those of ``b``."""
    if isinstance(a, Cone):
        return a.merge(b) if isinstance(b, Cone) else _with_zeros(a, 0, b)
    return _with_zeros(b, a, 0) if isinstance(b, Cone) else a + b


def whole(part: Part) -> Cone:
    """The cone, refused if all points were zero."""
    if isinstance(part, Cone):
        return part
    raise InvalidInputError(f"all {part} points are zero; a cone needs at least one point that is not.")


def _with_zeros(cone: Cone, before: int, after: int) -> Cone:
    """The cone with zero points numbered before and after its own."""
    c = cone.certificate
    assert isinstance(c, Certificate)
    H = c.coefficients
    indptr = np.concatenate([np.zeros(before, H.indptr.dtype), H.indptr, np.full(after, H.indptr[-1])])
    n_points = before + c.n_points + after
    certificate = replace(
        c,
        n_points=n_points,
        rays=c.rays + before,
        leader=np.concatenate([np.full(before, -1), np.where(c.leader >= 0, c.leader + before, -1), np.full(after, -1)]),
        separated=c.separated + before,
        coefficients=sp.csr_array((H.data, H.indices, indptr), shape=(n_points, H.shape[1])),
    )
    return Cone(cone.rays, certificate, ray_names=cone.ray_names)


@dataclass
class _Digit:
    """The cone of blocks ``first`` to ``stop - 1``, merged from ``2**level`` of them."""

    level: int
    first: int
    stop: int
    cone: Cone

    @property
    def name(self) -> str:
        return f"cone-{self.level:02d}-{self.first:08d}-{self.stop:08d}.npz"


class MergeStack:
    """Cones of neighbouring blocks, the earliest first, merged as soon as two of the same level meet."""

    def __init__(self, tol: float, checkpoint: str | PathLike[str] | None = None) -> None:
        self.folder = None if checkpoint is None else Path(checkpoint)
        self.digits: list[_Digit] = []
        self.zeros = 0  # leading points that are zero, before any cone
        self.digests: dict[int, str] = {}  # of the blocks, where a checkpoint holds them
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._check_tol(self.folder / DIGESTS, tol)
            self._restore(self.folder)

    @staticmethod
    def _check_tol(notes: Path, tol: float) -> None:
        """The tolerance asked for is noted: merged cones may state a larger one."""
        asked = (
            [line.split()[1] for line in notes.read_text(encoding="utf-8").splitlines() if line.startswith("tol ")]
            if notes.is_file()
            else []
        )
        if asked and asked[0] != repr(tol):
            raise CheckpointError(f"the checkpoint was made with tol = {asked[0]}, not {tol!r}; use another folder.")
        if not asked:
            with open(notes, "a", encoding="utf-8") as file:
                file.write(f"tol {tol!r}\n")

    def note(self, k: int, points: Points) -> None:
        """Write down what block ``k`` holds, so that another one in its place is refused later."""
        if self.folder is not None:
            self.digests[k] = digest(points)
            with open(self.folder / DIGESTS, "a", encoding="utf-8") as file:
                file.write(f"{k} {self.digests[k]}\n")

    @property
    def n_blocks(self) -> int:
        """Blocks in the cones so far."""
        return self.digits[-1].stop if self.digits else 0

    @property
    def n_points(self) -> int:
        """Points in the cones so far."""
        return sum(digit.cone.n_points for digit in self.digits)

    def push(self, k: int, part: Part) -> None:
        """Add block ``k``, the next one."""
        if not self.digits:
            part = merge_parts(self.zeros, part)
            if not isinstance(part, Cone):
                self.zeros = part
                return
            self.zeros = 0
            self._append(_Digit(0, 0, k + 1, part))
        elif isinstance(part, Cone):
            self._append(_Digit(0, self.n_blocks, k + 1, part))
        else:
            last = self.digits[-1]
            self._replace([last], _Digit(last.level, last.first, k + 1, whole(merge_parts(last.cone, part))))
        self._carry()

    def finish(self) -> Cone:
        """The cone of everything, merged from the latest backwards."""
        if not self.digits:
            return whole(self.zeros)
        cone = self.digits[-1].cone
        for digit in reversed(self.digits[:-1]):
            cone = digit.cone.merge(cone)
        return cone

    def _append(self, digit: _Digit) -> None:
        self._replace([], digit)

    def _carry(self) -> None:
        while len(self.digits) > 1 and self.digits[-2].level == self.digits[-1].level:
            a, b = self.digits[-2:]
            self._replace([a, b], _Digit(a.level + 1, a.first, b.stop, a.cone.merge(b.cone)))

    def _replace(self, old: list[_Digit], new: _Digit) -> None:
        """On disk the new cone is there before the old ones go, so that a run killed in between loses nothing."""
        self.digits[len(self.digits) - len(old) :] = [new]
        if self.folder is not None:
            new.cone.save(self.folder / new.name)
            for digit in old:
                (self.folder / digit.name).unlink(missing_ok=True)

    def _restore(self, folder: Path) -> None:
        if (folder / DIGESTS).is_file():
            lines = [line.split() for line in (folder / DIGESTS).read_text(encoding="utf-8").splitlines()]
            self.digests = {int(line[0]): line[1] for line in lines if len(line) == 2 and line[0].isdecimal()}  # the last of two counts
        named = [(re.fullmatch(r"cone-(\d+)-(\d+)-(\d+)\.npz", file.name), file) for file in sorted(folder.iterdir())]
        found = sorted((int(m[2]), -int(m[3]), int(m[1]), file) for m, file in named if m)
        for first, minus_stop, level, file in found:
            if first == self.n_blocks:
                self.digits.append(_Digit(level, first, -minus_stop, Cone.load(file)))
            elif first > self.n_blocks:
                raise CheckpointError(f"{str(file)!r} does not follow on block {self.n_blocks - 1}; the checkpoint misses a file.")
        self._carry()


def cone_of_blocks(blocks: Iterable[Any], tol: float, checkpoint: str | PathLike[str] | None, progress: Progress) -> Cone:
    """See `Cone.from_blocks`."""
    check_callable(progress, "progress")
    stack = MergeStack(tol, checkpoint)
    done = stack.n_blocks
    seen: list[int] = []
    for k, first, points, names in _checked(blocks, tol, _skipping(stack, seen)):
        stack.note(k, points)
        stack.push(k, _named(cone_of_part(points, tol), names))
        if progress is not None:
            progress("blocks", first + points.shape[0], first + points.shape[0])
    if len(seen) < done:
        raise CheckpointError(
            f"the checkpoint holds {done} blocks, but only {len(seen)} were given; use another folder, or the same blocks."
        )
    return stack.finish()


def _named(part: Part, names: AnyArray | None) -> Part:
    if isinstance(part, Cone) and names is not None:
        part.ray_names = names[part.ray_indices]
    return part


def _skipping(stack: MergeStack, seen: list[int]) -> Callable[[int, int, Points], bool]:
    """Whether block k is in the checkpoint already; checks that it is the same block. ``seen`` gets the number of every block."""
    done = stack.n_blocks

    def skip(k: int, first: int, points: Points) -> bool:
        seen.append(k)
        if k >= done:
            if k == done and first != stack.n_points:
                raise CheckpointError(f"the checkpoint holds {stack.n_points} points in {done} blocks, but these blocks have {first}.")
            return False
        for digit in stack.digits:
            if digit.first <= k < digit.stop:
                _check_same(digit, k, first - _points_before(stack, digit), points)
        if k in stack.digests and stack.digests[k] != digest(points):
            raise _another(k)
        return True

    return skip


def _points_before(stack: MergeStack, digit: _Digit) -> int:
    return sum(other.cone.n_points for other in stack.digits if other.first < digit.first)


def _check_same(digit: _Digit, k: int, offset: int, points: Points) -> None:
    """The rays that the saved cone has in this block must be the block's points."""
    low, high = np.searchsorted(digit.cone.ray_indices, [offset, offset + points.shape[0]])
    rows = digit.cone.ray_indices[low:high] - offset
    if not len(rows):
        return
    U = unit_rows(points[rows])[0]
    rays = digit.cone.rays[low:high]
    same = U.shape == rays.shape and abs(U - rays).max() <= 1e-12
    if not same:
        raise _another(k)


def _another(k: int) -> CheckpointError:
    return CheckpointError(f"block {k} is not the block that the checkpoint was made from; use another folder, or the same blocks.")


def digest(points: Points) -> str:
    """A hash of the values of a block, whatever its layout."""
    parts = (points.indptr, points.indices, points.data) if sp.issparse(points) else (np.ascontiguousarray(points),)
    found = hashlib.blake2b(repr((points.shape, sp.issparse(points))).encode(), digest_size=16)
    for part in parts:
        found.update(np.ascontiguousarray(part).data)
    return found.hexdigest()


def _checked(
    blocks: Iterable[Any], tol: float, skip: Callable[[int, int, Points], bool]
) -> Iterator[tuple[int, int, Points, AnyArray | None]]:
    """Number of each block, number of its first point, its points and their labels; blocks that are done are left out."""
    first, dim, count = 0, None, 0
    for k, block in enumerate(blocks):
        points = check_block(block, (first, 0), f"block {k}", "P")
        if k == 0:
            warn_if_too_coarse(points, tol)
        if dim is not None and points.shape[1] != dim:
            raise InvalidInputError(f"block {k} has points of dimension {points.shape[1]}, the ones before had {dim}.")
        dim, count = points.shape[1], k + 1
        if not skip(k, first, points):
            yield k, first, points, np.asarray(block.index) if hasattr(block, "iloc") else None
        first += points.shape[0]
    if not count:
        raise InvalidInputError("there are no blocks; at least one is needed.")


def cone_of_samples(blocks: Iterable[Any], tol: float) -> Cone:
    """See `Cone.from_samples`."""
    rows: list[int] = []
    R = triangular_of(_dense_samples(blocks, rows, tol))
    return Cone(None, tall_certificate(R, sum(rows), tol))


def _dense_samples(blocks: Iterable[Any], rows: list[int], tol: float) -> Iterator[AnyArray]:
    """Checked blocks; ``rows`` gets the number of samples of each."""
    width: int | None = None
    for k, block in enumerate(blocks):
        checked = check_block(block, (sum(rows), 0), f"block {k}")
        if k == 0:
            warn_if_too_coarse(checked, tol)
        if width is not None and checked.shape[1] != width:
            raise InvalidInputError(f"block {k} has {checked.shape[1]} features, the ones before had {width}.")
        width = checked.shape[1]
        rows.append(checked.shape[0])
        yield checked.toarray() if sp.issparse(checked) else checked


def cone_of_table(table: BlockedTable, tol: float, checkpoint: str | PathLike[str] | None = None) -> Cone:
    """See `Cone.from_table`. A table with a way of its own (a cluster) is asked first."""
    _ = table.survey  # refuses what cannot be used
    if table.cone is not None:
        cone: Cone = table.cone(tol, checkpoint)
        return cone
    table = table.oriented()
    warn_if_too_coarse(table, tol)
    if table.axis == 1:
        return cone_of_blocks((_points(block) for block in table.blocks()), tol, checkpoint, None)
    return with_held_rays(table, tall_certificate(triangular_of(table.blocks()), table.shape[0], tol))


def with_held_rays(table: BlockedTable, certificate: Certificate) -> Cone:
    """The cone of a table in blocks of samples, with its rays where they are few enough to hold."""
    indices = certificate.rays
    if len(indices) * table.shape[0] > HELD_RAYS:
        return Cone(None, certificate)
    columns = np.concatenate(table.visit(take_columns, shared=indices)).astype(np.float64)
    return Cone(unit_rows(np.ascontiguousarray(columns.T))[0], certificate)


def take_columns(block: Points, _: Any, indices: IntArray) -> AnyArray:
    """These columns of a dense block."""
    return np.asarray(block[:, indices])


def _points(block: Points) -> Points:
    """The columns of a block as points."""
    return sp.csr_array(block.T) if sp.issparse(block) else np.ascontiguousarray(block.T)
