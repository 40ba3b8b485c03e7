"""Dask: the same cones and factorizations on Dask arrays, on threads or on a cluster. The only place where Dask is imported.

`Cone.from_points`, `Cone.from_table`, `ConeCollapse.fit` and `CCNMF.fit` come here by themselves when they are given a Dask array.
"""

from __future__ import annotations

from conecollapse._errors import MissingDependencyError

try:
    import dask.array  # noqa: F401
except ImportError as error:
    raise MissingDependencyError("Dask arrays need dask and distributed; pip install 'conecollapse[dask]'.") from error

from conecollapse.distributed.table import DaskTable, table_of

__all__ = ["DaskTable", "table_of"]
