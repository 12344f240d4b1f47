"""michlo2023, Table A2: the constants by which images are standardised, recomputed for every dataset that is here."""

from __future__ import annotations

import numpy as np
import pytest

import untwine.datasets
from untwine.data.catalogue import describe
from untwine.data.files import places
from untwine.data.specs import datasets, public_of
from untwine.streams import np_uniform

# Mean and standard deviation of each channel, as printed.
PUBLISHED = {
    "cars3d": (
        (0.897667614997663, 0.889165802006751, 0.885147515814868),
        (0.225031955315030, 0.239946127898126, 0.247921063196844),
    ),
    "shapes3d": (
        (0.502584966788819, 0.578759756608967, 0.603449973185958),
        (0.294081404355556, 0.344397908751721, 0.366168598152475),
    ),
    "smallnorb": ((0.752091840108860,), (0.095638790168273,)),
    "dsprites": ((0.042494423521890,), (0.195166458806261,)),
    "xy_squares": ((0.015625,) * 3, (0.124034734589209,) * 3),
}
SAMPLE = 20_000


def some(length: int) -> np.ndarray:
    """All examples, or a sample of them."""
    return np.arange(length) if length <= SAMPLE else (np_uniform(7, "table a2", SAMPLE) * length).astype(np.int64)


def check(name: str, tolerance: float, **arguments: bool) -> None:
    data = datasets[name](**arguments)
    found = data.standardisation(some(len(data)))
    assert np.allclose(found, PUBLISHED[name], rtol=tolerance, atol=0)


def test_xy_squares_to_all_digits():
    check("xy_squares", 1e-12)


@pytest.mark.parametrize("name", [name for name in PUBLISHED if public_of(untwine.datasets.get(name)) is not None])
def test_real_files(name: str):
    """The tolerance covers sampling and another bilinear filter."""
    if describe(name)["state"] != "present":
        pytest.skip(f"the files of {name} are not in {places.folder()}")
    check(name, 0.01)


@pytest.mark.parametrize(("name", "tolerance"), [("dsprites", 0.05), ("shapes3d", 0.1)])
def test_drawn_ones(name: str, tolerance: float, drawn_data: None):
    check(name, tolerance, rendered=True)
