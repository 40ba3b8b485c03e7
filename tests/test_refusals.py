"""Tables that nothing can use: every estimator and every function refuses them in its own words, as
an error of this package that is also of the builtin kind."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import conecollapse
from conecollapse import (
    Cone,
    ConeCollapse,
    ConeCollapseError,
    ConsensusNMF,
    Hull,
    bootstrap,
    collapse,
    datasets,
    nnls,
    select_rank,
)
from conecollapse.io import open_table, read_labels, read_spectra, read_table

GOOD = np.random.default_rng(0).random((12, 5)) + 0.1


def spoiled(value):
    X = GOOD.copy()
    X[3, 2] = value
    return X


BAD = {
    "1-D": GOOD[0],
    "3-D": GOOD[None],
    "0-D": np.float64(3.0),
    "a number": 3.0,
    "complex": GOOD + 1j,
    "no rows": GOOD[:0],
    "no columns": GOOD[:, :0],
    "empty list": [],
    "ragged": [[1.0, 2.0], [3.0]],
    "infinite": spoiled(np.inf),
    "too large": spoiled(1e305),
    "objects": np.array([[object(), 1.0], [2.0, 3.0]], dtype=object),
    "a dict inside": np.array([[{"a": 1}, 1.0], [2.0, 3.0]], dtype=object),
    "text": np.array([["a", "b"], ["c", "d"]]),
    "a string": "table.csv.gone",
    "bytes": b"table",
    "dates": np.array([["2020-01-01", "2020-01-02"]], dtype="datetime64[D]"),
    "None": None,
    "a dict": {"a": [1.0, 2.0]},
    "a set": {1.0, 2.0},
    "a function": len,
    "a frame of text": pd.DataFrame({"a": ["x", "y"], "b": [1.0, 2.0]}),
    "a frame of mixed names": pd.DataFrame(GOOD[:, :2], columns=["a", 1]),
    "a frame of complex": pd.DataFrame(GOOD + 1j),
    "a series": pd.Series(GOOD[0]),
    "sparse complex": sp.csr_array(GOOD + 1j),
    "sparse infinite": sp.csr_array(spoiled(np.inf)),
    "sparse NaN": sp.csr_array(spoiled(np.nan)),
    "sparse 1-D": sp.coo_array(GOOD[0]),
}
TAKEN = ["too large", "a frame of mixed names"]  # by functions that do not square, or ask for names
NEGATIVE = {"negative": spoiled(-1.0), "sparse negative": sp.csr_array(spoiled(-1.0))}
MISSING = {"NaN": spoiled(np.nan), "all NaN": np.full((12, 5), np.nan)}

ESTIMATORS = [
    getattr(conecollapse, name)
    for name in conecollapse.__all__
    if isinstance(getattr(conecollapse, name), type)
    and hasattr(getattr(conecollapse, name), "fit")
    and name != "BaseNMF"
]
METHODS = (
    "transform",
    "predict",
    "score",
    "score_samples",
    "decision_function",
    "partial_fit",
    "impute",
    "explain",
    "verify",
)


def made(kind):
    return kind(n_runs=2) if kind is ConsensusNMF else kind()


def refuses(call, name, X):
    try:
        call(X)
    except ConeCollapseError as error:
        if not isinstance(error, (ValueError, TypeError, OSError)) or len(str(error)) > 400:
            pytest.fail(f"{name}: {type(error).__mro__}: {error}")
    except Exception as error:
        pytest.fail(f"{name}: {type(error).__name__}: {error}")
    else:
        pytest.fail(f"{name} is taken")


def test_what_is_no_table_is_called_by_its_kind():
    model = conecollapse.HierarchicalNMF(2)
    for X, message in [
        (None, "X is None, not a table; pass an array, a sparse array, a data frame or an AnnData"),
        ({"a": 1}, "X is {'a': 1}, not a table; pass an array"),
        ([[1, 2], [3, 4], [5]], "row 2 of X has 1 entries, but row 0 has 2; give each row as many"),
        ("t.csv", r"X holds text \('t.csv'\), not numbers; read_table reads a file"),
        (["sea", "ship"], r"\('sea'\), not numbers; read_table counts the words of a list"),
    ]:
        with pytest.raises(ConeCollapseError, match=message):
            model.fit(X)


def test_text_is_named_by_its_column_and_no_document_is_repeated():
    document = "the sea and the ships on it " * 200
    frame = pd.DataFrame(GOOD, columns=list("abcde")).assign(city="Oslo")
    model = conecollapse.HierarchicalNMF(2)
    with pytest.raises(
        ConeCollapseError, match=r"column 'city' of X holds text \('Oslo', in row 0"
    ):
        model.fit(frame)
    for texts in ([document] * 3, np.array([[1.0, document]] * 3, dtype=object)):
        with pytest.raises(ConeCollapseError, match="holds text") as refusal:
            model.fit(texts)
        assert len(str(refusal.value)) < 250


DOCUMENT = "the sea and the ships on it " * 200
READERS = {
    "read_table": read_table,
    "open_table": open_table,
    "read_spectra": read_spectra,
    "read_labels": lambda text: read_labels(text, None, 3),
    "Cone.load": Cone.load,
    "datasets.load": datasets.load,
    "a column": lambda text: read_table([text], text_column=text),
    "a series": lambda text: conecollapse.HierarchicalNMF(2).fit(pd.Series([text] * 3)),
    "an array": lambda text: conecollapse.HierarchicalNMF(2).fit(np.array([text] * 3)),
}


@pytest.mark.parametrize("name", READERS)
def test_no_message_repeats_a_document(name):
    with pytest.raises(ConeCollapseError) as refusal:
        READERS[name](DOCUMENT)
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize("name", ["read_table", "read_spectra", "Cone.load", "read_labels"])
def test_files_that_are_not_there_are_refused_as_such(name):
    with pytest.raises(ConeCollapseError, match=r"there is no file 'gone.npz'") as refusal:
        READERS[name]("gone.npz")
    assert isinstance(refusal.value, FileNotFoundError)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_every_estimator_refuses_what_is_no_table_with_an_error_of_this_package(kind):
    takes_gaps = hasattr(kind, "impute")
    model = made(kind)
    for method in METHODS:
        if hasattr(model, method) and method != "partial_fit":
            refuses(getattr(model, method), f"{method} before fit", GOOD)
    for name, X in {**BAD, **NEGATIVE, **({} if takes_gaps else MISSING)}.items():
        refuses(model.fit, f"fit of {name}", X)
        assert not hasattr(model, "components_"), name
    model.fit(GOOD)
    for method in METHODS:
        # the selector picks columns, whatever they hold
        picks = isinstance(model, ConeCollapse) and method == "transform"
        takes_one = [*TAKEN, "1-D", "a series", "sparse 1-D"]  # sample: Unmixing.explain
        taken = takes_one if kind.__name__ == "Unmixing" else TAKEN
        bad = {name: X for name, X in BAD.items() if name not in taken}
        is_one = kind.__name__ == "Unmixing" and method == "explain"
        for name, X in (bad if picks or is_one else {**BAD, **NEGATIVE}).items():
            if hasattr(model, method):
                refuses(getattr(model, method), f"{method} of {name}", X)
    for name, X in {**bad, **MISSING}.items():
        if hasattr(model, "inverse_transform"):
            refuses(model.inverse_transform, f"inverse_transform of {name}", X)


FUNCTIONS = {
    "Cone.from_points": Cone.from_points,
    "Cone.approximate": Cone.approximate,
    "collapse": collapse,
    "Hull.from_points": Hull.from_points,
    "cone.contains": Cone.from_points(GOOD).contains,
    "cone.project": Cone.from_points(GOOD).project,
    "cone.coefficients": Cone.from_points(GOOD).coefficients,
    "hull.contains": Hull.from_points(GOOD).contains,
    "nnls A": lambda A: nnls(A, np.ones(12)),
    "nnls b": lambda b: nnls(GOOD, b),
    "select_rank": lambda X: select_rank(X, [1, 2], "heldout", n_runs=2),
    "select_rank stability": lambda X: select_rank(X, [2, 3], n_runs=2),
    "bootstrap": lambda X: bootstrap(
        conecollapse.HierarchicalNMF(2, random_state=0).fit(GOOD), X, n_runs=2
    ),
}


TAKES_ANY_SIGN = ["Hull.from_points", "hull.contains", "nnls A", "nnls b"]
TAKES_ANY_SIGN += ["cone.contains", "cone.project", "cone.coefficients"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_refuses_what_is_no_table_with_an_error_of_this_package(name):
    cases = BAD if name in TAKES_ANY_SIGN else {**BAD, **NEGATIVE}
    taken = TAKEN if "nnls" in name else TAKEN[1:]
    for bad, X in {**cases, **({} if name == "select_rank" else MISSING)}.items():
        if bad not in taken or name == "bootstrap":
            refuses(FUNCTIONS[name], f"{name} of {bad}", X)
