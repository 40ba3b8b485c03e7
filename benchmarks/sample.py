"""Samples of rays: are they rays, does the bound on what was missed hold, how far do they get, and
how fast beside the pixel purity index.

python benchmarks/sample.py cones 2000     # planted cones against SciPy's solver, and the bound
python benchmarks/sample.py until          # the bound where the sample grows until it is small
python benchmarks/sample.py amlall         # a table whose rays are known; --out FOLDER: a figure
python benchmarks/sample.py samson         # needs pip install pysptools matplotlib
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import scipy.optimize
import scipy.sparse as sp
from common import DATA, best_of, machine

from conecollapse import Cone
from conecollapse.geometry.sample import Sample, scan
from conecollapse.io.source import ArraySource
from conecollapse.tables.blocks import FileTable

TOL = 1e-8
FAMILIES = ("mixtures", "thin", "sparse", "duplicates", "ties")


def planted(family: str, rng: np.random.Generator) -> np.ndarray:
    """Points of a cone in 2 to 60 dimensions: combinations of some points, and these."""
    dim, n = int(rng.integers(2, 61)), int(rng.integers(5, 150))
    R = rng.random((int(rng.integers(2, 60)), dim))
    if family == "thin":
        R = 1 + 10.0 ** rng.uniform(-4, -1) * R
    if family == "sparse":
        R *= rng.random(R.shape) < 0.3
        R[:, 0] += 0.01
    P = np.vstack([rng.dirichlet(np.full(len(R), 0.5), n) @ R, R])
    if family == "duplicates":
        P = np.vstack([P, P, 3 * P[::2], np.zeros((2, dim))])
    if family == "ties":
        P = np.round(4 * P)
        P[0] += 1
    return P[rng.permutation(len(P))] * 10.0 ** rng.integers(-3, 4)


def false_rays(P: np.ndarray, rays: np.ndarray) -> int:
    """How many are within tol of the cone of all points but their multiples, by SciPy's solver."""
    U = P[P.any(axis=1)]
    U = U / np.linalg.norm(U, axis=1)[:, None]
    false = 0
    for u in P[rays] / np.linalg.norm(P[rays], axis=1)[:, None]:
        others = U[np.linalg.norm(U - u, axis=1) > 2 * TOL]
        false += bool(len(others)) and scipy.optimize.nnls(others.T, u)[1] <= TOL
    return false


def other_winners(P: np.ndarray, count: int = 5000) -> np.ndarray:
    """The rays of many other functionals of the same law."""
    return Sample.begin(FileTable(ArraySource(P)), TOL, 0.95, 2**31).drawn(count).winners


def missed_by(cone: Cone, winners: np.ndarray) -> float:
    return float((~np.isin(winners, cone.ray_indices)).mean())


def study_cones(number: int) -> None:
    false = rays = held = undecided = 0
    slack, estimates = [], []
    for i in range(number):
        rng = np.random.default_rng([5, i])
        P = planted(FAMILIES[i % len(FAMILIES)], rng)
        n_functionals = int(2 ** rng.integers(5, 11))
        cone = Cone.sample(sp.csr_array(P) if i % 2 else P, n_functionals, random_state=i)
        cone.verify(P)
        false += false_rays(P, cone.ray_indices)
        rays += cone.n_rays
        undecided += int((cone.winners < 0).sum())
        truth = missed_by(cone, other_winners(P))
        held += truth <= cone.missed
        slack.append(cone.missed - truth)
        estimates.append(cone.missed_estimate - truth)
    print(f"{number} planted cones, 32 to 1024 functionals, confidence 0.95")
    print(f"  sampled rays: {rays}, all verified; by SciPy's solver no rays: {false}")
    print(f"  functionals that rounding does not decide: {undecided}")
    print(f"  the bound holds in {100 * held / number:.1f} % of the draws")
    print(f"  bound less truth: median {np.median(slack):.4f}")
    print(
        f"  estimate less truth: median {np.median(estimates):.4f}, mean {np.mean(estimates):.4f}"
    )


def study_until(draws: int = 100) -> None:
    held = total = 0
    reached = []
    for i in range(20):
        P = planted(FAMILIES[i % 3], np.random.default_rng([6, i]))
        winners = other_winners(P)
        for seed in range(draws):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                cone = Cone.sample(P, 32, until=0.03, random_state=seed)
            held += missed_by(cone, winners) <= cone.missed
            total += 1
            reached.append(len(cone.winners))
    print(f"until = 0.03 from 32 functionals on, 20 planted cones, {draws} draws each")
    print(f"  the bound holds in {100 * held / total:.1f} % of the draws")
    print(f"  functionals: median {np.median(reached):.0f}, most {max(reached)}")


