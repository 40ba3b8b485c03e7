"""Which compiled kernels a change of a source file makes stale.

numba's cache follows a kernel's own file, not the files that it takes other kernels and constants from: those are built into it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

PACKAGE = Path("src/conecollapse")


def sources_of_kernels(tree: Path) -> dict[str, set[str]]:
    """For each file with kernels: itself, what it imports from, and the same for those of them that have kernels too."""
    package = tree / PACKAGE
    imported: dict[str, set[str]] = {}
    for path in package.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        if "@kernel" in source:
            imported[path.relative_to(package).as_posix()] = set(_imports(ast.parse(source), package))
    reached = {}
    for file in imported:
        reached[file], new = {file}, {file}
        while new:
            new = {target for name in new for target in imported.get(name, ())} - reached[file]
            reached[file] |= new
    return reached


def _imports(tree: ast.AST, package: Path) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("conecollapse"):
            module = "/".join(node.module.split(".")[1:])
            yield from (file for file in (f"{module}.py", f"{module}/__init__.py") if (package / file).is_file())


def reached_kernels(tree: Path, file: str) -> list[str]:
    """Files with kernels that have something of ``file`` built into them."""
    return sorted(name for name, sources in sources_of_kernels(tree).items() if file in sources)


def caches(tree: Path, kernels: Iterable[str]) -> Iterator[Path]:
    """numba's files for the kernels of these source files, in the checkout's folders."""
    for name in kernels:
        path = tree / PACKAGE / name
        yield from (path.parent / "__pycache__").glob(f"{path.stem}.*.nb[ic]")


def drop_stale_kernels(tree: Path) -> None:
    """Drop the caches of kernels whose sources are newer; that of ``make test-oldest`` as a whole."""
    package = tree / PACKAGE
    oldest = list((tree / ".venv-oldest" / "kernels").rglob("*.nb[ic]"))
    for name, sources in sources_of_kernels(tree).items():
        newest = max((package / source).stat().st_mtime for source in sources)
        for file in [*caches(tree, [name]), *oldest]:
            if file.exists() and file.stat().st_mtime < newest:
                file.unlink(missing_ok=True)
