"""Devices: which one to use, and what works on it."""

from __future__ import annotations

import contextlib
import functools
import subprocess
import sys
from collections.abc import Iterator

import torch

from untwine.errors import UntwineError

_PROBE = """
import torch
with torch.autocast("cpu", torch.bfloat16):
    x = torch.nn.functional.conv2d(torch.ones(8, 3, 16, 16), torch.ones(32, 3, 4, 4), stride=2)
    torch.nn.functional.linear(x.flatten(1), torch.ones(64, x[0].numel()))
"""


def pick_device(device: str | torch.device = "auto") -> torch.device:
    """The device of a name; "auto" is the first of cuda, mps and cpu that is available."""
    if str(device) == "auto":
        device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        picked = torch.device(device)
    except (RuntimeError, TypeError, ValueError):
        raise UntwineError(f"unknown device {str(device)!r}; use auto, cpu, cuda or mps") from None
    ready = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not ready.get(picked.type, False):
        raise UntwineError(f"device {str(device)!r} is not available here; use auto or cpu")
    return picked


@functools.cache
def _bfloat16_crashes() -> bool:
    """Whether bfloat16 kills a process on this CPU, tried in a process of its own.

    Some virtual machines announce matrix units (AMX) that they do not let a program use.
    """
    return subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, check=False).returncode < 0


def check_precision(precision: str, device: torch.device) -> None:
    """Refuse a precision that cannot work on a device."""
    if precision == "bfloat16" and device.type == "cpu" and _bfloat16_crashes():
        raise UntwineError(
            "bfloat16 crashes on this processor; set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 in the environment "
            "(its matrix units are announced but not usable), or use float32"
        )


@contextlib.contextmanager
def exact(device: torch.device) -> Iterator[None]:
    """A context in which kernels are repeatable, and float32 is not rounded to TF32."""
    if device.type != "cuda":
        yield
        return
    matmul = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
            yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = matmul
