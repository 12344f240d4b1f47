"""What an experiment costs on this machine, before it is run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from untwine.errors import UntwineError
from untwine.experiments.engine import catalogue
from untwine.experiments.engine.rows import Row
from untwine.experiments.engine.store import OUT, Store
from untwine.launch.costs import estimate as of_units
from untwine.launch.costs import hardware


def changed(seeds: str | None, settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """The settings that differ from a scale's."""
    if seeds is not None and "seeds" in (settings or {}):
        raise UntwineError("seeds is given more than once")
    return {**({} if seeds is None else {"seeds": seeds}), **(settings or {})}


def estimate(
    name: str,
    scale: str,
    device: str = "auto",
    out: str | Path = OUT,
    seeds: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> list[Row]:
    """What `reproduce` would train, as `untwine.launch.costs.estimate` says it.

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
    store = Store(out)
    return of_units(store.units(plan.cases, device), store, device)


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
