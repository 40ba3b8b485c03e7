"""The README's examples run as they stand, and print what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


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
    printed = ""
    for code, recorded in recorded_blocks("README.md"):
        exec(compile(code, "README.md", "exec"), scope)
        out = capsys.readouterr().out
        assert out == recorded or not recorded
        printed += out
    assert "[0 1 2 3 4]" in printed
    assert "[ True False]" in printed
    assert scope["few"].path.residuals[-1] <= 0.1
    assert scope["x"].shape == (5, 205)


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
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_badges_are_true():
    scope = {"__name__": "badges", "__file__": str(ROOT / "docs" / "badges.py")}
    exec(
        compile((ROOT / "docs" / "badges.py").read_text(encoding="utf-8"), "badges.py", "exec"),
        scope,
    )
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name, words in scope["facts"]().items():
        file = ROOT / "docs" / "figures" / f"badge-{name}.svg"
        assert file.read_text(encoding="utf-8") == scope["draw"](*words), (
            f"{name}: run python docs/badges.py"
        )
        assert f"docs/figures/{file.name}" in readme
