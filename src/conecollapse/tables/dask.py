"""A Dask array as a table in blocks that workers map over: tasks go to the blocks, thin matrices
come back.

The user's chunks become blocks that have whole samples or whole features, as a method needs them;
on a cluster these stay in its memory. Every task has a name that the dashboard shows, and keeps to
one thread, because tasks are what runs side by side.

Dask itself waits for ever when the last worker is gone, when the scheduler does not come back, or
when another one answers at its address that knows nothing of what the first one held. Here the
cluster is looked at every few seconds while tasks run (`Watch`), and such a wait ends in a
`ClusterError`. What a worker held that died is made again by Dask.

Dask is imported in this file only.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import (
    ClusterError,
    ConeCollapseError,
    InvalidInputError,
    MissingDependencyError,
)
from conecollapse._memory import freed_memory_is_kept
from conecollapse._threads import limit_threads
from conecollapse._types import AnyArray, IntArray, Points
from conecollapse.tables.blocks import BlockedTable, Step, Work, Worker, as_floats
from conecollapse.tables.survey import Survey, survey_block

try:
    import dask
    import dask.array as da
    from dask.delayed import Delayed, delayed
    from dask.sizeof import sizeof
except ImportError as error:
    raise MissingDependencyError(
        "Dask arrays need dask and distributed; pip install 'conecollapse[dask]'."
    ) from error

# seconds without a scheduler, or without any of the workers that it had, after which nobody is
# expected back; the setting "conecollapse.patience" of Dask changes it
PATIENCE = 60.0
LOOK = 5.0  # seconds after which the cluster is looked at while it works, if patience is no less
BLOCKS_PER_THREAD = 2  # whose results may wait here while others are asked for


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
    are made when asked for."""

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

    def visit_from(
        self,
        first: int,
        work: Work,
        pieces: Sequence[Any] | None = None,
        shared: Any = None,
        *,
        stage: str = "products",
    ) -> Iterator[Any]:
        """A few blocks at a time, so that no more results than the workers make at once wait
        here."""
        step = BLOCKS_PER_THREAD * sum(worker.threads for worker in self.workers)
        for a in range(first, self.n_blocks, step):
            some = range(a, min(a + step, self.n_blocks))
            yield from compute(self._tasks(stage, work, some, pieces, shared), stage)

    def visit(
        self,
        work: Work,
        pieces: Sequence[Any] | None = None,
        shared: Any = None,
        *,
        stage: str = "products",
    ) -> list[Any]:
        return compute(self._tasks(stage, work, range(self.n_blocks), pieces, shared), stage)

    def reduce(
        self,
        work: Work,
        combine: Callable[[Any, Any], Any],
        shared: Any = None,
        *,
        stage: str = "products",
    ) -> Any:
        tasks = self._tasks(stage, work, range(self.n_blocks), None, shared)
        while len(tasks) > 1:
            pairs = [((), tasks[k : k + 2]) for k in range(0, len(tasks) - 1, 2)]
            tasks = named("merge", combine, pairs) + tasks[2 * len(pairs) :]
        return compute(tasks, stage)[0]

    def share_out(
        self, make: Work, pieces: Sequence[Any] | None, steps: Sequence[Step], shared: Any
    ) -> list[Any]:
        common = _common(shared)
        items = self._tasks("points", make, range(self.n_blocks), pieces, common)
        told: list[Delayed] = []
        for step in steps:
            calls = [
                ((step.work, k, len(items)), [common, *items, *told]) for k in range(step.tasks)
            ]
            told = named(step.stage, _take_step, calls, self.workers)
        return compute(told, steps[-1].stage)

    @property
    def workers(self) -> list[Worker]:
        if not has_cluster():
            return super().workers
        from distributed import get_client

        # if the cluster went away, the tasks will say so
        return seen(get_client(), LOOK)[1] or super().workers

    def blocks(self) -> Iterator[Points]:
        for k in range(self.n_blocks):
            yield compute(self._tasks("fetch", _itself, range(k, k + 1), None, None), "fetch")[0]

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

    def transposed(self) -> DaskTable:
        return DaskTable(
            self.grid.T, self.chunks[::-1], self.dtype, is_sparse=self.is_sparse, flip=not self.flip
        )

    def wrap(self, per_sample: AnyArray) -> Any:
        return da.from_array(per_sample, chunks=(self.chunks[0],))

    def _tasks(
        self,
        stage: str,
        work: Work,
        which: range,
        pieces: Sequence[Any] | None,
        shared: Any,
    ) -> list[Delayed]:
        """``work(block, piece, shared)`` for these blocks."""
        common, strips = _common(shared), self.strips
        calls = [
            (
                (work, None if pieces is None else pieces[k], self.dtype, self.unit),
                [strips[k], common],
            )
            for k in which
        ]
        return named(stage, _work_on, calls)

    @property
    def strips(self) -> list[Delayed]:
        """The blocks along the table's axis, as tasks; on a cluster they stay in its memory."""
        if self._strips is None:
            self._strips = persist(self._cut())
        return self._strips

    @property
    def _is_aligned(self) -> bool:
        """Whether the user's chunks are the blocks."""
        return self.grid.size == self.n_blocks == self.grid.shape[self.axis]

    def _cut(self) -> list[Delayed]:
        if self._is_aligned and not (self.flip or self.is_sparse):
            return list(self.grid.ravel())
        grid = self.grid if self.axis == 0 else self.grid.T
        if grid.shape[0] == self.n_blocks:
            parts = [(line, slice(None)) for line in grid]
        else:  # chunked along the other axis only: every chunk has a piece of each block
            bounds = self.bounds.tolist()
            parts = [(grid[0], slice(*bounds[k : k + 2])) for k in range(self.n_blocks)]
        calls = [((self.axis, self.flip, piece), list(line)) for line, piece in parts]
        return named("blocks", _joined, calls)

    @cached_property
    def survey(self) -> Survey:
        starts = [np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(int) for sizes in self.chunks]
        is_whole = self._is_aligned and self.oriented() is self  # the blocks are needed later
        chunks = self.strips if is_whole else self.grid.ravel()
        places = [
            ((row, column), f"block ({i}, {j})")
            for i, row in enumerate(starts[0].tolist())
            for j, column in enumerate(starts[1].tolist())
        ]
        flip = self.flip and not is_whole
        calls = [((flip, *place), [chunk]) for place, chunk in zip(places, chunks, strict=True)]
        found = compute(named("survey", _survey_of, calls), "survey")
        width = self.grid.shape[1]
        survey = Survey.of([found[a : a + width] for a in range(0, len(found), width)])
        self.is_sparse = survey.is_sparse
        return survey


