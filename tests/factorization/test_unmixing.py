"""Unmixing: derivatives, the true components where they can be known, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from conftest import data_file, seeds
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks
from test_mixtures import degrees, mixtures, quiet, smooth

from conecollapse import InvalidInputError, Unmixing, bootstrap
from conecollapse.factorization.mixtures.distance import Distance, lower_distance, noise_of_amounts
from conecollapse.factorization.mixtures.facets import Facets, search_facets
from conecollapse.factorization.mixtures.number import count
from conecollapse.factorization.mixtures.samples import CORE, DIRECTIONS, prepare_samples
from conecollapse.factorization.mixtures.unmixing import error_of_amounts, error_of_rays


def scattered(rng, r=3, m=30, n=400):
    """Exact mixtures, none purer than 80 %, a tenth of them on each facet; and the components."""
    H = smooth(rng, r, m)
    A = rng.dirichlet(np.ones(r), 20 * n)
    for k in range(r):
        A[np.arange(len(A)) % 10 == k, k] = 0
    A /= A.sum(axis=1, keepdims=True)
    A = A[A.max(axis=1) < 0.8][:n]
    return A * rng.uniform(0.5, 1.5, (n, 1)) @ H, H


def prepared(rng, r=4):
    """Samples and rays near the truth, some of whose entries are negative over the features."""
    X, H, _ = mixtures(rng, r=r, noise=0.02)
    samples = prepare_samples(X, r)
    B = samples.rays(H)
    B = B + 0.3 * np.abs(B).mean() * rng.standard_normal(B.shape)
    B /= (B @ samples.sums)[:, None]
    assert (samples.sums @ B.T > 0).all()
    assert (B @ samples.V < 0).any()
    return samples, B


def objectives(samples, B):
    yield Facets(samples, 20 * samples.sigma)
    yield Distance(samples, volume=3.0)
    yield Distance(samples, exposures=True)
    yield Distance(samples, exposures=True, epsilon=10 * noise_of_amounts(samples, B))


@pytest.mark.parametrize("which", range(4))
def test_gradients_are_those_of_differences(which):
    rng = np.random.default_rng(1)
    samples, B = prepared(rng)
    objective = list(objectives(samples, B))[which]
    gradient, hessian = objective.expand(objective.evaluate(B))
    for _ in range(3):
        T, e = rng.standard_normal(B.shape), 1e-6

        def value(t, T=T):
            moved = B + t * T @ B
            return objective.evaluate(moved / (moved @ samples.sums)[:, None]).value

        expected = (value(e) - value(-e)) / (2 * e)
        assert np.vdot(gradient, T) == pytest.approx(expected, rel=1e-4, abs=1e-4)
    np.testing.assert_allclose(hessian, hessian.T, atol=1e-9 * np.abs(hessian).max())
    assert np.linalg.eigvalsh(hessian)[0] >= -1e-9 * np.abs(hessian).max()


def test_the_criterion_never_rises_and_fixed_rays_stay():
    samples, B = prepared(np.random.default_rng(2))
    free = np.array([False, True, True, True])
    values = [Distance(samples).evaluate(B).value]
    for steps in range(1, 6):
        state = lower_distance(samples, B, free=free, max_iter=steps)
        values.append(state.value)
        np.testing.assert_array_equal(state.B[0], B[0])
    assert (np.diff(values) <= 0).all()
    np.testing.assert_array_equal(search_facets(samples, B, free=free)[0], B[0])


@pytest.mark.parametrize("seed", seeds(5, quick=2))
def test_scattered_exact_mixtures_without_pure_samples_are_unmixed_exactly(seed):
    X, H = scattered(np.random.default_rng(seed))
    model = Unmixing(3).fit(X)
    assert degrees(model.components_, H).max() < 0.01
    assert degrees(X, H).min() > 1  # no sample is pure
    assert model.verify(X).largest_residual <= model.cone_.tol
    np.testing.assert_allclose(model.transform(X), model.embedding_, atol=1e-9)
    np.testing.assert_allclose(model.shares_.sum(axis=1), 1)
    values = [J for _, J in model.candidates_]
    assert values == sorted(values)


@pytest.mark.parametrize("seed", seeds(4, quick=1))
def test_noise_moves_the_components_by_about_as_much_as_it_must(seed):
    """Thirty pure samples each and 40 decibels: the mean of the pure samples is the best estimate
    that knows them. One pure sample is sqrt(30) times as far from the truth; the result is
    nearer."""
    rng = np.random.default_rng(seed)
    X, H, A = mixtures(rng, n=300, noise=0.0)
    pure = np.repeat(np.eye(3), 30, axis=0) @ H
    X = np.vstack([X, pure])
    X = X + 0.01 * np.sqrt((X**2).mean()) * rng.standard_normal(X.shape)
    known = np.maximum(X[len(A) :].reshape(3, 30, -1).mean(axis=1), 0)
    found = Unmixing(3).fit(np.maximum(X, 0)).components_
    assert degrees(found, H).mean() < np.sqrt(30) * degrees(known, H).mean()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_storage_and_precision_change_nothing(storage, dtype):
    X, H = scattered(np.random.default_rng(3))
    model = Unmixing(3).fit(storage(X.astype(dtype)))
    assert model.components_.dtype == model.embedding_.dtype == model.spread_.dtype == dtype
    assert degrees(model.components_, H).max() < (0.01 if dtype == np.float64 else 0.1)


def test_samples_that_fit_no_mixture_are_left_out():
    rng = np.random.default_rng(4)
    X, H = scattered(rng)
    bad = np.arange(0, len(X), 40)
    X[bad] = rng.random((len(bad), X.shape[1])) * X.max()
    model = Unmixing(3).fit(X)
    assert set(np.flatnonzero(model.outliers_)) == set(bad)
    assert degrees(model.components_, H).max() < 0.01
    assert degrees(Unmixing(3, outliers=0).fit(X).components_, H).max() > 1


def test_fixed_components_come_first_and_are_kept():
    X, H = scattered(np.random.default_rng(5))
    model = Unmixing(3, fixed_components=H[2:]).fit(X)
    assert degrees(model.components_[:1], H[2:]).max() < 1e-4
    assert degrees(model.components_, H).max() < 0.1
    # also what of it no sample has
    other = H[2] + 0.1 * H[2].max() * np.random.default_rng(0).random(H.shape[1])
    model = Unmixing(3, fixed_components=[other]).fit(X)
    np.testing.assert_allclose(np.ptp(model.components_[0] / other), 0, atol=1e-9)
    assert not model.spread_[0].any()


def test_the_number_of_components_is_found_and_a_reason_given():
    rng = np.random.default_rng(6)
    X, H = scattered(rng, r=4)
    assert count(X).r == 4  # without noise
    noisy = np.maximum(X + 0.01 * np.sqrt((X**2).mean()) * rng.standard_normal(X.shape), 0)
    model = Unmixing().fit(noisy)
    assert model.n_components_ == len(model.components_) == len(H)
    assert "independent noise" in model.reason_
    spoiled = np.vstack([noisy, rng.random((6, noisy.shape[1])) * noisy.max()])
    assert count(spoiled).r == 4 < count(spoiled, outliers=0).r
    few, _, _ = mixtures(rng, r=3, m=60, n=10, noise=0.003)
    assert count(few).r == 3


def test_more_samples_than_a_search_looks_at_lead_to_the_same_components():
    X, H = scattered(np.random.default_rng(7), n=CORE + 2 * DIRECTIONS + 500)
    samples = prepare_samples(X, 3)
    core = samples.core()
    assert len(core.Z) < len(samples.Z)
    assert core.total == pytest.approx(len(X), rel=0.3)
    assert degrees(Unmixing(3).fit(X).components_, H).max() < 0.01


def signatures(rng, r=6, n=300):
    H = rng.dirichlet(np.full(96, 0.1), r)
    present = rng.random((n, r)) < 0.4
    present[:, 0] = True
    A = np.exp(rng.normal(7, 1, r) + 0.7 * rng.standard_normal((n, r))) * present
    return A @ H, H


def test_counts_whose_components_are_rare_are_unmixed():
    mean, H = signatures(np.random.default_rng(8))
    model = Unmixing(6, loss="kullback-leibler").fit(np.rint(mean))
    assert degrees(model.components_, H).max() < 5
    assert (model.embedding_ >= 0).all()


def test_few_samples_of_many_features_are_unmixed_by_the_features_that_one_component_has():
    """Genes of three tissues: one in ten is in one of them only."""
    rng = np.random.default_rng(9)
    H = rng.lognormal(0, 1, (3, 1500)) * rng.lognormal(0, 1, 1500)
    markers = rng.permutation(1500)[:150]
    H[:, markers] *= 0.001
    H[np.arange(150) % 3, markers] *= 1000
    A = rng.dirichlet([4, 4, 4], 15)
    X = A @ H * np.exp(0.05 * rng.standard_normal((15, 1500)))
    model = Unmixing(3).fit(X)
    assert model.corners_ == "features"
    assert degrees(model.components_, H).max() < 10


def test_errors_of_the_amounts_fall_with_the_noise():
    X, H = scattered(np.random.default_rng(10))
    rng, errors = np.random.default_rng(11), []
    for noise in (0.03, 0.003):
        noisy = X + noise * X.mean() * rng.standard_normal(X.shape)
        samples = prepare_samples(np.maximum(noisy, 0), 3)
        B = samples.rays(H)
        errors.append((error_of_amounts(samples, B), error_of_rays(samples, B)))
    assert (np.array(errors[0]) > 3 * np.array(errors[1])).all()


def test_a_sample_is_explained_by_its_parts():
    X, _ = scattered(np.random.default_rng(12))
    model = Unmixing(3).fit(X)
    told = model.explain(X[5])
    np.testing.assert_allclose(told.parts.sum(axis=0) + told.left, X[5])
    np.testing.assert_allclose(told.shares, model.shares_[5], atol=1e-9)
    assert told.distance == pytest.approx(model.residuals_[5], abs=1e-6)
    strange = np.zeros(X.shape[1])
    strange[3] = 1.0
    assert model.explain(strange).distance > 0.1
    with pytest.raises(InvalidInputError, match="x holds 2 samples"):
        model.explain(X[:2])


def test_spread_says_what_the_data_leave_open():
    """Samples that are all mixtures of equal parts, nearly, do not say where the corners are."""
    rng = np.random.default_rng(13)
    X, H = scattered(rng)
    sure = Unmixing(3).fit(X)
    A = rng.dirichlet([20, 20, 20], 400)
    near = A @ H
    near = np.maximum(near + 0.003 * near.mean() * rng.standard_normal(near.shape), 0)
    unsure = Unmixing(3).fit(near)
    size = [np.median(model.spread_) / model.components_.mean() for model in (sure, unsure)]
    assert size[1] > 5 * size[0]


def test_what_is_wrong_is_refused_by_name():
    X, H = scattered(np.random.default_rng(14))
    for options, message in (
        ({"n_components": 31}, "n_features = 30"),
        ({"n_components": 0}, "n_components"),
        ({"n_components": 3, "loss": "huber"}, "loss must be one of"),
        ({"n_components": 3, "outliers": 0.7}, "outliers must be 'auto' or a share"),
        ({"n_components": 1, "fixed_components": H}, "fixed_components has shape"),
        ({"n_components": 4}, "rank 3"),
        ({"n_components": 3, "unimodal": "both"}, "unimodal must be"),
        ({"n_components": 3, "zero_where": H}, "zero_where has shape"),
        ({"n_components": 3, "fixed_shares": H}, "fixed_shares has shape"),
        ({"n_components": "many"}, "or \"auto\"; got 'many'"),
        ({"n_components": 3, "zero_where": np.ones((len(X), 3), bool)}, "nothing of component 0"),
        ({"n_components": 3, "zero_where": np.arange(3)[:, None] == np.ones(30)}, "component 1"),
        ({"n_components": 3, "closure": True, "unimodal": "samples"}, "closure=True and unimodal"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            Unmixing(**options).fit(X)


@pytest.mark.parametrize("other", ["zero_where", "unimodal"])
def test_known_shares_exclude_other_knowledge_of_amounts(other):
    X, _ = scattered(np.random.default_rng(16))
    known = {"zero_where": np.zeros((len(X), 3), bool), "unimodal": "samples"}[other]
    with pytest.raises(InvalidInputError, match=f"fixed_shares and {other} cannot be kept"):
        Unmixing(3, fixed_shares=np.full((len(X), 1), 0.2), **{other: known}).fit(X)


def test_a_sparse_known_component_is_taken():
    X, H = scattered(np.random.default_rng(17))
    dense, sparse = (
        Unmixing(3, fixed_components=known).fit(X) for known in (H[:1], sp.csr_array(H[:1]))
    )
    np.testing.assert_array_equal(dense.components_, sparse.components_)


def test_one_sample_of_counts_is_its_own_component():
    counts = np.array([[40, 7, 1, 12]])
    model = Unmixing(1, loss="kullback-leibler").fit(counts)
    np.testing.assert_allclose(model.embedding_ @ model.components_, counts, rtol=1e-6, atol=1e-6)


def test_frames_of_other_features_are_refused_by_name():
    X, _ = scattered(np.random.default_rng(18))
    first, second = pd.DataFrame(X[:50]).add_prefix("a"), pd.DataFrame(X[50:]).add_prefix("b")
    with pytest.raises(InvalidInputError, match="table 1 of X has no feature 'a0'"):
        Unmixing(3).fit([first, second])


def test_a_cube_is_told_how_its_pixels_become_rows():
    with pytest.raises(InvalidInputError, match=r"pixels of an image are X.reshape\(-1, 5\)"):
        Unmixing(3).fit(np.ones((4, 3, 5)))


def test_a_model_that_is_not_fitted_explains_nothing():
    with pytest.raises(NotFittedError):
        Unmixing(3).explain(np.ones(4))


def test_draws_of_a_bootstrap_choose_again():
    rng = np.random.default_rng(15)
    X, H, _ = mixtures(rng, n=120, noise=0.02, r=2)
    model = Unmixing().fit(X)
    found = bootstrap(model, X, n_runs=4)  # with as many components as were found
    assert found.components.shape == H.shape
    assert (found.components_low < found.components_high).any()


def best_order(found, H):
    """For each row of H the nearest component found."""
    unit = [A / np.linalg.norm(A, axis=1, keepdims=True) for A in (found, H)]
    return (unit[0] @ unit[1].T).argmax(axis=0)


def test_closed_amounts_sum_to_one_and_are_the_true_ones():
    rng = np.random.default_rng(16)
    X, H = scattered(rng)
    X = X / (X @ np.linalg.pinv(H)).sum(axis=1, keepdims=True)  # no light
    model = Unmixing(3, closure=True).fit(X)
    order = best_order(model.components_, H)
    np.testing.assert_allclose(model.components_[order], H, rtol=0.01, atol=1e-3)
    np.testing.assert_allclose(model.embedding_.sum(axis=1), 1, atol=1e-9)
    np.testing.assert_allclose(model.transform(X)[:, order], X @ np.linalg.pinv(H), atol=1e-3)
    np.testing.assert_allclose(model.shares_, model.embedding_, atol=1e-9)


def elution(rng, noise=0.0):
    """Three substances that leave a column one after another; amounts and spectra."""
    t = np.linspace(0, 1, 120)[:, None]
    A = np.exp(-(((t - [0.35, 0.5, 0.62]) / [0.12, 0.1, 0.12]) ** 2))
    H = smooth(rng, 3, 40)
    X = A @ H
    return np.maximum(X + noise * X.mean() * rng.standard_normal(X.shape), 0), A, H


@pytest.mark.parametrize("unimodal", ["samples", np.array([True, True, False])])
def test_amounts_of_a_chromatogram_have_one_peak(unimodal):
    X, _, H = elution(np.random.default_rng(17), noise=0.1)
    model = Unmixing(3, unimodal=unimodal, outliers=0).fit(X)
    marked = 3 if isinstance(unimodal, str) else 2
    for w in model.embedding_.T[:marked]:
        top = w.argmax()
        assert (np.diff(w[: top + 1]) >= 0).all()
        assert (np.diff(w[top:]) <= 0).all()
    assert degrees(model.components_, H).mean() < 10
    flat = Unmixing(3, unimodal="features", outliers=0).fit(X)
    for h in flat.components_:
        top = h.argmax()
        assert (np.diff(h[: top + 1]) >= -1e-12).all()
        assert (np.diff(h[top:]) <= 1e-12).all()


def test_where_a_substance_is_known_to_be_absent_its_amounts_are_zero_and_others_are_better():
    X, A, H = elution(np.random.default_rng(18), noise=0.02)
    absent = A < 0.02
    free = Unmixing(3, outliers=0).fit(X)
    model = Unmixing(3, zero_where=absent, outliers=0).fit(X)
    assert (model.embedding_[absent] == 0).all()
    angles = np.diag(
        np.degrees(
            np.arccos(
                np.clip(
                    (model.components_ / np.linalg.norm(model.components_, axis=1)[:, None])
                    @ (H / np.linalg.norm(H, axis=1)[:, None]).T,
                    -1,
                    1,
                )
            )
        )
    )
    assert angles.mean() < degrees(free.components_, H).mean()
    entries = np.quantile(H, 0.1) > H
    assert (Unmixing(3, zero_where=entries, outliers=0).fit(X).components_[entries] == 0).all()


def test_known_shares_are_kept():
    rng = np.random.default_rng(19)
    X, H = scattered(rng, n=60)
    W = np.maximum(X @ np.linalg.pinv(H), 0)
    shares = W / W.sum(axis=1, keepdims=True)
    for k in (1, 3):
        model = Unmixing(3, fixed_shares=shares[:, :k], outliers=0).fit(X)
        np.testing.assert_allclose(model.shares_[:, :k], shares[:, :k], atol=1e-3)
        assert degrees(model.components_, H).max() < 3


def test_tables_with_common_components_are_stacked():
    X, _ = scattered(np.random.default_rng(20))
    whole = Unmixing(3).fit(X)
    for parts in ([X[:100], X[100:]], [sp.csr_array(X[:100]), X[100:]]):
        np.testing.assert_allclose(Unmixing(3).fit(parts).components_, whole.components_)
    with pytest.raises(InvalidInputError, match="the same features"):
        Unmixing(3).fit([X, X[:, 1:]])


@pytest.mark.parametrize(("name", "most"), [("AMINO_EEM", 0.4)])
def test_measured_mixtures_are_unmixed(name, most):
    with np.load(data_file(f"{name}.npz")) as stored:
        X, H = np.maximum(stored["Y"].T.astype(float), 0), stored["M"].T.astype(float)
    assert degrees(Unmixing(len(H)).fit(X).components_, H).mean() < most


@pytest.mark.slow
@quiet
@parametrize_with_checks([Unmixing(2)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
