"""Encodings over a catalogue of components: few of them for each sample, and samples that need one
more."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls as scipy_nnls

from conecollapse import (
    AlternatingNMF,
    EmptyDataWarning,
    HierarchicalNMF,
    InvalidInputError,
    MultiplicativeNMF,
)

SELECTIONS = ["forward", "backward"]


def problem(seed, n=20, k=9, m=12, noise=0.2):
    rng = np.random.default_rng(seed)
    H = rng.random((k, m)) * (rng.random((k, m)) < 0.6) + 0.01
    W = rng.random((n, k)) * (rng.random((n, k)) < 0.4)
    return H, W @ H + noise * rng.random((n, m))


def error(H, x, S):
    if not S:
        return float(x @ x), np.zeros(0)
    w, residual = scipy_nnls(H[S].T, x)
    return residual**2, w


def positive(H, x, S):
    return [j for j, w in zip(S, error(H, x, S)[1], strict=True) if w > 0]


def by_the_rule(H, x, most, gain, selection):
    """What `transform` says it does, with a solve for every candidate."""
    if selection == "forward":
        S, left = [], float(x @ x)
        while len(S) < most:
            best, j = min((error(H, x, [*S, j])[0], j) for j in range(len(H)) if j not in S)
            if left - best <= max(gain, 1e-11 * float(x @ x)):
                break
            S, left = positive(H, x, [*S, j]), best
    else:
        S = positive(H, x, list(range(len(H))))
        while S:
            left, out = min((error(H, x, [s for s in S if s != j])[0], j) for j in S)
            if len(S) <= most and left - error(H, x, S)[0] >= gain:
                break
            S = positive(H, x, [s for s in S if s != out])
    w = np.zeros(len(H))
    w[S] = error(H, x, S)[1]
    return w


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    most=st.integers(1, 9),
    gain=st.sampled_from([0.0, 1e-3, 0.02]),
    scale=st.sampled_from([1e-9, 1.0, 1e9]),
    selection=st.sampled_from(SELECTIONS),
)
def test_selection_follows_its_rule(seed, most, gain, scale, selection):
    H, X = problem(seed, n=4)
    if most == 9 and not gain:
        gain = 1e-4
    found = HierarchicalNMF.from_components(H / scale).transform(
        X * scale, at_most=most, least_gain=gain, selection=selection
    )
    expected = np.array([by_the_rule(H, x, most, gain * float(x @ x), selection) for x in X])
    np.testing.assert_allclose(found / scale**2, expected, atol=1e-9)


@pytest.mark.parametrize("selection", SELECTIONS)
def test_copies_and_empty_samples_do_no_harm(selection):
    H, X = problem(1)
    H = np.vstack([H, H[:3], 2 * H[3:5]])
    X[4] = 0.0
    codes = HierarchicalNMF.from_components(H).transform(X, at_most=2, selection=selection)
    assert ((codes > 0).sum(axis=1) <= 2).all()
    assert not codes[4].any()
    assert np.isfinite(codes).all()
    alone = HierarchicalNMF.from_components(H[:9]).transform(X, at_most=2, selection=selection)
    np.testing.assert_allclose(codes @ H, alone @ H[:9], atol=1e-9)


def test_a_price_gives_the_optimum_of_its_problem_at_any_scale():
    H, X = problem(2)
    codes = HierarchicalNMF.from_components(H).transform(X, l1=0.3)
    lengths = np.linalg.norm(H, axis=1)
    C = X @ H.T
    gradient = C - codes @ (H @ H.T) - 0.3 * (C / lengths).max(axis=1, keepdims=True) * lengths
    assert gradient.max() < 1e-9  # nothing outside would pay
    assert np.abs(gradient[codes > 0]).max() < 1e-9
    scales = np.logspace(-3, 3, len(H))[:, None]
    other = HierarchicalNMF.from_components(H * scales).transform(1e5 * X, l1=0.3)
    np.testing.assert_allclose(other * scales.T / 1e5, codes, atol=1e-9)
    assert (codes > 0).sum() < (HierarchicalNMF.from_components(H).transform(X) > 0).sum()
    both = HierarchicalNMF.from_components(H).transform(X, l1=0.3, at_most=2)
    assert ((both > 0).sum(axis=1) <= 2).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_components_are_kept_bit_for_bit_and_names_too(dtype):
    H, X = problem(3)
    frame = pd.DataFrame(
        H.astype(dtype), index=[f"SBS{k}" for k in range(9)], columns=[f"A{j}" for j in range(12)]
    )
    model = AlternatingNMF.from_components(frame)
    assert model.components_.tobytes() == frame.to_numpy().tobytes()
    samples = pd.DataFrame(X.astype(dtype), columns=frame.columns)
    assert (
        model.set_output(transform="pandas").transform(samples, at_most=3).columns.tolist()
        == frame.index.tolist()
    )
    assert model.explain(samples)[0][0].name.startswith("A")
    assert "9, given" in model._repr_mimebundle_()["text/html"]
    model.set_output(transform="default")
    for X_ in (samples.to_numpy(), sp.csr_array(samples.to_numpy())):
        model = AlternatingNMF.from_components(sp.csr_array(frame.to_numpy()))
        assert model.transform(X_, at_most=3).dtype == dtype
        np.testing.assert_allclose(
            model.inverse_transform(model.transform(X_)),
            model.transform(X_) @ model.components_,
            rtol=1e-5,
        )
        assert set(model.predict(X_)) <= set(range(9))
        assert model.score(X_) <= 1


def test_a_catalogue_encodes_as_the_model_that_found_it():
    X = problem(4)[1]
    for fitted in (
        HierarchicalNMF(3, random_state=0).fit(X),
        MultiplicativeNMF(3, loss="kullback-leibler", random_state=0).fit(X),
    ):
        loss = {"loss": fitted.loss} if hasattr(fitted, "loss") else {}
        given_ = type(fitted).from_components(fitted.components_, **loss)
        np.testing.assert_allclose(given_.transform(X), fitted.transform(X), rtol=1e-9)


def test_samples_that_need_another_component_say_so():
    H = np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0]])
    model = HierarchicalNMF.from_components(pd.DataFrame(H, columns=list("abcd")))
    X = pd.DataFrame([[1.0, 3.0, 2.0, 0.0], [1.0, 3.0, 2.0, 5.0]], columns=list("abcd"))
    assert model.score_samples(X)[0] == 0
    assert model.score_samples(X)[1] == pytest.approx(-5 / np.sqrt(39))
    assert model.explain(X)[0] == []
    assert [(f.name, round(f.amount, 9), round(f.share, 9)) for f in model.explain(X)[1]] == [
        ("d", 5.0, 1.0)
    ]


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_witnesses_separate_samples_from_the_cone(seed):
    H, X = problem(seed, k=5, noise=1.0)
    model = HierarchicalNMF.from_components(H)
    witness = model.witness_samples(X)
    lengths = np.linalg.norm(X, axis=1)
    assert ((witness @ H.T) / np.outer(lengths, np.linalg.norm(H, axis=1))).max() < 1e-7
    np.testing.assert_allclose(
        np.einsum("ij,ij->i", witness, X), np.square(witness).sum(axis=1), atol=1e-7
    )
    np.testing.assert_allclose(
        np.linalg.norm(witness, axis=1) / lengths, -model.score_samples(X), atol=1e-9
    )


GIVEN = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]])


@pytest.mark.parametrize(
    ("components", "message"),
    [
        (
            [[1.0, -1.0]],
            (
                r"components has 1 negative entry, the first at row 0, column 1 \(-1\); components"
                r" must be >= 0"
            ),
        ),
        ([[1.0, np.nan]], "components has NaN at row 0, column 1"),
        ([[1.0, 2.0], [0.0, 0.0]], "component 1 is zero everywhere; drop it"),
        (np.zeros((0, 3)), "components has no rows"),
        ([1.0, 2.0], "components has shape"),
    ],
)
def test_bad_components(components, message):
    with pytest.raises(InvalidInputError, match=message):
        HierarchicalNMF.from_components(components)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"at_most": 0}, "at_most must be an integer of at least 1; got 0"),
        ({"at_most": 1.5}, "at_most must be an integer of at least 1; got 1.5"),
        ({"l1": -0.1}, "l1 must be a number of at least 0 and below 1; got -0.1"),
        ({"l1": 1.0}, "l1 must be a number of at least 0 and below 1; got 1.0"),
        (
            {"least_gain": "much"},
            "least_gain must be a number of at least 0 and below 1; got 'much'",
        ),
        ({"selection": "both"}, "selection must be one of forward, backward; got 'both'"),
    ],
)
def test_bad_limits(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        HierarchicalNMF.from_components(GIVEN).transform(GIVEN, **arguments)


def test_other_models_and_features_are_refused():
    counts = MultiplicativeNMF.from_components(GIVEN, loss="kullback-leibler")
    with pytest.raises(
        InvalidInputError,
        match=(
            "at_most and least_gain are for the squared error; make the model with loss='frobenius'"
        ),
    ):
        counts.transform(GIVEN, at_most=1)
    with pytest.raises(InvalidInputError, match="leave out affinity"):
        HierarchicalNMF.from_components(GIVEN, affinity="knn")
    on_graph = HierarchicalNMF(2, affinity="knn", random_state=0).fit(
        np.random.default_rng(0).random((9, 3))
    )
    for refused in (on_graph.witness_samples, lambda X: on_graph.transform(X, at_most=1)):
        with pytest.raises(InvalidInputError, match=r"over .*samples"):
            refused(GIVEN)
    with pytest.raises(ValueError, match="X has 2 features, but HierarchicalNMF is expecting 3"):
        HierarchicalNMF.from_components(GIVEN).transform([[1.0, 2.0]], at_most=1)
    with pytest.warns(EmptyDataWarning, match="belongs to every cone"):
        assert HierarchicalNMF.from_components(GIVEN).score_samples([[0.0, 0.0, 0.0]]).tolist() == [
            0.0
        ]
    assert not HierarchicalNMF.from_components(GIVEN).transform([[0.0, 0.0, 0.0]], at_most=1).any()


@pytest.mark.parametrize(
    "how",
    [{"at_most": 2}, {"at_most": 2, "selection": "backward"}, {"least_gain": 0.01}, {"l1": 0.1}],
    ids=str,
)
@pytest.mark.parametrize(
    ("of_components", "of_samples"),
    [(1.0, 1e-200), (1.0, 1e160), (1e200, 1.0), (1e-160, 1.0), (1e-200, 1e-200)],
)
def test_few_components_are_the_same_at_every_scale(how, of_components, of_samples):
    H, X = problem(3)
    plain = HierarchicalNMF.from_components(H).transform(X, **how)
    scaled = HierarchicalNMF.from_components(of_components * H).transform(of_samples * X, **how)
    np.testing.assert_allclose(
        scaled,
        plain * (of_samples / of_components),
        rtol=1e-6,
        atol=1e-12 * of_samples / of_components,
    )


def test_few_components_of_samples_and_components_of_very_different_scales():
    H, X = problem(4)
    samples, components = (
        10.0 ** np.linspace(-150, 150, len(X)),
        10.0 ** np.linspace(-120, 120, len(H)),
    )
    plain = HierarchicalNMF.from_components(H).transform(X, at_most=3)
    scaled = HierarchicalNMF.from_components(H * components[:, None]).transform(
        X * samples[:, None], at_most=3
    )
    np.testing.assert_allclose(scaled * components / samples[:, None], plain, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(
    ("of_components", "of_samples"),
    [(1.0, 1e-150), (1.0, 1e-300), (1e150, 1.0), (1e290, 1e290), (1e-300, 1e-20)],
)
def test_the_divergence_has_the_same_encodings_at_every_scale(of_components, of_samples):
    H, X = problem(0)
    wanted = MultiplicativeNMF.from_components(H, loss="kullback-leibler").transform(X)
    found = MultiplicativeNMF.from_components(H * of_components, loss="kullback-leibler").transform(
        X * of_samples
    )
    np.testing.assert_allclose(found / of_samples * of_components, wanted, rtol=1e-6, atol=1e-9)


def test_what_needs_every_entry_says_which_is_missing():
    H, X = problem(0)
    model = HierarchicalNMF.from_components(H)
    X[3, 4] = np.nan
    for call, what in (
        (lambda: model.transform(X, at_most=3), "transform with l1, at_most or least_gain"),
        (lambda: model.score_samples(X), "the distance of a sample from the components"),
        (lambda: model.explain(X), "the distance of a sample from the components"),
    ):
        with pytest.raises(
            InvalidInputError,
            match=f"{what} needs every entry of X, and that at row 3, column 4 is missing",
        ):
            call()
    with pytest.raises(
        InvalidInputError, match="n_components = 4, but there are 9 components; leave it out"
    ):
        HierarchicalNMF.from_components(H, n_components=4)


def test_bad_catalogues_and_encodings_are_refused():
    H, _ = problem(0)
    with pytest.raises(
        InvalidInputError, match="loss must be one of frobenius, kullback-leibler; got 'x'"
    ):
        MultiplicativeNMF.from_components(H, loss="x")
    model = HierarchicalNMF.from_components(H)
    for value, message in (
        (np.nan, "X has NaN at row 0"),
        (-1.0, "X has -1; encodings must be >= 0"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            model.inverse_transform(np.full((2, len(H)), value))
