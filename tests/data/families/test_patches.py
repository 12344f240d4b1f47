"""Natural patches: what whitening does, where crops lie, and which pictures they come from."""

from __future__ import annotations

import math
import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import scipy.io
from PIL import Image
from sklearn.datasets import load_sample_images

from untwine.data.families import patches
from untwine.data.families.patches import natural_patches, whitened
from untwine.data.files import places
from untwine.data.specs import build, full_spec, public_of
from untwine.errors import UntwineError
from untwine.streams import np_uniform


def frequencies(side: int) -> np.ndarray:
    """Cycles per picture of each term of fft2, in any direction."""
    along = np.array([min(k, side - k) for k in range(side)], float)
    return np.sqrt(along[:, None] ** 2 + along[None] ** 2)


def natural(side: int, number: int = 0) -> np.ndarray:
    """A picture whose amplitudes are exactly 1 / f, with random phases; mean 0."""
    noise = np.fft.fft2(np_uniform(0, "a natural picture", (side, side), number))
    frequency = frequencies(side)
    frequency[0, 0] = np.inf
    return np.fft.ifft2(noise / np.abs(noise) / frequency).real


def photograph(side: int, number: int = 0) -> np.ndarray:
    picture = natural(side, number)
    return np.rint((picture - picture.min()) / np.ptp(picture) * 255).astype(np.uint8)


