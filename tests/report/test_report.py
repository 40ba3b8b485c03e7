"""The pages, as text and in a real browser: they open without errors or network, nothing is cut,
overlaps or is blank, on a phone and on paper, figures play, tables sort and search, and no markup
comes from data."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from page_audit import faults

from conecollapse import InvalidInputError
from conecollapse.datasets import load, make_topics
from conecollapse.io import read_table
from conecollapse.io.spectra import read_spectra
from conecollapse.report import page, write_report
from conecollapse.report.parts import Chart
from conecollapse.runs import cluster, judge, rays, unmix

# pixels that are always black
pytestmark = pytest.mark.filterwarnings("ignore::conecollapse.EmptyDataWarning")
SIZES = {"desktop": (1280, 900), "tablet": (768, 1024), "phone": (390, 844)}
PRINTED = 960  # pixels of an A4 or letter page between its margins
EVIL = '<script>document.title="owned"</script>'
TITLE = "<img src=x onerror=alert(1)>"
ENTITY = "&lt;b&gt; &amp; 'quoted' \"twice\""


def digits_table(rows=300):
    digits = load("digits")
    frame = pd.DataFrame(digits.X[:rows], columns=digits.feature_names)
    return replace(read_table(frame, features_in="columns"), source="digits.csv"), digits.y[
        :rows
    ].astype(str)


@pytest.fixture(scope="module")
def digits_run():
    table, target = digits_table()
    return cluster(table, 10, target=target, image_shape=(8, 8), rays=True)


@pytest.fixture(scope="module")
def topics_run():
    """Clusters of words, whose features lie in one cluster each."""
    X = make_topics(60, 80, 4, random_state=0).X.toarray()
    frame = pd.DataFrame(
        X, columns=[f"word{j}" for j in range(80)], index=[f"document {i}" for i in range(60)]
    )
    return cluster(read_table(frame, features_in="columns"), 4, random_state=0)


@pytest.fixture(scope="module")
def unmix_run(tmp_path_factory):
    """An image that is higher than wide, of three spectra and their mixtures."""
    rng = np.random.default_rng(0)
    spectra = np.exp(-0.5 * ((np.arange(30) - np.array([[5], [14], [24]])) / 4) ** 2)
    cube = rng.dirichlet([0.4, 0.4, 0.4], (40, 8)) @ spectra + 0.002 * rng.random((40, 8, 30))
    path = tmp_path_factory.mktemp("cube") / "long_cube.npy"
    np.save(path, cube)
    return unmix(read_spectra(path), 3)


@pytest.fixture(scope="module")
def judgement():
    digits = load("digits")
    ordinary, other = digits.X[digits.y < 9], digits.X[digits.y == 9]
    trusted, new = (
        pd.DataFrame(X, columns=digits.feature_names)
        for X in (ordinary[:200], np.vstack([ordinary[200:250], other[:10]]))
    )
    return judge(trusted, new.set_axis([f"image {i}" for i in range(60)]), features_in="columns")


@pytest.fixture(scope="module")
def hostile_table():
    """Names that try to be markup, in every place where names stand."""
    X = make_topics(40, 30, 3, random_state=0).X.toarray()
    frame = pd.DataFrame(
        X,
        columns=[f"{EVIL}{j}" for j in range(30)],
        index=[f"{ENTITY} {EVIL}{i}" for i in range(40)],
    )
    return replace(read_table(frame, features_in="columns"), source=f"{TITLE}.csv")


@pytest.fixture(scope="module")
def hostile_run(hostile_table):
    return cluster(hostile_table, 3, target=np.array([EVIL, ENTITY])[np.arange(40) % 2], rays=True)


@pytest.fixture
def open_report(open_page, tmp_path):
    """Writes and opens the page of a run."""

    def opened(run, size="desktop", scheme="light"):
        path = tmp_path / "report.html"
        write_report(path, run)
        return open_page(path, SIZES[size], scheme)

    return opened


@pytest.mark.slow
def test_the_page_says_what_was_found(digits_run):
    text = page(digits_run)
    sizes = np.bincount(digits_run.labels)
    assert (
        f"The 300 samples fall into 10 clusters of {sizes.min()} to {sizes.max()} samples." in text
    )
    assert f"extreme rays</th><td>{digits_run.cone.n_rays}</td>" in text
    outside = re.findall(
        r"<(?:script|link|img|iframe)[^>]+(?:src|href)=[\"']?([^\"'> ]+)",
        text[: text.index('id="data"')],
    )
    assert all(address.startswith("data:") for address in outside)


@pytest.mark.slow
def test_pages_of_small_runs_are_small(digits_run, topics_run, unmix_run, judgement):
    for run in (digits_run, topics_run, unmix_run, judgement):
        assert len(page(run).encode()) < 2e6, run.kind


def test_markup_in_names_stays_text(hostile_table, hostile_run):
    hostile = judge(
        hostile_table.X[:30],
        pd.DataFrame(
            100 - hostile_table.X, columns=hostile_table.features, index=hostile_table.samples
        ),
    )
    for run in (hostile_run, hostile):
        text = page(run)
        assert EVIL not in text, run.kind
        assert text.count("<script") == text.count("</script>") == 3 + text.count('"<script'), (
            run.kind
        )  # ours; plotly.js has one in a string
        assert "&lt;script&gt;" in text, run.kind


def test_a_broken_write_leaves_nothing(hostile_run, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        write_report(tmp_path / "report.html", hostile_run)
    assert list(tmp_path.iterdir()) == []


def test_what_has_no_report_is_refused(hostile_table):
    with pytest.raises(InvalidInputError, match="there is no report of 'rays'"):
        page(rays(hostile_table, max_rays=3))


def test_the_slice_has_the_rays_at_its_corners_and_no_feature_outside(hostile_run):
    from conecollapse.report.clustering import contents

    parts = contents(hostile_run).all_parts()
    dots, polygon, rays = next(
        part.figure.data[:3] for part in parts if isinstance(part, Chart) and part.name == "cone"
    )
    corners = np.column_stack([polygon.x, polygon.y])
    assert set(rays.x) == set(polygon.x)
    side = np.diff(corners, axis=0)
    for x, y in zip(dots.x, dots.y, strict=True):
        across = side[:, 0] * (y - corners[:-1, 1]) - side[:, 1] * (x - corners[:-1, 0])
        assert (across >= -1e-3).all() or (across <= 1e-3).all()  # on the same side of every edge


def test_a_report_solves_nothing(hostile_run, unmix_run, judgement, monkeypatch):
    def solve(*_, **__):
        raise AssertionError("a report solved a problem")

    solvers = ("conecollapse.Cone.from_points", "conecollapse.Cone.approximate")
    for place in (*solvers, "conecollapse.GraphCCNMF.transform", "scipy.optimize.nnls"):
        monkeypatch.setattr(place, solve)
    for run in (hostile_run, unmix_run, judgement):
        assert page(run)


@pytest.mark.parametrize("name", ["digits_run", "topics_run", "unmix_run", "judgement"])
def test_nothing_is_cut_overlaps_or_is_blank(name, request, open_report):
    """At three widths, in light and in dark, and as a print; the page is loaded once, on the widest
    screen."""
    tab = open_report(request.getfixturevalue(name))
    for width, height in SIZES.values():
        tab.set_viewport_size({"width": width, "height": height})
        tab.wait_for_timeout(400)  # plotly waits a little before it draws again
        assert faults(tab) == [], width
        tab.locator("#theme").click()
    assert tab.evaluate("document.documentElement.dataset.theme") == "dark"
    tab.set_viewport_size({"width": 1280, "height": 900})
    tab.evaluate(
        """() => {
          window.printed = [];
          const charts = () => [...document.querySelectorAll(".chart .main-svg")];
          window.addEventListener("beforeprint", () => window.printed.push(
            document.documentElement.dataset.theme, ...charts().map((svg) => svg.clientWidth)));
        }"""
    )
    assert tab.pdf(format="A4")[:5] == b"%PDF-"
    theme, *widths = tab.evaluate("window.printed")
    assert theme == "light"
    assert all(width <= 660 for width in widths)
    assert tab.evaluate("document.documentElement.dataset.theme") == "dark"
    tab.emulate_media(media="print")
    heights = tab.evaluate(
        "[...document.querySelectorAll('figure, .card')].map((box) =>"
        " box.getBoundingClientRect().height)"
    )
    assert max(heights) < PRINTED  # with break-inside: avoid, none is split
    assert {
        tab.evaluate(f"getComputedStyle(document.querySelector('{box}')).breakInside")
        for box in ("figure", "tr")
    } == {"avoid"}
    for control in ("nav", ".table input", ".more", ".slider-container", ".updatemenu-container"):
        assert tab.locator(control).evaluate_all(
            "all => all.every((one) => getComputedStyle(one).display === 'none')"
        ), control


def test_a_phone_with_hostile_names(hostile_run, open_report):
    tab = open_report(hostile_run, "phone", "dark")
    # names longer than a line have to be broken
    assert [fault for fault in faults(tab) if "is broken" not in fault] == []
    assert tab.title().startswith(TITLE)
    assert tab.locator("main script, .modebar").count() == 0
    assert EVIL in tab.locator(".card").first.inner_text()
    assert ENTITY in tab.locator("[data-table=samples] tbody").inner_text()
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    # a finger scrolls the page
    assert tab.locator("[data-chart=map]").evaluate("place => place._fullLayout.dragmode") is False


def test_tables_sort_and_search(digits_run, open_report):
    tab = open_report(digits_run)
    table = tab.locator("[data-table=samples]")
    header = table.locator("th button", has_text="distance")
    column = (
        "[...document.querySelectorAll('[data-table=samples] tbody tr')].map(row =>"
        " Number(row.children[3].textContent))"
    )
    header.click()
    falling = tab.evaluate(column)
    assert falling == sorted(falling, reverse=True)
    assert len(falling) == 10
    header.click()
    rising = tab.evaluate(column)
    assert rising == sorted(rising)
    assert table.locator("th").nth(3).get_attribute("aria-sort") == "ascending"
    table.locator("input").fill("sample 29")
    assert table.locator("tbody tr").count() == 10
    assert "10 of 11 rows" in table.inner_text()  # 29, and 290 to 299
    table.locator("input").fill("nothing like it")
    assert table.locator("tbody tr").count() == 0
    table.locator("input").fill("")
    table.locator("button", has_text="show more").click()
    assert table.locator("tbody tr").count() == 100


def test_the_audit_sees_faults(open_page, tmp_path):
    """Each fault that the other tests look for, on a page made of them."""
    boxes = {
        "beyond the window": (
            '<p style="white-space: nowrap; width: 10px">this line is too long for a window of so'
            " few pixels</p>"
        ),
        "cut": '<p style="white-space: nowrap; overflow: hidden; width: 40px">a cut text</p>',
        "is broken": '<h2 style="width: 30px; overflow-wrap: anywhere">incomprehensible</h2>',
        "overlap": '<p style="height: 10px">one<br>two</p><p style="margin-top: -20px">three</p>',
        "blank": '<div class="chart" style="height: 50px"></div>',
    }
    path = tmp_path / "bad.html"
    path.write_text(f"<!doctype html><main>{''.join(boxes.values())}</main>", encoding="utf-8")
    said = "\n".join(faults(open_page(path, SIZES["phone"])))
    assert [fault for fault in boxes if fault not in said] == []


@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_screenshot(digits_run, open_report, size, tmp_path):
    """The pictures in the documentation; `make screenshots` puts them there."""
    tab = open_report(digits_run, size)
    folder = Path(os.environ.get("CONECOLLAPSE_SCREENSHOTS") or tmp_path)
    picture = folder / f"report-{size}.png"
    tab.screenshot(path=picture)
    assert picture.stat().st_size > 20_000
