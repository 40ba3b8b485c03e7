"""Tasks with names that the dashboard shows, and what to say when the cluster goes away."""

from __future__ import annotations

import asyncio
import concurrent.futures
import uuid
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import dask
from dask.delayed import Delayed, delayed

from conecollapse._errors import ClusterError, ConeCollapseError
from conecollapse._threads import limit_threads


def named(stage: str, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Delayed]:
    """One task for each tuple of arguments, grouped on the dashboard as ``conecollapse-<stage>``."""
    token = uuid.uuid4().hex
    call = delayed(_one_thread, pure=False, traverse=False)
    return [call(function, *args, dask_key_name=f"conecollapse-{stage}-{token}-{k}") for k, args in enumerate(arguments)]


def _one_thread(function: Callable[..., Any], *args: Any) -> Any:
    """Tasks are what runs side by side, so each keeps to one thread of its own."""
    with limit_threads(1):
        return function(*args)


def tree(stage: str, function: Callable[[Any, Any], Any], tasks: list[Delayed]) -> Delayed:
    """Neighbours combined in pairs until one is left."""
    while len(tasks) > 1:
        pairs = named(stage, function, [(tasks[k], tasks[k + 1]) for k in range(0, len(tasks) - 1, 2)])
        tasks = pairs + tasks[len(pairs) * 2 :]
    return tasks[0]


def compute(tasks: Sequence[Delayed], stage: str) -> list[Any]:
    """Results in order. If the cluster goes away, `ClusterError` says during what."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")  # they travel with the tasks, so that no death loses them
            return list(dask.compute(*tasks))
    except (ConeCollapseError, KeyboardInterrupt):
        raise
    except BaseException as error:
        if not _is_loss(error):
            raise
        what = " ".join(f"{type(error).__name__}: {error}".rstrip(": .").split())
        raise ClusterError(f"the Dask cluster went away during conecollapse-{stage} ({what}).") from error


def persist(tasks: Sequence[Delayed]) -> list[Delayed]:
    """Held in the memory of a cluster, if one is in use; else as they are, to be made again whenever they are needed."""
    return list(dask.persist(*tasks)) if has_cluster() else list(tasks)


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

    try:
        return max(1, sum(get_client().nthreads().values()))
    except Exception as error:
        if not _is_loss(error):
            raise
        return 1  # a cluster that went away: the tasks will say so


def _is_loss(error: BaseException) -> bool:
    """Whether it is about the cluster and not about the work: broken connections, cancelled futures, workers that died too often."""
    if isinstance(error, (asyncio.CancelledError, concurrent.futures.CancelledError, TimeoutError)):
        return True
    return any(kind.__module__.startswith("distributed") for kind in type(error).__mro__)
