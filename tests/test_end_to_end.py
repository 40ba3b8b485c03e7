"""From a file to a folder that verifies and a report that opens in a browser, on real data; and
what one changed byte does."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp
from conftest import DATA

from conecollapse import DatasetNotFoundError
from conecollapse.cli import main
from conecollapse.datasets import load

GENES = [f"gene {j}" for j in range(5000)]
GENES[7] = "<script>document.title='owned'</script>"


def command(*arguments: object) -> int:
    with pytest.raises(SystemExit) as leave:
        main([str(argument) for argument in arguments])
    return int(leave.value.code or 0)


def dataset(name, monkeypatch):
    monkeypatch.setenv("CONECOLLAPSE_DATA", str(DATA) if DATA.is_dir() else "")
    try:
        return load(name, download=False)
    except DatasetNotFoundError:
        pytest.skip(f"no {name}: neither in {DATA} nor in an installed package")


def genes_csv(data, folder):
    patients = [f"patient {i}" for i in range(38)]
    pd.DataFrame(data.X.T, index=pd.Index(GENES, name="gene"), columns=patients).to_csv(
        folder / "genes.csv"
    )
    return folder / "genes.csv"


def genes_h5ad(data, folder):
    anndata = pytest.importorskip("anndata", reason="needs the extra bio")
    patients = pd.DataFrame(index=[f"patient {i}" for i in range(38)])
    anndata.AnnData(
        data.X.astype(np.float32), obs=patients, var=pd.DataFrame(index=GENES)
    ).write_h5ad(folder / "genes.h5ad")
    return folder / "genes.h5ad"


def words_mtx(data, folder):
    scipy.io.mmwrite(folder / "words.mtx", sp.coo_array(data.X), precision=8)
    return folder / "words.mtx"


def change_one_byte(path: Path) -> None:
    """One digit of one value, or in a binary file a bit of one."""
    raw = bytearray(path.read_bytes())
    if path.suffix == ".csv":
        at = raw.index(b"gene 100,") + len(b"gene 100,")
    elif path.suffix == ".mtx":
        at = raw.rindex(b".") + 2
    else:
        import h5py

        with h5py.File(path) as file:
            at = file["X"].id.get_offset() + 4 * 100 + 2  # the first patient, gene 100
        raw[at] ^= 0x40
        path.write_bytes(raw)
        return
    raw[at] = ord("1") if raw[at] != ord("1") else ord("2")
    path.write_bytes(raw)


@pytest.mark.filterwarnings("ignore::conecollapse.EmptyDataWarning")
@pytest.mark.parametrize(
    ("name", "write", "options", "changed"),
    [
        ("AMLALL", genes_csv, ["-k", 3], "gene 100"),
        ("AMLALL", genes_h5ad, ["-k", 3], "gene 100"),
        ("WEBKB4", words_mtx, ["-k", 4, "--features-in", "columns"], "x\\d+"),
    ],
)
def test_from_a_file_to_a_report(
    name, write, options, changed, tmp_path, monkeypatch, capsys, open_page
):
    file = write(dataset(name, monkeypatch), tmp_path)
    out = tmp_path / "out"
    assert command("cluster", file, *options, "--rays", "--out", out) == 0
    assert {path.name for path in out.iterdir()} == {
        "labels.csv",
        "rays.csv",
        "factors.npz",
        "certificate.npz",
        "run.json",
        "report.html",
    }
    report = out / "report.html"
    assert report.stat().st_size < 3e6
    tab = open_page(report)
    assert tab.locator(".chart").count() == tab.locator(".chart:has(.main-svg)").count() > 4
    assert tab.title() == f"{file.name}: clusters and rays"
    capsys.readouterr()
    assert command("verify", out) == 0
    assert "verified" in capsys.readouterr().out
    change_one_byte(file)
    assert command("verify", out) == 1
    assert re.search(f"the feature '{changed}' does not have the values", capsys.readouterr().err)
