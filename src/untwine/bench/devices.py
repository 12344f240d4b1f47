"""The machine that is measured: its description, and a GPU that nothing else disturbs."""

from __future__ import annotations

import contextlib
import gc
import os
import platform
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch


def describe(device: torch.device) -> dict[str, Any]:
    """The machine on which something is measured, as JSON."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {"torch": torch.__version__, "device": str(device), "hardware": name, "threads": torch.get_num_threads()}


@contextlib.contextmanager
def alone(device: torch.device) -> Iterator[None]:
    """Wait until no other benchmark of this user runs on this GPU, and keep others waiting meanwhile."""
    if device.type != "cuda" or find_spec("fcntl") is None:  # Windows has none
        yield
        return
    import fcntl

    with (Path(tempfile.gettempdir()) / f"untwine-bench-{os.getuid()}-{device.index or 0}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def wait(device: torch.device) -> None:
    """Wait until the device has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def free(device: torch.device) -> None:
    """Give back the memory of the last case, and reset the peak."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def peak_mib(device: torch.device) -> float | None:
    """The most memory that was allocated on a GPU since `free`."""
    return torch.cuda.max_memory_allocated(device) / 2**20 if device.type == "cuda" else None
