"""
Outliers: digits that are none
==============================

Handwritten digits, 8 x 8 pixels each. We learn what digits look like from a thousand of them, then mix odd pictures into new ones and ask
which pictures are not made like digits. The answer comes with a reason: the pixels that gave it away.
"""

# %%
# Trusted samples, new samples, odd ones
# --------------------------------------
# Ten pictures of each of five kinds are planted: light and dark exchanged, pixels shuffled, noise on top, upside down, and the left half of
# one digit beside the right half of another.

import warnings

import numpy as np
import plotly.graph_objects as go

from conecollapse import ConeCollapse, EmptyDataWarning, plots
from conecollapse.datasets import load
from conecollapse.plots.curves import outlier_fence

warnings.simplefilter("ignore", EmptyDataWarning)  # some corners are never lit in a digit, which is no news here
rng = np.random.default_rng(0)
digits = load("digits")
X = digits.X[rng.permutation(len(digits.X))]
trusted, spare, new = X[:1000], X[1000:1060], X[1060:]
planted = {
    "exchanged": 16 - spare[:10],
    "shuffled": rng.permuted(spare[10:20], axis=1),
    "noisy": np.clip(spare[20:30] + rng.uniform(0, 10, (10, 64)), 0, 16),
    "upside down": spare[30:40].reshape(10, 8, 8)[:, ::-1].reshape(10, 64),
    "two halves": np.where(np.arange(64) % 8 < 4, spare[40:50], spare[50:60]),
}
plots.images(np.vstack([odd[:1] for odd in planted.values()]), (8, 8), titles=list(planted), columns=5).show()

# %%
# The cone of the trusted samples
# -------------------------------
# All mixtures of trusted digits, with weights that are not negative, form a cone. A picture is judged by its distance from it, as a share
# of its own length: 0 means that it is a mixture, 1 that it has nothing in common with any.
#
# In 64 dimensions every one of the thousand digits is a ray of their exact cone, and a blot in a single one widens it. So we take an
# *epsilon-cone*: as few digits as it takes to leave no trusted digit further off than 0.25. The curve shows how the largest distance falls
# as rays are added.

exact = ConeCollapse(points="samples").fit(trusted)
judge = ConeCollapse("approximate", max_residual=0.25, points="samples").fit(trusted)
print(exact.cone_, judge.cone_, sep="\n")
assert exact.cone_.n_rays == len(trusted)
assert judge.cone_.n_rays < 0.3 * len(trusted)
judge.cone_.verify(trusted)
plots.epsilon_path(judge.cone_).show()

# %%
# How far is too far?
# -------------------
# New digits lie outside as well, a little: nobody writes a four twice in the same way. So the threshold comes from new digits that are
# known to be in order, by Tukey's rule. The judge has never seen them.

ordinary = -judge.score_samples(new)
fence = outlier_fence(ordinary)
distance = {name: -judge.score_samples(odd) for name, odd in planted.items()}
caught = {name: int((values > fence).sum()) for name, values in distance.items()}
print(f"fence {fence:.3f}; beyond it {np.mean(ordinary > fence):.1%} of the {len(new)} digits in order")
for name, count in caught.items():
    print(f"{name}: {count} of 10 beyond it, median distance {np.median(distance[name]):.2f}")
assert np.mean(ordinary > fence) < 0.05
assert caught["exchanged"] == caught["shuffled"] == 10

# %%
# What breaks the pattern of strokes is found without fail. Of the noisy and of the upside-down pictures more than half are; an upside-down
# 0, 1 or 8 is a fair digit after all. A picture of two halves is a mixture in each of its halves, and the cone has little against it. It
# judges *what a picture is made of*, not what it means.

assert caught["noisy"] > 5
assert caught["upside down"] > 5
assert caught["two halves"] < 5

figure = go.Figure()
figure.add_trace(go.Histogram(x=ordinary, xbins={"size": 0.02}, name="digits in order", marker={"color": "#7f7f7f"}))
for (name, values), shade in zip(distance.items(), ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00"), strict=True):
    figure.add_trace(go.Histogram(x=values, xbins={"size": 0.02}, name=name, marker={"color": shade}))
figure.add_vline(x=fence, line={"dash": "dash"})
figure.update_layout(barmode="stack", xaxis_title="distance from the cone", yaxis={"type": "log", "title": "pictures"}, height=380)
figure.update_layout(paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)")
figure.show()

# %%
# How much depends on 0.25?
# -------------------------
# That number was chosen after trying several, with the planted pictures in view, so the counts above flatter. What is far out is caught
# with any of them. What is near is not: with fewer rays the judge is coarser, and noise in particular goes unnoticed.

for residual in (0.2, 0.3, 0.4):
    other = ConeCollapse("approximate", max_residual=residual, points="samples").fit(trusted)
    limit = outlier_fence(-other.score_samples(new))
    counts = ", ".join(f"{name} {int((-other.score_samples(odd) > limit).sum())}" for name, odd in planted.items())
    print(f"{residual}: {other.cone_.n_rays} rays; {counts}")
    assert "exchanged 10, shuffled 10" in counts

# %%
# Why?
# ----
# The *witness* of a picture is what is left of it beyond the cone. Its bright pixels are the reason: ink where, given the rest, no trusted
# digit has ink. Above the pictures, below their witnesses.

worst = np.vstack([planted[name][distance[name].argmax()] for name in planted])
witness = judge.witness_samples(worst)
titles = [*planted, *("why",) * len(planted)]
plots.images(np.vstack([worst, np.clip(witness, 0, None)]), (8, 8), titles=titles, columns=5).show()

# %%
# A witness proves something: it has a positive product with its picture and none with any picture inside the cone. So it separates the two.

inside = judge.cone_.rays
assert ((witness * worst).sum(axis=1) > 0).all()
assert (witness @ inside.T).max() < 1e-8

# sphinx_gallery_thumbnail_number = 4
