"""Datasets and their factors: the contract at this level, `families/` of datasets, and the `files/` behind them."""

from untwine.data.contract import Dataset
from untwine.data.factors import FactorSpace
from untwine.data.families import registered as _registered  # noqa: F401 - this import registers every dataset
from untwine.data.specs import build, dataset, datasets, full_spec

__all__ = ["Dataset", "FactorSpace", "build", "dataset", "datasets", "full_spec"]
