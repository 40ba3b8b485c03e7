"""Cubes: NumPy, MATLAB and ENVI files hold the same pixels x bands, and maps go back out in the
same kind."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from conecollapse import InvalidInputError
from conecollapse.cli.commands import run as run_command
from conecollapse.io.cube import read_spectra
from conecollapse.io.envi import ORDERS, TYPES, read_envi, write_envi

RNG = np.random.default_rng(0)
SHARES = RNG.dirichlet([0.5, 0.5, 0.5], 30)
PURE = RNG.random((3, 8)) + 0.2
CUBE = (SHARES @ PURE).reshape(5, 6, 8)


def write_cube(folder, order="bsq", code=5, endian="<", extra="", data="scene.img"):
    """An ENVI image of `CUBE`, in whole numbers where the type has only these."""
    dtype = np.dtype(TYPES[code]).newbyteorder(endian)
    cube = CUBE if dtype.kind == "f" else np.round(100 * CUBE)
    axes = np.argsort(ORDERS[order])  # from rows, columns, bands to the order in the file
    (folder / data).write_bytes(
        b"\0" * 7 + np.ascontiguousarray(cube.transpose(axes)).astype(dtype).tobytes()
    )
    header = (
        "ENVI\ndescription = {\n  a = b}\nsamples = 6\nlines   = 5\nbands = 8\nheader offset ="
        f" 7\ndata type = {code}\n"
    )
    header += (
        f"interleave = {order}\nbyte order = {int(endian == '>')}\nwavelength = {{\n"
        f" {', '.join(map(str, range(400, 480, 10)))}}}\n"
    )
    (folder / "scene.hdr").write_text(header + extra)
    return cube


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("code", "endian"), [(4, "<"), (5, ">"), (12, "<"), (2, ">"), (1, "<")])
def test_every_order_and_type_of_envi_is_the_same_cube(tmp_path, order, code, endian):
    cube = write_cube(tmp_path, order, code, endian)
    for name in ("scene.hdr", "scene.img"):
        found = read_spectra(tmp_path / name)
        np.testing.assert_allclose(found.table.X, cube.reshape(30, 8), rtol=1e-6)
        assert found.shape == (5, 6)
        assert found.wavelengths.tolist() == list(range(400, 480, 10))


def test_maps_that_are_written_are_read_again(tmp_path):
    write_envi(tmp_path / "m.hdr", tmp_path / "m.img", CUBE, [f"a{{,{k}" for k in range(8)])
    np.testing.assert_allclose(
        read_envi(tmp_path / "m.hdr", tmp_path / "m.img")[0], CUBE, rtol=1e-6
    )


def test_values_of_no_data_become_zero(tmp_path):
    write_cube(tmp_path, "bip", 4, extra="data ignore value = -9999\n")
    raw = bytearray((tmp_path / "scene.img").read_bytes())
    raw[7 : 7 + 32] = np.full(8, -9999, "<f4").tobytes()
    (tmp_path / "scene.img").write_bytes(raw)
    assert not read_spectra(tmp_path / "scene.hdr").table.X[0].any()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda d: (d / "scene.img").unlink(), "there is no file of numbers beside scene.hdr"),
        (
            lambda d: (d / "scene.img").write_bytes(b"12"),
            "scene.img has 2 bytes, but scene.hdr promises 1927",
        ),
        (lambda d: (d / "scene.hdr").write_text("lines = 3\n"), "its first line is not ENVI"),
        (
            lambda d: (d / "scene.hdr").write_text("ENVI\nlines = 3\nbands = 2\n"),
            "no whole number for 'samples'",
        ),
        (
            lambda d: (d / "scene.hdr").write_text(
                "ENVI\nlines=3\nbands=2\nsamples=2\ndata type=6\n"
            ),
            "says data type 6",
        ),
    ],
)
def test_a_damaged_image_is_refused_in_one_sentence(tmp_path, spoil, message):
    write_cube(tmp_path)
    spoil(tmp_path)
    with pytest.raises(InvalidInputError, match=message):
        read_spectra(tmp_path / "scene.hdr")


def test_numbers_without_a_header_are_refused(tmp_path):
    write_cube(tmp_path)
    (tmp_path / "scene.hdr").unlink()
    with pytest.raises(InvalidInputError, match=r"scene.img needs a header beside it, scene\.hdr"):
        read_spectra(tmp_path / "scene.img")


class TestMatlab:
    def test_the_only_cube_is_read_and_one_of_several_by_name(self, tmp_path):
        savemat(
            tmp_path / "one.mat",
            {"Y": CUBE, "names": np.array(["a"], dtype=object), "flat": np.eye(3)},
        )
        np.testing.assert_allclose(read_spectra(tmp_path / "one.mat").table.X, CUBE.reshape(30, 8))
        savemat(tmp_path / "two.mat", {"Y": CUBE, "Z": 2 * CUBE})
        np.testing.assert_allclose(
            read_spectra(tmp_path / "two.mat", variable="Z").table.X, 2 * CUBE.reshape(30, 8)
        )
        with pytest.raises(
            InvalidInputError, match=r"it has Y 5 x 6 x 8, Z 5 x 6 x 8\. Choose by variable"
        ):
            read_spectra(tmp_path / "two.mat")
        with pytest.raises(InvalidInputError, match="no array of three dimensions called 'W'"):
            read_spectra(tmp_path / "two.mat", variable="W")

    def test_version_7_3_is_read_by_h5py(self, tmp_path):
        h5py = pytest.importorskip("h5py")
        with h5py.File(tmp_path / "new.mat", "w", userblock_size=512) as file:
            file["Y"] = CUBE.transpose(2, 1, 0)
        np.testing.assert_allclose(read_spectra(tmp_path / "new.mat").table.X, CUBE.reshape(30, 8))

    def test_what_is_no_file_of_matlab_is_refused(self, tmp_path):
        (tmp_path / "x.mat").write_bytes(b"nothing of the kind" * 40)
        with pytest.raises(InvalidInputError, match=r"x\.mat cannot be read"):
            read_spectra(tmp_path / "x.mat")


@pytest.mark.parametrize("kind", ["envi", "mat"])
def test_maps_go_back_out_as_the_cube_came_in(tmp_path, monkeypatch, capsys, kind):
    monkeypatch.chdir(tmp_path)
    dark = CUBE.copy()
    dark[0, 0, 0] = -0.01
    if kind == "envi":
        write_envi(tmp_path / "scene.hdr", tmp_path / "scene.img", dark, [str(k) for k in range(8)])
    else:
        savemat("scene.mat", {"Y": dark, "other": dark})
    options = ["scene.hdr"] if kind == "envi" else ["scene.mat", "--variable", "Y"]
    assert run_command(["unmix", *options, "-k", "3"]) == 1
    assert "1 negative value" in capsys.readouterr().err
    assert run_command(["unmix", *options, "-k", "3", "--clip", "--no-report"]) == 0
    assert "1 negative values were set to zero" in capsys.readouterr().out
    folder = tmp_path / "scene-unmixed"
    maps = np.load(folder / "maps.npy")
    out = (
        read_envi(folder / "maps.hdr", folder / "maps.img")[0]
        if kind == "envi"
        else loadmat(folder / "maps.mat")["maps"]
    )
    np.testing.assert_allclose(out, maps, rtol=1e-5, atol=1e-7)
    assert json.loads((folder / "run.json").read_text())["preparation"]["variable"] == (
        None if kind == "envi" else "Y"
    )
    assert run_command(["verify", str(folder)]) == 0
