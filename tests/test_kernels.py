"""How kernels are written."""

from __future__ import annotations

import ast
from pathlib import Path

import conecollapse

MOST_ARGUMENTS = 8  # what belongs together is passed as one NamedTuple
SOURCE = Path(conecollapse.__file__).parent


def is_kernel(function: ast.FunctionDef) -> bool:
    """Whether it is decorated with ``@kernel`` or ``@kernel(...)``."""
    names = [decorator.func if isinstance(decorator, ast.Call) else decorator for decorator in function.decorator_list]
    return any(isinstance(name, ast.Name) and name.id == "kernel" for name in names)


def kernels() -> dict[str, list[ast.arg]]:
    """The arguments of every kernel of the package."""
    found = {}
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and is_kernel(node):
                a = node.args
                found[f"{file.relative_to(SOURCE).as_posix()}: {node.name}"] = [*a.posonlyargs, *a.args, *a.kwonlyargs]
    return found


def test_kernels_take_few_arguments():
    arguments = kernels()
    assert "_nnls/kernels.py: descend" in arguments  # the walk finds kernels
    assert "_nnls/twofold.py: two_sum" in arguments  # also those whose decorator has options
    assert {name: len(args) for name, args in arguments.items() if len(args) > MOST_ARGUMENTS} == {}
