"""The runs that a page offers: their members, models and data, loaded when they are first asked for."""

from __future__ import annotations

import functools
import json
import warnings
from collections import Counter, OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from untwine import data
from untwine.data import Dataset
from untwine.errors import UntwineError, unknown
from untwine.explore.models import Model
from untwine.report.runs.opened import found
from untwine.train.devices import pick_device
from untwine.train.folders.record import Record, how_to_resume
from untwine.train.loading import gather

_KEPT = 16  # models in memory


class ExploredRun:
    """A run with at least one finished member.

    Args:
        path: Its folder.
        device: Where to compute.
    """

    def __init__(self, path: Path, device: torch.device):
        self.path, self.device = path, device
        self.record = Record.read(path)
        self.members = {entry["name"]: entry["id"] for entry in self.record.entries if entry["state"] == "done"}
        if not self.members:
            raise UntwineError(f"no member of {path} is finished; go on with: {how_to_resume(path)}")
        self._models: OrderedDict[str, Model] = OrderedDict()

    @functools.cached_property
    def dataset(self) -> Dataset | str:
        """The data of the run, or why they cannot be had."""
        try:
            return _built(json.dumps(self.record.content["run"]["dataset"], sort_keys=True))
        except UntwineError as error:
            return str(error)

    def model(self, member: str) -> Model:
        """The model of a member."""
        if member not in self.members:
            raise unknown(f"member of {self.path}:", member, self.members)
        if member not in self._models:
            dataset = self.dataset if isinstance(self.dataset, Dataset) else None
            self._models[member] = Model(gather(self.record, self.device, [self.members[member]]), dataset)
        self._models.move_to_end(member)
        if len(self._models) > _KEPT:
            self._models.popitem(last=False)
        return self._models[member]

    def about(self) -> dict[str, Any]:
        """What a page says of the run before a model is loaded."""
        spec = self.record.content["run"]
        return {
            "path": str(self.path),
            "method": spec["method"].get("name", "objective").replace("_", "-"),
            "dataset": spec["dataset"]["name"].replace("_", "-"),
            "members": list(self.members),
        }


@functools.lru_cache(maxsize=4)
def _built(spec: str) -> Dataset:
    """The dataset of a spec in JSON: runs that are compared mostly share it."""
    return data.build(json.loads(spec))


def open_runs(paths: Sequence[Path], device: str = "auto") -> dict[str, ExploredRun]:
    """The runs of folders by their names; those that cannot be explored are left out with a warning.

    A folder without a run of its own stands for the runs below it. A run is named by its folder, with as much of the
    path as tells it from the others.

    Args:
        paths: The folders.
        device: auto, cpu, cuda or mps.
    """
    picked = pick_device(device)
    runs, failures = [], []
    for folder in found(paths):
        try:
            runs.append(ExploredRun(Path(str(folder)), picked))
        except UntwineError as error:
            failures.append(str(error))
    if not runs:
        raise UntwineError("\n".join(failures))
    for failure in failures:
        warnings.warn(f"left out: {failure}", stacklevel=2)
    return dict(zip(_names([run.path for run in runs]), runs, strict=True))


def _names(paths: Sequence[Path]) -> list[str]:
    """The last parts of each path, as many as are needed to tell it from the others.

    >>> _names([Path("runs/a/beta"), Path("runs/b/beta"), Path("runs/jl1")])
    ['a/beta', 'b/beta', 'jl1']
    """
    parts = [path.resolve().parts for path in paths]
    counts = [1] * len(parts)
    while True:
        names = ["/".join(part[-count:]) for part, count in zip(parts, counts, strict=True)]
        shared = Counter(names)
        longer = [
            count + (shared[name] > 1 and count < len(part))
            for name, count, part in zip(names, counts, parts, strict=True)
        ]
        if longer == counts:
            return names
        counts = longer
