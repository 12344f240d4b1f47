"""What units cost on this machine, before they are computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from untwine.bench.devices import describe
from untwine.bench.pace import rough_pace
from untwine.errors import UntwineError
from untwine.launch.members import Members, kind
from untwine.launch.units import Unit
from untwine.train.devices import pick_device
from untwine.train.run import Run


def estimate(units: Sequence[Unit], store: Members, device: str, keep: bool = True) -> list[dict[str, Any]]:
    """A row for all units of a kind: method, dataset, members, steps, packs, and seconds by a few measured steps.

    Seconds are those of one worker. Where a kind cannot be tried, for want of its data, `reason` says why.

    Args:
        units: The units; those that are only scored are left out.
        store: Keeps the measured pace of each kind.
        device: auto, cpu, cuda or mps.
        keep: Whether the paces are written down.
    """
    alike: dict[str, list[Run]] = {}
    for unit in units:
        if unit.run is not None:
            alike.setdefault(f"{kind(unit.run.members()[0], '')} {unit.run.steps}", []).append(unit.run)
    rows = []
    for runs in alike.values():
        first, count = runs[0].members()[0], sum(len(run.seeds) for run in runs)
        row: dict[str, Any] = {"method": first.method, "dataset": runs[0].dataset["name"], "members": count}
        row |= {"steps": runs[0].steps, "packs": len(runs)}
        try:
            each = rough_pace(max(runs, key=lambda run: len(run.seeds)), pick_device(device))
            if keep:
                store.note_pace(first, hardware(device), each)
            rows.append(row | {"seconds": each * count * runs[0].steps})
        except UntwineError as error:
            rows.append(row | {"seconds": None, "reason": str(error).partition("\n")[0]})
    return rows


def hardware(device: str) -> str:
    """The name of what a device is."""
    return describe(pick_device(device))["hardware"]
