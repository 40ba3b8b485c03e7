"""The experiment: records that survive a killed process, scoreboards drawn from them, and the
errors of the command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks.paper.__main__ import main
from benchmarks.paper.ablation import ABLATION, CONSTANTS, leave_one_out
from benchmarks.paper.methods import (
    METHODS,
    PROTOCOLS,
    KMeansClusters,
    SpectralClusters,
    _coordinates,
)
from benchmarks.paper.records import Record, append, read
from benchmarks.paper.runs import run
from benchmarks.paper.scoreboard import brief, make_scoreboard, markdown
from conecollapse import InvalidInputError
from conecollapse.datasets import load
from conecollapse.metrics import purity_score

ROOT = Path(__file__).parents[2]
RECORD = Record(
    "DIGITS", "ours", "GraphCCNMF", 0, 0.8, 0.7, 0.7, 0.6, 0.1, 0.0, True, 1.0, 0.5, "root", ""
)


def small_digits(monkeypatch):
    """Digits cut down to 120 samples, under its own name."""
    digits = load("digits")
    chosen = np.flatnonzero(digits.y < 3)[:120]
    small = replace(digits, X=digits.X[chosen], y=digits.y[chosen])
    monkeypatch.setattr("benchmarks.paper.runs.load", lambda *_, **__: small)
    monkeypatch.setattr("benchmarks.paper.runs._loaded", {})
    return small


@pytest.mark.slow
def test_every_method_runs_and_is_recorded_once(tmp_path, monkeypatch):
    small_digits(monkeypatch)
    path = tmp_path / "scoreboard.jsonl"
    seen = []
    records = run(["DIGITS"], path, seeds=[0], report=lambda *event: seen.append(event))
    assert len(records) == len(METHODS) == len(seen)
    assert {record.protocol for record in records} == set(PROTOCOLS)
    assert all(0.3 < record.purity <= 1 and record.accuracy <= record.purity for record in records)
    assert all(record.objective is None for record in records if record.protocol == "others")
    before = path.read_bytes()
    assert run(["DIGITS"], path, seeds=[0]) == records
    assert path.read_bytes() == before  # nothing was run again
    assert len(run(["DIGITS"], path, seeds=[0, 1], protocols=["others"])) == len(METHODS) + 3


@pytest.mark.full
def test_every_variant_runs(tmp_path, monkeypatch):
    small_digits(monkeypatch)
    for methods in (ABLATION, CONSTANTS):
        records = run(
            ["DIGITS"],
            tmp_path / "x.jsonl",
            seeds=[0],
            protocols=[methods[0].protocol],
            methods=methods,
        )
        assert {method.name for method in methods} <= {record.method for record in records}


def test_a_killed_run_leaves_complete_lines(tmp_path):
    path = tmp_path / "scoreboard.jsonl"
    append(path, RECORD)
    with path.open("a") as file:
        file.write('{"dataset": "DIGI')  # killed here
    append(path, replace(RECORD, seed=1))
    assert [record.seed for record in read(path)] == [0, 1]
    append(path, replace(RECORD, purity=0.9))  # the last of two with the same key counts
    assert sorted(record.purity for record in read(path)) == [0.8, 0.9]
    path.write_text(json.dumps({"dataset": "DIGITS"}) + "\n")
    with pytest.raises(InvalidInputError, match=r"line 1 of .* is not a result of this version"):
        read(path)
    assert read(tmp_path / "none.jsonl") == []


def test_the_scoreboard_says_what_was_measured():
    records = [
        replace(RECORD, dataset="KHAN", seed=s, purity=0.6 + 0.01 * s, differs="other <genes>")
        for s in range(5)
    ]
    records += [
        replace(r, protocol="others", method="k-means", purity=r.purity - 0.2) for r in records
    ]
    scoreboard = make_scoreboard(records)
    text = markdown(scoreboard)
    assert scoreboard.columns[:2] == (("paper", "CC-NMF"), ("ours", "GraphCCNMF"))
    assert (
        "| KHAN* | 0.63 | **0.620 ± 0.014** | 0.420 ± 0.014 | > k-means (other methods), p ="
        " 0.009 |" in text
    )
    assert "| mean | 0.630 | 0.620 | 0.420 | |" in text
    assert "other <genes>" in text
    assert "| KHAN* | 0.63 | 0.420 | **0.620** |" in brief(scoreboard)


def test_leave_one_out_by_hand():
    names = [method.name for method in CONSTANTS]
    records = []
    for dataset, best in (("A", 0), ("B", 1), ("C", 1)):
        for place, name in enumerate(names):
            score = 0.9 if place == best else 0.5
            records.append(
                replace(RECORD, dataset=dataset, protocol="constants", method=name, purity=score)
            )
    mean, chosen = leave_one_out(records)
    assert chosen["A"] == (names[1], 0.5)  # the others like the second setting
    assert chosen["B"][1] == 0.5  # a tie of the first and the second: the first
    assert mean == pytest.approx((0.5 + 0.5 + 0.5) / 3)


def test_other_methods_find_clear_clusters():
    digits = load("digits")
    chosen = np.flatnonzero(digits.y < 3)[:150]
    X, y = digits.X[chosen], digits.y[chosen]
    for model in (
        KMeansClusters(3, 0, spherical=False),
        KMeansClusters(3, 0, spherical=True),
        SpectralClusters(3, 0),
    ):
        assert purity_score(y, model.fit_predict(X)) > 0.85


def test_coordinates_keep_every_inner_product():
    X = np.random.default_rng(0).random((6, 40))
    P = _coordinates(X)
    assert P.shape == (6, 6)
    np.testing.assert_allclose(P @ P.T, X @ X.T, rtol=1e-12)
    tall = X.T
    assert _coordinates(tall) is tall
    assert _coordinates(sp.csr_array(X)).shape == (6, 40)  # and so do sparse ones


@pytest.mark.full
def test_two_processes_record_the_same_runs(tmp_path):
    one, two = (
        {
            r.key: (r.purity, r.nmi)
            for r in run(
                ["DIGITS"], tmp_path / f"{n}.jsonl", seeds=[0, 1], protocols=["others"], jobs=n
            )
        }
        for n in (1, 2)
    )
    assert one == two
    assert len(one) == 6


@pytest.mark.full
def test_the_command_reproduces_and_draws_again(tmp_path, capsys):
    main(["digits", "--out", str(tmp_path), "--seeds", "1", "--protocol", "ours", "--jobs", "1"])
    first = capsys.readouterr().out
    assert "| DIGITS |" in first
    main(["--out", str(tmp_path), "--redraw"])
    assert capsys.readouterr().out == first


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["AMLAL"], "AMLALL"),
        (["--study", "all"], "argument --study: invalid choice: 'all'"),
        (["--protocol", "mine"], "argument --protocol: invalid choice: 'mine'"),
        (["--redraw"], "has no records; leave out --redraw."),
        (["--out", "/proc/nowhere"], "cannot write to /proc/nowhere"),
    ],
)
def test_the_command_fails_in_one_sentence(arguments, message, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("CONECOLLAPSE_DATA", "")
    with pytest.raises(SystemExit):
        main(["--out", str(tmp_path), *arguments])
    assert message in capsys.readouterr().err.splitlines()[-1]
