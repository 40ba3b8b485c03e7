"""The README's examples run as they stand, and print what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def blocks(name):
    return re.findall(
        r"```python\n(.*?)```", (ROOT / name).read_text(encoding="utf-8"), flags=re.DOTALL
    )


def recorded_blocks(name):
    """Each Python block, with the text block below it that says what it prints; an empty text where
    there is none."""
    return re.findall(
        r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?",
        (ROOT / name).read_text(encoding="utf-8"),
        flags=re.DOTALL,
    )


def test_readme(capsys):
    scope = {}
    for code, recorded in recorded_blocks("README.md"):
        exec(compile(code, "README.md", "exec"), scope)
        assert capsys.readouterr().out == recorded


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120
    assert len((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines()) <= 50


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::conecollapse.EmptyDataWarning")
@pytest.mark.parametrize(
    "page",
    [
        "index",
        "theory",
        "texts",
        "spectra",
        "catalogue",
        "how-sure",
        "epsilon-cone",
        "few-labels",
        "novelty",
        "hulls",
        "missing",
        "datasets",
        "factorizations",
        "what-reproduces",
        "scale",
    ],
)
def test_pages(page):
    page = f"docs/{page}.md"
    scope = {}
    for block in blocks(page):
        exec(compile(block, page, "exec"), scope)


def test_start_prints_what_it_says(capsys):
    scope = {}
    for code, printed in recorded_blocks("docs/start.md"):
        exec(compile(code, "start.md", "exec"), scope)
        assert capsys.readouterr().out == printed


def test_links_lead_somewhere():
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            made = target.endswith("gallery/index")  # by Sphinx
            assert made or (page.parent / target).exists(), f"{page.name}: {target}"
