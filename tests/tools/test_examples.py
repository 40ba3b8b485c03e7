"""Every script in `examples` runs, and finds what it was made to find."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name, folder):
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main(folder)


def test_every_example_has_a_test_and_a_line():
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == {"cells", "topics", "cube", "pipeline", "shell"}
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert all(f"`{name}.py`" in text for name in names)


@pytest.mark.slow
def test_cells(tmp_path):
    pytest.importorskip("anndata")
    adata = run("cells", tmp_path)
    assert adata.obs.groupby("cell_type", observed=True)["conecollapse"].nunique().tolist() == [
        1,
        1,
        1,
        1,
    ]
    sets = {
        frozenset(name[4:] for name in genes[:20]) for genes in adata.uns["programs"]["top_genes"]
    }
    assert all(len({int(gene) // 30 for gene in genes}) == 1 for genes in sets)
    assert all((tmp_path / f"{name}.html").is_file() for name in ("programs", "clusters"))


def test_topics(tmp_path, capsys):
    shares = run("topics", tmp_path)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert shares.max(axis=1).mean() > 0.9
    assert "1 of 151 texts have no known words" in capsys.readouterr().out


@pytest.mark.slow
def test_shell(tmp_path):
    types, topics = run("shell", tmp_path)
    assert types["label"].tolist() == ["ABC"[i % 3] for i in range(75, 90)]
    assert topics["cluster"].nunique() == 2
    assert topics["cluster"].tolist() == topics["cluster"].tolist()[:2] * 2
    usages = pd.read_csv(tmp_path / "usages.csv").iloc[:, 1:]
    assert usages.to_numpy().argmax(axis=1).tolist() == usages.to_numpy().argmax(1)[:3].tolist() * 5


def test_cube(tmp_path, capsys):
    maps = run("cube", tmp_path)
    np.testing.assert_allclose(maps.sum(axis=2), 1)
    said = capsys.readouterr().out
    assert "negative values were set to zero" in said
    assert not said.startswith("0 ")


# of the oldest scikit-learn with SciPy 1.16
@pytest.mark.filterwarnings("ignore:scipy.optimize:DeprecationWarning")
@pytest.mark.slow
def test_pipeline(tmp_path):
    search = run("pipeline", tmp_path)
    assert search.best_score_ > 0.9
    assert search.best_params_["parts__n_components"] >= 3
