"""Curves, reconstructions and information against numbers computed by loops."""

from statistics import fmean

import numpy as np
import pytest
from matplotlib.figure import Figure

import untwine as uw
from untwine.report.curves import MOST_POINTS

random = np.random.default_rng(0)


def log(steps: int, members: int, offset: float = 0.0) -> list[dict[str, object]]:
    return [
        {
            "step": 10 * (i + 1),
            "members": {f"seed-{m}": {"loss": float(random.normal() + offset), "kl": i + 1.0} for m in range(members)},
        }
        for i in range(steps)
    ]


def line(figure: Figure, panel: int, number: int) -> np.ndarray:
    return np.asarray(figure.axes[panel].lines[number].get_xydata())


def test_a_curve_is_the_mean_over_members_within_their_range():
    history = log(30, 3)
    figure = uw.figures.curves(history)
    assert [axes.get_title() for axes in figure.axes] == ["loss", "kl"]
    for (step, value), entry in zip(line(figure, 0, 0), history, strict=True):
        losses = [terms["loss"] for terms in entry["members"].values()]  # type: ignore[union-attr]
        assert step == entry["step"] and value == pytest.approx(fmean(losses))
    band = figure.axes[0].collections[0].get_paths()[0].vertices
    every = [terms["loss"] for entry in history for terms in entry["members"].values()]  # type: ignore[union-attr]
    assert np.asarray(band)[:, 1].min() == pytest.approx(min(every))
    assert np.asarray(band)[:, 1].max() == pytest.approx(max(every))


def test_terms_of_wide_range_are_logarithmic_and_others_not():
    loss, kl = uw.figures.curves(log(30, 1, offset=100)).axes
    assert (loss.get_yscale(), kl.get_yscale()) == ("linear", "log")


def test_several_runs_have_a_line_each_and_a_legend():
    figure = uw.figures.curves({"a": log(5, 1), "b $x$": log(7, 2)}, terms=["loss"])
    assert len(figure.axes[0].lines) == 2 and len(line(figure, 0, 1)) == 7
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", r"b \$x\$"]
    assert not uw.figures.curves({"a": log(5, 1), "b": log(7, 2)}, legend=False).legends


def test_long_logs_are_averaged_to_fewer_points():
    history = log(1000, 2)
    points = line(uw.figures.curves(history, ["kl"]), 0, 0)
    assert len(points) <= MOST_POINTS and points[-1, 0] == 10_000
    assert points[0, 1] == pytest.approx(fmean([1, 2, 3]))


def test_members_that_diverge_leave_gaps():
    history = log(4, 2)
    for entry in history[2:]:
        entry["members"]["seed-0"] = {"loss": None, "kl": None, "diverged": 30}  # type: ignore[index]
    last = line(uw.figures.curves(history), 0, 0)[-1, 1]
    assert last == pytest.approx(history[-1]["members"]["seed-1"]["loss"])  # type: ignore[index]


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(uw.UntwineError, match="nothing was logged"):
        uw.figures.curves([])
    with pytest.raises(uw.UntwineError, match="did you mean 'loss'"):
        uw.figures.curves(log(2, 1), terms=["los"])
    with pytest.raises(uw.UntwineError, match="they must be"):
        uw.figures.reconstructions(np.zeros((2, 8, 8)), np.zeros((3, 8, 8)))
    with pytest.raises(uw.UntwineError, match="factors"):
        uw.figures.information(np.zeros((2, 3)), ["x"])


def test_reconstructions_are_below_their_images():
    originals, models = random.random((4, 3, 8, 6)), random.random((2, 4, 3, 8, 6))
    shown = [np.asarray(image.get_array()) for image in uw.figures.reconstructions(originals, models).axes[0].images]
    for picture, given in zip(shown, [*originals, *models[0], *models[1]], strict=True):
        np.testing.assert_allclose(picture, np.moveaxis(given, 0, -1), atol=1e-6)


def test_information_names_rows_by_latent_and_writes_every_value():
    table = random.random((2, 3, 2))
    figure = uw.figures.information(table, ["size", "a long name"], [[2, 0, 1], [1, 2, 0]], ["one", "two"])
    for axes, values, latents in zip(figure.axes, table, ("201", "120"), strict=True):
        assert [label.get_text() for label in axes.get_yticklabels()] == [f"z{latent}" for latent in latents]
        assert [text.get_text() for text in axes.texts] == [f"{value:.2f}" for value in values.ravel()]
