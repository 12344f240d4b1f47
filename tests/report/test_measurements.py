"""Charts of measurements: what is drawn, against numbers computed by hand."""

import numpy as np
import pytest
from matplotlib.collections import LineCollection

from untwine.report import figures

VALUES = {1: (0.1, 0.2, 0.6), 2: (0.5, 0.6, 0.7)}


def rows(places=(1, 2), method="vae", measure="mig"):
    return [
        {"method": method, "spacing": place, "seed": seed, "measure": measure, "value": value}
        for place in places
        for seed, value in enumerate(VALUES[place])
    ]


def error_of(values):
    return 2 * np.std(values, ddof=1) / np.sqrt(len(values))


def test_lines_go_through_means_within_two_standard_errors():
    axes = figures.lines(rows(), x="spacing").axes[0]
    (line,) = axes.get_lines()
    means = [np.mean(VALUES[place]) for place in (1, 2)]
    np.testing.assert_allclose(line.get_xydata(), [(1, means[0]), (2, means[1])])
    corners = axes.collections[0].get_paths()[0].vertices
    expected = [
        mean + sign * error_of(VALUES[place]) for place, mean in zip((1, 2), means, strict=True) for sign in (-1, 1)
    ]
    assert {round(height, 9) for _, height in corners} == {round(height, 9) for height in expected}


def test_a_single_place_has_a_line_for_its_error():
    axes = figures.lines(rows(places=(1,)), x="spacing").axes[0]
    (bar,) = [part for part in axes.collections if isinstance(part, LineCollection)]
    (ends,) = bar.get_segments()
    mean, error = np.mean(VALUES[1]), error_of(VALUES[1])
    np.testing.assert_allclose(ends, [(1, mean - error), (1, mean + error)])


def test_whole_numbers_have_a_mark_each_and_no_others_between():
    assert list(figures.lines(rows(), x="spacing").axes[0].get_xticks()) == [1, 2]
    fractions = [{**row, "spacing": row["spacing"] / 3} for row in rows()]
    assert len(figures.lines(fractions, x="spacing").axes[0].get_xticks()) > 2


def test_the_names_of_groups_stay_within_the_picture():
    named = [row for i in range(4) for row in rows(method=f"{i}: a method that has quite a long name, as some have")]
    for figure in (figures.lines(named, x="spacing", by="method"), figures.lines(named[:12], x="spacing", by="method")):
        figure.draw_without_rendering()
        (legend,) = figure.legends
        box = legend.get_window_extent()
        assert box.x0 >= 0 and box.x1 <= figure.bbox.x1


def test_a_scatter_pairs_the_measures_of_each_model():
    pairs = {0: (1.0, 0.3), 1: (2.0, 0.2), 2: (3.0, 0.1)}
    both = [
        {"seed": seed, "measure": name, "value": value}
        for seed, values in pairs.items()
        for name, value in zip(("dto", "mig"), values, strict=True)
    ]
    both.append({"seed": 9, "measure": "dto", "value": 7.0})  # without its partner it has no place
    (points,) = figures.scatter(both, "dto", "mig").axes[0].collections
    assert sorted(map(tuple, points.get_offsets())) == sorted(pairs.values())


def test_boxes_show_every_model_and_the_mean():
    axes = figures.boxes(rows(), by="spacing").axes[0]
    points = np.concatenate([part.get_offsets() for part in axes.collections if len(part.get_offsets()) == 3])
    assert sorted(points[:, 0]) == pytest.approx(sorted(VALUES[1] + VALUES[2]))
    means = [line.get_xdata()[0] for line in axes.get_lines() if line.get_marker() == "D"]
    assert means == pytest.approx([np.mean(VALUES[1]), np.mean(VALUES[2])])
