"""The report, as text and in a real browser: it opens without errors or network, plays, sorts, searches, and holds no markup from data."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import draw_all

from conecollapse.datasets import load, make_topics
from conecollapse.io import read_table
from conecollapse.report import page, write_report
from conecollapse.runs import cluster

pytestmark = pytest.mark.filterwarnings("ignore::conecollapse.EmptyDataWarning")  # pixels that are always black
SIZES = {"desktop": (1280, 900), "phone": (390, 844)}
EVIL = '<script>document.title="owned"</script>'
TITLE = "<img src=x onerror=alert(1)>"
ENTITY = "&lt;b&gt; &amp; 'quoted' \"twice\""


@pytest.fixture(scope="module")
def digits_run():
    digits = load("digits")
    frame = pd.DataFrame(digits.X[:500], columns=digits.feature_names)
    return cluster(read_table(frame, features_in="columns"), 10, target=digits.y[:500].astype(str), image_shape=(8, 8), random_state=0)


@pytest.fixture(scope="module")
def hostile_run():
    """Names that try to be markup, in every place where names stand."""
    X = make_topics(40, 30, 3, random_state=0).X.toarray()
    frame = pd.DataFrame(X, columns=[f"{EVIL}{j}" for j in range(30)], index=[f"{ENTITY} {EVIL}{i}" for i in range(40)])
    table = replace(read_table(frame, features_in="columns"), source=f"{TITLE}.csv")
    return cluster(table, 3, target=np.array([EVIL, ENTITY])[np.arange(40) % 2], random_state=0)


@pytest.fixture
def open_report(open_page, tmp_path):
    """Writes and opens the report of a run."""

    def opened(run, size="desktop", scheme="light"):
        path = tmp_path / "report.html"
        write_report(path, run)
        return open_page(path, SIZES[size], scheme)

    return opened


@pytest.mark.slow
def test_the_page_says_what_was_found(digits_run):
    text = page(digits_run)
    sizes = np.bincount(digits_run.labels)
    assert f"The 500 samples fall into 10 clusters of {sizes.min()} to {sizes.max()} samples." in text
    assert f"{digits_run.cone.n_rays}" in text
    assert len(text) < 15e6
    outside = re.findall(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=[\"']?([^\"'> ]+)", text[: text.index('id="data"')])
    assert outside == ["data:,"]


def test_markup_in_names_stays_text(hostile_run):
    text = page(hostile_run)
    assert EVIL not in text
    assert text.count("<script") == text.count("</script>") == 3 + text.count('"<script')  # ours; plotly.js holds the word in a string
    assert "&lt;script&gt;" in text


def test_a_broken_write_leaves_nothing(hostile_run, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        write_report(tmp_path / "report.html", hostile_run)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", SIZES)
def test_every_figure_draws_and_nothing_overflows(digits_run, open_report, size):
    tab = open_report(digits_run, size)
    draw_all(tab)
    assert tab.locator(".figure .main-svg").count() > 20
    assert tab.evaluate("document.documentElement.scrollWidth") <= SIZES[size][0]
    for summary in tab.locator("summary").all():
        summary.click()
    draw_all(tab)
    assert tab.locator("[data-figure=cap] canvas").count() >= 1


def test_hostile_names_in_the_browser(hostile_run, open_report):
    tab = open_report(hostile_run)
    draw_all(tab)
    assert tab.title().startswith(TITLE)
    assert tab.locator("main script").count() == 0
    assert EVIL in tab.locator(".card").first.inner_text()
    assert ENTITY in tab.locator("[data-table=samples] tbody").inner_text()


def test_the_collapse_plays_pauses_and_slides(digits_run, open_report):
    tab = open_report(digits_run)
    figure = tab.locator("[data-figure=collapse]")
    figure.scroll_into_view_if_needed()
    tab.wait_for_selector("[data-figure=collapse] .updatemenu-button")
    step = "document.querySelector('[data-figure=collapse]')._fullLayout.sliders[0].active"
    assert tab.evaluate(step) == 0
    figure.locator(".updatemenu-button").nth(0).click()
    tab.wait_for_function(f"{step} >= 2")
    figure.locator(".updatemenu-button").nth(1).click()
    tab.wait_for_timeout(100)
    paused = tab.evaluate(step)
    tab.wait_for_timeout(1000)
    assert tab.evaluate(step) == paused
    rail = figure.locator(".slider-rail-touch-rect").bounding_box()
    tab.mouse.click(rail["x"] + 0.98 * rail["width"], rail["y"] + rail["height"] / 2)
    last = tab.evaluate("document.querySelector('[data-figure=collapse]')._transitionData._frames.length") - 1
    tab.wait_for_function(f"{step} === {last}")
    free = "[...document.querySelector('[data-figure=collapse]')._fullData[2].x]"
    tab.wait_for_function(f"!{free}.some(Number.isFinite)")  # at the end every ray is a feature


def test_tables_sort_and_search(digits_run, open_report):
    tab = open_report(digits_run)
    table = tab.locator("[data-table=samples]")
    header = table.locator("th button", has_text="distance")
    column = "[...document.querySelectorAll('[data-table=samples] tbody tr')].map(row => Number(row.children[3].textContent))"
    table.locator("tbody tr").first.wait_for()  # the script that sorts has run
    header.click()
    table.locator("th[aria-sort=descending]").wait_for()
    falling = tab.evaluate(column)
    assert falling == sorted(falling, reverse=True)
    assert len(falling) == 100
    header.click()
    table.locator("th[aria-sort=ascending]").wait_for()
    rising = tab.evaluate(column)
    assert rising == sorted(rising)
    assert table.locator("th").nth(3).get_attribute("aria-sort") == "ascending"
    table.locator("input").fill("sample 49")
    assert table.locator("tbody tr").count() == 11  # 49, and 490 to 499
    table.locator("input").fill("nothing like it")
    assert table.locator("tbody tr").count() == 0
    table.locator("input").fill("")
    table.locator("button", has_text="show more").click()
    assert table.locator("tbody tr").count() == 500


def test_light_and_dark(digits_run, open_report):
    tab = open_report(digits_run, scheme="dark")
    draw_all(tab)
    colour = "getComputedStyle(document.body).backgroundColor"
    dark = tab.evaluate(colour)
    tab.locator("#theme").click()
    light = tab.evaluate(colour)
    assert dark != light == "rgb(255, 255, 255)"


@pytest.mark.parametrize("size", SIZES)
def test_screenshot(digits_run, open_report, size, tmp_path):
    """The pictures in the documentation; `make screenshots` puts them there."""
    tab = open_report(digits_run, size)
    draw_all(tab)
    tab.evaluate("window.scrollTo(0, 0)")
    folder = Path(os.environ.get("CONECOLLAPSE_SCREENSHOTS") or tmp_path)
    picture = folder / f"report-{size}.png"
    tab.screenshot(path=picture)
    assert picture.stat().st_size > 20_000
    if size == "desktop":
        figure = tab.locator("[data-figure=collapse]")
        figure.scroll_into_view_if_needed()
        figure.locator(".updatemenu-button").nth(0).click()
        tab.wait_for_function("document.querySelector('[data-figure=collapse]')._fullLayout.sliders[0].active >= 2")
        figure.locator(".updatemenu-button").nth(1).click()
        figure.screenshot(path=folder / "report-collapse.png")