def rings(picture: np.ndarray) -> np.ndarray:
    """The mean power at each whole frequency from 1 to half the side."""
    frequency = np.rint(frequencies(len(picture))).astype(int).ravel()
    power = np.abs(np.fft.fft2(picture)).ravel() ** 2
    return (np.bincount(frequency, power) / np.bincount(frequency))[1 : len(picture) // 2]


def correlation(crops: np.ndarray, apart: int) -> float:
    """The correlation of pixels at this distance in a row."""
    return float(np.corrcoef(crops[..., :-apart].ravel(), crops[..., apart:].ravel())[0, 1])


def save(folder: Path, **pictures: np.ndarray) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in pictures.items():
        Image.fromarray(picture).save(folder / f"{name}.png")
    return folder


# --- whitening --------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", [9, 12])
def test_whitening_is_the_filter_of_its_definition(side):
    picture = np_uniform(1, "picture", (side, side))
    waves = np.exp(-2j * np.pi * np.outer(np.arange(side), np.arange(side)) / side)
    frequency = frequencies(side)
    spectrum = waves @ ((picture - picture.mean()) / picture.std()) @ waves
    spectrum *= frequency * np.exp(-((frequency / (0.4 * side)) ** 4))
    expected = waves.conj() @ spectrum @ waves.conj() / side**2
    assert np.abs(expected.imag).max() < 1e-12
    assert np.allclose(whitened(picture), expected.real, atol=1e-12)


def test_the_power_of_a_natural_picture_becomes_flat():
    side = 128
    picture = natural(side)
    before, after = rings(picture), rings(whitened(picture))
    assert before[0] / before[17] > 200  # about 1 / f^2
    low = after[: int(0.35 * 0.4 * side)]
    assert low.max() / low.min() < 1.04
    # All the way: what is left is the low-pass part.
    frequency = frequencies(side)
    power = np.abs(np.fft.fft2(whitened(picture))) ** 2 * np.exp(2 * (frequency / (0.4 * side)) ** 4)
    seen = (frequency > 0) & (frequency < 0.8 * side / 2)
    assert np.ptp(power[seen]) < 1e-6 * power[seen].mean()


def test_brightness_and_contrast_do_not_matter_and_no_direction_is_special():
    picture = natural(64)
    assert np.allclose(whitened(7 * picture + 100), whitened(picture))
    assert np.allclose(whitened(picture.T), whitened(picture).T)
    assert abs(whitened(picture).mean()) < 1e-12
    assert np.allclose(whitened(np.roll(picture, (3, 5), (0, 1))), np.roll(whitened(picture), (3, 5), (0, 1)))


def test_patches_are_less_correlated_than_those_of_the_photographs(tmp_path):
    folder = save(tmp_path / "photographs", **{f"p{number}": photograph(128, number) for number in range(3)})
    data = natural_patches(source=folder, examples=2000)
    raw = np.stack([photograph(128, number) for number in range(3)])
    # The correlation that belongs to the power exp(-2 (f / f0)^4), of which nothing is at 0.
    power = np.exp(-2 * (frequencies(128) / (0.4 * 128)) ** 4)
    power[0, 0] = 0
    for apart in range(1, 6):
        expected = (power * np.cos(2 * np.pi * apart * np.arange(128) / 128)).sum() / power.sum()
        assert correlation(data.examples(), apart) == pytest.approx(expected, abs=0.02)
    assert correlation(raw, 3) > 0.5 and abs(correlation(data.examples(), 3)) < 0.1


# --- crops ------------------------------------------------------------------------------------------


def test_crops_lie_anywhere_with_the_same_probability(public):
    public("natural_patches")
    whole = natural_patches(source="olshausen", size=24, examples=1).examples()[:, 0]
    data = natural_patches(source="olshausen", size=20, examples=4000)
    assert len(data) == 8000 and data.shape == (1, 20, 20)
    for number, picture in enumerate(whole):
        places = {
            picture[y : y + 20, x : x + 20].tobytes(): (y, x) for y in range(5) for x in range(5)
        }  # all that there are
        assert len(places) == 25
        crops = data.batch(np.arange(4000 * number, 4000 * (number + 1)))
        counts = Counter(places[crop.tobytes()] for crop in crops)
        assert len(counts) == 25
        squares = sum((count - 160) ** 2 / 160 for count in counts.values())
        assert squares < 24 + 5 * math.sqrt(2 * 24)  # chi-squared


def test_splits_and_seeds_are_independent_and_few_crops_begin_many(public):
    public("natural_patches")
    make = lambda **more: natural_patches(source="olshausen", **{"examples": 30, **more}).examples()
    assert not np.array_equal(make(), make(split="test"))
    assert not np.array_equal(make(), make(seed=1))
    assert not np.array_equal(make(seed=1, split="test"), make(seed=1))
    few, many = make(examples=10), make()
    assert np.array_equal(few, np.concatenate([many[:10], many[30:40]]))


def test_the_reference_has_ten_thousand_and_one_thousand_of_each(public):
    public("natural_patches")
    train, test = natural_patches(source="olshausen"), natural_patches(source="olshausen", split="test")
    assert (len(train), len(test)) == (20_000, 2_000)
    assert (train.spec["examples"], test.spec["examples"]) == (10_000, 1_000)
    assert train.examples().shape == (20_000, 1, 16, 16) and train.factors is None


# --- pictures ---------------------------------------------------------------------------------------


def test_the_range_of_all_pictures_becomes_0_to_255(public):
    folder = public("natural_patches")
    values = scipy.io.loadmat(folder / "natural_patches" / "IMAGES.mat")["IMAGES"]
    whole = natural_patches(source="olshausen", size=24, examples=1).examples()[:, 0]
    low, high = values.min(), values.max()
    assert np.abs(whole / 255 * (high - low) + low - values.transpose(2, 0, 1)).max() <= (high - low) / 510 + 1e-12
    assert (whole.min(), whole.max()) == (0, 255)


def test_compressed_files_are_read_too(public, tmp_path, monkeypatch):
    plain = public("natural_patches") / "natural_patches" / "IMAGES.mat"
    before = natural_patches(source="olshausen", examples=5).examples()
    (tmp_path / "other" / "natural_patches").mkdir(parents=True)
    content = {"other": np.zeros(3), "IMAGES": scipy.io.loadmat(plain)["IMAGES"]}
    scipy.io.savemat(tmp_path / "other" / "natural_patches" / "IMAGES.mat", content, do_compression=True)
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path / "other"))
    assert np.array_equal(natural_patches(source="olshausen", examples=5).examples(), before)


