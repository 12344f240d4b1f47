"""Which path a pack takes through its steps: the plain one, or the fast one for GPUs."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec

import torch

from untwine.errors import UntwineError, warn

PATHS = ("auto", "fast", "plain")
LONG = 2_000  # steps that repay half a minute of compiling


def obstacle(device: torch.device, batching: str) -> str:
    """Why the fast path cannot be taken; empty if it can.

    Args:
        device: Where to train.
        batching: How members are mapped, "vmap" or "loop".
    """
    if device.type != "cuda":
        return f"it is for cuda, and the device is {device.type}"
    if batching != "vmap":
        return "it trains all members as one, and batching='loop' one by one"
    if torch.cuda.get_device_capability(device) < (7, 0):
        return f"Triton does not know a GPU as old as {torch.cuda.get_device_name(device)}"
    if find_spec("triton") is None:
        return "Triton is not installed: pip install triton"
    if not any(shutil.which(name) for name in (os.environ.get("CC", ""), "gcc", "clang", "cc") if name):
        return "there is no C compiler, which Triton needs: install gcc, or name one in the variable CC"
    return ""


def check_path(path: str, device: torch.device, batching: str) -> None:
    """Refuse an unknown path, or one that cannot be taken (see `choose`)."""
    if path not in PATHS:
        raise UntwineError(f"path is 'auto', 'fast' or 'plain', not {path!r}")
    reason = obstacle(device, batching) if path == "fast" else ""
    if reason:
        raise UntwineError(f"the fast path cannot be taken: {reason}; leave path at 'auto', or use 'plain'")


def choose(path: str, device: torch.device, batching: str, steps: int, began: str | None = None) -> str:
    """The path of a pack, "fast" or "plain".

    Args:
        path: "fast", "plain", or "auto": the path on which the pack began, else the fast one where it pays.
        device: Where to train.
        batching: How members are mapped, "vmap" or "loop".
        steps: The steps of the run.
        began: The path on which an interrupted pack began.
    """
    check_path(path, device, batching)
    wanted = path if path != "auto" else began or ("fast" if device.type == "cuda" and steps >= LONG else "plain")
    reason = obstacle(device, batching) if wanted == "fast" else ""
    if reason:
        warn(f"the fast path cannot be taken: {reason}; training takes the plain one")
    return "plain" if reason else wanted
