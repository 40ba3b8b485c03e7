"""
Missing values: digits with gaps
================================

The data are handwritten digits of 8 x 8 pixels. We hide 30 % of the pixels, fit a factorization to
the others, and compare what it fills in with the truth.
"""

# %%
# A table with gaps
# -----------------
# NaN is a missing entry. It counts in no objective, error or score.

import numpy as np
import plotly.graph_objects as go

from conecollapse import HierarchicalNMF, plots
from conecollapse.datasets import load

rng = np.random.default_rng(0)
truth = load("digits").X[:400]
truth = truth[:, truth.any(axis=0)]
hidden = rng.random(truth.shape) < 0.3
hidden[:, (truth * ~hidden).max(axis=0) == 0] = False  # pixels that are bright in few digits
X = np.where(hidden, np.nan, truth)
print(f"{hidden.mean():.0%} of {truth.shape[0]} x {truth.shape[1]} entries are missing")

# %%
# Fit and impute
# --------------
# `shrinkage_` was chosen by entries that the model had not seen. With ``shrinkage=0`` the model
# fits the known pixels and nothing else. Then a component whose pixels are missing in a digit can
# have any coefficient there, and the guesses are far off.

model = HierarchicalNMF(16, random_state=0).fit(X)
bare = HierarchicalNMF(16, shrinkage=0, max_iter=100, tol=1e-4, random_state=0).fit(X)
print(f"shrinkage: {model.shrinkage_:g}")


def error(guess):
    """Root mean squared error on the hidden entries."""
    return float(np.sqrt(np.square(guess - truth)[hidden].mean()))


filled = model.impute(X)
errors = {
    "mean of the pixel": error(np.broadcast_to(np.nanmean(X, axis=0), X.shape)),
    "model without shrinkage": error(bare.inverse_transform(bare.transform(X))),
    "model": error(model.inverse_transform(model.transform(X))),
    "impute": error(filled),
}
for name, value in errors.items():
    print(f"{name:25s} {value:.2f}")
assert errors["impute"] < errors["model"] < errors["mean of the pixel"]
assert errors["model"] < errors["model without shrinkage"]

# %%
# `impute` is better than the model, because it also asks the digits that look alike. It takes the
# weighted mean of five guesses that predicts held-out pixels best.

shown = [name for name in errors if name != "model without shrinkage"]
figure = go.Figure(go.Bar(x=shown, y=[errors[name] for name in shown], marker={"color": "#0072b2"}))
figure.update_layout(yaxis_title="error on hidden pixels", height=320)
figure.update_layout(paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)")
figure.show()

# %%
# The first row shows digits with their gaps black, the second the imputed ones, the third the
# truth.

full = load("digits").X[:400].any(axis=0)


def pictures(rows):
    """Rows with the pixels that were left out."""
    out = np.zeros((len(rows), 64))
    out[:, full] = rows
    return out


rows = np.arange(6)
images = np.vstack(
    [pictures(np.where(hidden, 0, truth)[rows]), pictures(filled[rows]), pictures(truth[rows])]
)
plots.images(
    images, (8, 8), titles=["gaps"] * 6 + ["imputed"] * 6 + ["truth"] * 6, columns=6
).show()

# %%
# New samples
# -----------
# `transform` and `impute` take new samples with gaps, too.

new = load("digits").X[400:410][:, full]
gaps = np.where(rng.random(new.shape) < 0.3, np.nan, new)
codes = model.transform(gaps)
print(codes.shape, f"share of the squares explained: {model.score(gaps):.2f}")
assert not np.isnan(model.impute(gaps)).any()
