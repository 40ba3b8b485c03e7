"""The package runs where nothing can be written, and with the oldest versions that it declares."""

from __future__ import annotations

import importlib.util
import os
import pickle
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import tomllib
import warnings
from importlib.metadata import version
from pathlib import Path

import numba
import numpy as np
import pytest
from packaging.version import Version
from setup_oldest import EXTRAS, PYPROJECT, oldest

import conecollapse
from conecollapse import _kernels
from conecollapse._kernels import kernel
from conecollapse._nnls.factor import axpy

ROOT = PYPROJECT.parent
NOBODY = 65534
DOUBLE = "def double(x):\n    return 2 * x\n"
CANNOT = "compiled kernels cannot be kept .* set NUMBA_CACHE_DIR to a folder that can be written"


@pytest.fixture
def nothing_said(monkeypatch):
    """A process that has not yet said that kernels cannot be kept."""
    monkeypatch.setattr(_kernels, "_said", [])


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """The folder in which numba keeps kernels."""
    with monkeypatch.context() as context:
        context.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kernels"))
        numba.config.reload_config()
        yield tmp_path / "kernels"
    numba.config.reload_config()


@pytest.fixture
def module(tmp_path, kernels):  # noqa: ARG001
    """A function that makes a new kernel ``double`` from a file, kept in ``kernels``."""
    file = tmp_path / "module.py"
    file.write_text(f"from conecollapse._kernels import kernel\n\n@kernel\n{DOUBLE}")

    def loaded():
        spec = importlib.util.spec_from_file_location("module", file)
        made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        return made.double

    return loaded


@pytest.mark.usefixtures("nothing_said")
def test_a_kernel_that_cannot_be_kept_runs_and_one_warning_says_so():
    scope: dict = {}
    exec(compile(DOUBLE, "<no file>", "exec"), scope)  # numba has no place for what is in no file
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first, second = kernel(scope["double"]), kernel(fastmath=True)(scope["double"])
    with pytest.warns(UserWarning, match=CANNOT) as said:
        assert first(3) == second(3) == 6
    assert len(said) == 1


def test_kernels_are_kept_in_numbas_folder(module, kernels):
    assert module()(3) == 6
    assert len(list(kernels.rglob("*.nb[ic]"))) == 2
    again = module()
    assert again(3) == 6
    assert sum(again.compiled().stats.cache_hits.values()) == 1


INNER = """from conecollapse._kernels import kernel
BY = {by}
@kernel{options}
def inner(x):
    return {code}
"""
OUTER = """from conecollapse._kernels import kernel
from inner import BY, inner
@kernel
def outer(x):
    return BY * inner(x)
"""


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("change", [{"by": 3}, {"code": "x + 2"}, {"options": "(fastmath=True)"}])
def test_a_kernel_is_compiled_anew_when_another_file_changes_what_is_built_into_it(
    change, tmp_path, monkeypatch
):
    """An old one would go on with the constants and kernels of before, as after an upgrade of the
    package."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "outer.py").write_text(OUTER)

    def outer(**parts):
        parts = {"by": 2, "code": "x + 1", "options": ""} | parts
        (tmp_path / "inner.py").write_text(INNER.format(**parts))
        for name in ("inner", "outer"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        # bytecode, known by the second in which a file was written
        shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
        made = importlib.import_module("outer").outer
        return made(5), sum(made.compiled().stats.cache_hits.values())

    assert outer() == (12, 0)
    assert outer() == (12, 1)
    value, hits = outer(**change)
    assert hits == 0
    assert value == {"by": 18, "code": 14}.get(*change, 12)


@pytest.mark.usefixtures("nothing_said")
@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.filterwarnings(f"ignore:{CANNOT}")
def test_a_damaged_cache_counts_as_none(module, kernels, suffix):
    assert module()(3) == 6
    for file in kernels.rglob(f"*.{suffix}"):
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    assert module()(3) == 6


@pytest.mark.usefixtures("nothing_said")
def test_a_full_disk_costs_the_cache_and_not_the_result(module):
    limit, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, most))  # not a byte in any file
    try:
        with pytest.warns(UserWarning, match=CANNOT):
            value = module()(3)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
    assert value == 6


EXAMPLE = Path(__file__).parents[2] / "examples" / "pipeline.py"
IN_A_CONTAINER = """
import resource
import sys
import numpy as np

