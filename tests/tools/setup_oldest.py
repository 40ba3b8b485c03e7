"""Print the requirements of ``make test-oldest``: each dependency that declares a minimum, at that
version."""

from __future__ import annotations

import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
EXTRAS = ("cli", "report", "datasets", "images", "bio", "parquet", "dask", "test")


def oldest() -> list[str]:
    """Requirements such as ``numpy==1.26``, of the package and of the extras that the tests
    need."""
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    declared = [
        *project["dependencies"],
        *(line for extra in EXTRAS for line in project["optional-dependencies"][extra]),
    ]
    return [line.replace(">=", "==") for line in declared]


if __name__ == "__main__":
    print("\n".join(oldest()))
