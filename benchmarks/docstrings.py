"""Topics of texts that are known: the documentation of public functions and classes of Python
packages, by package, with `texts.topics` and with scikit-learn's NMF.

``python benchmarks/docstrings.py`` takes 200 texts of each of ten packages that is installed.
Packages are used only for scoring.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import time
import warnings
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.decomposition import NMF

from conecollapse import texts
from conecollapse.datasets.texts import weigh_words
from conecollapse.metrics import purity_score

PACKAGES = (
    "numpy",
    "scipy",
    "sklearn",
    "pandas",
    "matplotlib",
    "networkx",
    "sympy",
    "plotly",
    "dask",
    "numba",
)
PER_PACKAGE = 200
SHORTEST = 300  # characters: shorter texts say little
MOST_MODULES = 400  # of a package that are looked through


def modules_of(package: str) -> list[str]:
    """The names of the public modules of a package, in their order."""
    root = importlib.import_module(package)
    names = [package]
    for module in pkgutil.walk_packages(root.__path__, f"{package}.", onerror=lambda _: None):
        is_private = any(part.startswith("_") for part in module.name.split("."))
        if not is_private and "test" not in module.name:
            names.append(module.name)
        if len(names) >= MOST_MODULES:
            break
    return names


def texts_of(package: str) -> list[str]:
    """Up to `PER_PACKAGE` different texts of a package, spread over its modules."""
    found: dict[str, None] = {}
    for name in modules_of(package):
        try:
            module = importlib.import_module(name)
        except BaseException:  # optional parts of packages are not installed
            continue
        for key, value in sorted(vars(module).items()):
            if key.startswith("_") or not (inspect.isfunction(value) or inspect.isclass(value)):
                continue
            if not str(getattr(value, "__module__", "")).startswith(package):
                continue
            text = inspect.getdoc(value) or ""
            if len(text) >= SHORTEST:
                found.setdefault(text)
    texts = list(found)
    step = max(len(texts) // PER_PACKAGE, 1)
    return texts[::step][:PER_PACKAGE]


def npmi(counts: Any, topics: list[list[int]]) -> float:
    """The mean normalised pointwise mutual information of two words of a topic, in documents."""
    holds = sp.csc_array((counts > 0).astype(float))
    values = []
    for words in topics:
        part = holds[:, words]
        both = (part.T @ part).toarray() / holds.shape[0]
        for i, j in combinations(range(len(words)), 2):
            p = both[i, j]
            gain = np.log(p / both[i, i] / both[j, j]) if p else 0.0
            values.append(-1.0 if p == 0 else 1.0 if p == 1 else gain / -np.log(p))
    return float(np.mean(values))


def main() -> None:
    warnings.simplefilter("ignore")
    documents, packages = [], []
    for package in PACKAGES:
        try:
            found = texts_of(package)
        except ImportError:
            print(f"{package} is not installed")
            continue
        documents += found
        packages += [package] * len(found)
    r = len(set(packages))
    start = time.process_time()
    ours = texts.topics(documents, r)
    seconds = time.process_time() - start
    X = weigh_words(ours.table, ours.idf)
    rival = NMF(r, init="nndsvd", random_state=0, max_iter=400)
    labels = rival.fit_transform(X).argmax(axis=1)
    place = {word: j for j, word in enumerate(ours.vocabulary.tolist())}
    of_ours = [[place[word] for word in words] for words in ours.words]
    of_rival = np.argsort(-rival.components_, axis=1)[:, :10].tolist()
    print(f"{len(documents)} texts of {r} packages, {len(place)} words, {seconds:.1f} s")
    print("| | purity by package | NPMI of ten words |")
    print("| --- | --- | --- |")
    for name, found, words in (
        ("texts.topics", ours.labels, of_ours),
        ("NMF of scikit-learn", labels, of_rival),
    ):
        print(f"| {name} | {purity_score(packages, found):.3f} | {npmi(ours.table, words):.3f} |")


if __name__ == "__main__":
    main()
