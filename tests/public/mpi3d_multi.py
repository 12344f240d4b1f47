"""MPI3D-Multi from the tiny files of MPI3D, which lack most values that it holds: others are held instead."""

from __future__ import annotations

import importlib
import runpy
from pathlib import Path
from typing import Any

import pytest

ARGUMENTS: dict[str, Any] = {"examples": 40}
LENGTH = 40
HELD = {"colour": 1, "shape": 1, "size": 1, "camera": 0, "background": 1}


def publish(folder: Path, patch: pytest.MonkeyPatch) -> None:
    runpy.run_path(str(Path(__file__).with_name("mpi3d.py")))["publish"](folder, patch)
    patch.setattr(importlib.import_module("untwine.data.families.mpi3d"), "HELD", HELD)
