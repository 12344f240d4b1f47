"""Pictures that come in are decoded with care."""

import base64
import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from untwine.data.files.folders import filling, square
from untwine.errors import UntwineError
from untwine.explore.pictures import MOST_PIXELS, picture_url, prepared

SHAPE = (1, 8, 8)


def saved(image: Image.Image, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


def claiming(width: int, height: int) -> bytes:
    """A small PNG that says it has this size."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 10)) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"])
def test_common_formats_are_read(kind: str):
    grey = prepared(saved(Image.new("RGB", (20, 30), (200, 200, 200)), kind), SHAPE)
    assert grey.shape == SHAPE and grey.dtype == np.uint8 and np.abs(grey.astype(int) - 200).max() <= 2


def test_transparent_and_turned_pictures():
    picture = Image.new("RGBA", (8, 8), (0, 0, 0, 0))
    assert (prepared(saved(picture), SHAPE) == 255).all()  # white behind, as in a folder of pictures
    turned = Image.new("L", (8, 8))
    turned.paste(255, (0, 0, 8, 4))  # the upper half is white
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise
    file = io.BytesIO()
    turned.save(file, "PNG", exif=exif)
    assert (prepared(file.getvalue(), SHAPE)[0, :, 4:] == 255).all()


@pytest.mark.parametrize("shape", [(3, 8, 8), (1, 6, 12), (3, 12, 6)])
def test_pictures_take_the_shape_of_the_models_images(shape: tuple[int, ...]):
    assert prepared(saved(Image.new("RGB", (40, 40))), shape).shape == shape


def test_middle_of_a_picture_fills_any_shape():
    numbered = Image.fromarray(np.arange(40 * 40, dtype=np.float32).reshape(40, 40))
    values = np.asarray(numbered)
    assert (np.asarray(filling(numbered, 40, 20)) == values[10:30]).all()
    assert (np.asarray(filling(numbered, 10, 40)) == values[:, 15:25]).all()
    halved = values.reshape(20, 2, 20, 2).mean((1, 3))
    np.testing.assert_allclose(np.asarray(square(numbered, 20)), halved, rtol=1e-6)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no picture that can be read"),
        (b"hello", "no picture that can be read"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "no picture that can be read"),  # Ghostscript would run
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "no picture that can be read"),
        (claiming(30_000, 30_000), "more than 64 million pixels: make it smaller"),
        (claiming(9_000, 9_000), "more than 64 million pixels: make it smaller"),  # which Pillow would only warn of
        (claiming(8, 8), "broken"),
        (saved(Image.effect_noise((99, 99), 50))[:2000], "broken"),
        (saved(Image.effect_noise((99, 99), 50), "JPEG")[:500], "broken"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_broken_files_get_a_reason(content: bytes, message: str):
    with pytest.raises(UntwineError, match=message):
        prepared(content, SHAPE)


def test_limit_lets_photographs_pass():
    assert MOST_PIXELS > 48_000_000  # of a telephone


def test_numbers_outside_of_a_picture_are_cut():
    url = picture_url(np.array([[[-1.0, 2.0], [np.nan, 0.5]]], np.float32))
    shown = np.asarray(Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))))
    assert shown.tolist() == [[0, 255], [0, 128]]


def test_page_needs_no_network():
    """No file of the page names another place."""
    from untwine.explore.server import PAGE

    for file in Path(PAGE).iterdir():
        text = file.read_text().replace("http://www.w3.org/2000/svg", "")
        assert "http" not in text and "//cdn" not in text, file.name
