"""A Dask array as a table in blocks: tasks go to the blocks, thin matrices come back. Dask is
imported here and in `dask_tasks` only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import InvalidInputError, MissingDependencyError
from conecollapse._types import AnyArray, IntArray, Points
from conecollapse.tables.blocked import BlockedTable, Groups, Held, Kept, Looked, Work
from conecollapse.tables.survey import BlockSurvey, Survey, rows_of, survey_block

try:
    import dask.array as da
    from dask.delayed import Delayed, delayed
    from dask.sizeof import sizeof
except ImportError as error:
    raise MissingDependencyError(
        "Dask arrays need dask and distributed; pip install 'conecollapse[dask]'."
    ) from error

from conecollapse.tables.dask_tasks import (
    compute,
    drop_copies,
    has_cluster,
    holders,
    n_workers,
    named,
    persist,
    tree,
    workers,
)

ENOUGH_TASKS = 4  # for each worker: more are put together
MANY_PAIRS = 12  # of blocks for each worker
# entries from which a block is large: a worker then holds copies of others only as long as it needs
# them
LARGE = 2**21
TOGETHER = 2**20  # entries of blocks that one task looks at
MOST_BLOCKS = 4  # that one task looks at, where its worker holds them
MOST_GROUPS = 8  # that one piece of work asks a block about


def _bytes_of(array: Any) -> int:
    """Dask itself takes SciPy's sparse arrays for empty ones, and moves them as if that cost
    nothing."""
    return sum(int(sizeof(part)) for part in vars(array).values())


sizeof.register(sp.sparray, _bytes_of)


def table_of(X: Any) -> DaskTable:
    """The table of a two-dimensional Dask array (n_samples, n_features), dense or with SciPy's
    sparse arrays as blocks."""
    if not isinstance(X, da.Array):
        raise InvalidInputError(
            f"X is a {type(X).__module__}.{type(X).__name__}; pass a Dask array:"
            " frame.to_dask_array(lengths=True)."
        )
    if X.ndim != 2:
        raise InvalidInputError(
            f"X has {X.ndim} dimensions; expected two, (n_samples, n_features)."
        )
    if X.dtype.kind not in "fiub":
        raise InvalidInputError(f"X holds {X.dtype} values, not real numbers.")
    for axis, name in enumerate(("samples", "features")):
        if np.isnan(X.shape[axis]):
            raise InvalidInputError(
                f"X has chunks of unknown size along its {name}; call X.compute_chunk_sizes()"
                " first."
            )
        for k, size in enumerate(X.chunks[axis]):
            if size == 0:
                raise InvalidInputError(
                    f"block {k} of X along its {name} is empty; drop it, for instance by"
                    " X.rechunk('auto')."
                )
    return DaskTable(X.to_delayed(), X.chunks, X.dtype, is_sparse=sp.issparse(X._meta))


class DaskTable(BlockedTable):
    """Blocks in Dask's hands. ``grid`` are the user's chunks, from which blocks along either axis
    are cut when asked for."""

    kind = "a Dask array"

    def __init__(
        self,
        grid: Any,
        chunks: Any,
        dtype: Any,
        *,
        is_sparse: bool,
        axis: int | None = None,
        flip: bool = False,
    ) -> None:
        self.grid = grid
        self.chunks = chunks
        self.flip = flip  # whether the chunks are still to be transposed
        axis = int(len(chunks[1]) > len(chunks[0])) if axis is None else axis
        shape = (sum(chunks[0]), sum(chunks[1]))
        super().__init__(shape, dtype, axis, _bounds(chunks, axis), is_sparse=is_sparse)
        self._strips: list[Delayed] | None = None
        # where strips are cut from others: arguments of `_lines`
        self._lines: list[tuple[Any, ...]] | None = None
        self._flip = False  # whether the strips are still to be transposed
        # where blocks are not strips: strips, first and last lines of each
        self._cuts: list[list[tuple[int, int, int]]] | None = None

    def visit(
        self,
        work: Work,
        pieces: Sequence[Any] | None = None,
        shared: Any = None,
        *,
        stage: str = "products",
    ) -> list[Any]:
        return compute(self._tasks(stage, work, range(self.n_blocks), shared, pieces), stage)

    def look(self, work: Work, shared: Any = None, *, stage: str) -> Looked:
        if "survey" in self.__dict__ or not self._is_aligned:
            return super().look(work, shared, stage=stage)
        common = _common(shared)
        cells = zip(self.strips, self._cells(), strict=True)
        arguments = [
            (work, strip, self._flip, *cell, common, self.dtype, self.unit) for strip, cell in cells
        ]
        runs, places = self._runs()
        return DaskLooked(
            self,
            named(stage, _look_at_each, [([arguments[k] for k in run],) for run in runs], places),
            runs,
            stage,
        )

    def visit_from(
        self, first: int, work: Work, shared: Any = None, *, stage: str = "products"
    ) -> Iterator[Any]:
        """A few blocks at a time, so that no more results than the workers make at once wait
        here."""
        step = 2 * n_workers()
        for a in range(first, self.n_blocks, step):
            yield from compute(
                self._tasks(stage, work, range(a, min(a + step, self.n_blocks)), shared), stage
            )

    def reduce(
        self,
        work: Work,
        combine: Callable[[Any, Any], Any],
        shared: Any = None,
        *,
        stage: str = "products",
    ) -> Any:
        return compute(
            [tree("merge", combine, self._tasks(stage, work, range(self.n_blocks), shared))], stage
        )[0]

    def _tasks(
        self, stage: str, work: Work, which: range, shared: Any, pieces: Sequence[Any] | None = None
    ) -> list[Delayed]:
        sources = self._sources
        return named(
            stage,
            _work_on,
            [
                (work, sources[k], recipe)
                for k, recipe in zip(which, self._recipes(which, shared, pieces), strict=True)
            ],
        )

    def _runs(self) -> tuple[list[list[int]], list[str] | None]:
        """Blocks that one task looks at, and the worker that it goes to: several blocks of the same
        worker.

        Where nobody holds the blocks yet, neighbours that are together small, and as many tasks as
        there are workers.
        """
        if not has_cluster():
            return [[k] for k in range(self.n_blocks)], None
        held = holders(self.strips)
        if all(held):
            return _runs_of(held)
        # without a look nobody knows how large sparse blocks are
        few = (
            self.n_blocks
            if self.is_sparse
            else max(n_workers(), -(-self.shape[0] * self.shape[1] // TOGETHER))
        )
        ends = np.linspace(0, self.n_blocks, min(few, self.n_blocks) + 1).astype(int).tolist()
        return [list(range(a, b)) for a, b in pairwise(ends)], None

    def _recipes(
        self, which: range, shared: Any, pieces: Sequence[Any] | None
    ) -> list[tuple[Any, ...]]:
        """What `_work_on` needs beside the block, for each of these blocks."""
        common = _common(shared)
        return [
            (
                None if pieces is None else pieces[k],
                common,
                self.dtype,
                self.unit,
                self._flip,
                self.axis,
            )
            for k in which
        ]

    def hold(
        self,
        make: Work,
        pieces: Sequence[Any] | None = None,
        shared: Any = None,
        *,
        stage: str,
        cheap: bool = False,
        last: bool = False,
    ) -> DaskHeld:
        every = range(self.n_blocks)
        if cheap:
            return DaskHeld(
                self,
                self._sources,
                [(make, recipe) for recipe in self._recipes(every, shared, pieces)],
            )
        held = persist(self._tasks(stage, make, every, shared, pieces))
        # the cluster forgets strips that were only cut for this
        if last and self._lines is not None:
            self._strips = None
        return DaskHeld(self, held)

    def blocks(self) -> Iterator[Points]:
        for source, recipe in zip(
            self._sources, self._recipes(range(self.n_blocks), None, None), strict=True
        ):
            yield compute(named("fetch", _work_on, [(_itself, source, recipe)]), "fetch")[0]

    def along(self, axis: int) -> DaskTable:
        if axis == self.axis:
            return self
        other = DaskTable(
            self.grid, self.chunks, self.dtype, is_sparse=self.is_sparse, axis=axis, flip=self.flip
        )
        other.unit = self.unit
        if "survey" in self.__dict__:
            other.__dict__["survey"] = self.survey
        return other

    @property
    def parallel(self) -> int:
        return n_workers() if has_cluster() else 1

    @property
    def together(self) -> int:
        return n_workers() if has_cluster() else 0

    def work_together(
        self,
        first: Work,
        then: Work,
        looked: Looked,
        shared: Any,
        count: int,
        *,
        stages: tuple[str, str],
    ) -> list[Any]:
        found = looked.as_argument() if isinstance(looked, DaskLooked) else _common(looked.found)
        common, places, shares = _common(shared), workers(), range(count)
        recipes = self._recipes(range(self.n_blocks), None, None)
        items = [
            (source, (_itself, recipe))
            for source, recipe in zip(self._sources, recipes, strict=True)
        ]
        kept = named(
            stages[0], _first_of_two, [(first, items, k, found, common) for k in shares], places
        )
        results = named(
            stages[1],
            _second_of_two,
            [(first, then, items, k, found, kept, common) for k in shares],
            places,
        )
        if not isinstance(looked, DaskLooked):
            return compute(results, stages[1])
        everything = compute([*looked.tasks, *results], stages[1])
        looked.receive(everything[: len(looked.tasks)])
        return everything[len(looked.tasks) :]

    def cut_at(self, bounds: IntArray) -> DaskTable:
        # blocks are made again for each piece of work, so that smaller ones save nothing
        if not has_cluster():
            return self
        other = self._copy()
        other._strips, other._flip = self.strips, self._flip
        other._cuts = _cuts(self.bounds, bounds)
        if self._is_large:  # what is cut from a strip travels, and not the whole strip
            along = 1 - self.axis if self._flip else self.axis
            lines = [(k, a, b) for cut in other._cuts for k, a, b in cut]
            other._strips, other._lines = None, [(self.strips[k], along, a, b) for k, a, b in lines]
            ends = np.cumsum([len(cut) for cut in other._cuts])
            parts = [(i, 0, b - a) for i, (_, a, b) in enumerate(lines)]
            other._cuts = [
                parts[last - len(cut) : last]
                for cut, last in zip(other._cuts, ends.tolist(), strict=True)
            ]
        other.bounds = bounds
        return other

    def transposed(self) -> DaskTable:
        return DaskTable(
            self.grid.T, self.chunks[::-1], self.dtype, is_sparse=self.is_sparse, flip=not self.flip
        )

    def wrap(self, per_sample: AnyArray) -> Any:
        return da.from_array(per_sample, chunks=(self.chunks[0],))

    @property
    def strips(self) -> list[Delayed]:
        """The blocks along the table's axis, as tasks; on a cluster they stay in its memory."""
        if self._strips is None:
            self._strips = persist(self._cut())
        return self._strips

    @property
    def _sources(self) -> list[Any]:
        """What each block is made from: a strip, or pieces of strips with their first and last
        lines."""
        strips = self.strips
        return (
            list(strips)
            if self._cuts is None
            else [[(strips[k], a, b) for k, a, b in cut] for cut in self._cuts]
        )

    @property
    def _is_large(self) -> bool:
        """Whether copies of blocks are worth being dropped while pairs of blocks are compared."""
        return self.block_entries > LARGE and has_cluster()

    @property
    def _is_aligned(self) -> bool:
        """Whether the user's chunks are the blocks."""
        return (
            self._cuts is None
            and self.grid.size == self.n_blocks
            and self.grid.shape[self.axis] == self.n_blocks
        )

    def _cut(self) -> list[Delayed]:
        if self._lines is not None:
            return named("blocks", _lines, self._lines)
        if self._is_aligned:
            self._flip = self.flip
            chunks = list(self.grid.ravel())
            # transposed chunks are the points of a cone, which are taken from them as they are;
            # others become CSR arrays once
            return (
                named("blocks", _turned, [(chunk, False) for chunk in chunks])
                if self.is_sparse and not self.flip
                else chunks
            )
        grid = self.grid if self.axis == 0 else self.grid.T
        if grid.shape[0] == self.n_blocks:
            ranges: list[tuple[Any, int, int]] = [(line, 0, -1) for line in grid]
        else:  # chunked along the other axis only: cut every chunk into pieces for the blocks
            ranges = [
                (grid[0], int(a), int(b))
                for a, b in zip(self.bounds[:-1], self.bounds[1:], strict=True)
            ]
        return named(
            "blocks", _joined, [(self.axis, self.flip, a, b, *line) for line, a, b in ranges]
        )

    def _cells(self) -> list[tuple[tuple[int, int], str]]:
        """Row and column at which each of the user's chunks begins, and its name in messages."""
        starts = [
            np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(int).tolist()
            for sizes in self.chunks
        ]
        return [
            ((row, column), f"block ({i}, {j})")
            for i, row in enumerate(starts[0])
            for j, column in enumerate(starts[1])
        ]

    def _survey(self) -> Survey:
        is_needed_later = self._is_aligned and self.oriented() is self
        chunks, flip = (
            (self.strips, self._flip) if is_needed_later else (self.grid.ravel(), self.flip)
        )
        arguments = [
            (chunk, flip, *cell) for chunk, cell in zip(chunks, self._cells(), strict=True)
        ]
        return self._set_survey(compute(named("survey", _survey_of, arguments), "survey"))

    def _set_survey(self, found: list[tuple[bool, BlockSurvey]]) -> Survey:
        self.is_sparse = any(is_sparse for is_sparse, _ in found)
        width = self.grid.shape[1]
        self.__dict__["survey"] = Survey.of(
            [[survey for _, survey in found[a : a + width]] for a in range(0, len(found), width)]
        )
        return self.survey

    def _copy(self) -> DaskTable:
        return copy(self)


