"""Meshes in planes: every knot is where it was put, in the colour of the factor that varies."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

import untwine as uw
from untwine.errors import UntwineError
from untwine.report.charts import BLUE, ORANGE

SQUARE = np.stack(np.meshgrid(np.arange(3.0), np.arange(4.0), indexing="ij"), -1)


def test_lines_go_through_the_knots():
    figure = uw.figures.planes([[SQUARE, SQUARE @ [[0.0, 1.0], [2.0, 0.0]]]], captions=[["a", "b"]])
    first, second = figure.axes
    lines = [line for line in first.lines if len(line.get_xdata()) > 1]
    blue = [line.get_xydata() for line in lines if to_hex(line.get_color()) == BLUE.lower()]
    orange = [line.get_xydata() for line in lines if to_hex(line.get_color()) == ORANGE.lower()]
    assert len(blue) == 4 and len(orange) == 3
    assert all(np.ptp(line[:, 0]) == 2 and np.ptp(line[:, 1]) == 0 for line in blue)  # the first factor varies
    assert all(np.ptp(line[:, 0]) == 0 and np.ptp(line[:, 1]) == 3 for line in orange)
    assert first.lines[-1].get_xydata().tolist() == [[0, 0]] and first.get_xlabel() == "a"
    assert max(line.get_xdata().max() for line in second.lines) == 6
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["w1 varies", "w2 varies"]


def test_rows_may_be_short_and_have_labels():
    figure = uw.figures.planes([[SQUARE], [SQUARE] * 2], row_labels=["data", "codes"], column_labels=["x", "y"])
    assert len(figure.axes) == 3
    assert [axes.get_ylabel() for axes in figure.axes] == ["data", "codes", ""]


@pytest.mark.parametrize(("meshes", "what"), [([], "no plane"), ([[]], "no plane"), ([[np.ones((3, 2))]], "mesh")])
def test_what_is_refused(meshes, what):
    with pytest.raises(UntwineError, match=what):
        uw.figures.planes(meshes)
