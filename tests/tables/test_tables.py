"""Tables: every kind of storage answers as the array with its entries does, and nothing above asks
which kind it is."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from conecollapse import Cone, HierarchicalNMF, InvalidInputError
from conecollapse.affinity.graphs import diffused, normalized
from conecollapse.io import open_table
from conecollapse.tables import (
    CsrTable,
    DenseTable,
    DiffusedTable,
    ProductTable,
    Table,
    as_table,
    recognised,
    stored,
)

SRC = Path(__file__).resolve().parents[2] / "src" / "conecollapse"
rng = np.random.default_rng(0)
X = rng.random((40, 17)) * (rng.random((40, 17)) < 0.6)
X[3] = 0.0
X[:, 5] = 0.0
RING = sp.csr_array(np.roll(np.eye(40), 1, axis=1) + np.roll(np.eye(40), -1, axis=1))
N = normalized(RING)
P = diffused(N, 0.7)
E = sp.csr_array(np.abs(rng.standard_normal((9, 40))) * (rng.random((9, 40)) < 0.3))
FILLED = np.flatnonzero(X.any(axis=1))
COLUMNS, SCALE = np.array([2, 0, 11]), np.array([0.5, 2.0, 3.0])


def dask_table(chunks):
    da = pytest.importorskip("dask.array")
    return as_table(da.from_array(X, chunks=chunks))


def npy_table(folder):
    np.save(folder / "x.npy", X)
    return as_table(open_table(folder / "x.npy", block_size=7))


# each makes a table in a folder, and has the array with its entries
KINDS = {
    "dense": (lambda _: DenseTable(X), X),
    "sparse": (lambda _: CsrTable(sp.csr_array(X)), X),
    "file in blocks of samples": (lambda folder: npy_table(folder).along(0), X),
    "file in blocks of features": (lambda folder: npy_table(folder).along(1), X),
    "sparse array in blocks": (lambda _: as_table(open_table(sp.csr_array(X), block_size=9)), X),
    "Dask array in blocks of samples": (lambda _: dask_table((13, -1)), X),
    "Dask array in blocks of features": (lambda _: dask_table((-1, 6)), X),
    "columns of a file": (
        lambda folder: npy_table(folder).columns(COLUMNS, SCALE),
        X[:, COLUMNS] * SCALE,
    ),
    "columns of columns": (
        lambda folder: npy_table(folder).columns(COLUMNS, SCALE).columns(np.array([2, 0])),
        X[:, [11, 2]] * [3.0, 0.5],
    ),
    "diffused graph": (lambda _: DiffusedTable(N, 0.7), P),
    "diffused table": (lambda _: DiffusedTable(N, 0.7, sp.csr_array(X)), P @ X),
    "columns of a diffused table": (
        lambda _: DiffusedTable(N, 0.7, X).columns(COLUMNS, SCALE),
        (P @ X)[:, COLUMNS] * SCALE,
    ),
    "file without its samples of zeros": (lambda folder: npy_table(folder).rows(FILLED), X[FILLED]),
    "product": (lambda _: ProductTable(E, DenseTable(X)), E @ X),
}
IN_MEMORY = ("dense", "sparse")
IN_BLOCKS = tuple(name for name in KINDS if "in blocks" in name)


@pytest.fixture(params=KINDS)
def kind(request, tmp_path):
    make, array = KINDS[request.param]
    return request.param, make(tmp_path), np.asarray(array)


def test_products_are_those_of_the_array(kind):
    _, table, array = kind
    B, C = (
        np.random.default_rng(1).random((array.shape[1], 3)),
        np.random.default_rng(2).random((array.shape[0], 2)),
    )
    one_each = sp.csr_array((np.ones(len(C)), (np.arange(len(C)), np.arange(len(C)) % 2)))
    assert table.shape == array.shape
    np.testing.assert_allclose(table @ B, array @ B, rtol=1e-10)
    np.testing.assert_allclose(table.T @ C, array.T @ C, rtol=1e-10)
    np.testing.assert_allclose(table.T @ one_each, array.T @ one_each.toarray(), rtol=1e-10)
    operator = table.operator()
    np.testing.assert_allclose(operator @ B[:, 0], array @ B[:, 0], rtol=1e-10)
    np.testing.assert_allclose(operator.T @ C[:, 0], array.T @ C[:, 0], rtol=1e-10)


def test_lengths_are_those_of_the_array(kind):
    name, table, array = kind
    # estimated where nothing is formed
    close = {"rtol": 0.4} if "diffused" in name else {"rtol": 1e-10}
    np.testing.assert_allclose(table.row_lengths, np.linalg.norm(array, axis=1), **close)
    np.testing.assert_allclose(table.column_lengths, np.linalg.norm(array, axis=0), **close)
    np.testing.assert_allclose(table.squared_norm, np.square(array).sum(), **close)
    np.testing.assert_array_equal(table.filled, array.any(axis=1))
    np.testing.assert_array_equal(table.filled_columns, array.any(axis=0))
    assert table.mean_entry == pytest.approx(array.mean())
    assert np.count_nonzero(array) <= table.n_entries <= array.size


def test_normal_equations_give_the_error_of_a_factorization(kind):
    _, table, array = kind
    W, H = (
        np.random.default_rng(3).random((array.shape[0], 2)),
        np.random.default_rng(4).random((2, array.shape[1])),
    )
    norm2 = np.square(array).sum()
    expected = np.square(array - W @ H).sum()
    assert table.row_equations(H).error(norm2, W) == pytest.approx(expected)
    assert table.column_equations(W).error(norm2, H.T) == pytest.approx(expected)


def test_the_smaller_gram_matrix_or_none(kind):
    name, table, array = kind
    expected = array @ array.T if array.shape[0] <= array.shape[1] else array.T @ array
    cheap, any_cost = table.gram(), table.gram(cheaply=False)
    for K in (cheap, any_cost):
        if K is not None:
            np.testing.assert_allclose(K, expected, atol=1e-10)
    assert (any_cost is None) == ("diffused" in name or name == "product")


def test_what_a_kind_cannot_do_is_refused_with_its_name(kind):
    name, table, array = kind
    if name in IN_MEMORY:
        np.testing.assert_array_equal(stored(table, sparse=False).array, array)
        np.testing.assert_array_equal(
            stored(table.rows(np.array([3, 1])), sparse=False).array, array[[3, 1]]
        )
        np.testing.assert_array_equal(stored(table.transposed(), sparse=False).array, array.T)
        assert len(table.row_keys()) == len(array)
        return
    refusals = [lambda: table.array, lambda: table.shuffled(rng)]
    if name in IN_BLOCKS:
        assert table.row_keys() == stored(DenseTable(array), sparse=table.is_sparse).row_keys()
        with pytest.raises(
            InvalidInputError, match=f"this needs single samples of X, which is {table.kind}"
        ):
            table.rows(np.arange(2))
    elif "without" not in name:
        refusals += [lambda: table.rows(np.arange(2)), table.row_keys]
    for refused in refusals:
        with pytest.raises(
            InvalidInputError, match=f"the whole table in memory, and X is {table.kind}"
        ):
            refused()


@pytest.mark.filterwarnings("ignore::conecollapse.EmptyDataWarning")
def test_a_factorization_of_any_kind_is_that_of_the_array(tmp_path):
    start = rng.random((40, 3)), rng.random((3, 17))
    expected = HierarchicalNMF(3, init=start, tol=1e-8).fit(X)
    for name in (
        "sparse",
        "file in blocks of samples",
        "file in blocks of features",
        "Dask array in blocks of samples",
    ):
        model = HierarchicalNMF(3, init=start, tol=1e-8).fit(KINDS[name][0](tmp_path))
        np.testing.assert_allclose(
            model.embedding_ @ model.components_,
            expected.embedding_ @ expected.components_,
            atol=1e-3,
        )
        np.testing.assert_array_equal(np.asarray(model.labels_), expected.labels_)


def test_arrays_are_not_taken_for_tables_before_they_are_checked():
    assert recognised(X) is None
    assert recognised(sp.csr_array(X)) is None
    table = as_table(X)
    assert recognised(table) is table


def test_the_cone_of_a_table_whose_inverse_is_known():
    """All columns of an invertible diffusion are rays, and the rows of its inverse prove it."""
    cone = Cone.from_table(DiffusedTable(N, 0.7))
    verdict = cone.verify(P.T)
    assert (verdict.n_rays, verdict.largest_residual) == (40, 0.0)
    assert verdict.smallest_distance > 0.1
    exact = Cone.from_points(P.T)
    np.testing.assert_array_equal(cone.ray_indices, exact.ray_indices)


def test_the_cone_of_such_a_table_survives_a_file(tmp_path):
    Cone.from_table(DiffusedTable(N, 0.7)).save(tmp_path / "cone.npz")
    assert Cone.load(tmp_path / "cone.npz").verify(P.T).n_rays == 40


ABOVE = [
    path
    for folder in ("estimators", "factorization", "affinity", "runs")
    for path in (SRC / folder).rglob("*.py")
]
KIND_NAMES = {
    "ndarray",
    "sparray",
    "csr_array",
    *(cls.__name__ for cls in Table.__subclasses__()),
    "CsrTable",
    "DenseTable",
    "FileTable",
}


@pytest.mark.own
@pytest.mark.parametrize(
    "path", sorted(SRC.rglob("*.py")), ids=lambda path: path.relative_to(SRC).as_posix()
)
def test_only_tables_ask_how_a_table_is_stored(path):
    """No `isinstance` of a kind of storage outside `tables` (plain values in a file of a
    model are none)."""
    if path.is_relative_to(SRC / "tables") or path == SRC / "runs" / "model.py":
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "isinstance"
        ):
            asked = {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)}
            asked |= {n.attr for n in ast.walk(node.args[1]) if isinstance(n, ast.Attribute)}
            assert not asked & KIND_NAMES, f"{path}:{node.lineno}"


@pytest.mark.own
@pytest.mark.parametrize("folder", ["estimators", "factorization", "affinity"])
def test_methods_do_not_look_whether_a_table_is_sparse_storage(folder):
    for path in (SRC / folder).rglob("*.py"):
        assert "issparse" not in path.read_text(encoding="utf-8"), path


@pytest.mark.own
def test_no_import_inside_a_function_hides_a_cycle():
    """Imports inside functions are of slow or optional packages; only the command and what it runs
    import modules of ours so, to start fast."""
    # Dask, when an array of Dask's appears; figures, which need plotly; readers of texts, frames
    # and AnnData, when there is one, so that the first call of an estimator is fast
    names = ("tables/__init__", "scverse", "report/programs", "io/reading", "estimators/_prepared")
    # and the ways of a cone that a clustering does not take, so that it imports few modules
    names += ("geometry/cone", "factorization/cones/ccnmf")
    allowed = {SRC / f"{name}.py" for name in names}
    for path in SRC.rglob("*.py"):
        if path.parent in (SRC / "cli", SRC / "runs") or path in allowed:
            continue
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                for node in ast.walk(function):
                    assert not (
                        isinstance(node, ast.ImportFrom)
                        and (node.module or "").startswith("conecollapse")
                    ), f"{path}:{node.lineno}"


def test_a_sparse_table_gives_the_same_product_the_first_and_the_tenth_time():
    table, B = CsrTable(sp.csr_array(X)), rng.random((17, 3))
    first = table @ B
    np.testing.assert_allclose(first, X @ B)
    for _ in range(9):
        np.testing.assert_array_equal(table @ B, first)
