"""What a run yields: trained models of equal structure, encoded and decoded all at once."""

from __future__ import annotations

import contextlib
import copy
import json
import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike
from torch import Tensor
from torch.distributions import Distribution

from untwine.errors import UntwineError, brief
from untwine.kernels import dispatch
from untwine.model.info import Info
from untwine.model.posteriors import Q
from untwine.model.vae import VAE
from untwine.train import checkpoint, folder
from untwine.train.batches import constants, scaled
from untwine.train.devices import exact, pick_device
from untwine.train.pack import Stack, build
from untwine.train.paths import obstacle
from untwine.train.run import Member


class Ensemble:
    """Trained members. `encode` and `decode` have the members as their first dimension."""

    def __init__(
        self, members: Sequence[Member], info: Info, states: Sequence[dict[str, Tensor]], device: torch.device
    ):
        self.members, self.info, self.device = list(members), info, device
        models = []
        for member, state in zip(members, states, strict=True):
            model = build(member, info)
            try:
                model.load_state_dict(state)
            except RuntimeError as error:
                raise UntwineError(f"the weights of {member.name} do not fit its network: {error}") from None
            models.append(model.eval())
        self._stack = Stack(models, device)
        self._standard = constants(info.standard, device)
        self.kernels = not obstacle(device, self._stack.batching)  # whether encoders run as our own, where these fit
        self.history: list[dict[str, Any]] = []

    @property
    def takes_tensors_on(self) -> torch.device:
        """`encode` takes tensors of this device as they are: metrics draw images there."""
        return self.device

    def __len__(self) -> int:
        return len(self.members)

    def __repr__(self) -> str:
        names = ", ".join(member.name for member in self.members)
        method = self.members[0].spec["method"].get("name", "objective")
        return f"Ensemble({method}: {names}; {self.info.latents} latents, examples {list(self.info.shape)})"

    def encode(self, x: ArrayLike | Tensor, batch: int | None = None) -> Float[Tensor, "members n latent"]:
        """The posterior means of examples `[n, *shape]`: images as uint8, or as floats in [0, 1]; other floats."""
        return self._encoded(lambda vae, x: vae.encode(x), x, batch)

    def variances(self, x: ArrayLike | Tensor, batch: int | None = None) -> Float[Tensor, "members n latent"]:
        """The posterior variances of examples."""
        return self._encoded(lambda vae, x: vae.posterior(x).variance(), x, batch)

    def posteriors(self, x: ArrayLike | Tensor, batch: int | None = None) -> list[Q]:
        """The posteriors q(z | x) of examples, of each member."""
        raw = self._encoded(lambda vae, x: vae.encoder(x), x, batch)
        return [self._stack.template.posterior_kind.build(one) for one in raw]

    def priors(self) -> list[Distribution]:
        """The prior p(z) of each member, which may be a learned one."""
        with torch.no_grad():
            return [self.member(i).prior() for i in range(len(self))]

    def decode(self, z: ArrayLike | Tensor, batch: int = 512) -> Float[Tensor, "members n ..."]:
        """The mean images of codes `[n, latent]`, or `[members, n, latent]` for codes of each member."""
        means = self._decoded(lambda vae, z: vae.decode(z), z, batch)
        return means if self._standard is None else means * self._standard[1].cpu() + self._standard[0].cpu()

    def jacobian(self, z: ArrayLike | Tensor, batch: int = 64) -> Float[Tensor, "members n latent ..."]:
        """The Jacobians of the mean image at codes, `[members, n, latent, *shape]`."""
        columns = self._decoded(lambda vae, z: vae.jacobian(z), z, batch)
        return columns if self._standard is None else columns * self._standard[1].cpu()

    def member(self, i: int) -> VAE:
        """One member as a plain module, with its own copy of the weights.

        Where a run standardised its images, the module takes and gives standardised ones: `info.standard`
        has the means and standard deviations.
        """
        made = copy.deepcopy(self._stack.template).cpu()
        made.load_state_dict(self._stack.state(i))
        for name, buffer in made.named_buffers():  # numbers that a spec has, and a state dict does not
            buffer.copy_(self._stack.buffers[name][i])
        return made.eval()

    def _encoded(self, function: Any, x: ArrayLike | Tensor, batch: int | None) -> Tensor:
        """A function of examples that all members share: they go to the device once, and what comes of them at the end.

        Codes are small, so those of all examples fit there.
        """
        found = x if isinstance(x, Tensor) else torch.from_numpy(np.ascontiguousarray(x))
        if tuple(found.shape[1:]) != self.info.shape or len(found) == 0:
            raise UntwineError(f"examples must have shape [n, {_join(self.info.shape)}], not {list(found.shape)}")
        size = self._at_once() if batch is None else batch

        def mapped() -> Tensor:
            with exact(self.device), _kernels(self.kernels):
                parts = [
                    self._stack.map(function, scaled(part.to(self.device), self._standard), shared=True)
                    for part in found.split(size)
                ]
                return torch.cat(parts, 1).cpu()

        if self.kernels:
            try:
                return mapped()
            except Exception as error:  # whatever a compiler may say: the plain layers do the same
                self.kernels = False
                why = brief(error)
                warnings.warn(f"encoding goes on without kernels for the GPU, which failed ({why})", stacklevel=3)
        return mapped()

    def _at_once(self) -> int:
        """How many examples: on a GPU thousands, if a network's layers may take some thirty times an example's room."""
        if self.device.type != "cuda":
            return 512
        room = torch.cuda.mem_get_info(self.device)[0] // 2
        return max(64, min(4096, room // (len(self) * 32 * 4 * math.prod(self.info.shape))))

    def _decoded(self, function: Any, z: ArrayLike | Tensor, batch: int) -> Tensor:
        """A function of codes, of each member's own or of such as all share, a part at a time: images are large."""
        found = (z if isinstance(z, Tensor) else torch.from_numpy(np.ascontiguousarray(z))).float()
        shared = found.ndim == 2
        own = shared or (found.ndim == 3 and len(found) == len(self))
        if not own or found.shape[-1] != self.info.latents or not found.shape[-2]:
            raise UntwineError(
                f"codes must have shape [n, {self.info.latents}] or [{len(self)}, n, {self.info.latents}], "
                f"not {list(found.shape)}"
            )
        with exact(self.device):
            parts = found.split(batch, -2)
            return torch.cat([self._stack.map(function, p.to(self.device), shared=shared).cpu() for p in parts], 1)


def _kernels(wanted: bool) -> contextlib.AbstractContextManager[Any]:
    """Our own kernels for convolutions while the context lasts."""
    return dispatch.fast() if wanted else contextlib.nullcontext()


def _join(shape: tuple[int, ...]) -> str:
    return ", ".join(str(side) for side in shape)


def load(path: str | Path, device: str = "auto") -> Ensemble:
    """The finished members of a run's folder. Nothing in it is executed."""
    for entry in folder.read(Path(path))["members"]:
        if entry["state"] == "diverged":
            warnings.warn(f"{entry['name']} diverged at step {entry['steps']} and is left out", stacklevel=2)
        elif entry["state"] != "done":
            warnings.warn(f"{entry['name']} is not finished and is left out", stacklevel=2)
    return gather(Path(path), pick_device(device))


def gather(path: Path, device: torch.device, ids: Sequence[str] | None = None) -> Ensemble:
    """The finished members of a folder (those of some ids, in their order), without a word about the others."""
    content = folder.read(path)
    entries = content["members"]
    if ids is not None:
        entries = sorted((e for e in entries if e["id"] in ids), key=lambda entry: ids.index(entry["id"]))
    done = [entry for entry in entries if entry["state"] == "done"]
    if not done and all(entry["state"] == "diverged" for entry in entries):
        raise UntwineError(f"every member asked for diverged ({path}): try a smaller learning rate, or clip=1.0")
    if not done:
        raise UntwineError(f"no member of {path} is finished; go on with: {folder.how_to_resume(path)}")
    states = []
    for entry in done:
        try:
            states.append(checkpoint.read_tensors(path / entry["file"], entry["sha256"]))
        except (OSError, ValueError) as error:
            raise UntwineError(f"the weights of {entry['name']} cannot be used: {error}") from None
    standard = content.get("standard")
    standard = None if standard is None else (tuple(standard[0]), tuple(standard[1]))
    info = Info(done[0]["spec"]["latents"], tuple(content["shape"]), content["data_size"], standard)
    ensemble = Ensemble([folder.to_member(entry) for entry in done], info, states, device)
    log = path / "log.jsonl"
    if log.exists():
        ensemble.history = [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")]
    return ensemble
