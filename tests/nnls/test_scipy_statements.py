"""Every statement of SciPy's own NNLS tests, made about our `nnls`."""

from __future__ import annotations

import numpy as np
import pytest

from conecollapse import nnls

scipy_tests = pytest.importorskip(
    "scipy.optimize.tests.test_nnls", reason="this SciPy ships without its tests"
)


@pytest.fixture(autouse=True)
def ours_instead_of_scipys(monkeypatch):
    monkeypatch.setattr(scipy_tests, "nnls", nnls)


# tests of older SciPy pass it
@pytest.mark.filterwarnings("ignore:the arguments {'atol'} are ignored:DeprecationWarning")
class TestStatementsOfSciPy(scipy_tests.TestNNLS):
    """Two statements are ours instead, because we take several right-hand sides in columns."""

    def test_2D_singleton_RHS_input(self):
        """SciPy makes a single column a vector. Here the solution keeps the form of b, so that one
        column is not a special case."""
        A = np.array([[1.0, 0.5, -1.0], [1.0, 0.5, 0.0], [-1.0, 0.0, 1.0]])
        x, rnorm = nnls(A, np.array([[-1.0, 2.0, 2.0]]).T)
        np.testing.assert_allclose(x, [[1.0], [2.0], [3.0]])
        np.testing.assert_allclose(rnorm, [0.0], atol=1e-14)

    def test_2D_not_singleton_RHS_input_2(self):
        """SciPy refuses several columns, we solve them. What is refused is a third dimension."""
        with pytest.raises(ValueError, match="Expected a 1D array"):
            nnls(np.eye(2), np.ones((2, 2, 2)))
