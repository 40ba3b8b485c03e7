"""Where numba keeps what it has compiled for the kernels of a checkout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

PACKAGE = Path("src/conecollapse")


def caches(tree: Path, kernels: Iterable[str]) -> Iterator[Path]:
    """numba's files for the kernels of these source files, in the checkout's folders."""
    for name in kernels:
        path = tree / PACKAGE / name
        yield from (path.parent / "__pycache__").glob(f"{path.stem}.*.nb[ic]")
