"""Forged runs: every number, name and line of every file of every kind of run is changed in turn,
and `verify` refuses it, unless the place is on the short list of what cannot be proven."""

from __future__ import annotations

import copy
import json

import numpy as np
import pandas as pd
import pytest
import scipy.io

from conecollapse import ConeCollapseError
from conecollapse.io import read_table
from conecollapse.io.envi import write_envi
from conecollapse.io.spectra import read_spectra
from conecollapse.runs import cluster, judge, prepare, programs, rays, save, unmix, verify
from conecollapse.runs.run import checksum

pytestmark = pytest.mark.filterwarnings("ignore::conecollapse.EmptyDataWarning")

rng = np.random.default_rng(7)
BLOCKS = np.kron(np.eye(3), np.ones((5, 4))) + 0.1 * rng.random((15, 12)).round(3)
CUBE = (rng.dirichlet([0.5] * 3, 42) @ rng.random((3, 9)) + 0.02 * rng.random((42, 9))).reshape(
    7, 6, 9
)
CUBE[0, 1] = 0  # a dead pixel
CUBE[3, 4] = CUBE[3, 4, ::-1] * 3  # that fits no mixture
WORDS = ("sea ship sail wave", "tree leaf root wood", "coin bank loan rate")

# no data and no other file proves these
UNPROVEN = (
    "created",
    "versions",
    "timings",
    "data.path",
    "data.absolute",
    "data.source",
    "data.why",
    "parameters.random_state",
    "results.converged",
    "results.status",
    "results.rank_reason",
    "results.rank_curve",
    "results.view",
    "results.layout",
    "results.names",
    # what the user may call clusters
    "names.csv",
    "results.candidates",
    # a note says that the bytes of the data are others, or what the preparation gives
    "data.sha256",
    # what was asked for, where other values lead to the same results
    "parameters.effort",
    "parameters.n_runs",
    "parameters.batches",
    "trusted.path",
    "trusted.absolute",
    "trusted.source",
    "trusted.why",
    "trusted.sha256",
    "parameters.max_residual",
    "parameters.outliers",
    "parameters.clip",
    # a changed witness that still proves its ray is a proof, and a weaker claim can be true
    "certificate.npz: rays_only",
    "certificate.npz: residual",
    "certificate.npz: witnesses",
    "certificate.npz: G",
    # functionals of one law, in another order
    "factors.npz: winners, rows",
)


def texts(folder):
    lines = [
        " ".join(rng.choice(WORDS[i % 3].split(), 6)) + " " + str(rng.choice(WORDS[0].split()))
        for i in range(18)
    ]
    pd.DataFrame({"text": lines}).to_csv(folder / "texts.csv", index=False)
    table = read_table(folder / "texts.csv", text_column="text")
    return cluster(prepare(table, tfidf=True), 3)


def genes(folder):
    names = [f"gene{j}" for j in range(12)]
    pd.DataFrame(BLOCKS, columns=names).to_csv(folder / "genes.csv", index=False)
    table = read_table(folder / "genes.csv")
    return cluster(
        table,
        3,
        target=[f"type {i // 5}" for i in range(15)],
        image_shape=(3, 4),
        rays=True,
        layout=True,
    )


def guided(folder):
    np.save(folder / "x.npy", BLOCKS)
    known = ["a", "a", "", "", "", "b", "b", "a", "?", "?", "?", "?", "", "", ""]
    target = [f"type {i // 5}" for i in range(15)]
    return cluster(read_table(folder / "x.npy"), 3, guide=known, unlabeled="?", target=target)


def chosen_number(folder):
    np.save(folder / "x.npy", BLOCKS.astype(np.float32))
    return cluster(read_table(folder / "x.npy"), "auto", method="features")


def neighbours(folder):
    np.save(folder / "x.npy", BLOCKS)
    return cluster(prepare(read_table(folder / "x.npy"), "unit-samples"), 3, method="knn")


def all_rays(folder):
    np.save(folder / "x.npy", np.abs(rng.standard_normal((4, 2))) @ rng.random((2, 9)))
    return rays(read_table(folder / "x.npy"))


def few_rays(folder):
    np.save(folder / "x.npy", BLOCKS)
    return rays(read_table(folder / "x.npy"), max_residual=0.2)


def some_rays(folder):
    np.save(folder / "x.npy", BLOCKS)
    return rays(read_table(folder / "x.npy"), sample=40)


def pixels(folder):
    np.save(folder / "cube.npy", CUBE)
    return unmix(read_spectra(folder / "cube.npy"), 3, wavelengths=np.arange(9.0) + 400)


def matlab(folder):
    scipy.io.savemat(folder / "cube.mat", {"cube": CUBE})
    return unmix(read_spectra(folder / "cube.mat"), 3, sum_to_one=True)


