"""Texts: a .csv file with a column of texts, to topics with their words, shares and typical
documents.

The command does the same, with a report:
``conecollapse cluster reviews.csv -k 3 --text-column body``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from conecollapse import CCNMF, MultiplicativeNMF
from conecollapse.io import read_table

WORDS = {
    "food": "soup bread waiter menu dinner spicy delicious dessert table chef",
    "travel": "train airport ticket luggage delay station flight platform seat journey",
    "books": "novel chapter author plot character reader prose ending library story",
}


def data(path: Path) -> None:
    """Reviews of three kinds; one of them has no words at all."""
    rng = np.random.default_rng(0)
    kinds = rng.choice(list(WORDS), 150)
    body = [f"The {' '.join(rng.choice(WORDS[kind].split(), 6))}, really." for kind in kinds]
    pd.DataFrame({"id": [f"review{i}" for i in range(151)], "body": [*body, "10/10"]}).to_csv(
        path, index=False
    )


def main(folder: Path) -> np.ndarray:
    data(folder / "reviews.csv")

    # in a pipeline: the words come from the vectorizer
    texts = pd.read_csv(folder / "reviews.csv")["body"][:150]
    pipe = make_pipeline(TfidfVectorizer(stop_words="english"), CCNMF(3, random_state=0)).fit(texts)
    for k, words in enumerate(pipe[-1].top_features(4, names=pipe[:-1].get_feature_names_out())):
        print(f"topic {k}: {', '.join(word.name for word in words)}")

    # from the file: counts with their words, for the divergence; a text without words has no topic
    table = read_table(folder / "reviews.csv", text_column="body")
    filled = np.asarray(table.X.sum(axis=1)).ravel() > 0
    print(f"{int((~filled).sum())} of {table.n_samples} texts have no known words")
    model = MultiplicativeNMF(3, loss="kullback-leibler", random_state=0).fit(
        table.X[filled], feature_names=table.feature_names
    )
    parts = model.transform(table.X[filled]) * model.components_.sum(axis=1)
    shares = parts / parts.sum(axis=1, keepdims=True)
    print("the most mixed text:", table.samples[filled][shares.max(axis=1).argmin()])
    return shares


if __name__ == "__main__":
    main(Path())
