"""Missing entries: 30 % of the known ones are hidden, and what is put in their place is compared
with them.

python benchmarks/missing.py                 # digits, AMLALL, ORL, REUTERS
python benchmarks/missing.py digits AMLALL   # some of them

The error is the root of the mean squared error on the hidden entries over that of the mean of each
feature, so 1 is the mean. The rank is the same for all factorizations. "model" is transform times
components_, and "impute" combines it with other guesses. In REUTERS only stored entries are known
or hidden; the means of features in place of all others make a dense table, of which the 2000
longest texts are used. KNNImputer and IterativeImputer of scikit-learn run where they finish within
minutes. The seconds are those of processors.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
import scipy.sparse as sp
from common import load_points, machine
from sklearn.datasets import load_digits
from sklearn.decomposition import NMF
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer

from conecollapse import HierarchicalNMF

RANKS = {"digits": 12, "AMLALL": 5, "ORL": 25, "REUTERS": 10}
HIDDEN = 0.3
TEXTS = 2000


def table(name):
    if name == "digits":
        return load_digits().data
    X = load_points(name)
    if X is None or isinstance(X, np.ndarray):
        return None if X is None else X.T
    X = sp.csr_array(X.T)
    return X[np.sort(np.argsort(-np.diff(X.indptr), kind="stable")[:TEXTS])]


def report(name, method, guesses, truth, reference, start):
    error = np.sqrt(np.square(guesses - truth).mean() / np.square(reference - truth).mean())
    print(f"{name:8s} {method:18s} {error:7.4f} {time.process_time() - start:8.2f} s", flush=True)


def dense(name, X, rng):
    hidden = rng.random(X.shape) < HIDDEN
    hidden &= np.cumsum(~hidden, axis=0)[-1] > 1
    Y = np.where(hidden, np.nan, X)
    means = np.broadcast_to(np.nanmean(Y, axis=0), X.shape)
    r, truth = RANKS[name], X[hidden]
    start = time.process_time()
    model = HierarchicalNMF(r, random_state=0).fit(Y)
    report(
        name,
        "model",
        model.inverse_transform(model.transform(Y))[hidden],
        truth,
        means[hidden],
        start,
    )
    report(name, "impute", model.impute(Y)[hidden], truth, means[hidden], start)
    start = time.process_time()
    filled = np.where(hidden, means, X)
    W = (model := NMF(r, init="nndsvda", max_iter=400, random_state=0)).fit_transform(filled)
    report(name, "mean-fill NMF", (W @ model.components_)[hidden], truth, means[hidden], start)
    start = time.process_time()
    report(name, "KNNImputer", KNNImputer().fit_transform(Y)[hidden], truth, means[hidden], start)
    if X.shape[1] <= 100:
        start = time.process_time()
        imputer = IterativeImputer(max_iter=5, random_state=0, keep_empty_features=True)
        report(
            name, "IterativeImputer", imputer.fit_transform(Y)[hidden], truth, means[hidden], start
        )


def sparse(name, X, rng):
    coo = X.tocoo()
    hidden = rng.random(X.nnz) < HIDDEN
    rows, columns = coo.coords
    for places in (rows, columns):  # every sample and feature keeps an entry
        known = np.bincount(places[~hidden], minlength=max(X.shape)) > 0
        hidden &= known[places]
    filled = [
        np.flatnonzero(np.bincount(places[~hidden], minlength=size))
        for places, size in zip((rows, columns), X.shape, strict=True)
    ]
    Y = sp.csr_array((coo.data[~hidden], (rows[~hidden], columns[~hidden])), shape=X.shape)[
        filled[0]
    ][:, filled[1]]
    i, j = (
        np.searchsorted(kept, places[hidden])
        for kept, places in zip(filled, (rows, columns), strict=True)
    )
    truth = coo.data[hidden]
    counts = np.maximum(np.diff(sp.csc_array(Y).indptr), 1)
    means = (Y.sum(axis=0) / counts)[j]
    start = time.process_time()
    model = HierarchicalNMF(RANKS[name], missing="unstored", random_state=0).fit(Y)
    report(
        name,
        "model",
        np.einsum("ek,ek->e", model.embedding_[i], model.components_.T[j]),
        truth,
        means,
        start,
    )
    start = time.process_time()
    W = (other := NMF(RANKS[name], init="nndsvda", random_state=0)).fit_transform(Y)
    report(
        name,
        "zero-fill NMF",
        np.einsum("ek,ek->e", W[i], other.components_.T[j]),
        truth,
        means,
        start,
    )
    start = time.process_time()
    of_features = np.asarray(Y.sum(axis=0) / counts)
    filled_Y = np.where(Y.toarray() > 0, Y.toarray(), of_features)
    W = (other := NMF(RANKS[name], init="nndsvda", random_state=0)).fit_transform(filled_Y)
    report(
        name,
        "mean-fill NMF",
        np.einsum("ek,ek->e", W[i], other.components_.T[j]),
        truth,
        means,
        start,
    )


def main(names):
    print(machine())
    print("set      method             error / that of the mean")
    for name in names:
        X = table(name)
        if X is None:
            print(f"{name}: no file")
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            (sparse if sp.issparse(X) else dense)(name, X, np.random.default_rng(0))


if __name__ == "__main__":
    main(sys.argv[1:] or list(RANKS))