def envi(folder):
    write_envi(folder / "cube.hdr", folder / "cube.img", CUBE, [str(k) for k in range(9)])
    return unmix(read_spectra(folder / "cube.hdr"), 3, outliers=0.1)


def counts(folder):
    np.save(folder / "x.npy", rng.poisson(200 * CUBE.reshape(-1, 9)).astype(np.float32))
    return unmix(read_spectra(folder / "x.npy"), 3, sum_to_one=True)


def known(folder):
    np.save(folder / "x.npy", CUBE.reshape(-1, 9))
    known = CUBE[2, 2:4] + 0.1 * rng.random((2, 9))
    return unmix(read_spectra(folder / "x.npy"), 3, fixed=known, closure=True, outliers=0.1)


def gene_programs(folder):
    np.save(folder / "x.npy", rng.poisson(9 * BLOCKS).astype(np.float32))
    batches = [f"run {i % 2}" for i in range(15)]
    return programs(read_table(folder / "x.npy"), 3, n_runs=3, batches=batches, batch_name="runs")


def judged(folder):
    np.save(folder / "trusted.npy", BLOCKS[:12])
    np.save(folder / "new.npy", BLOCKS[12:])
    return judge(folder / "trusted.npy", folder / "new.npy", n_features=2)


ROUNDING = 1e-12  # of coefficients whose largest is about 1
RUNS = [
    genes,
    guided,
    texts,
    neighbours,
    all_rays,
    few_rays,
    some_rays,
    pixels,
    matlab,
    envi,
    counts,
    known,
    judged,
    gene_programs,
]
SLOW_RUNS = [chosen_number]
made = {}


def saved(make, factory):
    """The folder of a run, made once."""
    if make not in made:
        place = factory.mktemp(make.__name__)
        run = make(place)
        # plotly's own code would make each comparison of a page slow
        page = None if run.kind == "rays" else lambda path, _: path.write_text("<p>purity 0.9")
        save(run, place / "run", page)
        made[make] = place / "run"
    return made[make]


def changed(value):
    """Other values in place of this one, which a reader would see."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1]
    if isinstance(value, float):
        return [value * 1.01 if abs(value) > 1e-9 else 0.01, float("nan")]
    return [0.5] if value is None else [f"{value}x"]


def leaves(node, place=()):
    """The places of all values and of all groups."""
    inner = node.items() if isinstance(node, dict) else enumerate(node)
    for name, value in inner:
        yield (*place, name)
        if isinstance(value, (dict, list)):
            yield from leaves(value, (*place, name))


def forged_facts(path, seal):
    """run.json with another value, or without one; with ``seal`` its checksum is that of what it
    then says."""
    facts = json.loads(path.read_text(encoding="utf-8"))
    for place in leaves(facts):
        *above, last = place
        node = facts
        for name in above:
            node = node[name]
        values = changed(node[last]) if not isinstance(node[last], (dict, list)) else []
        for value in [*values, KeyError]:
            if value is KeyError and isinstance(node, list):
                continue
            false = copy.deepcopy(facts)
            inner = false
            for name in above:
                inner = inner[name]
            if value is KeyError:
                del inner[last]
            else:
                inner[last] = value
            if seal and place != ("checksum",):
                false["checksum"] = checksum(false)
            called = ".".join(str(name) for name in place if isinstance(name, str))
            yield called, json.dumps(false).encode()


def forged_table(path):
    """A .csv file with another cell, lines in another order, or without a line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for i, line in enumerate(lines):
        cells = line.split(",")
        for j, cell in enumerate(cells):
            try:
                values = changed(float(cell)) if "." in cell else changed(int(cell))
            except ValueError:
                values = [f"{cell}x"]
            for value in values:
                false = ",".join([*cells[:j], str(value), *cells[j + 1 :]])
                yield f"line {i}, cell {j}", "\n".join([*lines[:i], false, *lines[i + 1 :]])
        yield f"without line {i}", "\n".join([*lines[:i], *lines[i + 1 :]])
        if i > 1:
            swapped = [*lines[: i - 1], lines[i], lines[i - 1], *lines[i + 1 :]]
            yield f"lines {i - 1} and {i} swapped", "\n".join(swapped)


