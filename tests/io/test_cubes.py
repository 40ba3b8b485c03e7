"""Cubes: NumPy, MATLAB and ENVI files hold the same pixels x bands, and maps go back out in the
same kind."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from conecollapse import InvalidInputError
from conecollapse.cli.commands import run as run_command
from conecollapse.io.envi import ORDERS, TYPES, read_envi, write_envi
from conecollapse.io.spectra import read_spectra

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
        assert found.table.wavelengths.tolist() == list(range(400, 480, 10))


def test_maps_that_are_written_are_read_again(tmp_path):
    write_envi(tmp_path / "m.hdr", tmp_path / "m.img", CUBE, [f"a{{,{k}" for k in range(8)])
    np.testing.assert_allclose(
        read_envi(tmp_path / "m.hdr", tmp_path / "m.img")[0], CUBE, rtol=1e-6
    )


class TestLeftOut:
    """Pixels without data, masked pixels and bad bands are no samples and no channels, and are
    said."""

    def test_nan_pixels_are_nan_in_the_maps_and_counted(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        cube = CUBE.copy()
        cube[0, 0, 3] = cube[2, 5] = np.nan
        np.save("scene.npy", cube)
        kept = np.isfinite(cube).all(axis=2).ravel()
        scene = read_spectra("scene.npy")
        np.testing.assert_array_equal(scene.table.X, CUBE.reshape(30, 8)[kept])
        assert scene.table.sample_names[0] == "row 0, column 1"
        assert scene.shape == (5, 6)
        assert run_command(["unmix", "scene.npy", "-k", "3", "--out", "out"]) == 0
        assert "2 pixels without data left out." in capsys.readouterr().out
        maps = np.load("out/maps.npy")
        assert maps.shape == (5, 6, 4)
        np.testing.assert_array_equal(np.isnan(maps).any(axis=2).ravel(), ~kept)
        np.testing.assert_array_equal(np.isnan(maps).all(axis=2).ravel(), ~kept)
        results = json.loads((tmp_path / "out" / "run.json").read_text())["results"]
        assert (results["n_missing"], results["n_masked"], results["n_samples"]) == (2, 0, 28)
        assert "2 pixels have no data" in (tmp_path / "out" / "report.html").read_text()
        assert run_command(["verify", "out"]) == 0

    @pytest.mark.parametrize("value", [-9999, 0])
    def test_the_ignore_value_of_envi(self, tmp_path, value):
        """A true 0 in some bands is data; any other value is not even in one band."""
        write_cube(tmp_path, "bip", 4, extra=f"data ignore value = {value}\n")
        raw = bytearray((tmp_path / "scene.img").read_bytes())
        raw[7 : 7 + 32] = np.full(8, value, "<f4").tobytes()
        raw[7 + 32 : 7 + 36] = np.full(1, value, "<f4").tobytes()
        (tmp_path / "scene.img").write_bytes(raw)
        scene = read_spectra(tmp_path / "scene.hdr")
        gone = 1 if value == 0 else 2
        np.testing.assert_allclose(scene.table.X[-28:], CUBE.reshape(30, 8)[2:], rtol=1e-6)
        assert scene.table.n_samples == 30 - gone
        assert np.flatnonzero(scene.left_out).tolist() == list(range(gone))
        assert scene.notes == [f"{gone} pixel{'s' * (gone - 1)} without data left out"]

    @pytest.mark.parametrize("kind", ["npy", "flat.npy", "mat", "csv", "hdr", "npz"])
    def test_a_mask_in_any_file(self, tmp_path, monkeypatch, capsys, kind):
        monkeypatch.chdir(tmp_path)
        mask = np.ones((5, 6))
        mask[1, 2:] = 0
        np.save("scene.npy", CUBE)
        file = tmp_path / f"mask.{kind}"
        {
            "npy": lambda: np.save(file, mask),
            "flat.npy": lambda: np.save(file, mask.ravel().astype(bool)),
            "mat": lambda: savemat(file, {"mask": mask.astype(bool)}),
            "csv": lambda: np.savetxt(file, mask, delimiter=",", fmt="%d"),
            "hdr": lambda: write_envi(file, tmp_path / "mask.img", mask[:, :, None], ["mask"]),
            "npz": lambda: np.savez(file, mask=mask),
        }[kind]()
        scene = read_spectra("scene.npy", mask=file)
        np.testing.assert_array_equal(scene.table.X, CUBE[mask > 0])
        if kind == "npy":
            asked = ["unmix", "scene.npy", "-k", "3", "--mask", str(file), "--no-report"]
            assert run_command(asked) == 0
            assert "4 pixels outside the mask left out." in capsys.readouterr().out
            maps = np.load("scene-unmixed/maps.npy")
            np.testing.assert_array_equal(np.isnan(maps).all(axis=2), mask == 0)
            file.unlink()
            assert run_command(["verify", "scene-unmixed"]) == 0

    def test_masks_that_do_not_fit_are_refused(self, tmp_path):
        np.save(tmp_path / "scene.npy", CUBE)
        for mask, message in [
            (np.ones((6, 5)), r"the mask has the shape 6 x 5; it needs 5 x 6 numbers"),
            (np.full((5, 6), "a"), "needs 5 x 6 numbers"),
            (np.zeros(30), "no pixel has data and is in the mask"),
        ]:
            with pytest.raises(InvalidInputError, match=message):
                read_spectra(tmp_path / "scene.npy", mask=mask)

    def test_bad_bands_of_envi_are_left_out_with_their_wavelengths(
        self, tmp_path, monkeypatch, capsys
    ):
        monkeypatch.chdir(tmp_path)
        write_cube(tmp_path, extra="bbl = {1, 0, 1,\n 1, 1, 1, 0, 1}\n")
        good = [0, 2, 3, 4, 5, 7]
        scene = read_spectra("scene.hdr")
        np.testing.assert_allclose(scene.table.X, CUBE.reshape(30, 8)[:, good])
        assert scene.table.wavelengths.tolist() == [400 + 10 * j for j in good]
        assert scene.table.features.tolist() == [f"x{j}" for j in good]
        np.savetxt("nm.txt", np.arange(8))
        asked = ["unmix", "scene.hdr", "-k", "3", "--wavelengths", "nm.txt", "--no-report"]
        assert run_command(asked) == 0
        assert "2 bands left out that the header lists as bad." in capsys.readouterr().out
        lines = (tmp_path / "scene-unmixed" / "endmembers.csv").read_text().splitlines()
        assert [line.split(",")[:2] for line in lines[1:]] == [[f"x{j}", f"{j}.0"] for j in good]
        assert run_command(["verify", "scene-unmixed"]) == 0
        write_cube(tmp_path, extra="bbl = {0, 0, 0, 0, 0, 0, 0, 0}\n")
        with pytest.raises(InvalidInputError, match="lists all 8 bands as bad"):
            read_spectra("scene.hdr")

    def test_where_the_image_lies_reaches_the_header_of_the_maps(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        place = "map info = {UTM, 1, 1, 4e5,\n 5e6, 30, 30, 33, North}\n"
        place += 'coordinate system string = {PROJCS["WGS_1984_UTM"]}\n'
        write_cube(tmp_path, extra=place)
        assert run_command(["unmix", "scene.hdr", "-k", "3", "--no-report"]) == 0
        header = (tmp_path / "scene-unmixed" / "maps.hdr").read_text()
        assert place in header
        maps = read_envi(tmp_path / "scene-unmixed/maps.hdr", tmp_path / "scene-unmixed/maps.img")
        assert maps.cube.shape == (5, 6, 4)


class TestScenes:
    """Public scenes: Y (bands x pixels), nRow and nCol, pixels column by column."""

    @pytest.mark.parametrize("kind", ["mat", "npz", "7.3"])
    @pytest.mark.parametrize("turned", [False, True])
    def test_the_pixels_are_where_the_image_has_them(self, tmp_path, kind, turned):
        flat = CUBE.transpose(1, 0, 2).reshape(30, 8)
        scene = {"Y": flat if turned else flat.T, "nRow": 5, "nCol": 6, "A": SHARES.T}
        scene |= {"maxValue": 1, "names": np.array(["a", "b"])}
        path = tmp_path / ("scene.npz" if kind == "npz" else "scene.mat")
        if kind == "7.3":
            h5py = pytest.importorskip("h5py")
            with h5py.File(path, "w", userblock_size=512) as file:
                for name in ("Y", "A", "nRow", "nCol"):
                    file[name] = np.atleast_2d(scene[name]).T
        else:
            savemat(path, scene) if kind == "mat" else np.savez(path, **scene)
        found = read_spectra(path)
        np.testing.assert_allclose(found.table.X, CUBE.reshape(30, 8))
        assert found.shape == (5, 6)
        shares = read_spectra(path, variable="A").table.X.reshape(5, 6, 3)
        np.testing.assert_allclose(shares.transpose(1, 0, 2).reshape(30, 3), SHARES)

    def test_a_scene_of_another_name_and_a_plain_table(self, tmp_path):
        flat = CUBE.transpose(1, 0, 2).reshape(30, 8)
        savemat(tmp_path / "v.mat", {"V": flat.T, "nRow": 5, "nCol": 6, "nBand": 8})
        np.testing.assert_allclose(read_spectra(tmp_path / "v.mat").table.X, CUBE.reshape(30, 8))
        savemat(tmp_path / "t.mat", {"X": flat, "b": np.arange(3.0)})
        found = read_spectra(tmp_path / "t.mat", shape=(6, 5))
        np.testing.assert_allclose(found.table.X, flat)
        assert found.shape == (6, 5)

    def test_an_archive_with_several_arrays_says_what_can_be_done_and_it_can(
        self, tmp_path, monkeypatch, capsys
    ):
        monkeypatch.chdir(tmp_path)
        np.savez("two.npz", a=CUBE, b=2 * CUBE, c=np.eye(9))
        assert run_command(["unmix", "two.npz", "-k", "2"]) == 1
        said = capsys.readouterr().err
        assert "it has a 5 x 6 x 8, b 5 x 6 x 8, c 9 x 9; choose one by --variable." in said
        asked = ["unmix", "two.npz", "-k", "3", "--variable", "b", "--no-report"]
        assert run_command(asked) == 0
        assert run_command(["verify", "two-unmixed"]) == 0
        assert read_spectra("two.npz", variable="c").table.X.shape == (9, 9)
        np.savez("tables.npz", a=np.eye(5), b=np.eye(9))
        assert run_command(["unmix", "tables.npz", "-k", "2"]) == 1
        assert "it has a 5 x 5, b 9 x 9; choose one by --variable." in capsys.readouterr().err


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
        (lambda d: (d / "scene.hdr").rename(d / "s.hdr"), r"needs a header beside it, scene\.hdr"),
    ],
)
def test_a_damaged_image_is_refused_in_one_sentence(tmp_path, spoil, message):
    write_cube(tmp_path)
    spoil(tmp_path)
    with pytest.raises(InvalidInputError, match=message):
        read_spectra(tmp_path / ("scene.img" if "needs a header" in message else "scene.hdr"))


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
            InvalidInputError, match=r"it has Y 5 x 6 x 8, Z 5 x 6 x 8; choose one by variable"
        ):
            read_spectra(tmp_path / "two.mat")
        with pytest.raises(InvalidInputError, match=r"no array .* called 'W'"):
            read_spectra(tmp_path / "two.mat", variable="W")

    def test_version_7_3_is_read_by_h5py_and_what_is_no_such_file_is_refused(self, tmp_path):
        h5py = pytest.importorskip("h5py")
        with h5py.File(tmp_path / "new.mat", "w", userblock_size=512) as file:
            file["Y"] = CUBE.transpose(2, 1, 0)
        np.testing.assert_allclose(read_spectra(tmp_path / "new.mat").table.X, CUBE.reshape(30, 8))
        (tmp_path / "new.mat").write_bytes(b"nothing of the kind" * 40)
        with pytest.raises(InvalidInputError, match=r"new\.mat cannot be read"):
            read_spectra(tmp_path / "new.mat")


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
    assert "1 negative value set to zero" in capsys.readouterr().out
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
