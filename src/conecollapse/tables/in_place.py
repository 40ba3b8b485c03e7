"""Items of blocks that are all at hand here, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conecollapse.tables.blocked import Groups, Held, Work


class InPlace(Held):
    """Items in the memory of this process; whoever makes them in another way says so in `item`."""

    def __init__(self, items: Sequence[Any]) -> None:
        self.items = items
        self.n_blocks = len(items)

    def item(self, k: int) -> Any:
        return self.items[k]

    def select(
        self,
        work: Work,
        which: Sequence[tuple[int, Any]],
        shared: Any = None,
        *,
        stage: str,  # noqa: ARG002
    ) -> Groups:
        return [work(self.item(k), piece, shared) for k, piece in which]

    def spread(self, work: Work, pieces: Sequence[Any], shared: Any, *, stage: str) -> Groups:  # noqa: ARG002
        return [work(piece, shared) for piece in pieces]

    def whole(self, work: Work, shared: Any, *, stage: str) -> Any:  # noqa: ARG002
        return work([self.item(k) for k in range(self.n_blocks)], shared)

    def join(self, groups: Groups, work: Work, *, stage: str) -> Any:  # noqa: ARG002
        return work(list(groups))

    def tiles(
        self,
        work: Work,
        which: Sequence[tuple[int, int]],
        shared: Any = None,
        *,
        stage: str,  # noqa: ARG002
        side: int = 1,  # noqa: ARG002
        costs: Sequence[float] | None = None,  # noqa: ARG002
    ) -> list[Any]:
        found = {}
        for a in sorted({a for a, _ in which}):
            first = self.item(a)
            found.update(
                {
                    (a, b): work(first, first if a == b else self.item(b), shared)
                    for c, b in which
                    if c == a
                }
            )
        return [found[pair] for pair in which]

    def cross(
        self,
        groups: Groups,
        pair: Work,
        gather: Work,
        shared: Any = None,
        *,
        stage: str,  # noqa: ARG002
        thin: bool = False,  # noqa: ARG002
    ) -> Groups:
        return [
            gather(group, [pair(group, self.item(k), shared) for k in range(self.n_blocks)], shared)
            for group in groups
        ]

    def chain(
        self,
        groups: Groups,
        work: Work,
        rounds: int,
        shared: Any = None,
        *,
        stage: str,  # noqa: ARG002
    ) -> Groups:
        groups = list(groups)
        for _ in range(rounds):
            for k in range(self.n_blocks):
                groups = [work(group, self.item(k), k, shared) for group in groups]
        return groups

    def collect(self, *groups: Groups, stage: str) -> list[list[Any]]:  # noqa: ARG002
        return [list(some) for some in groups]
