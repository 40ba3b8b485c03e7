"""
Mixtures: pure spectra from pixels that are never pure
======================================================

Every pixel of a scene mixes a few materials, and the light differs from pixel to pixel. We make
such a scene, so that the truth is known, and look for the spectra of the materials and for how much
of each is where.
"""

# %%
# A scene without pure pixels
# ---------------------------
# Three spectra, shares that never exceed 85 %, light between half and full, and noise of 1 %.

import numpy as np
import plotly.graph_objects as go

from conecollapse import SeparableNMF, Unmixing

rng = np.random.default_rng(0)
t = np.linspace(0, 1, 80)
spectra = np.array(
    [
        0.2 + 0.6 * np.exp(-(((t - 0.2) / 0.1) ** 2)),
        0.1 + 0.7 * np.exp(-(((t - 0.55) / 0.15) ** 2)) + 0.2 * t,
        0.5 * np.exp(-(((t - 0.85) / 0.12) ** 2)) + 0.3 * (1 - t),
    ]
)
shares = rng.dirichlet([0.6, 0.6, 0.6], 8000)
shares = shares[shares.max(axis=1) < 0.85][:1600]
X = shares * rng.uniform(0.5, 1, (1600, 1)) @ spectra
X = np.maximum(X + 0.01 * np.sqrt((X**2).mean()) * rng.standard_normal(X.shape), 0)

# %%
# How many materials, and their spectra
# -------------------------------------
# `Unmixing` takes as few components as leave nothing but noise, and looks for the smallest cone
# that holds the pixels up to noise. It finds spectra that no pixel shows; `SeparableNMF` takes
# pixels as components, and no pixel is pure.


def degrees(found):
    """Angle from each true spectrum to the nearest one found."""
    unit = [A / np.linalg.norm(A, axis=1, keepdims=True) for A in (spectra, found)]
    return np.degrees(np.arccos(np.clip(unit[0] @ unit[1].T, -1, 1)).min(axis=1))


model = Unmixing().fit(X)
print(model.n_components_, "components:", model.reason_)
assert model.n_components_ == 3
purest = SeparableNMF(3).fit(X)
print(
    "purest pixels:",
    degrees(purest.components_).round(1),
    "degrees; smallest cone:",
    degrees(model.components_).round(1),
)
assert degrees(model.components_).mean() < 0.5 * degrees(purest.components_).mean()

figure = go.Figure()
for k, truth in enumerate(spectra):
    found = model.components_[
        np.argmax(model.components_ @ truth / np.linalg.norm(model.components_, axis=1))
    ]
    figure.add_scatter(y=truth / np.linalg.norm(truth), name=f"material {k}", line_color="#888")
    figure.add_scatter(y=found / np.linalg.norm(found), name=f"found {k}", line_dash="dash")
figure.update_layout(xaxis_title="channel", yaxis_title="spectrum at unit length")
figure.show()

# %%
# How far every pixel lies from the cone, proven
# ----------------------------------------------
# ``verify`` measures it again from stored coefficients, without a solver.

print(model.verify(X))

# %%
# Bad pixels
# ----------
# Sixteen pixels of noise as large as the data. They are found and left out.

spoiled = np.vstack([X, rng.random((16, 80)) * X.max()])
robust = Unmixing(3).fit(spoiled)
print(
    int(robust.outliers_[-16:].sum()),
    "of 16 found;",
    degrees(robust.components_).round(1),
    "degrees",
)
assert robust.outliers_[-16:].all()
assert degrees(robust.components_).mean() < degrees(model.components_).mean() + 1

# sphinx_gallery_thumbnail_number = 1
