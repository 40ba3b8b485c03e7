"""``python -m conecollapse.demo``: recover cones on embedded data, say what was found, and verify it. No network."""

from __future__ import annotations

import dataclasses
import time

import numpy as np
from sklearn.datasets import load_digits

from conecollapse import CertificateError, Cone, collapse


def main() -> None:
    digits()
    mixtures()
    print("\nEvery number above was computed just now, and every certificate checked by code that shares nothing with the solver.")


def digits() -> None:
    """The pixels of scikit-learn's digits as points: which pixels generate all others?"""
    images = load_digits().data
    P = images.T
    print(f"Digits: {images.shape[0]} images of 64 pixels. Each pixel is a point with {P.shape[1]} coordinates.")
    start = time.perf_counter()
    cone = Cone.from_points(P)
    elapsed = time.perf_counter() - start
    verdict = cone.verify(P)
    black = len(cone.zero_points)
    print(f"  {black} pixels are always black; all {cone.n_rays} others are extreme rays, none a mixture of others ({elapsed:.1f} s).")
    print(f"  Verified: every ray is at least {verdict.smallest_distance:.4f} away from the cone of the others.")
    few = Cone.approximate(P, max_residual=0.3, weights="mass")
    few.verify(P)
    print(f"  But the cone of {few.n_rays} of them (#) comes near every pixel: no pixel is further from it than {few.tol:.2f} of the")
    print("  longest pixel's length. That is the epsilon-cone; verified too.")
    marks = np.full(64, ".")
    marks[cone.zero_points] = " "
    marks[few.ray_indices] = "#"
    for row in marks.reshape(8, 8):
        print("    " + " ".join(row))


def mixtures() -> None:
    """Planted rays and mixtures of them: the exact answer is known."""
    rng = np.random.default_rng(0)
    sources = rng.gamma(0.7, size=(12, 6))
    weights = rng.dirichlet(np.full(12, 0.4), size=188)
    P = np.vstack([sources, weights @ sources])[rng.permutation(200)]
    cone = Cone.from_points(P)
    slow = collapse(P[:40])
    print(f"\nMixtures: 12 sources and 188 mixtures of them in 6 dimensions, shuffled: {cone.n_rays} rays found.")
    verdict = cone.verify(P)
    print(f"  Verified: all mixtures are combinations of the rays to within {verdict.largest_residual:.0e}.")
    same = slow.ray_indices.tolist() == Cone.from_points(P[:40]).ray_indices.tolist()
    print(f"  Algorithm 1 of the paper on the first 40 points: {len(slow.history or [])} iterations, the same rays: {same}.")
    forged = cone.certificate.coefficients.copy()
    forged.data[0] *= 1.01
    try:
        Cone(cone.rays, dataclasses.replace(cone.certificate, coefficients=forged)).verify(P)
    except CertificateError as error:
        print(f"  One coefficient changed by 1 %: refused ({error})")


if __name__ == "__main__":
    main()
