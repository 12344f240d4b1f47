"""Ensembles of what a run has left on the disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from untwine.arguments import checked
from untwine.errors import Diverged, UntwineError, warn
from untwine.model.vae import VAE
from untwine.train.devices import pick_device
from untwine.train.ensemble import Ensemble
from untwine.train.folders.log import read_log
from untwine.train.folders.record import Record, how_to_resume
from untwine.train.member import Member


@checked("path", "device")
def load(path: str | Path | Record, device: str = "auto") -> Ensemble:
    """The finished members of a run. Nothing in its folder is executed.

    Args:
        path: The folder of the run, or the record of it.
        device: "auto", "cpu", "cuda" or "mps".
    """
    record = path if isinstance(path, Record) else Record.read(path)
    for entry in record.entries:
        if entry["state"] == "diverged":
            warn(f"{entry['name']} diverged at step {entry['steps']} and is left out")
        elif entry["state"] != "done":
            warn(f"{entry['name']} is not finished and is left out")
    return gather(record, pick_device(device))


def gather(
    record: Record,
    device: torch.device,
    ids: Sequence[str] | None = None,
    trained: Mapping[str, tuple[Member, VAE]] | None = None,
) -> Ensemble:
    """The finished members of a run, without a warning about the others.

    Args:
        record: What is known of the run.
        device: Where to compute.
        ids: The ids of the members to gather, in their order; None gathers all.
        trained: Members and models that need not be read from files, by id.
    """
    entries, path = record.entries, record.path
    if ids is not None:
        entries = sorted((e for e in entries if e["id"] in ids), key=lambda entry: ids.index(entry["id"]))
    done = [entry for entry in entries if entry["state"] == "done"]
    if not done and all(entry["state"] == "diverged" for entry in entries):
        why = entries[0].get("cause", "try a smaller learning rate, or clip=1.0") if entries else ""
        raise Diverged(f"every member asked for diverged ({path}): {why}")
    if not done:
        raise UntwineError(f"no member of {path} is finished; go on with: {how_to_resume(path)}")
    info, known = record.info(), trained or {}
    pairs = [known[entry["id"]] if entry["id"] in known else record.trained(entry, info) for entry in done]
    ensemble = Ensemble([member for member, _ in pairs], [model for _, model in pairs], device)
    ensemble.record = record
    ensemble.history = read_log(path / "log.jsonl", record.content["packs"])
    return ensemble