def _bounds(chunks: Any, axis: int) -> IntArray:
    """The user's chunks along the axis; where there is only one, as many even pieces as there are
    chunks across."""
    sizes, across = chunks[axis], chunks[1 - axis]
    if len(sizes) > 1 or len(across) == 1:
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return np.unique(np.linspace(0, sizes[0], min(len(across), sizes[0]) + 1).astype(np.int64))


def _turned(chunk: Any, flip: bool) -> Points:
    """A chunk in the orientation of the table, dense or a CSR array."""
    block = chunk.T if flip else chunk
    return sp.csr_array(block) if sp.issparse(block) else np.asarray(block)


def _joined(axis: int, flip: bool, piece: slice, *chunks: Any) -> Points:
    """A block from chunks that lie across it, or from a piece of each."""
    parts = [_turned(chunk, flip) for chunk in chunks]
    if piece != slice(None):
        parts = [part[piece] if axis == 0 else part[:, piece] for part in parts]
    if len(parts) == 1:
        return parts[0]
    if any(sp.issparse(part) for part in parts):
        return sp.csr_array((sp.hstack if axis == 0 else sp.vstack)(parts))
    return np.concatenate(parts, axis=1 - axis)


def _work_on(work: Work, piece: Any, dtype: Any, unit: float, block: Any, shared: Any) -> Any:
    block = block if sp.issparse(block) else np.asarray(block)
    return work(as_floats(block, dtype, unit), piece, shared)


def _take_step(work: Callable[..., Any], k: int, n_items: int, shared: Any, *others: Any) -> Any:
    with freed_memory_is_kept():
        return work(list(others[:n_items]), k, list(others[n_items:]), shared)


def _itself(block: Points, _: Any, __: Any) -> Points:
    return block


def _survey_of(flip: bool, at: tuple[int, int], label: str, chunk: Any) -> Survey:
    return survey_block(_turned(chunk, flip), at, label)


def _common(shared: Any) -> Delayed:
    """What several tasks share, as a task of its own, so that it travels once."""
    if isinstance(shared, Delayed):
        return shared
    return delayed(shared, pure=False, traverse=False)


def named(
    stage: str,
    function: Callable[..., Any],
    calls: Sequence[tuple[tuple[Any, ...], Sequence[Delayed]]],
    workers: Sequence[Worker] = (),
) -> list[Delayed]:
    """A task ``function(*fixed, *results of tasks)`` for each of the calls ``(fixed, tasks)``,
    grouped on the dashboard as ``conecollapse-<stage>``; the first ones go first.

    Given ``workers``, tasks go to these in turn, if they are still there, and take all their
    threads.
    """
    token = uuid.uuid4().hex
    call = delayed(_in_threads, pure=False, traverse=False)
    made: list[Delayed] = []
    for k, (fixed, tasks) in enumerate(calls):
        worker = workers[k % len(workers)] if workers else Worker("", 1, 0.0)
        place = {"workers": [worker.address], "allow_other_workers": True} if worker.address else {}
        # by itself Dask begins with whatever is nearest to its inputs
        with dask.annotate(priority=-k, **place):
            what = partial(function, *fixed)  # Dask does not look for tasks in it
            key = f"conecollapse-{stage}-{token}-{k:05d}"
            made.append(call(worker.threads, what, *tasks, dask_key_name=key))
    return made


