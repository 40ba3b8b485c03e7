"""What a type checker says about a user's script."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import numpy as np

from conecollapse import ConeNovelty, GraphCCNMF, HierarchicalNMF, MinVolumeNMF, SeparableNMF

X = np.eye(3)
HierarchicalNMF("three")
HierarchicalNMF(3, ini="random")
HierarchicalNMF(3).fti(X)
MinVolumeNMF(3).fit(X, weights=X)
GraphCCNMF(3).fit(X, None, must_lnk=[])
reveal_type(HierarchicalNMF(3).fit(X))
reveal_type(GraphCCNMF(3).fit(X).components_)
reveal_type(SeparableNMF(3).fit_transform(X))
reveal_type(ConeNovelty().fit(X))
"""
ERRORS = {
    7: 'incompatible type "str"; expected "int"',
    8: 'Unexpected keyword argument "ini"',
    9: 'has no attribute "fti"',
    10: 'Unexpected keyword argument "weights"',
    11: 'Unexpected keyword argument "must_lnk"',
}
REVEALED = {
    12: "conecollapse.estimators.nmf.HierarchicalNMF",
    13: "numpy.ndarray",
    14: "numpy.ndarray",
    15: "conecollapse.estimators.novelty.ConeNovelty",
}


@pytest.mark.full
def test_a_type_checker_knows_arguments_methods_and_attributes_of_estimators(tmp_path):
    pytest.importorskip("mypy")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", str(script)]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout
    lines = {}
    for line in said.splitlines():
        if line.startswith("script.py:"):
            _, number, text = line.split(":", 2)
            lines.setdefault(int(number), []).append(text)
    assert set(lines) == ERRORS.keys() | REVEALED.keys(), said
    for number, expected in (ERRORS | REVEALED).items():
        assert any(expected in text for text in lines[number]), (number, said)
