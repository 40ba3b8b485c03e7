"""The reference describes every public name once; the page of mathematics has the text of modules
that exist."""

from __future__ import annotations

import importlib
import inspect
import re
from collections import Counter
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PUBLIC = (
    "",
    ".affinity",
    ".datasets",
    ".io",
    ".metrics",
    ".plots",
    ".report",
    ".runs",
    ".scverse",
    ".texts",
)
# of modules that are private otherwise
SINGLE = ("conecollapse.certificates.check",)
DIRECTIVE = re.compile(
    r"^\.\. (currentmodule|auto(?:class|function|data|exception)|function):: ([\w.]+)", re.MULTILINE
)


def described():
    """The full name in each directive of the reference, in order."""
    names = []
    for page in sorted((DOCS / "api").glob("*.md")):
        module = ""
        for kind, name in DIRECTIVE.findall(page.read_text(encoding="utf-8")):
            if kind == "currentmodule":
                module = name
            else:
                names.append(f"{module}.{name}")
    return names


def public_names():
    modules = [f"conecollapse{name}" for name in PUBLIC]
    return [
        *(f"{m}.{name}" for m in modules for name in importlib.import_module(m).__all__),
        *SINGLE,
    ]


def test_every_public_name_is_described_once():
    assert Counter(described()) == Counter(public_names())


def test_no_object_is_described_under_two_names():
    homes = {}
    for full in described():
        module, _, name = full.rpartition(".")
        found = getattr(importlib.import_module(module), name)
        if inspect.isclass(found) or inspect.isfunction(found):
            assert homes.setdefault(found, full) == full


def test_what_factorizations_share_is_described_once():
    text = (DOCS / "api" / "estimators.md").read_text(encoding="utf-8")
    assert ":inherited-members:" not in text
    assert text.index("autoclass:: BaseNMF") == text.index("autoclass::")


def test_the_page_of_mathematics_names_packages_whose_modules_have_texts(monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "_ext")
    lectures = importlib.import_module("lectures")
    source = [(DOCS / "mathematics.md").read_text(encoding="utf-8")]
    packages = lectures.LINE.findall(source[0])
    lectures.write_sections(None, "mathematics", source)
    shown = re.findall(r"automodule:: (\S+)", source[0])
    for package in packages:
        assert any(module.startswith(package) for module in shown)
    for module in shown:
        assert len(importlib.import_module(module).__doc__.split("\n\n")) > 1


@pytest.mark.parametrize("page", sorted(path.name for path in (DOCS / "api").glob("*.md")))
def test_every_page_of_the_reference_is_in_its_contents(page):
    listed = (DOCS / "api" / "index.md").read_text(encoding="utf-8").split()
    assert page == "index.md" or listed.count(page.removesuffix(".md")) == 1