def study_amlall(out: Path | None) -> None:
    with np.load(DATA / "AMLALL.npz") as file:
        P = file["X"].astype(np.float64)
    exact = Cone.from_points(P, tol=1e-6).n_rays
    winners = Sample.begin(FileTable(ArraySource(P)), 1e-6, 0.95, 2**31).drawn(200_000).winners
    print(f"AMLALL: {exact} rays of {len(P)} features")
    print("  functionals   rays   share   missed: bound   estimate   truth (200,000 others)")
    cone, rows = None, []
    for count in (1000, 3000, 10_000, 30_000, 100_000):
        if cone is None:
            cone = Cone.sample(P, count, tol=1e-6, random_state=0)
        else:
            cone = cone.extended(count - len(cone.winners))
        truth = missed_by(cone, winners)
        rows.append((count, cone.n_rays / exact, cone.missed, cone.missed_estimate, truth))
        print(
            f"  {count:11d}  {cone.n_rays:5d}   {cone.n_rays / exact:.3f}          "
            f"{cone.missed:.4f}     {cone.missed_estimate:.4f}   {truth:.4f}"
        )
    if out is not None:
        draw(np.array(rows).T, exact, out)


def draw(rows: np.ndarray, exact: int, out: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    matplotlib.rcParams["svg.hashsalt"] = "conecollapse"  # the same figure gives the same file
    counts, share, bound, estimate, truth = rows
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
    left.semilogx(counts, share, "o-")
    left.set(xlabel="functionals", ylabel=f"share of the {exact} rays", ylim=(0, 1))
    for values, name, style in ((bound, "bound", "o-"), (estimate, "estimate", "s:")):
        right.loglog(counts, values, style, label=name)
    right.loglog(counts, truth, "k^--", label="truth")
    right.set(xlabel="functionals", ylabel="missed")
    right.legend()
    figure.savefig(out / "sample.svg", metadata={"Date": None})


def study_samson(count: int = 1024) -> None:
    from pysptools.eea.eea import PPI

    with np.load(DATA / "SAMSON.npz") as file:
        X = np.ascontiguousarray(file["Y"].T)  # pixels x bands
    np.random.seed(0)  # noqa: NPY002
    skewers = np.random.rand(X.shape[1], count)  # noqa: NPY002

    theirs: list[object] = []

    def peer() -> None:
        np.random.seed(0)  # noqa: NPY002
        theirs[:] = [PPI(X, len(X), count)[1]]

    votes = np.zeros(len(X), int)

    def ours() -> None:
        mean = X.mean(axis=0)
        A = skewers.T / np.linalg.norm(skewers, axis=0)[:, None]
        leaders = scan(X, A, TOL, on_slice=False)
        _, first = np.unique(leaders.which, return_index=True)
        above = (leaders.value[first] - np.concatenate([A, -A]) @ mean).reshape(2, -1)
        points = leaders.point[first].reshape(2, -1)
        votes[:] = np.bincount(np.where(above[0] >= above[1], *points), minlength=len(X))

    seconds = best_of(peer, 3, time.process_time), best_of(ours, 3, time.process_time)
    # PPI returns the pixels by their votes, without the votes; these are as it counts them
    centred = X - X.mean(axis=0)
    counted = np.zeros(len(X), int)
    for a in range(0, count, 64):
        np.add.at(counted, np.abs(centred @ skewers[:, a : a + 64]).argmax(axis=0), 1)
    ranked = np.asarray(theirs[0])[: int((votes > 0).sum())]
    print(f"SAMSON, {len(X)} pixels x {X.shape[1]} bands, {count} functionals, processor time")
    print(f"  the same votes: {np.array_equal(votes, counted)}, for {(votes > 0).sum()} pixels")
    print(f"  the same pixels as PPI ranks first: {set(ranked) == set(np.flatnonzero(votes))}")
    print(f"  pysptools' PPI {seconds[0]:.3f} s, the same here {seconds[1]:.3f} s:", end=" ")
    print(f"{seconds[0] / seconds[1]:.0f} times")
    single = skewers.astype(np.float32)
    product = best_of(lambda: X @ single, 5, time.process_time)
    print(f"  the product of pixels and functionals alone, float32: {product:.3f} s")
    sampling = best_of(lambda: Cone.sample(X, count, random_state=0), 3, time.process_time)
    cone = Cone.sample(X, count, random_state=0)
    print(f"  Cone.sample, with proof and bound: {sampling:.3f} s,", end=" ")
    print(f"{seconds[0] / sampling:.0f} times; {cone.n_rays} rays, missed {cone.missed:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", choices=("cones", "until", "amlall", "samson"))
    parser.add_argument("number", type=int, nargs="?", default=2000)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    print(machine())
    if asked.study == "cones":
        study_cones(asked.number)
    elif asked.study == "until":
        study_until()
    elif asked.study == "amlall":
        study_amlall(asked.out)
    else:
        study_samson()


if __name__ == "__main__":
    main()
