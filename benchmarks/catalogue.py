"""Sparse encodings over a catalogue: `transform(X, at_most=5)` against a loop of SciPy's NNLS with
the same rule of selection.

    python benchmarks/catalogue.py
    python benchmarks/catalogue.py --recovery

The first prints the ratio of times for 2,000 samples of 96 features over 80 components, SciPy in a
loop over ``--loop`` of the samples (its time is scaled to all of them), and the largest difference
of the encodings. The second prints how well the components that made a sample are found, over
planted catalogues that differ in how alike their components are and in how many counts a sample
has.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from common import machine
from scipy.optimize import nnls as scipy_nnls

from conecollapse import HierarchicalNMF


def planted(
    n: int, k: int, m: int, counts: float, flat: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A catalogue of k signatures that sum to one, n samples of Poisson counts that use 2 to 5 of
    them, and the true encodings.

    The larger ``flat``, the more alike are the signatures.
    """
    H = rng.dirichlet(np.full(m, flat), k)
    W = np.zeros((n, k))
    for w in W:
        used = rng.choice(k, rng.integers(2, 6), replace=False)
        w[used] = rng.dirichlet(np.full(len(used), 2.0))
    W *= counts * rng.lognormal(0.0, 0.5, (n, 1))
    return H, rng.poisson(W @ H).astype(np.float64), W


def squared_error(H: np.ndarray, x: np.ndarray, S: list[int]) -> tuple[float, np.ndarray]:
    if not S:
        return float(x @ x), np.zeros(0)
    w, residual = scipy_nnls(H[S].T, x)
    return residual**2, w


def loop(H: np.ndarray, x: np.ndarray, most: int, selection: str) -> np.ndarray:
    """The rule of selection, written with SciPy's NNLS."""
    if selection == "forward":
        S: list[int] = []
        error = float(x @ x)
        while len(S) < most:
            found = min((squared_error(H, x, [*S, j])[0], j) for j in range(len(H)) if j not in S)
            if found[0] >= error * (1 - 1e-12):
                break
            error = found[0]
            S = [
                j
                for j, v in zip([*S, found[1]], squared_error(H, x, [*S, found[1]])[1], strict=True)
                if v > 0
            ]
    else:
        S = [int(j) for j in np.flatnonzero(scipy_nnls(H.T, x)[0])]
        while len(S) > most:
            _, out = min((squared_error(H, x, [s for s in S if s != j])[0], j) for j in S)
            S = [s for s in S if s != out]
            S = [j for j, v in zip(S, squared_error(H, x, S)[1], strict=True) if v > 0]
    w = np.zeros(len(H))
    w[S] = squared_error(H, x, S)[1]
    return w


def speed(n_loop: int) -> None:
    print(machine())
    H, X, _ = planted(2000, 80, 96, 2000, 0.3, np.random.default_rng(0))
    model = HierarchicalNMF.from_components(H)
    print(
        f"the components are those given, bit for bit: {model.components_.tobytes() == H.tobytes()}"
    )
    for selection in ("forward", "backward"):
        model.transform(X[:64], at_most=5, selection=selection)
        ours = np.inf
        for _ in range(3):
            start = time.perf_counter()
            W = model.transform(X, at_most=5, selection=selection)
            ours = min(ours, time.perf_counter() - start)
        start = time.perf_counter()
        theirs = np.array([loop(H, x, 5, selection) for x in X[:n_loop]])
        seconds = (time.perf_counter() - start) * len(X) / n_loop
        apart = np.abs(W[:n_loop] - theirs).max() / theirs.max()
        print(
            f"{selection}: {ours:.3f} s, loop of SciPy {seconds:.1f} s, {seconds / ours:.0f} times;"
            f" largest difference {apart:.1e}"
        )


def recovery() -> None:
    ways = {
        "all components": {},
        "backward, at most 5": {"at_most": 5, "selection": "backward"},
        "forward, at most 5": {"at_most": 5, "selection": "forward"},
        "backward, gain 0.001": {"least_gain": 0.001, "selection": "backward"},
        "forward, gain 0.001": {"least_gain": 0.001, "selection": "forward"},
        "l1 = 0.1": {"l1": 0.1},
    }
    print(f"{'F1 of the components found':30}" + "".join(f"{name:>22}" for name in ways))
    for flat in (0.1, 0.3, 1.0):
        for counts in (200, 2000, 20000):
            H, X, W = planted(
                500, 80, 96, counts, flat, np.random.default_rng([int(10 * flat), counts])
            )
            model = HierarchicalNMF.from_components(H)
            cells = []
            for way in ways.values():
                found, true = model.transform(X, **way) > 0, W > 0
                cells.append(2 * (found & true).sum() / (found.sum() + true.sum()))
            print(
                f"likeness {flat:g}, {counts} counts".ljust(30)
                + "".join(f"{cell:22.3f}" for cell in cells),
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--recovery", action="store_true")
    parser.add_argument("--loop", type=int, default=60)
    options = parser.parse_args()
    recovery() if options.recovery else speed(options.loop)


if __name__ == "__main__":
    main()
