"""A heading of numbers that is an axis, as of a chromatogram, and the column below its first cell
are no data; and ordinary tables are not taken for one."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from conecollapse.cli.commands import run as run_command
from conecollapse.io import read_spectra, read_table

RNG = np.random.default_rng(0)
TIMES = np.round(np.arange(1, 41) * 0.05, 2)
LENGTHS = np.arange(200.0, 260, 5)
PURE = np.vstack([np.exp(-(((LENGTHS - at) / 15) ** 2)) + 0.05 for at in (210, 240)])
SHARES = np.column_stack([np.exp(-(((TIMES - at) / 0.3) ** 2)) for at in (0.8, 1.2)]) + 0.01
X = np.round(SHARES @ PURE, 5)


def text(corner, heading, column, X=None, separator=","):
    X = RNG.random((len(column), len(heading))) if X is None else X
    lines = [[corner, *heading], *([name, *row] for name, row in zip(column, X, strict=True))]
    return "\n".join(separator.join(map(str, line)) for line in lines) + "\n"


RISING, FALLING = [200, 210.5, 220], [4000, 3998, 3996.5]
SECONDS = [0.1, 0.2, 0.35, 0.5]
AXES = {  # first cell, heading, column
    "time": ("Time (min)", RISING, SECONDS),
    "seconds": ("t/s", RISING, SECONDS),
    "retention": ("RT", RISING, SECONDS),
    "wavenumber": ("wavenumber", FALLING, SECONDS),
    "nothing": ("", RISING, SECONDS),
    "blank": ("  ", RISING, SECONDS),
    "times that count": ("Time (s)", RISING, [0, 1, 2, 3]),
    "numbers of scans": ("scan", RISING, [101, 102, 103, 104]),
    "in the near infrared": ("t", [1500, 1600, 1700, 1800], SECONDS),
    "exponents": ("RT", ["2.0e2", "2.1e2", "2.2e2"], SECONDS),
    "temperatures that fall": ("T/K", RISING, [350, 340, 330, 320]),
    "of mass": ("Scan time", [50.1, 50.2, 51.7], SECONDS),
    "as R writes numbers": ("Time..min.", ["X200", "X210.5", "X220"], SECONDS),
    "with a unit": ("t", ["200 nm", "210.5 nm", "220 nm"], SECONDS),
    "with the unit of wavenumbers": ("t", ["4000 cm-1", "3998 cm-1", "3996.5 cm-1"], SECONDS),
    "as pandas calls an empty heading": ("Unnamed: 0", RISING, SECONDS),
}
NO_AXES = {
    "genes": ("gene", [1, 2, 3], ["TP53", "A", "B", "C"]),
    "years": ("country", [2001, 2002, 2003], ["a", "b", "c", "d"]),
    "years over codes": ("", [2001, 2002, 2003], [0, 1, 2, 3]),
    "samples 1 to n": ("sample", [200, 210, 220], [1, 2, 3, 4]),
    "ids": ("id", [200, 210, 220], [101, 102, 103, 104]),
    "patient numbers": ("Patient ID", RISING, [11, 12, 13, 14]),
    "default names of pandas": ("", [0, 1, 2], [0, 1, 2, 3]),
    "columns 1 to n": ("", [1, 2, 3], [0, 1, 2, 3]),
    "no heading": (1.0, [2.0, 3.0, 4.0], [2.0, 3.0, 4.0, 5.0]),
    "no heading, missing": ("NA", [2.0, 3.0, 4.0], [2.0, 3.0, 4.0, 5.0]),
    "features": ("age", ["dose", "time", "mass"], SECONDS),
    "one text among numbers": ("age", [200, "mass", 220], SECONDS),
    "a column that does not rise": ("age", RISING, [3, 1, 2, 5]),
    "a column with ties": ("age", RISING, [1, 2, 2, 3]),
    "a heading that does not rise": ("age", [200, 220, 210], SECONDS),
    "mz columns of named samples": ("mz", RISING, ["s1", "s2", "s3", "s4"]),
    "R's names of columns without one": ("y", ["X1", "X2", "X3"], SECONDS),
    "several units": ("t", ["1 h", "2 d", "3 w"], SECONDS),
    "numbered names": ("t", ["s10", "s20", "s30"], SECONDS),
    "two numbers": ("age", [200, 210], SECONDS),
    "two rows": ("age", RISING, [1.5, 2.5]),
    "two columns": ("mz", ["intensity"], SECONDS),
}


@pytest.mark.parametrize("name", AXES)
@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_axes_are_found(name, ending, tmp_path):
    corner, heading, column = AXES[name]
    X = RNG.random((len(column), len(heading)))
    path = tmp_path / f"t.{ending}"
    path.write_text(text(corner, heading, column, X, "," if ending == "csv" else "\t"))
    table = read_table(path)
    np.testing.assert_array_equal(table.X, X)
    numbers = [str(number).strip("X").split()[0] for number in heading]
    assert table.wavelengths.tolist() == [float(number) for number in numbers]
    assert table.sample_names.tolist() == [str(number) for number in column]
    assert table.feature_names.tolist() == [str(number) for number in heading]
    assert f"heading: first line ({len(heading)} an axis of features)" not in table.read_as
    assert table.read_as.startswith(f"heading: first line (an axis of {len(heading)} features);")
    assert "names: first column" in table.read_as
    np.testing.assert_array_equal(read_spectra(path).table.wavelengths, table.wavelengths)


@pytest.mark.parametrize("name", NO_AXES)
def test_ordinary_tables_are_not_taken_for_axes(name, tmp_path):
    corner, heading, column = NO_AXES[name]
    (tmp_path / "t.csv").write_text(text(corner, heading, column))
    if "missing" in name or "one text" in name:  # is refused or read as before, never an axis
        options = {"header": True, "names": False}
        table = read_table(tmp_path / "t.csv", **options)
    else:
        table = read_table(tmp_path / "t.csv")
    assert table.wavelengths is None


def test_long_chromatograms_keep_their_orientation(tmp_path):
    (tmp_path / "t.csv").write_text(text("RT", LENGTHS, TIMES, X))
    assert X.shape[0] < 5 * X.shape[1]
    (tmp_path / "long.csv").write_text(text("RT", LENGTHS[:4], TIMES, X[:, :4]))
    table = read_table(tmp_path / "long.csv")
    assert table.X.shape == (40, 4)
    assert "because the first line and the first column are axes" in table.why


def test_wavelengths_in_rows_are_those_of_the_features(tmp_path):
    (tmp_path / "t.csv").write_text(text("wavelength", TIMES, LENGTHS, X.T))
    table = read_table(tmp_path / "t.csv")
    np.testing.assert_array_equal(table.X, X)
    assert table.wavelengths.tolist() == LENGTHS.tolist()
    (tmp_path / "r.csv").write_text(text("RT", TIMES, LENGTHS, X.T))
    table = read_table(tmp_path / "r.csv", features_in="rows")
    assert table.wavelengths.tolist() == LENGTHS.tolist()


def test_rs_tables_without_a_first_cell_and_the_users_word(tmp_path):
    lines = text("", LENGTHS, TIMES, X).splitlines()
    (tmp_path / "r.csv").write_text("\n".join([lines[0].removeprefix(","), *lines[1:]]))
    assert read_table(tmp_path / "r.csv").wavelengths.tolist() == LENGTHS.tolist()
    (tmp_path / "t.csv").write_text(text("RT", LENGTHS, TIMES, X))
    table = read_table(tmp_path / "t.csv", names=False)
    assert table.X.shape == (40, 13)
    assert table.wavelengths is None


def test_frames_have_axes_too(tmp_path):
    frame = pd.DataFrame(X, columns=[str(length) for length in LENGTHS])
    frame.insert(0, "Time (min)", TIMES)
    by_index = pd.DataFrame(X, index=pd.Index(TIMES, name="RT"), columns=LENGTHS)
    frame.to_parquet(tmp_path / "t.parquet")
    for source in (frame, by_index, tmp_path / "t.parquet"):
        table = read_table(source)
        np.testing.assert_array_equal(table.X, X)
        assert table.wavelengths.tolist() == LENGTHS.tolist()
        assert table.sample_names.tolist() == [str(time) for time in TIMES]
    assert read_table(pd.DataFrame(X)).wavelengths is None


def test_unmix_takes_no_time_for_a_channel_and_says_what_it_took(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.csv").write_text(text("Time (min)", LENGTHS, TIMES, X))
    assert run_command(["unmix", "run.csv", "-k", "2"]) == 0
    said = capsys.readouterr().out
    assert "40 samples, 12 channels" in said
    assert (
        "heading: first line (an axis of 12 features); names: first column 'Time (min)', an axis"
        " too; if that is wrong, pass --no-header or --no-names." in said
    )
    folder = tmp_path / "run-unmixed"
    assert json.loads((folder / "run.json").read_text())["results"]["relative_error"] < 0.01
    components = pd.read_csv(folder / "endmembers.csv")
    assert components["wavelength"].tolist() == LENGTHS.tolist()
    assert pd.read_csv(folder / "abundances.csv")["sample"].tolist() == TIMES.tolist()
    assert '"wavelength"' in (folder / "report.html").read_text(encoding="utf-8")
    assert run_command(["verify", "run-unmixed"]) == 0


def test_novelty_says_what_it_took(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.csv").write_text(text("Time (min)", LENGTHS, TIMES, X))
    (tmp_path / "new.csv").write_text(text("Time (min)", LENGTHS, TIMES[:3], X[:3]))
    (tmp_path / "one.csv").write_text(text("Time (min)", LENGTHS, TIMES[:1], X[:1]))
    for name in ("new.csv", "one.csv"):
        assert run_command(["novelty", "old.csv", name, "--no-report"]) == 0
        said = capsys.readouterr().out
        assert "old.csv: heading: first line (an axis of 12 features); names: first column" in said
        assert f"{name}: heading: first line" in said
