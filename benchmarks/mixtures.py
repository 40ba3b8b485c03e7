"""Mixtures: angles to the true components, bad pixels, cell lines, signatures, the bound, topics,
and families of scenes.

python benchmarks/mixtures.py sets        # SAMSON, JASPER, AMINO_EEM against SPA, SNPA, VCA,
epsilon-cones and scikit-learn's NMF python benchmarks/mixtures.py bad         # with bad pixels
python benchmarks/mixtures.py cells       # RNAMIX_CELSEQ2 python benchmarks/mixtures.py signatures
# planted counts; salamander-learn's MvNMF where it is installed python benchmarks/mixtures.py bound
# the theorem in 1000 draws python benchmarks/mixtures.py topics      # REUTERS and WEBKB4, or those
named python benchmarks/mixtures.py ranks 5     # the number of components, on the sets and on
families of scenes python benchmarks/mixtures.py family 10   # families of scenes: every method, and
MinVolumeNMF by how much volume is penalised
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
import scipy.sparse as sp
from common import DATA, machine
from measured_scenes import MEASURED
from scenes import scene
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from sklearn.decomposition import NMF, LatentDirichletAllocation
from sklearn.exceptions import ConvergenceWarning

from conecollapse import (
    Cone,
    MinVolumeNMF,
    MultiplicativeNMF,
    SeparableNMF,
    Unmixing,
    nnls,
)
from conecollapse.factorization.mixtures.number import count as count_of
from conecollapse.geometry.epsilon import greedy_rays
from conecollapse.geometry.selections import snpa, spa, vca
from conecollapse.geometry.separable_bound import recovery_bound

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
    return (
        np.ascontiguousarray(Y[:, filled].T / Y.max()),
        z["M"].T.astype(np.float64),
        z["A"].T[filled].astype(np.float64),
    )


def share_error(shares, A):
    """Root mean square error of abundances after one factor for each component."""
    factor = (shares * A).sum(axis=0) / (shares**2).sum(axis=0)
    return float(np.sqrt(((shares * factor - A) ** 2).mean()))


def sets():
    for name in SETS:
        X, M, A = load(name)
        r = len(M)
        print(f"\n{name}: {X.shape[0]} samples, {X.shape[1]} channels, {r} components")
        for method, select in CHOSEN.items():
            if method == "VCA":
                continue
            print(f"  {method:24} {pairs(X[select(X, r)], M)[0].mean():6.2f} degrees")
        draws = [pairs(X[vca(X, r, rng=seed)], M)[0].mean() for seed in range(20)]
        print(f"  {'VCA, mean of 20':24} {np.mean(draws):6.2f} degrees")
        print(
            f"  {'scikit-learn NMF':24}"
            f" {pairs(NMF(r, init='nndsvda', max_iter=500).fit(X).components_, M)[0].mean():6.2f}"
            " degrees"
        )
        for model in (Unmixing(r), SeparableNMF(r), MinVolumeNMF(r)):
            start = time.process_time()
            model.fit(X)
            seconds = time.process_time() - start
            angles, order = pairs(model.components_, M)
            said = f"{angles.mean():6.2f} degrees, {seconds:.1f} s of processor time"
            if name != "AMINO_EEM":
                said += f"; shares_ off by {share_error(model.shares_[:, order], A):.3f}"
                said += f", embedding_ by {share_error(model.embedding_[:, order], A):.3f}"
            print(f"  {type(model).__name__:24} {said}")
        by_volume = [
            (v, pairs(MinVolumeNMF(r, volume=v).fit(X).components_, M)[0].mean()) for v in VALUES
        ]
        print(
            f"  {'MinVolumeNMF, volume':24} "
            + ", ".join(f"{v:g}: {angle:.2f}" for v, angle in by_volume)
        )
        if name != "AMINO_EEM":
            W = nnls(M.T, X.T)[0].T
            sums = np.maximum(W.sum(axis=1, keepdims=True), np.finfo(float).tiny)
            said = (
                f"shares off by {share_error(W / sums, A):.3f}, coefficients by"
                f" {share_error(W, A):.3f}"
            )
            print(f"  {'the true components':24} {said}")


def bad():
    for name in SETS:
        X, M, _ = load(name)
        for model in (
            Unmixing(len(M)),
            SeparableNMF(len(M), outliers="auto"),
            MinVolumeNMF(len(M), outliers="auto"),
        ):
            row = [f"clean {pairs(model.fit(X).components_, M)[0].mean():.2f}"]
            for share in (0.001, 0.02):
                means = []
                for seed in range(3):
                    rng = np.random.default_rng(seed)
                    count = int(np.ceil(share * len(X)))
                    spoiled = X.copy()
                    spoiled[rng.permutation(len(X))[:count]] = (
                        rng.random((count, X.shape[1])) * X.max()
                    )
                    means.append(pairs(model.fit(spoiled).components_, M)[0].mean())
                row.append(f"{share:.1%} bad {', '.join(f'{mean:.2f}' for mean in means)}")
            print(f"{name:10} {type(model).__name__:13} {'; '.join(row)} degrees")


def sparse_set(name):
    z = np.load(DATA / f"{name}.npz", allow_pickle=False)
    return (
        sp.csc_array(
            (z["data"].astype(np.float64), z["indices"], z["indptr"]), shape=tuple(z["shape"])
        ).T.tocsr(),
        z,
    )


def cells():
    """Raw counts, with defaults."""
    X, z = sparse_set("RNAMIX_CELSEQ2")
    for model in (
        Unmixing(3),
        MinVolumeNMF(3),
        SeparableNMF(3),
        MinVolumeNMF(3, feature_noise="equal"),
        SeparableNMF(3, feature_noise="equal"),
    ):
        start = time.process_time()
        shares = model.fit(X).shares_
        seconds = time.process_time() - start
        C = np.corrcoef(shares.T, z["A"])[:3, 3:]
        rows, columns = linear_sum_assignment(-C)
        said = (
            f"correlation with the true shares {np.round(C[rows, columns], 3)}, {seconds:.1f} s of"
            " processor time"
        )
        print(f"{type(model).__name__:13} feature_noise={model.feature_noise}: {said}")


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
        row, seconds = [], {}
        models = {
            "MinVolumeNMF": MinVolumeNMF(15, loss="kullback-leibler"),
            "KL-NMF from NNDSVD": MultiplicativeNMF(15, loss="kullback-leibler", init="nndsvd"),
            "KL-NMF from NNDSVDa": MultiplicativeNMF(15, loss="kullback-leibler", init="nndsvda"),
        }
        for name, model in models.items():
            clone(model).set_params(max_iter=1).fit(X)  # compiles
            start = time.process_time()
            model.fit(X)
            seconds[name] = time.process_time() - start
            angles = pairs(model.components_, H)[0]
            row.append(
                f"{name} {int((np.cos(np.radians(angles)) > 0.9).sum())} of 15 in"
                f" {seconds[name]:.2f} s of processor time"
            )
        if MvNMF is not None:
            theirs, said = _salamander(MvNMF, X, H)
            row.append(
                f"{said}: {theirs / seconds['MinVolumeNMF']:.0f} times as long as MinVolumeNMF"
            )
        print(f"seed {seed}: {'; '.join(row)}", flush=True)


def _salamander(MvNMF, X, H):
    """Its defaults, and the fewest iterations that these allow; without the time to compile."""
    import anndata

    MvNMF(n_signatures=2, min_iterations=2, max_iterations=2).fit(anndata.AnnData(X[:20]))
    said = []
    for model in (MvNMF(n_signatures=15, max_iterations=500), MvNMF(n_signatures=15)):
        start = time.process_time()
        model.fit(anndata.AnnData(X))
        seconds = time.process_time() - start
        found = int((np.cos(np.radians(pairs(np.asarray(model.asignatures.X), H)[0])) > 0.9).sum())
        said.append(
            f"salamander MvNMF {found} of 15 in {seconds:.1f} s, at most {model.max_iterations}"
            " iterations"
        )
    return seconds, "; ".join(said)


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
            ratios.append(
                np.linalg.norm(Q[greedy_rays(Q, r)][:, None] - T, axis=2).min(axis=1).max() / limit
            )
    print(
        f"largest error over the bound: {max(ratios):.3f}; median {np.median(ratios):.4f}; holds in"
        f" {np.mean(np.array(ratios) <= 1):.1%}"
    )


def npmi(topics, present, n_words=10):
    """Mean normalised pointwise mutual information of the pairs among the first words of each
    topic, over documents."""
    n = present.shape[0]
    scores = []
    for topic in topics:
        words = np.argsort(-topic)[:n_words]
        P = np.asarray((present[:, words].T @ present[:, words]).todense()) / n
        for a in range(n_words):
            for b in range(a):
                both = P[a, b]
                scores.append(
                    -1.0
                    if both == 0
                    else np.log(both / (P[a, a] * P[b, b])) / -np.log(both)
                    if both < 1
                    else 1.0
                )
    return float(np.mean(scores))


def overlap(first, second, n_words=10):
    """Mean share of first words that matched topics have in common."""
    tops = [
        [set(np.argsort(-topic)[:n_words].tolist()) for topic in topics]
        for topics in (first, second)
    ]
    common = np.array([[len(a & b) / n_words for b in tops[1]] for a in tops[0]])
    rows, columns = linear_sum_assignment(-common)
    return float(common[rows, columns].mean())


def topics(names, n_topics=20, n_words=2000):
    for name in names or ("REUTERS", "WEBKB4"):
        X, _ = sparse_set(name)
        frequency = np.bincount(X.indices, minlength=X.shape[1])
        kept = np.argsort(-np.where(frequency > 0.2 * X.shape[0], 0, frequency), kind="stable")[
            :n_words
        ]
        X = sp.csr_array(X[:, kept])
        present = sp.csr_array((np.ones(X.nnz), X.indices, X.indptr), shape=X.shape)
        halves = [
            np.random.default_rng(seed).permutation(X.shape[0])[: X.shape[0] // 2]
            for seed in range(2)
        ]

        def anchors(X):
            length = np.maximum(np.asarray(X.sum(axis=1)).ravel(), 2)
            scaled = sp.diags_array(1 / np.sqrt(length * (length - 1))) @ X
            Q = (scaled.T @ scaled).toarray() - np.diag(
                np.asarray((sp.diags_array(1 / (length * (length - 1))) @ X).sum(axis=0)).ravel()
            )
            model = SeparableNMF(n_topics, points="features", method="spa", scaling="sum")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return model.fit(np.maximum(Q, 0)).components_

        methods = {
            "SeparableNMF, anchor words": lambda X, _: anchors(X),
            "scikit-learn NMF": lambda X, _: (
                NMF(n_topics, init="nndsvda", max_iter=300).fit(X).components_
            ),
            "scikit-learn NMF, random": lambda X, seed: (
                NMF(n_topics, init="random", random_state=seed, max_iter=300).fit(X).components_
            ),
            "scikit-learn LDA": lambda X, seed: (
                LatentDirichletAllocation(n_topics, random_state=seed, max_iter=10)
                .fit(X)
                .components_
            ),
        }
        print(f"\n{name}: {X.shape[0]} documents, {X.shape[1]} words, {n_topics} topics")
        for method, fit in methods.items():
            start = time.process_time()
            whole = fit(X, 0)
            seconds = time.process_time() - start
            again = overlap(whole, fit(X, 1))
            parts = overlap(fit(sp.csr_array(X[halves[0]]), 0), fit(sp.csr_array(X[halves[1]]), 0))
            coherence = npmi(whole, present)
            said = (
                f"words in common: other seed {again:.2f}, other half {parts:.2f}; {seconds:.1f} s"
                " of processor time"
            )
            print(f"  {method:28} NPMI {coherence:.3f}; {said}", flush=True)


def ranks(count):
    """The number of components of the sets, with the seconds of processor time; then on
    ``count`` scenes of each family."""
    tables = {name: (load(name)[0], len(load(name)[1])) for name in SETS}
    tables["RNAMIX_CELSEQ2"] = (sparse_set("RNAMIX_CELSEQ2")[0], 3)
    for name, (X, r) in tables.items():
        start = time.process_time()
        chosen = count_of(X)
        seconds = time.process_time() - start
        print(
            f"{name}: {r} components, chosen {chosen.r}: {chosen.reason}; {seconds:.1f} s of"
            " processor time",
            flush=True,
        )
    off = (
        {
            name: np.array([ranks_off(make(seed)) for seed in range(count)])
            for name, make in FAMILIES.items()
        }
        if count
        else {}
    )
    if off:
        off["all"] = np.concatenate(list(off.values()))
    for name, values in off.items():
        print(
            f"{name}: {np.mean(values == 0):.0%} right, {np.mean(np.abs(values) <= 1):.0%} off by"
            f" at most one; off by {values}"
        )


def ranks_off(made, most=1000):
    """How far the choice is from the number of components, on at most so many samples."""
    X, H, _ = made
    X = X[X.any(axis=1)][:, X.any(axis=0)]
    kept = (
        np.sort(np.random.default_rng(0).permutation(len(X))[:most])
        if len(X) > most
        else slice(None)
    )
    return int(count_of(X[kept]).r - len(H))


VALUES = (0.1, 0.3, 1.0, 3.0, 10.0)
CHOSEN = {
    "SPA, raw": lambda X, r: spa(X, r, "raw"),
    "SPA, unit sum": lambda X, r: spa(X, r, "sum"),
    "SPA, unit length": lambda X, r: spa(X, r, "length"),
    "SNPA": lambda X, r: snpa(X, r),
    "VCA": lambda X, r: vca(X, r, rng=0),
    "epsilon-cone, unit": lambda X, r: Cone.approximate(X, 1e-6, max_rays=r).ray_indices,
    "epsilon-cone, mass": lambda X, r: (
        Cone.approximate(X, 1e-6, max_rays=r, weighting="mass").ray_indices
    ),
}
FAMILIES = {"planted": lambda seed: scene(seed)[1:], **MEASURED}


def family(count):
    """Angles on families of scenes: of each method, and of MinVolumeNMF by ``volume``; ``count``
    scenes of each, planted ones twice.

    A family whose spectra are not installed is left out. Planted angles are between components
    whose features are divided by the root of their mean, so that genes with large counts do not
    decide alone.
    """
    table = {}
    for name, make in FAMILIES.items():
        try:
            table[name] = [
                angles_of(make(seed), name == "planted")
                for seed in range(count * (1 + (name == "planted")))
            ]
        except (ImportError, FileNotFoundError, AttributeError) as missing:
            print(f"without {name}: {missing}")
            continue
        print(
            f"{name}: "
            + ", ".join(
                f"{what} {geometric([row[what] for row in table[name]]):.2f}"
                for what in table[name][0]
            ),
            flush=True,
        )
    means = {
        what: geometric([geometric([row[what] for row in rows]) for rows in table.values()])
        for what in next(iter(table.values()))[0]
    }
    print(
        "mean of the families: " + ", ".join(f"{what} {value:.2f}" for what, value in means.items())
    )
    scenes = [row for rows in table.values() for row in rows]
    for what in [*CHOSEN, "scikit-learn NMF"]:
        print(
            f"MinVolumeNMF is better than {what} on"
            f" {np.mean([row['volume 1'] < row[what] for row in scenes]):.0%} of {len(scenes)}"
            " scenes"
        )
    behind = [row["volume 1"] - min(row[what] for what in CHOSEN) for row in scenes]
    print(
        f"behind the best of the {len(CHOSEN)} selections by more than one degree on"
        f" {np.mean(np.array(behind) > 1):.0%}"
    )
    for name in table:
        others = {
            v: geometric(
                [
                    geometric([row[f"volume {v:g}"] for row in rows])
                    for other, rows in table.items()
                    if other != name
                ]
            )
            for v in VALUES
        }
        print(f"volume chosen without {name}: {min(others, key=others.get):g}")


def angles_of(made, scaled):
    X, H, _ = made
    r, unit = len(H), np.sqrt(X.mean(axis=0)) if scaled else 1.0

    def mean_angle(F):
        return float(pairs(F / unit, H / unit)[0].mean())

    row = {}
    for name, select in CHOSEN.items():
        indices = select(X, r)
        row[name] = mean_angle(X[indices]) if len(indices) == r else 90.0
    row["scikit-learn NMF"] = mean_angle(
        NMF(r, init="nndsvda", max_iter=300).fit(X).components_ + 1e-12
    )
    row["SeparableNMF"] = mean_angle(SeparableNMF(r).fit(X).components_)
    return row | {
        f"volume {v:g}": mean_angle(MinVolumeNMF(r, volume=v).fit(X).components_) for v in VALUES
    }


def geometric(values):
    """Geometric mean; what is below 0.1 degrees counts as that."""
    return float(np.exp(np.mean(np.log(np.maximum(values, 0.1)))))


if __name__ == "__main__":
    warnings.simplefilter("ignore", ConvergenceWarning)
    print(machine())
    work = {
        "sets": sets,
        "bad": bad,
        "cells": cells,
        "signatures": signatures,
        "bound": bound,
        "topics": lambda: topics(sys.argv[2:]),
    }
    what = sys.argv[1] if len(sys.argv) > 1 else "sets"
    if what in ("family", "ranks"):
        {"family": family, "ranks": ranks}[what](int(sys.argv[2]) if len(sys.argv) > 2 else 20)
    else:
        work[what]()
