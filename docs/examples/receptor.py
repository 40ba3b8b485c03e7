"""
Receptor modelling: sources of air pollution
============================================

Filters of air hold particles of several sources: traffic, soil, sea salt, burning of wood. The
concentration of each chemical species on each filter is measured with an uncertainty. We look for
the profiles of the sources and for how much each contributed on each day. The table is made by us,
so that the truth is known; it looks like tables of real air samples.
"""

# %%
# Concentrations and uncertainties
# --------------------------------
# Species differ in size by a factor of a thousand, and small concentrations are measured less
# exactly: the uncertainty is a share of the value plus a detection limit.

import numpy as np
import plotly.graph_objects as go

from conecollapse import HierarchicalNMF
from conecollapse.factorization.resampling.matching import matched

species = [
    "OC",
    "EC",
    "sulfate",
    "nitrate",
    "Na",
    "Cl",
    "Mg",
    "Si",
    "Al",
    "Ca",
    "Fe",
    "K",
    "Zn",
    "Pb",
]
profiles = np.array(
    [
        [300, 250, 20, 10, 0, 1, 0, 5, 2, 8, 12, 1, 6, 3],  # traffic
        [20, 1, 5, 0, 4, 1, 15, 260, 85, 60, 50, 20, 0.5, 0.2],  # soil
        [0, 0, 40, 20, 300, 500, 35, 0, 0, 11, 0, 11, 0, 0],  # sea salt
        [500, 60, 10, 15, 2, 20, 1, 3, 1, 5, 1, 55, 1.5, 0.5],  # wood
    ]
)
names = ["traffic", "soil", "sea salt", "wood"]
rng = np.random.default_rng(1)
days = np.arange(250)
season = 1 + np.cos(2 * np.pi * days / 365)
amounts = np.column_stack(
    [
        rng.lognormal(0, 0.5, 250),
        rng.lognormal(-0.5, 1, 250),
        rng.lognormal(-1, 1, 250),
        season * rng.gamma(2, 0.5, 250),
    ]
)
clean = amounts @ profiles
sigma = 0.1 * clean + 0.02 * clean.mean(axis=0)
X = np.maximum(clean + sigma * rng.standard_normal(clean.shape), 0)
print(
    f"{X.shape[0]} days, {X.shape[1]} species; mean concentrations from {X.mean(axis=0).min():.2f}"
    f" to {X.mean(axis=0).max():.0f}"
)

# %%
# Fit with weights
# ----------------
# Each squared residual counts ``1 / sigma**2``. The weighted error is the Q of *positive matrix
# factorization*. If the model is right, Q is near the number of entries less the number of free
# parameters. Weighted problems have several optima, so we use ten starts.

model = HierarchicalNMF(4, init="random", n_init=10, random_state=0).fit(X, weights=1 / sigma**2)
Q = model.reconstruction_err_**2
expected = X.size - model.components_.size - model.embedding_.size
print(f"Q = {Q:.0f}, expected about {expected}")
assert 0.8 * expected < Q < 1.3 * expected

# %%
# Without weights the large species decide everything, and the profiles are worse. We compare
# profiles by cosines, each species in units of its mean.

plain = HierarchicalNMF(4, init="random", n_init=10, random_state=0).fit(X)
scale = clean.mean(axis=0)
cosines = {
    what: matched(found.components_ / scale, profiles / scale)[1]
    for what, found in (("weighted", model), ("plain", plain))
}
for what, values in cosines.items():
    print(what, ", ".join(f"{name} {value:.3f}" for name, value in zip(names, values, strict=True)))
assert cosines["weighted"].min() > 0.9
assert cosines["weighted"].mean() > cosines["plain"].mean()

# %%
# The profiles
# ------------
# Each bar is the share of a species that comes from a source, for the sources found.

order = matched(model.components_ / scale, profiles / scale)[0]
contribution = model.embedding_.mean(axis=0)[:, None] * model.components_
shares = contribution[order] / contribution.sum(axis=0)
figure = go.Figure()
for name, share, shade in zip(
    names, shares, ("#7f7f7f", "#d55e00", "#0072b2", "#009e73"), strict=True
):
    figure.add_trace(go.Bar(x=species, y=share, name=name, marker={"color": shade}))
figure.update_layout(barmode="stack", yaxis_title="share of the species", height=380)
figure.update_layout(paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)")
figure.show()

# %%
# One filter with a wrong number
# ------------------------------
# A decimal point two places off moves a profile. With ``robust=4.0`` a residual beyond four sigma
# counts less.

spoiled = X.copy()
spoiled[17, species.index("Pb")] *= 100
weights = 1 / sigma**2
found = {
    what: (
        HierarchicalNMF(4, robust=robust, init="random", n_init=5, random_state=0).fit(
            spoiled, weights=weights
        )
    )
    for what, robust in (("squares", None), ("robust", 4.0))
}
worst = {
    what: float(matched(one.components_ / scale, profiles / scale)[1].min())
    for what, one in found.items()
}
print({what: round(value, 3) for what, value in worst.items()})
assert worst["robust"] > 0.9 > worst["squares"]
