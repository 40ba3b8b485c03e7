"""Spectra: an image of many bands to pure spectra and a map for each of them.

The command does the same, with a report: ``conecollapse unmix scene.npy -k 3 --clip``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from conecollapse import Unmixing
from conecollapse.io import read_spectra


def data(path: Path) -> None:
    """40 x 50 pixels and 60 bands: three materials, noise, and a few values slightly below zero."""
    rng = np.random.default_rng(0)
    bands = np.linspace(0, 1, 60)
    pure = np.array(
        [0.6 + 0.3 * np.sin(5 * bands), np.exp(-30 * (bands - 0.4) ** 2), 0.15 + 0.7 * bands]
    )
    shares = rng.dirichlet([0.6, 0.6, 0.6], 2000)
    np.save(
        path, (shares @ pure + 0.002 * rng.standard_normal((2000, 60)) - 0.003).reshape(40, 50, 60)
    )


def main(folder: Path) -> np.ndarray:
    data(folder / "scene.npy")
    spectra = read_spectra(folder / "scene.npy", clip=True)
    print(f"{spectra.n_clipped} negative values were set to zero")
    model = Unmixing(3).fit(spectra.table)
    maps = model.shares_.reshape(*spectra.shape, 3)
    print(
        f"error {model.relative_err_:.3f}; largest distance of a pixel from the cone"
        f" {model.residuals_.max():.3f}"
    )
    print(model.verify(spectra.table))
    np.save(folder / "maps.npy", maps)
    return maps


if __name__ == "__main__":
    main(Path())
