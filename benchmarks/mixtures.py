"""Mixtures: angles to the true components, bad pixels, cell lines, signatures, the bound, topics, and the family that chose the constants.

python benchmarks/mixtures.py sets        # SAMSON, JASPER, AMINO_EEM against SPA, SNPA, VCA, epsilon-cones and scikit-learn's NMF
python benchmarks/mixtures.py bad         # with bad pixels
python benchmarks/mixtures.py cells       # RNAMIX_CELSEQ2
python benchmarks/mixtures.py signatures  # planted counts; salamander-learn's MvNMF where it is installed
python benchmarks/mixtures.py bound       # the theorem in 1000 draws
python benchmarks/mixtures.py topics      # REUTERS and WEBKB4
python benchmarks/mixtures.py family 40   # synthetic scenes, by how much volume is penalised
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
import scipy.sparse as sp
from common import DATA, machine
from scipy.optimize import linear_sum_assignment
from sklearn.decomposition import NMF, LatentDirichletAllocation
from sklearn.exceptions import ConvergenceWarning

from conecollapse import Cone, MinVolumeNMF, MultiplicativeNMF, SeparableNMF
from conecollapse.geometry.epsilon import greedy_rays
from conecollapse.geometry.separable_bound import recovery_bound
from conecollapse.geometry.snpa import snpa
from conecollapse.geometry.spa import spa
from conecollapse.geometry.vca import vca

SETS = ("SAMSON", "JASPER", "AMINO_EEM")


def pairs(found, true):
    """Angles in degrees of matched components, and the place of each true one among those found."""
    unit = [A / np.linalg.norm(A, axis=1, keepdims=True) for A in (found, true)]
    angles = np.degrees(np.arccos(np.clip(unit[0] @ unit[1].T, -1, 1)))
    rows, columns = linear_sum_assignment(angles)
    return angles[rows, columns], rows[np.argsort(columns)]


def load(name):
    z = np.load(DATA / f"{name}.npz", allow_pickle=False)
    Y = np.maximum(z["Y"].astype(np.float64), 0)
    filled = Y.any(axis=0)
    return np.ascontiguousarray(Y[:, filled].T / Y.max()), z["M"].T.astype(np.float64), z["A"].T[filled].astype(np.float64)


def share_error(shares, A):
    """Root mean square error of abundances after one factor for each component."""
    factor = (shares * A).sum(axis=0) / (shares**2).sum(axis=0)
    return float(np.sqrt(((shares * factor - A) ** 2).mean()))


def sets():
    chosen = {
        "SPA, raw": lambda X, r: spa(X, r, "raw"),
        "SPA, unit sum": lambda X, r: spa(X, r, "sum"),
        "SPA, unit length": lambda X, r: spa(X, r, "length"),
        "SNPA": lambda X, r: snpa(X, r),
        "epsilon-cone, unit": lambda X, r: Cone.approximate(X, 1e-6, max_rays=r).ray_indices,
        "epsilon-cone, mass": lambda X, r: Cone.approximate(X, 1e-6, max_rays=r, weighting="mass").ray_indices,
    }
    for name in SETS:
        X, M, A = load(name)
        r = len(M)
        print(f"\n{name}: {X.shape[0]} samples, {X.shape[1]} channels, {r} components")
        for method, select in chosen.items():
            print(f"  {method:24} {pairs(X[select(X, r)], M)[0].mean():6.2f} degrees")
        draws = [pairs(X[vca(X, r, np.random.default_rng(seed))], M)[0].mean() for seed in range(20)]
        print(f"  {'VCA, mean of 20':24} {np.mean(draws):6.2f} degrees")
        print(f"  {'scikit-learn NMF':24} {pairs(NMF(r, init='nndsvda', max_iter=500).fit(X).components_, M)[0].mean():6.2f} degrees")
        for model in (SeparableNMF(r, sum_to_one=True), MinVolumeNMF(r, sum_to_one=True)):
            start = time.process_time()
            model.fit(X)
            seconds = time.process_time() - start
            angles, order = pairs(model.components_, M)
            error = share_error(model.embedding_[:, order], A) if name != "AMINO_EEM" else float("nan")
            said = f"{angles.mean():6.2f} degrees, abundances off by {error:.3f}, {seconds:.1f} s of processor time"
            print(f"  {type(model).__name__:24} {said}")


def bad():
    for name in SETS:
        X, M, _ = load(name)
        for model in (SeparableNMF(len(M), outliers="auto"), MinVolumeNMF(len(M), outliers="auto")):
            row = [f"clean {pairs(model.fit(X).components_, M)[0].mean():.2f}"]
            for share in (0.001, 0.02):
                means = []
                for seed in range(3):
                    rng = np.random.default_rng(seed)
                    count = int(np.ceil(share * len(X)))
                    spoiled = X.copy()
                    spoiled[rng.permutation(len(X))[:count]] = rng.random((count, X.shape[1])) * X.max()
                    means.append(pairs(model.fit(spoiled).components_, M)[0].mean())
                row.append(f"{share:.1%} bad {', '.join(f'{mean:.2f}' for mean in means)}")
            print(f"{name:10} {type(model).__name__:13} {'; '.join(row)} degrees")


def sparse_set(name):
    z = np.load(DATA / f"{name}.npz", allow_pickle=False)
    return sp.csc_array((z["data"].astype(np.float64), z["indices"], z["indptr"]), shape=tuple(z["shape"])).T.tocsr(), z


def cells():
    """The 3000 genes with the largest total, each divided by its mean."""
    X, z = sparse_set("RNAMIX_CELSEQ2")
    total = np.asarray(X.sum(axis=0)).ravel()
    genes = np.argsort(-total, kind="stable")[:3000]
    Y = X[:, genes].toarray() / (total[genes] / X.shape[0])
    for model in (MinVolumeNMF(3, sum_to_one=True), SeparableNMF(3, sum_to_one=True)):
        start = time.process_time()
        shares = model.fit_transform(Y)
        seconds = time.process_time() - start
        C = np.corrcoef(shares.T, z["A"])[:3, 3:]
        rows, columns = linear_sum_assignment(-C)
        print(
            f"{type(model).__name__:13} correlation with the true shares {np.round(C[rows, columns], 3)}, {seconds:.1f} s of processor time"
        )


def planted(seed, n=107, r=15):
    rng = np.random.default_rng(seed)
    H = rng.dirichlet(np.full(96, 0.1), r)
    mass = np.concatenate([[0.7], 0.3 * rng.dirichlet(np.full(r - 1, 2.0))])
    W = rng.dirichlet(3 * mass, n) * np.exp(rng.normal(np.log(2000), 0.7, n))[:, None]
    return rng.poisson(W @ H).astype(np.float64), H


def signatures():
    try:
        from salamander.models import MvNMF
    except ImportError:
        MvNMF = None
    for seed in range(5):
        X, H = planted(seed)
        X, H = X[:, X.any(axis=0)], H[:, X.any(axis=0)]
        row = []
        models = {
            "MinVolumeNMF": MinVolumeNMF(15, loss="kullback-leibler"),
            "KL-NMF from NNDSVD": MultiplicativeNMF(15, loss="kullback-leibler", init="nndsvda"),
        }
        for name, model in models.items():
            start = time.process_time()
            model.fit(X)
            seconds = time.process_time() - start
            angles = pairs(model.components_, H)[0]
            row.append(f"{name} {int((np.cos(np.radians(angles)) > 0.9).sum())} of 15 in {seconds:.1f} s of processor time")
        if MvNMF is not None:
            row.append(_salamander(MvNMF, X, H))
        print(f"seed {seed}: {'; '.join(row)}")


def _salamander(MvNMF, X, H):
    import anndata

    start = time.process_time()
    model = MvNMF(n_signatures=15)
    model.fit(anndata.AnnData(X))
    seconds = time.process_time() - start
    found = np.asarray(model.asignatures.X)
    return f"salamander MvNMF {int((np.cos(np.radians(pairs(found, H)[0])) > 0.9).sum())} of 15 in {seconds:.1f} s of processor time"


def bound():
    rng = np.random.default_rng(0)
    ratios = []
    while len(ratios) < 1000:
        noise = 10 ** rng.uniform(-6, -3)
        r = int(rng.integers(2, 6))
        T = rng.dirichlet(np.full(int(rng.integers(r, 12)), rng.uniform(0.3, 2)), r)
        A = np.vstack([np.eye(r), rng.dirichlet(np.full(r, 0.5), 40)])
        N = rng.standard_normal((len(A), T.shape[1]))
        N -= N.mean(axis=1, keepdims=True)
        Q = A @ T + noise * N / np.linalg.norm(N, axis=1, keepdims=True)
        limit = recovery_bound(T, noise)
        if Q.min() >= 0 and np.isfinite(limit):
            ratios.append(np.linalg.norm(Q[greedy_rays(Q, r)][:, None] - T, axis=2).min(axis=1).max() / limit)
    print(f"largest error over the bound: {max(ratios):.3f}; median {np.median(ratios):.4f}; holds in {np.mean(np.array(ratios) <= 1):.1%}")


def npmi(topics, present, n_words=10):
    """Mean normalised pointwise mutual information of the pairs among the first words of each topic, over documents."""
    n = present.shape[0]
    scores = []
    for topic in topics:
        words = np.argsort(-topic)[:n_words]
        P = np.asarray((present[:, words].T @ present[:, words]).todense()) / n
        for a in range(n_words):
            for b in range(a):
                both = P[a, b]
                scores.append(-1.0 if both == 0 else np.log(both / (P[a, a] * P[b, b])) / -np.log(both) if both < 1 else 1.0)
    return float(np.mean(scores))


def overlap(first, second, n_words=10):
    """Mean share of first words that matched topics have in common."""
    tops = [[set(np.argsort(-topic)[:n_words].tolist()) for topic in topics] for topics in (first, second)]
    common = np.array([[len(a & b) / n_words for b in tops[1]] for a in tops[0]])
    rows, columns = linear_sum_assignment(-common)
    return float(common[rows, columns].mean())


def topics(n_topics=20, n_words=2000):
    for name in ("REUTERS", "WEBKB4"):
        X, _ = sparse_set(name)
        frequency = np.bincount(X.indices, minlength=X.shape[1])
        kept = np.argsort(-np.where(frequency > 0.2 * X.shape[0], 0, frequency), kind="stable")[:n_words]
        X = sp.csr_array(X[:, kept])
        present = sp.csr_array((np.ones(X.nnz), X.indices, X.indptr), shape=X.shape)
        halves = [np.random.default_rng(seed).permutation(X.shape[0])[: X.shape[0] // 2] for seed in range(2)]

        def anchors(X):
            length = np.maximum(np.asarray(X.sum(axis=1)).ravel(), 2)
            scaled = sp.diags_array(1 / np.sqrt(length * (length - 1))) @ X
            Q = (scaled.T @ scaled).toarray() - np.diag(np.asarray((sp.diags_array(1 / (length * (length - 1))) @ X).sum(axis=0)).ravel())
            model = SeparableNMF(n_topics, points="features", method="spa", scaling="sum")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return model.fit(np.maximum(Q, 0)).components_

        methods = {
            "SeparableNMF, anchor words": lambda X, _: anchors(X),
            "scikit-learn NMF": lambda X, _: NMF(n_topics, init="nndsvda", max_iter=300).fit(X).components_,
            "scikit-learn NMF, random": lambda X, seed: NMF(n_topics, init="random", random_state=seed, max_iter=300).fit(X).components_,
            "scikit-learn LDA": lambda X, seed: LatentDirichletAllocation(n_topics, random_state=seed, max_iter=10).fit(X).components_,
        }
        print(f"\n{name}: {X.shape[0]} documents, {X.shape[1]} words, {n_topics} topics")
        for method, fit in methods.items():
            start = time.process_time()
            whole = fit(X, 0)
            seconds = time.process_time() - start
            again = overlap(whole, fit(X, 1))
            parts = overlap(fit(sp.csr_array(X[halves[0]]), 0), fit(sp.csr_array(X[halves[1]]), 0))
            coherence = npmi(whole, present)
            said = f"words in common: other seed {again:.2f}, other half {parts:.2f}; {seconds:.1f} s of processor time"
            print(f"  {method:28} NPMI {coherence:.3f}; {said}")


def scene(seed):
    """Smooth spectra, peaks or genes; with and without pure samples; light, variability and noise of several kinds and sizes."""
    rng = np.random.default_rng([77, seed])
    r, m, n = int(rng.integers(2, 9)), int(rng.choice([20, 50, 100, 200])), 1000
    kind = rng.choice(["smooth", "peaks", "genes"])
    t = np.linspace(0, 1, m)
    while True:
        if kind == "genes":
            H = np.exp(rng.normal(0, 1, (1, m)) + rng.normal(0, 0.7, (r, m)))
        else:
            wide = (0.05, 0.3) if kind == "smooth" else (0.02, 0.12)
            bumps = np.exp(-(((t - rng.random((r, 4, 1))) / rng.uniform(*wide, (r, 4, 1))) ** 2))
            H = (rng.uniform(0.1, 1, (r, 4, 1)) * bumps).sum(axis=1) + (0.1 if kind == "smooth" else 0.0)
        if np.linalg.svd(H / np.linalg.norm(H, axis=1, keepdims=True), compute_uv=False)[-1] > 0.05:
            break
    purest = max(float(rng.choice([1.0, 1.0, 0.9, 0.8])), 1.6 / r)
    A = rng.dirichlet(np.full(r, rng.choice([0.2, 0.4, 1.0])), 50 * n)
    A = A[A.max(axis=1) <= purest][:n]
    light = rng.choice([0.0, 0.3, 0.6])
    waves = np.vstack([np.ones(m), np.cos(np.pi * t), np.cos(2 * np.pi * t)])
    vary = 1 + rng.choice([0.0, 0.05]) * rng.standard_normal((len(A), r, 3)) @ waves
    X = np.einsum("ik,kj,ikj->ij", A * np.exp(light * rng.standard_normal((len(A), 1))), H, np.maximum(vary, 0))
    size = 10 ** (-rng.choice([15, 20, 30, 40, 60]) / 20) * np.sqrt((X**2).mean())
    noise = rng.choice(["normal", "poisson", "relative"])
    if noise == "normal":
        X = X + size * rng.standard_normal(X.shape)
    elif noise == "poisson":
        X = rng.poisson(X * X.mean() / size**2) * size**2 / X.mean()
    else:
        X = X * (1 + size / np.sqrt((X**2).mean()) * rng.standard_normal(X.shape))
    X = np.maximum(X, 0)
    return X[X.any(axis=1)], H


def family(count):
    """Geometric mean of the angles for several values of ``volume``, the same on the three sets, and the choice without each set."""
    values = (0.03, 0.1, 0.3, 1.0, 3.0)
    table = {}
    for seed in range(count):
        X, H = scene(seed)
        row = [pairs(MinVolumeNMF(len(H), volume=v).fit(X).components_, H)[0].mean() for v in values]
        row += [pairs(SeparableNMF(len(H)).fit(X).components_, H)[0].mean(), pairs(X[spa(X, len(H))], H)[0].mean()]
        row.append(pairs(NMF(len(H), init="nndsvda", max_iter=300).fit(X).components_, H)[0].mean())
        table[f"scene {seed}"] = row
    G = np.exp(np.log(np.maximum(np.array(list(table.values())), 0.05)).mean(axis=0))
    print(f"{count} scenes, geometric mean of mean angles: " + ", ".join(f"volume {v:g}: {g:.2f}" for v, g in zip(values, G, strict=False)))
    print(f"  SeparableNMF {G[-3]:.2f}, SPA of unit sums {G[-2]:.2f}, scikit-learn NMF {G[-1]:.2f}")
    real = {}
    for name in SETS:
        X, M, _ = load(name)
        real[name] = np.array([pairs(MinVolumeNMF(len(M), volume=v).fit(X).components_, M)[0].mean() for v in values])
        print(f"  {name}: " + ", ".join(f"volume {v:g}: {a:.2f}" for v, a in zip(values, real[name], strict=True)))
    for left in SETS:
        logs = np.log(G[: len(values)]) + sum(np.log(real[name]) for name in SETS if name != left)
        print(f"  chosen without {left}: volume {values[int(np.argmin(logs))]:g}")


if __name__ == "__main__":
    warnings.simplefilter("ignore", ConvergenceWarning)
    print(machine())
    work = {"sets": sets, "bad": bad, "cells": cells, "signatures": signatures, "bound": bound, "topics": topics}
    what = sys.argv[1] if len(sys.argv) > 1 else "sets"
    if what == "family":
        family(int(sys.argv[2]) if len(sys.argv) > 2 else 40)
    else:
        work[what]()
