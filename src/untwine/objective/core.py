"""The one idea: objective = likelihood + prior + posterior + weighted penalties (+ pairing).

`Objective` is the sum, `Penalty` a weighted term of it. `w * penalty` multiplies the weight (w is a number, a
schedule, or one number for each member), `p + q` adds two penalties. Every value is in nats, summed over
dimensions, averaged over the batch; a positive weight discourages.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any, ParamSpec

import torch
from jaxtyping import Float
from torch import Tensor

from untwine.errors import UntwineError, refuse_unknown, unknown
from untwine.model.given import Prior
from untwine.model.info import Info
from untwine.model.likelihoods import Likelihood
from untwine.model.posteriors import Posterior
from untwine.objective.schedules import Constant, Number, Schedule, product
from untwine.objective.terms import Needs, Pairing, Pass, Term
from untwine.parts import Part, is_part, part, text_name

P = ParamSpec("P")


@part(named=False)
class Penalty(Part):
    """A term with its weight; a penalty that is `watched` is only logged."""

    term: Term
    weight: Schedule = Constant(1.0)
    watched: bool = False

    kind = Term.kind
    expected = "a penalty such as 4.0 * penalties.kl"
    registry = Term.registry
    __array_ufunc__ = None  # an array times a penalty is one penalty, with a weight for each member

    @classmethod
    def read(cls, text: str, kind: str | None = None) -> Penalty:
        """The penalty that a text names: `mmd(kernel=rbf)`."""
        value = super().read(text, kind)
        return value if isinstance(value, Penalty) else Penalty(value)

    @classmethod
    def from_argument(cls, value: Any) -> Any:
        """A penalty from its text or from a term, whose weight is then 1."""
        return Penalty(value) if isinstance(value, Term) else super().from_argument(value)

    def __mul__(self, weight: Number) -> Penalty:
        return Penalty(self.term, product(weight, self.weight), self.watched)

    __rmul__ = __mul__

    def __add__(self, other: Penalty) -> Penalty:
        if self.watched or other.watched:
            raise UntwineError("a penalty that is only watched cannot be part of a sum: give it a name of its own")
        summands = self.term.penalties if isinstance(self.term, Sum) and self.weight == Constant(1.0) else (self,)
        return Penalty(Sum((*summands, other)))

    def watch(self) -> Penalty:
        """The same penalty, logged but without effect on training."""
        return Penalty(self.term, self.weight, watched=True)


def penalty(term: Callable[P, Term]) -> Callable[P, Penalty]:
    """A function that takes the arguments of a class of terms, and returns its term as a penalty of weight 1.

    >>> from untwine.objective.aggregate import MMD
    >>> penalty(MMD)(kernel="rbf").term.kernel
    'rbf'
    """

    @functools.wraps(term, updated=())
    def make(*args: P.args, **kwargs: P.kwargs) -> Penalty:
        return Penalty(term(*args, **kwargs))

    make.__name__ = text_name(term)  # type: ignore[arg-type]
    return make


@part(named=False)
class Sum(Term):
    """Several penalties under one name."""

    penalties: tuple[Penalty, ...]

    def needs(self, info: Info) -> Needs:
        if any(penalty.term.needs(info).every > 1 for penalty in self.penalties):
            raise UntwineError(
                "a penalty that is not computed at every step cannot be part of a sum: give it a name of its own"
            )
        return gather({str(i): p for i, p in enumerate(self.penalties)}, info)

    def value(self, passed: Pass) -> Float[Tensor, ""]:
        total = torch.zeros((), device=passed.z.device)
        for index, penalty in enumerate(self.penalties):
            # Inside a pass weights are numbers or tensors: the trainer evaluated the schedules.
            total = total + penalty.weight * penalty.term.value(passed.only(str(index)))
        return total

    def adversary_loss(self, passed: Pass) -> Float[Tensor, ""] | None:
        losses = [p.term.adversary_loss(passed.only(str(i))) for i, p in enumerate(self.penalties)]
        present = [loss for loss in losses if loss is not None]
        return torch.stack(present).sum() if present else None


def gather(penalties: Mapping[str, Penalty], info: Info) -> Needs:
    """All that several penalties need together; noise and adversaries by `penalty/name`."""
    needs = {name: penalty.term.needs(info) for name, penalty in penalties.items()}

    def merged(field: str) -> dict[str, Any]:
        return {f"{name}/{key}": value for name, need in needs.items() for key, value in getattr(need, field).items()}

    def needed(field: str) -> bool:
        return any(getattr(need, field) for need in needs.values())

    examples = max((need.examples for need in needs.values()), default=1)
    # What is only watched has no gradient, so that there is nothing to hold fixed.
    fixed = max((needs[name].fixed for name, penalty in penalties.items() if not penalty.watched), default=False)
    flags = needed("jacobian"), needed("prior"), needed("second")
    return Needs(merged("noise"), *flags, merged("adversaries"), examples, fixed, needed("differences"))


def is_leaf(value: Any) -> bool:
    """Schedules and floats: what may differ between the members of a pack and from step to step."""
    return isinstance(value, Schedule | float | Tensor)


@part(named=False)
class Objective(Part):
    """What a method minimises. Lower is better.

    Args:
        likelihood: p(x|z); its loss is the reconstruction term.
        posterior: q(z|x).
        prior: p(z); a torch distribution over the latents becomes `priors.given` of it.
        penalties: Weighted terms by the name that they have in the log.
        pairing: Weak supervision by pairs of examples; None trains on single examples.

    >>> from untwine.model import likelihoods, posteriors, priors
    >>> from untwine.objective.divergence import kl
    >>> vae = Objective(likelihoods.bernoulli, posteriors.diagonal_normal, priors.standard_normal, {"kl": 1.0 * kl})
    >>> list(vae.penalties)
    ['kl']
    """

    likelihood: Likelihood
    posterior: Posterior
    prior: Prior | Any
    penalties: Mapping[str, Penalty] = field(default_factory=dict)
    pairing: Pairing | None = None

    def __post_init__(self) -> None:
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
        """All that the objective needs; noise and adversaries of its penalties by `penalty/name`."""
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
        objective = dataclasses.replace(self, **parts)
        if hasattr(self, "published"):  # the settings of a run do not depend on the parts
            object.__setattr__(objective, "published", self.published)  # type: ignore[attr-defined]
        return objective

    def with_penalties(self, **penalties: Penalty) -> Objective:
        """The same objective with further penalties, by the names that they have in the log.

        >>> import untwine as uw
        >>> list(uw.methods.vae().with_penalties(jacobian=0.1 * uw.penalties.jacobian()).penalties)
        ['kl', 'jacobian']
        """
        return self + penalties

    def __add__(self, penalties: Mapping[str, Penalty]) -> Objective:
        """The same objective with further penalties: `objective + {"jacobian": 0.1 * jacobian()}`."""
        if not isinstance(penalties, Mapping):
            return NotImplemented
        taken = sorted(penalties.keys() & self.penalties.keys())
        if taken:
            raise UntwineError(
                f"the objective has penalties {taken} already: give others a new name, "
                "or exchange all of them with replace(penalties=...)"
            )
        return self.replace(penalties={**self.penalties, **penalties})

    def watching(self, penalties: Mapping[str, Penalty]) -> Objective:
        """The same objective with further terms in the log; a second estimate of a term is named `watched_NAME`."""
        present = self.penalties
        clash = [name for name, penalty in penalties.items() if name in present and present[name].term == penalty.term]
        if clash:
            raise UntwineError(f"the terms {sorted(clash)} are in the log already")
        watched = {
            f"watched_{name}" if name in present else name: penalty.watch() for name, penalty in penalties.items()
        }
        return self.replace(penalties={**present, **watched})
