"""A user's own pictures and arrays: what is accepted, and what the errors say."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from untwine.data import build
from untwine.datasets import images
from untwine.errors import UntwineError


def gradient(height: int, width: int) -> np.ndarray:
    return np.linspace(0, 255, height * width).reshape(height, width).astype(np.uint8)


def save(path: Path, array: np.ndarray, **options: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path, **options)


# --- folders ----------------------------------------------------------------------------------------


def test_a_folder_is_read_in_sorted_order_with_its_subfolders(tmp_path):
    for value, name in enumerate(["b/z.PNG", "a.png", "c.bmp", "b/a.tif", "d.gif", "e.webp"]):
        save(
            tmp_path / name,
            np.full((8, 8), 10 * value, np.uint8),
            **({"lossless": True} if "webp" in name else {}),
        )
    (tmp_path / "notes.txt").write_text("not a picture")
    (tmp_path / "._a.png").write_bytes(b"what macOS leaves behind")
    for hidden in (".ipynb_checkpoints/a.png", "b/.cache/sub/a.png"):
        save(tmp_path / hidden, np.zeros((8, 8), np.uint8))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = images(tmp_path, size=8, channels=1)
    assert data.shape == (1, 8, 8) and len(data) == 6 and data.factors is None
    assert data.examples()[:, 0, 0, 0].tolist() == [10, 30, 0, 20, 40, 50]
    assert data.batch([2]).dtype == np.uint8


def test_a_folder_may_lie_in_a_hidden_one(tmp_path):
    save(tmp_path / ".hidden" / "a.png", gradient(8, 8))
    assert len(images(tmp_path / ".hidden")) == 1
    with pytest.raises(UntwineError, match="no pictures in"):
        images(tmp_path)


def test_a_folder_becomes_64_pixels_square(tmp_path):
    save(tmp_path / "wide.png", np.full((100, 300), 77, np.uint8))
    save(tmp_path / "small.jpg", np.full((10, 12), 77, np.uint8))
    data = images(tmp_path)
    assert data.shape == (1, 64, 64) and (data.examples() == 77).all()


def test_the_centre_is_kept_and_shrinking_averages(tmp_path):
    wide = np.zeros((16, 32), np.uint8)
    wide[:, 8:24] = np.kron(gradient(4, 4), np.ones((4, 4), np.uint8))
    wide[::2, 8:24] += 2 * (wide[::2, 8:24] < 250).astype(np.uint8)  # detail that only averaging sees
    save(tmp_path / "wide.png", wide)
    small = images(tmp_path, size=4).examples()[0, 0]
    assert np.array_equal(small, np.floor(wide[:, 8:24].reshape(4, 4, 4, 4).mean((1, 3)) + 0.5))


def test_grey_unless_one_picture_has_colour(tmp_path):
    save(tmp_path / "a.png", gradient(8, 8))
    assert images(tmp_path, size=8).shape == (1, 8, 8)
    save(tmp_path / "b.png", np.dstack([gradient(8, 8), np.zeros((8, 8, 2), np.uint8)]))
    data = images(tmp_path, size=8)
    assert data.shape == (3, 8, 8)
    assert (data.examples()[0] == gradient(8, 8)).all()  # grey in all three channels
    assert np.array_equal(data.examples()[1, 0], gradient(8, 8)) and not data.examples()[1, 1:].any()
    grey = images(tmp_path, size=8, channels=1).examples()
    assert np.array_equal(grey[0, 0], gradient(8, 8))
    assert np.abs(grey[1, 0] - 0.299 * gradient(8, 8)).max() <= 1


def test_transparency_sixteen_bits_and_orientation(tmp_path):
    save(tmp_path / "a.png", np.zeros((8, 8, 4), np.uint8))
    assert (images(tmp_path, size=8).examples() == 255).all()
    save(tmp_path / "a.png", (gradient(8, 8).astype(np.uint16) * 257))
    assert np.array_equal(images(tmp_path, size=8).examples()[0, 0], gradient(8, 8))
    turned = Image.fromarray(gradient(8, 8))
    exif = turned.getexif()
    exif[0x0112] = 3  # held upside down
    turned.save(tmp_path / "a.png", exif=exif)
    assert np.array_equal(images(tmp_path, size=8).examples()[0, 0], gradient(8, 8)[::-1, ::-1])


@pytest.mark.parametrize(
    ("name", "array", "expected"),
    [
        ("a.tif", gradient(8, 8).astype(np.float32) / 255, gradient(8, 8)),
        ("a.tif", np.zeros((8, 8), np.float32), np.zeros((8, 8))),
        ("a.tif", np.full((8, 8), 1.00005, np.float32), np.full((8, 8), 255)),
        ("a.tif", gradient(8, 8).astype(np.int32), gradient(8, 8)),
        ("a.tif", gradient(8, 8).astype(np.uint16) * 257, gradient(8, 8)),
        ("a.tif", gradient(8, 8).astype(">u2") * 257, gradient(8, 8)),
        ("a.tif", gradient(8, 8).astype(np.uint16), gradient(8, 8) > 128),  # 16 bits, however dark
        ("a.png", gradient(8, 8).astype(np.uint16), gradient(8, 8) > 128),
    ],
)
def test_pictures_of_more_bits_are_those_of_8_bits(tmp_path, name, array, expected):
    save(tmp_path / name, array)
    data = images(tmp_path, size=8)
    assert data.shape == (1, 8, 8) and np.array_equal(data.examples()[0, 0], expected)


def test_every_value_of_16_bits_is_rounded_to_the_nearest_of_8(tmp_path):
    values = np.arange(65536)
    save(tmp_path / "a.png", values.reshape(256, 256).astype(np.uint16))
    expected = [(2 * value + 257) // 514 for value in values.tolist()]
    assert images(tmp_path, size=256).examples().ravel().tolist() == expected


def test_16_bits_are_averaged_before_they_are_rounded(tmp_path):
    columns = np.array([411, 154, 100 * 257, 100 * 257], np.uint16)  # 1.6 and 0.6 of 255, whose mean is nearest to 1
    save(tmp_path / "a.png", np.tile(columns, (4, 1)))
    assert images(tmp_path, size=2).examples()[0, 0].tolist() == [[1, 100], [1, 100]]


def test_a_png_of_16_bits_is_known_whatever_pillow_opens_it_as(tmp_path, monkeypatch):
    save(tmp_path / "a.png", gradient(8, 8).astype(np.uint16))
    opened = Image.fromarray(gradient(8, 8).astype(np.int32))
    assert opened.mode == "I"
    opened.format = "PNG"
    monkeypatch.setattr(Image, "open", lambda file: opened)
    assert np.array_equal(images(tmp_path, size=8).examples()[0, 0], gradient(8, 8) > 128)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.full((8, 8), 200, np.float32), r"floats from 200 to 200; they must be in \[0, 1\]"),
        (np.full((8, 8), -0.5, np.float32), r"floats from -0\.5 to -0\.5"),
        (np.full((8, 8), np.nan, np.float32), "NaN or infinite"),
        (np.full((8, 8), 60_000, np.int32), "integers from 60000 to 60000, in 32 bits; save it with 8 or 16"),
        (np.full((8, 8), -1, np.int32), "integers from -1 to -1"),
    ],
)
def test_pictures_whose_numbers_mean_nothing_are_left_out_with_the_reason(tmp_path, array, message):
    save(tmp_path / "good.png", gradient(8, 8))
    save(tmp_path / "odd.tif", array)
    with pytest.warns(UserWarning, match=rf"left out 1 of 2 .*odd\.tif \(.*{message}"):
        assert len(images(tmp_path, size=8)) == 1


def test_unreadable_pictures_are_named_and_left_out(tmp_path):
    save(tmp_path / "good.png", gradient(8, 8))
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "broken.png").write_bytes((tmp_path / "good.png").read_bytes()[:60])
    (tmp_path / "text.jpg").write_text("no picture")
    with pytest.warns(UserWarning, match=r"left out 2 of 3 .*broken\.png.*text\.jpg"):
        data = images(tmp_path, size=8)
    assert len(data) == 1
    (tmp_path / "good.png").unlink()
    with pytest.raises(UntwineError, match=r"none of the 2 files .*text\.jpg"):
        images(tmp_path)


def test_paths_that_lead_nowhere(tmp_path):
    with pytest.raises(UntwineError, match=r"no pictures in .*looked for \.png"):
        images(tmp_path)
    with pytest.raises(UntwineError, match=r"there is no .*missing"):
        images(str(tmp_path / "missing"))
    save(tmp_path / "one.png", gradient(8, 8))
    with pytest.raises(UntwineError, match="single picture; give the folder"):
        images(tmp_path / "one.png")
    for arguments in ({"source": ""}, {"source": " "}, {"source": tmp_path, "factors": ""}):
        with pytest.raises(UntwineError, match=rf"images: {list(arguments)[-1]} is an empty text"):
            images(**arguments)
    (tmp_path / "text.npy").write_text("no array")
    with pytest.raises(UntwineError, match=r"cannot read .*text\.npy"):
        images(tmp_path / "text.npy")


def test_a_folder_and_a_file_can_be_built_again(tmp_path):
    save(tmp_path / "folder" / "a.png", gradient(8, 8))
    np.save(tmp_path / "a.npy", gradient(8, 8)[None])
    for source in (tmp_path / "folder", tmp_path / "a.npy"):
        data = images(source, size=8)
        assert data.spec == {
            "name": "images",
            "source": str(source),
            "size": 8,
            "channels": None,
            "factors": None,
            "kinds": [],
        }
        assert np.array_equal(build(data.spec).examples(), data.examples())


# --- arrays -----------------------------------------------------------------------------------------

PIXELS = np.arange(5 * 6 * 7 * 3).reshape(5, 6, 7, 3).astype(np.uint8)


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (PIXELS[..., 0], PIXELS[:, None, :, :, 0]),
        (PIXELS, PIXELS.transpose(0, 3, 1, 2)),
        (PIXELS.transpose(0, 3, 1, 2), PIXELS.transpose(0, 3, 1, 2)),
        (PIXELS[..., :1], PIXELS[:, None, :, :, 0]),
        (PIXELS[:, None, :, :, 0], PIXELS[:, None, :, :, 0]),
        (PIXELS[:, :3], PIXELS[:, :3].transpose(0, 3, 1, 2)),  # both could be channels: the last axis is
        (PIXELS / 255, PIXELS.transpose(0, 3, 1, 2)),
        ((PIXELS / 255).astype(np.float32), PIXELS.transpose(0, 3, 1, 2)),
        (PIXELS.astype(np.int64), PIXELS.transpose(0, 3, 1, 2)),
        (PIXELS[..., 0] > 100, 255 * (PIXELS[:, None, :, :, 0] > 100)),
        ((PIXELS[..., 0] > 100).astype(np.uint8), 255 * (PIXELS[:, None, :, :, 0] > 100)),
        (np.zeros((2, 4, 4), np.uint8), np.zeros((2, 1, 4, 4))),
    ],
)
def test_arrays_are_recognised(array, expected):
    data = images(array)
    assert data.batch(np.arange(len(array))).dtype == np.uint8
    assert data.shape == expected.shape[1:] and np.array_equal(data.batch(np.arange(len(array))), expected)
    assert data.nbytes == data.examples().nbytes


def test_arrays_can_be_resized_and_recoloured():
    square = np.kron(PIXELS[:, :4, :4], np.ones((1, 4, 4, 1), np.uint8))
    assert np.array_equal(images(square, size=4).examples(), PIXELS[:, :4, :4].transpose(0, 3, 1, 2))
    assert images(PIXELS, size=12).shape == (3, 12, 12)
    assert images(PIXELS[..., 0], channels=3).shape == (3, 6, 7)
    grey = images(PIXELS, channels=1).examples()[:, 0]
    assert np.abs(grey - PIXELS @ [0.299, 0.587, 0.114]).max() <= 1


def test_plain_vectors():
    vectors = np.linspace(-5, 5, 12).reshape(4, 3)
    data = images(vectors)
    assert data.shape == (3,) and data.batch([1]).dtype == np.float32
    assert np.allclose(data.examples(), vectors)
    with pytest.raises(UntwineError, match="take no size or channels"):
        images(vectors, size=8)


def test_the_users_array_is_not_shared():
    array = PIXELS[:, None, :, :, 0].copy()
    data = images(array)
    before = data.batch([0]).copy()
    array[:] = 0
    assert np.array_equal(data.batch([0]), before)


def test_npz_files(tmp_path):
    np.savez(tmp_path / "first.npz", other=PIXELS[..., 0], more=np.zeros(3))
    np.savez(tmp_path / "named.npz", other=np.zeros(3), imgs=PIXELS[..., 1])
    # As dSprites has it: a pickled key beside the pictures, which is never touched.
    np.savez(tmp_path / "dsprites.npz", metadata=np.array({"a": 1}, dtype=object), images=PIXELS[..., 2])
    for channel, name in enumerate(["first", "named", "dsprites"]):
        assert np.array_equal(images(tmp_path / f"{name}.npz").examples()[:, 0], PIXELS[..., channel])


def test_pickles_are_never_loaded(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{"a": 1}, None], dtype=object))
    np.savez(tmp_path / "a.npz", np.array([{"a": 1}, None], dtype=object))
    for name in ("a.npy", "a.npz"):
        with pytest.raises(UntwineError, match="never loaded"):
            images(tmp_path / name)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.full((2, 4, 4), np.nan), "NaN"),
        (np.full((2, 3), np.inf), "infinite"),
        (np.array([["a", "b"]], dtype=object), "holds object; it must hold numbers"),
        (np.zeros(5), r"shape \[5\]; it must be \[n, height, width\]"),
        (np.zeros((2, 4, 4, 5)), r"shape \[2, 4, 4, 5\]; it must be"),
        (np.zeros((0, 4, 4)), "not empty"),
        (np.full((2, 4, 4), 200.0), r"floats from 200 to 200; they must be in \[0, 1\]"),
        (np.full((2, 4, 4), -0.5), r"must be in \[0, 1\]"),
        (np.full((2, 4, 4), 256), "integers from 256 to 256"),
        (np.full((2, 4, 4), -1), "integers from -1 to -1"),
        (
            np.zeros((2, 16), np.uint8),
            r"make it float32 for plain vectors, or reshape it to \[n, height, width\]",
        ),
    ],
)
def test_arrays_that_make_no_sense_are_refused(array, message):
    with pytest.raises(UntwineError, match=message):
        images(array)


@pytest.mark.parametrize("arguments", [{"size": 0}, {"channels": 2}, {"factors": [1]}, {"size": 8.0}])
def test_settings_that_make_no_sense_are_refused(arguments):
    with pytest.raises(UntwineError, match=next(iter(arguments))):
        images(PIXELS, **arguments)


# --- with factors -----------------------------------------------------------------------------------


def test_a_table_of_factors_makes_pictures_scorable(tmp_path):
    table = np.array([[5, 0], [5, 1], [7, 0], [7, 1], [5, 0]])
    pictures = np.arange(5 * 64).reshape(5, 8, 8).astype(np.uint8)
    data = images(pictures, factors=table)
    assert data.factors is not None and data.factors.sizes == (2, 2) and data.factors.kinds == ("ordered", "ordered")
    assert data.factors_of([1, 2, 4]).tolist() == [[0, 1], [1, 0], [0, 0]]
    assert np.array_equal(data.observe([[0, 0], [1, 1]]), data.batch([0, 3]))  # of two examples, the first
    assert not data.complete and images(pictures[:4], factors=table[:4]).complete
    np.save(tmp_path / "factors.npy", table)
    np.save(tmp_path / "pictures.npy", pictures)
    stored = images(tmp_path / "pictures.npy", factors=tmp_path / "factors.npy", kinds=("factor1=cyclic",))
    again = build(stored.spec)
    assert again.factors == stored.factors and again.factors.kinds == ("ordered", "cyclic")
    assert np.array_equal(again.factors_of([0, 3]), data.factors_of([0, 3]))
    assert images(pictures, factors=table[:, 0]).factors.sizes == (2,)
    vectors = images(pictures.reshape(5, -1) / 255, factors=table)
    assert vectors.shape == (64,) and vectors.observe([[1, 1]]).dtype == np.float32


def test_states_without_a_picture_are_said():
    data = images(np.zeros((2, 8, 8)), factors=np.array([[0, 0], [1, 1]]))
    assert not data.complete
    with pytest.raises(
        UntwineError, match=r"no example has the factors factor0=0, factor1=1: there are examples of 2 of the 4"
    ):
        data.observe([[0, 0], [0, 1]])


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        (np.zeros((3, 1), int), "has 3 rows for 2 examples; it needs one for each, in their order"),
        (
            np.array([[0.5], [np.nan]]),
            "column 'factor0' has nan in row 1, where it needs a text or a finite number",
        ),
        ("nowhere.npy", r"there is no .*nowhere\.npy, which should be the table of factors"),
        (np.zeros((2, 0), int), r"has shape \[2, 0\]; it must be \[n, k\], a row for each example"),
    ],
)
def test_a_wrong_table_is_refused(factors, message):
    with pytest.raises(UntwineError, match=message):
        images(np.zeros((2, 8, 8)), factors=factors)


@pytest.fixture
def folder(tmp_path):
    """Three pictures, each of one grey."""
    for value, name in enumerate(["a.png", "sub/b.png", "c.jpg"]):
        save(tmp_path / "pictures" / name, np.full((8, 8), 50 * value, np.uint8))
    return tmp_path / "pictures"


def sheet(folder, text, name="factors.csv"):
    path = folder.parent / name
    path.write_text(text, encoding="utf-8")
    return path


def test_rows_are_matched_to_pictures_by_their_files_in_any_order(folder):
    for text in (
        "file,x,colour\nsub/b.png,7,red\nc.jpg,-2,blue\na.png,3,red\n",
        "x,colour,FileName\n3,red,./a\n-2,blue,c\n7,red,sub\\b\n",
    ):
        data = images(folder, size=8, channels=1, factors=sheet(folder, text))
        assert data.examples()[:, 0, 0, 0].tolist() == [0, 100, 50]
        assert data.factors is not None and data.factors.names == ("x", "colour")
        assert data.factors.sizes == (3, 2) and data.factors.kinds == ("ordered", "categorical")
        assert data.factors.values == ((-2, 3, 7), ("blue", "red"))
        assert data.factors_of(range(3)).tolist() == [[1, 1], [0, 0], [2, 1]]
    in_order = images(folder, size=8, factors=sheet(folder, "x\tcolour\n3\tred\n-2\tblue\n7\tred\n", "factors.tsv"))
    assert np.array_equal(in_order.factors_of(range(3)), data.factors_of(range(3)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file,x\na.png,1\nc.jpg,2\n", r"pictures without a row \(1 of 3\): sub/b\.png\. Files are"),
        ("file,x\na,1\nc,2\nsub/b,3\nd.png,4\n", r"rows without a picture \(1 of 4\): d\.png"),
        ("file,x\na,1\nc,2\nb.png,3\n", r"without a row \(1 of 3\): sub/b\.png; rows .* \(1 of 3\): b\.png"),
        ("file,x\na,1\nc,2\nsub/b,3\na.png,4\n", r"has two rows for the picture a\.png"),
        ("x\n1\n2\n", "has 2 rows for 3 pictures; it needs one for each, in their order"),
    ],
)
def test_tables_that_do_not_fit_a_folder(folder, text, message):
    with pytest.raises(UntwineError, match=message):
        images(folder, factors=sheet(folder, text))


def test_a_name_without_its_suffix_may_mean_several_pictures(folder):
    save(folder / "a.jpg", gradient(8, 8))
    text = "file,x\na.jpg,0\na.png,1\nc,2\nsub/b,3\n"
    assert images(folder, factors=sheet(folder, text)).factors_of([0, 1]).tolist() == [[0], [1]]
    with pytest.raises(UntwineError, match=r"'a' may be any of a\.jpg, a\.png; write its suffix, too"):
        images(folder, factors=sheet(folder, text.replace("a.jpg", "a")))


def test_the_rows_of_unreadable_pictures_are_left_out_if_these_are_named(folder):
    (folder / "b.png").write_bytes(b"no picture")
    named = sheet(folder, "file,x,y\nsub/b,3,0\nb.png,9,1\na,1,0\nc,2,0\n")
    with pytest.warns(UserWarning, match=r"left out 1 of 4 .*b\.png"):
        data = images(folder, factors=named)
    assert data.factors.sizes == (3, 1) and data.factors_of(range(3))[:, 0].tolist() == [0, 1, 2]
    with pytest.raises(UntwineError, match=r"1 of the 4 files could not be read: b\.png .*remove these files and"):
        images(folder, factors=sheet(folder, "x\n1\n9\n2\n3\n"))


def test_pictures_with_numbers_need_their_files_in_the_table(tmp_path):
    for number in range(1, 13):
        save(tmp_path / "pictures" / f"{number}.png", np.full((8, 8), number, np.uint8))
    rows = np.arange(1, 13)
    np.save(tmp_path / "factors.npy", rows)
    table = sheet(tmp_path / "pictures", "\n".join(["x", *map(str, rows)]))
    for factors in (rows, tmp_path / "factors.npy", table):
        with pytest.raises(UntwineError, match=r"order of the pictures is ambiguous: .*10\.png .*2\.png .*`file`"):
            images(tmp_path / "pictures", factors=factors)
    named = sheet(tmp_path / "pictures", "\n".join(["file,x", *(f"{row}.png,{row}" for row in rows)]))
    data = images(tmp_path / "pictures", size=8, factors=named)
    assert np.array_equal(data.examples()[:, 0, 0, 0], data.factors_of(range(12))[:, 0] + 1)


def test_kinds_say_that_numbers_and_texts_are_mixed(folder):
    table = sheet(folder, "x\n1\n2\ntwo\n")
    with pytest.raises(UntwineError, match="in line 4 it has 'two'"):
        images(folder, factors=table)
    assert images(folder, factors=table, kinds=("x=categorical",)).factors.sizes == (3,)


def test_an_array_has_no_files(folder):
    with pytest.raises(UntwineError, match="examples of an array have no files: remove that column"):
        images(np.zeros((2, 8, 8)), factors=sheet(folder, "file,x\na,1\nb,2\n"))


def test_wrong_kinds_are_said_before_pictures_are_read(folder, monkeypatch):
    monkeypatch.setattr("untwine.data.files.folders.upright", lambda file: pytest.fail("read"))
    table = sheet(folder, "angle,shape\n1,disc\n2,disc\n3,star\n")
    for kinds, message in {
        ("angel=cyclic",): "unknown factor in kinds: 'angel'; did you mean 'angle'?",
        ("angle=cyclical",): "unknown kind of factor 'angle': 'cyclical'; did you mean 'cyclic'?",
        ("angle",): "kinds are written as name=kind, such as angle=cyclic, not 'angle'",
        ("angle=cyclic", "angle=ordered"): "names the factor 'angle' twice",
        ("shape=ordered",): "column 'shape' holds texts, whose order only you know: to make it ordered",
    }.items():
        with pytest.raises(UntwineError) as error:
            images(folder, factors=table, kinds=kinds)
        assert message in str(error.value)
    with pytest.raises(UntwineError, match=r"kinds \(angle=cyclic\) are those of factors, of which there is no table"):
        images(folder, kinds=("angle=cyclic",))


def test_the_content_of_files_is_known_and_that_of_arrays_is_in_the_spec(folder):
    table = sheet(folder, "x\n1\n2\n3\n")
    contents = [images(folder, size=8).content, images(folder, size=8, factors=table).content]
    assert contents[1] == build(images(folder, size=8, factors=table).spec).content
    contents.append(images(folder, size=8, factors=sheet(folder, "x\n1\n2\n2\n")).content)
    contents.append(images(folder, size=8, factors=table, kinds=("x=cyclic",)).content)
    save(folder / "a.png", np.full((8, 8), 1, np.uint8))
    contents.append(images(folder, size=8, factors=table).content)
    assert len(set(contents)) == 5 and all(str(one).startswith("sha256:") for one in contents)
    array = np.zeros((2, 8, 8))
    assert images(array).content is None and images(array, factors=np.array([0, 1])).content is None


def test_a_bar_is_shown_for_a_folder(folder, monkeypatch):
    told = []
    monkeypatch.setattr(
        "untwine.data.files.folders.track", lambda items, what, total: told.append((what, total)) or iter(items)
    )
    assert len(images(folder)) == 3 and told == [("pictures", 3)]
