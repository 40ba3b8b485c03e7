"""A folder of spectra is a table: files of two columns, one for each sample."""

from __future__ import annotations

import numpy as np
import pytest

from conecollapse import InvalidInputError
from conecollapse.io import read_table
from conecollapse.io.spectra import read_spectra

AXIS = np.arange(400.0, 500.0, 12.5)
PURE = np.random.default_rng(0).random((2, len(AXIS)))
SHARES = np.linspace(0, 1, 7)[:, None]
VALUES = SHARES @ PURE[:1] + (1 - SHARES) @ PURE[1:]


def write(folder, ending, separator, head=""):
    folder.mkdir()
    for i, row in enumerate(VALUES):
        lines = [f"{x!r}{separator}{y!r}" for x, y in zip(AXIS.tolist(), row.tolist(), strict=True)]
        (folder / f"s{i}{ending}").write_text("\n".join([*head.splitlines(), *lines]) + "\n")
    return folder


@pytest.mark.parametrize(
    ("ending", "separator", "head"),
    [
        (".csv", ",", "wavelength,intensity"),
        (".csv", ";", ""),
        (".tsv", "\t", "nm\tcounts"),
        (".txt", "  ", "Instrument 7, 2 scans\n# raw\n\nnm value"),
        (".txt", ", ", ""),
    ],
)
@pytest.mark.parametrize("read", [read_table, lambda path: read_spectra(path).table])
def test_each_file_is_a_sample(read, ending, separator, head, tmp_path):
    table = read(write(tmp_path / "spectra", ending, separator, head))
    np.testing.assert_array_equal(table.X, VALUES)
    assert table.samples.tolist() == [f"s{i}" for i in range(7)]
    assert table.features.tolist()[:2] == ["400", "412.5"]
    np.testing.assert_array_equal(table.wavelengths, AXIS)
    assert "because each file of the folder is a sample" in table.why


def test_the_commands_take_it(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "spectra", ".csv", ",", "wavelength,intensity")
    assert run("unmix", "spectra", "-k", 2, "--no-report")[0] == 0
    heading, first = (tmp_path / "spectra-unmixed" / "endmembers.csv").read_text().split("\n")[:2]
    assert heading.startswith("feature,wavelength,component 0")
    assert first.startswith("400,400.0,")
    assert run("verify", "spectra-unmixed")[0] == 0
    assert run("novelty", "spectra", "spectra", "--no-report")[0] == 0
    assert run("cluster", "spectra", "-k", 2, "--no-report")[0] == 0
    assert run("verify", "spectra-clusters")[0] == 0


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("s3.csv", "400,1\n401,2\n", "s3.csv has 2 values, but s0.csv has 8; bring all spectra to"),
        ("s3.csv", None, "value 1 of s3.csv is at 401, but that of s0.csv at 400;"),
        ("s3.csv", "400,1\n401,2\nend\n", "line 3 of s3.csv holds 'end' where two numbers belong"),
        ("notes.txt", "Measured on Monday.\n", "notes.txt has no line of two numbers"),
        ("s3.csv", "", "s3.csv has no line of two numbers"),
    ],
)
def test_files_that_do_not_fit_are_named(name, content, message, tmp_path):
    folder = write(tmp_path / "spectra", ".csv", ",")
    whole = (folder / "s3.csv").read_text()
    (folder / name).write_text(whole.replace("400.0", "401") if content is None else content)
    for read in (read_table, read_spectra):
        with pytest.raises(InvalidInputError, match=message):
            read(folder)


def test_a_folder_of_something_else_is_no_folder_of_spectra(tmp_path):
    for name, text in (("a.txt", "Sea, ship.\nSail 1 2\n"), ("b.txt", "Tree and leaf and sea.\n")):
        (tmp_path / name).write_text(text)
    assert read_table(tmp_path).texts is not None
    with pytest.raises(InvalidInputError, match="a folder without spectra"):
        read_spectra(tmp_path)
