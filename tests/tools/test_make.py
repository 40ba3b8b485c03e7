"""`make` lists its targets, and says what it installs, and where, before it does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import setup_browser

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


def test_test_says_what_it_will_install_and_where(checkout):
    assert [line.split(":")[0] for line in make(checkout, "announce", "GOALS=test")] == [
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


def test_a_target_speaks_of_what_it_needs_only(checkout):
    assert [line.split(":")[0] for line in make(checkout, "announce", "GOALS=quick")] == [
        "To be installed in .venv, in this folder"
    ]


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


class TestBrowser:
    @pytest.fixture(autouse=True)
    def machine(self, monkeypatch):
        """A Debian machine without a browser, and root at work; what would be run is recorded."""
        self.programs, self.run = {"apt-get"}, []
        monkeypatch.setattr(
            setup_browser.shutil,
            "which",
            lambda name: f"/usr/bin/{name}" if name in self.programs else None,
        )
        monkeypatch.setattr(setup_browser.os, "geteuid", lambda: 0)
        monkeypatch.delenv("CHROMIUM", raising=False)

        def run(command, **_):
            self.run.append(command[:2])
            return subprocess.CompletedProcess(command, 1)

        monkeypatch.setattr(setup_browser.subprocess, "run", run)

    def test_packages_of_the_system_are_announced(self, capsys):
        assert setup_browser.plan().startswith(
            "To be installed on this system, outside this folder, with apt-get: chromium "
        )
        assert self.run == []
        setup_browser.install()
        assert self.run == [["apt-get", "install"], ["apt-get", "update"], ["apt-get", "install"]]
        assert capsys.readouterr().out.startswith("apt-get could not install Chromium: ")

    def test_nothing_is_installed_against_the_user_s_will_or_without_rights(self, monkeypatch):
        monkeypatch.setenv("CHROMIUM", "no")
        assert "will be skipped" in setup_browser.plan()
        setup_browser.install()
        monkeypatch.delenv("CHROMIUM")
        monkeypatch.setattr(setup_browser.os, "geteuid", lambda: 1000)
        assert "will be skipped" in setup_browser.plan()
        setup_browser.install()
        assert self.run == []

    def test_a_browser_that_is_there_is_used(self):
        self.programs.add("chromium")
        assert setup_browser.plan() is None
        setup_browser.install()
        assert self.run == []
