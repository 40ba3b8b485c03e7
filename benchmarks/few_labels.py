"""A few labels: accuracy on the unlabelled samples of models that see 1, 3 or 5 labels of each
class.

python benchmarks/few_labels.py [SET ...] [--draws 5] [--labels 1 3 5] [--models graph] [--save
FILE]

SET is one of the paper's sets, or another: wine, iris, breast-cancer and digits of scikit-learn,
SC_POLLEN, WAP and RNAMIX_CELSEQ2 beside the paper's sets, blobs, counts and topics made here; all
by default. The constants of the model were chosen with all of them in view. Each draw takes the
labels at random (of a class with fewer samples all but one). True labels of the other samples are
used only for scoring.

Every model gets the samples as `GraphCCNMF` prepares them: TF-IDF for text; for dense tables its
view (roots of the entries, centred or not), which suits the others better than raw or standardised
values. "matched" is `GraphCCNMF` without labels, each cluster named by the class that it agrees
with: by the given labels, or ("by truth") by all true labels, which no user has. Where the labels
do not decide (two classes in one cluster) names are drawn: the mean over random orders of clusters
is taken, each with its reverse, so that of two clusters each comes first in half of them. "above
matched" is the mean difference of `GraphCCNMF` and "matched" over the draws, with its standard
error in "+-".

The view and its neighbours do not depend on labels. They are found once for each set, and all fits
take them.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from common import DATA, machine
from scipy.optimize import linear_sum_assignment
from sklearn import datasets as small
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import LabelSpreading

from conecollapse import CCNMF, GraphCCNMF
from conecollapse.affinity.neighbors import are_mostly_zeros, as_compared
from conecollapse.affinity.views import Samples, choose_view
from conecollapse.datasets import load, tfidf
from conecollapse.factorization.cones import graph_ccnmf as recipe
from conecollapse.tables import as_table

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
    "wine": small.load_wine,
    "iris": small.load_iris,
    "breast-cancer": small.load_breast_cancer,
    "digits": small.load_digits,
}
BESIDE = ("SC_POLLEN", "WAP", "RNAMIX_CELSEQ2")
ORDERS = 20  # of the clusters, for "matched"


def made(name: str):
    """Classes whose samples overlap: noisy profiles, counts, documents with common words."""
    rng = np.random.default_rng(7)
    if name == "blobs":
        profiles, y = rng.gamma(0.5, size=(8, 60)), rng.integers(8, size=800)
        return profiles[y] * rng.gamma(0.25, 4.0, size=(800, 60)), y
    if name == "counts":
        y = rng.choice(6, 700, p=[0.4, 0.25, 0.15, 0.1, 0.06, 0.04])
        return (
            rng.poisson(rng.gamma(0.3, size=(6, 200))[y] * rng.gamma(2.0, 0.25, (700, 1))).astype(
                float
            ),
            y,
        )
    words, common, y = (
        rng.dirichlet(np.full(3000, 0.02), 10),
        rng.dirichlet(np.full(3000, 0.1)),
        rng.integers(10, size=1500),
    )
    return (
        sp.csr_array(
            np.stack([rng.multinomial(50, 0.12 * words[k] + 0.88 * common) for k in y]).astype(
                float
            )
        ),
        y,
    )


MADE = ("blobs", "counts", "topics")
OTHERS = (*SMALL, *BESIDE, *MADE)


def data(name: str):
    """Samples that are not all zero, and classes 0, 1, ...; None where the file is missing."""
    if name in SMALL:
        X, y = SMALL[name](return_X_y=True)
    elif name in MADE:
        X, y = made(name)
        X = tfidf(X) if sp.issparse(X) else X
    elif name in BESIDE:
        if not (DATA / f"{name}.npz").is_file():
            return None
        with np.load(DATA / f"{name}.npz", allow_pickle=False) as z:
            X, y = (
                sp.csc_array(
                    (z["data"].astype(float), z["indices"], z["indptr"]), shape=tuple(z["shape"])
                ).T.tocsr(),
                z["y"],
            )
        X = (
            tfidf(X)
            if name == "WAP"
            else np.log1p(X.toarray() / X.sum(axis=1)[:, None] * float(np.median(X.sum(axis=1))))
        )
    else:
        try:
            found = load(name, download=False)
        except FileNotFoundError:
            return None
        X, y = found.X, found.y
    kept = np.asarray(X.sum(axis=1)).ravel() > 0
    return X[kept], np.unique(np.asarray(y)[kept], return_inverse=True)[1]


def drawn(y, count: int, seed: int):
    """A y with ``count`` random labels of each class, -1 elsewhere."""
    rng, found = np.random.default_rng(seed), np.full(len(y), -1)
    for k in range(y.max() + 1):
        own = rng.permutation(np.flatnonzero(y == k))
        found[own[: max(1, min(count, len(own) - 1))]] = k
    return found


def prepared(X, r: int):
    """The samples as the view that `GraphCCNMF` takes has them; wide tables are rotated, which
    keeps distances and saves time."""
    table = as_table(X)
    is_sparse = are_mostly_zeros(table.n_entries, table.shape)
    samples = Samples(as_compared(table, is_sparse).array, is_sparse)
    Y = choose_view(samples, r, np.random.default_rng(0)).samples
    if sp.issparse(Y) or Y.shape[1] <= Y.shape[0]:
        return Y
    centred = Y - Y.mean(axis=0)
    values, vectors = np.linalg.eigh(centred @ centred.T)
    kept = values > 1e-9 * values[-1]
    return vectors[:, kept] * np.sqrt(values[kept])


def shared_view():
    """A `choose_view` for fits of one set: the first call finds the view, the others get it, and
    leave the random numbers as it did."""
    found = []

    def choose(samples, r, rng, **options):
        if not found:
            found.append((choose_view(samples, r, rng, **options), rng.bit_generator.state))
        rng.bit_generator.state = found[0][1]
        return found[0][0]

    return choose


def matched_accuracy(clusters, y, by, rest) -> float:
    """The accuracy of `matched` on the samples ``rest``, mean over random orders of the
    clusters."""
    r = clusters.max() + 1
    orders = np.random.default_rng(0).permuted(np.tile(np.arange(r), (ORDERS // 2, 1)), axis=1)
    return float(
        np.mean(
            [
                (matched(order[clusters], y, by) == y)[rest].mean()
                for order in (*orders, *(r - 1 - orders))
            ]
        )
    )


def matched(clusters, y, by):
    """Clusters named by classes so that ``by`` (labels, -1 unknown) agrees with most samples."""
    table = np.zeros((clusters.max() + 1, y.max() + 1))
    np.add.at(table, (clusters[by >= 0], by[by >= 0]), 1)
    rows, columns = linear_sum_assignment(-table)
    names = np.full(len(table), -2)
    names[rows] = columns
    return names[clusters]


def measured(X, y, args) -> dict[str, list[float]]:
    """For each model its mean accuracy for each number of labels."""
    r = int(y.max()) + 1
    recipe.choose_view = shared_view()
    plain = GraphCCNMF(r, random_state=0).fit_predict(X)
    view = prepared(X, r) if "peers" in args.models else None
    found: dict[str, list[float]] = {}
    for count in args.labels:
        rows: dict[str, list[float]] = {}
        for seed in range(args.draws):
            known = drawn(y, count, seed)
            rest, given = known < 0, np.flatnonzero(known >= 0)
            said = (
                {"GraphCCNMF": GraphCCNMF(r, random_state=0).fit_predict(X, known)}
                if "graph" in args.models
                else {}
            )
            if "cone" in args.models:
                said["CCNMF"] = CCNMF(r, random_state=0).fit_predict(X, known)
            if "peers" in args.models:
                said["LabelSpreading"] = LabelSpreading(kernel="knn").fit(view, known).transduction_
                said["logistic regression"] = (
                    LogisticRegression(max_iter=300).fit(view[given], known[given]).predict(view)
                )
            right = {name: float((labels == y)[rest].mean()) for name, labels in said.items()}
            right["matched"] = matched_accuracy(plain, y, known, rest)
            right["matched by truth"] = matched_accuracy(plain, y, np.where(rest, y, -1), rest)
            for name, value in right.items():
                rows.setdefault(name, []).append(value)
        if "GraphCCNMF" in rows:
            rows["above matched"] = [
                ours - theirs
                for ours, theirs in zip(rows["GraphCCNMF"], rows["matched"], strict=True)
            ]
        for name, values in rows.items():
            found.setdefault(name, []).append(float(np.mean(values)))
        if "above matched" in rows:
            found.setdefault("+-", []).append(standard_error(rows["above matched"]))
    return found


def standard_error(values) -> float:
    """Of the mean."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sets", nargs="*", default=[*PAPER, *OTHERS])
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--labels", type=int, nargs="+", default=[1, 3, 5])
    parser.add_argument(
        "--models", nargs="+", default=["graph", "peers"], choices=["graph", "cone", "peers"]
    )
    parser.add_argument(
        "--save", type=Path, help="keep the results here, and take those of earlier calls from it"
    )
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    os.environ.setdefault("CONECOLLAPSE_DATA", str(DATA))
    print(machine())
    kept = json.loads(args.save.read_text()) if args.save and args.save.is_file() else {}
    results = {}
    for name in args.sets:
        start = time.perf_counter()
        if name not in kept:
            loaded = data(name)
            if loaded is None:
                print(f"(no {name}: set CONECOLLAPSE_DATA)")
                continue
            kept[name] = measured(*loaded, args)
            if args.save:
                args.save.write_text(json.dumps(kept, indent=1))
        results[name] = kept[name]
        if len(results) == 1:
            models = list(results[name])
            print(f"\naccuracy with {', '.join(map(str, args.labels))} labels of each class\n")
            print(
                f"| set | {' | '.join(models)} | seconds |\n| --- |{' --- |' * (len(models) + 1)}"
            )
        print(
            f"| {name} | {' | '.join(cell(results[name][m]) for m in models)} |"
            f" {time.perf_counter() - start:.0f} |",
            flush=True,
        )
    for title, names in (("mean, the paper's sets", PAPER), ("mean, the other sets", OTHERS)):
        if rows := [results[name] for name in names if name in results]:
            means = [cell(np.mean([row[m] for row in rows], axis=0)) for m in models]
            print(f"| {title} ({len(rows)}) | {' | '.join(means)} | |")


def cell(values) -> str:
    return " ".join(f"{value:.3f}" for value in values)


if __name__ == "__main__":
    main()
