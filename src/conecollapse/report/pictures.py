"""Small images as data URIs: PNG files of 256 colours, which a page shows without any script."""

from __future__ import annotations

import base64
import struct
import zlib
from functools import lru_cache
from typing import Any

import numpy as np
from plotly.colors import sample_colorscale, unlabel_rgb

from conecollapse._types import AnyArray, FloatArray
from conecollapse.plots.style import SCALE

LEVELS = 256
MOST_SIDE = 480  # pixels of an image at most; larger ones are averaged


def image(values: Any, peak: float | None = None, scale: str = SCALE) -> str:
    """A matrix as an image, from 0 to ``peak`` (its largest value by default), in a scale of
    colours that plotly knows; NaN is drawn as 0.

    Examples
    --------
    >>> image([[0.0, 1.0]])[:22]
    'data:image/png;base64,'
    """
    values = np.nan_to_num(shrunk(np.asarray(values, np.float64)))
    peak = float(values.max(initial=0.0)) if peak is None else peak
    shares = np.clip(values / peak, 0.0, 1.0) if peak > 0 else np.zeros_like(values)
    picture = _png(np.round((LEVELS - 1) * shares).astype(np.uint8), _colours(scale))
    return f"data:image/png;base64,{base64.b64encode(picture).decode()}"


def shrunk(values: FloatArray) -> FloatArray:
    """The matrix with at most `MOST_SIDE` pixels on a side, each the mean of a block."""
    step = -(-max(values.shape) // MOST_SIDE)
    if step <= 1:
        return values
    height, width = (-(-side // step) for side in values.shape)
    padded = np.full((height * step, width * step), np.nan)
    padded[: values.shape[0], : values.shape[1]] = values
    blocks = padded.reshape(height, step, width, step)
    counts = np.isfinite(blocks).sum(axis=(1, 3))
    return np.asarray(np.nansum(blocks, axis=(1, 3)) / np.maximum(counts, 1))


def gradient(scale: str = SCALE) -> str:
    """The scale of colours as an image, to be stretched."""
    return image(np.arange(LEVELS)[None] / (LEVELS - 1), 1.0, scale)


@lru_cache
def _colours(scale: str) -> bytes:
    found = sample_colorscale(scale, np.linspace(0, 1, LEVELS).tolist())
    return bytes(round(part) for colour in found for part in unlabel_rgb(colour))


def _png(levels: AnyArray, colours: bytes) -> bytes:
    """A PNG file (W3C's specification, section 5): a head, the palette, the rows without a filter,
    an end."""
    height, width = levels.shape
    rows = np.zeros((height, width + 1), np.uint8)
    rows[:, 1:] = levels
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", colours),
        (b"IDAT", zlib.compress(rows.tobytes(), 9)),
        (b"IEND", b""),
    )
    chunks = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
