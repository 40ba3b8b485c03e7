"""Images: one row of grey values for each, pixel by pixel along its rows."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

from conecollapse._errors import DatasetError
from conecollapse._types import AnyArray
from conecollapse.datasets.dataset import Parsed, encode
from conecollapse.datasets.files import natural, read_mat, read_members

# 34 of the 64 lightings of each person fit the paper's 1292 images; these bounds, in degrees,
# select exactly 34
YALEB_AZIMUTH, YALEB_ELEVATION = 70, 35
_PGM_HEADER = re.compile(
    rb"P5\s+(?:#[^\n]*\n\s*)*(\d+)\s+(?:#[^\n]*\n\s*)*(\d+)\s+(?:#[^\n]*\n\s*)*(\d+)\s"
)


def orl(path: Path) -> Parsed:
    """Folders s1, s2, ... with a PGM file for each image."""
    return _images(path, r"(?:^|/)(s\d+)/\d+\.pgm$")


def yaleb(path: Path) -> Parsed:
    """Folders yaleB01, ... with a PGM file for each lighting, named by azimuth and elevation;
    lights far from the camera are left out."""

    def near(name: re.Match[str]) -> bool:
        return abs(int(name[2])) <= YALEB_AZIMUTH and abs(int(name[3])) <= YALEB_ELEVATION

    return _images(path, r"(?:^|/)(yaleB\d+)/[^/]*A([+-]\d+)E([+-]\d+)\.pgm(?:\.bad)?$", keep=near)


def coil20(path: Path) -> Parsed:
    """Images ``obj1__0.png`` and so on: the object and its pose."""
    return _images(path, r"(?:^|/)(obj\d+)__\d+\.png$")


def curetgrey(path: Path) -> Parsed:
    """Folders of images of one material each, halved in both directions: means of 2 x 2 pixels."""
    return _images(path, r"(?:^|/)([^/]+)/[^/]+\.(?:png|pgm|bmp|jpe?g|tiff?)$", change=halved)


def umist(path: Path) -> Parsed:
    """``umist_cropped.mat``: ``facedat``, for each person an array height x width x images."""
    [facedat] = read_mat(path, "facedat")
    people = facedat.ravel()
    faces = np.concatenate([np.moveaxis(person, 2, 0) for person in people])
    y = np.repeat(np.arange(len(people)), [person.shape[2] for person in people])
    return Parsed(faces.reshape(len(faces), -1).astype(np.float64), y, image_shape=faces.shape[1:])


def digits() -> Parsed:
    """scikit-learn's digits."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    names = tuple(str(name) for name in bunch.target_names)
    return Parsed(
        bunch.data, bunch.target.astype(np.int64), tuple(bunch.feature_names), names, (8, 8)
    )


def halved(image: AnyArray) -> AnyArray:
    """Means of 2 x 2 pixels; an odd last row or column is dropped."""
    height, width = image.shape[0] // 2, image.shape[1] // 2
    return (
        image[: 2 * height, : 2 * width]
        .reshape(height, 2, width, 2)
        .mean(axis=(1, 3), dtype=np.float32)
    )


def _images(
    path: Path,
    pattern: str,
    *,
    keep: Callable[[re.Match[str]], bool] | None = None,
    change: Callable[[AnyArray], AnyArray] | None = None,
) -> Parsed:
    """Images whose names have ``pattern``, of the class that its first group names."""
    members = read_members(path, pattern)
    if keep is not None:
        members = [pair for pair in members if keep(pair[0])]
    if not members:
        raise ValueError("none of its images is one of those that are used")
    images, kinds = [], []
    for name, content in members:
        pixels = _grey(name.string, content)
        images.append(pixels if change is None else change(pixels))
        kinds.append(name[1])
        if images[-1].shape != images[0].shape:
            raise ValueError(
                f"{name.string} has {images[-1].shape} pixels, the images before it"
                f" {images[0].shape}"
            )
    classes = tuple(sorted(set(kinds), key=natural))
    X = np.array([image.ravel() for image in images]).astype(np.float64)
    return Parsed(X, encode(kinds, classes), None, classes, images[0].shape)


def _grey(name: str, content: bytes) -> AnyArray:
    """The pixels of an image: PGM files are read here, all others by pillow."""
    if ".pgm" in name:
        return _pgm(name, content)
    try:
        from PIL import Image
    except ImportError as error:
        raise DatasetError(
            f"{name} is an image that only pillow reads; install it: pip install pillow."
        ) from error
    try:
        with Image.open(io.BytesIO(content)) as image:
            return np.asarray(image.convert("L"))
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"{name} is not an image that can be read") from error


def _pgm(name: str, content: bytes) -> AnyArray:
    header = _PGM_HEADER.match(content)
    if header is None or int(header[3]) > 255:
        raise ValueError(f"{name} is not a PGM image of 8 bits")
    width, height = int(header[1]), int(header[2])
    pixels = np.frombuffer(content, np.uint8, offset=header.end())
    if len(pixels) < width * height:
        raise ValueError(f"{name} is cut off after {len(pixels)} of its {width * height} pixels")
    return pixels[: width * height].reshape(height, width)
