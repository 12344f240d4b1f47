"""Untwine learns, measures and explains disentangled representations with variational autoencoders.

    import untwine as uw
    run = uw.Run(method=uw.methods.jl1_vae(beta=4.0, gamma=0.1), dataset=uw.datasets.three_dots(), seeds=range(10))
    ensemble = uw.fit(run, out="runs/jl1")

A name is imported when it is first used, so that `import untwine` is quick and does not import torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from untwine import vocabulary
from untwine._version import __version__ as __version__
from untwine.errors import UntwineError as UntwineError
from untwine.namespace import directory, lookup
from untwine.threads import wait_passively

wait_passively()

# Every public name that is imported on first use: "module:name", or a module.
_HOMES = {
    **vocabulary.HOMES,  # what methods are made of
    "Adversary": "untwine.objective.terms:Adversary",
    "Dataset": "untwine.data:Dataset",
    "Ensemble": "untwine.train.ensemble:Ensemble",
    "FactorSpace": "untwine.data:FactorSpace",
    "Info": "untwine.model.info:Info",
    "LikelihoodModule": "untwine.model.likelihoods:LikelihoodModule",
    "Needs": "untwine.objective.terms:Needs",
    "Pass": "untwine.objective.terms:Pass",
    "PriorModule": "untwine.model.priors:PriorModule",
    "Run": "untwine.train.run:Run",
    "Scores": "untwine.scores.scores:Scores",
    "Term": "untwine.objective.terms:Term",
    "VAE": "untwine.model.vae:VAE",
    "analysis": "untwine.analysis",
    "cyclic": "untwine.objective.schedules:cyclic",
    "dataset": "untwine.data:dataset",
    "datasets": "untwine.datasets",
    "each": "untwine.parts:each",
    "evaluate": "untwine.scoring.evaluation:evaluate",
    "export_onnx": "untwine.sharing.onnx_files:export_onnx",
    "figures": "untwine.report.figures",
    "fit": "untwine.train.loop:fit",
    "from_hub": "untwine.sharing.hub:from_hub",
    "join": "untwine.objective.schedules:join",
    "launch": "untwine.launch",
    "load": "untwine.train.loading:load",
    "method": "untwine.methods.registry:method",
    "methods": "untwine.methods",
    "metric": "untwine.metrics.score:metric",
    "metrics": "untwine.metrics",
    "network": "untwine.model.networks:network",
    "networks": "untwine.model.networks",
    "part": "untwine.parts:part",
    "push_to_hub": "untwine.sharing.hub:push_to_hub",
    "reproduce": "untwine.experiments.engine.running:reproduce",
    "resume": "untwine.train.loop:resume",
    "save_for_hub": "untwine.sharing.hub:save_for_hub",
    "schedules": "untwine.objective.schedules",
    "write_report": "untwine.report.page.writing:write_report",
}

# Type checkers cannot follow the table. To them, `X as X` makes a name public.
if TYPE_CHECKING:
    from untwine import analysis as analysis
    from untwine import datasets as datasets
    from untwine import launch as launch
    from untwine import methods as methods
    from untwine import metrics as metrics
    from untwine.data import Dataset as Dataset
    from untwine.data import FactorSpace as FactorSpace
    from untwine.data import dataset as dataset
    from untwine.experiments.engine.running import reproduce as reproduce
    from untwine.methods.registry import method as method
    from untwine.metrics.score import metric as metric
    from untwine.model import likelihoods as likelihoods
    from untwine.model import networks as networks
    from untwine.model import posteriors as posteriors
    from untwine.model import priors as priors
    from untwine.model.info import Info as Info
    from untwine.model.likelihoods import Likelihood as Likelihood
    from untwine.model.likelihoods import LikelihoodModule as LikelihoodModule
    from untwine.model.networks import network as network
    from untwine.model.posteriors import Posterior as Posterior
    from untwine.model.priors import Prior as Prior
    from untwine.model.priors import PriorModule as PriorModule
    from untwine.model.vae import VAE as VAE
    from untwine.objective import pairing as _pairing
    from untwine.objective import penalties as penalties
    from untwine.objective import schedules as schedules
    from untwine.objective.core import Objective as Objective
    from untwine.objective.core import Penalty as Penalty
    from untwine.objective.schedules import constant as constant
    from untwine.objective.schedules import cyclic as cyclic
    from untwine.objective.schedules import join as join
    from untwine.objective.schedules import ramp as ramp
    from untwine.objective.terms import Adversary as Adversary
    from untwine.objective.terms import Needs as Needs
    from untwine.objective.terms import Pairing as Pairing
    from untwine.objective.terms import Pass as Pass
    from untwine.objective.terms import Term as Term
    from untwine.parts import each as each
    from untwine.parts import part as part
    from untwine.report import figures as figures
    from untwine.report.page.writing import write_report as write_report
    from untwine.scores.scores import Scores as Scores
    from untwine.scoring.evaluation import evaluate as evaluate
    from untwine.sharing.hub import from_hub as from_hub
    from untwine.sharing.hub import push_to_hub as push_to_hub
    from untwine.sharing.hub import save_for_hub as save_for_hub
    from untwine.sharing.onnx_files import export_onnx as export_onnx
    from untwine.train.ensemble import Ensemble as Ensemble
    from untwine.train.loading import load as load
    from untwine.train.loop import fit as fit
    from untwine.train.loop import resume as resume
    from untwine.train.run import Run as Run

    pairings = _pairing
else:
    __all__ = sorted(["UntwineError", "__version__", *_HOMES])
    __dir__ = directory(__all__)
    __getattr__ = lookup(_HOMES, globals())
