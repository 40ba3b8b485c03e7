"""Every statement of SciPy's own NNLS tests, made about our `nnls`."""

from __future__ import annotations

import numpy as np
import pytest

from conecollapse import nnls

scipy_tests = pytest.importorskip("scipy.optimize.tests.test_nnls", reason="this SciPy ships without its tests")


@pytest.fixture(autouse=True)
def ours_instead_of_scipys(monkeypatch):
    monkeypatch.setattr(scipy_tests, "nnls", nnls)


@pytest.mark.filterwarnings("ignore:the arguments {'atol'} are ignored:DeprecationWarning")  # tests of older SciPy pass it
class TestStatementsOfSciPy(scipy_tests.TestNNLS):
    def test_2D_not_singleton_RHS_input_2(self):
        """The one statement that cannot hold: SciPy refuses several columns, we solve them. What is refused is a third dimension."""
        with pytest.raises(ValueError, match="Expected a 1D array"):
            nnls(np.eye(2), np.ones((2, 2, 2)))
