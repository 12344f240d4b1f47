"""What a dataset looks like: a picture of walks along its factors (michlo2023, Figure 2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from untwine.checks import whole
from untwine.data import Dataset
from untwine.data.specs import called, slug
from untwine.errors import UntwineError


def run(dataset: Dataset, steps: int = 8, seed: int = 0, out: str | Path | None = None) -> dict[str, Any]:
    """Draw a column of images for each factor, along which that factor alone changes.

    All columns go through one random state. Of a factor with more values than steps, values at equal distances
    are shown. Of data without factors, random examples are shown.

    Args:
        dataset: Of images.
        steps: How many images each column has, at most.
        seed: Of the state through which the columns go.
        out: The picture, a .png, .pdf or .svg file.
    """
    from untwine import report as pictures
    from untwine.analysis import factor_traversals

    check(dataset, steps, seed, out)
    name = called(dataset)
    target = Path(out) if out is not None else Path("shown") / f"{slug(name)}.png"
    if dataset.factors is None:
        figure = pictures.images(_examples(dataset, steps, seed), title=name)
        columns = {}
    else:
        found = factor_traversals(dataset, steps, seed)
        figure = pictures.factor_traversals(found, title=name)
        columns = {factor: values.tolist() for factor, (values, _) in found.items()}
    try:
        pictures.save(figure, target)
    except OSError as error:
        raise UntwineError(f"cannot write {target}: {error.strerror or error}") from None
    return {"out": str(target), "columns": columns}


def check(dataset: Dataset, steps: int, seed: int, out: str | Path | None) -> None:
    """Refuse at once what has no picture."""
    from untwine.report.figures import kind_of

    whole("steps", steps, 2)
    whole("seed", seed, 0)
    if out is not None:
        kind_of(out)
    if len(dataset.shape) != 3:
        raise UntwineError(
            f"examples of {dataset!r} are vectors of {dataset.shape[0]} numbers: there is no image to show"
        )


def _examples(dataset: Dataset, steps: int, seed: int) -> np.ndarray:
    from untwine.metrics.designs import among

    chosen = among(len(dataset), steps * steps, seed, purpose="shown examples")
    across = min(steps, len(chosen))
    down = len(chosen) // across
    return dataset.batch(chosen[: down * across]).reshape(down, across, *dataset.shape)
