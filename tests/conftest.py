from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, Phase, settings
from setup_browser import find

from conecollapse.tables import as_table

PATIENT = [HealthCheck.too_slow, HealthCheck.data_too_large]
# no search for an explanation: it takes minutes for numerical code
SHRINK = [Phase.explicit, Phase.generate, Phase.shrink]
settings.register_profile(
    "repo",
    deadline=None,
    derandomize=True,
    database=None,
    phases=SHRINK,
    suppress_health_check=PATIENT,
)
settings.register_profile("fuzz", settings.get_profile("repo"), derandomize=False)
# one failure is enough, however large
settings.register_profile("mutants", settings.get_profile("repo"), phases=SHRINK[:2])
settings.load_profile(os.environ.get("CONECOLLAPSE_HYPOTHESIS_PROFILE", "repo"))


# fixtures that start other programs: of the tests that use them, `make test` has those marked slow
FULL = {"browser", "cluster", "site"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    seen = set()
    for item in items:
        if FULL.intersection(getattr(item, "fixturenames", ())) and not is_slow(item):
            item.add_marker(pytest.mark.full)
        if "CONECOLLAPSE_OLDEST" in os.environ and is_repetition(item, seen):
            item.add_marker(pytest.mark.own)


def is_slow(item):
    return item.get_closest_marker("slow") is not None


def is_repetition(item, seen):
    """Whether a test differs from one before it in its random seed alone: it makes the same calls
    of dependencies."""
    parameters = getattr(item, "callspec", None) and item.callspec.params
    if not parameters or "seed" not in parameters:
        return False
    others = (
        item.nodeid.partition("[")[0],
        repr({name: value for name, value in parameters.items() if name != "seed"}),
    )
    return others in seen or seen.add(others)


def each(models, others=pytest.mark.slow):
    """The estimators as parameters of a test. `GraphCCNMF` is not in the quick tier; those with
    other than default parameters are in the tier of ``others``."""

    def tier(model):
        if "=" in repr(model):
            return [others]
        return [pytest.mark.slow] * (type(model).__name__ == "GraphCCNMF")

    return [pytest.param(model, id=repr(model), marks=tier(model)) for model in models]


def seeds(n: int, quick: int = 5):
    """``range(n)`` as parameters of a test, of which the first few are in the quick tier."""
    return [
        pytest.param(seed, marks=[pytest.mark.slow] if seed >= quick else []) for seed in range(n)
    ]


DATA = Path(os.environ.get("CONECOLLAPSE_DATA", Path(__file__).parents[2] / "shared" / "data"))


def data_file(name: str) -> Path:
    """The file of a dataset; skips where it is missing."""
    file = DATA / f"{name}.npz"
    if not file.is_file():
        pytest.skip(f"no {name}.npz in {DATA}; set CONECOLLAPSE_DATA to a folder that has it")
    return file


def load_points(name: str):
    """Points (rows) of one of the paper's datasets as they lie on disk; text is weighted by TF-IDF.
    Skips where it is missing."""
    with np.load(data_file(name), allow_pickle=False) as z:
        if "indptr" not in z:
            return z["X"].astype(np.float64)
        X = sp.csc_array(
            (z["data"].astype(np.float64), z["indices"], z["indptr"]), shape=tuple(z["shape"])
        ).tocsr()
    df = np.diff(X.indptr)
    return sp.csr_array(sp.diags_array(np.log((1 + X.shape[1]) / (1 + df)) + 1) @ X)


@pytest.fixture
def nothing_at_hand(monkeypatch, tmp_path):
    """No data folder, an empty cache: what is found comes from the test."""
    monkeypatch.delenv("CONECOLLAPSE_DATA", raising=False)
    monkeypatch.setenv("CONECOLLAPSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return tmp_path


@pytest.fixture
def data_folder(monkeypatch, nothing_at_hand):
    """An empty folder that ``CONECOLLAPSE_DATA`` names."""
    folder = nothing_at_hand / "data"
    folder.mkdir()
    monkeypatch.setenv("CONECOLLAPSE_DATA", str(folder))
    return folder


PATIENCE = 120_000  # milliseconds: a browser without a graphics card on a busy machine


@pytest.fixture
def run(capfd):
    """Runs the command in this process; its exit code, stdout and stderr."""

    from conecollapse.cli import main

    def command(*arguments):
        capfd.readouterr()
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
        return left.value.code, *capfd.readouterr()

    return command


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium, or one line that says why not."""
    path = find()
    if path is None:
        pytest.skip("no Chromium on this machine (tests/tools/setup_browser.py)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        started = driver.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu"]
        )
        yield started
        started.close()


@pytest.fixture
def open_page(browser):
    """Opens a local page, offline; at the end nothing may have gone wrong in the console or asked
    for the network."""
    contexts, wrong = [], []

    def opened(path, size=(1280, 900), scheme="light"):
        window = {"width": size[0], "height": size[1]}
        context = browser.new_context(
            viewport=window, color_scheme=scheme, offline=True, has_touch=size[0] < 500
        )
        contexts.append(context)
        tab = context.new_page()
        tab.set_default_timeout(PATIENCE)
        tab.on(
            "console",
            lambda message: wrong.append(message.text) if message.type == "error" else None,
        )
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.on(
            "request",
            lambda request: wrong.append(request.url) if request.url.startswith("http") else None,
        )
        tab.goto(path.as_uri())
        return tab

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


def takes_arrays(function):
    """A function of a table that makes one of an array itself: estimators do so at their door."""

    def of_table(X, *args, **kwargs):
        return function(as_table(X), *args, **kwargs)

    return of_table
