"""The one idea: objective = likelihood + prior + posterior + weighted penalties (+ pairing).

`Objective` is the sentence, `Penalty` its adjectives. `w * penalty` weighs one (w is a number, a schedule,
or one number for each member), `p + q` adds two. Every value is in nats, summed over dimensions, averaged
over the batch; a positive weight discourages.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch import distributions as D

from untwine.errors import UntwineError, refuse_unknown, unknown
from untwine.model.given import Prior, given
from untwine.model.info import Info
from untwine.model.likelihoods import Likelihood
from untwine.model.posteriors import Posterior
from untwine.objective.schedules import Constant, Number, Schedule, product
from untwine.objective.terms import Needs, Pairing, Pass, Term
from untwine.parts import is_part, part


@part
class Penalty:
    """A term with its weight; `watched` ones are only logged."""

    term: Term
    weight: Schedule = Constant(1.0)
    watched: bool = False

    def __mul__(self, weight: Number) -> Penalty:
        return Penalty(self.term, product(weight, self.weight), self.watched)

    __rmul__ = __mul__

    def __add__(self, other: Penalty) -> Penalty:
        if self.watched or other.watched:
            raise UntwineError("a penalty that is only watched cannot be part of a sum: give it a name of its own")
        mine = self.term.penalties if isinstance(self.term, Sum) and self.weight == Constant(1.0) else (self,)
        return Penalty(Sum((*mine, other)))

    def watch(self) -> Penalty:
        """The same penalty, logged but without effect on training."""
        return Penalty(self.term, self.weight, watched=True)


@part
class Sum(Term):
    """Several penalties under one name."""

    penalties: tuple[Penalty, ...]

    def needs(self, info: Info) -> Needs:
        return gather({str(i): p for i, p in enumerate(self.penalties)}, info)

    def value(self, passed: Pass) -> Float[Tensor, ""]:
        total = torch.zeros((), device=passed.z.device)
        for index, penalty in enumerate(self.penalties):
            # Inside a pass weights are numbers or tensors: the trainer evaluated the schedules.
            total = total + penalty.weight * penalty.term.value(passed.only(str(index)))
        return total

    def adversary_loss(self, passed: Pass) -> Float[Tensor, ""] | None:
        losses = [p.term.adversary_loss(passed.only(str(i))) for i, p in enumerate(self.penalties)]
        found = [loss for loss in losses if loss is not None]
        return torch.stack(found).sum() if found else None


def gather(penalties: Mapping[str, Penalty], info: Info) -> Needs:
    """All that several penalties need together; noise and adversaries by `penalty/name`."""
    needs = {name: penalty.term.needs(info) for name, penalty in penalties.items()}

    def under(field: str) -> dict[str, Any]:
        return {f"{name}/{key}": v for name, one in needs.items() for key, v in getattr(one, field).items()}

    def some(field: str) -> bool:
        return any(getattr(one, field) for one in needs.values())

    examples = max((one.examples for one in needs.values()), default=1)
    # What is only watched has no gradient, so that there is nothing to hold fixed.
    fixed = max((needs[name].fixed for name, penalty in penalties.items() if not penalty.watched), default=False)
    return Needs(under("noise"), some("jacobian"), some("prior"), some("second"), under("adversaries"), examples, fixed)


def is_leaf(value: Any) -> bool:
    """Schedules and floats: what may differ between the members of a pack and from step to step."""
    return isinstance(value, Schedule | float | Tensor)


@part
class Objective:
    """A method as a sentence. Lower is better.

    >>> from untwine.model import likelihoods, posteriors, priors
    >>> from untwine.objective.divergence import kl
    >>> vae = Objective(likelihoods.bernoulli, posteriors.diagonal_normal, priors.standard_normal, {"kl": 1.0 * kl})
    >>> list(vae.penalties)
    ['kl']
    """

    likelihood: Likelihood
    posterior: Posterior
    prior: Prior | Any  # a torch distribution over the latents becomes `priors.given` of it
    penalties: Mapping[str, Penalty] = field(default_factory=dict)
    pairing: Pairing | None = None

    def __post_init__(self) -> None:
        if isinstance(self.prior, D.Distribution):
            object.__setattr__(self, "prior", given(self.prior))
        for name, kind in (("likelihood", Likelihood), ("posterior", Posterior), ("prior", Prior)):
            value = getattr(self, name)
            if not (isinstance(value, kind) and is_part(value)):
                raise UntwineError(f"an objective's {name} must be a {name} such as those in untwine, not {value!r}")
        if self.pairing is not None and not (isinstance(self.pairing, Pairing) and is_part(self.pairing)):
            raise UntwineError(
                f"an objective's pairing must be one such as untwine.pairings.ada(), not {self.pairing!r}"
            )
        for name, penalty in self.penalties.items():
            if not isinstance(penalty, Penalty):
                raise UntwineError(f"penalty {name!r} must be a Penalty such as 4.0 * penalties.kl, not {penalty!r}")
            if name in ("loss", "reconstruction"):
                raise UntwineError(f"a penalty cannot be called {name!r}: the log has a term of that name")
            if "/" in name or "." in name or name.endswith("_adversary"):
                raise UntwineError(f"a penalty cannot be called {name!r}: /, . and _adversary mean something in names")
            if name in ("part", "each"):
                raise UntwineError(f"a penalty cannot be called {name!r}: the word has a meaning in a spec")

    def needs(self, info: Info) -> Needs:
        """All that the penalties need; noise and adversaries by `penalty/name`."""
        needs = gather(self.penalties, info)
        noise = dict(needs.noise)
        for key in needs.adversaries:
            name = key.partition("/")[0]
            if self.penalties[name].watched:
                raise UntwineError(f"{name!r} cannot be only watched: it has an adversary, which must train")
        for key, (kind, _) in noise.items():
            if kind not in ("uniform", "normal"):
                raise unknown(f"kind of noise of {key!r}:", kind, ("uniform", "normal"))
        if needs.prior:
            noise["prior"] = ("uniform", (self.prior.build(info).uniforms,))
        if needs.second:
            noise["second"] = ("normal", (info.latents,))
        return replace(needs, noise=noise)

    def replace(self, **parts: Any) -> Objective:
        """The same objective with other parts: `vae().replace(prior=uw.priors.laplace())`."""
        refuse_unknown("part of an objective:", parts, self.__dataclass_fields__)  # type: ignore[attr-defined]
        made = dataclasses.replace(self, **parts)
        if hasattr(self, "published"):  # the settings of a run do not depend on the parts
            object.__setattr__(made, "published", self.published)  # type: ignore[attr-defined]
        return made

    def watching(self, names: Mapping[str, Penalty]) -> Objective:
        """The same objective with further terms in the log; another estimate of one that is there is `watched_NAME`."""
        mine = self.penalties
        clash = [name for name, penalty in names.items() if name in mine and mine[name].term == penalty.term]
        if clash:
            raise UntwineError(f"the terms {sorted(clash)} are in the log already")
        more = {f"watched_{name}" if name in mine else name: penalty.watch() for name, penalty in names.items()}
        return self.replace(penalties={**mine, **more})
