"""The table of training examples: on the device, or computed as steps need them."""

from __future__ import annotations

import os

import numpy as np
import torch
from jaxtyping import Int64, Shaped
from torch import Tensor

from untwine.data import Dataset, FactorSpace
from untwine.data.moments import Standard
from untwine.errors import UntwineError

_AT_ONCE = 1 << 24  # bytes of examples that are computed in a moment


class Table:
    """Training examples by number: kept on the device if they fit there, else fetched for each step.

    On a CPU no step waits for the examples of later ones: unless they are few or in memory, each is computed when it
    is first needed. On other devices all of them are there before the first step.

    Args:
        dataset: Where the examples come from.
        device: Where they are wanted.
        resident: Whether to put all of them on the device first (True) or to keep none (False); None decides.
        uses: How many examples will be asked for: a table larger than that is not worth making.
        standard: The means and standard deviations with which images are standardised.
        training: The numbers of the examples to train on; None trains on all.
    """

    def __init__(
        self,
        dataset: Dataset,
        device: torch.device,
        resident: bool | None = None,
        uses: int | None = None,
        standard: Standard | None = None,
        training: Int64[np.ndarray, " n"] | None = None,
    ):
        self.dataset, self.device, self.training = dataset, device, training
        self.standard = constants(standard, device)
        kept = False
        if resident is None:
            fits = (uses is None or len(dataset) <= uses) and dataset.nbytes <= _room(device)
            kept = fits and device.type == "cpu" and not dataset.in_memory and dataset.nbytes > _AT_ONCE
            resident = fits and not kept
        self.rows = _on_device(dataset, device) if resident else None
        self.streamed = not (kept or resident)  # fetched for each step, so that it pays to fetch them ahead
        self._batch = Kept(dataset) if kept else dataset.batch
        self._draw = getattr(dataset, "draw", None) if device.type == "cuda" else None

    def observe(self, factors: Tensor) -> Tensor:
        """States `[..., factors]` as float32 examples."""
        flat = factors.flatten(0, -2)
        if self._draw is not None:
            examples = self._draw(flat.to(self.device))
        else:
            examples = torch.from_numpy(self.dataset.observe(flat.cpu().numpy())).to(self.device)
        return scaled(examples, self.standard).unflatten(0, factors.shape[:-1])

    def factors(self, numbers: Tensor) -> Tensor:
        """The factors `[..., factors]` of the examples with these numbers."""
        factors = self.dataset.factors_of(numbers.flatten().cpu().numpy())
        return torch.from_numpy(factors).to(numbers.device).unflatten(0, numbers.shape)

    def __call__(self, numbers: Tensor) -> Tensor:
        """The examples with these numbers, `[..., *shape]`, as float32; images are in [0, 1] or standardised."""
        if self.rows is not None:
            examples = self.rows[numbers.flatten().to(self.device)]
        else:
            examples = torch.from_numpy(self._batch(numbers.flatten().cpu().numpy())).to(self.device)
        return scaled(examples, self.standard).unflatten(0, numbers.shape)


class Kept:
    """Examples of a dataset, each computed when it is first asked for and then kept, in the order of these requests.

    So the memory in use grows with the examples that were seen.

    >>> import untwine.datasets
    >>> dots = untwine.datasets.three_dots(examples=100)
    >>> bool((Kept(dots)(np.array([7, 3, 7])) == dots.batch([7, 3, 7])).all())
    True
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset, self._count = dataset, 0
        self._examples = np.empty((len(dataset), *dataset.shape), dataset.dtype)
        self._places = np.full(len(dataset), -1)  # of the examples that were computed

    def __call__(self, numbers: Int64[np.ndarray, " n"]) -> Shaped[np.ndarray, "n ..."]:
        """The examples with these numbers."""
        new = np.unique(numbers[self._places[numbers] < 0])
        if len(new):
            places = np.arange(self._count, self._count + len(new))
            self._examples[places], self._places[new] = self._dataset.batch(new), places
            self._count += len(new)
        return self._examples[self._places[numbers]]


def _on_device(dataset: Dataset, device: torch.device) -> Tensor:
    """All training examples on the device; a dataset that can draw on a GPU draws them there."""
    draw = getattr(dataset, "draw", None)
    if draw is not None and device.type == "cuda":
        return draw(torch.from_numpy(dataset.factors_of(np.arange(len(dataset)))).to(device))
    return torch.from_numpy(np.ascontiguousarray(dataset.examples())).to(device)


def scaled(x: Tensor, standard: Tensor | None = None) -> Tensor:
    """The input of a network: uint8 images as float32 in [0, 1], other arrays as float32.

    Args:
        x: Examples of a dataset.
        standard: The means and standard deviations by which to standardise them, if any (see `constants`).
    """
    x = x.float().div_(255.0) if x.dtype == torch.uint8 else x.float()
    return x if standard is None else (x - standard[0]) / standard[1]


def constants(standard: Standard | None, device: torch.device) -> Tensor | None:
    """Means and standard deviations as a tensor `[2, channels, 1, 1]`."""
    return None if standard is None else torch.tensor(standard, dtype=torch.float32, device=device)[..., None, None]


def _room(device: torch.device) -> int:
    """The bytes that a dataset may take on a device: half of what is free."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] // 2
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") // 2
    except (ValueError, OSError, AttributeError):
        return 4 << 30


def factors_to_pair(dataset: Dataset) -> FactorSpace:
    """The factors of a dataset; one that cannot be paired is refused."""
    if dataset.factors is None:
        raise UntwineError(
            f"dataset {dataset.spec.get('name')!r} has no factors, and this method trains on pairs of examples that "
            "differ in some of them: use a dataset with factors, such as three_dots or xy_squares"
        )
    if not dataset.complete:
        raise UntwineError(
            f"{dataset!r} does not have exactly one image of every state, and this method trains on pairs of states "
            "that differ in some factors: use a dataset that shows all of them, such as three_dots or xy_squares"
        )
    return dataset.factors