def test_photographs_are_cut_to_their_centre_and_large_ones_averaged(tmp_path):
    picture = photograph(512)
    wide = np.pad(np.kron(picture, np.ones((2, 2), np.uint8)), ((0, 0), (300, 300)), constant_values=255)
    wide[::2] += (wide[::2] < 255).astype(np.uint8)  # detail that only averaging sees
    seen = natural_patches(source=save(tmp_path / "wide", a=wide), size=512, examples=1).examples()[0, 0]
    expected = whitened(wide[:, 300:-300].reshape(512, 2, 512, 2).mean((1, 3)))
    assert np.array_equal(seen, np.rint((expected - expected.min()) / np.ptp(expected) * 255))


def test_photographs_of_several_sizes_are_turned_grey(tmp_path):
    colours = np.stack([photograph(80, number) for number in range(3)], -1)
    folder = save(tmp_path / "photographs", a=photograph(64), b=colours)
    data = natural_patches(source=folder, size=64, examples=30)
    assert len(data) == 60 and len(np.unique(data.batch(np.arange(30)), axis=0)) == 1
    first, second = whitened(photograph(64).astype(float)), whitened(colours @ [0.299, 0.587, 0.114])
    low, high = min(first.min(), second.min()), max(first.max(), second.max())
    assert np.array_equal(data.batch([0])[0, 0], np.rint((first - low) / (high - low) * 255))
    expected = np.rint((second - low) / (high - low) * 255)
    windows = np.lib.stride_tricks.sliding_window_view(expected, (64, 64)).reshape(-1, 64 * 64)
    differences = np.abs(windows - data.batch([30]).reshape(-1)).max(1)
    assert differences.min() <= 1 and (differences > 1).sum() == 17 * 17 - 1


def test_sixteen_bits_are_not_rounded_to_eight(tmp_path):
    picture = natural(64)
    fine = np.rint((picture - picture.min()) / np.ptp(picture) * 900).astype(np.uint16)  # fewer than 4 steps of 8 bits
    seen = natural_patches(source=save(tmp_path / "fine", a=fine), size=64, examples=1).examples()[0, 0]
    expected = whitened(fine.astype(float))
    expected = (expected - expected.min()) / np.ptp(expected) * 255
    assert np.abs(seen - expected).max() < 0.51
    (tmp_path / "floats").mkdir()
    Image.fromarray((fine / 65535).astype(np.float32)).save(tmp_path / "floats" / "a.tif")
    assert np.abs(natural_patches(source=tmp_path / "floats", size=64, examples=1).examples() - expected).max() < 0.51


def test_photographs_that_cannot_serve_are_named_and_left_out(tmp_path):
    folder = save(tmp_path / "photographs", good=photograph(64), small=photograph(63), flat=np.full((64, 64), 7, "u1"))
    (folder / "broken.jpg").write_bytes(b"no picture")
    (folder / "notes.txt").write_text("not a picture")
    (folder / ".good.png").write_bytes(b"hidden")
    said = r"left out 3 of 4 files: broken\.jpg .*flat\.png \(a single colour\), small\.png \(63 pixels .*at least 64"
    with pytest.warns(UserWarning, match=said):
        assert len(natural_patches(source=folder, examples=5)) == 5
    (folder / "good.png").unlink()
    with pytest.raises(UntwineError, match=r"none of the photographs in .* can be used: broken\.jpg"):
        natural_patches(source=folder)


def test_the_photographs_of_scikit_learn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = natural_patches(source="scikit-learn", size=427, examples=1)
    assert data.shape == (1, 427, 427) and len(data) == 2
    expected = []
    for picture in load_sample_images().images:
        start = (picture.shape[1] - 427) // 2
        expected.append(whitened(picture[:, start : start + 427] @ np.array([0.299, 0.587, 0.114])))
    low, high = np.min(expected), np.max(expected)
    assert np.abs(data.examples()[:, 0] - (np.array(expected) - low) / (high - low) * 255).max() < 0.501


