"""Texts whose topics are known: the documentation of public functions and classes of Python
packages, by package.

``python benchmarks/docstrings.py texts.json`` writes 200 of each package that is installed.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import sys
import warnings
from pathlib import Path

PACKAGES = (
    "numpy",
    "scipy",
    "sklearn",
    "pandas",
    "matplotlib",
    "networkx",
    "sympy",
    "plotly",
    "dask",
    "numba",
)
PER_PACKAGE = 200
SHORTEST = 300  # characters: shorter texts say little
MOST_MODULES = 400  # of a package that are looked through


def modules_of(package: str) -> list[str]:
    """The names of the public modules of a package, in their order."""
    root = importlib.import_module(package)
    names = [package]
    for module in pkgutil.walk_packages(root.__path__, f"{package}.", onerror=lambda _: None):
        is_private = any(part.startswith("_") for part in module.name.split("."))
        if not is_private and "test" not in module.name:
            names.append(module.name)
        if len(names) >= MOST_MODULES:
            break
    return names


def texts_of(package: str) -> list[str]:
    """Up to `PER_PACKAGE` different texts of a package, spread over its modules."""
    found: dict[str, None] = {}
    for name in modules_of(package):
        try:
            module = importlib.import_module(name)
        except BaseException:  # optional parts of packages are not installed
            continue
        for key, value in sorted(vars(module).items()):
            if key.startswith("_") or not (inspect.isfunction(value) or inspect.isclass(value)):
                continue
            if not str(getattr(value, "__module__", "")).startswith(package):
                continue
            text = inspect.getdoc(value) or ""
            if len(text) >= SHORTEST:
                found.setdefault(text)
    texts = list(found)
    step = max(len(texts) // PER_PACKAGE, 1)
    return texts[::step][:PER_PACKAGE]


def main() -> None:
    warnings.simplefilter("ignore")
    collected: dict[str, list[str]] = {}
    for package in PACKAGES:
        try:
            collected[package] = texts_of(package)
        except ImportError:
            print(f"{package} is not installed", file=sys.stderr)
    Path(sys.argv[1]).write_text(json.dumps(collected))
    print({package: len(texts) for package, texts in collected.items()})


if __name__ == "__main__":
    main()
