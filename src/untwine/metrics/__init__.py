"""Every metric by its name: pure functions of arrays, `untwine.metrics.mig(codes, factors) -> Score`.

Codes are `[n, d]`, or `[members, n, d]` for the models of a pack; factors are `[n, k]`. `local(metric)` makes any of
them local, `sampled(metric)` samples what it needs from a dataset. Importing this does not import torch.

A new metric is a function in a file of `families/`, its name in the imports and in `__all__` below, and a row of the
table in `tests/contracts/test_metrics.py`.

>>> get("mig") is mig
True
"""

from __future__ import annotations

from untwine.metrics import designs, statistics
from untwine.metrics.encoder import Encoder
from untwine.metrics.families.alignment import active_latents, delta_kl, dto
from untwine.metrics.families.dci import dci
from untwine.metrics.families.decomposition import decomposition, estimator_bias
from untwine.metrics.families.explicitness import explicitness
from untwine.metrics.families.infomec import infomec
from untwine.metrics.families.information import mig, modularity
from untwine.metrics.families.interventions import beta_vae_score, factor_vae_score
from untwine.metrics.families.irs import irs
from untwine.metrics.families.knn import knn_score
from untwine.metrics.families.sap import sap
from untwine.metrics.families.sparsity import hoyer
from untwine.metrics.families.udr import udr
from untwine.metrics.local import local, sampled
from untwine.metrics.score import Metric, Score, metric
from untwine.metrics.score import metrics as _registry

__all__ = [
    "Encoder",
    "Metric",
    "Score",
    "active_latents",
    "beta_vae_score",
    "dci",
    "decomposition",
    "delta_kl",
    "designs",
    "dto",
    "estimator_bias",
    "explicitness",
    "factor_vae_score",
    "get",
    "hoyer",
    "infomec",
    "irs",
    "knn_score",
    "local",
    "metric",
    "mig",
    "modularity",
    "names",
    "sampled",
    "sap",
    "statistics",
    "udr",
]


def names() -> list[str]:
    """The names of all metrics, those of your own among them.

    >>> "mig" in names()
    True
    """
    return _registry.names()


def get(name: str) -> Metric[...]:
    """The metric of this name; the error for an unknown one has a suggestion."""
    metric = _registry[name]
    assert isinstance(metric, Metric)
    return metric


def __dir__() -> list[str]:
    return sorted(__all__)
