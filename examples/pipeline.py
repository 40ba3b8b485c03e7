"""Machine learning: a table with gaps and a few labels, in a pipeline with grid search that is
saved and loaded again.

It also runs in a read-only container. Kernels that cannot be kept there are compiled again in each
process, with one warning; to avoid this, run ``conecollapse warm`` while the image is built.
"""

from __future__ import annotations

from pathlib import Path

import joblib
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

from conecollapse import GraphCCNMF, HierarchicalNMF


def data() -> tuple[np.ndarray, np.ndarray]:
    """240 samples of three classes; 5 % of the values are missing, and only every fourth label is
    known (-1: unknown)."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=240)
    X = rng.gamma(2.0, 0.5, (240, 30)) + 3.0 * (np.arange(30) // 10 == y[:, None])
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, np.where(np.arange(240) % 4 == 0, y, -1)


def main(folder: Path) -> GridSearchCV:
    X, y = data()
    known = y >= 0
    pipe = Pipeline(
        [
            # missing values are left out of the fit
            ("parts", HierarchicalNMF(random_state=0, n_jobs=1)),
            ("classes", LogisticRegression(max_iter=500)),
        ]
    )
    search = GridSearchCV(pipe, {"parts__n_components": [2, 3, 5]}, cv=3, n_jobs=1).fit(
        X[known], y[known]
    )
    print(f"best: {search.best_params_}, accuracy {search.best_score_:.3f}")
    joblib.dump(search, folder / "search.joblib")
    # only of files that you trust: a joblib file can run code
    loaded = joblib.load(folder / "search.joblib")
    assert (loaded.predict(X) == search.predict(X)).all()
    print(
        f"classes of the {int((~known).sum())} samples without a label:"
        f" {np.bincount(loaded.predict(X[~known]))}"
    )

    # the samples without a label help, too: fill the gaps, and let the labels spread over the
    # clusters of all samples
    filled = search.best_estimator_["parts"].impute(X)
    spread = GraphCCNMF(3, random_state=0).fit(filled, y)
    print(f"the same from the clusters of all samples: {np.bincount(spread.labels_[~known])}")
    return search


if __name__ == "__main__":
    main(Path())