def test_real_photographs_become_white(data_dir):
    folder = data_dir / "scenes"
    if not folder.is_dir():
        pytest.skip(f"there are no photographs in {folder}")
    data = natural_patches(source=folder, examples=500)
    crops = data.examples() / 255
    grey = np.stack([np.asarray(Image.open(file).convert("L"), float) for file in sorted(folder.glob("*.png"))])
    assert correlation(grey, 3) > 0.7 and abs(correlation(crops, 3)) < 0.15
    spectra = np.array([[rings(picture), rings(whitened(picture))] for picture in grey[::4]]).mean(0)
    f = np.arange(1, len(spectra[0]) + 1)
    middle = (f > 5) & (f < 0.4 * 0.4 * grey.shape[1])
    slopes = [np.polyfit(np.log(f[middle]), np.log(power[middle]), 1)[0] for power in spectra]
    assert slopes[0] < -1.5 and abs(slopes[1]) < 0.5
    # Edges among flat parts, in which rounding to 255 steps is not felt.
    centred = crops - crops.mean()
    assert (centred**4).mean() / (centred**2).mean() ** 2 > 6
    assert crops.std() > 10 / 255


# --- sources ----------------------------------------------------------------------------------------


def test_auto_is_the_published_file_where_it_is(public):
    public("natural_patches")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = natural_patches(examples=5)
    assert data.spec["source"] == "olshausen"
    assert full_spec({"name": "natural_patches", "examples": 5}) == data.spec
    assert np.array_equal(build(data.spec).examples(), data.examples())
    assert np.array_equal(natural_patches(source="olshausen", examples=5).examples(), data.examples())


def test_auto_is_scikit_learn_where_it_is_not_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path))
    with pytest.warns(UserWarning, match="untwine data get natural-patches"):
        data = natural_patches(examples=5)
    assert data.spec["source"] == "scikit-learn" and len(data) == 10


def test_the_published_file_is_asked_for_where_it_is_not(tmp_path, monkeypatch):
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path))
    monkeypatch.setenv("UNTWINE_OFFLINE", "1")
    with pytest.raises(UntwineError, match=r"IMAGES\.mat(.|\n)*scikit-learn"):
        natural_patches(source="olshausen")


def test_a_folder_is_absolute_in_the_spec(tmp_path, monkeypatch):
    save(tmp_path / "photographs", a=photograph(64))
    monkeypatch.chdir(tmp_path)
    data = natural_patches(source="photographs", examples=5)
    assert data.spec["source"] == str(tmp_path / "photographs")
    assert data.spec == {
        "name": "natural_patches", "source": str(tmp_path / "photographs"),
        "split": "train", "size": 16, "examples": 5, "seed": 0,
    }  # fmt: skip
    monkeypatch.setenv("HOME", str(tmp_path))
    assert natural_patches(source="~/photographs", examples=5).spec == data.spec
    assert np.array_equal(build(data.spec).examples(), data.examples())


