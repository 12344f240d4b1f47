"""Datasets and their factors. A new family of datasets is one file here, imported below so that it registers.

`untwine.data.dataset` is the decorator, not the module of that name; import from the module by its names.
"""

from untwine.data import (  # noqa: F401 - they register themselves
    cars3d,
    dots,
    dsprites,
    idx,
    images,
    mpi3d,
    patches,
    pinwheel,
    shapes3d,
    smallnorb,
    squares,
    synthetic,
    tiled,
)
from untwine.data.dataset import Dataset
from untwine.data.factors import FactorSpace
from untwine.data.specs import build, complete, dataset, datasets

__all__ = ["Dataset", "FactorSpace", "build", "complete", "dataset", "datasets"]
