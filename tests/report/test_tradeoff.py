"""Charts of overlap and of trade-offs show the numbers that they are given."""

from __future__ import annotations

import io

import numpy as np
import pytest

from untwine.analysis import latent_densities
from untwine.errors import UntwineError
from untwine.report import figures

ROWS = [
    {"prior": prior, "beta": beta, "seed": seed, "measure": measure, "value": beta * weight + seed}
    for prior, weight in (("isotropic", 1.0), ("learned", 2.0))
    for beta in (4.0, 1.0)
    for seed in range(3)
    for measure in ("reconstruction", "score")
]


def test_points_are_means_with_the_values_of_the_sweep_as_labels():
    figure = figures.tradeoff(ROWS, "reconstruction", "score", along="beta", by="prior", labels={"beta": "β"})
    axes = figure.axes[0]
    assert [line.get_label() for line in axes.lines] == ["isotropic", "learned"]
    assert np.asarray(axes.lines[1].get_xydata()) == pytest.approx(np.array([[3.0, 3.0], [9.0, 9.0]]))
    assert [text.get_text() for text in axes.texts] == ["1", "4", "1", "4"]
    band = axes.collections[0].get_paths()[0].vertices
    error = 2 * np.std([0, 1, 2], ddof=1) / np.sqrt(3)
    assert band[:, 1].min() == pytest.approx(2 - error) and band[:, 1].max() == pytest.approx(5 + error)
    figures.save(figure, io.BytesIO())


def test_labels_of_points_that_lie_close_together_do_not_overlap():
    rows = [
        {"prior": prior, "nu": nu, "seed": seed, "measure": measure, "value": nu // 3 + 0.01 * (nu % 3)}
        for prior in ("a", "b")
        for nu in (0, 1, 3, 4)
        for seed in range(2)
        for measure in ("x", "y")
    ]
    figure = figures.tradeoff(rows, "x", "y", along="nu", by="prior")
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    assert len(boxes) == 8
    assert not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k])


def test_a_group_without_the_sweep_is_a_point_without_a_label():
    alone = [{"prior": "Gaussian", "seed": s, "measure": m, "value": 1.0} for s in range(2) for m in ("x", "y")]
    rows = [*alone, *({**row, "prior": "Student-t", "nu": 9.0} for row in alone)]
    axes = figures.tradeoff(rows, "x", "y", along="nu", by="prior").axes[0]
    assert [text.get_text() for text in axes.texts] == ["9"]
    with pytest.raises(UntwineError, match="nothing to draw"):
        figures.tradeoff(rows, "a", "b", along="nu")


def test_posteriors_have_a_curve_each_or_one_for_all():
    densities = latent_densities([[1.0], [-1.0], [0.0]], [[0.1], [0.2], [1e-6]], prior=lambda z: 0 * z + 0.1)
    figure = figures.overlap([densities, densities], ["apart", "together"], apart=[True, False])
    apart, together = figure.axes
    assert len(apart.lines) == 3 and all(np.max(line.get_ydata()) == pytest.approx(1) for line in apart.lines)
    assert np.asarray(together.lines[0].get_ydata()) == pytest.approx(densities.aggregate)
    assert [text.get_text() for text in together.get_legend().get_texts()] == ["q(z)", "p(z)"]
    figures.save(figure, io.BytesIO())
    for wrong in ({"titles": ["one"]}, {"apart": [True]}):
        with pytest.raises(UntwineError, match="2"):
            figures.overlap([densities, densities], **wrong)
