"""Mixtures: pure components from samples that contain them and from samples that do not, and what
is refused."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import data_file, seeds
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from conecollapse import Hull, InvalidInputError, MinVolumeNMF, SeparableNMF, nnls
from conecollapse.factorization.mixtures.compressed import compressed
from conecollapse.factorization.mixtures.counting import count_components
from conecollapse.factorization.mixtures.minvolume import minvolume
from conecollapse.factorization.mixtures.separable import METHODS, select
from conecollapse.factorization.mixtures.starts import STARTS
from conecollapse.factorization.nmf.row_sweeps import sweep
from conecollapse.geometry.epsilon import greedy_rays
from conecollapse.geometry.selections import archetypes, spa
from conecollapse.geometry.separable_bound import recovery_bound
from conecollapse.geometry.subspace import outlying
from conecollapse.tables import Equations, as_table

QUIET = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::conecollapse.EmptyDataWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning"),
]


def quiet(test):
    for mark in QUIET:
        test = mark(test)
    return test


def smooth(rng, r, m):
    """Spectra: a few broad bumps each."""
    t = np.linspace(0, 1, m)
    centres, widths = rng.random((r, 3, 1)), rng.uniform(0.05, 0.2, (r, 3, 1))
    return (rng.uniform(0.3, 1, (r, 3, 1)) * np.exp(-(((t - centres) / widths) ** 2))).sum(
        axis=1
    ) + 0.02


def mixtures(rng, *, r=3, m=30, n=150, noise=0.0, purest=1.0):
    """Samples of varying brightness, no share of a component above ``purest``; and the
    components."""
    H = smooth(rng, r, m)
    A = rng.dirichlet(np.full(r, 0.5), 20 * n)
    A = A[A.max(axis=1) <= purest][:n]
    if purest == 1.0:
        A[:r] = np.eye(r)
    X = A * rng.uniform(0.5, 1.5, (n, 1)) @ H
    return np.maximum(X + noise * np.sqrt((X**2).mean()) * rng.standard_normal(X.shape), 0.0), H, A


def degrees(found, H):
    """For each true component the angle to the nearest of those found."""
    unit = [A / np.linalg.norm(A, axis=1, keepdims=True) for A in (H, found)]
    return np.degrees(np.arccos(np.clip(unit[0] @ unit[1].T, -1, 1)).min(axis=1))


@quiet
@parametrize_with_checks([SeparableNMF(method="cone", scaling="sum")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@quiet
@parametrize_with_checks([MinVolumeNMF(), SeparableNMF(), SeparableNMF(points="features")])
def test_scikit_learn_checks_of_the_others(estimator, check):
    check(estimator)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", seeds(3, quick=1))
def test_every_method_finds_the_pure_samples_of_exact_mixtures(method, seed):
    """In unit sums mixtures are convex combinations, of which every method here takes the
    vertices."""
    X, H, _ = mixtures(np.random.default_rng(seed), r=4)
    chosen = select(X, 4, method, "sum", np.random.default_rng(0))
    assert degrees(X[chosen], H).max() < 1e-4


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_separable_nmf_gives_pure_samples_abundances_and_a_certificate(sparse, dtype):
    X, H, A = mixtures(np.random.default_rng(0))
    X = X.astype(dtype)
    table = sp.csr_array(X) if sparse else X
    model = SeparableNMF(3, sum_to_one=True).fit(table)
    assert sorted(model.ray_indices_.tolist()) == [0, 1, 2]
    np.testing.assert_allclose(model.components_, X[model.ray_indices_])
    assert model.components_.dtype == model.embedding_.dtype == dtype
    np.testing.assert_allclose(model.embedding_.sum(axis=1), 1, rtol=1e-5)
    parts = A * np.linalg.norm(H, axis=1)
    order = np.argsort(model.ray_indices_)
    np.testing.assert_allclose(
        model.embedding_[:, order], parts / parts.sum(axis=1, keepdims=True), atol=1e-4
    )
    assert model.verify(table).largest_residual == pytest.approx(model.residuals_.max(), abs=1e-3)


def test_anchors_are_features_that_generate_the_others():
    X, _, _ = mixtures(np.random.default_rng(1))
    model = SeparableNMF(3, points="features").fit(X.T)
    assert sorted(model.ray_indices_.tolist()) == [0, 1, 2]
    np.testing.assert_allclose(X.T[:, model.ray_indices_] @ model.components_, X.T, atol=1e-6)
    assert model.cone_.n_points == X.shape[0]


@pytest.mark.parametrize("seed", seeds(6, quick=2))
def test_minimum_volume_needs_no_pure_samples(seed):
    """No sample holds more than 80 % of a component, and the components are found where the purest
    samples are far from them."""
    X, H, _ = mixtures(np.random.default_rng(seed), purest=0.8, n=300)
    model = MinVolumeNMF(3).fit(X)
    assert degrees(model.components_, H).mean() < 0.5 * degrees(X, H).mean()
    assert (np.diff(model.history_) <= 1e-14).all()
    assert model.verify(X).largest_residual <= model.cone_.tol
    np.testing.assert_allclose(model.transform(X), model.embedding_, atol=1e-9)
    np.testing.assert_allclose(
        np.linalg.norm(model.components_, axis=1), np.median(np.linalg.norm(X, axis=1))
    )


def test_the_objective_never_rises_and_held_components_stay():
    X, H, _ = mixtures(np.random.default_rng(2), noise=0.05)
    small = compressed(as_table(X), 3)
    start = np.random.default_rng(3).random((3, X.shape[1]))
    run = minvolume(small, start, small.noise, n_held=1, tol=0.0, max_iter=40)
    assert (np.diff(run.history) <= 0).all()
    assert len(run.history) == 41
    np.testing.assert_array_equal(run.H[0], start[0] / start[0].sum())
    assert run.H.min() >= 0
    np.testing.assert_allclose(run.H.sum(axis=1), 1)
    for loss in ("frobenius", "kullback-leibler"):
        model = MinVolumeNMF(3, loss=loss, fixed_components=H[1:2]).fit(X)
        assert degrees(model.components_[:1], H[1:2]).max() < 1e-4
        assert (np.diff(model.history_) <= 1e-12).all()
        assert degrees(model.components_, H).max() < 8


@pytest.mark.parametrize("seed", seeds(6, quick=2))
def test_many_sweeps_reach_the_least_squares(seed):
    """And a component that is zero stays as it is."""
    rng = np.random.default_rng(seed)
    H, X, W = rng.random((4, 20)), rng.random((50, 20)), rng.random((50, 4))
    new = W
    for _ in range(1000):
        new = sweep(new, Equations(H @ H.T, X @ H.T), 8)
    np.testing.assert_allclose(new.T, nnls(H.T, X.T)[0], atol=1e-9)
    H[2] = 0
    np.testing.assert_array_equal(sweep(W, Equations(H @ H.T, X @ H.T), 5)[:, 2], W[:, 2])


def test_minimum_volume_of_counts_never_raises_its_objective_and_finds_the_components():
    rng = np.random.default_rng(11)
    H = rng.dirichlet(np.full(20, 1.0), 3)
    X = rng.poisson(rng.dirichlet(np.full(3, 0.3), 60) @ H * 500).astype(float)
    model = MinVolumeNMF(3, loss="kullback-leibler").fit(X)
    assert degrees(model.components_, H).max() < 12
    assert (np.diff(model.history_) <= 1e-12).all()
    # found with components in another order
    np.testing.assert_allclose(model.transform(X), model.embedding_, atol=1e-9)
    assert model.verify(X).largest_residual <= model.cone_.tol


def counts(rng, *, n=200, m=400, r=3):
    """Poisson counts of features whose means differ by orders, from samples of different depth; and
    components and shares."""
    H = np.exp(rng.normal(0, 2, m) + rng.normal(0, 0.7, (r, m)))
    H /= H.sum(axis=1, keepdims=True)
    A = rng.dirichlet(np.full(r, 0.4), n)
    X = rng.poisson(A * rng.uniform(1000, 10000, (n, 1)) @ H).astype(float)
    return X[:, X.any(axis=0)], H[:, X.any(axis=0)], A


@pytest.mark.parametrize("model", [MinVolumeNMF, SeparableNMF])
def test_counts_are_divided_by_the_noise_of_their_features_and_give_the_shares(model):
    X, _, A = counts(np.random.default_rng(0))
    fitted, plain = model(3).fit(X), model(3, feature_noise="equal").fit(X)
    assert np.ptp(plain.feature_noise_) == 0

    def worst(shares):
        return max(1 - np.corrcoef(shares.T, a)[-1, :-1].max() for a in A.T)

    assert worst(fitted.shares_) < min(0.04, worst(plain.shares_))
    large = X.mean(axis=0) > 1
    assert (
        np.corrcoef(np.log(fitted.feature_noise_[large]), 0.5 * np.log(X[:, large].mean(axis=0)))[
            0, 1
        ]
        > 0.95
    )
    assert model(3).fit(sp.csr_array(X)).feature_noise_ == pytest.approx(
        fitted.feature_noise_, rel=1e-6
    )
    given = model(3, feature_noise=7 * fitted.feature_noise_).fit(X)  # up to a common factor
    np.testing.assert_allclose(given.shares_, fitted.shares_, atol=1e-9)
    np.testing.assert_allclose(
        model(3).fit(X).transform(X, sum_to_one=True), fitted.shares_, atol=1e-9
    )
    assert fitted.verify(X).largest_residual <= fitted.cone_.tol


def test_noise_of_equal_features_and_of_exact_mixtures_scales_nothing_much():
    X, _, _ = mixtures(np.random.default_rng(3), noise=0.02, n=600)
    found = MinVolumeNMF(3).fit(X + 0.2).feature_noise_  # 0.2, so that no entry is cut off at zero
    assert 1 / 1.5 < found.min() <= found.max() < 1.5
    exact, _, _ = mixtures(np.random.default_rng(3))
    assert (MinVolumeNMF(3).fit(exact).feature_noise_ == 1).all()


def test_structure_in_the_residual_is_not_taken_for_the_noise_of_features():
    """A fourth component that is not asked for makes some features hard to explain, but not
    unreliable."""
    X, _, _ = mixtures(np.random.default_rng(5), r=4, noise=0.001, n=400)
    assert (MinVolumeNMF(2).fit(X).feature_noise_ == 1).all()


@pytest.mark.parametrize("n", [100, 2000])
def test_the_noise_inside_the_subspace_is_told_from_outside(n):
    """Independent noise of variance v has n v in each direction, for few samples of many features,
    too."""
    rng = np.random.default_rng(6)
    clean = rng.dirichlet(np.ones(3), n) @ rng.uniform(1, 2, (3, 300))
    X = clean + 0.01 * rng.standard_normal(clean.shape)
    found = compressed(as_table(X), 3)
    assert found.noise == pytest.approx(n * 1e-4, rel=0.2)
    assert found.structure == pytest.approx(1, abs=0.2)


def test_scale_of_samples_and_of_the_table_and_their_order_change_no_direction():
    X, _, _ = mixtures(np.random.default_rng(4), noise=0.02)
    one = MinVolumeNMF(3, tol=1e-9, max_iter=2000).fit(X)
    for other in (X * 2.0**600, X * 2.0**-600, X[::-1]):
        again = MinVolumeNMF(3, tol=1e-9, max_iter=2000).fit(other)
        assert degrees(again.components_ / again.components_.max(), one.components_).max() < 0.2


@pytest.mark.parametrize("share", [0.01, 0.04])
@pytest.mark.parametrize(
    "model",
    [SeparableNMF(3, outliers="auto"), MinVolumeNMF(3, outliers="auto")],
    ids=lambda m: type(m).__name__,
)
def test_bad_samples_are_left_out(share, model):
    rng = np.random.default_rng(5)
    X, H, _ = mixtures(rng, noise=0.01, n=300)
    clean = degrees(model.fit(X).components_, H).mean()
    bad = np.arange(int(share * len(X)))
    spoiled = np.vstack([X, rng.random((len(bad), X.shape[1])) * X.max()])
    model.fit(spoiled)
    assert model.outliers_[len(X) :].all()
    assert degrees(model.components_, H).mean() < clean + 1


def test_a_share_of_outliers_is_exactly_that_many():
    X, _, _ = mixtures(np.random.default_rng(6))
    X[7] = X[7][::-1] ** 2
    assert np.flatnonzero(outlying(X, 3, 1 / len(X))).tolist() == [7]
    assert outlying(X, 3, 0.1).sum() == 15
    assert not outlying(X, 3, 0.0).any()


def near_separable(rng, noise):
    """Mixtures scaled to sum one, with noise of exactly this length in directions that keep the
    sum; and the pure points."""
    r = int(rng.integers(2, 6))
    T = rng.dirichlet(np.full(int(rng.integers(r, 12)), rng.uniform(0.3, 2)), r)
    A = np.vstack([np.eye(r), rng.dirichlet(np.full(r, 0.5), 40)])
    N = rng.standard_normal((len(A), T.shape[1]))
    N -= N.mean(axis=1, keepdims=True)
    N *= noise / np.maximum(np.linalg.norm(N, axis=1, keepdims=True), 1e-300)
    return A @ T + N, T


@pytest.mark.parametrize("block", seeds(10, quick=1))
def test_the_greedy_cone_recovers_pure_points_within_the_bound(block):
    """The theorem of `separable_bound` in 1000 draws (100 in the quick tier)."""
    rng = np.random.default_rng(block)
    draws = 0
    while draws < 100:
        noise = 10 ** rng.uniform(-6, -3)
        Q, T = near_separable(rng, noise)
        bound = recovery_bound(T, noise)
        if Q.min() < 0 or not np.isfinite(bound):
            continue
        draws += 1
        chosen = greedy_rays(Q, len(T))
        distance = np.linalg.norm(Q[chosen][:, None] - T, axis=2)
        assert sorted(distance.argmin(axis=1).tolist()) == list(range(len(T)))
        assert distance.min(axis=1).max() <= bound


def test_the_bound_is_tight_within_a_factor_of_three():
    """Two orthogonal pure points: a mixture can be chosen although it is a third of the bound away
    from the pure one."""
    noise = 1e-5
    T = np.eye(2)
    share = 4 * noise / 2 * 0.999  # as much of the other point as noise of this size can hide
    Q = np.array([[1 - noise, 0.0], [1 - share, share], [0.0, 1 - 2 * noise]])
    Q[1] *= (np.linalg.norm(Q[1]) + noise) / np.linalg.norm(Q[1])
    chosen = greedy_rays(Q, 2)
    assert chosen[0] == 1
    error = np.linalg.norm(Q[1] - T[0])
    assert error <= recovery_bound(T, noise) <= 3 * error


def test_the_guarantee_is_reported_or_said_to_be_empty():
    X, _, _ = mixtures(np.random.default_rng(8))
    exact = SeparableNMF(3, method="cone", scaling="sum").fit(X)
    assert exact.guarantee_.bound < 1e-3
    assert "within" in exact.guarantee_.sentence
    noisy = SeparableNMF(3, method="cone", scaling="sum").fit(
        mixtures(np.random.default_rng(8), noise=0.3)[0]
    )
    assert noisy.guarantee_.bound == np.inf
    assert noisy.guarantee_.sentence.startswith("no bound: noise")
    assert (
        SeparableNMF(3, method="spa").fit(X).guarantee_.sentence.startswith("no bound: it is for")
    )


BASE = np.random.default_rng(9).random((12, 7))
DEAD = np.where((np.arange(12)[:, None] == 3) | (np.arange(7) == 2), 0.0, BASE)


@pytest.mark.parametrize("model", [SeparableNMF, MinVolumeNMF])
@pytest.mark.parametrize(
    ("r", "X", "message"),
    [
        (13, BASE, r"n_components = 13, but X has only n_samples = 12; ask for at most that many"),
        (8, BASE, r"n_components = 8, but X has only n_features = 7"),
        (
            3,
            np.tile(BASE[:1], (12, 1)),
            (
                r"n_components = 3, but X has rank 1: all its samples have the same direction; ask"
                r" for at most 1"
            ),
        ),
        (
            3,
            BASE[:, :2] @ BASE[:2],
            (
                r"n_components = 3, but X has rank 2: its samples span only 2 dimensions; ask for"
                r" at most 2"
            ),
        ),
        (
            2,
            -BASE,
            r"Negative values in data: X has 84 negative entries, the first at row 0, column 0",
        ),
        (2, np.where(BASE[4, 5] == BASE, np.nan, BASE), r"NaN"),
        (2, np.zeros((4, 3)), r"X is zero everywhere"),
        (0, BASE, r"n_components must be an integer of at least 1; got 0"),
    ],
)
def test_what_cannot_be_unmixed_is_refused_in_one_sentence(model, r, X, message):
    with pytest.raises(ValueError, match=message):
        model(r).fit(X)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            SeparableNMF(2, method="pixel purity"),
            r"method must be one of nearest, cone, spa, snpa, xray, vca; got 'pixel purity'",
        ),
        (
            SeparableNMF(2, scaling="unit"),
            r"scaling must be one of raw, sum, length; got 'unit'",
        ),
        (SeparableNMF(2, points="pixels"), r"points must be samples or features; got 'pixels'"),
        (
            SeparableNMF(2, outliers=0.9),
            r"outliers must be 'auto' or a share of the samples from 0 to 0\.5; got 0\.9",
        ),
        (
            MinVolumeNMF(2, loss="poisson"),
            r"loss must be one of frobenius, kullback-leibler; got 'poisson'",
        ),
        (
            MinVolumeNMF(2, feature_noise="poisson"),
            r"feature_noise must be one of auto, equal, or an array; got 'poisson'",
        ),
        (
            SeparableNMF(2, feature_noise=np.zeros(7)),
            r"feature_noise has shape \(7,\); expected 7 positive finite numbers",
        ),
        (MinVolumeNMF(2, volume=-1), r"volume must be a number above 0; got -1"),
        (
            MinVolumeNMF(2, fixed_components=np.ones((3, 7))),
            r"fixed_components has shape \(3, 7\); expected at most n_components = 2 rows",
        ),
        (MinVolumeNMF(2, fixed_components=np.ones((1, 6))), r"and 7 columns"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(model, message):
    with pytest.raises(InvalidInputError, match=message):
        model.fit(BASE)


@pytest.mark.parametrize(
    "model", [SeparableNMF(2), MinVolumeNMF(2)], ids=lambda m: type(m).__name__
)
def test_an_empty_band_and_a_dead_row_are_named_and_stay_zero(model):
    with (
        pytest.warns(
            UserWarning,
            match=r"sample 3 of X holds only zeros: kept in place, with zero abundances",
        ),
        pytest.warns(UserWarning, match="feature 2 of X holds only zeros"),
    ):
        model.fit(DEAD)
    assert (model.components_[:, 2] == 0).all()
    assert (model.embedding_[3] == 0).all()
    assert np.isfinite(model.components_).all()
    assert model.outliers_[3]


def test_the_number_of_components_of_clear_mixtures_is_found():
    X, _, _ = mixtures(np.random.default_rng(12), r=3, noise=0.005, n=200)
    found = count_components(X, np.arange(2, 6))
    assert found.chosen == 3
    assert found.clearances[1] > 0.12 > found.clearances[2]


@pytest.mark.slow
def test_counts_have_as_many_components_as_their_noise_allows():
    X, _, _ = counts(np.random.default_rng(1))
    found = count_components(X, np.arange(2, 7))
    assert found.noise == found.clearance == found.spectrum == found.chosen == 3


def test_the_choice_is_the_clearance_within_reach_of_the_singular_values():
    X, _, _ = mixtures(np.random.default_rng(5), r=3, noise=0.02, n=150)
    waves = np.cos(np.pi * np.outer(np.arange(2), np.linspace(0, 1, X.shape[1])))
    # variants of the components
    X = X * np.maximum(1 + 0.2 * np.random.default_rng(6).standard_normal((len(X), 2)) @ waves, 0)
    for ranks in (np.arange(2, 8), np.array([2, 3, 6])):
        found = count_components(X, ranks)
        near = [r for r in ranks if 0 <= r - found.spectrum <= 1]
        assert found.chosen == min(near, key=lambda r: abs(r - found.clearance))


@pytest.mark.parametrize("name", STARTS)
def test_every_start_leads_to_the_components(name):
    X, H, _ = mixtures(np.random.default_rng(8), noise=0.01, n=120)
    start = X[STARTS[name](X, 3)]
    assert start.shape == H.shape
    assert start.min() >= 0
    small = compressed(as_table(X), 3)
    found = minvolume(small, start + 1e-9, small.noise, tol=1e-6, max_iter=500).H
    assert degrees(found, H).max() < 6


def test_archetypes_are_mixtures_of_samples_and_fit_better_than_chosen_samples():
    X, _, _ = mixtures(np.random.default_rng(9), noise=0.1, n=200)
    U = X / np.linalg.norm(X, axis=1, keepdims=True)
    found = archetypes(X, 3)
    assert Hull.from_points(U).distance(found).max() < 1e-6

    def error(corners):
        return np.square(nnls(corners.T, U.T, simplex=True)[1]).sum()

    assert error(found) < error(U[spa(U, 3, "length")])


def test_a_run_that_is_stopped_says_so():
    X, _, _ = mixtures(np.random.default_rng(10), noise=0.1)
    with pytest.warns(ConvergenceWarning, match="stopped at max_iter = 2"):
        MinVolumeNMF(3, max_iter=2, tol=1e-12).fit(X)
    seen = []
    with pytest.warns(ConvergenceWarning, match="stopped by the callback after 3 iterations"):
        MinVolumeNMF(
            3, tol=1e-12, callback=lambda k, objective: seen.append(objective) or k == 3
        ).fit(X)
    assert len(seen) == 3


@pytest.mark.slow
@pytest.mark.parametrize(("name", "most"), [("SAMSON", 2.5), ("JASPER", 8.0), ("AMINO_EEM", 0.4)])
def test_components_of_measured_spectra_are_found_with_defaults(name, most):
    """Mean angles in degrees; shares within 0.12 of the reference after one factor for each
    component, where there is one."""
    z = np.load(data_file(name))
    Y = np.maximum(z["Y"].astype(float), 0)
    Y, M, A = Y[:, Y.any(axis=0)], z["M"].T.astype(float), z["A"].T[Y.any(axis=0)]
    model = MinVolumeNMF(len(M)).fit(np.ascontiguousarray(Y.T))
    assert degrees(model.components_, M).mean() <= most
    assert (model.feature_noise_ == 1).all()
    if name != "AMINO_EEM":
        unit = [F / np.linalg.norm(F, axis=1, keepdims=True) for F in (M, model.components_)]
        shares = model.shares_[:, (unit[0] @ unit[1].T).argmax(axis=1)]
        factor = (shares * A).sum(axis=0) / (shares**2).sum(axis=0)
        assert np.sqrt(((shares * factor - A) ** 2).mean()) <= 0.12


@pytest.mark.slow
def test_shares_of_cell_lines_are_found_from_raw_counts_with_defaults():
    z = np.load(data_file("RNAMIX_CELSEQ2"))
    X = sp.csc_array(
        (z["data"].astype(float), z["indices"], z["indptr"]), shape=tuple(z["shape"])
    ).T.tocsr()
    shares = MinVolumeNMF(3).fit(X).shares_
    C = np.corrcoef(shares.T, z["A"])[:3, 3:]
    assert sorted(C.argmax(axis=1).tolist()) == [0, 1, 2]
    assert C.max(axis=0).min() > 0.95
