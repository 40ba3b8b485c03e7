"""
A few labels: naming thirty of 1,797 digits
===========================================

Someone has looked at three pictures of each digit and named them. The other 1,767 pictures are
named by the model: it uses the clusters of all pictures, and learns from the thirty labels how much
to trust them.
"""

# %%
# Thirty labels
# -------------
# The data are handwritten digits of 8 x 8 pixels. In ``y`` a picture without a label has -1. The
# true digits are used only to count errors.

import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import LabelSpreading

from conecollapse import EmptyDataWarning, GraphCCNMF, plots
from conecollapse.datasets import load

warnings.simplefilter("ignore", EmptyDataWarning)  # some pixels are black in every digit
rng = np.random.default_rng(0)
digits = load("digits")
X, truth = digits.X, np.asarray(digits.y)
y = np.full(len(X), -1)
for k in range(10):
    y[rng.choice(np.flatnonzero(truth == k), 3, replace=False)] = k
given = np.flatnonzero(y >= 0)
given = given[np.argsort(y[given], kind="stable")]
plots.images(X[given], (8, 8), titles=[str(k) for k in y[given]], columns=10).show()

# %%
# The other pictures
# ------------------
# Clusters that are found without labels, each named by the digit that most of its pictures show,
# are the first comparison. That uses all true digits, which nobody has. Label spreading and
# logistic regression get the same thirty labels.

model = GraphCCNMF(10, random_state=0).fit(X, y)
rest = y == -1
clusters = GraphCCNMF(10, random_state=0).fit_predict(X)
named = np.array([np.bincount(truth[clusters == k]).argmax() for k in range(10)])[clusters]
found = {
    "GraphCCNMF with 30 labels": model.labels_,
    "its clusters, named by the truth": named,
    "label spreading": LabelSpreading(kernel="knn").fit(X, y).transduction_,
    "logistic regression": LogisticRegression(max_iter=2000).fit(X[given], y[given]).predict(X),
}
right = {name: float((labels == truth)[rest].mean()) for name, labels in found.items()}
for name, share in right.items():
    print(f"{name}: {share:.3f} of the other pictures are right")
assert max(right, key=right.get) == "GraphCCNMF with 30 labels"
assert (model.labels_[~rest] == y[~rest]).all()

# %%
# Where the model is not sure
# ---------------------------
# ``label_distributions_`` has a row for each picture: how likely each digit is. The pictures with
# the smallest maximum are the ones to look at next. Among them are more errors than elsewhere.

sure = model.label_distributions_.max(axis=1)
doubtful = np.flatnonzero(rest)[np.argsort(sure[rest], kind="stable")[:100]]
wrong = model.labels_ != truth
print(
    f"errors among the 100 least sure: {wrong[doubtful].sum()}; among all {rest.sum()}:"
    f" {wrong[rest].sum()}"
)
assert wrong[doubtful].mean() > 2 * wrong[rest].mean()
titles = [
    f"{model.labels_[i]}? it is {truth[i]}" if wrong[i] else str(model.labels_[i])
    for i in doubtful[:20]
]
plots.images(X[doubtful[:20]], (8, 8), titles=titles, columns=10).show()
