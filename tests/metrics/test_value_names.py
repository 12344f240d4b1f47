"""Details of scores call factor values as the data does."""

from __future__ import annotations

import numpy as np

import untwine as uw
from untwine.metrics.local import local, sampled

VALUES = {"toy": ["car", "duck"], "angle": list(range(0, 360, 10))}
ROWS = [(toy, angle) for toy in VALUES["toy"] for angle in VALUES["angle"]]


def test_windows_and_scores_name_values_as_the_data_does():
    table = {name: [row[i] for row in ROWS] for i, name in enumerate(VALUES)}
    data = uw.datasets.images(np.random.default_rng(0).normal(size=(72, 2)), factors=table)
    score = local("mig", radius=0.2, samples=3)(lambda x: x, data)
    for low, sizes, named in zip(*(score.details[key] for key in ("low", "sizes", "ranges")), strict=True):
        ends = zip(low, [a + b - 1 for a, b in zip(low, sizes, strict=True)], strict=True)
        assert named == {
            name: [values[first % len(values)], values[last % len(values)]]
            for (name, values), (first, last) in zip(VALUES.items(), ends, strict=True)
        }
    assert score.details["factor_values"] == sampled("mig")(lambda x: x, data).details["factor_values"] == VALUES


def test_numbers_need_no_names():
    data = uw.datasets.synthetic_linear(samples=50)
    score = local("mig", radius=0.2, samples=3, points=100)(lambda x: x, data)
    assert not {"ranges", "factor_values"} & score.details.keys()