def test_which_files_are_needed():
    public = public_of(natural_patches)
    assert public is not None and public.examples == 100_000 and public.shape == (1, 16, 16)
    assert public.files(source="auto", seed=3) == public.files(source="olshausen") == (patches.FILE,)
    assert public.files(source="scikit-learn") == public.files(source=Path("folder")) == ()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"source": "olshaussen"}, r"no folder .*olshaussen; source is 'auto', 'olshausen', 'scikit-learn', or a"),
        ({"source": ""}, "natural_patches: source is an empty text"),
        ({"source": 3}, "source of dataset 'natural_patches' must be"),
        ({"split": "tset"}, "did you mean 'test'"),
        ({"examples": 0}, "examples 0"),
        ({"size": 0}, "size 0"),
        ({"size": 25}, "size is 25; the smallest picture has 24 pixels"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(public, arguments, message):
    public("natural_patches")
    with pytest.raises(UntwineError, match=message):
        natural_patches(**{"source": "olshausen", **arguments})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"OTHER": np.zeros((24, 24, 2))}, r"under IMAGES it has nothing instead of floats \[24, 24, 2\]"),
        ({"IMAGES": np.zeros((24, 24, 3))}, r"has float64 \[24, 24, 3\]"),
        ({"IMAGES": np.zeros((24, 24, 2), np.uint8)}, "has uint8"),
        ({"IMAGES": np.full((24, 24, 2), np.nan)}, "NaN"),
        ({"IMAGES": np.ones((24, 24, 2))}, "one value"),
        ({"IMAGES": "text"}, "instead of floats"),
    ],
)
def test_files_that_do_not_hold_what_they_should_are_refused(public, content, message):
    path = public("natural_patches") / "natural_patches" / "IMAGES.mat"
    scipy.io.savemat(path, content)
    with pytest.raises(UntwineError, match=message) as caught:
        natural_patches(source="olshausen")
    for said in (str(path.parent), path.name, "elete it", *patches.FILE.urls):
        assert said in str(caught.value)
    assert path.exists()  # somebody put it there


@pytest.mark.parametrize("kept", [0, 3, 100, 128, 150, 1000, -1])
def test_broken_files_are_refused(public, kept):
    path = public("natural_patches") / "natural_patches" / "IMAGES.mat"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(UntwineError, match=r"IMAGES\.mat (.|\n)*elete it"):
        natural_patches(source="olshausen")


def test_a_page_that_came_instead_of_the_file_is_refused(public):
    path = public("natural_patches") / "natural_patches" / "IMAGES.mat"
    path.write_text("<html>not found</html>")
    with pytest.raises(UntwineError, match="cannot be read as a file of MATLAB"):
        natural_patches(source="olshausen")


@pytest.fixture
def served(public, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bytes]]:
    """Two addresses that serve these contents; the file itself is removed."""
    monkeypatch.delenv("UNTWINE_OFFLINE", raising=False)
    monkeypatch.delenv("UNTWINE_MIRROR", raising=False)
    path = public("natural_patches") / patches.FILE.path
    answers = {"/first": path.read_bytes(), "/second": path.read_bytes()}
    path.unlink()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = answers[self.path]
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    urls = tuple(f"http://127.0.0.1:{server.server_port}{address}" for address in answers)
    monkeypatch.setattr(patches, "FILE", replace(patches.FILE, urls=urls))
    yield answers
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("wrong", [lambda whole: whole[: len(whole) // 2], lambda _: b"<html>moved</html>"])
def test_what_arrives_wrong_is_discarded_and_the_next_address_asked(served, wrong):
    whole = served["/second"]
    served["/first"] = wrong(whole)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(natural_patches(source="olshausen", examples=5)) == 10
    path = places.find(patches.FILE)
    assert path is not None and path.read_bytes() == whole
    served.clear()
    assert len(natural_patches(source="olshausen", examples=5)) == 10  # it is kept


def test_nothing_is_kept_where_every_address_gives_something_else(served):
    served |= dict.fromkeys(served, served["/first"][:-100])
    with pytest.raises(UntwineError, match=r"/first: (.|\n)*cannot be read as a file of MATLAB(.|\n)*/second: "):
        natural_patches(source="olshausen")
    assert places.find(patches.FILE) is None
    assert not list((places.folder() / patches.FILE.path).parent.glob("IMAGES*"))


def test_a_folder_in_the_data_folder_keeps_its_name(tmp_path, monkeypatch):
    save(tmp_path / "data" / "photographs", a=photograph(64))
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    data = natural_patches(source="photographs", examples=5)
    assert data.spec["source"] == "photographs" and data.content is not None
    same = natural_patches(source=str(tmp_path / "data" / "photographs"), examples=5)
    assert np.array_equal(data.examples(), same.examples()) and same.spec["source"] != "photographs"
    (tmp_path / "photographs").mkdir()
    assert full_spec({"name": "natural_patches", "source": "photographs"})["source"] == str(tmp_path / "photographs")