def forged_array(array):
    """The array with another entry, or two of its rows swapped."""
    size = np.abs(array[np.isfinite(array)]).max(initial=0) if array.dtype.kind == "f" else 0
    for at in np.ndindex(array.shape):
        value = array[at].item()
        if array.dtype.kind == "f" and abs(value) < 1e-3 * size:
            values = [value + 0.01 * size, float("nan")]  # what is rounding becomes visible
        else:
            values = changed(value)
        for other in values:
            false = (
                array.astype(f"<U{array.dtype.itemsize // 4 + 1}")
                if array.dtype.kind == "U"
                else array.copy()
            )
            with np.errstate(over="ignore"):
                false[at] = other if array.dtype.kind != "u" else array[at] ^ array.dtype.type(1)
            yield f"entry {at}", false
    for i in range(1, len(array) if array.ndim else 0):
        near = array.dtype.kind == "f" and np.allclose(array[i], array[i - 1], rtol=1e-6)
        if not near and np.any(array[i] != array[i - 1]):
            false = array.copy()
            false[[i - 1, i]] = array[[i, i - 1]]
            yield f"rows {i - 1} and {i} swapped", false


def forgeries(path, seal):
    """Names of changes of one file, and functions that make each."""
    whole = path.read_bytes()
    yield f"{path.name}: truncated", lambda: path.write_bytes(whole[: len(whole) // 2])
    if path.name == "report.html":
        yield f"{path.name}: a digit", lambda: path.write_bytes(whole.replace(b"0.9", b"0.8"))
        return
    yield f"{path.name}: missing", path.unlink
    if path.name == "run.json":
        for place, content in forged_facts(path, seal):
            yield place, lambda content=content: path.write_bytes(content)
    elif path.suffix == ".csv":
        for place, content in forged_table(path):
            yield (
                f"{path.name}: {place}",
                lambda text=content: path.write_text(text + "\n", "utf-8"),
            )
    elif path.suffix == ".npy":
        for place, false in forged_array(np.load(path)):
            yield f"{path.name}: {place}", lambda false=false: np.save(path, false)
    elif path.suffix == ".npz":
        with np.load(path) as file:
            arrays = dict(file)
        for name, array in arrays.items():
            if name == "format":
                continue
            rest = {key: value for key, value in arrays.items() if key != name}
            yield f"{path.name}: {name} missing", lambda rest=rest: np.savez(path, **rest)
            # a coefficient that is rounding is as true at another ray
            weights = arrays[name.replace(".indices", ".data")] if name.endswith(".indices") else ()
            rounding = {f"entry ({i},)" for i in np.flatnonzero(np.abs(weights) < ROUNDING)}
            for place, false in forged_array(array):
                if place in rounding:
                    continue
                yield (
                    f"{path.name}: {name}, {place}",
                    lambda rest=rest, name=name, false=false: np.savez(
                        path, **rest, **{name: false}
                    ),
                )
    elif path.suffix == ".mat":
        there = scipy.io.loadmat(path)
        maps, names = there["maps"], there["names"]
        for place, false in forged_array(maps):
            yield (
                f"{path.name}: {place}",
                lambda false=false: scipy.io.savemat(path, {"maps": false, "names": names}),
            )
    elif path.suffix == ".img":
        for place, false in forged_array(np.fromfile(path, "<f4")):
            yield f"{path.name}: {place}", lambda false=false: false.tofile(path)
    else:
        assert path.suffix == ".hdr", f"no way of forging {path.name} is known"
        lines = whole.decode().splitlines()
        for i, line in enumerate(lines):
            text = "\n".join([*lines[:i], f"{line} 1", *lines[i + 1 :]])
            yield f"{path.name}: line {i}", lambda text=text: path.write_text(text, "utf-8")


def accepted(folder, chosen, seal):
    """The forgeries that pass, of a folder that passes, and how many were tried."""
    assert verify(folder)
    passed, refused = [], []
    for path in sorted(folder.iterdir()):
        whole = path.read_bytes()
        every = list(forgeries(path, seal))
        for at in chosen(len(every)):
            place, forge = every[at]
            forge()
            try:
                verify(folder)
                passed.append(place)
            except ConeCollapseError as error:
                refused.append(str(error))
            finally:
                path.write_bytes(whole)
    assert verify(folder)
    assert [message for message in refused if "\n" in message or len(message) > 1000] == []
    return passed, len(passed) + len(refused)


def unexpected(passed):
    """What passed and is not on the list."""
    return [place for place in passed if not place.startswith(UNPROVEN)]


def some(count):
    """A few of the changes of one file; the first are the coarse ones."""
    return np.unique(np.r_[0, np.random.default_rng(count).integers(count, size=6)])


@pytest.mark.parametrize("make", RUNS, ids=lambda make: make.__name__)
def test_a_forged_run_is_refused(make, tmp_path_factory):
    folder = saved(make, tmp_path_factory)
    assert unexpected(accepted(folder, some, True)[0]) == []


@pytest.mark.full
@pytest.mark.parametrize("make", [*RUNS, *SLOW_RUNS], ids=lambda make: make.__name__)
def test_every_forged_run_is_refused(make, tmp_path_factory):
    folder = saved(make, tmp_path_factory)
    passed, tried = accepted(folder, range, True)
    assert tried > 200
    assert unexpected(passed) == []