data, out, example = sys.argv[1:]
limit, most = resource.getrlimit(resource.RLIMIT_FSIZE)
# not a byte in any file, temporary ones included
resource.setrlimit(resource.RLIMIT_FSIZE, (0, most))
import conecollapse
print(conecollapse.__file__)
X = np.loadtxt(data, delimiter=",", skiprows=1)
model = conecollapse.CCNMF(3, random_state=0).fit(X)
print(sorted(set(model.labels_.tolist())), model.cone_.n_rays)
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))

import runpy
from pathlib import Path
runpy.run_path(example)["main"](Path(out).parent)

from conecollapse.cli import main
main(["cluster", data, "-k", "3", "--features-in", "columns", "--out", out])
"""


@pytest.fixture
def everybodys_folder():
    """Unlike ``tmp_path``, a folder that other users may enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.full
def test_it_clusters_in_a_read_only_installation_without_a_home(everybodys_folder):
    """As a user who may read everything and write nowhere but in the folder of the results."""
    # the interpreter may be in a private folder
    read = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *read]
    if (
        not shutil.which("setpriv")
        or subprocess.run([*as_nobody, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("only root can run a command as another user, with setpriv")
    site, results, data = (everybodys_folder / name for name in ("site", "results", "data.csv"))
    shutil.copytree(
        Path(conecollapse.__file__).parent,
        site / "conecollapse",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    X = np.random.default_rng(0).gamma(0.5, size=(15, 24))
    X[:, 20:] = X[:, :4] + X[:, 4:8]
    np.savetxt(data, X, delimiter=",", header=",".join(f"gene {j}" for j in range(24)), comments="")
    results.mkdir()
    os.chown(results, NOBODY, NOBODY)
    before = sorted(site.rglob("*"))
    nowhere = str(everybodys_folder / "nowhere")
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(site),
        "HOME": nowhere,
        "TMPDIR": nowhere,
    }
    command = [
        *as_nobody,
        sys.executable,
        "-c",
        IN_A_CONTAINER,
        str(data),
        str(results / "out"),
        str(EXAMPLE),
    ]
    run = subprocess.run(
        command, cwd=site, env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[:2] == [
        str(site / "conecollapse" / "__init__.py"),
        "[0, 1, 2] 20",
    ]
    assert len(re.findall(CANNOT, run.stderr)) == 1, run.stderr
    assert (results / "search.joblib").exists()
    assert (results / "out" / "report.html").exists()
    assert sorted(site.rglob("*")) == before


def test_every_declared_minimum_is_one_that_is_tested():
    extras = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    untested = [line for extra in extras.keys() - set(EXTRAS) for line in extras[extra]]
    assert [line for line in untested if re.search("[<>=~!]", line)] == []
    assert [line for line in oldest() if not re.fullmatch(r"[\w-]+(\[\w+\])?==[\d.]+", line)] == []


@pytest.mark.skipif("CONECOLLAPSE_OLDEST" not in os.environ, reason="only in make test-oldest")
def test_this_is_the_oldest_environment():
    pinned = dict(re.sub(r"\[\w+\]", "", line).split("==") for line in oldest())
    assert {name: Version(version(name)) for name in pinned} == {
        name: Version(minimum) for name, minimum in pinned.items()
    }
    python = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]["requires-python"]
    assert python == f">={sys.version_info.major}.{sys.version_info.minor}"


def test_changes_must_pass_make_test_and_the_workflow_tests_the_oldest_versions_too():
    assert (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()[-1] == "make test"
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    assert "run: make test-all" in workflow
    recipes = subprocess.run(
        ["make", "--dry-run", "test-all"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert (
        "make test-oldest needs Python 3.11" in recipes
        or ".venv-oldest/bin/python -m pytest" in recipes
    )


NO_NUMBA = (
    "import sys; from conecollapse import CCNMF, Cone, nnls; assert 'numba' not in sys.modules"
)


def test_numba_is_imported_with_the_first_kernel_that_is_called():
    subprocess.run([sys.executable, "-c", NO_NUMBA], check=True)


def test_a_kernel_is_sent_to_another_process_by_its_name():
    assert pickle.loads(pickle.dumps(axpy)) is axpy


def test_every_kernel_is_made_in_one_place():
    package = Path(conecollapse.__file__).parent
    imports = re.compile(r"^\s*(from|import) numba", re.MULTILINE)
    users = [
        file for file in package.rglob("*.py") if imports.search(file.read_text(encoding="utf-8"))
    ]
    assert users == [package / "_kernels.py"]
