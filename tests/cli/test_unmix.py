"""``conecollapse unmix``: what it writes, what `verify` refuses, and one sentence for everything
that can be wrong."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp

from conecollapse import InvalidInputError
from conecollapse.io.spectra import read_spectra, read_wavelengths
from conecollapse.report.pictures import MOST_SIDE, shrunk
from conecollapse.runs import verify

HEIGHT, WIDTH, BANDS = 6, 5, 8
PURE = np.array([[5.0, 4, 3, 2, 1, 0.5, 0.2, 0.1], [0.1, 0.2, 0.5, 1, 2, 3, 4, 5]])


@pytest.fixture
def cube(tmp_path, monkeypatch):
    """Mixtures of two spectra as a cube of 6 x 5 pixels, in ``cube.npy`` of an empty folder."""
    monkeypatch.chdir(tmp_path)
    share = np.linspace(0, 1, HEIGHT * WIDTH)[:, None]
    values = (share * PURE[0] + (1 - share) * PURE[1]).reshape(HEIGHT, WIDTH, BANDS)
    np.save("cube.npy", values)
    return values


def refused(run, *arguments):
    code, out, err = run(*arguments)
    assert code == 1, out
    assert err.count("\n") == 1
    assert "this should not have happened" not in err
    return err


def test_a_cube_gives_spectra_maps_a_report_and_a_proof(cube, run, tmp_path):
    np.savetxt("nm.txt", np.arange(400, 480, 10))
    code, out, err = run("unmix", "cube.npy", "-k", "2", "--wavelengths", "nm.txt", "--out", "out")
    assert code == 0, err
    assert (
        "30 samples, 8 channels, an image of 6 x 5 pixels; bands are the last dimension of the cube"
        " (--bands first otherwise)" in out
    )
    assert "proven" in out
    found = pd.read_csv("out/endmembers.csv")
    assert found.columns.tolist() == ["feature", "wavelength", "component 0", "component 1"]
    spectra = found[["component 0", "component 1"]].to_numpy().T
    cosines = (
        spectra @ PURE.T / np.outer(np.linalg.norm(spectra, axis=1), np.linalg.norm(PURE, axis=1))
    )
    assert cosines.max(axis=1).min() > 0.999
    maps = np.load("out/maps.npy")
    assert maps.shape == (HEIGHT, WIDTH, 3)
    np.testing.assert_allclose(maps[:, :, :2] @ spectra, cube, atol=0.02 * cube.max())
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "What is proven" in page
    assert "cube.npy" in page
    assert "http-equiv" in page
    body = page[: page.index("<script")]
    # two maps and their scale, the counts of purity and theirs, the distances and theirs
    assert body.count("src=") == body.count('src="data:image/png;base64,') == 7
    purest = np.load("out/factors.npz")["purity"]
    assert purest.sum() <= 1024
    assert set(np.flatnonzero(purest)) == {0, HEIGHT * WIDTH - 1}
    assert str(verify("out")).startswith(
        "verified: none of the 30 samples is further from the cone of the 2 components than "
    )
    assert run("verify", "out", "--json")[0] == 0


def test_bands_may_come_first_and_a_table_may_have_the_shape_of_an_image(cube, run):
    np.save("first.npy", np.moveaxis(cube, 2, 0))
    np.save("flat.npy", cube.reshape(-1, BANDS))
    pd.DataFrame(cube.reshape(-1, BANDS), columns=[f"<b>{j}" for j in range(BANDS)]).to_csv(
        "flat.csv", index=False
    )
    for name, more in (
        ("first.npy", ("--bands", "first")),
        ("flat.npy", ("--shape", "6x5")),
        ("flat.csv", ("--shape", "6x5")),
    ):
        assert (
            run(
                "unmix",
                name,
                "-k",
                "2",
                "--out",
                name + "-out",
                "--no-report",
                *more,
            )[0]
            == 0
        )
        verify(name + "-out")
    first, flat, named = (
        np.load(f"{name}-out/maps.npy") for name in ("first.npy", "flat.npy", "flat.csv")
    )
    np.testing.assert_allclose(first, flat, atol=1e-9)
    np.testing.assert_allclose(named, flat, atol=1e-9)


def test_a_sparse_table_gives_abundances_by_sample_that_sum_to_one(cube, run):
    X = np.where(cube.reshape(-1, BANDS) < 0.6, 0, cube.reshape(-1, BANDS))
    scipy.io.mmwrite("x.mtx", sp.coo_array(X))
    code, out, err = run("unmix", "x.mtx", "-k", "2", "--sum-to-one", "--json", "--out", "out")
    assert code == 0, err
    assert json.loads(out)["n_components"] == 2
    found = pd.read_csv("out/abundances.csv")
    np.testing.assert_allclose(found[["component 0", "component 1"]].sum(axis=1), 1, atol=1e-6)
    assert len(found) == 30
    verify("out")


def test_negative_values_are_refused_or_clipped_and_counted(cube, run):
    cube[0, 0, 0] = cube[2, 3, 1] = -0.5
    np.save("cube.npy", cube)
    sentence = (
        "2 negative values, the first in row 1 ('pixel 1, 1'), column 1: -0.5; the values must be"
        " >= 0: undo a logarithm or shift, "
    )
    assert sentence + "or pass --clip to set them to zero" in refused(
        run, "unmix", "cube.npy", "-k", "2", "--out", "out"
    )
    code, out, _ = run("unmix", "cube.npy", "-k", "2", "--clip", "--out", "out", "--no-report")
    assert code == 0
    assert "2 negative values set to zero" in out
    verify("out")
    scipy.io.mmwrite("x.mtx", sp.coo_array(cube.reshape(-1, BANDS)))
    assert read_spectra("x.mtx", clip=True).n_clipped == 2


def test_an_empty_band_and_a_dead_row_are_kept_in_place_with_a_note(cube, run):
    cube[:, :, 3] = 0
    cube[2] = 0
    np.save("cube.npy", cube)
    code, _, err = run("unmix", "cube.npy", "-k", "2", "--out", "out")
    assert code == 0, err
    assert "hold only zeros" in err
    maps = np.load("out/maps.npy")
    assert np.isfinite(maps).all()
    assert not maps[2].any()
    assert not pd.read_csv("out/endmembers.csv").iloc[3, 1:].any()


def test_mistakes_are_refused_in_one_sentence_and_nothing_is_written(cube, run, tmp_path):
    np.savetxt("short.txt", np.arange(7))
    (tmp_path / "words.txt").write_text("nm 1 2 three", encoding="utf-8")
    cases = [
        (("-k", "9"), "9 components were asked for, but there are only 8 features"),
        (
            ("-k", "3"),
            (
                "n_components = 3, but X has rank 2: its samples span only 2 dimensions; ask for at"
                " most 2"
            ),
        ),
        (
            ("-k", "2", "--wavelengths", "short.txt"),
            "short.txt has 7 wavelengths, but the data has 8 bands",
        ),
        (("-k", "2", "--wavelengths", "words.txt"), "words.txt is no list of wavelengths"),
        (("-k", "2", "--shape", "7x7"), "has 6 x 5 pixels, not 7 x 7"),
        (("-k", "2", "--shape", "7"), "--shape takes height x width"),
        (("-k", "2", "--bands", "middle"), "must be one of last, first"),
        (("-k", "2", "--sum-to-one", "--closure"), "leave --sum-to-one out"),
        (("-k", "2", "--fixed", "short.txt"), "short.txt"),
        (("-k", "2", "--outliers", "many"), "--outliers takes a share"),
    ]
    for arguments, sentence in cases:
        assert sentence in refused(run, "unmix", "cube.npy", "--out", "out", *arguments)
    np.save("flat.npy", cube.reshape(-1, BANDS))
    assert "an image of 4 x 4 has 16 pixels, but the table has 30 samples" in refused(
        run, "unmix", "flat.npy", "-k", "2", "--shape", "4x4", "--out", "out"
    )
    cube[0, 0, 0] = np.inf
    np.save("inf.npy", cube)
    assert "an infinite value in row 1 ('pixel 1, 1'), column 1" in refused(
        run, "unmix", "inf.npy", "-k", "2", "--out", "out"
    )
    np.save("four.npy", cube[None])
    assert "4 dimensions; a cube has three, and a table two" in refused(
        run, "unmix", "four.npy", "-k", "2", "--out", "out"
    )
    np.save("zero.npy", np.zeros((3, 3, 4)))
    assert "zero everywhere" in refused(run, "unmix", "zero.npy", "-k", "2", "--out", "out")
    np.save("equal.npy", np.tile(PURE[0], (3, 3, 1)))
    assert "X has rank 1: all its samples have the same direction; ask for at most 1" in refused(
        run, "unmix", "equal.npy", "-k", "2", "--out", "out"
    )
    np.save("few.npy", np.ones((1, 3, BANDS)))
    assert "4 components were asked for, but there are only 3 samples" in refused(
        run, "unmix", "few.npy", "-k", "4", "--out", "out"
    )
    assert "there is no file" in refused(run, "unmix", "none.npy", "-k", "2", "--out", "out")
    assert not (tmp_path / "out").exists()
    np.savetxt("inf.txt", [1, np.inf])
    with pytest.raises(InvalidInputError, match="no finite number, number 2"):
        read_wavelengths("inf.txt", 2)


def test_large_maps_are_averaged():
    image = np.arange(2.0 * MOST_SIDE * 3).reshape(2 * MOST_SIDE, 3)
    small = shrunk(image)
    assert small.shape == (MOST_SIDE, 2)
    assert small[0, 0] == image[:2, :2].mean()
    assert small[0, 1] == image[:2, 2].mean()


def test_the_number_of_components_is_chosen_and_the_reason_is_said(cube, run):
    noise = 0.01 * np.random.default_rng(0).random(cube.shape)
    np.save("cube.npy", cube + noise)
    code, out, err = run("unmix", "cube.npy", "-k", "auto", "--no-report")
    assert code == 0, err
    assert "2 components (chosen: 2 dimensions leave independent noise" in out
    facts = json.loads(Path("cube-unmixed/run.json").read_text())
    assert facts["results"]["n_components"] == 2
    assert "independent noise" in facts["results"]["rank_reason"]
    assert facts["parameters"]["n_components"] == "auto"
    assert verify("cube-unmixed").n_samples == HEIGHT * WIDTH
    assert "-k takes a number of components, or auto; got '0'" in refused(
        run, "unmix", "cube.npy", "-k", "0"
    )


def test_candidates_and_spread_are_written_and_said(cube, run, tmp_path):
    noise = 0.05 * np.random.default_rng(0).random(cube.shape)
    np.save("cube.npy", cube + noise)
    code, out, err = run("unmix", "cube.npy", "-k", "2", "--out", "out")
    assert code == 0, err
    facts = json.loads(Path("out/run.json").read_text())["results"]
    values = [one["J"] for one in facts["candidates"]]
    assert values == sorted(values)
    assert values
    spread, found = (
        pd.read_csv(f"out/{name}.csv").iloc[:, 1:] for name in ("spread", "endmembers")
    )
    lengths = [np.sqrt(np.square(frame).sum()) for frame in (spread, found)]
    np.testing.assert_allclose(lengths[0] / lengths[1], facts["spread"], rtol=1e-6)
    assert min(facts["spread"]) > 0
    sentence = "Candidates that explain the data about as well agree on component "
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert sentence in out
    assert sentence in page
    assert facts["candidates"][0]["name"] in page
    assert "the candidates and their spread" in verify("out").not_checked


def test_known_components_are_matched_by_names_and_amounts_sum_to_one(cube, run):
    names = [f"band {j}" for j in range(BANDS)]
    rng = np.random.default_rng(0)
    X = pd.DataFrame(cube.reshape(-1, BANDS) + 0.05 * rng.random((30, BANDS)), columns=names)
    X.to_csv("x.csv", index=False)
    known = pd.DataFrame(PURE + 0.1 * rng.random(PURE.shape), columns=names).iloc[1:]
    known[names[::-1]].to_csv("known.csv", index=False)
    asked = ("unmix", "x.csv", "-k", "2", "--no-report", "--fixed")
    code, _, err = run(*asked, "known.csv", "--closure", "--out", "out")
    assert code == 0, err
    found = pd.read_csv("out/endmembers.csv")["component 0"].to_numpy()
    wanted = known.to_numpy()[0]
    np.testing.assert_allclose(found / found.sum(), wanted / wanted.sum(), rtol=1e-9)
    assert not pd.read_csv("out/spread.csv")["component 0"].any()
    amounts = pd.read_csv("out/abundances.csv")[["component 0", "component 1"]]
    np.testing.assert_allclose(amounts.sum(axis=1), 1, atol=1e-9)
    verify("out")
    known.drop(columns="band 3").to_csv("fewer.csv", index=False)
    assert "fewer.csv has no feature 'band 3', which the data has" in refused(
        run, *asked, "fewer.csv"
    )
    np.save("short.npy", np.ones((1, 5)))
    assert "short.npy has 5 features, but the data has 8" in refused(run, *asked, "short.npy")
