"""What an experiment costs on this machine, before it is run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from untwine.bench.devices import describe
from untwine.bench.pace import rough_pace
from untwine.errors import UntwineError
from untwine.experiments.engine import catalogue
from untwine.experiments.engine.rows import Row
from untwine.experiments.engine.store import OUT, PACK, Store
from untwine.train.devices import pick_device
from untwine.train.joining import joined
from untwine.train.run import Run


def changed(seeds: str | None, settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """The settings that differ from a scale's."""
    return {**({} if seeds is None else {"seeds": seeds}), **(settings or {})}


def estimate(
    name: str,
    scale: str,
    device: str = "auto",
    out: str | Path = OUT,
    seeds: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> list[Row]:
    """What `reproduce` would train: a row for each run, with its members, packs and seconds by a few measured steps.

    Args:
        name: The paper and the figure: rhodes2021/fig4.
        scale: smoke, small or paper.
        device: auto, cpu, cuda or mps.
        out: The folder of what is trained already.
        seeds: Other seeds than the scale's.
        settings: Other settings than the scale's.
    """
    experiment = catalogue.find(name)
    plan = experiment.plan(experiment.settings(scale, **changed(seeds, settings)))
    rows, store = [], Store(out)
    for run in store.missing(plan.cases):
        count = len(run.members())
        row = {"method": run.members()[0].method, "dataset": run.dataset["name"], "members": count, "steps": run.steps}
        row |= {"packs": -(-count // PACK)}
        try:
            each = _pace(run, pick_device(device))
            store.note_pace(run.members()[0], hardware(device), each)
            rows.append(row | {"seconds": each * count * run.steps})
        except UntwineError as error:
            rows.append(row | {"seconds": None, "reason": str(error).partition("\n")[0]})
    return rows


def cost(name: str, scale: str, device: str = "auto", out: str | Path = OUT) -> dict[str, Any]:
    """How many members an experiment has, their steps, and the seconds of training as far as they are known here.

    Args:
        name: The paper and the figure.
        scale: smoke, small or paper.
        device: auto, cpu, cuda or mps.
        out: The folder in which paces are kept: those of training, and of `estimate`.
    """
    experiment, store = catalogue.find(name), Store(out)
    plan = experiment.plan(experiment.settings(scale))
    members = list({member.id: member for case in plan.cases for member in case.run.members()}.values())
    steps = [member.spec["steps"] for member in members]
    paces = store.paces(members, hardware(device))
    known = [count * pace for count, pace in zip(steps, paces, strict=True) if pace is not None]
    seconds = sum(known) if len(known) == len(members) else None
    return {"members": len(members), "steps": sum(steps), "seconds": seconds}


def hardware(device: str) -> str:
    """The name of what a device is."""
    return describe(pick_device(device))["hardware"]


def _pace(run: Run, device: torch.device) -> float:
    """The seconds of a step for each member of a run, in a pack as it would train, from a few steps."""
    (pack,) = joined(run.members()[:PACK])
    return rough_pace(pack, device)
