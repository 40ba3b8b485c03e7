"""Have a Chromium for the tests of the report: find one, or install Debian's where that may be done.

One line says so when a machine cannot have it; the tests that need it then skip.
"""

from __future__ import annotations

import os
import shutil
import subprocess

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find() -> str | None:
    """Path of a Chromium on this machine."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


def install() -> bool:
    """Install Debian's chromium; whether that worked."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return False
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": os.environ | {"DEBIAN_FRONTEND": "noninteractive"}}
    get = ["apt-get", "install", "--yes", "--no-install-recommends", "chromium", "fonts-dejavu-core"]
    if subprocess.run(get, check=False, **quiet).returncode != 0:
        subprocess.run(["apt-get", "update"], check=False, **quiet)
        subprocess.run(get, check=False, **quiet)
    return find() is not None


if __name__ == "__main__" and not find() and not install():
    print("No Chromium on this machine, and none could be installed: tests of the report in a browser will skip.")
