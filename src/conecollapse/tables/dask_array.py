"""A Dask array as a table in blocks: tasks go to the blocks, thin matrices come back. Dask is imported here and in `dask_tasks` only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import InvalidInputError, MissingDependencyError
from conecollapse._types import AnyArray, IntArray, Points
from conecollapse.tables.blocked import BlockedTable, Groups, Held, Work
from conecollapse.tables.survey import BlockSurvey, Survey, survey_block

try:
    import dask.array as da
    from dask.delayed import Delayed, delayed
except ImportError as error:
    raise MissingDependencyError("Dask arrays need dask and distributed; pip install 'conecollapse[dask]'.") from error

from conecollapse.tables.dask_tasks import compute, has_cluster, n_workers, named, persist, tree


def table_of(X: Any) -> DaskTable:
    """The table of a two-dimensional Dask array (n_samples, n_features), dense or with SciPy's sparse arrays as blocks."""
    if not isinstance(X, da.Array):
        raise InvalidInputError(f"X is a {type(X).__module__}.{type(X).__name__}; pass a Dask array: frame.to_dask_array(lengths=True).")
    if X.ndim != 2:
        raise InvalidInputError(f"X has {X.ndim} dimensions; expected two, (n_samples, n_features).")
    if X.dtype.kind not in "fiub":
        raise InvalidInputError(f"X holds {X.dtype} values, not real numbers.")
    for axis, name in enumerate(("samples", "features")):
        if np.isnan(X.shape[axis]):
            raise InvalidInputError(f"X has chunks of unknown size along its {name}; call X.compute_chunk_sizes() first.")
        for k, size in enumerate(X.chunks[axis]):
            if size == 0:
                raise InvalidInputError(f"block {k} of X along its {name} is empty; drop it, for instance by X.rechunk('auto').")
    return DaskTable(X.to_delayed(), X.chunks, X.dtype, is_sparse=sp.issparse(X._meta))


class DaskTable(BlockedTable):
    """Blocks in Dask's hands. ``grid`` are the user's chunks, from which blocks along either axis are cut when asked for."""

    kind = "a Dask array"

    def __init__(self, grid: Any, chunks: Any, dtype: Any, *, is_sparse: bool, axis: int | None = None, flip: bool = False) -> None:
        self.grid = grid
        self.chunks = chunks
        self.flip = flip  # whether the chunks are still to be transposed
        axis = int(len(chunks[1]) > len(chunks[0])) if axis is None else axis
        shape = (sum(chunks[0]), sum(chunks[1]))
        super().__init__(shape, dtype, axis, _bounds(chunks, axis), is_sparse=is_sparse)
        self._strips: list[Delayed] | None = None

    def visit(self, work: Work, pieces: Sequence[Any] | None = None, shared: Any = None, *, stage: str = "products") -> list[Any]:
        return compute(self._tasks(stage, work, range(self.n_blocks), shared, pieces), stage)

    def visit_from(self, first: int, work: Work, shared: Any = None, *, stage: str = "products") -> Iterator[Any]:
        """A few blocks at a time, so that no more results than the workers make at once wait here."""
        step = 2 * n_workers()
        for a in range(first, self.n_blocks, step):
            yield from compute(self._tasks(stage, work, range(a, min(a + step, self.n_blocks)), shared), stage)

    def reduce(self, work: Work, combine: Callable[[Any, Any], Any], shared: Any = None, *, stage: str = "products") -> Any:
        return compute([tree("merge", combine, self._tasks(stage, work, range(self.n_blocks), shared))], stage)[0]

    def _tasks(self, stage: str, work: Work, which: range, shared: Any, pieces: Sequence[Any] | None = None) -> list[Delayed]:
        common = _common(shared)
        strips = self.strips
        arguments = [(work, strips[k], None if pieces is None else pieces[k], common, self.dtype, self.unit) for k in which]
        return named(stage, _work_on, arguments)

    def hold(self, make: Work, pieces: Sequence[Any] | None = None, shared: Any = None, *, stage: str) -> DaskHeld:
        made = self._tasks(stage, make, range(self.n_blocks), shared, pieces)
        return DaskHeld(persist(made))

    def blocks(self) -> Iterator[Points]:
        for strip in self.strips:
            yield compute(named("fetch", _floating, [(strip, self.dtype, self.unit)]), "fetch")[0]

    def along(self, axis: int) -> DaskTable:
        if axis == self.axis:
            return self
        other = DaskTable(self.grid, self.chunks, self.dtype, is_sparse=self.is_sparse, axis=axis, flip=self.flip)
        other.unit = self.unit
        if "survey" in self.__dict__:
            other.__dict__["survey"] = self.survey
        return other

    def transposed(self) -> DaskTable:
        return DaskTable(self.grid.T, self.chunks[::-1], self.dtype, is_sparse=self.is_sparse, flip=not self.flip)

    def wrap(self, per_sample: AnyArray) -> Any:
        return da.from_array(per_sample, chunks=(self.chunks[0],))

    @property
    def strips(self) -> list[Delayed]:
        """The blocks along the table's axis, as tasks; on a cluster they stay in its memory."""
        if self._strips is None:
            self._strips = persist(self._cut())
        return self._strips

    def _cut(self) -> list[Delayed]:
        grid, across = (self.grid, self.chunks[1]) if self.axis == 0 else (self.grid.T, self.chunks[0])
        if len(across) == 1 and grid.shape[0] == self.n_blocks:
            return named("blocks", _turned, [(chunk, self.flip) for chunk in grid[:, 0]])
        if grid.shape[0] == self.n_blocks:
            ranges: list[tuple[Any, int, int]] = [(line, 0, -1) for line in grid]
        else:  # chunked along the other axis only: cut every chunk into pieces for the blocks
            ranges = [(grid[0], int(a), int(b)) for a, b in zip(self.bounds[:-1], self.bounds[1:], strict=True)]
        return named("blocks", _joined, [(self.axis, self.flip, a, b, *line) for line, a, b in ranges])

    def _survey(self) -> Survey:
        starts = [np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(int).tolist() for sizes in self.chunks]
        cells = [(i, j) for i in range(self.grid.shape[0]) for j in range(self.grid.shape[1])]
        arguments = [(self.grid[i, j], self.flip, (starts[0][i], starts[1][j]), f"block ({i}, {j})") for i, j in cells]
        found: list[tuple[bool, BlockSurvey]] = compute(named("survey", _survey_of, arguments), "survey")
        self.is_sparse = any(is_sparse for is_sparse, _ in found)
        width = self.grid.shape[1]
        return Survey.of([[survey for _, survey in found[a : a + width]] for a in range(0, len(found), width)])

    def _copy(self) -> DaskTable:
        return copy(self)


