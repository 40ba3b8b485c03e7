"""
Known components: what is in a sample, and what is not in the catalogue
=======================================================================

Spectra of mixtures are often made of substances whose own spectra are known, and of something
unknown. The data are made by us: three known spectra, one unknown, and mixtures of all four.
"""

# %%
# A catalogue and mixtures
# ------------------------

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from conecollapse import HierarchicalNMF

rng = np.random.default_rng(0)
wavelengths = np.linspace(400, 700, 61)


def peaks(*centres):
    """A spectrum with peaks at these wavelengths."""
    return sum(np.exp(-0.5 * ((wavelengths - centre) / 12) ** 2) for centre in centres)


known = pd.DataFrame(
    [peaks(430, 520), peaks(470), peaks(560, 610)],
    index=["A", "B", "C"],
    columns=[f"{w:.0f} nm" for w in wavelengths],
)
unknown = peaks(650, 500)
amounts = rng.gamma(1.0, 1.0, (80, 4))
amounts[:40, 3] = 0  # the unknown is in the second half only
X = np.maximum(amounts @ np.vstack([known, unknown]) + 0.02 * rng.standard_normal((80, 61)), 0)

# %%
# How much of each known component
# --------------------------------
# `from_components` makes a fitted model of the catalogue, without a fit. Names are kept.

model = HierarchicalNMF.from_components(known).set_output(transform="pandas")
encodings = model.transform(pd.DataFrame(X, columns=known.columns))
print(encodings.head(3).round(2))
assert np.abs(encodings.to_numpy()[:40] - amounts[:40, :3]).max() < 0.1

# %%
# Which samples need another component?
# -------------------------------------
# The score is minus the distance of a sample from all mixtures of the catalogue, as a share of its
# length. `explain` names the features.

table = pd.DataFrame(X, columns=known.columns)
distance = -model.score_samples(table)
print(
    f"without the unknown at most {distance[:40].max():.2f}, with it a median of"
    f" {np.median(distance[40:]):.2f}"
)
features = [
    reason.name
    for reason in model.explain(table.iloc[[40 + amounts[40:, 3].argmax()]], n_features=3)[0]
]
print("not explained:", ", ".join(features))
assert all(
    min(abs(float(name.split()[0]) - peak) for peak in (500, 650)) <= 15 for name in features
)

figure = go.Figure(
    go.Scatter(x=amounts[:, 3], y=distance, mode="markers", marker={"color": "#0072b2"})
)
figure.update_layout(
    xaxis_title="amount of the unknown",
    yaxis_title="distance from the catalogue's cone",
    height=340,
)
figure.update_layout(paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)")
figure.show()

# %%
# Find what is missing
# --------------------
# ``fixed_components`` holds the known spectra, to the last bit, and finds the others beside them.

held = HierarchicalNMF(4, fixed_components=known.to_numpy(), random_state=0).fit(X)
assert (held.components_[:3] == known.to_numpy()).all()
found = held.components_[3] / held.components_[3].max()
cosine = found @ unknown / np.linalg.norm(found) / np.linalg.norm(unknown)
print(f"cosine with the true spectrum: {cosine:.4f}")
assert cosine > 0.98

figure = go.Figure()
figure.add_trace(go.Scatter(x=wavelengths, y=found, name="found", line={"color": "#d55e00"}))
figure.add_trace(
    go.Scatter(
        x=wavelengths,
        y=unknown / unknown.max(),
        name="true",
        line={"color": "#7f7f7f", "dash": "dash"},
    )
)
figure.update_layout(xaxis_title="wavelength in nm", height=340)
figure.update_layout(paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)")
figure.show()
