"""Datasets and their factors: the contract here, `families/` of datasets, and `files/` that they are read from."""

from untwine.data.contract import Dataset
from untwine.data.factors import FactorSpace
from untwine.data.families import FAMILIES  # noqa: F401 - importing them registers every dataset
from untwine.data.specs import build, complete, dataset, datasets

__all__ = ["Dataset", "FactorSpace", "build", "complete", "dataset", "datasets"]
