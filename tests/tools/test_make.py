"""`make` lists its targets, and says what it installs, and where, before it does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.own

ROOT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path):
    """What `make` reads, in a folder where nothing is installed."""
    for name in (
        "Makefile",
        "pyproject.toml",
        "tests/tools/setup_browser.py",
        "tests/tools/setup_oldest.py",
    ):
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    programs = tmp_path / "programs"
    programs.mkdir()
    return tmp_path


def make(folder, *arguments, python=sys.executable):
    """What `make` prints, where no browser and no package manager can be found."""
    programs = folder / "programs"
    for name in ("sh", "awk", "python3.11"):
        path = shutil.which(name)
        if path and not (programs / name).exists():
            (programs / name).symlink_to(path)
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("MAKE") and name != "SAID"
    } | {"PATH": str(programs)}
    command = [shutil.which("make"), "--no-print-directory", f"PYTHON={python}", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=True
    ).stdout.splitlines()


def install_all(folder):
    for name in (".venv", ".venv-oldest"):
        (folder / name).mkdir()
        (folder / name / ".installed").touch()
    (folder / "programs" / "chromium").write_text("#!/bin/sh\n")
    (folder / "programs" / "chromium").chmod(0o755)


def test_help_has_a_line_for_every_target(checkout):
    lines = make(checkout, "help")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = " ".join(re.findall(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)).split()
    assert sorted(line.split()[1] for line in lines) == sorted(set(phony) - {"announce", "browser"})
    assert all(len(line.split()) > 2 for line in lines)


@pytest.mark.parametrize("target", ["test", "quick"])
def test_a_target_says_what_it_needs_and_where_it_will_be(checkout, target):
    assert [line.split(":")[0] for line in make(checkout, "announce", f"GOALS={target}")] == [
        "To be installed in .venv, in this folder"
    ]


def test_test_all_says_what_it_will_install_and_where(checkout):
    said = make(checkout, "announce", "GOALS=test-all")
    assert said[0].startswith("To be installed in .venv, in this folder: conecollapse (editable), ")
    assert (
        said[-1]
        == "No Chromium on this machine: the tests of the report in a browser will be skipped."
    )
    assert len(said) == 2 or (
        len(said) == 3 and said[1].startswith("To be installed in .venv-oldest, in this folder: ")
    )


def test_nothing_is_said_when_all_is_installed(checkout):
    install_all(checkout)
    assert make(checkout, "announce", "GOALS=test-all") == []
    os.utime(checkout / ".venv" / ".installed", (0, 0))  # older than pyproject.toml
    assert len(make(checkout, "announce", "GOALS=test")) == 1


@pytest.mark.parametrize("target", ["test", "test-all", "quick", "docs"])
def test_it_is_said_before_anything_is_installed(checkout, target):
    recipes = make(checkout, "--dry-run", target)
    said = [i for i, line in enumerate(recipes) if "To be installed in" in line]
    done = [
        i
        for i, line in enumerate(recipes)
        if re.search("-m venv|pip install|setup_browser.py install", line)
    ]
    assert max(said) < min(done)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root installs packages of the system")
def test_a_browser_is_installed_after_it_was_announced_and_not_against_the_users_will(checkout):
    def browser(word, **more):
        environment = {"PATH": str(checkout / "programs"), **more}
        command = [sys.executable, checkout / "tests" / "tools" / "setup_browser.py", word]
        return subprocess.run(
            command, cwd=checkout, env=environment, capture_output=True, text=True, check=True
        ).stdout

    apt = checkout / "programs" / "apt-get"
    apt.write_text("#!/bin/sh\necho $1 >> called\nexit 1\n")
    apt.chmod(0o755)
    (checkout / "programs" / "sh").symlink_to(shutil.which("sh"))
    assert "will be skipped" in browser("plan", CHROMIUM="no")
    assert browser("install", CHROMIUM="no") == ""
    assert browser("plan").startswith(
        "To be installed on this system, outside this folder, with apt-get: chromium "
    )
    assert not (checkout / "called").exists()
    assert browser("install").startswith("apt-get could not install Chromium: ")
    assert (checkout / "called").read_text().split() == ["install", "update", "install"]
    install_all(checkout)
    assert browser("plan") == browser("install") == ""