class DaskLooked(Looked):
    """Results that stay with the workers, some blocks in each task, until somebody asks for them;
    with them comes the survey."""

    def __init__(
        self, table: DaskTable, tasks: list[Delayed], runs: list[list[int]], stage: str
    ) -> None:
        self.table = table
        self.tasks = tasks
        self.runs = runs
        self.stage = stage
        self.is_here = False

    def as_argument(self) -> tuple[Any, ...]:
        """For other tasks; see `_found`."""
        return self.runs, self.tasks

    def receive(self, values: list[Any]) -> None:
        """Take the values of all tasks."""
        if not self.is_here:
            self.table._set_survey([surveyed for surveyed, _ in _in_order(self.runs, values)])
            self.found, self.is_here = _found((self.runs, values)), True

    def results(self) -> list[Any]:
        if not self.is_here:
            self.tasks = persist(self.tasks)
            self.receive(compute(self.tasks, self.stage))
        return self.found


class DaskHeld(Held):
    """Items as tasks. A cluster keeps them in its memory; without one they are made again for each
    group, or row of pairs.

    With ``recipes`` the tasks are what blocks are made from, and each piece of work makes the items
    that it needs.
    """

    def __init__(
        self,
        table: DaskTable,
        tasks: list[Any],
        recipes: list[tuple[Work, tuple[Any, ...]]] | None = None,
    ) -> None:
        self.is_large = table._is_large
        self.items = (
            [(task, None) for task in tasks]
            if recipes is None
            else list(zip(tasks, recipes, strict=True))
        )
        self.n_blocks = len(tasks)

    def select(
        self, work: Work, which: Sequence[tuple[int, Any]], shared: Any = None, *, stage: str
    ) -> Groups:
        common = _common(shared)
        return self._made(
            [named(stage, _on_item, [(work, self.items[k], piece, common) for k, piece in which])],
            stage,
        )

    def spread(self, work: Work, pieces: Sequence[Any], shared: Any, *, stage: str) -> Groups:
        common = _common(shared)
        return self._made([named(stage, work, [(piece, common) for piece in pieces])], stage)

    def whole(self, work: Work, shared: Any, *, stage: str) -> Any:
        return self._made([named(stage, _on_all, [(work, self.items, _common(shared))])], stage)[0]

    def join(self, groups: Groups, work: Work, *, stage: str) -> Any:
        return self._made([named(stage, work, [(list(groups),)])], stage)[0]

    def tiles(
        self,
        work: Work,
        which: Sequence[tuple[int, int]],
        shared: Any = None,
        *,
        stage: str,
        side: int = 1,
        costs: Sequence[float] | None = None,
    ) -> list[Any]:
        common = _common(shared)
        rows = [[pair for pair in which if pair[0] == a] for a in range(self.n_blocks)]
        costs = [1 + (a != b) for a, b in which] if costs is None else costs
        if has_cluster():
            bundles = _bundles(which, costs, side if len(which) > MANY_PAIRS * n_workers() else 1)
        else:
            bundles = [row for row in rows if row]
        arguments = []
        for pairs in bundles:
            used = sorted({k for pair in pairs for k in pair})
            arguments.append(
                (
                    work,
                    [self.items[k] for k in used],
                    [(used.index(a), used.index(b)) for a, b in pairs],
                    common,
                )
            )
        tasks, found = named(stage, _on_pairs, arguments), []
        step = 1 if not has_cluster() else n_workers() if self.is_large else len(tasks)
        for a in range(0, len(tasks), step):
            found += compute(tasks[a : a + step], stage)
            if self.is_large:
                drop_copies()
        by_pair = {
            pair: result
            for pairs, results in zip(bundles, found, strict=True)
            for pair, result in zip(pairs, results, strict=True)
        }
        return [by_pair[pair] for pair in which]

    def cross(
        self,
        groups: Groups,
        pair: Work,
        gather: Work,
        shared: Any = None,
        *,
        stage: str,
        thin: bool = False,
    ) -> Groups:
        common, groups = _common(shared), [_common(group) for group in groups]
        size = (
            min(max(1, len(groups) * self.n_blocks // (ENOUGH_TASKS * n_workers())), MOST_GROUPS)
            if has_cluster()
            else 1
        )
        if thin and self.is_large:  # a worker without work would fetch the item of another one
            size = MOST_GROUPS
        gathered = []
        for start in range(0, len(groups), size):
            some = groups[start : start + size]
            answers = named(stage, _on_groups, [(pair, some, item, common) for item in self.items])
            gathered += named(
                f"{stage}-gather",
                _gather,
                [(gather, group, answers, k, common) for k, group in enumerate(some)],
            )
        return self._made([[task] for task in gathered], stage)

    def chain(
        self, groups: Groups, work: Work, rounds: int, shared: Any = None, *, stage: str
    ) -> Groups:
        common, groups = _common(shared), [_common(group) for group in groups]
        at_once = 1 if self.is_large else 2  # a large block is visited where it is
        stops = [
            list(range(k, min(k + at_once, self.n_blocks)))
            for k in range(0, self.n_blocks, at_once)
        ]
        for step in range(rounds * len(stops)):
            at = [stops[(step + g) % len(stops)] for g in range(len(groups))]
            groups = named(
                stage,
                _visit,
                [
                    (work, group, ks, [self.items[k] for k in ks], common)
                    for group, ks in zip(groups, at, strict=True)
                ],
            )
        return self._made([[task] for task in groups], stage)

    def collect(self, *groups: Groups, stage: str) -> list[list[Any]]:
        values = iter(compute([task for some in groups for task in some], stage))
        if self.is_large:
            drop_copies()
        return [[next(values) for _ in some] for some in groups]

    @staticmethod
    def _made(rows: list[list[Delayed]], stage: str) -> Groups:
        return [task for row in rows for task in (row if has_cluster() else compute(row, stage))]


def _runs_of(held: list[list[str]]) -> tuple[list[list[int]], list[str]]:
    """Blocks that the same worker holds, at most `MOST_BLOCKS` together; of several workers the one
    that has fewest takes a block."""
    by_worker: dict[str, list[int]] = {}
    for k, some in enumerate(held):
        by_worker.setdefault(min(some, key=lambda one: len(by_worker.get(one, []))), []).append(k)
    runs = [
        (run[a : a + MOST_BLOCKS], worker)
        for worker, run in by_worker.items()
        for a in range(0, len(run), MOST_BLOCKS)
    ]
    return [run for run, _ in runs], [worker for _, worker in runs]


def _bundles(
    which: Sequence[tuple[int, int]], costs: Sequence[float], side: int
) -> list[list[tuple[int, int]]]:
    """Pairs of blocks as pieces of work, the largest first; those that follow each other have
    different blocks, held by many workers."""
    squares: dict[tuple[int, int], list[tuple[int, int]]] = {}
    cost: dict[tuple[int, int], float] = {}
    for (a, b), one in zip(which, costs, strict=True):
        at = (a // side, b // side)
        squares.setdefault(at, []).append((a, b))
        cost[at] = cost.get(at, 0.0) + one
    return [squares[at] for at in sorted(squares, key=lambda at: (-cost[at], at[1] - at[0]))]


def _on_item(work: Work, item: tuple[Any, Any], piece: Any, shared: Any) -> Any:
    return work(_item(item), piece, shared)


def _on_all(work: Work, items: list[tuple[Any, Any]], shared: Any) -> Any:
    return work([_item(item) for item in items], shared)


def _first_of_two(
    first: Work, items: list[tuple[Any, Any]], k: int, found: Any, shared: Any
) -> Kept:
    kept: Kept = first([_item(item) for item in items], k, _found(found), shared)
    return kept


def _second_of_two(
    first: Work,
    then: Work,
    items: list[tuple[Any, Any]],
    k: int,
    found: Any,
    kept: list[Kept],
    shared: Any,
) -> Any:
    """What the first step kept is made again where this worker is another one, or had to write it
    to disk."""
    own = (
        kept[k].own
        if kept[k].own is not None
        else _first_of_two(first, items, k, found, shared).own
    )
    return then(own, k, [one.told for one in kept], shared)


def _in_order(runs: list[list[int]], parts: list[list[Any]]) -> list[Any]:
    """What was found at each block, where each part is about a run of them."""
    by_block = {
        k: one
        for run, some in zip(runs, parts, strict=True)
        for k, one in zip(run, some, strict=True)
    }
    return [by_block[k] for k in range(len(by_block))]


def _found(found: Any) -> list[Any]:
    """Results of a look by block: as they are, or from the tasks of `DaskLooked`."""
    return [result for _, result in _in_order(*found)] if isinstance(found, tuple) else found


def _on_pairs(
    work: Work, items: list[tuple[Any, Any]], pairs: list[tuple[int, int]], shared: Any
) -> list[Any]:
    made = [_item(item) for item in items]
    return [work(made[a], made[b], shared) for a, b in pairs]


def _on_groups(pair: Work, groups: list[Any], item: tuple[Any, Any], shared: Any) -> list[Any]:
    made = _item(item)
    return [pair(group, made, shared) for group in groups]


def _gather(gather: Work, group: Any, answers: list[list[Any]], place: int, shared: Any) -> Any:
    """``answers`` has for each block a list with an answer for each of several groups."""
    return gather(group, [some[place] for some in answers], shared)


def _visit(
    work: Work, group: Any, numbers: list[int], items: list[tuple[Any, Any]], shared: Any
) -> Any:
    for k, item in zip(numbers, items, strict=True):
        group = work(group, _item(item), k, shared)
    return group


def _item(item: tuple[Any, Any]) -> Any:
    """The item of a block, made from the block where there is a recipe."""
    held, recipe = item
    return held if recipe is None else _work_on(recipe[0], held, recipe[1])


def _common(shared: Any) -> Any:
    """What several tasks share, as a task of its own, so that it travels once."""
    return (
        shared
        if shared is None or isinstance(shared, Delayed)
        else delayed(shared, pure=False, traverse=False)
    )


def _bounds(chunks: Any, axis: int) -> IntArray:
    """The user's chunks along the axis; where there is only one, as many even pieces as there are
    chunks across."""
    sizes, across = chunks[axis], chunks[1 - axis]
    if len(sizes) > 1 or len(across) == 1:
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return np.unique(np.linspace(0, sizes[0], min(len(across), sizes[0]) + 1).astype(np.int64))


def _cuts(before: IntArray, bounds: IntArray) -> list[list[tuple[int, int, int]]]:
    """For each block between ``bounds`` the strips that it overlaps, and which of their lines."""
    cuts = []
    for a, b in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        some = range(int(np.searchsorted(before, a, "right")) - 1, int(np.searchsorted(before, b)))
        cuts.append(
            [
                (k, max(a - int(before[k]), 0), min(b, int(before[k + 1])) - int(before[k]))
                for k in some
            ]
        )
    return cuts


def _turned(chunk: Any, flip: bool) -> Points:
    """A chunk in the orientation of the table: a dense array, or a compressed sparse one, CSR
    unless it is a CSR chunk transposed."""
    block = chunk.T if flip else chunk
    if not sp.issparse(block):
        return np.asarray(block)
    return sp.csc_array(block) if flip and block.format == "csc" else sp.csr_array(block)


def _assembled(source: Any, flip: bool, axis: int) -> Points:
    """A block from its strip, or from lines of several."""
    if not isinstance(source, list):
        return _turned(source, flip)
    along = 1 - axis if flip else axis  # of the chunks
    parts = [_lines(chunk, along, a, b) for chunk, a, b in source]
    if len(parts) == 1:
        return _turned(parts[0], flip)
    if sp.issparse(parts[0]):
        return _turned((sp.vstack if along == 0 else sp.hstack)(parts, format="csr"), flip)
    return _turned(np.concatenate(parts, axis=along), flip)


def _lines(chunk: Any, axis: int, a: int, b: int) -> Any:
    """Rows or columns ``a`` to ``b``, without a copy where that is possible."""
    if not sp.issparse(chunk):
        chunk = np.asarray(chunk)
        return chunk[a:b] if axis == 0 else chunk[:, a:b]
    if (a, b) == (0, chunk.shape[axis]):
        return chunk
    chunk = sp.csr_array(chunk)
    return rows_of(chunk, a, b) if axis == 0 else chunk[:, a:b]


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


def _work_on(work: Work, source: Any, recipe: tuple[Any, ...]) -> Any:
    piece, shared, dtype, unit, flip, axis = recipe
    return work(_floating(_assembled(source, flip, axis), dtype, unit), piece, shared)


def _look_at(
    work: Work,
    block: Any,
    flip: bool,
    at: tuple[int, int],
    label: str,
    shared: Any,
    dtype: Any,
    unit: float,
) -> Any:
    """What a survey says about a block, which comes first since it refuses what cannot be used, and
    the result of work on it."""
    surveyed = _survey_of(block, flip, at, label)
    return surveyed, _work_on(work, block, (None, shared, dtype, unit, flip, 0))


def _look_at_each(arguments: list[tuple[Any, ...]]) -> list[Any]:
    return [_look_at(*some) for some in arguments]


def _itself(block: Points, _: Any, __: Any) -> Points:
    return block


def _survey_of(chunk: Any, flip: bool, at: tuple[int, int], label: str) -> tuple[bool, BlockSurvey]:
    block = _turned(chunk, flip)
    return sp.issparse(block), survey_block(
        block.astype(np.float64) if block.dtype.kind not in "fiu" else block, at, label
    )
