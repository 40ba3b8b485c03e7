"""Tasks with names that the dashboard shows, and what to say when the cluster goes away.

Dask itself waits for ever when the last worker is gone, when the scheduler does not come back, or
when another one answers at its address that knows nothing of what the first one held. Here the
cluster is looked at every few seconds while tasks run (`Watch`), and such a wait ends in an error.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
import uuid
import warnings
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import dask
from dask.delayed import Delayed, delayed

from conecollapse._errors import ClusterError, ConeCollapseError
from conecollapse._threads import limit_threads
from conecollapse.tables.dask_memory import freed_memory_is_kept

LOOK = 5.0  # seconds after which the cluster is looked at while it works
# seconds without a scheduler, or without any of the workers that it had, after which nobody is
# expected back
PATIENCE = 60.0


def named(
    stage: str,
    function: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...]],
    places: Sequence[str] | None = None,
) -> list[Delayed]:
    """One task for each tuple of arguments, grouped on the dashboard as ``conecollapse-<stage>``;
    the first ones go first.

    Tasks go to the workers in ``places`` in turn, if these are still there.
    """
    token = uuid.uuid4().hex
    call = delayed(_one_thread, pure=False, traverse=False)
    made: list[Delayed] = []
    for k, args in enumerate(arguments):
        tasks: list[Delayed] = []
        what = Call(function, _without(args, tasks))
        place = (
            {"workers": [places[k % len(places)]], "allow_other_workers": True} if places else {}
        )
        # by itself Dask begins with whatever is nearest to its inputs
        with dask.annotate(priority=-k, **place):
            made.append(call(what, *tasks, dask_key_name=f"conecollapse-{stage}-{token}-{k:05d}"))
    return made


class Call:
    """A call some of whose arguments are results of tasks, which come later.

    Dask looks for tasks in every tuple among the arguments of a task, and optimizes a graph for
    each that has some: milliseconds for each task, in the client, while all workers wait. Here it
    sees the tasks only.
    """

    __slots__ = ("args", "function")

    def __init__(self, function: Callable[..., Any], args: Any) -> None:
        self.function = function
        self.args = args

    def __call__(self, *results: Any) -> Any:
        return self.function(*_with(self.args, results))


class Place:
    """Stands for the result of a task."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


def _without(args: Any, tasks: list[Delayed]) -> Any:
    """Arguments in which places stand for the tasks, which are added to ``tasks``."""
    if isinstance(args, Delayed):
        tasks.append(args)
        return Place(len(tasks) - 1)
    return type(args)(_without(one, tasks) for one in args) if type(args) in (list, tuple) else args


def _with(args: Any, results: tuple[Any, ...]) -> Any:
    if isinstance(args, Place):
        return results[args.number]
    return type(args)(_with(one, results) for one in args) if type(args) in (list, tuple) else args


def _one_thread(function: Callable[..., Any], *args: Any) -> Any:
    """Tasks are what runs side by side, so each keeps to one thread of its own."""
    with limit_threads(1), freed_memory_is_kept():
        return function(*args)


def tree(stage: str, function: Callable[[Any, Any], Any], tasks: list[Delayed]) -> Delayed:
    """Neighbours combined in pairs until one is left."""
    while len(tasks) > 1:
        pairs = named(
            stage, function, [(tasks[k], tasks[k + 1]) for k in range(0, len(tasks) - 1, 2)]
        )
        tasks = pairs + tasks[len(pairs) * 2 :]
    return tasks[0]


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
    watch = Watch(client)
    futures: Any = [_begun(task) for task in tasks]
    if not all(futures):
        futures = client.compute(list(tasks))
    while not all(future.done() for future in futures):
        try:
            wait(futures, timeout=LOOK)
        except TimeoutError:
            if any(future.status == "error" for future in futures):
                break  # the others are not needed
            watch.look()
    return list(
        client.gather(
            futures, direct=isinstance(getattr(client, "cluster", None), LocalCluster) or None
        )
    )


def _begun(task: Any) -> Any:
    """The future of a task on which the cluster works already, or has worked, else None."""
    from distributed import Future

    if isinstance(task, Delayed):
        # `dask.persist` leaves a dictionary of futures
        task = task.dask.get(task.key) if isinstance(task.dask, dict) else None
    return task if isinstance(task, Future) else None


