"""Which path a pack takes through its steps: the plain one, or the fast one, for a GPU."""

from __future__ import annotations

import os
import shutil
import warnings
from importlib.util import find_spec

import torch

from untwine.errors import UntwineError

PATHS = ("auto", "fast", "plain")
LONG = 2_000  # steps that repay half a minute of compiling


def obstacle(device: torch.device, batching: str) -> str:
    """Why the fast path cannot be taken here; nothing if it can."""
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
    """Refuse a path that is none, or one that cannot be taken."""
    if path not in PATHS:
        raise UntwineError(f"path is 'auto', 'fast' or 'plain', not {path!r}")
    against = obstacle(device, batching) if path == "fast" else ""
    if against:
        raise UntwineError(f"the fast path cannot be taken: {against}; leave path at 'auto', or use 'plain'")


def choose(path: str, device: torch.device, batching: str, steps: int, began: str | None = None) -> str:
    """The path of a pack, "fast" or "plain". `auto` goes on as the pack `began`, and else asks if it is worth it."""
    check_path(path, device, batching)
    wanted = path if path != "auto" else began or ("fast" if device.type == "cuda" and steps >= LONG else "plain")
    against = obstacle(device, batching) if wanted == "fast" else ""
    if against:
        warnings.warn(f"the fast path cannot be taken: {against}; training takes the plain one", stacklevel=4)
    return "plain" if against else wanted
