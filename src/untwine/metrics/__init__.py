"""Every metric by its name: pure functions of arrays, `untwine.metrics.mig(codes, factors) -> Score`.

Codes are `[n, d]`, or `[members, n, d]` for the models of a pack; factors are `[n, k]`. `local(metric)` makes any of
them local, `sampled(metric)` samples what it needs from a dataset. No torch is needed to import this.

>>> get("mig") is mig
True
"""

from __future__ import annotations

from untwine.metrics import designs, statistics
from untwine.metrics.alignment import active_latents, delta_kl, dto
from untwine.metrics.dci import dci
from untwine.metrics.decomposition import decomposition, estimator_bias
from untwine.metrics.encoder import Encoder
from untwine.metrics.infomec import infomec
from untwine.metrics.information import mig, modularity
from untwine.metrics.interventions import beta_vae_score, factor_vae_score
from untwine.metrics.irs import irs
from untwine.metrics.local import local, sampled
from untwine.metrics.prediction import explicitness, knn_score, sap
from untwine.metrics.score import Metric, Score, metric
from untwine.metrics.score import metrics as _registry
from untwine.metrics.sparsity import hoyer
from untwine.metrics.udr import udr

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
    """The names of all metrics.

    >>> "mig" in names()
    True
    """
    return _registry.names()


def get(name: str) -> Metric[...]:
    """The metric of this name; a misspelt one is answered with a suggestion."""
    found = _registry[name]
    assert isinstance(found, Metric)
    return found
