"""dSprites from a tiny file of the public format, and drawn: by its definition, and by michlo2023's tables."""

from __future__ import annotations

import itertools
import shutil
import zipfile

import numpy as np
import pytest

import untwine.data.families.dsprites as module
from untwine.analysis.perception import factor_importance
from untwine.data.families import dsprites as sprites
from untwine.data.families.dsprites import dsprites
from untwine.data.specs import build, full_spec
from untwine.data.states import TabledStates
from untwine.errors import UntwineError

SPACE = sprites.SPACE


@pytest.fixture
def writer(public_writer):
    return public_writer("dsprites")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty data folder, and no network."""
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path))
    monkeypatch.setenv("UNTWINE_OFFLINE", "1")
    return tmp_path


# --- the file -------------------------------------------------------------------------------------------


def test_the_published_space_and_file():
    assert SPACE is module.SPACE and module.PUBLIC.factors is SPACE
    assert SPACE.names == ("shape", "scale", "orientation", "x", "y") and SPACE.sizes == (3, 6, 40, 32, 32)
    assert SPACE.kinds == ("categorical", "ordered", "cyclic", "ordered", "ordered")
    assert module.PUBLIC.examples == SPACE.states == 737_280 and module.PUBLIC.shape == (1, 64, 64)
    (file,) = module.PUBLIC.files(rendered=False)
    assert file.name == "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"
    assert all(url.endswith(f"/dsprites-dataset/raw/master/{file.name}") for url in file.urls)
    assert module.PUBLIC.files(rendered=True) == ()


@pytest.mark.parametrize("at_once", [1, 7, 72, 4096])
def test_every_picture_is_in_its_place(public, writer, monkeypatch, at_once):
    public("dsprites")
    monkeypatch.setattr(module, "_CHUNK", at_once)
    data, arrays = dsprites(), writer.arrays()
    assert data.spec == {"name": "dsprites", "rendered": False} and data.factors.sizes == writer.SIZES
    assert len(data) == writer.LENGTH and data.shape == (1, 64, 64)
    assert np.array_equal(data.examples()[:, 0], arrays["imgs"] * 255)
    assert np.array_equal(data.factors_of(np.arange(len(data))), arrays["latents_classes"][:, 1:])
    shuffled = np.array([70, 3, 3, 41])
    assert np.array_equal(data.observe(arrays["latents_classes"][shuffled, 1:])[:, 0], arrays["imgs"][shuffled] * 255)


def test_the_order_in_memory_of_the_classes_does_not_matter(folder, writer, monkeypatch):
    classes = np.asfortranarray(writer.arrays()["latents_classes"]).astype(np.uint8)
    writer.write(folder, monkeypatch, latents_classes=classes)
    assert np.array_equal(dsprites().examples()[:, 0], writer.arrays()["imgs"] * 255)


def test_the_file_is_packed_once_and_then_no_longer_needed(public, monkeypatch):
    folder = public("dsprites")
    data = dsprites()
    made = folder / "dsprites" / "packed-1.npy"
    assert np.load(made, mmap_mode="r").shape == (72, 512)
    (folder / module.FILES[0].path).unlink()
    monkeypatch.setenv("UNTWINE_OFFLINE", "1")
    assert np.array_equal(build(data.spec).examples(), data.examples())


def test_without_the_file_it_says_that_one_can_be_drawn(folder):
    with pytest.raises(UntwineError, match=r"dsprites\(rendered=True\).*--dataset.rendered true") as told:
        dsprites()
    assert module.FILES[0].name in str(told.value) and module.FILES[0].checksum in str(told.value)
    assert not list(folder.rglob("*.npy"))


def rolled(array):
    return np.roll(array, 1, axis=0)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("imgs", lambda imgs: imgs[:-1], r"uint8 \[71, 64, 64\] instead of uint8 \[72, 64, 64\]"),
        ("imgs", lambda imgs: imgs[:, :32], r"\[72, 32, 64\] instead"),
        ("imgs", lambda imgs: imgs.astype(bool), "bool .* instead of uint8"),
        ("imgs", lambda imgs: imgs.astype(object), "object .* instead of uint8"),
        ("imgs", np.asfortranarray, "Fortran"),
        ("imgs", lambda imgs: imgs * 255, "is 255, neither 0 nor 1"),
        ("imgs", lambda imgs: None, "has no array 'imgs'"),
        (
            "latents_classes",
            rolled,
            r"row 0 of its array 'latents_classes' is \[0, 2, 1, 2, 1, 1\] instead of \[0, 0, 0, 0, 0, 0\]",
        ),
        (
            "latents_classes",
            lambda classes: classes[:, [0, 1, 2, 3, 5, 4]],
            r"row 1 .* instead of \[0, 0, 0, 0, 0, 1\]",
        ),
        ("latents_classes", lambda classes: classes + np.eye(1, 6, dtype=np.int64), r"is \[1, 0"),
        ("latents_classes", lambda classes: classes[:, 1:], r"int64 \[72, 5\] instead of int64 \[72, 6\]"),
        ("latents_classes", lambda classes: classes.astype(float), "float64"),
        ("latents_classes", lambda classes: classes.astype(object), "Object arrays cannot be loaded"),
        ("latents_classes", lambda classes: None, "has no array 'latents_classes'"),
    ],
)
def test_a_file_with_other_content_is_refused(folder, writer, monkeypatch, name, change, message):
    writer.write(folder, monkeypatch, **{name: change(writer.arrays()[name])})
    with pytest.raises(UntwineError, match=message) as told:
        dsprites()
    assert "delete it" in str(told.value) and module.FILES[0].name in str(told.value)
    assert not list(folder.rglob("*.npy"))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("imgs", lambda content: content[:-1], "which do not fit"),
        ("imgs", lambda content: content[:200], "which do not fit"),
        ("imgs", lambda content: content + b"\0", "which do not fit"),
        ("imgs", lambda content: b"not an array", "does not hold what it should"),
        ("imgs", lambda content: b"", "does not hold what it should"),
        ("latents_classes", lambda content: content[:-8], "does not hold what it should: EOF"),
    ],
)
def test_arrays_that_are_cut_off_are_refused(folder, writer, monkeypatch, name, change, message):
    writer.write(folder, monkeypatch)
    path = folder / module.FILES[0].path
    with zipfile.ZipFile(path) as old:
        content = {member: old.read(member) for member in old.namelist()}
    content[f"{name}.npy"] = change(content[f"{name}.npy"])
    with zipfile.ZipFile(path, "w") as new:
        for member, data in content.items():
            new.writestr(member, data)
    monkeypatch.setattr(module.store, "fetch", lambda file, hint: path)
    with pytest.raises(UntwineError, match=message):
        dsprites()


def test_a_damaged_archive_is_refused(folder, writer, monkeypatch):
    writer.write(folder, monkeypatch)
    path = folder / module.FILES[0].path
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo("imgs.npy")
    content = bytearray(path.read_bytes())
    content[member.header_offset + member.compress_size // 2] ^= 0xFF
    path.write_bytes(bytes(content))
    with pytest.raises(UntwineError, match="checksum"):
        dsprites()
    monkeypatch.setattr(module.store, "fetch", lambda file, hint: path)
    with pytest.raises(UntwineError, match="delete it"):
        dsprites()


def averaged(images, size):
    """Images `[n, 64, 64]` of 0 and 255, averaged over squares and rounded half to even."""
    step = 64 // size
    return np.round(images.reshape(len(images), 1, size, step, size, step).mean((3, 5), dtype=np.float64))


@pytest.mark.parametrize("size", [16, 32])
def test_small_pictures_of_the_file_are_averages(public, writer, size):
    folder = public("dsprites")
    data = dsprites(size=size)
    assert data.spec == {"name": "dsprites", "rendered": False, "size": size} and data.shape == (1, size, size)
    assert np.array_equal(data.examples(), averaged(writer.arrays()["imgs"] * 255, size))
    assert data.examples().dtype == np.uint8 and len(np.unique(data.examples())) > 2
    made = [path.name for path in (folder / "dsprites").glob("*.npy")]
    assert made == ["packed-1.npy"]  # the same for all sizes


# --- drawn: its definition ------------------------------------------------------------------------------


def corners(shape, scale, angle, centre):
    """The outline of a square or heart as a fine polygon in the picture: x to the right, y downwards, clockwise."""
    if shape == "square":
        half = sprites.SQUARE / 2
        outline = np.array([[-half, -half], [half, -half], [half, half], [-half, half]])
    else:
        # Down from the notch over the right half-circle to the tip, and its mirror image.
        side = sprites.HEART
        arc = np.linspace(-3 * np.pi / 4, np.pi / 4, 2001)
        right = side / np.sqrt(8) * np.array([1, -1]) + side / 2 * np.stack([np.cos(arc), np.sin(arc)], 1)
        right = np.concatenate([right, [[0, side / np.sqrt(2)]]])
        outline = np.concatenate([right, right[::-1] * [-1, 1]])
        outline[:, 1] -= (outline[:, 1].min() + outline[:, 1].max()) / 2
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    return scale * outline @ turn + centre


def defined(state):
    """A picture by the moved outline of its sprite: points in a polygon, or their distances from foci."""
    from matplotlib.path import Path

    shape, scale, angle = sprites.SHAPES[state[0]], 0.5 + 0.1 * state[1], np.linspace(0, 2 * np.pi, 40)[state[2]]
    centre = sprites.FIRST + np.array(state[3:])
    pixels = np.stack(np.meshgrid(np.arange(64) + 0.5, np.arange(64) + 0.5), -1).reshape(-1, 2)
    if shape == "ellipse":
        long, short = sprites.ELLIPSE
        focus = scale * np.sqrt(long**2 - short**2) * np.array([np.cos(angle), np.sin(angle)])
        apart = np.hypot(*(pixels - centre - focus).T) + np.hypot(*(pixels - centre + focus).T)
        return (apart <= 2 * long * scale).reshape(64, 64)
    return Path(corners(shape, scale, angle, centre)).contains_points(pixels).reshape(64, 64)


def test_pictures_are_as_defined():
    states = np.concatenate([SPACE.sample(60, seed=5), [[shape, 5, 0, 31, 0] for shape in range(3)]])
    drawn = sprites.draw(states)
    assert drawn.shape == (63, 1, 64, 64) and drawn.dtype == np.uint8
    for state, picture in zip(states, drawn[:, 0], strict=True):
        assert np.array_equal(picture, np.where(defined(state), 255, 0)), state


def test_no_pixel_lies_on_an_outline():
    """No point is so close to an edge that rounding could change an image on another machine."""
    middles = np.arange(-20, 20) + 0.5 - sprites.FIRST % 1
    expected = sprites.inside(middles, middles)
    for change in (1 - 1e-6, 1 + 1e-6):
        assert np.array_equal(sprites.inside(middles, middles, sprites.SCALES * change), expected)


def test_a_heart_is_upright_at_first_and_turns_clockwise():
    heart = sprites.draw([[2, 5, 0, 16, 16]])[0, 0] > 0
    rows, columns = np.nonzero(heart)
    widths = heart.sum(1)[rows.min() : rows.max() + 1]
    assert widths[-1] <= 2 and widths.argmax() < len(widths) / 2
    assert not heart[rows.min(), round(columns.mean())]  # the notch between the half-circles
    turned = sprites.draw([[2, 5, 10, 16, 16]])[0, 0] > 0  # by a little more than a quarter
    across = turned.sum(0)[turned.any(0)]
    assert across[0] <= 2 and across.argmax() > len(across) / 2  # the tip went from below to the left


def test_a_place_further_is_a_pixel_further():
    first = sprites.draw([[shape, 3, 7, 0, 0] for shape in range(3)])
    for x, y in itertools.product((0, 1, 15, 31), (0, 2, 16, 31)):
        moved = sprites.draw([[shape, 3, 7, x, y] for shape in range(3)])
        assert np.array_equal(moved, np.roll(first, (y, x), (2, 3)))


@pytest.fixture(scope="module")
def centred():
    """All shapes, scales and orientations in one place, `[3, 6, 40, 64, 64]`, 0 or 1."""
    states = [(*sprite, 15, 15) for sprite in np.ndindex(3, 6, 40)]
    return (sprites.draw(states).reshape(3, 6, 40, 64, 64) // 255).astype(np.float32)


def test_a_whole_turn_changes_nothing_and_all_other_pictures_differ(centred):
    assert np.array_equal(centred[:, :, 0], centred[:, :, 39])
    seen = set()
    for picture in centred[:, :, :39].reshape(-1, 64, 64):
        rows, columns = picture.any(1), picture.any(0)
        cut = picture[rows][:, columns]  # wherever it is
        seen.add((cut.shape, cut.tobytes()))
    assert len(seen) == 3 * 6 * 39


def test_larger_sprites_cover_smaller_ones(centred):
    assert (np.diff(centred, axis=1) >= 0).all()
    assert (np.diff(centred.sum((3, 4)), axis=1) > 0).all()


def test_sprites_keep_away_from_the_border():
    ends = [(*sprite, x, y) for sprite in np.ndindex(3, 6, 40) for x in (0, 31) for y in (0, 31)]
    pictures = sprites.draw(ends)[:, 0]
    inner = pictures[:, 3:-2, 3:-2]
    assert inner.sum() == pictures.sum() > 0


@pytest.mark.parametrize("size", [16, 32])
def test_small_pictures_are_averages_and_need_no_file(folder, size):
    data = dsprites(rendered=True, size=size)
    assert data.spec == {"name": "dsprites", "rendered": True, "size": size} and len(data) == 737_280
    corners = [(*sprite, x, y) for sprite in ((0, 0, 0), (1, 5, 7), (2, 3, 39)) for x in (0, 31) for y in (0, 31)]
    states = np.concatenate([SPACE.sample(500, seed=3), corners])
    assert np.array_equal(data.observe(states), averaged(sprites.draw(states), size))
    numbers = np.arange(737_000, 737_100)
    assert np.array_equal(data.batch(numbers), averaged(sprites.draw(SPACE.factors(numbers)), size))
    assert data.shape == data.batch([0]).shape[1:] == (1, size, size) and data.batch([0]).dtype == np.uint8
    assert not list(folder.rglob("*.npy"))


def test_sprites_of_16_pixels_still_differ():
    states = [(*sprite, 15, 15) for sprite in np.ndindex(3, 6, 39)]
    assert len(np.unique(sprites.draw(states, 16), axis=0)) == len(states)


@pytest.mark.parametrize("size", [0, 8, 48, 128, 16.5, "small"])
@pytest.mark.parametrize("rendered", [False, True])
def test_other_sizes_are_refused(folder, rendered, size):
    with pytest.raises(UntwineError, match="size of dataset 'dsprites' must be 16, 32 or 64"):
        dsprites(rendered=rendered, size=size)


def test_factors_off_the_grid_are_refused():
    with pytest.raises(UntwineError, match="'orientation' is 40"):
        sprites.draw([[0, 0, 40, 0, 0]])
    with pytest.raises(UntwineError, match=r"must be \[n, 5\]"):
        sprites.draw([[0, 0, 0, 0, 0, 0]])
    assert sprites.draw(np.zeros((0, 5), np.int64)).shape == (0, 1, 64, 64)


# --- drawn: michlo2023, Tables A1 and A2 ----------------------------------------------------------------

MEAN, STD = 0.042494423521890, 0.195166458806261
# Mean and standard deviation of distances. By its text, x is .058 and y .057: both tables and text are to be met.
DISTANCES = {
    "random": (0.0754, 0.0289),
    "y": (0.0584, 0.0378),
    "x": (0.0559, 0.0363),
    "scale": (0.0250, 0.0148),
    "shape": (0.0214, 0.0095),
    "orientation": (0.0172, 0.0106),
}
TEXT = {"x": 0.058, "y": 0.057}


def near(found, expected, share=0.05):
    return abs(found / expected - 1) < share


def test_pixels_have_the_mean_and_deviation_of_the_paper(centred):
    """The moments of all images: a sprite has the same pixels in every position."""
    area = centred.sum((3, 4), dtype=np.float64)
    means = area / 4096
    deviations = np.sqrt(means * (1 - means) * 4096 / 4095)
    assert near(means.mean(), MEAN, 0.01) and near(deviations.mean(), STD, 0.01)
    numbers = SPACE.index(SPACE.sample(3000, seed=11))
    mean, std = drawn().standardisation(numbers)
    assert near(mean[0], MEAN) and near(std[0], STD)
    assert np.allclose([mean[0], std[0]], [means.mean(), deviations.mean()], rtol=0.03)


def exact(centred):
    """The mean distance of all pairs that differ in one factor, and of all pairs, over the whole grid."""
    area = centred.sum((3, 4), dtype=np.float64)
    found = {}
    for axis, name in enumerate(SPACE.names[:3]):
        size = centred.shape[axis]
        pixels = np.moveaxis(centred, axis, 2).reshape(-1, size, 4096)
        shared = pixels @ pixels.swapaxes(1, 2)
        own = np.moveaxis(area, axis, 2).reshape(-1, size)
        apart = own[:, :, None] + own[:, None] - 2 * shared
        found[name] = apart.sum() / len(apart) / (size * (size - 1)) / 4096
    sprite, shifts = centred.reshape(-1, 64, 64), np.arange(1, 32)
    often = 2 * (32 - shifts) / (32 * 31)  # how often places are so far apart
    for axis, name in ((2, "x"), (1, "y")):
        along = np.moveaxis(sprite, axis, 2)
        shared = [np.einsum("nij,nij->n", along[..., shift:], along[..., :-shift]).mean() for shift in shifts]
        found[name] = (2 * area.mean() - 2 * (often * shared).sum()) / 4096
    density = sprite.mean(0, dtype=np.float64)
    for axis in (0, 1):
        density = np.mean([np.roll(density, place - 15, axis) for place in range(32)], axis=0)
    pairs = 737_280 / (737_280 - 1)  # of a picture with itself there are none
    found["random"] = pairs * (2 * area.mean() - 2 * (density**2).sum()) / 4096
    return found


def drawn():
    return TabledStates(SPACE, (1, 64, 64), lambda numbers: sprites.draw(SPACE.factors(numbers)))


def test_perceived_distances_are_those_of_the_paper(centred):
    whole = exact(centred)
    found = factor_importance(drawn(), pairs=6000, seed=23)
    rows = {row.name: row for row in (found.random, *found.factors)}
    assert set(rows) == set(whole) == set(DISTANCES)
    for name, (mean, std) in DISTANCES.items():
        assert near(whole[name], mean, 0.03), (name, whole[name])  # what docstring and pages say
        assert near(rows[name].mean, mean), (name, rows[name].mean)
        assert abs(rows[name].mean - whole[name]) < 4 * rows[name].error
        assert near(rows[name].std, std, 0.07), (name, rows[name].std)
    for name, mean in TEXT.items():
        assert near(whole[name], mean)
    assert found.order[2:] == ("scale", "shape", "orientation")


# --- drawn: the file ------------------------------------------------------------------------------------


def test_the_spec_says_which_was_used():
    assert full_spec({"name": "dsprites", "rendered": True}) == {"name": "dsprites", "rendered": True}
    assert full_spec({"name": "dsprites"})["rendered"] is False
    assert "size" not in full_spec({"name": "dsprites", "size": 64})  # as runs that were stored before it
    assert full_spec({"name": "dsprites", "size": 16})["size"] == 16


@pytest.mark.slow
def test_the_whole_grid_is_drawn_to_a_file(drawn_data):
    if shutil.disk_usage(drawn_data).free < 2**30:
        pytest.skip("too little room for the file")
    data = dsprites(rendered=True)
    assert data.spec == {"name": "dsprites", "rendered": True} and len(data) == 737_280
    made = drawn_data / "dsprites" / "rendered-1.npy"
    table = np.load(made, mmap_mode="r")
    assert table.shape == (737_280, 512) and table.dtype == np.uint8
    states = np.concatenate([SPACE.sample(2000, seed=2), [[0] * 5, [2, 5, 39, 31, 31]]])
    assert np.array_equal(data.observe(states), sprites.draw(states))
    assert np.array_equal(data.batch(np.arange(5000, 5100)), sprites.draw(SPACE.factors(np.arange(5000, 5100))))
    written = made.stat().st_mtime_ns
    assert np.array_equal(build(data.spec).observe(states[:5]), data.observe(states[:5]))
    assert made.stat().st_mtime_ns == written
    # A bit is a pixel: the mean over the whole file is that of all pictures.
    white = sum(np.unpackbits(part).sum(dtype=np.int64) for part in np.array_split(table, 100))
    assert near(white / (737_280 * 4096), MEAN, 0.01)
