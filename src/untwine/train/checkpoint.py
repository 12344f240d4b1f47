"""Checkpoints: complete or absent, and with a checksum that shows damage."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import warnings
from pathlib import Path
from typing import Any

from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from untwine import files

_NAME = re.compile(r"step-(\d{9})\.json$")
KEEP = 2  # checkpoints, of which the older one serves if the newer one is damaged


def write(path: Path, content: bytes) -> str:
    """Write a file at once, so that it is never there in part; return its sha256."""
    files.write(path, content)
    return hashlib.sha256(content).hexdigest()


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> str:
    """Write tensors as safetensors; return the sha256 of the file."""
    return write(path, save_tensors({k: v.detach().cpu().contiguous() for k, v in tensors.items()}))


def read_tensors(path: Path, sha256: str | None = None) -> dict[str, Tensor]:
    """The tensors of a file; a ValueError if its checksum is not `sha256`."""
    content = path.read_bytes()
    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
        raise ValueError(f"{path} does not have the checksum that was written down for it")
    return load_tensors(content)


def save(folder: Path, step: int, tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
    """Write a checkpoint, and delete all but the newest two.

    Args:
        folder: The folder of the checkpoints.
        step: The number of steps taken.
        tensors: The state at that step, which is written first.
        about: What the checkpoint is of; it is written beside the checksum of the tensors.
    """
    name = f"step-{step:09d}"
    sha256 = write_tensors(folder / f"{name}.safetensors", tensors)
    files.write_json(folder / f"{name}.json", {**about, "step": step, "sha256": sha256})
    kept = sorted(_steps(folder), reverse=True)[:KEEP]
    for path in folder.glob("*step-*"):
        match = re.search(r"step-(\d{9})", path.name)
        if match and int(match[1]) not in kept:
            path.unlink(missing_ok=True)


def _steps(folder: Path) -> list[int]:
    return [int(match[1]) for path in folder.glob("step-*.json") if (match := _NAME.search(path.name))]


def newest(folder: Path, about: dict[str, Any]) -> tuple[int, dict[str, Tensor]] | None:
    """The step and the tensors of the newest checkpoint of the same thing; damaged ones are reported.

    Args:
        folder: The folder of the checkpoints.
        about: What the checkpoint must be of (see `save`).
    """
    for step in sorted(_steps(folder), reverse=True):
        path = folder / f"step-{step:09d}.json"
        try:
            content = json.loads(path.read_text())
            if any(content.get(key) != value for key, value in about.items()):
                continue
            return step, read_tensors(path.with_suffix(".safetensors"), content["sha256"])
        except Exception as error:
            warnings.warn(f"checkpoint {path.stem} is damaged ({error}); using an older one", stacklevel=2)
    return None


def clear(folder: Path) -> None:
    """Remove all checkpoints."""
    if folder.is_dir():
        for path in folder.glob("*step-*"):
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # files that are not ours stay
            folder.rmdir()