def _in_threads(threads: int, function: Callable[..., Any], *args: Any) -> Any:
    with limit_threads(threads):
        return function(*args)


def compute(tasks: Sequence[Any], stage: str) -> list[Any]:
    """Results in order. If the cluster goes away, `ClusterError` says during what."""
    try:
        with warnings.catch_warnings():
            # they travel with the tasks, so that no death loses them
            warnings.filterwarnings("ignore", "Sending large graph")
            return _on_cluster(tasks) if has_cluster() else list(dask.compute(*tasks))
    except (ConeCollapseError, KeyboardInterrupt):
        raise
    except BaseException as error:
        if not _is_loss(error):
            raise
        what = " ".join(f"{type(error).__name__}: {error}".rstrip(": .").split())
        raise ClusterError(
            f"the Dask cluster went away during conecollapse-{stage} ({what})."
        ) from error


def _on_cluster(tasks: Sequence[Any]) -> list[Any]:
    """What `dask.compute` returns, or `TimeoutError` where the cluster cannot answer any more.

    Results come through the scheduler, because the workers may be out of reach from here; those of
    a local cluster come straight.
    """
    from distributed import LocalCluster, get_client, wait

    client = get_client()
    watch = Watch(client, float(dask.config.get("conecollapse.patience", PATIENCE)))
    futures: Any = client.compute(list(tasks))
    while not all(future.done() for future in futures):
        try:
            wait(futures, timeout=min(LOOK, watch.patience))
        except TimeoutError:
            if any(future.status == "error" for future in futures):
                break  # the others are not needed
            watch.look()
    is_local = isinstance(getattr(client, "cluster", None), LocalCluster)
    return list(client.gather(futures, direct=is_local or None))


def persist(tasks: Sequence[Delayed]) -> list[Delayed]:
    """Held in the memory of a cluster, which begins with them now, if one is in use; else as they
    are, to be made again when needed."""
    if not has_cluster():
        return list(tasks)
    from distributed import get_client

    return [
        Delayed(future.key, {future.key: future}) for future in get_client().compute(list(tasks))
    ]


def has_cluster() -> bool:
    """Whether a `distributed` client runs the tasks."""
    try:
        from distributed import get_client

        get_client()
    except (ImportError, ValueError):
        return False
    return dask.config.get("scheduler", None) in (None, "dask.distributed", "distributed")


class Watch:
    """Looks at a cluster now and then, and says when waiting is of no use."""

    def __init__(self, client: Any, patience: float = PATIENCE) -> None:
        self.client = client
        self.patience = patience
        self.scheduler, workers = seen(client, LOOK)
        self.had_workers = len(workers) > 0
        self.alone_since: float | None = None

    def look(self) -> None:
        """Raise `TimeoutError` if nobody has been there to do the work for ``patience`` seconds, or
        never will be."""
        if self.client.status in ("closing", "closed"):
            raise TimeoutError("the connection to its scheduler is closed")
        scheduler, workers = seen(self.client)
        if None not in (scheduler, self.scheduler) and scheduler != self.scheduler:
            raise TimeoutError(
                "another scheduler answers at its address, without the results that the first one"
                " held"
            )
        self.had_workers |= len(workers) > 0
        # a cluster that has had no workers yet may be starting them
        if workers or not (scheduler is None or self.had_workers):
            self.alone_since = None
            return
        now = time.monotonic()
        self.alone_since = now if self.alone_since is None else self.alone_since
        if now - self.alone_since >= self.patience:
            what = "its scheduler has not answered" if scheduler is None else "it has had no worker"
            raise TimeoutError(f"{what} for {self.patience:g} seconds")


# when, and what
_SEEN: WeakKeyDictionary[Any, tuple[float, tuple[str | None, list[Worker]]]] = WeakKeyDictionary()


def seen(client: Any, age: float = 0.0) -> tuple[str | None, list[Worker]]:
    """The name of the scheduler, None where it does not answer, and its workers, as at most ``age``
    seconds ago."""
    if client.status != "running":
        return None, []
    before = _SEEN.get(client)
    if before is not None and time.monotonic() - before[0] < age:
        return before[1]
    try:
        told = client.scheduler_info()
    except Exception as error:
        if not (_is_loss(error) or isinstance(error, OSError)):
            raise
        return None, []
    found = (
        str(told["id"]) if "id" in told else None,
        [
            Worker(address, one["nthreads"], float(one.get("memory_limit") or np.inf))
            for address, one in told.get("workers", {}).items()
        ],
    )
    _SEEN[client] = time.monotonic(), found
    return found


def _is_loss(error: BaseException) -> bool:
    """Whether it is about the cluster and not about the work: broken connections, cancelled
    futures, workers that died too often."""
    if isinstance(error, (asyncio.CancelledError, concurrent.futures.CancelledError, TimeoutError)):
        return True
    return any(kind.__module__.startswith("distributed") for kind in type(error).__mro__)
