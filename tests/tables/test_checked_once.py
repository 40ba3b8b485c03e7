"""What a user passes is checked once and made a table once on the way to a fitted model, and no
module is entered from a layer below it, but for functions that were passed down."""

from __future__ import annotations

import re
import sys
import tomllib
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from conecollapse import GraphCCNMF, HierarchicalNMF, MinVolumeNMF, scverse
from conecollapse.io import open_table

ROOT = Path(__file__).parents[2]
DOORS = ("check_input", "check_table", "as_points", "as_matrix", "as_table")
rng = np.random.default_rng(0)
X = rng.gamma(0.5, size=(40, 3)) @ rng.gamma(0.5, size=(3, 20)) + 0.01
MISSING = np.where(np.arange(800).reshape(X.shape) == 84, np.nan, X)
WEIGHTS = rng.random(X.shape) + 0.5
KNOWN = np.where(np.arange(40) < 9, np.arange(40) % 3, -1)


def npy(folder):
    np.save(folder / "x.npy", X)
    return folder / "x.npy"


def clusters(folder):  # noqa: ARG001
    anndata = pytest.importorskip("anndata")
    return scverse.cluster(anndata.AnnData(X), 3)


WALKS = {
    "HierarchicalNMF, missing, weights": lambda _: HierarchicalNMF(3).fit(MISSING, weights=WEIGHTS),
    "GraphCCNMF, labels": lambda _: GraphCCNMF(3).fit(X, KNOWN),
    "MinVolumeNMF": lambda _: MinVolumeNMF(3).fit(X),
    "scverse.cluster": clusters,
    "open_table": lambda folder: open_table(npy(folder)),
}


def layers():
    """The layer of each module, the highest is 0."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "importlinter"
    ]["contracts"]
    lines = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return {name.strip(): k for k, line in enumerate(lines) for name in re.split("[|:]", line)}


def layer(module, levels):
    names = [name for name in levels if f"{module}.".startswith(f"{name}.")]
    return levels[max(names, key=len)] if names else -1  # the package itself


def is_users(value):
    value = getattr(value, "X", value)  # with its names
    return isinstance(value, np.ndarray) and any(
        value.shape == table.shape and np.array_equal(value, table, equal_nan=True)
        for table in (X, MISSING)
    )


@pytest.mark.own
@pytest.mark.parametrize("name", WALKS)
def test_a_table_is_checked_once_and_no_layer_is_entered_from_below(name, tmp_path):
    calls, ups, levels = Counter(), set(), layers()

    def follow(frame, event, _):
        module, code = frame.f_globals.get("__name__", ""), frame.f_code
        if event != "call" or not module.startswith("conecollapse"):
            return
        if code.co_name in DOORS and any(map(is_users, frame.f_locals.values())):
            calls[code.co_name] += 1
        caller = frame.f_back
        while caller and not caller.f_globals.get("__name__", "").startswith("conecollapse"):
            caller = caller.f_back
        # steps of loops, work of threads and callbacks are passed down
        if caller and not re.search("<locals>|<lambda>|<genexpr>", code.co_qualname):
            below = caller.f_globals["__name__"]
            if layer(module, levels) < layer(below, levels):
                ups.add((below, code.co_qualname))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        WALKS[name](tmp_path)  # what is compiled or imported at the first call is no part of it
        sys.setprofile(follow)
        try:
            WALKS[name](tmp_path)
        finally:
            sys.setprofile(None)
    assert ups <= {  # methods that are passed down
        ("conecollapse._iterate", "Estimator._report_iteration"),
        ("conecollapse._linalg", "DiffusedTable._step"),
    }
    assert all(count == 1 for count in calls.values()), calls
    assert calls or name == "open_table"
