"""3D Shapes: what its file holds and what is refused, and the room in which the drawn one is seen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from untwine.analysis import factor_importance
from untwine.data.drawing import shapes3d_renderer as renderer
from untwine.data.drawing.shapes3d_renderer import MATERIALS, SCENE, SHAPES, View, camera, meet, normals
from untwine.data.families import shapes3d
from untwine.data.specs import build, public_of
from untwine.errors import UntwineError
from untwine.streams import np_uniform

# michlo2023, Table A1 (mean squared differences of pixels) and Table A2 (means, and means of each image's deviation).
DISTANCES = {
    "wall_hue": 0.1122,
    "floor_hue": 0.1086,
    "object_hue": 0.0416,
    "shape": 0.0207,
    "scale": 0.0182,
    "orientation": 0.0116,
}
RANDOM = 0.2432
MEANS = np.array([0.502584966788819, 0.578759756608967, 0.603449973185958])
DEVIATIONS = np.array([0.294081404355556, 0.344397908751721, 0.366168598152475])


# --- the public file --------------------------------------------------------------------------------


@pytest.fixture
def tiny(public, public_writer):
    """The writer of a tiny file, after it wrote the file to the data folder."""
    writer = public_writer("shapes3d")
    writer.folder = public("shapes3d")
    return writer


def test_pictures_are_those_of_the_file(tiny):
    data = shapes3d.shapes3d()
    assert len(data) == tiny.LENGTH and data.shape == (3, 64, 64)
    assert data.spec == {"name": "shapes3d", "rendered": False}
    assert np.array_equal(data.examples(), tiny.images().transpose(0, 3, 1, 2))
    assert np.array_equal(data.factors_of(np.arange(len(data))), tiny.factors())
    numbers = np.array([191, 0, 7, 7])
    assert np.array_equal(data.batch(numbers), data.examples()[numbers])
    assert type(data.batch(numbers)) is np.ndarray and data.batch(numbers).flags.writeable
    assert np.array_equal(data.observe([[1, 2, 1, 1, 3, 1]]), data.batch([191]))


def test_the_file_is_unpacked_once(tiny):
    first = shapes3d.shapes3d().examples()
    (tiny.folder / tiny.PATH).unlink()
    assert np.array_equal(shapes3d.shapes3d().examples(), first)


@pytest.mark.parametrize("parts", [1, 2**20, 2**30])
def test_parts_of_any_size_give_the_same(tiny, monkeypatch, parts):
    monkeypatch.setattr(shapes3d, "_CHUNK", parts)
    found = list(shapes3d._unpacked(tiny.folder / tiny.PATH, shapes3d.SPACE))
    # The tiny file has chunks of fifty pictures.
    assert [len(part) for part in found] == {1: [50, 50, 50, 42], 2**20: [50, 50, 50, 42], 2**30: [192]}[parts]
    assert np.array_equal(np.concatenate(found), tiny.images().transpose(0, 3, 1, 2))


def test_a_file_that_is_not_packed_is_read_too(tiny, monkeypatch):
    path = tiny.folder / tiny.PATH
    with h5py.File(path, "w") as file:
        file["images"], file["labels"] = tiny.images(), tiny.labels()
    tiny.settle(path, monkeypatch)
    assert np.array_equal(shapes3d.shapes3d().examples(), tiny.images().transpose(0, 3, 1, 2))


def slowest_first(tiny) -> dict:
    """The grid with its first factor fastest, pictures and labels alike."""
    order = np.arange(tiny.LENGTH).reshape(tiny.SIZES).T.ravel()
    return {"images": tiny.images()[order], "labels": tiny.labels()[order]}


REFUSALS: dict[str, tuple[Callable, str]] = {
    "another order": (slowest_first, "not in the order of the grid: floor_hue is 0.1 in row 1 instead of 0"),
    "another grid": (
        lambda tiny: {"images": tiny.images(), "labels": np.where(tiny.labels() > 1.3, 1, tiny.labels())},
        "its labels have 2 values of shape instead of 4",
    ),
    "one row wrong": (
        lambda tiny: {"images": tiny.images(), "labels": tiny.labels()[[*range(191), 190]]},
        "orientation is -30 in row 191 instead of 30",
    ),
    "no labels": (lambda tiny: {"images": tiny.images()}, "no array 'labels'; in it is images"),
    "no images": (lambda tiny: {"labels": tiny.labels()}, "no array 'images'; in it is labels"),
    "fewer images": (
        lambda tiny: {"images": tiny.images()[:50], "labels": tiny.labels()},
        r"'images' is uint8 \[50, 64, 64, 3\] instead of uint8 \[192, 64, 64, 3\]",
    ),
    "images of floats": (
        lambda tiny: {"images": tiny.images() / np.float32(255), "labels": tiny.labels()},
        r"'images' is float32 \[192",
    ),
    "too few columns": (
        lambda tiny: {"images": tiny.images(), "labels": tiny.labels()[:, :5]},
        r"'labels' is float64 \[192, 5\] instead of float64 \[192, 6\]",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_files_that_do_not_hold_what_they_should_are_refused(tiny, monkeypatch, case):
    arrays, message = REFUSALS[case]
    tiny.write(tiny.folder, monkeypatch, **arrays(tiny))
    with pytest.raises(UntwineError, match=message) as caught:
        shapes3d.shapes3d()
    assert str(tiny.folder / tiny.PATH) in str(caught.value) and "delete it" in str(caught.value)
    assert not list(tiny.folder.rglob("*.npy"))


@pytest.mark.parametrize("content", [b"", b"no HDF5", "cut", "folder"])
def test_broken_files_are_refused(tiny, monkeypatch, content):
    path: Path = tiny.folder / tiny.PATH
    if content == "folder":
        with h5py.File(path, "w") as file:
            file.create_group("images")
    else:
        path.write_bytes(path.read_bytes()[:-3000] if content == "cut" else content)
    tiny.settle(path, monkeypatch)
    with pytest.raises(UntwineError, match="does not hold what it should"):
        shapes3d.shapes3d()


def test_without_the_file_one_hears_that_it_can_be_drawn(tiny, monkeypatch):
    (tiny.folder / tiny.PATH).unlink()
    monkeypatch.setenv("UNTWINE_OFFLINE", "1")
    with pytest.raises(UntwineError, match=r"(?s)3dshapes\.h5.*shapes3d\(rendered=True\).*--dataset\.rendered true"):
        shapes3d.shapes3d()


def test_what_is_known_of_it_before_it_is_here():
    about = public_of(shapes3d.shapes3d)
    assert about is not None and about.factors is not None
    assert about.files(rendered=True) == () and about.files(rendered=False) == shapes3d.FILES
    assert about.examples == about.factors.states == 480_000 and about.licence == "Apache 2.0"
    assert about.factors.sizes == (10, 10, 10, 8, 4, 15)


# --- rays -------------------------------------------------------------------------------------------


def outside(shape: str, scale: float, points: np.ndarray) -> np.ndarray:
    """A signed distance: below 0 in a shape, 0 on its surface, above 0 outside."""
    radius, height = scale * np.array(getattr(SCENE, shape))
    x, y, z = np.moveaxis(points, -1, 0)
    if shape == "cube":
        return np.max([np.abs(x) - radius, np.abs(y) - radius, np.abs(z - height / 2) - height / 2], axis=0)
    if shape == "cylinder":
        return np.maximum(np.hypot(x, y) - radius, np.abs(z - height / 2) - height / 2)
    beyond = z - np.clip(z, radius, height - radius)
    return np.sqrt(x**2 + y**2 + beyond**2) - radius


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("scale", "turn"), [(1.0, 0.0), (0.75, -30.0), (1.25, 17.0)])
def test_rays_meet_a_shape_where_they_first_enter_it(shape, scale, turn):
    origin, rays = camera(turn, 24)
    distance = meet(shape, scale, origin, rays)
    hit = np.isfinite(distance)
    assert 20 < hit.sum() < 300
    assert np.abs(outside(shape, scale, origin + distance[hit, None] * rays[hit])).max() < 1e-12
    # Nothing of the shape is nearer, nor anywhere on a ray that misses it.
    ends = np.where(hit, distance, 12.0)
    for share in np.linspace(0, 1, 500, endpoint=False):
        assert (outside(shape, scale, origin + share * ends[:, None] * rays) > 0).all()


def test_rays_along_the_axes_have_closed_forms():
    ahead, down, up = np.eye(3)[1], -np.eye(3)[2], np.eye(3)[2]
    for shape in SHAPES:
        radius, height = SCENE.size(shape, 1.1)
        level = meet(shape, 1.1, np.array([0.0, -7.0, height / 2]), np.stack([ahead, -ahead, down, up]))
        assert np.allclose(level, [7 - radius, np.inf, np.inf, np.inf])
        assert np.allclose(meet(shape, 1.1, np.array([0.0, 0.0, 9.0]), down[None]), 9 - height)
    sphere = meet("sphere", 1.0, np.array([0.3, -7.0, SCENE.sphere[0] + 0.4]), ahead[None])
    assert np.allclose(sphere, 7 - np.sqrt(SCENE.sphere[0] ** 2 - 0.3**2 - 0.4**2))


@pytest.mark.parametrize("shape", SHAPES)
def test_normals_are_gradients(shape):
    origin, rays = camera(20.0, 24)
    distance = meet(shape, 0.9, origin, rays)
    hit = np.isfinite(distance)
    points = origin + distance[hit, None] * rays[hit]
    step = 1e-6 * np.eye(3)
    slopes = outside(shape, 0.9, points[:, None] + step) - outside(shape, 0.9, points[:, None] - step)
    found = normals(shape, 0.9, points)
    assert np.allclose(found, slopes / 2e-6, atol=1e-5)
    assert (np.einsum("ni,ni->n", found, rays[hit]) < 0).all()  # they face the camera


@pytest.mark.parametrize("turn", [0.0, 30.0, -12.0])
def test_every_ray_ends_at_the_floor_a_wall_or_the_sky(turn):
    origin, rays = camera(turn, 32)
    steps = np.arange(0, 30, 0.01)
    expected = []
    for ray in rays:
        x, y, z = origin[:, None] + steps * ray[:, None]
        left = int(((z < 0) | (np.abs(x) > SCENE.half_width) | (y > SCENE.depth)).argmax())
        expected.append(0 if z[left] < 0 else 1 if z[left] <= SCENE.wall else 3)
    speck = View(turn, side=32, fine=1).weights("sphere", 1e-6)  # too small to be seen
    found = speck.reshape(len(MATERIALS), -1)
    assert (np.count_nonzero(found, axis=0) == 1).all()
    assert (found.argmax(0) != expected).mean() < 0.005  # rays that leave within a step of an edge
    assert {MATERIALS[one] for one in set(expected)} == {"floor", "wall", "sky"}


def test_the_floor_is_darker_towards_the_shape():
    empty, full = (View(0.0).weights("sphere", scale)[0].astype(int) for scale in (1e-6, 1.0))
    below = full[40:, 32]  # from the foot of the shape to the lower edge
    below = below[below > 0]
    assert (np.diff(below) >= 0).all() and below[0] < below[-1] - 20
    assert (full <= empty).all() and (full[-1] > 0.9 * empty[-1]).all()


# --- weights ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
def test_weights_are_shares(shape):
    for scale, turn in ((0.75, -30.0), (1.25, 4.0)):
        sums = View(turn).weights(shape, scale).sum(0, dtype=int)
        assert sums.max() <= renderer.FULL and sums.min() > 0.3 * renderer.FULL


@pytest.mark.parametrize("shape", SHAPES)
def test_opposite_turns_mirror_each_other(shape):
    one, other = (View(turn).weights(shape, 1.1).astype(int) for turn in (-20.0, 20.0))
    assert not np.array_equal(one, other)
    difference = np.abs(one - other[:, :, ::-1])
    assert difference.max() <= 1 and (difference > 0).mean() < 1e-3  # of a sum that falls between two numbers


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_grows_with_its_scale_and_all_but_the_cube_look_the_same_from_all_sides(shape):
    def covers(scale: float, turn: float) -> np.ndarray:
        return View(turn).weights(shape, scale)[[2, 4]].any(0)

    assert covers(0.75, 0.0).sum() < covers(1.0, 0.0).sum() < covers(1.25, 0.0).sum()
    assert np.array_equal(covers(1.0, 0.0), covers(1.0, 30.0)) == (shape != "cube")


def test_edges_are_soft():
    """More rays per pixel change hardly anything; with a single ray, edges change."""
    one, four, many = (View(11.0, side=32, fine=fine).weights("capsule", 1.0).astype(int) for fine in (1, 4, 16))
    assert np.abs(four - many).mean() < 0.25 * np.abs(one - many).mean()


# --- pictures ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def views() -> np.ndarray:
    return renderer.cast([0.8, 1.2], SHAPES, [-30.0, 0.0, 10.0])


def test_views_are_in_the_order_of_the_grid(views):
    assert views.shape == (24, 5, 64, 64) and views.dtype == np.uint8
    assert np.array_equal(views[(1 * 4 + 3) * 3 + 2], View(10.0).weights("capsule", 1.2))


def test_pictures_are_sums_of_weights_and_colours(views):
    states = np.stack(np.meshgrid(range(24), [0, 4], [7, 2], [9], indexing="ij"), -1).reshape(-1, 4)
    painter = shapes3d.Painter(views, [10, 10, 10])
    found = painter(states[:, 0], states[:, 1:])
    for picture, (view, *hues) in zip(found, states, strict=True):
        colours = [rgb(hue / 10) for hue in hues] + [SCENE.sky, (1, 1, 1)]
        whole = np.rint(255 * np.array(colours)).astype(int)
        sums = np.einsum("mhw,mc->chw", views[view].astype(int), whole)
        assert np.array_equal(picture, (2 * sums + 255) // 510)  # sums / 255, rounded


def rgb(hue: float) -> list[float]:
    """The pure colour of a hue: a channel is full within a sixth of the circle around its own, 0 beyond a third."""
    apart = [abs((hue - centre + 0.5) % 1 - 0.5) for centre in (0, 1 / 3, 2 / 3)]
    return [min(1.0, max(0.0, 2 - 6 * distance)) for distance in apart]


def test_any_part_of_the_pictures_is_painted_alike(views):
    painter = shapes3d.Painter(views, [10, 10, 10])
    numbers = np.arange(24).repeat(3)
    hues = np.stack([numbers % 10, numbers * 3 % 10, numbers * 7 % 10], 1)
    together = painter(numbers, hues)
    alone = [painter(numbers[[k]], hues[[k]]) for k in range(len(numbers))]
    assert np.array_equal(together, np.concatenate(alone))
    assert painter(numbers[:0], hues[:0]).shape == (0, 3, 64, 64)


@pytest.mark.parametrize("material", range(3))
def test_a_hue_changes_what_has_it_and_nothing_else(views, material):
    painter = shapes3d.Painter(views, [10, 10, 10])
    before = np.full((24, 3), 3)
    after = before.copy()
    after[:, material] = 8
    changed = (painter(np.arange(24), before) != painter(np.arange(24), after)).any(1)
    weight = views[:, material]
    assert not changed[weight == 0].any() and changed[weight > 3].all() and changed.any((1, 2)).all()


def test_the_drawn_dataset_is_the_grid(tiny):
    data = shapes3d.shapes3d(rendered=True)
    assert data.spec == {"name": "shapes3d", "rendered": True}
    assert data.factors == shapes3d.SPACE and len(data) == tiny.LENGTH
    pictures = data.examples()
    assert len(np.unique(pictures, axis=0)) == len(data)
    states = data.factors_of(np.arange(len(data)))
    assert np.array_equal(data.observe(states[::-1]), pictures[::-1])
    # floor hue 1 of 2, wall hue 2 of 3, object hue 0; the smallest sphere, from the right
    painter = shapes3d.Painter(View(30.0).weights("sphere", 0.75)[None], list(tiny.SIZES[:3]))
    assert np.array_equal(data.observe([[1, 2, 0, 0, 2, 1]]), painter(np.array([0]), np.array([[1, 2, 0]])))


def test_views_are_cast_once_and_kept(tiny, monkeypatch):
    first = shapes3d.shapes3d(rendered=True).examples()
    monkeypatch.setattr(renderer, "cast", lambda *args: pytest.fail("cast again"))
    again = build({"name": "shapes3d", "rendered": True})
    assert np.array_equal(again.examples(), first)


# --- Tables A1 and A2 -------------------------------------------------------------------------------


def test_tables_in_closed_form():
    """Expectations over all hues and all 480 views, with fewer rays to a pixel.

    With weights w_m of materials and independent colours C_m, pictures are sum w_m C_m, so that mean squares of
    differences are sums of E[C_m C_n] times products of differences of weights.
    """
    scales, turns = np.linspace(0.75, 1.25, 8), [View(turn, fine=2) for turn in np.linspace(-30, 30, 15)]
    views = np.array([[[view.weights(shape, s) for view in turns] for shape in SHAPES] for s in scales])
    w = np.moveaxis(views.reshape(8, 4, 15, 5, -1), 3, 0).astype(np.float32) / 255  # [material, scale, ..., pixel]
    colours = np.array([rgb(hue / 10) for hue in range(10)])
    mean, variance = colours.mean(0), colours.var(0).mean()
    means = np.stack([mean] * 3 + [np.array(SCENE.sky), np.ones(3)])
    products = means @ means.T / 3 + variance * np.diag([1, 1, 1, 0, 0])

    def square(d: np.ndarray) -> float:
        rows = d.reshape(len(MATERIALS), -1)
        return float((rows @ rows.T * products).sum()) / rows.shape[1]

    distances = {}
    for name, axis in (("scale", 1), ("shape", 2), ("orientation", 3)):
        # The mean over pairs that differ is 2 n / (n - 1) times the mean square about the mean of the traversal.
        n = w.shape[axis]
        distances[name] = 2 * n / (n - 1) * square(w - w.mean(axis, keepdims=True))
    for material, name in enumerate(("floor_hue", "wall_hue", "object_hue")):
        distances[name] = 2 * 10 / 9 * variance * float((w[material] ** 2).mean())
    picture = means.T @ w.mean((1, 2, 3))
    check(distances, random=2 * (square(w) - float((picture**2).mean())), tolerance=0.1)
    assert np.allclose(picture.mean(1), MEANS, rtol=0.05)
    some = (np_uniform(7, "states", (500, 4)) * [480, 10, 10, 10]).astype(np.int64)
    pictures = shapes3d.Painter(views.reshape(-1, 5, 64, 64), [10, 10, 10])(some[:, 0], some[:, 1:]) / 255
    assert np.allclose(pictures.reshape(500, 3, -1).std(-1, ddof=1).mean(0), DEVIATIONS, rtol=0.06)


def check(distances: dict[str, float], random: float, tolerance: float) -> None:
    assert sorted(distances, key=lambda name: -distances[name]) == list(DISTANCES)
    for name, expected in DISTANCES.items():
        assert distances[name] == pytest.approx(expected, rel=tolerance), name
    assert random == pytest.approx(RANDOM, rel=tolerance)


@pytest.mark.slow
def test_tables_of_the_drawn_dataset(drawn_data):
    """As michlo2023 measures, on states that the fit of the scene did not see."""
    data = shapes3d.shapes3d(rendered=True)
    found = factor_importance(data, pairs=5_000, seed=2024)
    check({row.name: row.mean for row in found.factors}, found.random.mean, tolerance=0.1)
    assert data.factors is not None
    mean, std = data.standardisation(data.factors.index(data.factors.sample(4_000, seed=2025)))
    assert np.allclose(mean, MEANS, rtol=0.05) and np.allclose(std, DEVIATIONS, rtol=0.08)
    assert [file.name for file in (drawn_data / "shapes3d").glob("*.npy")] == ["rendered-1.npy"]
