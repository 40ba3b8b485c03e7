"""A table on disk, read block by block in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any

from conecollapse._errors import InvalidInputError
from conecollapse._types import Points
from conecollapse.io.source import TableSource
from conecollapse.tables.blocked import BlockedTable, Looked, Work
from conecollapse.tables.in_place import InPlace
from conecollapse.tables.survey import BlockSurvey, Survey, survey_block

KEPT_BYTES = 2**27  # of what is made from blocks and kept while pairs of them are compared


class FileTable(BlockedTable):
    """A table that is read from its source, a block at a time, whenever a product needs it."""

    kind = "an opened file, read in blocks"

    def __init__(self, source: TableSource, axis: int = 0, block_size: int | None = None) -> None:
        n, m = source.shape
        if not (n and m):
            raise InvalidInputError(
                f"the table has shape {source.shape}; at least one sample and one feature are"
                " needed."
            )
        self.source = source
        super().__init__(
            source.shape,
            source.dtype,
            axis,
            source.bounds(axis, block_size),
            is_sparse=source.is_sparse,
        )

    def block(self, k: int) -> Points:
        """Block ``k`` as a dense array or a CSR array, in floating point."""
        return self._floating(self._read(k))

    def _read(self, k: int) -> Points:
        return self.source.read(self.axis, int(self.bounds[k]), int(self.bounds[k + 1]))

    def blocks(self) -> Iterator[Points]:
        return (self.block(k) for k in range(self.n_blocks))

    def visit(
        self,
        work: Work,
        pieces: Sequence[Any] | None = None,
        shared: Any = None,
        *,
        stage: str = "products",  # noqa: ARG002
    ) -> list[Any]:
        return [
            work(self.block(k), None if pieces is None else pieces[k], shared)
            for k in range(self.n_blocks)
        ]

    def visit_from(
        self,
        first: int,
        work: Work,
        shared: Any = None,
        *,
        stage: str = "products",  # noqa: ARG002
    ) -> Iterator[Any]:
        return (work(self.block(k), None, shared) for k in range(first, self.n_blocks))

    def reduce(
        self,
        work: Work,
        combine: Callable[[Any, Any], Any],
        shared: Any = None,
        *,
        stage: str = "products",
    ) -> Any:
        """Like the digits of a binary counter: two results of equally many blocks become one at
        once, so that few are held."""
        digits: list[tuple[int, Any]] = []  # how many blocks, and their result
        for result in self.visit_from(0, work, shared, stage=stage):
            count = 1
            while digits and digits[-1][0] == count:
                result, count = combine(digits.pop()[1], result), 2 * count
            digits.append((count, result))
        result = digits.pop()[1]
        while digits:
            result = combine(digits.pop()[1], result)
        return result

    def look(self, work: Work, shared: Any = None, *, stage: str) -> Looked:
        if self.source.survey is not None:
            return Looked(self.visit(work, None, shared, stage=stage))
        parts, found = [], []
        for k in range(self.n_blocks):
            block = self._read(k)
            parts.append(self._surveyed(k, block))
            found.append(work(self._floating(block), None, shared))
        self.source.survey = self._put_together(parts)
        return Looked(found)

    def hold(
        self,
        make: Work,
        pieces: Sequence[Any] | None = None,
        shared: Any = None,
        *,
        stage: str,  # noqa: ARG002
        cheap: bool = False,  # noqa: ARG002
        last: bool = False,  # noqa: ARG002
    ) -> FileHeld:
        return FileHeld(
            self, lambda k: make(self.block(k), None if pieces is None else pieces[k], shared)
        )

    def along(self, axis: int) -> FileTable:
        if axis == self.axis:
            return self
        other = FileTable(self.source, axis)
        other.unit, other.dtype = self.unit, self.dtype
        return other

    def _floating(self, block: Points) -> Points:
        block = block.astype(self.dtype, copy=False)
        return block if self.unit == 1 else block / self.dtype.type(self.unit)

    def _survey(self) -> Survey:
        if self.source.survey is None:
            parts = [self._surveyed(k, self._read(k)) for k in range(self.n_blocks)]
            self.source.survey = self._put_together(parts)
        survey: Survey = self.source.survey
        return survey

    def _surveyed(self, k: int, block: Points) -> BlockSurvey:
        a, b = self.bounds[k : k + 2].tolist()
        label = f"block {k} ({('samples', 'features')[self.axis]} {a} to {b - 1})"
        block = block.astype(self.dtype) if block.dtype.kind not in "fiu" else block
        return survey_block(block, (a, 0) if self.axis == 0 else (0, a), label)

    def _put_together(self, parts: list[BlockSurvey]) -> Survey:
        return Survey.of([[part] for part in parts] if self.axis == 0 else [parts])

    def _copy(self) -> FileTable:
        return copy(self)


class FileHeld(InPlace):
    """Items that are made from the file whenever they are needed. The first ones are kept, up to
    `KEPT_BYTES`, and the last one."""

    def __init__(self, table: FileTable, make: Callable[[int], Any]) -> None:
        self.n_blocks = table.n_blocks
        self.make = make
        self.kept: dict[int, Any] = {}
        self.room = KEPT_BYTES
        self.last: tuple[int, Any] = (-1, None)

    def item(self, k: int) -> Any:
        if k in self.kept:
            return self.kept[k]
        if self.last[0] == k:
            return self.last[1]
        self.last = (-1, None)  # let it go before the next one is made
        made = self.make(k)
        size = sum(getattr(part, "nbytes", 0) for part in made)
        if size <= self.room:
            self.room -= size
            self.kept[k] = made
        else:
            self.last = (k, made)
        return made
