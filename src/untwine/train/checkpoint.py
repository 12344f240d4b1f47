"""Files that are either whole or not there, and checkpoints that know when they are damaged."""

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
KEEP = 2


def write(path: Path, content: bytes) -> str:
    """Write a file, which is there whole or not at all. Returns its sha256."""
    files.write(path, content)
    return hashlib.sha256(content).hexdigest()


def write_json(path: Path, value: Any) -> str:
    return write(path, (json.dumps(value, indent=1, allow_nan=False) + "\n").encode())


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> str:
    return write(path, save_tensors({k: v.detach().cpu().contiguous() for k, v in tensors.items()}))


def read_tensors(path: Path, sha256: str | None = None) -> dict[str, Tensor]:
    """Tensors of a file whose checksum is right, else ValueError."""
    content = path.read_bytes()
    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
        raise ValueError(f"{path} does not have the checksum that was written down for it")
    return load_tensors(content)


def save(folder: Path, step: int, tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
    """A checkpoint: tensors first, then the small file that vouches for them. The newest two are kept."""
    name = f"step-{step:09d}"
    sha256 = write_tensors(folder / f"{name}.safetensors", tensors)
    write_json(folder / f"{name}.json", {**about, "step": step, "sha256": sha256})
    kept = sorted(_steps(folder), reverse=True)[:KEEP]
    for path in folder.glob("*step-*"):
        found = re.search(r"step-(\d{9})", path.name)
        if found and int(found[1]) not in kept:
            path.unlink(missing_ok=True)


def _steps(folder: Path) -> list[int]:
    return [int(found[1]) for path in folder.glob("step-*.json") if (found := _NAME.search(path.name))]


def newest(folder: Path, about: dict[str, Any]) -> tuple[int, dict[str, Tensor]] | None:
    """The newest checkpoint that is whole and is about the same thing; damaged ones are reported."""
    for step in sorted(_steps(folder), reverse=True):
        path = folder / f"step-{step:09d}.json"
        try:
            found = json.loads(path.read_text())
            if any(found.get(key) != value for key, value in about.items()):
                continue
            return step, read_tensors(path.with_suffix(".safetensors"), found["sha256"])
        except Exception as error:
            warnings.warn(f"checkpoint {path.stem} is damaged ({error}); using an older one", stacklevel=2)
    return None


def clear(folder: Path) -> None:
    """Remove all checkpoints."""
    if folder.is_dir():
        for path in folder.glob("*step-*"):
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # what is not ours stays
            folder.rmdir()
