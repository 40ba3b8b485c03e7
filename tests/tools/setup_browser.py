"""A Chromium for the tests of the report: find one, or install Debian's packages where that is
possible.

    python tests/tools/setup_browser.py plan  # print what `install` would do, and change nothing
    python tests/tools/setup_browser.py install

Packages are installed only by root, with apt-get, and never where the environment says
``CHROMIUM=no``. The tests that need a browser are skipped where there is none.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PACKAGES = ("chromium", "fonts-dejavu-core")


def find() -> str | None:
    """Path of a Chromium on this machine."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


def may_install() -> bool:
    """Whether Debian's packages can be installed, and the user has not declined."""
    return (
        os.environ.get("CHROMIUM") != "no"
        and os.geteuid() == 0
        and shutil.which("apt-get") is not None
    )


def plan() -> str | None:
    """What `install` would do, in one line; None where a browser is there."""
    if find():
        return None
    if may_install():
        return (
            "To be installed on this system, outside this folder, with apt-get:"
            f" {' and '.join(PACKAGES)} (CHROMIUM=no leaves them out)."
        )
    return "No Chromium on this machine: the tests of the report in a browser will be skipped."


def install() -> None:
    """Install Debian's packages where no browser is there and it is possible."""
    if find() or not may_install():
        return
    quiet = {
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
        "env": os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
    }
    get = ["apt-get", "install", "--yes", "--no-install-recommends", *PACKAGES]
    if subprocess.run(get, check=False, **quiet).returncode != 0:
        subprocess.run(["apt-get", "update"], check=False, **quiet)
        subprocess.run(get, check=False, **quiet)
    if not find():
        print(
            "apt-get could not install Chromium: the tests of the report in a browser will be"
            " skipped."
        )


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["plan"]:
            if (line := plan()) is not None:
                print(line)
        case ["install"]:
            install()
        case _:
            sys.exit(__doc__)
