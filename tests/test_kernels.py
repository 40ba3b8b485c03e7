"""How kernels are written."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import conecollapse
from conecollapse._kernels import borrow, kernel

MOST_ARGUMENTS = 8  # what belongs together is passed as one NamedTuple
SOURCE = Path(conecollapse.__file__).parent


def is_kernel(function: ast.FunctionDef) -> bool:
    """Whether it is decorated with ``@kernel`` or ``@kernel(...)``."""
    names = [
        decorator.func if isinstance(decorator, ast.Call) else decorator
        for decorator in function.decorator_list
    ]
    return any(isinstance(name, ast.Name) and name.id == "kernel" for name in names)


def kernels() -> dict[str, list[ast.arg]]:
    """The arguments of every kernel of the package."""
    found = {}
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and is_kernel(node):
                a = node.args
                found[f"{file.relative_to(SOURCE).as_posix()}: {node.name}"] = [
                    *a.posonlyargs,
                    *a.args,
                    *a.kwonlyargs,
                ]
    return found


def test_kernels_take_few_arguments():
    arguments = kernels()
    assert "_nnls/factor.py: new_state" in arguments  # the walk finds kernels
    assert "_nnls/products.py: descend" in arguments  # also those whose decorator has options
    assert {name: len(args) for name, args in arguments.items() if len(args) > MOST_ARGUMENTS} == {}


@kernel
def quotient(a, b):
    return a / b


@kernel
def mean(a):
    if len(a) > 3:
        raise ValueError("too many")
    total = 0.0
    for x in a:
        total += x
    return quotient(total, len(a))


@kernel
def difference(a, b):
    return mean(a) - mean(b)


def test_a_kernel_may_be_part_of_others_and_be_called_from_python():
    a, b = np.array([1.0, 2.0, 6.0]), np.array([1.0])
    assert difference(a, b) == 2.0
    assert mean(a) == 3.0
    with pytest.raises(ZeroDivisionError):
        difference(a, b[:0])
    for call in (lambda: mean(np.ones(4)), lambda: difference(np.ones(4), a)):
        with pytest.raises(ValueError, match="too many"):
            call()


@kernel
def total(a):
    own = a.copy()
    part = borrow(own)
    return part.sum() + len(own)


def test_a_borrowed_array_is_the_same_array():
    assert total(np.arange(6.0).reshape(2, 3)) == 17.0
    assert borrow(total) is total
