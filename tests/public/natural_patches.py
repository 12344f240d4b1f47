"""A tiny file of the format of Olshausen & Field's pictures: floats [height, width, pictures] in MATLAB's format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from untwine.data.families import patches

ARGUMENTS: dict = {"source": "olshausen", "examples": 20}
LENGTH = 40


def publish(folder: Path, patch: pytest.MonkeyPatch) -> None:
    import scipy.io

    shape = (24, 24, 2)
    patch.setattr(patches, "SHAPE", shape)
    path = folder / patches.FILE.path
    path.parent.mkdir(parents=True, exist_ok=True)
    rows, columns, pictures = np.indices(shape)
    waves = np.sin(rows * (1.3 + pictures)) * np.cos(columns**2 / (9 + pictures)) + 0.2 * pictures
    scipy.io.savemat(path, {"IMAGES": waves})
