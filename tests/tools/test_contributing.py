"""The pages for contributors work as they stand: what they add to a copy of the package runs
there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.own

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "dev"
# of src, for each recipe
MOST_FILES = {"add-a-method": 4, "add-a-table-kind": 2, "add-a-file-format": 2}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```|^`(src/[^`\n]+)`[^\n]*:$", re.DOTALL | re.MULTILINE)


class Recipe(NamedTuple):
    """What a page says: new files, changes of files as pairs (old, new), code to run, and
    commands."""

    new: dict[str, str]
    changes: dict[str, list[tuple[str, str]]]
    code: list[str]
    commands: list[list[str]]

    @property
    def files(self):
        return {*self.new, *self.changes}


def recipe(text):
    """A line that ends in a colon and begins with a file is followed by that file, or by changes of
    it."""
    found, file = Recipe({}, {}, [], []), ""
    for kind, block, named in BLOCK.findall(text):
        if named:
            file = named
        elif kind == "diff":
            old, new = (
                "".join(f"{line[1:]}\n" for line in block.splitlines() if line[0] in f" {sign}")
                for sign in "-+"
            )
            found.changes.setdefault(file, []).append((old, new))
        elif kind == "console":
            found.commands.extend(
                line.removeprefix("$ conecollapse ").split() for line in block.splitlines()
            )
        elif file and file not in found.files:
            found.new[file] = block
        else:
            found.code.append(block)
    return found


def page(name):
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


def follow(found, folder):
    """Add to ``folder``, a copy of the repository, what the page says; a change must fit exactly
    one place."""
    for file, text in found.new.items():
        assert not (folder / file).exists(), f"{file} is there already"
        (folder / file).write_text(text, encoding="utf-8")
    for file, changes in found.changes.items():
        text = (folder / file).read_text(encoding="utf-8")
        for old, new in changes:
            assert text.count(old) == 1, f"{file} has {text.count(old)} places like\n{old}"
            text = text.replace(old, new)
        (folder / file).write_text(text, encoding="utf-8")


@pytest.fixture
def checkout(tmp_path):
    """A copy of src, with the kernels that are compiled already."""
    shutil.copytree(ROOT / "src", tmp_path / "src")
    return tmp_path


@pytest.mark.parametrize("name", MOST_FILES)
def test_a_recipe_changes_few_files_and_names_them(name, checkout):
    text = page(name)
    found = recipe(text)
    assert len(found.files) <= MOST_FILES[name]
    follow(found, checkout)
    listed = re.findall(r"^\| `([^`]+\.py)`(?:, new)? \|", text, flags=re.MULTILINE)
    assert {f"src/conecollapse/{file}" for file in listed} == found.files
    assert found.code


@pytest.mark.full
@pytest.mark.parametrize("name", MOST_FILES)
def test_a_recipe_works(name, checkout):
    found = recipe(page(name))
    follow(found, checkout)
    modules = [
        file.removeprefix("src/").removesuffix(".py").replace("/", ".") for file in found.new
    ]
    doctests = (
        f"import doctest, importlib\nfor name in {modules}:\n    assert not"
        " doctest.testmod(importlib.import_module(name)).failed\n"
    )
    (checkout / "page.py").write_text("\n".join([doctests, *found.code]), encoding="utf-8")
    run(checkout, "-W", "ignore", "page.py")
    for words in found.commands:
        run(checkout, "-m", "conecollapse", *words)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ruff") is None, reason="no ruff")
@pytest.mark.parametrize("name", MOST_FILES)
def test_what_a_recipe_adds_has_the_style_of_the_rest(name, checkout):
    found = recipe(page(name))
    follow(found, checkout)
    shutil.copy(ROOT / "pyproject.toml", checkout)
    run(checkout, "-m", "ruff", "check", "--no-cache", *found.files)
    run(checkout, "-m", "ruff", "format", "--no-cache", "--check", *found.files)


def test_the_table_of_layers_is_that_of_the_import_contract():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "importlinter"
    ]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    text = (PAGES / "layout.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| `(\w+)` \|", text[text.index("| layer |") :], flags=re.MULTILINE)
    for layer in layers:
        names = {name.strip().removeprefix("conecollapse.") for name in layer.split("|")}
        assert {table.pop(0) for _ in names} == names
    assert not table
    # py.typed
    modules = {path.stem for path in (ROOT / "src" / "conecollapse").iterdir()} - {
        "__init__",
        "__main__",
        "__pycache__",
        "py",
    }
    assert {
        name for layer in layers for name in re.findall(r"conecollapse\.(\w+)", layer)
    } == modules


@pytest.mark.parametrize(
    "file",
    ["CONTRIBUTING.md", *(f"docs/dev/{name}.md" for name in MOST_FILES), "docs/index.md"],
)
def test_text_is_wrapped(file):
    text = re.sub(
        r"^(`{3,})(?:python|diff)\n.*?^\1",
        "",
        (ROOT / file).read_text(encoding="utf-8"),
        flags=re.DOTALL | re.MULTILINE,
    )
    assert [line for line in text.splitlines() if len(line) > 120] == []


def run(folder, *words):
    """Python in ``folder``, with the package that is there."""
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
