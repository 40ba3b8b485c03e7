"""``.npy``: one array."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from conecollapse._errors import InvalidInputError
from conecollapse.io.matrix import Matrix

MAGIC = b"\x93NUMPY"


def read_npy(path: Path) -> Matrix:
    """Read a two-dimensional array; objects are refused, never unpickled."""
    with open(path, "rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise InvalidInputError(f"{path.name} is not a .npy file; write one with numpy.save.")
    try:
        return Matrix(np.load(path, allow_pickle=False))
    except ValueError as error:
        if "allow_pickle" in str(error):
            raise pickled(path) from None
        raise


def pickled(path: Path) -> InvalidInputError:
    """The refusal of a file that holds Python objects."""
    return InvalidInputError(f"{path.name} holds Python objects (a pickle), which could run code when read; save a plain array of numbers.")
