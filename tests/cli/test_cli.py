"""The command: what it prints and writes, its exit codes, and one sentence for everything that can
be wrong."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp

import conecollapse.datasets
from conecollapse import RankSelection
from conecollapse.cli import main
from conecollapse.datasets import load

ROOT = Path(__file__).parents[2]
rng = np.random.default_rng(0)
X = np.kron(np.eye(3), np.ones((5, 8))) + 0.1 * rng.random((15, 24)).round(3)
GENES = [f"gene{j}" for j in range(22)] + ["<script>alert(1)</script>", '=1+1, "x"']


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder with small files of several kinds, and no other data at hand."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CONECOLLAPSE_DATA", raising=False)
    monkeypatch.setenv("CONECOLLAPSE_CACHE", str(tmp_path / "cache"))
    samples = [f"s{i}" for i in range(15)]
    pd.DataFrame(X.T, index=pd.Index(GENES, name="gene"), columns=samples).to_csv("genes.csv")
    pd.DataFrame(
        {"sample": samples[::-1], "class": ["abc"[i // 5] for i in range(15)][::-1]}
    ).to_csv("classes.csv", index=False)
    few = ["a", "unknown", "b", "unknown", "c"]
    pd.DataFrame({"sample": samples, "class": np.repeat(few, 3)}).to_csv("few.csv", index=False)
    words = rng.poisson(0.4, (30, 40)) + np.kron(np.eye(2, dtype=int), rng.poisson(1.5, (15, 20)))
    scipy.io.mmwrite("words.mtx", sp.coo_array(words))
    pd.DataFrame(X, index=pd.Index(samples, name="sample")).to_csv("trusted.csv")
    pd.DataFrame(
        X[:2, ::-1] + np.eye(2, 24),
        index=pd.Index(["n0", "n1"], name="sample"),
        columns=range(24)[::-1],
    ).to_csv("new.csv")
    np.save(
        "cube.npy",
        (np.linspace(0, 1, 20)[:, None] * X[0] + np.linspace(1, 0, 20)[:, None] * X[5]).reshape(
            4, 5, 24
        ),
    )
    np.savetxt("wavelengths.txt", np.arange(24.0))
    np.save("faces.npy", np.kron(np.eye(2), np.ones((6, 10))) + 0.1 * rng.random((12, 20)))
    return tmp_path


@pytest.fixture
def small_digits(monkeypatch):
    """The digits 0, 1 and 2, under the name of all."""
    digits = load("digits")
    chosen = np.flatnonzero(digits.y < 3)[:90]
    small = replace(digits, X=digits.X[chosen], y=digits.y[chosen])

    def small_load(name, **options):
        return small if name.upper() == "DIGITS" else load(name, **options)

    monkeypatch.setattr(conecollapse.datasets, "load", small_load)
    return small


def fails(run, *arguments, code=1):
    """The one sentence of a command that fails."""
    status, out, err = run(*arguments)
    assert status == code
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("conecollapse: ")
    return err


class TestCluster:
    def test_a_table_of_genes(self, here, run):
        code, out, err = run("cluster", "genes.csv", "-k", "3", "--labels", "classes.csv", "--rays")
        assert (code, err) == (0, "")
        assert (
            "15 samples, 24 features; samples are columns and features rows, because the rows are"
            " called 'gene'" in out
        )
        assert "3 clusters of 5, 5, 5 samples; purity 1.000, accuracy 1.000." in out
        assert "24 of 24 features are extreme rays; proven" in out
        assert "results in genes-clusters" in out
        written = {path.name for path in (here / "genes-clusters").iterdir()}
        assert {"labels.csv", "rays.csv", "factors.npz", "certificate.npz", "run.json"} <= written
        assert run("verify", "genes-clusters")[0] == 0

    def test_labels_guide_and_other_labels_score(self, here, run):
        few = ["a", "?", "?", "?", "b", "b", "b", "?", "?", "?", *"?????"]
        (here / "few.txt").write_text("\n".join(few))
        guided = ["--guide-from", "few.txt", "--unlabeled", "?", "--out", "o"]
        scored = ["--labels", "classes.csv"]
        code, out, err = run("cluster", "genes.csv", "-k", "3", *guided, *scored)
        assert (code, err) == (0, "")
        assert "accuracy 1.000 (of the 11 samples without a label that guides)" in out
        said = "4 labels guided the clusters (a 1, b 3); all are kept, and 1 of them is doubted"
        assert said in out
        assert said in (here / "o" / "report.html").read_text(encoding="utf-8")
        doubted = pd.read_csv(here / "o" / "doubted.csv")
        assert doubted[["sample", "guide", "nearer"]].to_numpy().tolist() == [["s4", "b", "a"]]
        labels = pd.read_csv(here / "o" / "labels.csv")
        assert labels["label"].tolist() == ["a"] * 4 + ["b"] * 6 + ["cluster 3"] * 5
        assert labels["guide"].fillna("?").tolist() == few
        facts = json.loads((here / "o" / "run.json").read_text())["results"]
        assert facts["guide"]["classes"] == {"a": 1, "b": 3}
        assert (facts["guide"]["unlabeled"], facts["n_scored"]) == ("?", 11)
        assert run("verify", "o")[0] == 0
        assert run("cluster", "genes.csv", "-k", "3", *guided, "--force")[0] == 0
        facts = json.loads((here / "o" / "run.json").read_text())["results"]
        assert "purity" not in facts  # labels that guide are no score

    def test_a_column_of_obs_guides_as_in_scverse(self, here, run):
        anndata = pytest.importorskip("anndata")
        from conecollapse import scverse

        few = ["x", "unknown", None, *["unknown"] * 3, "y", *["unknown"] * 3, "z", *[None] * 4]
        obs = pd.DataFrame({"few": few}, index=[f"c{i}" for i in range(15)])
        adata = anndata.AnnData(X.copy(), obs=obs)
        adata.write_h5ad(here / "cells.h5ad")
        guided = ["--guide-from", "obs:few", "--no-report", "--write-h5ad", "out.h5ad"]
        assert run("cluster", "cells.h5ad", "-k", "3", *guided)[::2] == (0, "")
        assert run("verify", "cells-clusters")[0] == 0
        scverse.cluster(adata, 3, guide_key="few", random_state=0)
        expected = adata.obs["conecollapse"].astype(str).tolist()
        assert pd.read_csv("cells-clusters/labels.csv")["label"].tolist() == expected
        written = anndata.read_h5ad(here / "out.h5ad")
        assert written.obs["conecollapse"].astype(str).tolist() == expected

    def test_json_is_one_object(self, here, run):
        code, out, err = run(
            "cluster", "genes.csv", "-k", "3", "--json", "--no-report", "--seed", "7", "--out", "o"
        )
        assert (code, err) == (0, "")
        found = json.loads(out)
        assert out.count("\n") == 1
        assert found["cluster_sizes"] == [5, 5, 5]
        assert found["folder"] == "o"
        facts = json.loads((here / "o" / "run.json").read_text())
        assert facts["parameters"]["random_state"] == 7
        assert not (here / "o" / "report.html").exists()

    def test_the_curve_behind_a_chosen_number_of_clusters_is_shown(self, run, monkeypatch):
        found = RankSelection(
            3,
            "stability",
            np.array([2, 3, 4]),
            np.array([0.5, 1.0, 0.96]),
            np.array([0.1, 0.05, 0.2]),
            None,
            "why",
            (3, 4),
        )
        monkeypatch.setattr("conecollapse.estimators.select_rank", lambda *_, **__: found)
        code, out, _ = run(
            "cluster", "genes.csv", "-k", "auto", "--method", "features", "--no-report"
        )
        lines = [line.split() for line in out.splitlines()]
        assert code == 0
        assert ["clusters", "stability", "standard", "error"] in lines
        assert [line for line in lines if line[1:2] in (["0.500"], ["1.000"], ["0.960"])] == [
            ["2", "0.500", "0.100"],
            ["3", "1.000", "0.050", "chosen"],
            ["4", "0.960", "0.200", "tied"],
        ]
        curve = json.loads(
            run(
                "cluster",
                "genes.csv",
                "-k",
                "auto",
                "--json",
                "--method",
                "features",
                "--no-report",
                "--out",
                "o",
            )[1]
        )
        assert curve["rank_curve"] == {
            "method": "stability",
            "candidates": [2, 3, 4],
            "scores": [0.5, 1.0, 0.96],
            "standard_errors": [0.1, 0.05, 0.2],
            "ties": [3, 4],
        }

    def test_warnings_are_notes(self, run):
        frame = pd.read_csv("genes.csv", index_col=0)
        frame.loc["gene3"] = 0
        frame.to_csv("genes.csv")
        code, _, err = run("cluster", "genes.csv", "-k", "3", "--no-report")
        assert code == 0
        assert "conecollapse: note: feature 'gene3' of X holds only zeros" in err

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["nofile.csv", "-k", "3"], "there is no file 'nofile.csv'"),
            ([".", "-k", "3"], "is a folder with a table in it"),
            (["empty.csv", "-k", "3"], "is empty"),
            (["genes.xlsx", "-k", "3"], "known are .npy, .npz"),
            (
                ["ragged.csv", "-k", "2"],
                "line 3 of ragged.csv has 2 cells where the lines before have 3",
            ),
            (
                ["text.csv", "-k", "2"],
                "line 3, column 2 ('b') of text.csv holds 'much' where a number belongs",
            ),
            (
                ["negative.csv", "-k", "2"],
                "1 negative value, the first in row 2 ('s2'), column 2 ('b'): -5",
            ),
            (["objects.npy", "-k", "2"], "Python objects"),
            (
                ["genes.csv", "-k", "16"],
                (
                    "ask for at most that many (or, if the 24 features are in fact the samples,"
                    " read the table with --features-in columns)"
                ),
            ),
            (["genes.csv", "-k", "0"], "-k takes a number of clusters, or auto; got '0'"),
            (["genes.csv", "-k", "many"], "got 'many'"),
            (["genes.csv"], "Missing option '-k'"),
            (["genes.csv", "-k", "3", "--normalize", "l2"], "--normalize must be one of"),
            (
                ["genes.csv", "-k", "3", "--method", "x"],
                "--method must be one of graph, features, knn, diffusion, or",
            ),
            (["genes.csv", "-k", "3", "--features-in", "left"], "--features-in must be one of"),
            (["genes.csv", "-k", "3", "--image-shape", "5"], "--image-shape takes height x width"),
            (["genes.csv", "-k", "3", "--image-shape", "5x5"], "images of 5 x 5 have 25 pixels"),
            (["genes.csv", "-k", "3", "--labels", "none.txt"], "there is no file 'none.txt'"),
            (
                ["genes.csv", "-k", "3", "--labels", "two.txt"],
                "two.txt has 2 labels for 15 samples",
            ),
            (
                ["genes.csv", "-k", "3", "--guide-from", "two.txt"],
                "two.txt has 2 labels for 15 samples",
            ),
            (
                ["genes.csv", "-k", "2", "--guide-from", "classes.csv"],
                "the labels that guide name 3 classes, but there are 2 clusters",
            ),
            (
                ["genes.csv", "-k", "3", "--guide-from", "obs:few"],
                "--guide-from obs:few is for .h5ad",
            ),
            (
                ["genes.csv", "-k", "3", "--guide-from", "classes.csv", "--labels", "classes.csv"],
                "every sample has a label that guides, so none is left to score",
            ),
            (
                ["genes.csv", "-k", "3", "--out", "theirs"],
                "holds other files ('notes.txt'), which are never replaced; name another one",
            ),
            (["genes.csv", "-k", "3", "--out", "genes.csv"], "is a file; name a folder"),
            (["genes.csv", "-k", "3", "--out", "/proc/nowhere/x"], "/proc/nowhere"),
            (["genes.csv", "-k", "3", "--out", "genes.csv/sub"], "/genes.csv' is not a folder"),
            (["genes.csv", "-k", "3", "--out", "loop"], "name another one"),
            (["genes.csv", "-k", "3", "--out", "loop/sub"], "name another one"),
            (["genes.csv", "-k", "3", "--out", "~nobody.has.this.name/x"], "name another one"),
            (["genes.csv", "-k", "3", "--out", "x" * 300], "File name too long; name another"),
            (["genes.csv", "-k", "3", "--out", "/", "--force"], "is the root of the file system"),
            (
                ["genes.csv", "-k", "3", "--out", "occupied", "--force"],
                "holds other files ('run.json')",
            ),
            (["genes.csv", "-k", "3", "--seed", "-1"], "Invalid value for '--seed'"),
            (["genes.csv", "-k", "3", "--nonsense"], "No such option"),
        ],
    )
    def test_one_sentence_and_nothing_written(self, arguments, message, here, run):
        (here / "empty.csv").touch()
        (here / "genes.xlsx").write_text("x")
        (here / "ragged.csv").write_text("a,b,c\n1,2,3\n4,5\n")
        (here / "text.csv").write_text("a,b,c\n1,2,3\n4,much,6\n")
        (here / "negative.csv").write_text("id,a,b\ns1,1,2\ns2,4,-5\n")
        (here / "two.txt").write_text("a\nb\n")
        np.save(here / "objects.npy", np.array([[{}, 1], [2, 3]], dtype=object), allow_pickle=True)
        (here / "theirs").mkdir()
        (here / "theirs" / "notes.txt").write_text("mine")
        (here / "occupied" / "run.json").mkdir(parents=True)
        (here / "loop").symlink_to(here / "pool")
        (here / "pool").symlink_to(here / "loop")
        before = sorted(here.rglob("*"))
        assert message in fails(run, "cluster", *arguments)
        assert sorted(here.rglob("*")) == before

    def test_ctrl_c_says_what_is_kept(self, here, run, monkeypatch):
        def interrupt(*_, **__):
            raise KeyboardInterrupt

        monkeypatch.setattr("conecollapse.report.write_report", interrupt)
        assert "the results are in 'a', only the report is missing" in fails(
            run, "cluster", "genes.csv", "-k", "3", "--out", "a", code=130
        )
        assert (here / "a" / "labels.csv").exists()
        monkeypatch.setattr("conecollapse.Cone.from_points", interrupt)
        assert "the clusters are in 'b'" in fails(
            run, "cluster", "genes.csv", "-k", "3", "--rays", "--out", "b", code=130
        )
        assert run("verify", "b")[0] == 0
        monkeypatch.setattr("conecollapse.io.read_table", interrupt)
        assert "unfinished results were not written" in fails(
            run, "cluster", "genes.csv", "-k", "3", "--out", "c", code=130
        )
        assert not (here / "c").exists()

    def test_an_internal_error_is_one_sentence(self, run, monkeypatch):
        def broken(*_, **__):
            raise ZeroDivisionError("a\nb")

        monkeypatch.setattr("conecollapse.io.read_table", broken)
        assert "should not have happened (ZeroDivisionError: a b); please report it" in fails(
            run, "cluster", "genes.csv", "-k", "3"
        )
        with pytest.raises(ZeroDivisionError):
            main(["--debug", "cluster", "genes.csv", "-k", "3"])


class TestRaysAndVerify:
    def test_exact_and_few(self, run):
        code, out, err = run("rays", "genes.csv")
        assert (code, err) == (0, "")
        assert "24 of 24 features are extreme rays" in out
        assert "rays: gene0, gene1" in out
        assert "and 14 more, in rays.csv" in out
        few = json.loads(
            run("rays", "genes.csv", "--max-residual", "0.3", "--out", "few", "--json")[1]
        )
        assert few["n_rays"] < 24
        assert few["largest_residual"] <= 0.3
        assert set(few["rays"]) <= set(GENES)
        assert (
            "no feature is further from their cone"
            in run("rays", "genes.csv", "--max-rays", "3", "--out", "three")[1]
        )
        assert json.loads(run("verify", "few", "--json")[1])["verified"]

    def test_bad_options(self, here, run):
        assert "--max-residual must be a number above 0" in fails(
            run, "rays", "genes.csv", "--max-residual", "-1"
        )
        assert "Invalid value for '--max-rays'" in fails(
            run, "rays", "genes.csv", "--max-rays", "0"
        )
        assert not (here / "genes-rays").exists()


class TestDatasets:
    def test_list(self, run):
        code, out, _ = run("datasets", "list")
        assert code == 0
        assert re.search(r"DIGITS\s+image\s+1797\s+64\s+10\s+installed", out)
        assert len(json.loads(run("datasets", "list", "--json")[1])["datasets"]) == 17

    @pytest.mark.usefixtures("small_digits")
    def test_fetch_and_cluster(self, run):
        code, out, _ = run("datasets", "fetch", "digits", "--out", "digits.npz")
        assert code == 0
        hint = re.search(r"for instance: conecollapse (.*)", out)[1]
        code, out, _ = run(*shlex.split(hint), "--no-report", "--method", "features", "--json")
        assert code == 0
        assert json.loads(out)["purity"] > 0.9
        assert json.loads(out)["n_samples"] == 90

    def test_wrong_arguments(self, run):
        assert "did you mean 'REUTERS'" in fails(run, "datasets", "fetch", "rueters")
        assert "--out takes a file that ends in .npz" in fails(
            run, "datasets", "fetch", "digits", "--out", "x.csv"
        )
        assert fails(run, "datasets", "fetch", "digits", "--out", "no/where.npz")


class TestOthers:
    @pytest.mark.slow
    @pytest.mark.usefixtures("small_digits")
    def test_the_demo_recovers_verifies_and_compares(self, run):
        code, out, err = run("demo", "--out", "d")
        assert (code, err) == (0, "")
        assert "all 50 others are extreme rays" in out
        assert "50 rays generate all 64 features" in out
        assert re.search(r"CC-NMF\s+[01]\.\d+", out)
        assert re.search(r"k-means\s+[01]\.\d+", out)
        for hint in re.findall(r"conecollapse ((?:cluster|verify) .*)", out):
            assert run(*shlex.split(hint))[0] == 0
        assert run("demo", "--out", "d", "--no-report")[0] == 0

    def test_the_demo_says_where_it_cannot_write(self, run):
        assert "cannot" in fails(run, "demo", "--out", "/proc/nowhere")

    def test_help_version_and_completion(self, run):
        code, out, _ = run("--help")
        assert code == 0
        assert "130 interrupted" in out
        assert run("--version")[1].startswith("conecollapse 0.")
        assert "Usage: conecollapse" in " ".join(run()[1].split())
        for command in (
            "demo",
            "cluster",
            "rays",
            "verify",
            "datasets",
        ):
            assert run(command, "--help")[0] == 0
        assert "No such command 'cluter'" in fails(run, "cluter")

    def test_the_verbose_version_says_what_is_installed_and_where(self, run, monkeypatch, here):
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(here / "kernels"))
        (here / "kernels" / "of").mkdir(parents=True)
        (here / "kernels" / "of" / "one.nbc").touch()
        code, out, err = run("--version", "--verbose")
        assert (code, err) == (0, "")
        assert f"numpy {np.__version__}" in out
        assert "extra cli: rich " in out
        assert f"kernels: {here / 'kernels'} (1 compiled)" in out
        monkeypatch.setattr(
            "conecollapse.cli.installed.requires", lambda _: ["numpy>=99", "nothing-of-the-kind>=1"]
        )
        out = run("--version", "--verbose")[1]
        assert f"numpy {np.__version__} (older than 99, the oldest tested)" in out
        assert "nothing-of-the-kind missing" in out

    def test_mass_is_for_few_rays(self, run, tmp_path):
        file = tmp_path / "t.csv"
        np.savetxt(file, np.random.default_rng(0).random((6, 4)) + 0.1, delimiter=",")
        assert "--mass is for few rays, which --max-rays or --max-residual asks for" in fails(
            run, "rays", file, "--mass"
        )
        for few in (("--max-rays", "2"), ("--max-residual", "0.3")):
            assert run("rays", file, "--mass", *few, "--out", tmp_path / few[0])[0] == 0

    def test_progress_shows_on_a_terminal_that_waits(self, monkeypatch, capsys):
        from conecollapse.cli import terminal

        with terminal.working("nothing") as progress:
            assert progress is None  # no terminal
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        with terminal.working("patience") as progress:
            progress("cone", 1, 10)
        assert capsys.readouterr().err == ""  # over before anyone waited


@pytest.mark.slow
def test_the_module_is_a_command_and_completes():
    environment = {
        "_CONECOLLAPSE_COMPLETE": "complete_bash",
        "COMP_WORDS": "conecollapse clus",
        "COMP_CWORD": "1",
    }
    program = "import sys; sys.argv[0] = 'conecollapse'; from conecollapse.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )
    assert done.stdout.split() == ["cluster"]
    failed = subprocess.run(
        [sys.executable, "-m", "conecollapse", "verify", "none"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert failed.returncode == 1
    assert failed.stderr == "conecollapse: there is no folder 'none'.\n"


@pytest.mark.slow
@pytest.mark.usefixtures("small_digits")
def test_every_example_of_the_page_runs(run):
    page = (ROOT / "docs" / "command.md").read_text(encoding="utf-8")
    lines = [
        line
        for block in re.findall(r"```console\n(.*?)```", page, flags=re.DOTALL)
        for line in block.splitlines()
    ]
    assert len(lines) > 10
    for line in lines:
        assert line.startswith("$ conecollapse ")
        code, _, err = run(*shlex.split(line)[2:])
        assert code == 0, f"{line}: {err}"


WRONG = [
    "cluster genes.csv -k 16 --features-in rows",
    "cluster genes.csv -k 3 --image-shape 5x5",
    "rays genes.csv --quick --max-rays 3",
    "rays genes.csv --max-residual 2",
    "unmix cube.npy -k 25",
    "novelty trusted.csv genes.csv",
    "verify nowhere",
    "compare nowhere nowhere",
    "bench nothing",
    "demo --out genes.csv",
]


def test_errors_wait_for_neither_scikit_learn_nor_solvers():
    code = (
        "import sys, shlex; from conecollapse.cli import main\nfor line in sys.argv[1:]:\n    try:"
        " main(shlex.split(line))\n    except SystemExit as end: assert end.code == 1, line\n   "
        " assert not {'sklearn', 'conecollapse._nnls',"
        " 'conecollapse.factorization'}.intersection(sys.modules), line\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *WRONG], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stderr.splitlines()) == len(WRONG)


def test_a_clustering_reads_its_file_once_and_imports_what_it_needs():
    code = (
        "import sys\nopened = []\n"
        "sys.addaudithook(lambda event, args: event == 'open' and opened.append(args[0]))\n"
        "from conecollapse.cli import main\n"
        "try:\n    main('cluster genes.csv -k 3 --no-report'.split())\n"
        "except SystemExit as end:\n    assert end.code == 0\n"
        "print(sum(str(name).endswith('genes.csv') for name in opened),"
        " sum(name.partition('.')[0] == 'conecollapse' for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    times, modules = map(int, done.stdout.split()[-2:])
    assert times == 1
    assert modules <= 140
