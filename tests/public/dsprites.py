"""A tiny file of dSprites: a few values of each factor, 64 x 64 and four arrays as published."""

from __future__ import annotations

import hashlib
import importlib
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ARGUMENTS: dict[str, Any] = {}
SIZES = (3, 2, 3, 2, 2)
LENGTH = 72


class Trap:
    """Unpickling one of these is an error: the published metadata are pickled, and must not be touched."""

    def __reduce__(self) -> Any:
        return math.sqrt, (-1,)


def arrays() -> dict[str, Any]:
    """The arrays of the file. An image has a bar for each factor, whose length is the value."""
    classes = np.array([(0, *state) for state in np.ndindex(*SIZES)], np.int64)
    imgs = np.zeros((len(classes), 64, 64), np.uint8)
    for image, (_, *state) in zip(imgs, classes, strict=True):
        for factor, value in enumerate(state):
            image[9 * factor + 3 : 9 * factor + 8, 5 : 8 + 7 * value] = 1
    metadata = np.array({"latents_sizes": Trap()}, dtype=object)
    return {"metadata": metadata, "imgs": imgs, "latents_classes": classes, "latents_values": classes / 2 + 0.5}


def write(folder: Path, patch: pytest.MonkeyPatch, **changed: Any) -> None:
    """Write the file, with other arrays if given (None omits one), and make the loader accept it."""
    module = importlib.import_module("untwine.data.families.dsprites")
    (file,) = module.FILES
    path = folder / file.path
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {key: value for key, value in {**arrays(), **changed}.items() if value is not None}
    np.savez_compressed(path, **content)
    published = path.read_bytes()
    checksum = "md5:" + hashlib.md5(published).hexdigest()
    patch.setattr(module, "FILES", (replace(file, checksum=checksum, size=len(published)),))
    patch.setattr(module, "SPACE", replace(module.SPACE, sizes=SIZES))


def publish(folder: Path, patch: pytest.MonkeyPatch) -> None:
    write(folder, patch)
