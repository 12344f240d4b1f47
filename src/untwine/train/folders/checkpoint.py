"""Checkpoints: complete or absent, and with a checksum that shows damage."""

from __future__ import annotations

import contextlib
import hashlib
import re
from pathlib import Path
from typing import Any, NamedTuple

from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from untwine import files
from untwine.errors import brief, warn

# The names that are written here, and those of files that a killed process left unfinished. Nothing else is removed.
_FINISHED = r"step-([0-9]{9,})\.(json|safetensors)"
_OURS = re.compile(rf"{_FINISHED}|\.{_FINISHED}\.[0-9]+\.part")
SEAL = "checksum"  # of everything else that a checkpoint says of itself
KEEP = 2  # checkpoints, of which the older one serves if the newer one is damaged


def write(path: Path, content: bytes) -> str:
    """Write a file at once, so that it is never there in part; return its sha256."""
    files.write(path, content)
    return hashlib.sha256(content).hexdigest()


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> str:
    """Write tensors as safetensors; return the sha256 of the file."""
    return write(path, save_tensors({k: v.detach().cpu().contiguous() for k, v in tensors.items()}))


def read_tensors(path: Path, sha256: str | None = None) -> dict[str, Tensor]:
    """The tensors of a file; a ValueError if its checksum is not `sha256`, or if it is no safetensors file."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is no file")
    content = path.read_bytes()
    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
        raise ValueError(f"{path} does not have the checksum that was written down for it")
    try:
        return load_tensors(content)
    except Exception as error:  # of a header that claims what cannot be: many kinds
        raise ValueError(f"{path} is no safetensors file: {brief(error)}") from None


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
    content = {**about, "step": step, "sha256": sha256}
    files.write_json(folder / f"{name}.json", files.sealed(content, SEAL))
    kept = sorted(_steps(folder), reverse=True)[:KEEP]
    for path, number, _ in _ours(folder):
        if number not in kept:
            path.unlink(missing_ok=True)


def _ours(folder: Path) -> list[tuple[Path, int, bool]]:
    """The files that checkpoints are made of: each with its step, and whether it is one that completes a checkpoint.

    Links are not ours, nor is what a link to another folder leads to.
    """
    if folder.is_symlink() or not folder.is_dir():
        return []
    found = []
    for path in folder.iterdir():
        match = _OURS.fullmatch(path.name)
        if match and not path.is_symlink() and path.is_file():
            found.append((path, int(match[1] or match[3]), match[2] == "json"))
    return found


def _steps(folder: Path) -> list[int]:
    return [number for _, number, complete in _ours(folder) if complete]


class Saved(NamedTuple):
    """A checkpoint: its step, its tensors, and what it says of itself."""

    step: int
    tensors: dict[str, Tensor]
    about: dict[str, Any]


def newest(folder: Path, about: dict[str, Any]) -> Saved | None:
    """The newest checkpoint of the same thing; damaged ones are reported.

    Args:
        folder: The folder of the checkpoints.
        about: What the checkpoint must be of (see `save`).
    """
    damaged, found = dict[Path, Exception](), None
    for step in sorted(_steps(folder), reverse=True):
        path = folder / f"step-{step:09d}.json"
        try:
            content = _content(path)
            if any(content.get(key) != value for key, value in about.items()):
                continue
            found = Saved(step, read_tensors(path.with_suffix(".safetensors"), content["sha256"]), content)
            break
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            damaged[path.with_suffix("")] = error
    instead = "training begins anew" if found is None else "an older one is used"
    for path, error in damaged.items():
        warn(f"checkpoint {path} is damaged ({error}); {instead}")
    return found


def _content(path: Path) -> dict[str, Any]:
    """What a checkpoint says of itself; a ValueError if it was changed. Those of earlier versions have no checksum."""
    content = files.parse_json(path.read_bytes())
    if not files.is_intact(content, SEAL):
        raise ValueError(f"{path} was changed")
    return content


def clear(folder: Path) -> None:
    """Remove all checkpoints."""
    for path, _, _ in _ours(folder):
        path.unlink(missing_ok=True)
    if not folder.is_symlink():
        with contextlib.suppress(OSError):  # files that are not ours stay
            folder.rmdir()
