import io
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection, QuadMesh
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.image import imread

import untwine as uw
from untwine.analysis import aggregate, encodings
from untwine.analysis.alignment import jacobian_columns
from untwine.report import charts, figures, mosaic

random = np.random.default_rng(0)


def pictures(figure: Figure) -> list[np.ndarray]:
    return [np.asarray(artist.get_array()) for artist in figure.axes[0].images]


def places(figure: Figure) -> list[tuple[float, ...]]:
    return [tuple(artist.get_extent()) for artist in figure.axes[0].images]


def ticks(figure: Figure, axis: str) -> list[str]:
    return [tick.get_text() for tick in getattr(figure.axes[0], f"get_{axis}ticklabels")()]


def captions(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def written(figure: Figure) -> np.ndarray:
    file = io.BytesIO()
    figures.save(figure, file)
    file.seek(0)
    return imread(file)


def no_texts_overlap(figure: Figure) -> None:
    """All tick labels and captions lie apart from each other."""
    figure.canvas.draw()
    axes = figure.axes[0]
    texts = [*axes.get_xticklabels(), *axes.get_yticklabels(), *axes.texts]
    boxes = [text.get_window_extent() for text in texts if text.get_text()]
    assert not [1 for i, a in enumerate(boxes) for b in boxes[:i] if a.overlaps(b)]


@pytest.mark.parametrize("shape", [(8, 6), (1, 8, 6), (3, 8, 6)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_images_are_shown_as_they_are(shape: tuple[int, ...], dtype: type):
    grid = random.integers(0, 256, size=(2, 3, *shape))
    given = grid.astype(dtype) if dtype == np.uint8 else (grid / 255).astype(dtype)
    figure = figures.images(given, ["a", "b"], ["x", "y", "z"], title="title")
    shown = pictures(figure)
    assert len(shown) == 6 and len(figure.axes) == 1
    for picture, expected in zip(shown, grid.reshape(6, *shape), strict=True):
        expected = np.moveaxis(expected, 0, -1) if shape[0] == 3 else expected.reshape(8, 6)
        np.testing.assert_allclose(picture, expected / 255, atol=1e-7)
    assert (ticks(figure, "y"), ticks(figure, "x")) == (["a", "b"], ["x", "y", "z"])
    assert {artist.get_clim() for artist in figure.axes[0].images} == {(0.0, 1.0)}
    # Row by row from the top (the y axis points down), in the images' own proportions, without overlap.
    left, right, bottom, top = np.array(places(figure)).T
    assert (np.diff(left.reshape(2, 3)) > 1).all() and (top[3:] > bottom[:3]).all()
    np.testing.assert_allclose((bottom - top) / (right - left), 8 / 6)
    assert figure.axes[0].yaxis_inverted()
    no_texts_overlap(figure)


def test_images_between_limits():
    grid = np.array([-1.0, 0.0, 1.0, 3.0]).reshape(1, 1, 2, 2)
    with pytest.warns(UserWarning, match=r"pixels are from -1 to 3, but black is 0 and white 1: .* or other limits"):
        assert pictures(figures.images(grid))[0].tolist() == [[0, 0], [1, 1]]
    assert pictures(figures.images(grid, limits=(-1, 3)))[0].tolist() == [[0, 0.25], [0.5, 1]]
    assert pictures(figures.images(grid, limits=None))[0].tolist() == [[0, 0.25], [0.5, 1]]
    assert pictures(figures.images(np.ones((1, 1, 2, 2)), limits=None))[0].tolist() == [[0, 0], [0, 0]]
    with pytest.warns(UserWarning, match="pixels are from 0 to 255, but black is 0 and white 1"):  # not uint8
        figures.images(np.array([0, 255, 100, 3]).reshape(1, 1, 2, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figures.images(np.array([-0.3, 0.2, 1.4, 1.0]).reshape(1, 1, 2, 2))  # a reconstruction may well be so


@pytest.mark.parametrize("scale", ["all", "row", "each"])
def test_symmetric_images_are_centred_at_zero(scale: str):
    grid = random.normal(size=(2, 3, 4, 4)) * np.array([[[[1]], [[2]], [[3]]], [[[10]], [[20]], [[0]]]])
    figure = figures.images(grid, symmetric=True, scale=scale)
    axes = figure.axes[0]
    assert {artist.get_clim() for artist in axes.images} == {(-1, 1)}
    assert {artist.get_cmap().name for artist in axes.images} == {"RdBu_r"}
    tops = {
        "all": np.full((2, 3), np.abs(grid).max()),
        "row": np.repeat(np.abs(grid).max((1, 2, 3))[:, None], 3, 1),
        "each": np.where(np.abs(grid).max((2, 3)) > 0, np.abs(grid).max((2, 3)), 1),
    }[scale]
    for picture, image, top in zip(pictures(figure), grid.reshape(6, 4, 4), tops.ravel(), strict=True):
        np.testing.assert_allclose(picture * top, image)
    (bar,) = axes.child_axes
    labels = [text.get_text() for text in bar.get_yticklabels()]
    largest = f"{np.abs(grid).max():.0f}"
    assert labels == ([f"−{largest}", "0", largest] if scale == "all" else ["−max", "0", "max"])


def test_signed_colours_are_grey_where_nothing_changes():
    grid = np.zeros((1, 2, 3, 4, 4))
    grid[0, 1, 0] = -2.0
    figure = figures.images(grid, symmetric=True)
    nothing, less_red = pictures(figure)
    assert (nothing == 0.5).all() and (less_red == [0, 0.5, 0.5]).all()
    assert not figure.axes[0].child_axes


@pytest.mark.parametrize(
    ("grid", "arguments", "message"),
    [
        (np.zeros((2, 3, 4)), {}, "need 4 dimensions"),
        (np.zeros((2, 3, 2, 4, 4)), {}, r"they must be \[rows, columns, y, x\]"),
        (np.zeros((2, 3, 1, 1, 4, 4)), {}, r"they must be \[rows, columns, y, x\]"),
        (np.full((1, 1, 2, 2), np.nan), {}, "NaN or an infinity"),
        (np.zeros((1, 1, 2, 2)), dict(symmetric=True, scale="al"), "unknown scale 'al'; did you mean 'all'"),
        (np.zeros((1, 1, 2, 2)), dict(row_labels=["a", "b"]), "there are 2 row labels, but 1 are needed"),
        (np.zeros((1, 1, 2, 2)), dict(column_labels=[]), "there are 0 column labels, but 1 are needed"),
    ],
)
def test_images_say_what_is_wrong(grid: np.ndarray, arguments: dict, message: str):
    with pytest.raises(uw.UntwineError, match=message):
        figures.images(grid, **arguments)


@pytest.mark.parametrize("shape", [(5, 5), (1, 5, 5), (3, 5, 5)])
@pytest.mark.parametrize("rows", [None, 1, 3])
def test_columns_follow_their_image(shape: tuple[int, ...], rows: int | None):
    lead = () if rows is None else (rows,)
    image, columns = random.uniform(size=(*lead, *shape)), random.normal(size=(*lead, 4, *shape))
    figure = figures.columns(torch.from_numpy(image), torch.from_numpy(columns))
    shown = pictures(figure)
    assert len(shown) == 5 * (rows or 1) and not captions(figure)
    images, signed = image.reshape(-1, *shape), columns.reshape(-1, 4, *shape)
    for row in range(rows or 1):
        first, rest = shown[5 * row], np.stack(shown[5 * row + 1 : 5 * row + 5])
        top = np.abs(signed[row]).max()
        if shape[0] == 3:
            np.testing.assert_allclose(first, np.moveaxis(images[row], 0, -1))
            np.testing.assert_allclose((2 * rest - 1) * top, np.moveaxis(signed[row], 1, -1), atol=1e-12)
        else:
            np.testing.assert_allclose(first, images[row].reshape(5, 5))
            np.testing.assert_allclose(rest * top, signed[row].reshape(4, 5, 5))


def test_columns_have_their_norms_and_latents_below():
    image, columns = np.zeros((2, 5, 5)), np.ones((2, 3, 5, 5))
    norms, latents = [[3.0, 2.5, 0.001], [30, 2, 1]], np.array([[2, 0, 1], [0, 1, 2]])
    figure = figures.columns(image, columns, latents, norms, row_labels=["β-VAE", "JL1-VAE"])
    assert captions(figure) == [
        *("", "z2 ‖·‖ 3.0", "z0 ‖·‖ 2.5", "z1 ‖·‖ 0.0010"),
        *("", "z0 ‖·‖ 30", "z1 ‖·‖ 2.0", "z2 ‖·‖ 1.0"),
    ]
    assert ticks(figure, "y") == ["β-VAE", "JL1-VAE"]
    no_texts_overlap(figure)
    alone = figures.columns(image[0], columns[0], norms=norms[0])
    assert captions(alone) == ["", "‖·‖ 3.0", "‖·‖ 2.5", "‖·‖ 0.0010"]
    no_texts_overlap(alone)
    assert captions(figures.columns(image[0], columns[0], latents[0])) == ["", "z2", "z0", "z1"]


@pytest.mark.parametrize("lead", [(), (2,)])
def test_columns_take_what_the_analysis_gives(lead: tuple[int, ...]):
    sizes = np.array([3.0, 120.0, 0.5, 40.0])
    jacobians = np.zeros((*lead, 4, 1, 5, 5))
    jacobians[..., 0, 2, 2] = sizes
    figure = figures.columns(np.zeros((*lead, 1, 5, 5)), *jacobian_columns(jacobians, 3))
    assert captions(figure) == ["", "z1 ‖·‖ 120", "z3 ‖·‖ 40", "z0 ‖·‖ 3.0"] * (2 if lead else 1)


def test_short_numbers():
    expected = {-0.0: "0", 9.96: "10", 99.6: "100", 120: "120", -1234.5: "−1234", 99_999: "1.0e5"}
    expected |= {1: "1.0", 0.0999: "0.10", 0.00123: "0.0012", -0.000123: "−1.2e−4", 2.5e7: "2.5e7", 12345: "12345"}
    assert {number: mosaic.short(number) for number in expected} == expected


def test_many_columns_stand_in_several_lines():
    image, columns = np.zeros((2, 5, 5)), random.normal(size=(2, 25, 5, 5))
    figure = figures.columns(image, columns, np.arange(25), np.full((2, 25), 0.00123), ["a", "b"], across=10)
    shown = pictures(figure)
    assert len(shown) == 2 * 26 and len(captions(figure)) == 2 * 26
    np.testing.assert_allclose(np.stack(shown[27:]) * np.abs(columns[1]).max(), columns[1])
    left, right, bottom, top = np.array(places(figure)).T
    assert len(set(top)) == 6 and len(set(left)) == 11
    # Captions are in the order of columns, and each stands below its own.
    for i, text in enumerate(figure.axes[0].texts):
        assert text.get_text() == ("" if i % 26 == 0 else f"z{i % 26 - 1} ‖·‖ 0.0012")
        x, y = text.get_position()
        assert left[i] < x < right[i] and bottom[i] < y < bottom[i] + 0.3
    assert ticks(figure, "y") == ["a", "", "", "b", "", ""]
    no_texts_overlap(figure)


def test_columns_say_what_is_wrong():
    with pytest.raises(uw.UntwineError, match="across is how many stand in a row, 1 or more, not 0"):
        figures.columns(np.zeros((5, 5)), np.zeros((3, 5, 5)), across=0)
    with pytest.raises(uw.UntwineError, match=r"columns have shape \[3, 4, 4\] for an image \[5, 5\]"):
        figures.columns(np.zeros((5, 5)), np.zeros((3, 4, 4)))
    with pytest.raises(uw.UntwineError, match=r"norms have shape \[2\]; they must be \[1, 3\]"):
        figures.columns(np.zeros((5, 5)), np.zeros((3, 5, 5)), norms=[1.0, 2.0])
    with pytest.raises(uw.UntwineError, match="latents are float64; they must be whole numbers"):
        figures.columns(np.zeros((5, 5)), np.zeros((3, 5, 5)), [3.0, 2.0, 1.0])


def test_traversals_have_names_and_ranges():
    images = random.uniform(size=(2, 4, 1, 6, 6))
    figure = figures.traversals(images, np.array([5, 0]), [[-2.04, 1.96], [-10.0, 30.0]])
    assert ticks(figure, "y") == ["z5\n−2.0 to 2.0", "z0\n−10 to 30"]
    np.testing.assert_allclose(np.stack(pictures(figure)), images.reshape(8, 6, 6))
    assert ticks(figures.traversals(images), "y") == ["z0", "z1"]
    assert ticks(figures.traversals(images, ["x", "y"]), "y") == ["x", "y"]
    no_texts_overlap(figure)
    with pytest.raises(uw.UntwineError, match="there are 3 names, but 2 are needed"):
        figures.traversals(images, ["a", "b", "c"])
    with pytest.raises(uw.UntwineError, match=r"ranges have shape \[3, 2\]; they must be \[2, 2\]"):
        figures.traversals(images, ranges=np.zeros((3, 2)))


def test_magnitudes_are_bars_for_each_class():
    table = np.abs(random.normal(size=(3, 20)))
    figure = figures.magnitudes(table, ["trouser", "dress", "shirt"], threshold=0.5)
    assert [axes.get_ylabel() for axes in figure.axes] == ["trouser", "dress", "shirt"]
    for axes, row in zip(figure.axes, table, strict=True):
        np.testing.assert_allclose([bar.get_height() for bar in axes.patches], row)
        np.testing.assert_allclose([bar.get_x() + bar.get_width() / 2 for bar in axes.patches], np.arange(20))
        active = [to_hex(bar.get_facecolor()) == charts.BLUE.lower() for bar in axes.patches]
        assert active == (row > 0.5).tolist()
        assert axes.get_ylim() == figure.axes[0].get_ylim()
    plain = figures.magnitudes(table)
    assert plain.axes[2].get_ylabel() == "class 2"
    assert len({bar.get_facecolor() for bar in plain.axes[0].patches}) == 1
    with pytest.raises(uw.UntwineError, match="of one member"):
        figures.magnitudes(np.zeros((2, 3, 4)))
    with pytest.raises(uw.UntwineError, match="there are 1 names, but 3 are needed"):
        figures.magnitudes(table, ["trouser"])
    with pytest.raises(uw.UntwineError, match="threshold is a magnitude, 0 or more, not -1"):
        figures.magnitudes(table, threshold=-1)


def levels(axes: Axes) -> list[float]:
    """Where the dashed lines are."""
    return sorted(float(np.asarray(line.get_ydata())[0]) for line in axes.lines if line.get_linestyle() == "--")


@pytest.mark.parametrize("absolute", [True, False])
def test_magnitudes_of_what_was_found(absolute: bool):
    codes, labels = random.normal(size=(40, 6)), np.arange(40) % 2
    codes[:, 0] = [-1.0, 2.0] * 20
    found = encodings.magnitude_by_class(codes, labels, absolute)
    figure = figures.magnitudes(found, threshold=0.5)
    assert [axes.get_ylabel() for axes in figure.axes] == ["class 0", "class 1"]
    for axes, row in zip(figure.axes, found.values, strict=True):
        np.testing.assert_allclose([bar.get_height() for bar in axes.patches], row)
        assert to_hex(axes.patches[0].get_facecolor()) == charts.BLUE.lower()
        assert levels(axes) == ([0.5] if absolute else [-0.5, 0.5])
    assert [axes.get_ylabel() for axes in figures.magnitudes(found, ["coat", "dress"]).axes] == ["coat", "dress"]
    assert not levels(figures.magnitudes(found).axes[0])
    with pytest.raises(uw.UntwineError, match="of one member"):
        figures.magnitudes(encodings.magnitude_by_class(codes[None], labels))


@pytest.mark.parametrize("common", [False, True])
def test_density_panels(common: bool):
    means, variances = random.normal(size=(5, 20, 3)), np.full((5, 20, 3), 0.1)
    found = aggregate.aggregate_density(means, variances, latents=(2, 0), points=20)
    titles = [f"β = {i}" for i in range(5)]
    figure = figures.density(found, means[:, :, [2, 0]], titles=titles, across=3, common=common)
    panels = [axes for axes in figure.axes if axes.get_title()]
    assert [axes.get_title() for axes in panels] == titles
    bars = [axes for axes in figure.axes if axes.get_ylabel() == "density"]
    assert len(bars) == (1 if common else 5) and len(figure.axes) == 5 + len(bars)
    for i, axes in enumerate(panels):
        (mesh,) = (one for one in axes.collections if isinstance(one, QuadMesh))
        np.testing.assert_allclose(np.asarray(mesh.get_array()).reshape(20, 20), found.values[i])
        assert mesh.get_clim() == pytest.approx((0, found.values.max() if common else found.values[i].max()))
        # The centre of the first cell and of the last are the first point of the grid and the last.
        corners = mesh.get_coordinates()
        middle = (corners[:-1, :-1] + corners[1:, 1:]) / 2
        np.testing.assert_allclose(middle[..., 0], np.tile(found.x, (20, 1)))
        np.testing.assert_allclose(middle[..., 1], np.tile(found.y[:, None], (1, 20)))
        (points,) = (one for one in axes.collections if isinstance(one, PathCollection))
        np.testing.assert_allclose(points.get_offsets(), means[i][:, [2, 0]])
    assert [axes.get_xlabel() for axes in panels] == ["", "", "z2", "z2", "z2"]
    assert [axes.get_ylabel() for axes in panels] == ["z0", "", "", "z0", ""]
    assert len(np.unique(written(figure)[..., 0])) > 50  # shades of red


def test_densities_have_one_scale_of_colours_unless_told():
    found = aggregate.aggregate_density(np.zeros((2, 1, 2)), np.array([[[1.0, 1.0]], [[4.0, 4.0]]]), points=20)
    panels = figures.density(found).axes[:2]
    assert [axes.collections[0].get_clim() for axes in panels] == [pytest.approx((0, found.values.max()))] * 2


@pytest.mark.parametrize(("height", "tall"), [(1.0, 1.0), (2.0, 2.0), (0.5, 0.5), (4.0, 1.0), (0.1, 1.0)])
def test_latents_share_a_scale_unless_their_ranges_are_far_apart(height: float, tall: float):
    found = aggregate.aggregate_density(np.zeros((1, 2)), np.array([[1.0, height**2]]), points=10)
    axes = figures.density(found).axes[0]
    assert axes.get_box_aspect() == pytest.approx(tall)


def test_density_of_one_member():
    found = aggregate.aggregate_density(np.zeros((1, 2)), np.ones((1, 2)), points=10)
    figure = figures.density(found, samples=np.zeros((3, 2)), title="aggregate posterior")
    assert len(figure.axes) == 2 and figure.axes[1].get_ylabel() == "density"
    with pytest.raises(uw.UntwineError, match=r"samples have shape \[3, 3\]; they must be \[n, 2\] or \[1, n, 2\]"):
        figures.density(found, samples=np.zeros((3, 3)))
    with pytest.raises(uw.UntwineError, match="there are 2 titles, but 1 are needed"):
        figures.density(found, titles=["a", "b"])
    with pytest.raises(uw.UntwineError, match="across"):
        figures.density(found, across=0)


def test_scores_show_every_model_their_mean_and_its_interval():
    values = {"β-VAE": random.normal(size=10), "JL1-VAE": random.normal(size=4), "VAE": [0.2, 0.4], "AE": [0.5]}
    axes = figures.scores(values, "local MIG", errors=1.5).axes[0]
    assert axes.get_xlabel() == "local MIG"
    assert [tick.get_text() for tick in axes.get_yticklabels()] == list(values)
    assert axes.yaxis_inverted()
    points = [one.get_offsets() for one in axes.collections if isinstance(one, PathCollection)]
    for place, (given, shown, container) in enumerate(zip(values.values(), points, axes.containers, strict=True)):
        np.testing.assert_allclose(shown[:, 0], given)
        assert (np.abs(shown[:, 1] - place) < 0.4).all()
        marker, _, (bars,) = container.lines
        assert marker.get_xdata()[0] == pytest.approx(np.mean(given))
        expected = 1.5 * np.std(given, ddof=1) / len(given) ** 0.5 if len(given) > 2 else 0.0
        (low, _), (high, _) = bars.get_segments()[0]
        assert (high - low) / 2 == pytest.approx(expected)
    boxes = [patch.get_path().vertices[:, 0] for patch in axes.patches]
    assert len(boxes) == 2  # one model has no quartiles
    np.testing.assert_allclose([boxes[0].min(), boxes[0].max()], np.quantile(values["β-VAE"], [0.25, 0.75]))


def test_scores_that_are_not_finite_are_left_out_and_counted():
    axes = figures.scores({"a": [1.0, np.nan, 3.0], "b": [np.nan]}).axes[0]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["a\n(1 left out)", "b\n(1 left out)"]
    assert axes.containers[0].lines[0].get_xdata()[0] == 2.0 and len(axes.containers) == 1
    with pytest.raises(uw.UntwineError, match="no scores"):
        figures.scores({})


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_saved_figures_are_the_same_each_time(suffix: str, start: bytes, tmp_path: Path):
    path = tmp_path / "new" / f"figure.{suffix}"
    contents = []
    for _ in range(2):
        figures.save(figures.scores({"vae": [0.1, 0.2, 0.3]}), path)
        contents.append(path.read_bytes())
    assert contents[0] == contents[1] and contents[0].startswith(start) and len(contents[0]) > 1000


def test_a_picture_shows_what_it_should():
    grid = np.zeros((1, 2, 4, 4))
    grid[0, 1] = 1.0
    shown = written(figures.images(grid))[..., :3].mean(-1)
    height, width = shown.shape
    assert shown[height // 2, width // 4] == 0 and shown[height // 2, 3 * width // 4] == 1
    assert height > 100 and width > 200


def test_save_knows_its_formats(tmp_path: Path):
    with pytest.raises(uw.UntwineError, match=r"ends in \.png, \.pdf, \.svg, unlike"):
        figures.save(figures.scores({"vae": [0.1]}), tmp_path / "figure.pgn")


def test_figures_need_no_window_and_load_matplotlib_late():
    code = (
        "import sys; from untwine.report import figures; assert 'matplotlib' not in sys.modules\n"
        "import io; figures.save(figures.scores({'vae': [0.1]}), io.BytesIO())\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
