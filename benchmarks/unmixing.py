"""`Unmixing` beside other methods: measured sets, planted families, exact scenes, signatures,
tissues, the number of components, and seconds.

python benchmarks/unmixing.py            # all, with 4 scenes of each family
python benchmarks/unmixing.py 15         # with 15
python benchmarks/unmixing.py sets time  # some parts: sets, families, exact, suites, tissues,
number, sure, time

Selections of pysptools, pyMCR's alternating least squares and salamander-learn take part where they
are installed. True components are used only for scoring.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
from common import DATA, machine
from mixtures import load, pairs, sparse_set
from planted_mixtures import FAMILIES, exact, well_posed
from scipy.optimize import linear_sum_assignment
from sklearn.exceptions import ConvergenceWarning

from conecollapse import MinVolumeNMF, SeparableNMF, Unmixing, bootstrap
from conecollapse.geometry.selections import snpa, spa, vca

SUITES = "signatures"
DRAWS = 20  # of each bootstrap
LEAST = 0.05  # degrees: angles below that are counted as that


def methods(is_counts=False):
    """Components found by each method, as functions of samples and their number."""
    loss = "kullback-leibler" if is_counts else "frobenius"
    found = {
        "Unmixing": lambda X, r: Unmixing(r, loss=loss).fit(X).components_,
        "MinVolumeNMF": lambda X, r: MinVolumeNMF(r, loss=loss).fit(X).components_,
        "SeparableNMF": lambda X, r: SeparableNMF(r).fit(X).components_,
        "SPA": lambda X, r: X[spa(X, r, scaling="sum")],
        "SNPA": lambda X, r: X[snpa(X, r)],
        "VCA": lambda X, r: X[vca(X, r, rng=np.random.default_rng(0))],
    }
    if is_counts:
        found |= salamander()
    return found | pysptools() | pymcr()


def pysptools():
    try:
        from pysptools.eea import nfindr
    except ImportError:
        return {}
    return {"pysptools N-FINDR": lambda X, r: nfindr.NFINDR(X, r)[0]}


def pymcr():
    try:
        from pymcr.mcr import McrAR
    except ImportError:
        return {}

    def fit(X, r):
        model = McrAR(max_iter=100, st_regr="NNLS", c_regr="NNLS")
        model.fit(X, ST=X[spa(X, r, scaling="sum")])
        return model.ST_opt_

    return {"pyMCR": fit}


def salamander():
    try:
        import anndata
        from salamander.models import MvNMF
    except ImportError:
        return {}

    def fit(X, r):
        model = MvNMF(n_signatures=r)
        model.fit(anndata.AnnData(X))
        return np.asarray(model.asignatures.X)

    return {"salamander MvNMF": fit}


def angle(find, X, H):
    """Mean angle to the true components; 90 degrees where a method fails."""
    filled = X.any(axis=0)
    try:
        return float(pairs(np.maximum(find(X[:, filled], len(H)), 1e-300), H[:, filled])[0].mean())
    except Exception as error:  # of a peer, too
        print(f"  failed: {type(error).__name__}: {error}"[:100])
        return 90.0


def geometric(values):
    return float(np.exp(np.mean(np.log(np.maximum(values, LEAST)))))


def sets(_):
    for name in ("SAMSON", "JASPER", "AMINO_EEM"):
        X, M, _ = load(name)
        said = ", ".join(f"{what} {angle(find, X, M):.2f}" for what, find in methods().items())
        print(f"{name}, degrees: {said}", flush=True)
    X, z = sparse_set("RNAMIX_CELSEQ2")
    for model in (Unmixing(3), MinVolumeNMF(3)):
        C = np.corrcoef(model.fit(X).shares_.T, z["A"])[:3, 3:]
        rows, columns = linear_sum_assignment(-C)
        least = C[rows, columns].min()
        print(f"RNAMIX_CELSEQ2, {type(model).__name__}: least correlation of shares {least:.3f}")


def families(count):
    rows = []
    for name, make in FAMILIES.items():
        some = []
        for seed in range(count):
            made = make(seed)
            X, is_counts = made.X[made.X.any(axis=1)], bool(made.options)
            some.append({what: angle(find, X, made.H) for what, find in methods(is_counts).items()})
        said = ", ".join(f"{what} {geometric([s[what] for s in some]):.2f}" for what in some[0])
        print(f"{name}, degrees: {said}", flush=True)
        rows += some
    ours = np.array([row["Unmixing"] for row in rows])
    best = np.array([min(v for what, v in row.items() if what != "Unmixing") for row in rows])
    hard = (best > 0.3) & (best < 15)
    near = ours <= np.maximum(1.15 * best, best + 0.5)
    ratio = geometric(ours) / geometric([row["MinVolumeNMF"] for row in rows])
    print(
        f"{len(rows)} scenes: geometric mean {ratio:.2f} of MinVolumeNMF's; of the {hard.sum()} on"
        f" which the best other method is between 0.3 and 15 degrees, {near[hard].mean():.0%} are"
        " within 15 % or half a degree of it",
        flush=True,
    )


def exact_scenes(count):
    angles = [angle(methods()["Unmixing"], (s := exact(seed)).X, s.H) for seed in range(3 * count)]
    print(
        f"{len(angles)} exact scenes without pure samples: {np.mean(np.array(angles) <= 0.01):.0%}"
        f" within 0.01 degrees, largest {max(angles):.3f}",
        flush=True,
    )


def suites(_):
    total, found = 0, {}
    for path in sorted((DATA / SUITES).glob("*.npz")):
        with np.load(path) as z:
            X, M = z["Y"].T.astype(float), z["M"].T.astype(float)
        X, r = X[X.any(axis=1)], len(M)
        said = []
        for what, find in methods(is_counts=True).items():
            if what in ("Unmixing", "MinVolumeNMF", "salamander MvNMF"):
                start = time.process_time()
                cosines = np.cos(np.radians(pairs(find(X, r), M)[0]))
                seconds = time.process_time() - start
                found[what] = found.get(what, 0) + int((cosines > 0.9).sum())
                said.append(f"{what} {int((cosines > 0.9).sum())} in {seconds:.1f} s")
        total += r
        print(f"{path.stem}, {r} signatures: {', '.join(said)}", flush=True)
    print(f"true signatures at a cosine above 0.9, of {total}: {found}")


def tissues(_):
    with np.load(DATA / "LIVER_BRAIN_LUNG.npz") as z:
        X, A = z["Y"].T.astype(float), z["A"].T.astype(float)
    mixed = A.max(axis=1) < 0.99
    for model in (Unmixing(3), MinVolumeNMF(3)):
        S = model.fit(X[mixed]).shares_
        squares = np.square(S[:, :, None] - A[mixed][:, None, :]).mean(axis=0)
        rows, columns = linear_sum_assignment(squares)
        error = np.sqrt(squares[rows, columns].mean())
        corners = getattr(model, "corners_", "samples")
        print(
            f"LIVER_BRAIN_LUNG, {type(model).__name__}: error of the shares {error:.3f}, corners"
            f" among {corners}"
        )


def number(count):
    off = []
    for name, make in FAMILIES.items():
        if name in ("signatures", "tissues"):
            continue
        for seed in range(count):
            made = make(seed)
            X = made.X[made.X.any(axis=1)]
            off.append(Unmixing().fit(X).n_components_ - len(made.H))
    off = np.array(off)
    print(
        f"number of components on {len(off)} planted scenes: {np.mean(off == 0):.0%} right,"
        f" {np.mean(np.abs(off) <= 1):.0%} within one",
        flush=True,
    )
    for name in ("SAMSON", "JASPER", "AMINO_EEM"):
        X, M, _ = load(name)
        model = Unmixing().fit(X)
        print(f"{name}, {len(M)} components: {model.n_components_}, {model.reason_}", flush=True)


def sure(count):
    """How often intervals of `bootstrap`, `spread_`, and both together hold the true value of a
    band."""
    rows = []
    for seed in range(count):
        made = well_posed(seed)
        X = made.X[made.X.any(axis=1)]
        model = Unmixing(len(made.H)).fit(X)
        found, spread = bootstrap(model, X, DRAWS), model.spread_
        order = pairs(found.components, made.H)[1]
        H, low, high, spread = (
            part[order]
            for part in (found.components, found.components_low, found.components_high, spread)
        )
        true = made.H * (H.sum(axis=1) / made.H.sum(axis=1))[:, None]
        rows.append(
            [
                ((low <= true) & (true <= high)).mean(),
                (np.abs(true - H) <= spread).mean(),
                ((low - spread <= true) & (true <= high + spread)).mean(),
            ]
        )
    names = ("intervals", "spread", "both")
    said = ", ".join(f"{n} {v:.0%}" for n, v in zip(names, np.mean(rows, axis=0), strict=True))
    print(f"bands that hold the truth, {count} well-posed scenes: {said}", flush=True)


def seconds(_):
    rng = np.random.default_rng(0)
    H = rng.random((6, 200)) ** 3
    A = rng.dirichlet(np.full(6, 0.5), 10_000)
    X = np.maximum(A @ H + 0.005 * rng.standard_normal((10_000, 200)), 0)
    for model in (Unmixing(6), MinVolumeNMF(6)):
        start = time.process_time()
        model.fit(X)
        took = time.process_time() - start
        print(f"10,000 x 200, 6 components, {type(model).__name__}: {took:.1f} s of processor time")


PARTS = {
    "sets": sets,
    "families": families,
    "exact": exact_scenes,
    "suites": suites,
    "tissues": tissues,
    "number": number,
    "sure": sure,
    "time": seconds,
}

if __name__ == "__main__":
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", UserWarning)
    print(machine())
    asked = [word for word in sys.argv[1:] if word in PARTS]
    counts = [int(word) for word in sys.argv[1:] if word.isdigit()]
    for part in asked or PARTS:
        PARTS[part](counts[0] if counts else 4)