class DaskHeld(Held):
    """Items as tasks. A cluster keeps them in its memory; without one they are made again for each group, or row of pairs."""

    def __init__(self, items: list[Delayed]) -> None:
        self.items = items
        self.n_blocks = len(items)

    def select(self, work: Work, which: Sequence[tuple[int, Any]], shared: Any = None, *, stage: str) -> Groups:
        common = _common(shared)
        return self._made([named(stage, work, [(self.items[k], piece, common) for k, piece in which])], stage)

    def tiles(self, work: Work, which: Sequence[tuple[int, int]], shared: Any = None, *, stage: str) -> Groups:
        common = _common(shared)
        rows = [[pair for pair in which if pair[0] == a] for a in range(self.n_blocks)]
        tasks = self._made([named(stage, work, [(self.items[a], self.items[b], common) for a, b in row]) for row in rows], stage)
        found = dict(zip([pair for row in rows for pair in row], tasks, strict=True))
        return [found[pair] for pair in which]

    def cross(self, groups: Groups, pair: Work, gather: Work, shared: Any = None, *, stage: str) -> Groups:
        common, groups = _common(shared), [_common(group) for group in groups]
        pairs = [named(stage, pair, [(group, item, common) for item in self.items]) for group in groups]
        gathered = named(f"{stage}-gather", gather, [(group, row, common) for group, row in zip(groups, pairs, strict=True)])
        return self._made([[task] for task in gathered], stage)

    def chain(self, groups: Groups, work: Work, rounds: int, shared: Any = None, *, stage: str) -> Groups:
        common, groups = _common(shared), [_common(group) for group in groups]
        for step in range(rounds * self.n_blocks):
            at = [(step + g) % self.n_blocks for g in range(len(groups))]
            groups = named(stage, work, [(group, self.items[k], k, common) for group, k in zip(groups, at, strict=True)])
        return self._made([[task] for task in groups], stage)

    def collect(self, *groups: Groups, stage: str) -> list[list[Any]]:
        values = iter(compute([task for some in groups for task in some], stage))
        return [[next(values) for _ in some] for some in groups]

    @staticmethod
    def _made(rows: list[list[Delayed]], stage: str) -> Groups:
        return [task for row in rows for task in (row if has_cluster() else compute(row, stage))]


def _common(shared: Any) -> Any:
    """What several tasks share, as a task of its own, so that it travels once."""
    return shared if shared is None or isinstance(shared, Delayed) else delayed(shared, pure=False, traverse=False)


def _bounds(chunks: Any, axis: int) -> IntArray:
    """The user's chunks along the axis; where there is only one, as many even pieces as there are chunks across."""
    sizes, across = chunks[axis], chunks[1 - axis]
    if len(sizes) > 1 or len(across) == 1:
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return np.unique(np.linspace(0, sizes[0], min(len(across), sizes[0]) + 1).astype(np.int64))


def _turned(chunk: Any, flip: bool) -> Points:
    """A chunk as a dense array or CSR array in the orientation of the table."""
    block = chunk.T if flip else chunk
    return sp.csr_array(block) if sp.issparse(block) else np.asarray(block)


def _joined(axis: int, flip: bool, start: int, stop: int, *chunks: Any) -> Points:
    """A block from chunks that lie across it: all of each, or lines ``start`` to ``stop``."""
    parts = [_turned(chunk, flip) for chunk in chunks]
    if stop >= 0:
        parts = [part[start:stop] if axis == 0 else part[:, start:stop] for part in parts]
    if any(sp.issparse(part) for part in parts):
        return sp.csr_array((sp.hstack if axis == 0 else sp.vstack)(parts))
    return np.concatenate(parts, axis=1 - axis)


def _floating(block: Points, dtype: Any, unit: float) -> Points:
    block = block.astype(dtype, copy=False)
    return block if unit == 1 else block / dtype.type(unit)


def _work_on(work: Work, block: Points, piece: Any, shared: Any, dtype: Any, unit: float) -> Any:
    return work(_floating(block, dtype, unit), piece, shared)


def _survey_of(chunk: Any, flip: bool, at: tuple[int, int], label: str) -> tuple[bool, BlockSurvey]:
    block = _turned(chunk, flip)
    return sp.issparse(block), survey_block(block.astype(np.float64) if block.dtype.kind not in "fiu" else block, at, label)
