"""Untwine learns, measures and explains disentangled representations with variational autoencoders.

    import untwine as uw
    run = uw.Run(method=uw.methods.jl1_vae(beta=4.0, gamma=0.1), dataset=uw.datasets.three_dots(), seeds=range(10))
    ensemble = uw.fit(run, out="runs/jl1")

Names are imported when they are first used, so that `import untwine` is quick and pulls no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from untwine._version import __version__
from untwine.errors import UntwineError

if TYPE_CHECKING:
    from untwine import analysis, datasets, methods, metrics
    from untwine.data import Dataset, FactorSpace, dataset
    from untwine.methods.registry import method
    from untwine.metrics import metric
    from untwine.model import likelihoods, networks, posteriors, priors
    from untwine.model.info import Info
    from untwine.model.likelihoods import Likelihood, LikelihoodModule
    from untwine.model.networks import network
    from untwine.model.posteriors import Posterior
    from untwine.model.priors import Prior, PriorModule
    from untwine.model.vae import VAE
    from untwine.objective import pairing as pairings
    from untwine.objective import penalties, schedules
    from untwine.objective.core import Objective, Penalty
    from untwine.objective.schedules import constant, cyclic, join, ramp
    from untwine.objective.terms import Adversary, Needs, Pairing, Pass, Term
    from untwine.parts import each, part
    from untwine.report import figures
    from untwine.scoring.evaluation import evaluate
    from untwine.scoring.scores import Scores
    from untwine.train.ensemble import Ensemble, load
    from untwine.train.loop import fit, resume
    from untwine.train.run import Run

_MODULES = {
    "analysis": "untwine.analysis",
    "datasets": "untwine.datasets",
    "figures": "untwine.report.figures",
    "methods": "untwine.methods",
    "metrics": "untwine.metrics",
    "likelihoods": "untwine.model.likelihoods",
    "networks": "untwine.model.networks",
    "posteriors": "untwine.model.posteriors",
    "priors": "untwine.model.priors",
    "pairings": "untwine.objective.pairing",
    "penalties": "untwine.objective.penalties",
    "schedules": "untwine.objective.schedules",
}
_NAMES = {
    "Dataset": "untwine.data",
    "FactorSpace": "untwine.data",
    "dataset": "untwine.data",
    "method": "untwine.methods.registry",
    "metric": "untwine.metrics",
    "evaluate": "untwine.scoring.evaluation",
    "Scores": "untwine.scoring.scores",
    "Info": "untwine.model.info",
    **dict.fromkeys(("Likelihood", "LikelihoodModule"), "untwine.model.likelihoods"),
    "Posterior": "untwine.model.posteriors",
    **dict.fromkeys(("Prior", "PriorModule"), "untwine.model.priors"),
    "network": "untwine.model.networks",
    "VAE": "untwine.model.vae",
    **dict.fromkeys(("Objective", "Penalty"), "untwine.objective.core"),
    **dict.fromkeys(("Adversary", "Needs", "Pairing", "Pass", "Term"), "untwine.objective.terms"),
    **dict.fromkeys(("constant", "cyclic", "join", "ramp"), "untwine.objective.schedules"),
    **dict.fromkeys(("each", "part"), "untwine.parts"),
    **dict.fromkeys(("Ensemble", "load"), "untwine.train.ensemble"),
    **dict.fromkeys(("fit", "resume"), "untwine.train.loop"),
    "Run": "untwine.train.run",
}

__all__ = [
    "VAE",
    "Adversary",
    "Dataset",
    "Ensemble",
    "FactorSpace",
    "Info",
    "Likelihood",
    "LikelihoodModule",
    "Needs",
    "Objective",
    "Pairing",
    "Pass",
    "Penalty",
    "Posterior",
    "Prior",
    "PriorModule",
    "Run",
    "Scores",
    "Term",
    "UntwineError",
    "__version__",
    "analysis",
    "constant",
    "cyclic",
    "dataset",
    "datasets",
    "each",
    "evaluate",
    "figures",
    "fit",
    "join",
    "likelihoods",
    "load",
    "method",
    "methods",
    "metric",
    "metrics",
    "network",
    "networks",
    "pairings",
    "part",
    "penalties",
    "posteriors",
    "priors",
    "ramp",
    "resume",
    "schedules",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value: Any = importlib.import_module(_MODULES[name])
    elif name in _NAMES:
        value = getattr(importlib.import_module(_NAMES[name]), name)
    else:
        raise AttributeError(f"module 'untwine' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
