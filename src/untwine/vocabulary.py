"""What methods are made of, imported when it is first used: methods are listed without importing torch.

A method writes `uw.Objective(...)` as a user does, but imports these names from here: the root package imports the
methods, and so methods cannot import the root package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from untwine.namespace import directory, lookup

HOMES = {
    "Likelihood": "untwine.model.likelihoods:Likelihood",
    "Objective": "untwine.objective.core:Objective",
    "Pairing": "untwine.objective.terms:Pairing",
    "Penalty": "untwine.objective.core:Penalty",
    "Posterior": "untwine.model.posteriors:Posterior",
    "Prior": "untwine.model.priors:Prior",
    "constant": "untwine.objective.schedules:constant",
    "likelihoods": "untwine.model.likelihoods",
    "pairings": "untwine.objective.pairing",
    "penalties": "untwine.objective.penalties",
    "posteriors": "untwine.model.posteriors",
    "priors": "untwine.model.priors",
    "ramp": "untwine.objective.schedules:ramp",
}

# Type checkers cannot follow the table.
if TYPE_CHECKING:
    from untwine.model import likelihoods as likelihoods
    from untwine.model import posteriors as posteriors
    from untwine.model import priors as priors
    from untwine.model.likelihoods import Likelihood as Likelihood
    from untwine.model.posteriors import Posterior as Posterior
    from untwine.model.priors import Prior as Prior
    from untwine.objective import pairing as _pairing
    from untwine.objective import penalties as penalties
    from untwine.objective.core import Objective as Objective
    from untwine.objective.core import Penalty as Penalty
    from untwine.objective.schedules import constant as constant
    from untwine.objective.schedules import ramp as ramp
    from untwine.objective.terms import Pairing as Pairing

    pairings = _pairing
else:
    __dir__ = directory(HOMES)
    __getattr__ = lookup(HOMES, globals())
