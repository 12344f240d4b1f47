"""What an experiment costs on this machine, before it is run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from untwine.bench.devices import describe, wait
from untwine.errors import UntwineError
from untwine.experiments.engine import catalogue
from untwine.experiments.engine.rows import Row
from untwine.experiments.engine.store import OUT, PACK, Store
from untwine.train.devices import pick_device
from untwine.train.run import Run
from untwine.train.steps.pack import Pack
from untwine.train.steps.table import Table
from untwine.train.steps.trainer import Trainer

TRIED = 5  # steps of which the speed of training is known


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
            each = _seconds_per_step(run, pick_device(device))
            store.note_pace(run.members()[0], hardware(device), each / count)
            rows.append(row | {"seconds": each * run.steps})
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
    members = {member.id: member for case in plan.cases for member in case.run.members()}.values()
    paces = [(member.spec["steps"], store.pace(member, hardware(device))) for member in members]
    known = [steps * pace for steps, pace in paces if pace is not None]
    seconds = sum(known) if len(known) == len(paces) else None
    return {"members": len(paces), "steps": sum(steps for steps, _ in paces), "seconds": seconds}


def hardware(device: str) -> str:
    """The name of what a device is."""
    return describe(pick_device(device))["hardware"]


def _seconds_per_step(run: Run, device: torch.device) -> float:
    """The seconds of one step of all members of a run, on the plain path, from a few steps."""
    tried = run.members()[:PACK]
    table = Table(run.make_dataset(), device, False, TRIED * run.batch_size * len(tried), run.info().standard)
    trainer = Trainer(Pack(tried, run.info(), device), run, table)
    steps = trainer.steps()
    next(steps)  # the first one loads what is needed
    wait(device)
    begun, taken = time.monotonic(), 0
    for _ in zip(range(min(TRIED, run.steps - 1)), steps, strict=False):
        taken += 1
    wait(device)
    return (time.monotonic() - begun) / max(1, taken) * len(run.members()) / len(tried)
