"""What a release states about itself agrees: version, changelog, citation, supported Python
versions, templates."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import conecollapse

ROOT = Path(__file__).parents[2]


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


PYPROJECT = tomllib.loads(text("pyproject.toml"))


def test_the_version_of_the_package_is_read_from_its_source():
    assert PYPROJECT["project"]["dynamic"] == ["version"]
    assert "version" not in PYPROJECT["project"]
    source = text(PYPROJECT["tool"]["hatch"]["version"]["path"])
    assert re.findall(r'^__version__ = "(\d+\.\d+\.\d+)"$', source, re.MULTILINE) == [
        conecollapse.__version__
    ]


def test_the_citation_names_the_same_version():
    assert re.findall(r"^version: (.+)$", text("CITATION.cff"), re.MULTILINE) == [
        conecollapse.__version__
    ]


def test_the_changelog_begins_with_the_same_version():
    """Each section is a version with its date, newest first; only the first may be unreleased."""
    sections = re.findall(r"^## (.+)$", text("CHANGELOG.md"), re.MULTILINE)
    found = [
        re.fullmatch(r"(\d+\.\d+\.\d+) \((unreleased|\d{4}-\d\d-\d\d)\)", section)
        for section in sections
    ]
    assert all(found), sections
    versions = [tuple(map(int, section[1].split("."))) for section in found]
    assert ".".join(map(str, versions[0])) == conecollapse.__version__
    assert versions == sorted(set(versions), reverse=True)
    assert "unreleased" not in [section[2] for section in found[1:]]


def test_the_workflow_runs_on_every_python_that_is_declared():
    declared = [
        line.split(" :: ")[-1]
        for line in PYPROJECT["project"]["classifiers"]
        if re.search(r"Python :: 3\.\d+$", line)
    ]
    assert PYPROJECT["project"]["requires-python"] == f">={declared[0]}"
    tested = [
        re.findall(r'"([\d.]+)"', line)
        for line in re.findall(r"python: (\[.+\])", text(".github/workflows/test.yml"))
    ]
    assert tested == [declared]


def test_the_workflow_calls_targets_of_the_makefile():
    called = re.findall(r"run: make ([a-z-]+)", text(".github/workflows/test.yml"))
    assert called == ["test", "test-all"]
    targets = re.findall(r"^([a-z-]+):", text("Makefile"), re.MULTILINE)
    assert set(called) <= set(targets)


def test_a_bug_report_asks_for_version_platform_and_example():
    asked = text(".github/ISSUE_TEMPLATE/bug.md").lower()
    assert all(word in asked for word in ("version and platform", "small example", "error message"))
    command = re.search(r'python -c "(.+?)"', text(".github/ISSUE_TEMPLATE/bug.md"))[1]
    scope: dict = {"print": lambda found: scope.update(found=found)}
    exec(command, scope)
    assert {"python", "system", "conecollapse", "numpy"} <= scope["found"].keys()


def test_the_recipe_for_conda_asks_for_what_the_package_does():
    recipe = text("packaging/conda/meta.yaml")
    assert f'version = "{conecollapse.__version__}"' in recipe
    run, optional = recipe[recipe.index("  run:") : recipe.index("test:")].split("run_constrained:")

    def asked(text):
        minima = dict(re.findall(r"- ([\w-]+) >=([\d.]+)", text))
        return {name: least for name, least in minima.items() if name != "python"}

    def declared(lines):
        return dict(line.split(">=") for line in lines)

    extras = PYPROJECT["project"]["optional-dependencies"]
    assert asked(run) == declared(PYPROJECT["project"]["dependencies"])
    assert asked(optional) == declared(extras["cli"] + extras["report"] + extras["datasets"])
    assert f"python {PYPROJECT['project']['requires-python']}" in run
