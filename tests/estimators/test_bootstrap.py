"""`bootstrap`: intervals that contain the truth, whatever the model, the noise and the number of
threads."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.decomposition import NMF

from conecollapse import (
    GraphCCNMF,
    HierarchicalNMF,
    InvalidInputError,
    MinVolumeNMF,
    MultiplicativeNMF,
    OrthogonalNMF,
    SparseNMF,
    bootstrap,
    plots,
)
from conecollapse.factorization.resampling.drawn_tables import (
    Poisson,
    Residuals,
    _leverages,
    intervals,
)
from conecollapse.factorization.resampling.matching import matched


def planted(seed, n=100, m=30, r=3):
    rng = np.random.default_rng(seed)
    H = rng.gamma(1.0, 1.0, (r, m)) * (rng.random((r, m)) < 0.6)
    H[0, ~H.any(axis=0)] = 0.5
    H /= H.sum(axis=1, keepdims=True)
    W = m * rng.dirichlet(np.full(r, 0.3), n)
    W[0.02 * m > W] = 0.0
    return W, H, rng


def inside(found, W, H):
    """The share of the true entries in their intervals, of H and of W."""
    order, _ = matched(found.components, H)
    sums = found.components[order].sum(axis=1)
    low, high = (
        found.components_low[order] / sums[:, None],
        found.components_high[order] / sums[:, None],
    )
    first, last = found.encodings_low[:, order] * sums, found.encodings_high[:, order] * sums
    return ((low <= H) & (high >= H)).mean(), ((first <= W) & (last >= W)).mean()


@pytest.mark.parametrize("kind", ["poisson", "multiplicative"])
def test_intervals_contain_the_truth(kind):
    shares = []
    for seed in range(2):
        W, H, rng = planted(seed)
        if kind == "poisson":
            X = rng.poisson(5 * W @ H).astype(np.float64)
            model, W = MultiplicativeNMF(3, loss="kullback-leibler"), 5 * W
        else:
            X, model = (
                W @ H * np.maximum(1 + 0.1 * rng.standard_normal((100, 30)), 0),
                HierarchicalNMF(3),
            )
        found = bootstrap(model.fit(X), X, n_runs=60)
        assert found.noise == ("poisson" if kind == "poisson" else "residuals")
        shares.append(inside(found, W, H))
    assert np.mean(shares, axis=0).min() >= 0.9
    assert np.mean(shares, axis=0).max() <= 0.995


def test_estimates_lie_in_their_intervals_and_labels_have_shares():
    W, H, rng = planted(3)
    X = W @ H * (1 + 0.1 * rng.random((100, 30)))
    X[7] = 0.0
    with pytest.warns(UserWarning, match="sample 7"):
        model = HierarchicalNMF(3).fit(X)
    found = bootstrap(model, X, n_runs=30)
    assert (found.components_low <= found.components + 1e-12).all()
    assert (found.components <= found.components_high + 1e-12).all()
    assert (found.encodings_low <= found.encodings + 1e-9).all()
    np.testing.assert_allclose(found.components.sum(axis=1), model.components_.sum(axis=1))
    np.testing.assert_allclose(np.delete(found.label_shares, 7, axis=0).sum(axis=1), 1)
    assert found.labels[7] == -1
    assert not found.label_shares[7].any()
    assert (found.label_shares.argmax(axis=1) == found.labels)[np.arange(100) != 7].mean() > 0.9
    assert matched(found.components, H)[1].min() > 0.99


def test_threads_and_storage_change_nothing():
    W, H, rng = planted(4, n=40)
    X = rng.poisson(3 * W @ H).astype(np.float64)
    model = MultiplicativeNMF(3, loss="kullback-leibler", max_iter=50, tol=1e-3).fit(X)
    one, three = (bootstrap(model, X, n_runs=6, n_jobs=jobs) for jobs in (1, 3))
    for field in dataclasses.fields(one):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(three, field.name))
    sparse = bootstrap(model, sp.csr_array(X), n_runs=6)
    np.testing.assert_allclose(sparse.components_high, one.components_high, rtol=1e-5)
    other = bootstrap(model, X, n_runs=6, random_state=1)
    assert not np.array_equal(one.components_high, other.components_high)


@pytest.mark.parametrize("model", [MinVolumeNMF(3), OrthogonalNMF(3, random_state=0)])
def test_other_models_are_fitted_anew(model):
    W, H, rng = planted(5, n=30, m=12)
    X = W @ H * (1 + 0.05 * rng.random((30, 12))) + 0.01
    found = bootstrap(model.fit(X), X, n_runs=3)
    assert found.components.shape == (3, 12)
    np.testing.assert_array_equal(found.components, model.components_)
    assert (found.components_low <= found.components_high).all()


def test_scale_of_the_data_scales_the_components():
    W, H, rng = planted(6, n=40)
    X = W @ H * (1 + 0.1 * rng.random((40, 30)))
    small, plain = (
        bootstrap(HierarchicalNMF(3).fit(scale * X), scale * X, n_runs=4)
        for scale in (2.0**-600, 1.0)
    )
    np.testing.assert_allclose(
        small.components_high * small.encodings.mean() / (plain.encodings.mean() * 2.0**-600),
        plain.components_high,
    )


def test_leverages_are_the_diagonal_of_the_projection():
    rng = np.random.default_rng(0)
    H = rng.random((3, 8))
    used = np.array(
        [[True, True, True], [True, False, True], [False, False, False], [True, False, True]]
    )
    found = _leverages(H, used)
    for row, mask in zip(found, used, strict=True):
        A = H[mask].T
        np.testing.assert_allclose(row, np.diag(A @ np.linalg.pinv(A)), atol=1e-12)


def test_drawn_tables_scatter_about_the_fit_as_the_data_do():
    W, H, rng = planted(7, n=300)
    F = W @ H
    X = F * (1 + 0.1 * rng.standard_normal(F.shape))  # noise grows with the level
    drawn = Residuals(X, W, H)
    table = drawn.table(np.random.default_rng(0)).array
    for part in (F < 0.5, F > 3):
        spread = np.sqrt(np.square(table - F)[part].mean() / np.square(X - F)[part].mean())
        assert spread == pytest.approx(1, abs=0.2)
    counts = Poisson(W, H, is_sparse=True).table(np.random.default_rng(0))
    assert counts.is_sparse
    assert counts.array.sum() == pytest.approx(F.sum(), rel=0.05)


def test_intervals_are_moved_by_twice_the_bias_and_keep_zero():
    draws = np.array([[10.0 + k, 0.0 if k < 3 else 0.1 * k] for k in range(11)])
    low, high = intervals(draws, np.array([13.0, 0.2]), 0.8)
    quantiles = np.quantile(draws, [0.1, 0.9], axis=0, method="weibull")
    assert low[0] == pytest.approx(quantiles[0, 0] - 4)  # the median is 2 above the estimate
    assert high[0] == pytest.approx(quantiles[1, 0])
    assert low[1] == 0


X0 = np.random.default_rng(0).random((12, 5))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_runs": 0}, "n_runs must be an integer of at least 1; got 0"),
        ({"n_runs": 1}, "intervals need several draws; n_runs must be at least 2"),
        ({"level": 95}, "level must be a number above 0 and below 1; got 95"),
        ({"level": 1.0}, r"level must be a number above 0 and below 1; got 1\.0"),
        ({"noise": "normal"}, "noise must be one of auto, residuals, poisson; got 'normal'"),
        ({"callback": 3}, "callback must be a function or None; got 3"),
        ({"n_jobs": 0}, "n_jobs must be a number of threads"),
        ({"n_runs": 10**8}, "ask for at most"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        bootstrap(HierarchicalNMF(2).fit(X0), X0, **arguments)


def test_models_without_components_over_features_are_refused():
    with pytest.raises(
        InvalidInputError,
        match="X has 11 samples, but this HierarchicalNMF was fitted to 12; pass the same table",
    ):
        bootstrap(HierarchicalNMF(2).fit(X0), X0[:11])
    with pytest.raises(ValueError, match="X has 4 features"):
        bootstrap(HierarchicalNMF(2).fit(X0), X0[:, :4])
    for model in (
        HierarchicalNMF(2, affinity="knn").fit(X0),
        GraphCCNMF(2, random_state=0, n_init=1).fit(X0),
    ):
        with pytest.raises(InvalidInputError, match="bootstrap needs a model without a graph"):
            bootstrap(model, X0)
    with pytest.raises(InvalidInputError, match="takes entries as missing or uncertain"):
        bootstrap(HierarchicalNMF(2, missing="unstored").fit(sp.csr_array(X0)), sp.csr_array(X0))
    with pytest.raises(ValueError, match="NaN"):
        bootstrap(HierarchicalNMF(2).fit(X0), np.where(X0 > 0.9, np.nan, X0))
    with pytest.raises(
        InvalidInputError,
        match="made from a catalogue; bootstrap needs a model that was fitted to X",
    ):
        bootstrap(HierarchicalNMF.from_components(X0[:2]), X0)


@pytest.mark.parametrize(
    ("how", "what"),
    [
        ({"weights": np.full(X0.shape, 2.0)}, "weights"),
        ({"sample_weight": np.arange(12)}, "sample_weight"),
        ({"X": np.where(X0 > 0.95, np.nan, X0)}, "missing entries"),
    ],
)
def test_a_fit_in_which_entries_count_differently_is_refused(how, what):
    model = HierarchicalNMF(2, random_state=0).fit(**{"X": X0, **how})
    with pytest.raises(
        InvalidInputError,
        match=f"this HierarchicalNMF was fitted with {what}, which bootstrap cannot draw",
    ):
        bootstrap(model, how.get("X", X0))
    assert bootstrap(model.fit(X0), X0, n_runs=2).n_runs == 2


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "model",
    [HierarchicalNMF(), MultiplicativeNMF(), SparseNMF(alpha=0.001)],
    ids=lambda model: type(model).__name__,
)
def test_entries_that_are_held_at_zero_have_no_interval(model):
    X = np.kron(np.eye(3), np.ones((20, 4))) + 0.1 * np.random.default_rng(0).random((60, 12))
    zeros = np.arange(36).reshape(3, 12) < 2
    found = bootstrap(
        clone(model)
        .set_params(n_components=3, fixed_entries=zeros, random_state=0, max_iter=30)
        .fit(X),
        X,
        n_runs=4,
    )
    assert not found.components_high[zeros].any()
    assert (found.components_high[0, 2:] > 0).any()


def test_held_components_are_those_of_every_draw():
    X = np.kron(np.eye(3), np.ones((20, 4))) + 0.1 * np.random.default_rng(0).random((60, 12))
    found = bootstrap(
        HierarchicalNMF(3, fixed_components=X[:1], random_state=0).fit(X), X, n_runs=10
    )
    np.testing.assert_allclose(found.components_low[0], X[0])
    np.testing.assert_allclose(found.components_high[0], X[0])


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_multiples_of_counts_are_no_counts(form):
    X = form(100.0 * np.random.default_rng(0).poisson(3.0, (12, 5)))
    model = MultiplicativeNMF(2, loss="kullback-leibler", tol=1e-3).fit(X)
    with pytest.raises(
        InvalidInputError,
        match=r"all entries of X are multiples of 100, .* divide X by 100 before the fit",
    ):
        bootstrap(model, X)


@pytest.mark.parametrize(
    "form", [np.asarray, np.float32, sp.csr_array, pd.DataFrame, lambda X: X * 1e200]
)
@pytest.mark.parametrize(
    "model",
    [HierarchicalNMF(2), SparseNMF(2), MinVolumeNMF(2)],
    ids=lambda model: type(model).__name__,
)
def test_another_table_is_refused(form, model):
    X, other = form(X0), form(np.random.default_rng(1).random((12, 5)))
    model = clone(model).fit(X)
    assert bootstrap(model, X, n_runs=2).n_runs == 2
    with pytest.raises(
        InvalidInputError, match=r"it is another table; pass the same one, or call `fit` again"
    ):
        bootstrap(model, other, n_runs=2)


def test_models_of_other_packages_are_refused():
    with pytest.raises(
        InvalidInputError, match="this NMF of sklearn is none of conecollapse's factorizations"
    ):
        bootstrap(NMF(2, tol=1.0).fit(X0), X0)


@pytest.mark.parametrize("scale", [1e-3, 1 / 7, 1e19])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_poisson_noise_needs_counts(scale, form):
    X = form(scale * np.floor(9 * X0))
    model = MultiplicativeNMF(2, loss="kullback-leibler", tol=1e-3).fit(X)
    with pytest.raises(
        InvalidInputError,
        match=r"draws counts, and X has .* at row 0, column .*use noise='residuals'",
    ):
        bootstrap(model, X)
    if form is np.asarray:
        assert bootstrap(model, X, n_runs=2, noise="residuals").n_runs == 2


def test_a_draw_of_few_counts_may_have_none():
    X = np.eye(2)
    found = bootstrap(MultiplicativeNMF(2, loss="kullback-leibler").fit(X), X, n_runs=60)
    assert np.isfinite(found.components_high).all()
    assert (found.label_shares.sum(axis=1) < 1).all()


def test_the_figure_shows_intervals_of_the_largest_entries():
    found = bootstrap(HierarchicalNMF(2).fit(X0), X0, n_runs=5)
    drawn = plots.intervals(found, 1, feature_names=["<b>", "b", "c", "d", "e"], n_features=3).data[
        0
    ]
    assert len(drawn.x) == 3
    assert "<b>" not in drawn.x
    np.testing.assert_allclose(
        np.sort(drawn.y + drawn.error_y.array), np.sort(found.components_high[1])[-3:]
    )
    for arguments, message in (
        ({"component": 2}, "component must be one of 0 to 1; got 2"),
        ({"feature_names": ["a"]}, "1 names for 5 features"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            plots.intervals(found, **arguments)


def test_progress_and_an_early_end(capsys):
    found = bootstrap(
        HierarchicalNMF(2).fit(X0),
        X0,
        n_runs=10,
        n_jobs=1,
        verbose=True,
        callback=lambda done, _: done == 3,
    )
    assert found.n_runs == 3
    assert (
        capsys.readouterr()
        .out.splitlines()[0]
        .startswith("bootstrap: 1 of 10 draws, the last with a relative objective of")
    )


def test_a_result_is_printed_in_five_lines():
    rng = np.random.default_rng(0)
    X = rng.random((60, 2)) @ rng.random((2, 30)) + 0.05 * rng.random((60, 30))
    found = bootstrap(HierarchicalNMF(2, random_state=0).fit(X), X, n_runs=5)
    lines = str(found).split("\n")
    assert repr(found) == str(found)
    assert len(lines) == 5
    assert lines[0] == "Bootstrap of 2 components from 5 draws of 60 samples x 30 features"
    width = np.median(found.components_high - found.components_low)
    assert lines[2].endswith(f"median width of an interval {width:.4g}")
    assert max(map(len, lines)) <= 100
