"""MATLAB files up to version 7.2, which is what the paper's sources use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import scipy.sparse as sp


def read_mat(path: Path, *names: str) -> list[Any]:
    """The variables of these names; a sparse one is checked, since SciPy trusts the indices that it
    reads."""
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        content = loadmat(path, spmatrix=False, variable_names=names)
    except MatReadError as error:
        raise ValueError(str(error)) from error
    lacking = [name for name in names if name not in content]
    if lacking:
        raise ValueError(f"it has no variable {lacking[0]!r}")
    for name in names:
        # as files of version 5 have it; COO is checked when it is made
        if sp.issparse(content[name]) and content[name].format == "csc":
            content[name].check_format(full_check=True)
    return [content[name] for name in names]