class Watch:
    """Looks at a cluster now and then, and says when waiting is of no use."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.scheduler, threads = seen(client, LOOK)
        self.had_workers = len(threads) > 0
        self.alone_since: float | None = None

    def look(self) -> None:
        """Raise `TimeoutError` if nobody has been there to do the work for `PATIENCE` seconds, or
        never will be."""
        if self.client.status in ("closing", "closed"):
            raise TimeoutError("the connection to its scheduler is closed")
        scheduler, threads = seen(self.client)
        has_workers = len(threads) > 0
        if None not in (scheduler, self.scheduler) and scheduler != self.scheduler:
            raise TimeoutError(
                "another scheduler answers at its address, without the results that the first one"
                " held"
            )
        self.had_workers |= has_workers
        # a cluster that has had no workers yet may be starting them
        if has_workers or not (scheduler is None or self.had_workers):
            self.alone_since = None
            return
        now = time.monotonic()
        self.alone_since = now if self.alone_since is None else self.alone_since
        if now - self.alone_since >= PATIENCE:
            what = "its scheduler has not answered" if scheduler is None else "it has had no worker"
            raise TimeoutError(f"{what} for {PATIENCE:g} seconds")


# when, and what
_SEEN: WeakKeyDictionary[Any, tuple[float, tuple[str | None, list[str]]]] = WeakKeyDictionary()


def seen(client: Any, age: float = 0.0) -> tuple[str | None, list[str]]:
    """The name of the scheduler, None where it does not answer, and the threads of its workers, as
    at most ``age`` seconds ago.

    A thread is told by the address of its worker; the first threads of all workers come first, then
    the second ones.
    """
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
    threads = [
        (k, address)
        for address, worker in told.get("workers", {}).items()
        for k in range(worker["nthreads"])
    ]
    found = (
        str(told["id"]) if "id" in told else None,
        [address for _, address in sorted(threads, key=lambda one: one[0])],
    )
    _SEEN[client] = time.monotonic(), found
    return found


def persist(tasks: Sequence[Delayed]) -> list[Delayed]:
    """Held in the memory of a cluster, which begins with them now, if one is in use; else as they
    are, to be made again when needed."""
    if not has_cluster() or all(_begun(task) is not None for task in tasks):
        return list(tasks)
    from distributed import get_client

    return [
        Delayed(future.key, {future.key: future}) for future in get_client().compute(list(tasks))
    ]


def holders(tasks: Sequence[Delayed]) -> list[list[str]]:
    """The workers that hold the results of these tasks, as far as there are results; none if the
    cluster went away."""
    from distributed import get_client

    try:
        found = get_client().who_has(list(tasks))
    except Exception as error:
        # the next tasks will say so
        if not (_is_loss(error) or isinstance(error, (OSError, ValueError))):
            raise
        found = {}
    return [sorted(found.get(task.key, ())) for task in tasks]


def drop_copies() -> None:
    """Let workers forget what they have from others and no task needs; Dask itself looks for such
    copies every few seconds."""
    from distributed import get_client

    try:
        get_client().amm.run_once()
    except Exception as error:
        # if the cluster went away, the next tasks will say so
        if not (_is_loss(error) or isinstance(error, (OSError, ValueError))):
            raise


def has_cluster() -> bool:
    """Whether a `distributed` client runs the tasks."""
    try:
        from distributed import get_client
    except ImportError:
        return False
    try:
        get_client()
    except ValueError:
        return False
    return dask.config.get("scheduler", None) in (None, "dask.distributed", "distributed")


def n_workers() -> int:
    """Tasks that can run at once, about."""
    if not has_cluster():
        return int(dask.config.get("num_workers", None) or 4)
    from distributed import get_client

    # if the cluster went away, the tasks will say so
    return max(1, len(seen(get_client(), LOOK)[1]))


def workers() -> list[str]:
    """The workers of the cluster in use, each as often as it has threads."""
    from distributed import get_client

    return seen(get_client(), LOOK)[1]


def _is_loss(error: BaseException) -> bool:
    """Whether it is about the cluster and not about the work: broken connections, cancelled
    futures, workers that died too often."""
    if isinstance(error, (asyncio.CancelledError, concurrent.futures.CancelledError, TimeoutError)):
        return True
    return any(kind.__module__.startswith("distributed") for kind in type(error).__mro__)
