"""Headings and names: a table that is written in a known style is read as it was meant, and what
was taken is said and can be overruled."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conecollapse import InvalidInputError
from conecollapse.cli import main
from conecollapse.io import read_labels, read_table
from conecollapse.io.delimited import read as read_delimited
from conecollapse.io.headings import Layout, detect_layout
from conecollapse.runs import rays, save, verify


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def read(folder, text, **choices):
    """What was taken as names of rows, as names of columns, and the numbers."""
    matrix = read_delimited(write(folder / "t.csv", text), **choices)
    return (
        tuple(
            None if names is None else names.tolist()
            for names in (matrix.row_names, matrix.column_names)
        ),
        matrix.values.tolist(),
    )


COUNTING = "".join(f"{i},{i * i % 7},{i * 5 % 11}\n" for i in range(1, 11))
DECIMALS = "0.5,1.25,3.0\n0.25,0,2.75\n"


@pytest.mark.parametrize(
    ("text", "rows", "columns"),
    [
        # headings of numbers
        ("gene,2001,2002,2003\na,5,0,2\nb,1,1,7\n", ["a", "b"], ["2001", "2002", "2003"]),
        (
            "town,2001,2002,2003\nParis,5,0,2\nRome,1,1,7\n",
            ["Paris", "Rome"],
            ["2001", "2002", "2003"],
        ),
        ("2001,2002,2003\n5,0,2\n1,1,7\n", None, ["2001", "2002", "2003"]),
        ("gene,7,3\na,5,0\nb,1,1\n", ["a", "b"], ["7", "3"]),
        # pandas, index=False
        ("0,1,2,3,4\n5,0,2,1,1\n3,3,0,0,9\n", None, ["0", "1", "2", "3", "4"]),
        (
            "place,0.5,1,1.5,2,2.5\na,5,0,2,1,1\nb,3,3,0,0,9\n",
            ["a", "b"],
            ["0.5", "1", "1.5", "2", "2.5"],
        ),
        (
            "400,401,405,420,421,440,500,501\n5,0,2,1,1,0,3,3\n3,3,0,0,9,1,0,2\n",
            None,
            ["400", "401", "405", "420", "421", "440", "500", "501"],
        ),
        (f"7,3,9\n{DECIMALS}", None, ["7", "3", "9"]),
        # first lines of numbers that are data
        ("1,2\n3,4\n", None, None),
        ("1,2,3\n4,0,7\n1,1,0\n", None, None),
        ("0,1,2,3,4\n5,6,7,8,9\n10,11,12,13,14\n", None, None),
        ("5,1,7,2,9\n0,1,0,2,4\n", None, None),
        ("3,3,9\n0.5,1.25,3.0\n0.25,0,2.75\n", None, None),  # a label does not occur twice
        ("2001,2002,2003\n1999,2010,2004\n1987,1954,2020\n", None, None),  # a table of years
        ("x,1,2\ny,3,4\n", ["x", "y"], None),
        ("a,1,2,3\nb,4,0,7\nc,1,1,0\n", ["a", "b", "c"], None),
        ("gene,3,3\nb,4,0\nc,1,1\n", ["gene", "b", "c"], None),
        # ids
        ("id,a,b\n1,5,0\n2,3,1\n", ["1", "2"], ["a", "b"]),
        ("id,1,2\n7,5,0\n4,3,1\n", ["7", "4"], ["1", "2"]),
        ("sampleID,a,b\n104,5,0\n99,3,1\n", ["104", "99"], ["a", "b"]),
        ("row_index,a,b\n0,5,0\n1,3,1\n2,4,4\n", ["0", "1", "2"], ["a", "b"]),
        ("patient,a,b\n1004,5,0\n1001,3,1\n", ["1004", "1001"], ["a", "b"]),
        ("Unnamed: 0,a,b\n0,5,0\n1,3,1\n", ["0", "1"], ["a", "b"]),
        ("year,a,b\n2001,5,0\n2004,3,1\n", ["2001", "2004"], ["a", "b"]),
        (COUNTING, [str(i) for i in range(1, 11)], None),
        # columns of whole numbers that are features
        ("word,cell\n3,1\n7,0\n", None, ["word", "cell"]),
        ("id,a,b\n1,5,0\n1,3,1\n", None, ["id", "a", "b"]),  # an id does not occur twice
        ("id,a\n1.5,5\n2.5,3\n", None, ["id", "a"]),
        ("time,a\n0,5\n1,3\n2,2\n", None, ["time", "a"]),
        ("acid,lipid\n0,5\n1,3\n2,2\n", None, ["acid", "lipid"]),
        # as other programs write them
        (",a,b\n0,1,2\n1,3,4\n", ["0", "1"], ["a", "b"]),  # pandas
        ('"","a","b"\n"1",1,2\n"2",3,4\n', ["1", "2"], ["a", "b"]),  # R, write.csv
        ('"a","b"\n"1",1,2\n"2",3,4\n', ["1", "2"], ["a", "b"]),  # R, write.table
        ("2001,2002\n1,1,2\n2,3,4\n", ["1", "2"], ["2001", "2002"]),
        ('"5","1"\n"0","2"\n"3","3"\n', None, None),
        ("sep=;\r\nid;a;b\r\nx;1;2\r\ny;3;4\r\n", ["x", "y"], ["a", "b"]),  # Excel
    ],
)
def test_headings_and_names_are_detected(text, rows, columns, tmp_path):
    assert read(tmp_path, text)[0] == (rows, columns)


@pytest.mark.parametrize("text", ["1,5;2,25;0\n0,5;3;1\n", "a;1,5;2,25\nb;0,5;3,5\n"])
def test_decimal_commas_are_no_separators_and_said(text, tmp_path):
    with pytest.raises(InvalidInputError, match=r"holds '\d,\d+' where .* with a decimal point"):
        read(tmp_path, text, header=False)


def test_a_single_line_of_numbers_is_data():
    assert detect_layout([["3", "1", "4"]]) == Layout(header=False, names=False)


def test_a_line_of_which_half_is_text_after_the_first_cell_is_a_heading():
    below = [["1", "2", "3", "4", "5"], ["5", "0", "2", "7", "1"]]
    assert detect_layout([["7", "a", "b", "3", "4"], *below]).header
    assert not detect_layout([["7", "a", "2", "3", "4"], *below]).header


def test_a_heading_of_numbers_is_no_sample_and_an_id_no_feature(tmp_path):
    table = read_table(write(tmp_path / "t.csv", "sample,2001,2002,2003\na,5,0,2\nb,1,1,7\n"))
    assert table.X.tolist() == [[5, 0, 2], [1, 1, 7]]
    assert table.feature_names.tolist() == ["2001", "2002", "2003"]
    table = read_table(write(tmp_path / "t.csv", "id,1,2\n1,5,0\n2,1,1\n"))
    assert table.X.tolist() == [[5, 0], [1, 1]]


@pytest.mark.parametrize(
    "cell", ["1_000", "\uff11\uff12", "\u0661", "1__0", "0x1F", "1\u00a0000", "\u00b2"]
)
def test_only_plain_digits_are_numbers(cell, tmp_path):
    for text in (
        f"a,b\n1,{cell}\n2,3\n4,5\n",
        f"a,b\n{cell},1\n2,3\n4,5\n",
        f"2,3\n4,5\n1,{cell}\n",
    ):
        with pytest.raises(InvalidInputError, match=r"holds '.*' where a number belongs"):
            read_table(write(tmp_path / "t.csv", text))


COLUMN_STYLES = {
    "words": lambda k: [f"f{j}" for j in range(k)],
    "years": lambda k: [str(1990 + j) for j in range(k)],
    "counting": lambda k: [str(j) for j in range(k)],
}
ROW_STYLES = {
    "words": ("name", lambda n: [f"r{i}" for i in range(n)]),
    "gene": ("gene", lambda n: [f"g {i}" for i in range(n)]),
    "ids": ("id", lambda n: [str(7 * i + 3) for i in range(n)]),
    "index": ("", lambda n: [str(i) for i in range(n)]),
}
SEPARATORS = [",", ";", "\t"]


@st.composite
def tables(draw):
    """Counts or decimals in a style of heading and names in which they can be told from numbers by
    the rule."""
    n, k = draw(st.integers(2, 12)), draw(st.integers(5, 9))
    whole = draw(st.booleans())
    entry = st.integers(0, 40) if whole else st.integers(1, 400).map(lambda value: value / 8)
    values = np.array(
        draw(st.lists(st.lists(entry, min_size=k, max_size=k), min_size=n, max_size=n)), dtype=float
    )
    columns = draw(st.sampled_from([None, *COLUMN_STYLES]))
    rows = draw(st.sampled_from([None, "words"] if columns is None else [None, *ROW_STYLES]))
    return values, whole, columns, rows, draw(st.sampled_from(SEPARATORS)), draw(st.booleans())


def steps(line):
    return len(set(np.diff(line))) == 1 and line[1] > line[0]


@given(tables())
def test_tables_of_every_style_are_read_as_they_were_written(tmp_path_factory, drawn):
    values, whole, columns, rows, separator, quoted = drawn
    n, k = values.shape
    # a table of numbers alone is what it is: numbers in equal or rising steps over other numbers
    # are labels
    line = values[0].tolist()
    alike = sum(steps(row) or (np.diff(row) > 0).all() for row in values) > 0 or (
        columns is None and len(set(line)) == k and not whole
    )
    if alike or (rows is None and (values[:, 0] == np.arange(n) + values[0, 0]).all()):
        return
    mark = '"{}"'.format if quoted else "{}".format
    shown = [[str(int(cell)) if whole else repr(float(cell)) for cell in row] for row in values]
    heads = None if columns is None else COLUMN_STYLES[columns](k)
    word, names = (None, None) if rows is None else (ROW_STYLES[rows][0], ROW_STYLES[rows][1](n))
    lines = (
        []
        if heads is None
        else [[mark(head) for head in [*([] if word is None else [word]), *heads]]]
    )
    lines += [
        [mark(name) for name in ([] if names is None else [names[i]])] + row
        for i, row in enumerate(shown)
    ]
    path = tmp_path_factory.mktemp("style") / "t.csv"
    matrix = read_delimited(write(path, "\n".join(separator.join(line) for line in lines) + "\n"))
    np.testing.assert_array_equal(matrix.values, values)
    assert (None if matrix.column_names is None else matrix.column_names.tolist()) == heads
    assert (None if matrix.row_names is None else matrix.row_names.tolist()) == names


class TestOverridden:
    TEXT = "gene,2001,2002\na,5,0\nb,1,1\n"

    def test_arguments(self, tmp_path):
        assert read(tmp_path, "1,2\n3,4\n5,6\n", header=True) == (
            (None, ["1", "2"]),
            [[3, 4], [5, 6]],
        )
        assert read(tmp_path, "1,2,9\n3,4,9\n", names=True) == (
            (["1", "3"], None),
            [[2, 9], [4, 9]],
        )
        assert read(tmp_path, "1,2,9\n3,4,9\n5,6,9\n", header=True, names=True) == (
            (["3", "5"], ["2", "9"]),
            [[4, 9], [6, 9]],
        )
        assert read(tmp_path, self.TEXT, header=False) == (
            (["gene", "a", "b"], None),
            [[2001, 2002], [5, 0], [1, 1]],
        )
        assert read(tmp_path, "id,a\n1,5\n2,3\n", names=False) == (
            (None, ["id", "a"]),
            [[1, 5], [2, 3]],
        )
        assert read(tmp_path, "a,b\n1,1,2\n2,3,4\n", names=True, header=True)[0] == (
            ["1", "2"],
            ["a", "b"],
        )

    def test_impossible_arguments_are_refused(self, tmp_path):
        for choices, message in [
            ({"header": False}, "line 1, column 1 of t.csv holds 'a' where a number belongs"),
            ({"names": False}, "the heading of t.csv has 2 cells, but the line below has 3"),
            ({"header": 3}, "header must be True, False or None; got 3"),
        ]:
            with pytest.raises(InvalidInputError, match=message):
                read_table(write(tmp_path / "t.csv", "a,b\n1,1,2\n2,3,4\n"), **choices)
        np.save(tmp_path / "t.npy", np.eye(2))
        with pytest.raises(
            InvalidInputError,
            match=r"header=True is only for .csv, .tsv files; leave it out for t.npy",
        ):
            read_table(tmp_path / "t.npy", header=True)
        with pytest.raises(InvalidInputError, match="names=False is only for"):
            read_table(np.eye(2), names=False)

    def test_frames_and_parquet_follow_the_rule_of_names(self, tmp_path):
        frame = pd.DataFrame({"id": [7, 4, 9], "a": [1, 2, 3], "b": [0, 5, 1]})
        frame.to_parquet(tmp_path / "t.parquet")
        for source in (frame, tmp_path / "t.parquet", frame.convert_dtypes()):
            table = read_table(source)
            assert table.sample_names.tolist() == ["7", "4", "9"]
            assert table.X.shape == (3, 2)
            assert table.read_as.startswith(
                "names: first column 'id'; if that is wrong, pass names=False"
            )
            assert read_table(source, names=False).X.shape == (3, 3)
        assert read_table(frame.rename(columns={"id": "size"})).X.shape == (3, 3)
        assert read_table(frame.rename(columns={"id": "size"}), names=True).X.shape == (3, 2)

    def test_read_as_says_what_was_detected(self, tmp_path):
        table = read_table(write(tmp_path / "t.csv", self.TEXT), features_in="columns")
        assert (
            table.read_as
            == "heading: first line (2 feature names); names: first column 'gene'; if that is"
            " wrong, pass header=False or names=False"
        )
        assert "(2 sample names)" in read_table(tmp_path / "t.csv", features_in="rows").read_as
        assert read_table(write(tmp_path / "t.csv", "1,2\n3,4\n")).read_as.startswith(
            "heading: none; names: none; "
        )
        assert read_table(np.eye(2)).read_as == ""


class TestCommand:
    @pytest.fixture
    def run(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        write(tmp_path / "t.csv", "place,2001,2002,2003\na,5,0,2\nb,1,1,7\nc,0,3,1\n")

        def run(*arguments):
            with pytest.raises(SystemExit) as stop:
                main(["rays", "t.csv", "--out", "out", "--force", *arguments])
            printed = capsys.readouterr()
            return stop.value.code, printed.out, printed.err

        return run

    def test_it_prints_what_was_detected_and_the_options_that_change_it(self, run):
        code, out, _ = run()
        assert code == 0
        assert "t.csv: 3 samples, 3 features; " in out
        assert "pass --features-in rows" in out
        assert "heading: first line (3 feature names); names: first column 'place'; " in out
        assert "if that is wrong, pass --no-header or --no-names." in out
        assert json.loads(run("--json")[1])["read_as"].startswith(
            "heading: first line (3 feature names)"
        )

    def test_options_override(self, run):
        assert "t.csv: 4 samples, 3 features" in run("--no-header")[1]
        assert "pass --header or --no-names" in run("--no-header")[1]
        code, _, err = run("--no-names", "--no-header")
        assert code == 1
        assert "line 1, column 1 of t.csv holds 'place' where a number belongs" in err

    def test_verify_reads_the_data_as_the_run_did(self, run, tmp_path):
        for choices in (["--no-header"], ["--header"], []):
            assert run(*choices)[0] == 0
            assert verify(tmp_path / "out").n_samples == (4 if choices == ["--no-header"] else 3)


def test_a_run_of_a_frame_is_verified_against_the_frame(tmp_path):
    frame = pd.DataFrame({"id": [7, 4, 9], "a": [1, 2, 3], "b": [0, 5, 1]})
    save(rays(read_table(frame)), tmp_path / "out")
    assert verify(tmp_path / "out", frame).n_features == 2


class TestLabels:
    @pytest.mark.parametrize(
        ("name", "text", "names", "labels"),
        [
            ("l.csv", "2001\n1\n2\n1\n", None, ["1", "2", "1"]),  # one more than samples
            ("l.csv", "a,1\nb,2\nc,1\n", ["a", "b", "c"], ["1", "2", "1"]),
            ("l.csv", "id,2001\nb,2\na,1\nc,1\n", ["a", "b", "c"], ["1", "2", "1"]),
            ("l.csv", "1\n2\n1\n", None, ["1", "2", "1"]),
            ("l.txt", "label\n1\n2\n1\n", None, ["1", "2", "1"]),
            ("l.csv", "y\nn\ny\n", None, ["y", "n", "y"]),  # yes and no
        ],
    )
    def test_a_heading_is_detected_by_names_or_by_count(self, name, text, names, labels, tmp_path):
        assert read_labels(write(tmp_path / name, text), names, 3).tolist() == labels
        # one label more is no heading where it is one of the others
        with pytest.raises(InvalidInputError, match="has 4 labels for 3 samples"):
            read_labels(write(tmp_path / "l.csv", "x\nx\ny\nx\n"), None, 3)

    def test_arguments_override(self, tmp_path):
        path = write(tmp_path / "l.csv", "1,x\n2,y\n3,x\n4,z\n")
        assert read_labels(
            path, np.array(["b", "a", "c"]), 3, header=True, names=False
        ).tolist() == ["y", "x", "z"]
        assert read_labels(path, None, 4, header=False).tolist() == ["x", "y", "x", "z"]
        with pytest.raises(InvalidInputError, match=r"names=True, but l\.csv has one column"):
            read_labels(write(tmp_path / "l.csv", "x\ny\n"), None, 2, names=True)


SITES = "\n".join(f"{17 * k + 3 * (k % 3)},{k % 4},{k % 5}" for k in range(1, 13))


@pytest.mark.parametrize(
    ("head", "rows"),
    [
        *((f"{gas},O3,CO", "10,3,1\n20,2,2\n30,1,9") for gas in ("NO2", "NO", "copy number")),
        ("users,clicks,sales", SITES),  # a plural over numbers: counts
    ],
)
def test_a_measurement_is_not_taken_for_names(head, rows, tmp_path):
    path = write(tmp_path / "t.csv", f"{head}\n{rows}\n")
    assert read_table(path, features_in="columns").features.tolist() == head.split(",")
