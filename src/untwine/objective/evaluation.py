"""Evaluates an objective on a batch: one pass of the model, and every term of the loss by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from untwine.errors import UntwineError
from untwine.model.parting import parted
from untwine.model.passes import trace
from untwine.model.posteriors import precise
from untwine.model.vae import VAE
from untwine.objective.core import Penalty, gather, is_leaf
from untwine.objective.schedules import schedule
from untwine.objective.terms import Needs, Pairing, Pass
from untwine.parts import leaves, rebuild


def evaluate(
    vae: VAE,
    penalties: Mapping[str, Penalty],
    x: Float[Tensor, "batch ..."],
    noise: Mapping[str, Tensor],
    data_size: int = 0,
    watch: bool = False,
    pairing: Pairing | None = None,
    second: Float[Tensor, "batch2 ..."] | None = None,
    needs: Needs | None = None,
    compiled: bool = False,
    counts: Mapping[str, int] | None = None,
) -> dict[str, Tensor]:
    """Every term of an objective on a batch, by name; `loss` is the weighted sum that is minimised.

    With `counts`, `loss/descended` is what is minimised at this step, and `loss` has each computed penalty once.
    What an adversary minimises is `NAME_adversary`; the gradients of it and of `loss` have nothing in common.

    Args:
        vae: The model.
        penalties: The penalties by name, with numbers or scalar tensors as their weights (see `at_step`).
        x: A batch of examples; with a pairing, examples and then their partners.
        noise: Standard normals `[batch, latent]` as `posterior`, and what else the penalties need.
        data_size: The number of training examples.
        watch: Whether penalties that are only watched are computed too.
        pairing: How posteriors of paired examples are merged.
        second: Another, independent batch, for penalties that need one.
        needs: What the penalties need, where that is known already.
        compiled: Whether this becomes part of a compiled step, which computes equal passes once.
        counts: How often penalties count at this step, where that is not once; with 0 one is left out (`Needs.every`).
    """
    q = vae.posterior(x)
    if pairing is not None:
        q = pairing.merge(q)
    z = q.sample(noise["posterior"])
    needs = gather(penalties, vae.info) if needs is None else needs
    share = needs.fixed
    # A pass of its own through a share of the examples costs less than parting the pass of all: without a compiler,
    # and with one where the pass has to keep more (for differences; measured on an H200).
    if share == 1 or (share and compiled and not needs.differences):
        decoded, fixed = parted(vae.decoder, z, needs.differences)
    else:
        decoded, fixed = trace(vae.decoder, z, needs.differences), None
    second_z = None
    if second is not None:
        with torch.no_grad():
            second_q = vae.posterior(second) if pairing is None else pairing.merge(vae.posterior(second))
            second_z = second_q.sample(noise["second"])
    passed = Pass(
        x=x,
        q=q,
        prior=vae.prior(),
        z=z,
        trace=decoded.then(vae.likelihood.mean),
        fixed=None if fixed is None else fixed.then(vae.likelihood.mean),
        vae=vae,
        noise=noise,
        data_size=data_size,
        adversaries=dict(vae.adversaries.items()),
        prior_sample=vae.prior.sample(noise["prior"]) if "prior" in noise else None,
        second=second_z,
    )
    terms = {"reconstruction": vae.likelihood.loss(precise(decoded.output), x).mean()}
    loss, against = terms["reconstruction"], {}
    extra = torch.zeros_like(loss)  # of penalties that count several times
    for name, penalty in penalties.items():
        its_pass = passed.only(name)
        count = 1 if counts is None else counts.get(name, 1)
        if count == 0:
            terms[name] = torch.zeros_like(loss)
        elif not penalty.watched:
            terms[name] = _scalar(name, penalty.term.value(its_pass))
            loss = loss + penalty.weight * terms[name]
            extra = extra + (count - 1) * penalty.weight * terms[name]
            rival = penalty.term.adversary_loss(its_pass)
            if rival is not None:
                against[f"{name}_adversary"] = rival
            elif its_pass.adversaries:
                raise UntwineError(f"penalty {name!r} has an adversary but no adversary_loss")
        elif watch:
            with torch.no_grad():  # so that there is nothing to hold fixed
                terms[name] = _scalar(name, penalty.term.value(replace(its_pass, fixed=passed.trace)))
    return {"loss": loss, **terms, **against} | ({} if counts is None else {"loss/descended": loss + extra})


def _scalar(name: str, value: Any) -> Tensor:
    if not isinstance(value, Tensor) or value.ndim:
        actual = f"one of shape {list(value.shape)}" if isinstance(value, Tensor) else repr(value)
        raise UntwineError(
            f"the value of penalty {name!r} must be a scalar tensor, the mean over the batch, not {actual}"
        )
    return value


def at_step(penalties: Mapping[str, Penalty], step: int) -> dict[str, Penalty]:
    """Penalties with every schedule evaluated at a step, as `evaluate` takes them."""
    values = [float(schedule(leaf)(step)) for leaf in leaves(penalties, is_leaf)]
    return rebuild(penalties, is_leaf, iter(values))
