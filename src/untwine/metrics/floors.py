"""The floors of metrics: what noise, collapsed models and untrained networks score on three_dots.

The numbers are stored in `floors.json`, which `untwine bench floors --out src/untwine/metrics/floors.json` makes.
"""

from __future__ import annotations

import functools
import json
from importlib import resources
from typing import Any

KINDS = {  # of codes, as pages call them
    "noise": "noise",
    "collapsed": "a collapsed model",
    "untrained": "an untrained network",
}
ABOUT = "three_dots, ten latents, mean of three seeds; local forms have a radius of 0.1"


def floors(metric: str) -> dict[str, dict[str, float | None]]:
    """The scores of noise, collapsed and untrained models by the name of the score: the metric, its parts, local forms.

    A metric that was not measured, such as one of your own, has none.

    >>> sorted(floors("mig")), floors("mine")
    (['local_mig', 'mig'], {})
    """
    rows = [row for row in _rows() if row["metric"] in (metric, f"local_{metric}")]
    return {_name(row): {kind: row[kind] for kind in KINDS} for row in rows}


@functools.cache
def _rows() -> list[dict[str, Any]]:
    stored = resources.files("untwine.metrics").joinpath("floors.json").read_text()
    return json.loads(stored)["rows"]


def _name(row: dict[str, Any]) -> str:
    return row["metric"] if row["part"] == "value" else f"{row['metric']} {row['part']}"
