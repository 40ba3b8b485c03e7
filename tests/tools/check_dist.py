"""Build the wheel and the source archive, and try both where nothing of the checkout is:
``python tests/tools/check_dist.py [--out dist]``.

Each is installed with its dependencies into a new environment in a temporary folder, and the
command is run there: its version, its diagnosis, and the demonstration. `make dist` calls this.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*command: str | Path, cwd: Path) -> str:
    """Run a program outside the checkout; what it prints."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def check(archive: Path, folder: Path) -> None:
    """Install one archive into an environment of its own, and use it."""
    run(sys.executable, "-m", "venv", folder / "env", cwd=folder)
    python = folder / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"
    run(
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        archive,
        cwd=folder,
    )
    place = run(
        python, "-c", "import conecollapse; print(conecollapse.__file__)", cwd=folder
    ).strip()
    if not Path(place).is_relative_to(folder):
        sys.exit(f"{archive.name} was installed, but {place} is imported.")
    print(f"{archive.name}: {run(python, '-m', 'conecollapse', '--version', cwd=folder).strip()}")
    print(run(python, "-m", "conecollapse", "--version", "--verbose", cwd=folder))
    said = run(python.with_name("conecollapse"), "demo", cwd=folder)
    if not (folder / "conecollapse-demo" / "run" / "report.html").is_file():
        sys.exit("the demonstration wrote no report.")
    print(f"demo: {said.strip().splitlines()[-3]}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, default=ROOT / "dist", help="where the archives are written"
    )
    parser.add_argument("--only", choices=["wheel", "sdist"], help="try only this one")
    arguments = parser.parse_args()
    shutil.rmtree(arguments.out, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", arguments.out.absolute(), ROOT, cwd=ROOT)
    for kind, pattern in (("wheel", "*.whl"), ("sdist", "*.tar.gz")):
        if arguments.only in (None, kind):
            (archive,) = arguments.out.absolute().glob(pattern)
            with tempfile.TemporaryDirectory(prefix="conecollapse-dist-") as folder:
                check(archive, Path(folder).resolve())


if __name__ == "__main__":
    main()
