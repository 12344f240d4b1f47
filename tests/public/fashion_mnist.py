"""Tiny files of Fashion-MNIST, whose format is that of MNIST."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ARGUMENTS: dict = {}
LENGTH = 40


def publish(folder: Path, patch: pytest.MonkeyPatch) -> None:
    runpy.run_path(str(Path(__file__).with_name("mnist.py")))["publish"](folder, patch, "fashion_mnist")
