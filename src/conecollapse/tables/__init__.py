"""Tables: what is factorized, however it is stored. One protocol (`protocol`), one file for each
kind of storage.

`as_table` makes a table of anything that is one; `as_blocked` only of what is not in memory. A new
kind needs a file here and a line in `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import scipy.sparse as sp

from conecollapse.io.source import TableSource
from conecollapse.tables.blocks import BlockedTable, FileTable
from conecollapse.tables.csr import CsrTable, held
from conecollapse.tables.diffused import DiffusedTable, ProductTable
from conecollapse.tables.in_memory import DenseTable, InMemoryTable
from conecollapse.tables.masked import MaskedTable
from conecollapse.tables.protocol import Equations, Table

__all__ = [
    "BlockedTable",
    "CsrTable",
    "DenseTable",
    "DiffusedTable",
    "Equations",
    "InMemoryTable",
    "MaskedTable",
    "ProductTable",
    "Table",
    "as_blocked",
    "as_table",
    "recognised",
    "stored",
]


def _of_source(X: Any) -> Table | None:
    return FileTable(X) if isinstance(X, TableSource) else None


def _of_dask(X: Any) -> Table | None:
    if type(X).__module__.partition(".")[0] != "dask":
        return None
    # an optional dependency, which takes a second to import
    from conecollapse.tables.dask import table_of

    return table_of(X)


# each makes a table of what it knows, else None
KINDS: tuple[Callable[[Any], Table | None], ...] = (_of_source, _of_dask)


def recognised(X: Any) -> Table | None:
    """``X`` as a table if it is one, or of a kind in `KINDS`; None for arrays, sparse arrays and
    frames, which are to be checked first."""
    if isinstance(X, Table):
        return X
    return next((table for table in (kind(X) for kind in KINDS) if table is not None), None)


def as_table(X: Any) -> Table:
    """``X`` as a table. The entries of an array are not checked."""
    table = recognised(X)
    return held(X) if table is None else table


def as_blocked(X: Any) -> BlockedTable | None:
    """``X`` as a table in blocks if it is one; else None."""
    table = recognised(X)
    return table if isinstance(table, BlockedTable) else None


def stored(table: Table, *, sparse: bool) -> Table:
    """The same entries as a CSR array, or as a dense array."""
    if sparse == table.is_sparse:
        return table
    return held(sp.csr_array(table.array) if sparse else table.array.toarray())
