"""Trained models of equal structure, which encode and decode all at once."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike
from torch import Tensor
from torch.distributions import Distribution

from untwine import streams
from untwine.arguments import Count, Whole, checked
from untwine.cards import card
from untwine.checks import dense, numbers
from untwine.data import Dataset
from untwine.differences import listed
from untwine.errors import UntwineError, brief, unknown, warn
from untwine.kernels import dispatch
from untwine.model.inputs import as_examples
from untwine.model.posteriors import Q
from untwine.model.vae import VAE
from untwine.room import refuse_larger
from untwine.train.devices import exact
from untwine.train.folders.record import Record
from untwine.train.joining import gathered, joined
from untwine.train.member import Member
from untwine.train.paths import obstacle
from untwine.train.remarks.describing import last_terms, title
from untwine.train.run import Run
from untwine.train.steps.stack import Stack, stacked
from untwine.train.steps.table import constants, scaled

if TYPE_CHECKING:
    from untwine.scores.scores import Scores

_SHOWN = 4  # names of members in a repr


class Ensemble:
    """Trained members. `encode` and `decode` have the members as their first dimension.

    Args:
        members: What was trained.
        models: The model of each member, with its weights.
        device: Where to compute.
    """

    def __init__(self, members: Sequence[Member], models: Sequence[VAE], device: torch.device):
        self.members, self.info, self.device = list(members), models[0].info, device
        self._stack = Stack([model.eval() for model in models], device)
        self._weights = stacked(models).copied(device)
        self._standard = constants(self.info.standard, device)
        self.kernels = not obstacle(device, self._stack.batching)  # whether encoders run as kernels, where these fit
        self.history: Sequence[dict[str, Any]] = []
        self.record: Record | None = None  # what the run's folder says
        self.entries: list[dict[str, Any]] = []  # scores that are in no folder, as scores.json would have them

    @property
    def path(self) -> Path | None:
        """The run's folder, where it has one."""
        return None if self.record is None else self.record.path

    @functools.cached_property
    def run(self) -> Run:
        """The run that was trained, with all its members: also those that diverged or are not finished."""
        if self.record is not None:
            return self.record.run()
        runs = joined(self.members)
        if len(runs) > 1:
            raise UntwineError("these members are of several runs: `members` has the spec of each")
        return runs[0]

    def dataset(self) -> Dataset:
        """The dataset that the members were trained on, with a warning where its files have changed since."""
        with contextlib.nullcontext() if self.record is None else self.record.named():
            data = self.run.make_dataset()
        before = None if self.record is None else self.record.content.get("content")
        if before is not None and data.content != before:
            warn(f"the pictures of {data!r} are not those that {self.path} was trained on: they have changed since")
        return data

    @property
    def scores(self) -> Scores:
        """The scores of these members so far: those of the run's folder, or what `evaluate` returned of them."""
        from untwine.scores import storage
        from untwine.scores.scores import Scores

        stored = [] if self.record is None else storage.read(self.record.path)
        return Scores(storage.of_members([*stored, *self.entries], self.identities()))

    def identities(self) -> dict[str, dict[str, Any]]:
        """The id of each member by its name, and the checksum of its weights; None for weights in no folder."""
        known = {} if self.record is None else self.record.identities()
        return {m.name: known.get(m.name) or {"id": m.id, "weights": None} for m in self.members}

    @property
    def takes_tensors_on(self) -> torch.device:
        """The device on which `encode` takes tensors as they are, so that metrics may draw images there."""
        return self.device

    def __len__(self) -> int:
        return len(self.members)

    def __repr__(self) -> str:
        names = [member.name for member in self.members]
        if len(names) > _SHOWN:
            names = [*names[: _SHOWN - 2], "...", names[-1]]
        members = f"{len(self)} member{'s' * (len(self) > 1)}"
        return f"Ensemble({self._title()}, {self._latents()}, {members}: {listed(names)})"

    def _latents(self) -> str:
        return f"{self.info.latents} latent{'s' * (self.info.latents > 1)}"

    def _repr_html_(self) -> str:
        """The members with the terms that they logged last, for notebooks."""
        heading = f"Ensemble of {self._title()}, {self._latents()}"
        return card(heading, *last_terms([member.name for member in self.members], self.history))

    def _title(self) -> str:
        specs = [member.spec for member in self.members]
        return title(gathered(specs[0], specs))

    @checked("x")
    def encode(self, x: ArrayLike | Tensor, batch: Count | None = None) -> Float[Tensor, "members n latent"]:
        """The posterior means of examples.

        Args:
            x: Examples `[n, *shape]`: images as uint8 or as floats in [0, 1], vectors as floats. Others are refused, as
                their codes would mean nothing.
            batch: How many examples are encoded at once; None decides by the room on the device.
        """
        return self._encoded(lambda vae, x: vae.encode(x), x, batch)

    @checked("x")
    def variances(self, x: ArrayLike | Tensor, batch: Count | None = None) -> Float[Tensor, "members n latent"]:
        """The posterior variances of examples; arguments as in `encode`."""
        return self._encoded(lambda vae, x: vae.posterior(x).variance(), x, batch)

    @checked("x")
    def posteriors(self, x: ArrayLike | Tensor, batch: Count | None = None) -> list[Q]:
        """The posterior q(z | x) of each member at examples; arguments as in `encode`."""
        raw = self._encoded(lambda vae, x: vae.encoder(x), x, batch)
        return [self._stack.template.posterior_kind.build(of_member) for of_member in raw]

    def priors(self) -> list[Distribution]:
        """The prior p(z) of each member, which may be a learned one."""
        with torch.no_grad():
            return [self.member(i).prior() for i in range(len(self))]

    @checked("z")
    def decode(self, z: ArrayLike | Tensor, batch: Count = 512) -> Float[Tensor, "members n ..."]:
        """The mean images of codes.

        Args:
            z: Codes `[n, latent]` for all members, or `[members, n, latent]`.
            batch: How many codes are decoded at once.
        """
        means = self._decoded(lambda vae, z: vae.decode(z), z, batch)
        return means if self._standard is None else means * self._standard[1].cpu() + self._standard[0].cpu()

    @checked("z")
    def jacobian(self, z: ArrayLike | Tensor, batch: Count = 64) -> Float[Tensor, "members n latent ..."]:
        """The Jacobians of the mean image at codes; arguments as in `decode`."""
        columns = self._decoded(lambda vae, z: vae.jacobian(z), z, batch)
        return columns if self._standard is None else columns * self._standard[1].cpu()

    @checked("x")
    def reconstruct(self, x: ArrayLike | Tensor, batch: Count | None = None) -> Float[Tensor, "members n ..."]:
        """The mean images of the posterior means of examples; arguments as in `encode`."""
        return self.decode(self.encode(x, batch))

    @checked()
    def sample(self, n: Count, seed: Whole = 0) -> Float[Tensor, "members n ..."]:
        """The mean images of samples of each member's prior.

        Args:
            n: How many.
            seed: Which samples: members with the same prior get the same codes.
        """
        shape = n, self._stack.template.prior.uniforms
        uniforms = torch.from_numpy(streams.np_uniform(seed, "sample", shape)).float().to(self.device)
        return self.decode(self._stack.map(lambda vae, u: vae.prior.sample(u), self._weights, uniforms, shared=True))

    @checked("a", "b")
    def interpolate(
        self, a: ArrayLike | Tensor, b: ArrayLike | Tensor, steps: Count = 8
    ) -> Float[Tensor, "members n steps ..."]:
        """The mean images along the straight line between the codes of two examples.

        Args:
            a: Examples `[n, *shape]` where the lines begin, or a single one, whose line has no dimension n.
            b: As many examples, where they end.
            steps: The points on a line, both ends included.
        """
        if steps < 2:
            raise UntwineError(f"a line has 2 or more points, not {steps}")
        one = np.ndim(a) == len(self.info.shape)
        first, last = (self.encode(x[None] if one else x) for x in map(_array, (a, b)))
        if first.shape != last.shape:
            raise UntwineError(f"there are {first.shape[1]} examples to begin with, but {last.shape[1]} to end with")
        self._refuse_larger(steps * first.shape[1], "take fewer steps or lines")
        codes = torch.lerp(first[:, :, None], last[:, :, None], torch.linspace(0, 1, steps)[:, None])
        images = self.decode(codes.flatten(1, 2)).unflatten(1, codes.shape[1:3])
        return images[:, 0] if one else images

    @checked()
    def member(self, i: int | str) -> VAE:
        """One member as a plain module, with its own copy of the weights; by its number, or by its name.

        Where a run standardised its images, the module takes and gives standardised ones: `info.standard`
        has the means and standard deviations.
        """
        names = [member.name for member in self.members]
        if isinstance(i, str):
            if i not in names:
                raise unknown("member", i, names)
            i = names.index(i)
        if not -len(self) <= i < len(self):
            raise UntwineError(f"a member is a whole number from 0 to {len(self) - 1}, or a name, not {i!r}")
        return self._stack.model(self._weights, i % len(self))

    def _encoded(self, function: Any, x: ArrayLike | Tensor, batch: int | None) -> Tensor:
        """A function of examples that all members share; the codes stay on the device until all are there."""
        examples = as_examples(x, self.info)
        size = self._at_once() if batch is None else batch

        def mapped() -> Tensor:
            with exact(self.device), _kernels(self.kernels):
                parts = [
                    self._stack.map(function, self._weights, scaled(part.to(self.device), self._standard), shared=True)
                    for part in examples.split(size)
                ]
                return torch.cat(parts, 1).cpu()

        if self.kernels:
            try:
                return mapped()
            except Exception as error:  # whatever a compiler may say: the plain layers compute the same
                self.kernels = False
                why = brief(error)
                warn(f"encoding goes on without kernels for the GPU, which failed ({why})")
        return mapped()

    def _at_once(self) -> int:
        """How many examples to encode at once: a network's layers may take some thirty times an example's room."""
        if self.device.type != "cuda":
            return 512
        room = torch.cuda.mem_get_info(self.device)[0] // 2
        return max(64, min(4096, room // (len(self) * 32 * 4 * math.prod(self.info.shape))))

    def _refuse_larger(self, count: int, cure: str) -> None:
        """Refuse to decode more images than fit into memory."""
        images = len(self) * count
        refuse_larger(4 * images * math.prod(self.info.shape), f"{images:,} images", cure)

    def _decoded(self, function: Any, z: ArrayLike | Tensor, batch: int) -> Tensor:
        """A function of codes, shared or one set for each member, computed in parts, since images are large."""
        given = dense(z, "this tensor of codes") if isinstance(z, Tensor) else torch.from_numpy(numbers(z, "codes"))
        if given.is_complex():
            raise UntwineError("codes must be real numbers")
        codes = given.float()
        shared = codes.ndim == 2
        fits = shared or (codes.ndim == 3 and len(codes) == len(self))
        if not fits or codes.shape[-1] != self.info.latents or not codes.shape[-2]:
            raise UntwineError(
                f"codes must have shape [n, {self.info.latents}] or [{len(self)}, n, {self.info.latents}], "
                f"not {list(codes.shape)}"
            )
        self._refuse_larger(codes.shape[-2], "take fewer codes at a time")
        if not codes.isfinite().all():
            raise UntwineError("codes hold a NaN or an infinity, which no image belongs to")
        with exact(self.device):
            parts = [part.to(self.device) for part in codes.split(batch, -2)]
            return torch.cat([self._stack.map(function, self._weights, p, shared=shared).cpu() for p in parts], 1)


def _array(x: ArrayLike | Tensor) -> np.ndarray | Tensor:
    return x if isinstance(x, Tensor) else np.asarray(x)


def _kernels(wanted: bool) -> contextlib.AbstractContextManager[Any]:
    """A context in which convolutions run as our own kernels, if wanted."""
    return dispatch.fast() if wanted else contextlib.nullcontext()
