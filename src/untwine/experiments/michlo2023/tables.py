"""The numbers of Tables A1 and A2."""

from __future__ import annotations

from collections.abc import Mapping

from untwine.experiments.engine.rows import Row
from untwine.experiments.michlo2023.models import Data

# Table A1: mean and deviation of perceived distances, by our names of factors, in the paper's order.
SAME = dict.fromkeys(("y_R", "y_G", "y_B", "x_R", "x_G", "x_B"), (0.0104, 0.0))
TABLE_A1: Mapping[Data, Mapping[str, tuple[float, float]]] = {
    "Cars3D": {
        "random": (0.0519, 0.0188),
        "azimuth": (0.0355, 0.0185),
        "object": (0.0349, 0.0176),
        "elevation": (0.0174, 0.0100),
    },
    "3D Shapes": {
        "random": (0.2432, 0.0918),
        "wall_hue": (0.1122, 0.0661),
        "floor_hue": (0.1086, 0.0623),
        "object_hue": (0.0416, 0.0292),
        "shape": (0.0207, 0.0161),
        "scale": (0.0182, 0.0153),
        "orientation": (0.0116, 0.0079),
    },
    "Small NORB": {
        "random": (0.0535, 0.0529),
        "lighting": (0.0531, 0.0563),
        "category": (0.0113, 0.0066),
        "azimuth": (0.0090, 0.0071),
        "instance": (0.0068, 0.0048),
        "elevation": (0.0034, 0.0030),
    },
    "dSprites": {
        "random": (0.0754, 0.0289),
        "y": (0.0584, 0.0378),
        "x": (0.0559, 0.0363),
        "scale": (0.0250, 0.0148),
        "shape": (0.0214, 0.0095),
        "orientation": (0.0172, 0.0106),
    },
    "XYSquares": {"random": (0.0308, 0.0022), **SAME},
}
PUBLISHED_A1: list[Row] = [
    {"dataset": name, "factor": factor, "measure": measure, "value": value}
    for name, factors in TABLE_A1.items()
    for factor, numbers in factors.items()
    for measure, value in zip(("mean distance", "deviation"), numbers, strict=True)
]

# Table A2: mean and deviation of each channel.
CHANNELS = {1: ("grey",), 3: ("red", "green", "blue")}
TABLE_A2: Mapping[Data, tuple[tuple[float, float], ...]] = {
    "Cars3D": (
        (0.897667614997663, 0.225031955315030),
        (0.889165802006751, 0.239946127898126),
        (0.885147515814868, 0.247921063196844),
    ),
    "3D Shapes": (
        (0.502584966788819, 0.294081404355556),
        (0.578759756608967, 0.344397908751721),
        (0.603449973185958, 0.366168598152475),
    ),
    "Small NORB": ((0.752091840108860, 0.095638790168273),),
    "dSprites": ((0.042494423521890, 0.195166458806261),),
    "XYSquares": ((0.015625, 0.124034734589209),) * 3,
}
PUBLISHED_A2: list[Row] = [
    {"dataset": name, "channel": channel, "measure": measure, "value": value}
    for name, numbers in TABLE_A2.items()
    for channel, both in zip(CHANNELS[len(numbers)], numbers, strict=True)
    for measure, value in zip(("pixel mean", "pixel deviation"), both, strict=True)
]
